//! What is seen of a device.

use std::fmt;

use elevator::{Flags, Op, Priority, Process, Sector, Sectors, Span, Time};

/// The name of a task, at most 15 bytes long as in Linux; what is no UTF-8 is shown as `?`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Name([u8; 16]);

impl Name {
    /// From the kernel's form, which ends at the first zero.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes without what follows the end.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        let mut bytes = [0; 16];
        let length = text.len().min(15);
        bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        Self(bytes)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.as_bytes()).replace('\u{fffd}', "?"))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Somebody asked the device for something: a submission (bio), before it is merged and before a scheduler sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When, on `CLOCK_MONOTONIC`.
    pub at: Time,
    /// What is asked. Writing zeroes counts as a discard, as it moves no data.
    pub op: Op,
    /// First sector of the whole disk, also where a partition was asked; [`Sector`] 0 for a flush.
    pub start: Sector,
    /// How much; zero only for a flush.
    pub sectors: Sectors,
    /// What its submitter said.
    pub flags: Flags,
    /// The priority that was set for it or its submitter; `None` if none was.
    pub priority: Option<Priority>,
    /// Who asked: the task in whose name the submission was made. Of write-back that is a kernel worker.
    pub process: Option<Process>,
    /// That task's name.
    pub name: Name,
}

/// What was asked came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completed {
    /// As it arrived.
    pub arrival: Arrival,
    /// When it came back.
    pub at: Time,
    /// Whether it failed.
    pub failed: bool,
}

impl Completed {
    /// From its arrival to its end.
    #[must_use]
    pub const fn latency(&self) -> Span {
        self.at.since(self.arrival.at)
    }
}

/// What happened since the batch before. Each list is in order of time but for what several processors report at once.
#[derive(Clone, Default, Debug)]
pub struct Batch {
    /// What was asked.
    pub arrivals: Vec<Arrival>,
    /// What came back; only if [`Options::completions`](crate::Options::completions).
    pub completed: Vec<Completed>,
    /// Tasks that had asked for something and are gone; only if [`Options::exits`](crate::Options::exits).
    pub exited: Vec<Process>,
}

impl Batch {
    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        self.arrivals.clear();
        self.completed.clear();
        self.exited.clear();
    }

    /// Whether nothing happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.arrivals.is_empty() && self.completed.is_empty() && self.exited.is_empty()
    }
}
