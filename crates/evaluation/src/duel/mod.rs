//! The duel: the kernel's own elevators and Dwell's schedulers, in front of the same emulated drive, with the same programs.
//!
//! ```text
//! kernel's    programs -> loop device with bfq, mq-deadline … -> FUSE -> noop ──────────────┐
//!                                                                                          ├─ emulated drive
//! Dwell's     programs -> loop device with none ──────────────-> FUSE -> stream(deadline) …┘
//! ```
//!
//! Hidden, one more loop device lies on top, so that whoever schedules sees one kernel worker in place of the programs: the
//! world of a VM host, of an NBD server, of a stacked device.
//!
//! A [`Benchmark`] is a set of programs; a [`Testbed`] is what they run on, one for each scheduler; [`Duel`] runs one on the other,
//! and the [`Outcome`]s are what was measured.
//!
//! # What is set up is torn down
//! Everything that a dying process could leave behind is held by a helper process (`helper`): one holds the
//! loop devices and mounts (`devices`) and tears them down when its standard input ends, which happens however the duel ends;
//! another removes files in the same way. Mounts are in a namespace of our own, loop devices end when nobody has them open,
//! and no thread of the process that serves the drive ever waits for that drive.

mod benchmark;
pub mod comparison;
mod devices;
mod direct;
mod error;
mod files;
mod helper;
pub mod model;
mod outcome;
mod parked_tags;
mod parking;
pub mod path_latency;
mod pipe;
pub mod plan;
mod priority;
mod programs;
pub mod report;
mod runner;
mod scheduler;
pub mod table;
mod testbed;

pub use benchmark::{Benchmark, Content, FileSystem, Program, Score, Size};
pub use devices::LONGEST_BYTES;
pub use error::DuelError;
pub use files::tree_files;
pub use helper::{HelperCommand, run_helper};
pub use outcome::{Outcome, TaskOutcome, Waits};
pub use parking::PARKED;
pub use programs::{Blocks, Commits, CopyFile, Engine, Fio, Order, PostMark, Task, Tree};
pub use runner::{Duel, PathLatency, Priorities, RequestKind, SERVICES, Settings, scratch};
pub use scheduler::Scheduler;
pub use testbed::{DriveFactory, Testbed, TestbedOptions};
