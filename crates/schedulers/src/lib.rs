#![doc = include_str!("../README.md")]
//!
//! # Modules and types
//!
//! I/O scheduling policies for [`elevator`] queues.
//!
//! [`Spec::parse`] finds a policy by name and [`Spec::build`] constructs it; [`registry::all`] lists all policies with their
//! tunables and sources.
//!
//! | module | content |
//! |---|---|
//! | [`policies`] | block-level policies |
//! | [`mod@array`] | stream scheduling across the members of a disk array |
//! | [`split`] | policies that also schedule system calls and the page cache |
//! | [`baselines`] | policies for comparisons |
//! | [`parts`] | the data structures that policies are made of |

#![warn(missing_docs)]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod array;
pub mod baselines;
pub mod listing;
pub mod parts;
pub mod policies;
pub mod registry;
pub mod spec;
pub mod split;

#[cfg(test)]
mod testing;

pub use listing::{Environment, Listing, Make};
pub use spec::{Spec, SpecError, SpecErrorKind};
