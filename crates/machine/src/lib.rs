//! A modelled machine in virtual time: processes, the queue of `elevator`, a modelled drive.
//!
//! [`Machine`] runs any number of [`Program`]s against one device and reports what they measured in [`Measured`]. It reads no
//! clock: the same programs, scheduler and drive give the same numbers.

mod alarms;
mod array;
mod block;
mod cluster;
mod engine;
mod fairness;
pub mod kernel;
mod latencies;
mod limit;
mod measure;
mod program;
mod storage;
mod timeline;
mod waits;

pub use array::{ArrayMember, ArraySetup};
pub use cluster::Cluster;
pub use engine::{Failure, Machine, Setup, Stop};
pub use fairness::fairness;
pub use latencies::{Latencies, Latency};
pub use limit::{Limit, LimitRecorder};
pub use measure::{Measured, MemberMeasured, ProcessMeasured, Waits};
pub use program::{Await, Barrier, Io, Next, Program, Rest, Source, Submitter};
pub use timeline::{Point, Recorder, Timeline, Wait};
