//! Workloads of the modelled machine.
//!
//! A [`Workload`] is a set of processes that can be started repeatedly, once for each scheduler. [`builtin`] contains the
//! benchmarks of the papers; [`replay`] turns recordings into closed loops; [`fio`] reads job files; [`scenario`] reads
//! scripts; [`store`] spans several machines.

pub mod builtin;
pub mod contents;
pub mod fio;
pub mod programs;
pub mod replay;
pub mod scenario;
mod steps;
pub mod store;
mod workload;

pub use steps::program_of;
pub use workload::{Processes, Settings, SettingsError, Workload};
