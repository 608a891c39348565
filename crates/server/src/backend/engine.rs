//! What carries a file back end's jobs out.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::Job;
use super::inline::Inline;
use super::threads::Threads;
use super::uring::Uring;

/// The ways to carry jobs out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// io_uring.
    Uring,
    /// A thread for each job that the device takes at once, where io_uring is refused.
    Threads,
    /// At once, in the device's own thread: only for files that live in memory and never make it wait.
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

/// An engine at work.
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
