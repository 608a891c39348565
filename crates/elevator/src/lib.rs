//! The words that everyone in Dwell shares, the contract that a scheduler keeps, and the queue that hosts one.
//!
//! - [`Time`], [`Span`], [`Sector`], [`Sectors`], [`Request`], [`Process`]: the words.
//! - [`Scheduler`] and [`WorkConserving`]: the contract. Events in, decisions out, no clock.
//! - [`Split`](split::Split): what a split-level policy hears and does above the block layer.
//! - [`Queue`](queue::Queue): merging, plugging, request limits, tags, flushes, hot switching. The modelled machine and the
//!   block device are two hosts of the same queue.
//! - [`Checker`](check::Checker): holds any host and any scheduler to the contract, from the queue's events alone.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod array;
pub mod check;
mod inspection;
pub mod model;
pub mod queue;
mod rarely;
mod reason;
mod request;
mod requests;
mod scheduler;
mod sector;
pub mod service_time;
pub mod split;
mod time;
mod tunable;

pub use inspection::{Fact, Item};
pub use rarely::rarely;
pub use reason::{HoldReason, Reason};
pub use request::{
    CauseSet, Direction, Flags, Op, Outcome, Priority, PriorityClass, Process, Request, RequestId,
};
pub use requests::Requests;
pub use scheduler::{
    Angles, Candidate, Decision, Device, Growth, Hold, LastDispatched, Leave, Load, Positioning, Scheduler,
    Side, View, Wake, WorkConserving,
};
pub use sector::{SECTOR_BYTES, Sector, Sectors};
pub use time::{Span, Time};
pub use tunable::{Tunable, TuneError, Value};
