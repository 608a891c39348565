//! Scheduling above the block layer: the hooks of a split-level policy.
//!
//! A block-level scheduler cannot see who caused a write that the kernel issued later, cannot reorder what the file system
//! has put into one transaction, and learns of a write too late. A split policy receives events at three levels:
//!
//! - *system call*: write, fsync, creat and mkdir enter and return; the policy may hold each ([`Split::entered`]). Reads are
//!   scheduled below.
//! - *memory*: a page became dirty, was submitted, or was discarded ([`Split::dirtied`], [`Split::submitted`],
//!   [`Split::freed`]), each with its causes.
//! - *block*: as every [`Scheduler`](crate::Scheduler); each [`Request`](crate::Request) carries its causes.
//!
//! The policy can act ([`Split::act`]): admit a held call, have a file's pages written back, set a timer ([`Split::alarm`]).
//!
//! Block-level writes are never held because of priority: work of higher priority may depend on them.
//!
//! # Sources
//! Yang et al., *Split-Level I/O Scheduling*, SOSP 2015: figure "Multi-Layer Hooks", section "Tags".

use crate::request::{CauseSet, Priority};
use crate::time::{Span, Time};

/// The account that work is done for and charged to: a process, a virtual machine, a tenant. The host defines accounts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Account(pub u32);

/// The terms of an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Terms {
    /// The priority, from which policies derive the account's share.
    pub priority: Priority,
    /// The most work that it may cause, in bytes per second of sequential I/O; `None` for no limit.
    pub rate: Option<u64>,
    /// The target for the duration of its `fsync`; `None` for no target.
    pub fsync_deadline: Option<Span>,
    /// None of its programs runs, so it has no share. Its data may still be written.
    pub has_ended: bool,
}

/// A file, by the host's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct File(pub u64);

impl File {
    /// The metadata of a file system, in the buffer cache. Its offsets are positions on the device. A block is dirty from its first change until it
    /// is written to its place, also while it waits for the commit of a transaction.
    pub const METADATA: Self = Self(u64::MAX);

    /// Whether this is metadata, for whose dirty pages no process waits: the log makes their changes durable.
    #[must_use]
    pub fn is_metadata(self) -> bool {
        self == Self::METADATA
    }
}

/// The id of a system call from [`Split::entered`] to [`Split::returned`]. The host may reuse it afterwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId(pub u32);

/// The operation of a system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CallKind {
    /// Reads from the page cache or the disk. Split policies admit it; policies without a block-level part use it.
    Read {
        /// The number of bytes.
        bytes: u64,
    },
    /// Writes into the page cache.
    Write {
        /// The file.
        file: File,
        /// The number of bytes.
        bytes: u64,
    },
    /// Makes a file durable.
    Fsync {
        /// The file.
        file: File,
    },
    /// Creates a file.
    Create,
    /// Creates a directory.
    Mkdir,
    /// Has submitted a request to the block layer itself: a read, or a direct write. It is in the queue; what a policy may hold is the process, before
    /// it submits more. A device has room for a limited number of requests, so that a process whose requests wait there takes the room of others.
    Submit,
}

impl CallKind {
    /// The system call's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Fsync { .. } => "fsync",
            Self::Create => "create",
            Self::Mkdir => "mkdir",
            Self::Submit => "submit",
        }
    }
}

/// A system call that a split policy may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SystemCall {
    /// The id.
    pub id: CallId,
    /// The account.
    pub account: Account,
    /// The operation.
    pub kind: CallKind,
}

/// Whether a system call may proceed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Verdict {
    /// At once.
    Proceed,
    /// Not before [`Action::Admit`].
    Hold,
}

/// A page of the page cache, or the part of it that one call wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// The file, or [`File::METADATA`].
    pub file: File,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// The number of bytes that will be written.
    pub bytes: u32,
}

/// An action that a split policy requests from the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Admit this held call.
    Admit(CallId),
    /// Write back some dirty pages of a file, oldest first. No process waits for them.
    WriteBack {
        /// The file.
        file: File,
        /// The most pages.
        pages: u32,
    },
}

/// The part of a policy above the block layer.
///
/// A policy that takes over a live queue first receives the present state: accounts, sets of causes, dirty pages (through
/// [`dirtied`](Self::dirtied)), and held calls, which enter again. It gets no event for calls that its predecessor admitted,
/// not even their return.
///
/// After each call of these methods, and of the scheduler's, the host calls [`act`](Self::act) until it returns `None`.
pub trait Split {
    /// The terms of an account: before any other event of the account, and again when they change.
    fn account(&mut self, now: Time, account: Account, terms: Terms);

    /// An account is gone: it has no calls and no dirty pages. Its number may be given to another account, which owes nothing.
    fn forget(&mut self, _now: Time, _account: Account) {}

    /// The members of a set of causes: before any event with the set. In the sets of requests, a member that caused more is named several times.
    fn causes(&mut self, set: CauseSet, members: &[Account]);

    /// A system call begins.
    fn entered(&mut self, now: Time, call: &SystemCall) -> Verdict;

    /// A system call ended. A held one has gone on, or was interrupted, without the policy's decision: the policy forgets it.
    fn returned(&mut self, _now: Time, _call: &SystemCall) {}

    /// A page became dirty because of `causes`. `before`: the causes of a page that was dirty already.
    fn dirtied(&mut self, now: Time, page: &Page, causes: CauseSet, before: Option<CauseSet>);

    /// A dirty page was submitted to the block layer. The request that carries it may carry other pages too, and has the
    /// causes of all.
    fn submitted(&mut self, _now: Time, _page: &Page, _causes: CauseSet) {}

    /// A dirty page was discarded (its file was truncated or removed) and will not be written.
    fn freed(&mut self, now: Time, page: &Page, causes: CauseSet);

    /// The next action.
    fn act(&mut self, now: Time) -> Option<Action>;

    /// When to call [`act`](Self::act) again, if no event comes first.
    fn alarm(&self) -> Option<Time> {
        None
    }
}
