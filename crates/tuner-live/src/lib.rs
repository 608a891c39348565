//! The tuner on a live device: watches it, decides with [`tuner::Analyser`], switches its scheduler and restores it.
//!
//! The crate `tuner` has no clock and no files; this crate has both. Everything that is read or written in the system is named by a path, and
//! requests come from a [`capture::Source`], so that tests run on trees and sources of their own.
//!
//! | module | what |
//! |---|---|
//! | `live_tuner` | one window after the other: observe, decide, switch, report |
//! | `observe`, `busy` | windows from a capture's events; busy time |
//! | `fairness_unit` | processes or control groups whose shares are compared |
//! | `counters` | the kernel's counters, read on standby |
//! | `arms`, `module_elevators` | the schedulers to choose from, among them the kernel module's |
//! | `queue`, `claim` | a queue's settings in sysfs; the lock on a device |
//! | `stable` | properties that identify a device at the next start |
//! | `settings_backup` | the previous settings, restored at the end or by the next run |
//! | `files` | files and directories that other users cannot redirect |
//! | `database`, `identity` | what was learned, by drive |
//! | `learned`, `chart` | edits and charts of what was learned |
//! | `status` | the status for users and Prometheus |
//! | `outside`, `system` | metrics from outside the block layer; priorities, CPU time |

pub mod arms;
mod busy;
pub mod chart;
mod claim;
mod counters;
pub mod database;
mod error;
mod fairness_unit;
mod files;
pub mod identity;
mod kernel_defaults;
mod kernel_settings;
pub mod learned;
mod live_tuner;
mod module_elevators;
mod observe;
pub mod outside;
mod queue;
pub mod settings_backup;
mod stable;
pub mod status;
pub mod system;
#[cfg(test)]
mod testing;

pub use claim::released_within;
pub use counters::{Counters, Traffic};
pub use error::Error;
pub use fairness_unit::{Cgroups, FairnessUnit, ThreadGroups};
pub use kernel_settings::scheduler_settings;
pub use live_tuner::{LiveTuner, Outcome, Settings, in_words};
pub use observe::{IsLost, Seen, Windower};
pub use queue::{QueueSettings, SETTINGS};
pub use stable::Property;
