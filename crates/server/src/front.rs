//! The one trait of front ends: the ways in which a client or a kernel asks a device for something.

use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

pub use ::control::protocol::ClientState as Client;
use elevator::queue::Accepted;
use elevator::{Process, Time};

use crate::backend::Geometry;
use crate::device::{Answer, Ask, Device, FrontIndex};
use crate::poller::{Interest, Poller, Source};

/// What a front end may do to the device while it is called.
pub struct Host<'a> {
    pub(crate) device: &'a mut Device,
    pub(crate) poller: &'a Poller,
    pub(crate) front: FrontIndex,
    /// The time of this call.
    pub now: Time,
}

impl Host<'_> {
    /// Asks for something; the answer comes by [`FrontEnd::answered`].
    pub fn submit(&mut self, ask: Ask) -> Accepted {
        self.device.submit(self.now, self.front, ask)
    }

    /// The device, its pool of memory, its back end.
    pub const fn device(&mut self) -> &mut Device {
        self.device
    }

    /// What the device is like.
    #[must_use]
    pub fn geometry(&mut self) -> Geometry {
        self.device.backend().geometry()
    }

    /// A process is gone.
    pub fn exited(&mut self, process: Process) {
        self.device.exited(self.now, process);
    }

    /// Waits for a descriptor; [`FrontEnd::ready`] is called with `number`.
    ///
    /// # Errors
    /// The descriptor cannot be polled.
    pub fn watch(&self, fd: impl AsFd, number: u32, interest: Interest) -> io::Result<()> {
        self.poller.add(fd, Source { front: self.front, number }, interest)
    }

    /// Waits for something else on a descriptor.
    ///
    /// # Errors
    /// It was never watched.
    pub fn rewatch(&self, fd: impl AsFd, number: u32, interest: Interest) -> io::Result<()> {
        self.poller.modify(fd, Source { front: self.front, number }, interest)
    }

    /// Waits for a descriptor no longer.
    ///
    /// # Errors
    /// It was never watched.
    pub fn unwatch(&self, fd: impl AsFd) -> io::Result<()> {
        self.poller.remove(fd)
    }
}

/// A way in. It is called by the device's thread and must never make it wait.
pub trait FrontEnd {
    /// Once, before anything else.
    ///
    /// # Errors
    /// It cannot start; the server then does not.
    fn start(&mut self, host: &mut Host<'_>) -> io::Result<()>;

    /// Where clients may connect, once it has started, as it is written on a command line.
    fn addresses(&self) -> Vec<String> {
        Vec::new()
    }

    /// What was watched under `number` is ready.
    fn ready(&mut self, number: u32, host: &mut Host<'_>);

    /// An operation ended.
    fn answered(&mut self, answer: Answer, host: &mut Host<'_>);

    /// The submitter that [`Accepted::Asleep`] put to sleep after the operation `cookie` may go on.
    fn woken(&mut self, cookie: u64, host: &mut Host<'_>);

    /// Everything of this round was told: send what has gathered.
    fn flush(&mut self, host: &mut Host<'_>);

    /// Take nothing more; what was accepted is finished.
    fn stop(&mut self, host: &mut Host<'_>);

    /// Whether, after [`stop`](Self::stop), nothing is left to be done.
    fn is_done(&self) -> bool;

    /// When [`timer`](Self::timer) shall be called, if ever.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// The time named by [`due`](Self::due) has come.
    fn timer(&mut self, _host: &mut Host<'_>) {}

    /// Who is connected.
    fn clients(&self) -> Vec<Client> {
        Vec::new()
    }
}
