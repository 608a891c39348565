//! What is observed of a device: the vocabulary that observers (`capture`) and deciders (`tuner`, `ioanalyzer`) share.
//!
//! | type | contents |
//! |---|---|
//! | [`Window`], [`Windows`] | the accesses of one period |
//! | [`Performance`], [`Metric`] | what a window achieved, and the number of it that counts |
//! | [`Input`] | a window as a decider gets it |
//! | [`throughput`] | measured throughput by request size, and the scheduler with the greatest |

#![forbid(unsafe_code)]

mod input;
mod metric;
pub mod throughput;
mod window;

pub use input::{Input, SchedulerId};
pub use metric::{
    Better, Completion, Latency, LatencyClass, LatencyStatistic, Metric, Performance, Tally, VALUE_MAX, jain,
};
pub use window::{Access, Window, Windows};
