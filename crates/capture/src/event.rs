//! Events of a device.

use std::fmt;

use elevator::{Flags, Op, Priority, Process, Sector, Sectors, Span, Time};

/// The name of a task, at most 15 bytes as in Linux; invalid UTF-8 is shown as `?`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Name([u8; 16]);

impl Name {
    /// From the kernel's form, which ends at the first zero byte.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes before the end.
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

/// A submission (bio) to the device, before merging and before a scheduler sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The time on `CLOCK_MONOTONIC`.
    pub at: Time,
    /// The operation. Writing zeroes counts as a discard, because it moves no data.
    pub op: Op,
    /// The first sector, counted on the whole disk; [`Sector`] 0 for a flush.
    pub start: Sector,
    /// The length; zero only for a flush.
    pub sectors: Sectors,
    /// The submitter's flags.
    pub flags: Flags,
    /// The priority of the submission or its submitter, if one was set.
    pub priority: Option<Priority>,
    /// The submitting task. For writeback that is a kernel worker.
    pub process: Option<Process>,
    /// That task's name.
    pub name: Name,
}

/// A completed submission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completed {
    pub arrival: Arrival,
    /// The time of completion.
    pub at: Time,
    /// Whether it failed.
    pub failed: bool,
}

impl Completed {
    /// The time from arrival to completion.
    pub const fn latency(&self) -> Span {
        self.at.since(self.arrival.at)
    }
}

/// The events since the previous batch. Each list is sorted by time, except for events that several CPUs report at once.
#[derive(Clone, Default, Debug)]
pub struct Batch {
    pub arrivals: Vec<Arrival>,
    /// Completions; only with [`Options::completions`](crate::Options::completions).
    pub completed: Vec<Completed>,
    /// Ended tasks that had submitted requests; only with [`Options::exits`](crate::Options::exits).
    pub exited: Vec<Process>,
}

impl Batch {
    /// Empties the lists and keeps their memory.
    pub fn clear(&mut self) {
        self.arrivals.clear();
        self.completed.clear();
        self.exited.clear();
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.arrivals.is_empty() && self.completed.is_empty() && self.exited.is_empty()
    }
}
