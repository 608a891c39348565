//! Tasks: what runs in the kernel, one call or one thread each, and what it sleeps on.
//!
//! A call is an `async` function over the kernel's [`State`](super::state::State): it reads like the kernel's own source,
//! top to bottom, and wherever that would sleep it awaits. There is no runtime: the engine polls a task when it may go on,
//! one at a time and in the order in which they were woken, so the same input gives the same run.

mod context;
mod sleep;

pub(super) use context::{Context, Job, Shared};
pub(crate) use sleep::TaskId;
pub(super) use sleep::{Sleepers, Wait};
