//! The set of descriptors that a device's thread waits for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use crate::operation::FrontIndex;

/// Events a call.
const EVENTS: usize = 64;

/// A source of events: a front end's, or the device's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    /// The front end.
    pub front: FrontIndex,
    /// The front end's number for the descriptor.
    pub number: u32,
}

impl Source {
    const fn pack(self) -> u64 {
        (self.front as u64) << 32 | self.number as u64
    }

    const fn unpack(data: u64) -> Self {
        Self { front: (data >> 32) as u8, number: data as u32 }
    }
}

/// Events to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interest {
    /// Readable.
    pub read: bool,
    /// Writable.
    pub write: bool,
}

impl Interest {
    /// Reading only.
    pub const READ: Self = Self { read: true, write: false };

    fn flags(self) -> EventFlags {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, self.read);
        flags.set(EventFlags::OUT, self.write);
        flags
    }
}

/// A set of descriptors.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poller {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: Vec::with_capacity(EVENTS) })
    }

    /// Adds a descriptor. The kernel removes it from the set when the last copy of the descriptor is closed.
    pub fn add(&self, fd: impl AsFd, source: Source, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(source.pack()), interest.flags())?)
    }

    /// Changes the events to wait for.
    pub fn modify(&self, fd: impl AsFd, source: Source, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(source.pack()), interest.flags())?)
    }

    /// Removes a descriptor.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Sleeps until a descriptor is ready or the timeout has passed; `None` has no timeout.
    ///
    /// # Errors
    /// Only from a defect of this process.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.map(|time| Timespec {
            tv_sec: time.as_secs().min(i64::MAX as u64) as i64,
            tv_nsec: i64::from(time.subsec_nanos()),
        });
        self.events.clear();
        let space = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, space, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The `n`th source that was ready after the last wait.
    pub fn ready(&self, n: usize) -> Option<Source> {
        self.events.get(n).map(|event| Source::unpack(event.data.u64()))
    }
}

/// Wakes a device's thread from another one.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// A bell that has not rung.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    pub fn ring(&self) {
        // This fails only after 2^64 rings without a read, when the descriptor is readable anyway.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Resets the bell until the next ring.
    pub fn silence(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
