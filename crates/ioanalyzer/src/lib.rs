//! IOAnalyzer: recognises recurring patterns of I/O and selects the best scheduler for the expected ones.
//!
//! Nou, Giralt, Cortes, "Automatic I/O scheduler selection through online workload analysis", 2012. The complete algorithm, without a
//! clock, a file or a thread; [`Random`](elevator::Random) is its only source of randomness. Comments mark each rule that the paper does not define.
//!
//! | module | paper |
//! |---|---|
//! | [`IoAnalyzer`] | III-D, the flow of decisions |
//! | [`Window`](observation::Window), [`CInfo`] | III-B, III-C: traces and their reduction |
//! | [`dtw`] | III-A: dynamic time warping |
//! | [`Store`], [`Cluster`] | III-D, III-E: stored clusters |
//! | [`chain`], [`Ranking`] | III-A: the dynamic pattern probability chain |
//! | [`Bandit`] | III-D, V: the armed bandit |
//! | [`Metric`](observation::Metric) | III-D, V: the quantity to improve |
//! | [`Parameters`] | III-E |

#![deny(unsafe_code)]

mod algorithm;
mod bandit;
pub mod chain;
mod cluster;
pub mod dtw;
mod parameters;
mod ranking;
mod reduction;
mod store;

pub use algorithm::{Answer, IoAnalyzer, Reason};
pub use bandit::Bandit;
pub use cluster::{Cluster, ClusterId, Successor, Values};
pub use parameters::Parameters;
pub use ranking::Ranking;
pub use reduction::CInfo;
pub use store::{Match, Store};
