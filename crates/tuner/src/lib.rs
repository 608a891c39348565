//! Decides which I/O scheduler serves a device best.
//!
//! Windows in, decisions out: no clock, no file, no thread; [`Random`] is the only source of chance.
//!
//! ```
//! use tuner::{Analyser, Facts, Metric, Parameters, Performance, Random, Tuner, Windows};
//!
//! let names = ["none", "mq-deadline", "bfq"].map(str::to_string).to_vec();
//! let analyser = Analyser::new(names, Metric::Bandwidth, Parameters::default(), Random::new(1))?;
//! let mut tuner = Tuner::new(analyser, "none", true);
//! let mut windows = Windows::of(Parameters::default().t);
//! # let accesses: [tuner::Access; 0] = [];
//! for access in accesses {
//!     if let Some(window) = windows.push(access) {
//!         let performance = Performance::default();
//!         let (scheduler, measured, early, failed) = ("none", None, false, false);
//!         let decision = tuner.window(&Facts { window: &window, scheduler, performance, measured, early, failed });
//!         println!("{}", decision.line(tuner.analyser().schedulers()));
//!     }
//! }
//! # Ok::<(), String>(())
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`Tuner`] | what happens after each window: opening, significance test, standby, or the analyser's decision |
//! | [`Analyser`] | a decider with what it has learned |
//! | [`Decider`] | the interface of deciders: [`ByKinds`], [`ByIoAnalyzer`], [`ByBandit`], or your own |
//! | [`EarlyEnd`] | the condition that ends a trial inside a window |
//! | [`Opening`], [`prior`] | the first trials, and the order in which schedulers are tried |
//! | [`SignificanceTest`] | tests whether the choice of a scheduler has an effect on a device |
//! | [`throughput`] | the scheduler to use without history, from a device's profile |
//! | [`State`] | the learned knowledge, as plain data |
//! | [`Shared`] | what several hosts have learned, as a beginning for others |

#![deny(unsafe_code)]

mod analyser;
mod decider;
mod decision;
mod early_end;
mod kinds;
mod load;
mod measured;
mod observed_load;
mod opened;
mod opening;
pub mod prior;
mod restore;
mod same_load;
mod saved;
mod shared;
mod significance;
mod standby;
mod state;
mod tuner;

pub use analyser::{Analyser, Observed};
pub use decider::{ByBandit, ByIoAnalyzer, ByKinds, Choice, Decider, DeciderName, Fact, Learned};
pub use decision::{Decision, Why};
pub use early_end::EarlyEnd;
pub use elevator::Random;
pub use ioanalyzer::{Bandit, CInfo, Cluster, ClusterId, Match, Parameters, Store, Values};
pub use kinds::{Estimate, KindDecision, Kinds, Knowledge, MeasuredValues, Shape, is_worth_it};
pub use load::Load;
pub use measured::Measured;
pub use observation::throughput;
pub use observation::{
    Access, Better, Completion, Input, Latency, LatencyClass, LatencyStatistic, Metric, Performance,
    SchedulerId, Tally, VALUE_MAX, Window, Windows, jain,
};
pub use opened::Opened;
pub use opening::{Opening, Step};
pub use shared::{Given, Shared, SharedLoad, SharedRating};
pub use significance::{SignificanceTest, Verdict};
pub use state::{ClusterState, Made, State, VERSION};
pub use tuner::{Facts, Tuner};
