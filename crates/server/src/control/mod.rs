//! Live control: inspects a device, switches and tunes its scheduler, and writes its decision log while it serves.
//!
//! The protocol and its client are the crate `control`. A thread reads and writes lines; the device's thread obeys orders between two rounds of
//! its work.

mod metrics;
mod orders;
mod socket;

pub use ::control::{
    Client, DeviceNumber, array_of, device_number, is_removed, mounts, problem, process_for, protocol,
};
pub use orders::SchedulerFactory;
pub(crate) use orders::{Order, Orders, Snapshot, Stop};
pub(crate) use socket::{Line, REFUSED, STOPPED, Socket, obey, state};
pub use socket::{SocketFile, bind_private};
