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
//! A [`Stage`] is what one contestant plays on; a [`Discipline`] is what is played; [`Duel`] lets every contestant play, in
//! turn and again and again, and the [`Outcome`]s are what was measured.
//!
//! # What is put up is taken down
//! Everything that a dying process could leave behind is held by another process of ours (`part`): the stagehand holds the
//! loop devices and mounts and takes them down when its standard input ends, which happens however the duel ends; the
//! caretaker removes files in the same way. Mounts are in a namespace of our own, loop devices end when nobody has them open,
//! and no thread of the process that serves the drive ever waits for that drive.

mod contestant;
mod direct;
mod discipline;
mod duel;
mod error;
mod files;
mod outcome;
mod parking;
mod part;
mod place;
mod programs;
mod stage;
mod stagehand;

pub use contestant::Contestant;
pub use discipline::{Content, Discipline, Part, Place, Scene, Score, Size};
pub use duel::{Duel, Settings, Standing, scratch};
pub use error::DuelError;
pub use outcome::{Outcome, TaskOutcome, Waits};
pub use part::{Troupe, play};
pub use programs::{Blocks, Commits, CopyFile, Engine, Fio, Order, PostMark, Task, Tree};
pub use stage::{Arena, DriveFactory, Stage};
