//! Hosts a scheduler for a block layer that merges, tags and flushes requests itself, as blk-mq does.
//!
//! [`Host`] differs from [`elevator::queue::Queue`] in who owns the requests: here the kernel does, and the host keeps a copy of what
//! a policy needs to see. The kernel names a request by a cookie (its address); the host names it by a [`elevator::RequestId`].
//!
//! Every call happens under one lock per queue. Nothing here sleeps, and after the first requests nothing allocates beyond
//! what the largest number of queued requests needs. A policy's answer is checked before the kernel acts on it. A request
//! that is not queued, or a hold without a deadline, is a [`Fault`]: after it the kernel serves its own list of requests
//! first come, first served, and does not call the policy again.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod elevators;
mod host;

pub use elevators::{ELEVATORS, Elevator};
pub use host::{Fault, Host, Injected, Next, Submission};
