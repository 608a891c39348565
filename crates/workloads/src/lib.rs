//! What a modelled computer's processes do.
//!
//! A [`Workload`] is a set of processes that can be started any number of times, once for every scheduler that it is to
//! be run under. The stream and the cooperative paper's own benchmarks are built in ([`builtin`]); recordings become
//! closed loops in [`replay`]; [`fio`] reads job files; [`store`] spans several machines.

pub mod builtin;
pub mod contents;
pub mod fio;
pub mod programs;
pub mod replay;
pub mod scenario;
mod script;
pub mod store;
mod workload;

pub use script::script;
pub use workload::{Processes, Settings, SettingsError, Workload};
