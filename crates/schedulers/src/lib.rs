//! One file per I/O scheduling policy, and what they share.
//!
//! A policy is found by its name with [`Spec::parse`] and made with [`Spec::build`]; [`registry::all`] lists them with
//! their tunables and sources. The parts that policies are made of are public, since a policy of one's own needs them
//! too: [`SortedIndex`](sorted::SortedIndex), [`Fifo`](fifo::Fifo), [`PerRequest`](per_request::PerRequest).

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod anticipatory;
pub mod array;
mod averages;
pub mod bfq;
pub mod c_scan;
pub mod cfq_2003;
pub mod cfq_2_6_32;
pub mod cfq_2_6_9;
pub mod cooperative;
pub mod deadline;
pub mod elevator_2_4;
pub mod fifo;
mod jiffies;
pub mod kyber;
pub mod listing;
pub mod look;
pub mod mq_deadline;
mod nearest;
pub mod noop;
pub mod per_request;
mod process_rounds;
mod processes;
pub mod registry;
pub mod sorted;
pub mod spec;
pub mod split;
pub mod sptf;
pub mod sstf;
pub mod stream;

#[cfg(test)]
mod testing;

pub use listing::{Environment, Listing, Make};
pub use spec::{Spec, SpecError, SpecErrorKind};
