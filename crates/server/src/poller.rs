//! What a device's thread sleeps on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use crate::device::FrontIndex;

/// Events taken at once.
const EVENTS: usize = 64;

/// What is ready: something of a front end, or of the device itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    /// Whose.
    pub front: FrontIndex,
    /// The front end's own number for it.
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

/// What a source is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interest {
    /// Something can be read.
    pub read: bool,
    /// Something can be written.
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

/// A set of things to sleep on.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    /// The system's limits.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: Vec::with_capacity(EVENTS) })
    }

    /// Adds a source. It leaves the set when its last descriptor is closed.
    ///
    /// # Errors
    /// The descriptor cannot be polled.
    pub fn add(&self, fd: impl AsFd, source: Source, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(source.pack()), interest.flags())?)
    }

    /// Changes what a source is waited for.
    ///
    /// # Errors
    /// It was never added.
    pub fn modify(&self, fd: impl AsFd, source: Source, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(source.pack()), interest.flags())?)
    }

    /// Takes a source out.
    ///
    /// # Errors
    /// It was never added.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Sleeps until something is ready or the time is over; `None` sleeps without end.
    ///
    /// # Errors
    /// None that this process does not cause itself.
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

    /// The `n`th source that the last wait found ready.
    #[must_use]
    pub fn ready(&self, n: usize) -> Option<Source> {
        self.events.get(n).map(|event| Source::unpack(event.data.u64()))
    }
}

/// Wakes a device's thread from another one.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// A bell that nobody has rung.
    ///
    /// # Errors
    /// The system's limits.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// Rings.
    pub fn ring(&self) {
        // It can only fail when it has been rung 2^64 times unheard, and then it rings already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Heard; it is silent until the next ring.
    pub fn silence(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
