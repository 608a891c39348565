//! Recognises what a device is asked to do, and chooses the scheduler that serves it best.
//!
//! Windows in, decisions out: no clock, no file, no thread, and no chance but the [`Random`] that the host seeds.
//!
//! ```
//! use elevator::Span;
//! use tuner::{Analyser, Metric, Observed, Parameters, Random, SchedulerId, Windows};
//!
//! let names = ["none", "mq-deadline", "bfq"].map(str::to_string).to_vec();
//! let mut analyser = Analyser::new(names, Metric::Bandwidth, Parameters::default(), Random::seeded(1))?;
//! let mut windows = Windows::of(Parameters::default().t);
//! # let accesses: [tuner::Access; 0] = [];
//! for access in accesses {
//!     if let Some(window) = windows.push(access) {
//!         let observed = Observed { scheduler: Some(SchedulerId(0)), ..Observed::default() };
//!         let decision = analyser.window(&window, &observed);
//!         println!("{}", decision.line(analyser.schedulers()));
//!     }
//! }
//! # Ok::<(), String>(())
//! ```
//!
//! - [`Analyser`]: the flow of decisions, where a reader of the paper begins.
//! - [`Window`], [`CInfo`]: what is compared. [`dtw`]: how.
//! - [`Store`], [`Cluster`], [`chain`], [`ranking`](Ranking): what is remembered and what follows from it.
//! - [`Bandit`]: what to do about the unknown. [`selector`]: what to do before anything is known.
//! - [`beyond`]: what is not in the paper.
//! - [`State`]: what was learned, to keep.

#![deny(unsafe_code)]

mod analyser;
mod bandit;
pub mod beyond;
pub mod chain;
mod cluster;
mod decision;
pub mod dtw;
mod metric;
mod parameters;
mod random;
mod ranking;
mod reduction;
pub mod selector;
mod state;
mod store;
mod window;

pub use analyser::{Analyser, Observed};
pub use bandit::Bandit;
pub use cluster::{Cluster, ClusterId, SchedulerId, Successor, Values};
pub use decision::{Decision, Restraint, Why};
pub use metric::{Better, Completion, Latency, Metric, Of, Performance, Tally, VALUE_MAX, Which, jain};
pub use parameters::Parameters;
pub use random::Random;
pub use ranking::Ranking;
pub use reduction::CInfo;
pub use state::{ClusterState, Made, State, VERSION};
pub use store::{Match, Store};
pub use window::{Access, Window, Windows};
