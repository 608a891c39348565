//! Disk arrays: layout, the members' operations for an access, and shared controllers.
//!
//! As in Linux's md, each member has a queue and a scheduler of its own. An array is therefore not a [`Drive`](crate::Drive): it
//! divides a request into operations for several drives. The host keeps the queues, and completes a request when the last of its
//! operations completes.

mod access;
mod description;
mod geometry;
mod layout;
mod link;
mod stripe_cache;
mod striped;
pub mod superblock;

pub use access::{Access, Part};
pub use description::{ArrayDescription, ArrayError, ArrayProblem};
pub use geometry::{Geometry, Level, MEMBERS_MAX, MemberSector, Piece};
pub use layout::{Arrangement, ArrayLayoutError, Layout};
pub use link::{Link, Linked};
pub use stripe_cache::StripeCache;
pub use striped::Striped;
