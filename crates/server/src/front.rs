//! The trait of front ends, by which clients and the kernel reach a device.

use std::any::Any;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

pub use ::control::protocol::ClientState as Client;
use elevator::queue::Accepted;
use elevator::{Process, Time};

use crate::backend::Geometry;
use crate::device::Device;
use crate::operation::{Answer, FrontIndex, NewOperation};
use crate::poller::{Interest, Poller, Source};

/// A front end's access to the device during a call.
pub struct Host<'a> {
    pub(crate) device: &'a mut Device,
    pub(crate) poller: &'a Poller,
    pub(crate) front: FrontIndex,
    /// The time of this call.
    pub now: Time,
}

impl Host<'_> {
    /// Submits an operation; [`FrontEnd::answered`] receives its result.
    pub fn submit(&mut self, operation: NewOperation) -> Accepted {
        self.device.submit(self.now, self.front, operation)
    }

    /// The device, its pool of memory, its back end.
    pub const fn device(&mut self) -> &mut Device {
        self.device
    }

    /// The device's properties.
    #[must_use]
    pub fn geometry(&mut self) -> Geometry {
        self.device.backend().geometry()
    }

    /// A process has ended.
    pub fn exited(&mut self, process: Process) {
        self.device.exited(self.now, process);
    }

    /// Waits for a descriptor; [`FrontEnd::ready`] is called with `number`.
    pub fn watch(&self, fd: impl AsFd, number: u32, interest: Interest) -> io::Result<()> {
        self.poller.add(fd, Source { front: self.front, number }, interest)
    }

    /// Changes what is awaited on a descriptor.
    pub fn rewatch(&self, fd: impl AsFd, number: u32, interest: Interest) -> io::Result<()> {
        self.poller.modify(fd, Source { front: self.front, number }, interest)
    }

    /// Stops waiting for a descriptor.
    pub fn unwatch(&self, fd: impl AsFd) -> io::Result<()> {
        self.poller.remove(fd)
    }
}

/// Removes something from the file system when the last copy is dropped.
pub type Guard = Arc<dyn Any + Send + Sync>;

/// A front end. The device's thread calls it, so no method may block.
pub trait FrontEnd {
    /// Called once, before any other method. The server ends if it fails.
    fn start(&mut self, host: &mut Host<'_>) -> io::Result<()>;

    /// Addresses for clients after the start, as on a command line.
    fn addresses(&self) -> Vec<String> {
        Vec::new()
    }

    /// What it has created in the file system, removed with the last copy. The device's thread may not remove files, so another one must have
    /// the last copies, and drop the last of them first.
    fn guards(&self) -> Vec<Guard> {
        Vec::new()
    }

    /// The descriptor watched under `number` is ready.
    fn ready(&mut self, number: u32, host: &mut Host<'_>);

    /// An operation is complete.
    fn answered(&mut self, answer: Answer, host: &mut Host<'_>);

    /// The submitter that had to wait ([`Accepted::Asleep`]) after the operation `cookie` may continue.
    fn woken(&mut self, cookie: u64, host: &mut Host<'_>);

    /// The round ends: do what is due, and send the gathered replies.
    fn flush(&mut self, host: &mut Host<'_>);

    /// Accept no more requests; accepted ones are completed.
    fn stop(&mut self, host: &mut Host<'_>);

    /// Whether, after [`stop`](Self::stop), no work is left.
    fn is_done(&self) -> bool;

    /// When to call [`flush`](Self::flush) at the latest, if nothing else happens.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Connected clients.
    fn clients(&self) -> Vec<Client> {
        Vec::new()
    }
}
