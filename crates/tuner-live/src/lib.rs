//! The tuner on a live device: watches what it is asked, decides with [`tuner::Analyser`], switches, and puts back.
//!
//! The analyser has no clock and no files; this is where both are. Everything that is read or written of the system comes
//! in by a path, and what is asked of a device by a [`capture::Source`], so that tests run on trees and sources made up.
//!
//! | file | what |
//! |---|---|
//! | `keeper` | one window after the other: watch, decide, act, say |
//! | `observe` | from what a source reports to windows |
//! | `busy` | for how much of a window the device had something to do |
//! | `parties` | whose shares are compared: processes, control groups |
//! | `indifference`, `blocks` | where a choice does not matter |
//! | `load` | what is asked of a device, and which loads are alike |
//! | `rest` | whether that is another load while nobody looks |
//! | `arms` | what there is to choose from, in the kernel or on a served device |
//! | `queue`, `claim` | a queue's settings in sysfs, and who alone may switch them |
//! | `space` | settings to be searched |
//! | `journal` | what was set before, put back at the end or by the next run |
//! | `database`, `identity` | what was learned, by drive |
//! | `learned`, `picture` | what users do with it, and how it looks |
//! | `status` | how it is doing, for people and for Prometheus |
//! | `outside`, `system` | numbers from elsewhere; idle priority, processor time |

pub mod arms;
mod busy;
mod claim;
mod counters;
pub mod database;
mod error;
mod fairness_unit;
mod files;
pub mod identity;
pub mod learned;
mod live_tuner;
mod observe;
pub mod outside;
pub mod picture;
mod queue;
pub mod settings_backup;
pub mod space;
pub mod status;
pub mod system;
#[cfg(test)]
mod testing;

pub use counters::Counters;
pub use error::Error;
pub use fairness_unit::{Cgroups, FairnessUnit, ThreadGroups};
pub use live_tuner::{LiveTuner, Outcome, Settings, in_words};
pub use observe::{Seen, Windower};
pub use queue::{QueueSettings, SETTINGS};
