//! Disk arrays: where a sector of the array lies, what an access makes its members do, and what a card does to
//! them.
//!
//! As in Linux's md there is one queue and one scheduler for each member, so an array is no [`Drive`](crate::Drive): it is
//! a way to cut a request into parts for several drives. The host (`machine`) keeps the queues, and completes a request
//! when the last of its parts is.

mod access;
mod description;
mod geometry;
mod link;
mod stripe_cache;
mod striped;

pub use access::{Access, Part};
pub use description::{ArrayDescription, ArrayError};
pub use geometry::{Geometry, Level, MEMBERS_MAX, MemberSector, Piece};
pub use link::{Link, Linked};
pub use stripe_cache::StripeCache;
pub use striped::Striped;
