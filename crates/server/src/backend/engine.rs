//! The engines that execute a file back end's jobs.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::Job;
use super::inline::Inline;
use super::threads::Threads;
use super::uring::Uring;

/// An engine that executes jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// io_uring.
    Uring,
    /// One thread per job of the device's depth, for systems that reject io_uring.
    Threads,
    /// Synchronously in the device's own thread: only for files in memory, which never block.
    Inline,
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Uring => "io_uring",
            Self::Threads => "threads",
            Self::Inline => "inline",
        })
    }
}

/// A running engine.
pub(super) enum Running {
    Uring(Box<Uring>),
    Threads(Threads),
    Inline(Inline),
}

impl Running {
    pub(super) fn start(&mut self, job: Job) {
        match self {
            Self::Uring(engine) => engine.start(job),
            Self::Threads(engine) => engine.start(job),
            Self::Inline(engine) => engine.start(job),
        }
    }

    pub(super) fn submit(&mut self) {
        if let Self::Uring(engine) = self {
            engine.submit();
        }
    }

    pub(super) fn poll(&mut self) -> Option<(Job, Result<(), Errno>)> {
        match self {
            Self::Uring(engine) => engine.poll(),
            Self::Threads(engine) => engine.poll(),
            Self::Inline(engine) => engine.poll(),
        }
    }

    pub(super) fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Uring(engine) => Some(engine.wake_fd()),
            Self::Threads(engine) => Some(engine.wake_fd()),
            Self::Inline(_) => None,
        }
    }

    pub(super) fn kind(&self) -> Engine {
        match self {
            Self::Uring(_) => Engine::Uring,
            Self::Threads(_) => Engine::Threads,
            Self::Inline(_) => Engine::Inline,
        }
    }
}
