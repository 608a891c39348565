#![doc = include_str!("../README.md")]
//!
//! # Modules and types
//!
//! A block-layer queue, the I/O scheduling policies that it hosts, and the contract between both.
//!
//! `examples/host_a_queue.rs` is a small host. A host calls [`Queue`](queue::Queue), which calls a [`Scheduler`].
//!
//! - [`Time`], [`Span`], [`Sector`], [`Sectors`], [`Request`], [`Process`]: the vocabulary.
//! - [`Scheduler`] and [`WorkConserving`]: the contract. Events in, decisions out, no clock. [`Capabilities`]: optional features
//!   of a policy, such as tunables.
//! - [`Split`](split::Split): the hooks of a split-level policy above the block layer.
//! - [`Queue`](queue::Queue): merging, plugging, request limits, tags, flushes, switching of live schedulers.
//!
//! With the feature `testing`:
//!
//! - `check::Checker` verifies a host and its scheduler against the contract, from the queue's events alone.
//! - `model` drives a scheduler with random operations against the checker; `check_policy` does so in every setting of the
//!   queue.

#![warn(missing_docs)]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod array;
mod capability;
#[cfg(feature = "testing")]
pub mod check;
#[cfg(feature = "testing")]
pub mod check_policy;
mod cold_path;
mod member;
#[cfg(feature = "testing")]
pub mod model;
pub mod queue;
mod random;
mod reason;
mod request;
mod requests;
mod scheduler;
mod sector;
pub mod service_time;
mod short_path;
pub mod split;
#[doc(hidden)]
pub mod text;
mod time;
mod tunable;
mod view;

pub use capability::{Capabilities, Fact, Inspection, Item};
#[doc(hidden)]
pub use cold_path::cold_path;
pub use random::Random;
pub use reason::{HoldReason, Reason};
pub use request::{
    CauseSet, Direction, Flags, Op, Outcome, Priority, PriorityClass, Process, Request, RequestId,
};
pub use requests::Requests;
pub use scheduler::{
    Admission, Candidate, Decision, Growth, Hold, Load, Scheduler, Side, Wake, WorkConserving,
};
pub use sector::{SECTOR_BYTES, Sector, Sectors};
pub use short_path::ShortPath;
pub use time::{Span, Time};
pub use tunable::{Tunable, TuneError, Tuning, Value, ValueError};
pub use view::{Angles, Device, LastDispatched, Positioning, View};
