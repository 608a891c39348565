//! What is asked of a device, and what is known of who asked.

use core::fmt;

use crate::sector::{Sector, Sectors};
use crate::time::Time;

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// Data from the device.
    Read,
    /// Data to the device.
    Write,
    /// These sectors' content is no longer needed.
    Discard,
    /// Everything that completed before is to be made durable; it has no place and no length.
    Flush,
}

impl Op {
    /// The side of the request limits and of most schedulers' queues that it counts on.
    #[must_use]
    pub const fn direction(self) -> Direction {
        match self {
            Self::Read => Direction::Read,
            Self::Write | Self::Discard | Self::Flush => Direction::Write,
        }
    }

    /// Whether somebody waits for it: reads, and what is marked so.
    #[must_use]
    pub const fn is_sync(self, flags: Flags) -> bool {
        matches!(self, Self::Read) || flags.sync
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Discard => "discard",
            Self::Flush => "flush",
        })
    }
}

/// Reads on one side, everything that changes the device on the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// Towards memory.
    Read = 0,
    /// Towards the device.
    Write = 1,
}

impl Direction {
    /// Both, in index order.
    pub const BOTH: [Self; 2] = [Self::Read, Self::Write];

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Read => Self::Write,
            Self::Write => Self::Read,
        }
    }
}

/// I/O priority classes, highest first, as `ioprio_set(2)` has them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum PriorityClass {
    /// Served before all others.
    RealTime,
    /// The usual class.
    #[default]
    BestEffort,
    /// Served when nobody else wants the device.
    Idle,
}

/// A priority class and a level in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Priority {
    /// The class.
    pub class: PriorityClass,
    /// 0 (highest) to 7 (lowest); the kernel's default is 4.
    pub level: u8,
}

impl Default for Priority {
    fn default() -> Self {
        Self { class: PriorityClass::BestEffort, level: 4 }
    }
}

/// Who issued a request, as far as a kernel knows: three numbers, as policies key on different ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Process {
    /// The task (thread); Linux calls it pid.
    pub task: u32,
    /// The thread group; what users call the process.
    pub group: u32,
    /// The I/O context, shared by tasks that were cloned with `CLONE_IO`.
    pub context: u32,
}

impl Process {
    /// A single-threaded process: one number for all three.
    #[must_use]
    pub const fn single(id: u32) -> Self {
        Self { task: id, group: id, context: id }
    }

    /// A thread of `group`, with an I/O context of its own.
    #[must_use]
    pub const fn thread(task: u32, group: u32) -> Self {
        Self { task, group, context: task }
    }
}

/// An interned set of causes: everybody on whose behalf a request exists. What it holds is the host's to say.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CauseSet(pub u32);

/// What a submitter says of its request beyond what and where.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Flags {
    /// Somebody waits for it. Reads always count as synchronous; see [`Request::is_sync`].
    pub sync: bool,
    /// File system metadata.
    pub meta: bool,
    /// Read-ahead: nobody waits for it yet.
    pub ahead: bool,
    /// Durable when it completes (forced unit access); for writes.
    pub fua: bool,
    /// A flush goes before it; for writes.
    pub preflush: bool,
}

/// A queued request's name: dense and small, reused after the request has ended, so that a policy may index
/// arrays with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

impl RequestId {
    /// As an array index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// One request in the queue: what a scheduler sees. It may carry several submissions that were merged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Its name until it ends.
    pub id: RequestId,
    /// A number never used again: order of creation, for logs.
    pub serial: u64,
    /// What it does.
    pub op: Op,
    /// First sector; [`Sector`] 0 for a flush.
    pub start: Sector,
    /// Length; zero only for a flush.
    pub sectors: Sectors,
    /// What its submitter said.
    pub flags: Flags,
    /// Priority of the issuing process.
    pub priority: Priority,
    /// The issuing process, if the host knows it and does not hide it.
    pub process: Option<Process>,
    /// The causes, if the host tags them.
    pub causes: Option<CauseSet>,
    /// When it (its first part) entered the queue. Survives a switch of schedulers.
    pub arrived: Time,
}

impl Request {
    /// The sector behind its last one.
    #[must_use]
    pub fn end(&self) -> Sector {
        self.start + self.sectors
    }

    /// Whether somebody waits for it: reads, and writes marked so.
    #[must_use]
    pub const fn is_sync(&self) -> bool {
        self.op.is_sync(self.flags)
    }

    /// Its direction.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        self.op.direction()
    }
}

/// How a dispatched request came back from the device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// Served.
    Done,
    /// The device failed it.
    Failed,
    /// The device gave it back unserved. The queue sends it again, first of all; the policy hears no more of it.
    GivenBack,
}
