//! Experiments: one workload under many schedulers on a modelled machine, the papers' experiments, and the duel against the kernel's
//! schedulers. The program `dwell` parses a command line and calls this crate.
//!
//! | modules | contents |
//! |---|---|
//! | [`device`] | the modelled drive or array that a name or file describes |
//! | [`input`] | the recording, job file or built-in workload that a name or file describes |
//! | [`machine_setup`], [`runs`] | a modelled machine on that device; one workload under many schedulers |
//! | [`run_setup`] | a script with its machine and device (`dwell run` and the papers' scripts) |
//! | [`device_replay`] | the same workloads on a real device |
//! | [`explain`], [`spool`] | decision logs |
//! | [`papers`] | the papers' experiments, with the published value beside each result |
//! | [`duel`] | real programs on an emulated drive under the kernel's schedulers and ours |
//! | [`regret`] | every workload and drive under many schedulers, each compared with the best for that workload |
//! | [`sweep`] | lists and ranges of tunables, and schedulers with each combination |
//! | [`watch`], [`windows`], [`search_space`] | the tuner's input from modelled queues, recordings and policies |
//! | [`report`] | HTML pages, charts and number formats that all reports share |

#![warn(clippy::print_stderr)]

#[macro_use(say)]
extern crate server;

pub mod device;
pub mod device_replay;
pub mod duel;
mod error;
pub mod explain;
pub mod input;
pub mod interrupt;
pub mod machine_setup;
pub mod papers;
pub mod parallel;
pub mod regret;
pub mod report;
pub mod run_setup;
pub mod runs;
pub mod scheduler_page;
pub mod search_space;
pub mod spool;
pub mod sweep;
pub mod text_file;
pub mod watch;
pub mod windows;

pub use error::Error;
