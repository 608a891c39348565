//! The duel: the kernel's own elevators and Dwell's schedulers, in front of the same emulated drive, with the same programs.
//!
//! ```text
//! kernel's    programs -> loop device with bfq, mq-deadline … -> FUSE -> noop ──────────────┐
//!                                                                                          ├─ emulated drive
//! Dwell's     programs -> loop device with none ──────────────-> FUSE -> stream(deadline) …┘
//! ```
//!
//! With hidden programs, one more loop device is on top, so that the scheduler sees one kernel worker instead of the programs, as in
//! a VM host, an NBD server, or a stacked device.
//!
//! A [`Benchmark`] is a set of programs; a [`Testbed`] has the devices on which they run, one for each scheduler; [`Duel`] runs the
//! benchmarks on the testbeds, and the [`Outcome`]s are the measurements.
//!
//! # Cleanup
//! Helper processes (`helper`) own every resource that would outlive the duel's process. One owns the loop devices and mounts (`devices`)
//! and removes them when its standard input closes, which happens at every end of the duel; another removes files in the same way. Mounts
//! are in a private mount namespace, loop devices are removed at their last close, and no thread of the process that serves the drive waits
//! for that drive.

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
