//! Requests and their issuers.

use core::fmt;

use crate::sector::{Sector, Sectors};
use crate::time::Time;

/// The operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// The content of these sectors is no longer needed.
    Discard,
    /// Makes everything that completed before durable; without position and length.
    Flush,
}

impl Op {
    /// The direction: it selects the request limit, and the queue of most schedulers.
    #[must_use]
    pub const fn direction(self) -> Direction {
        match self {
            Self::Read => Direction::Read,
            Self::Write | Self::Discard | Self::Flush => Direction::Write,
        }
    }

    /// Whether a process waits for it: reads, and operations marked synchronous.
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

/// Reads, and everything that changes the device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// Reads.
    Read = 0,
    /// Writes, discards and flushes.
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

/// I/O priority classes, highest first, as in `ioprio_set(2)`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum PriorityClass {
    /// Served before all others.
    RealTime,
    /// The default class.
    #[default]
    BestEffort,
    /// Served when no other class uses the device.
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

/// The issuer of a request, as a kernel identifies it. Policies use different ones of the three numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Process {
    /// The task (thread); Linux calls it pid.
    pub task: u32,
    /// The thread group (a process to users).
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

/// An interned set of causes: the accounts on whose behalf a request exists. The host defines its members.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CauseSet(pub u32);

/// Properties of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Flags {
    /// A process waits for it. Reads always count as synchronous; see [`Request::is_sync`].
    pub sync: bool,
    /// File-system metadata.
    pub meta: bool,
    /// Read-ahead: no process waits for it yet.
    pub ahead: bool,
    /// Durable when it completes (forced unit access); for writes.
    pub fua: bool,
    /// A flush must precede it; for writes.
    pub preflush: bool,
    /// The data of a write comes from a program's memory and not from the page cache, so that nothing but this program depends on it. Set by hosts of
    /// split-level policies only; recordings do not have it.
    pub direct: bool,
}

/// The id of a queued request: dense and small, reused after the request has ended, so that policies can index arrays with
/// it.
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

/// One request in the queue, as a policy sees it. It may carry several merged submissions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The id, valid until the request ends.
    pub id: RequestId,
    /// A number that is never reused: the order of creation.
    pub serial: u64,
    /// The operation.
    pub op: Op,
    /// First sector; [`Sector`] 0 for a flush.
    pub start: Sector,
    /// Length; zero only for a flush.
    pub sectors: Sectors,
    /// Properties.
    pub flags: Flags,
    /// Priority of the issuing process.
    pub priority: Priority,
    /// The issuing process, if the host reports it and does not hide it.
    pub process: Option<Process>,
    /// The causes, if the host tags them.
    pub causes: Option<CauseSet>,
    /// When its first part entered the queue; unchanged by a switch of schedulers.
    pub arrived: Time,
}

impl Request {
    /// The sector behind its last one.
    #[must_use]
    pub fn end(&self) -> Sector {
        self.start + self.sectors
    }

    /// Whether a process waits for it: reads, and writes marked synchronous.
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

/// How a dispatched request ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// Served.
    Done,
    /// The device failed it.
    Failed,
    /// The device returned it unserved. The queue dispatches it again before all others, without the policy.
    GivenBack,
}
