//! A modelled computer in virtual time: processes above, the queue of `elevator` in the middle, a modelled drive below.
//!
//! [`Machine`] runs any number of [`Program`]s against one device and tells what they would have seen, in
//! [`Measured`]. Nothing here reads a clock: the same programs, scheduler and drive give the same numbers.

mod array;
mod block;
mod cluster;
mod engine;
pub mod kernel;
mod latencies;
mod limit;
mod listeners;
mod measure;
mod program;
mod storage;
mod timeline;
mod waits;

pub use array::{ArrayMember, ArraySetup};
pub use cluster::Cluster;
pub use engine::{Failure, Machine, Setup, Stop};
pub use limit::{Limit, Witness, fairness};
pub use measure::{Latency, Measured, MemberMeasured, ProcessMeasured, Waits};
pub use program::{Await, Io, Meeting, Next, Program, Who};
pub use timeline::{Point, Recorder, Timeline, Wait};
