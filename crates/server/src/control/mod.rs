//! Live control: looking at a device, switching and tuning its scheduler, and its decision log, while it serves.
//!
//! Clients talk to a unix socket, a line of JSON for a line of JSON ([`protocol`]). A thread of its own reads and
//! writes those lines; the device's thread only hears orders, between two rounds of its work.

mod client;
mod metrics;
mod orders;
pub mod protocol;
mod socket;

pub use client::Client;
pub use orders::SchedulerFactory;
pub(crate) use orders::{Order, Orders, Snapshot};
pub(crate) use socket::{Line, REFUSED, Socket, SocketFile, bind_private, state};
