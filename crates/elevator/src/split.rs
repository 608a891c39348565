//! Scheduling above the block layer: the hooks of a split-level policy.
//!
//! A scheduler that sees requests alone cannot know who caused a write that the kernel made later, cannot reorder what the
//! file system has entangled, and learns of a write too late. A split policy hears of work at three levels:
//!
//! - *system call*: write, fsync, creat and mkdir enter and return; each may be held ([`Split::entered`]). Reads are
//!   scheduled below.
//! - *memory*: a page became dirty, went out, or was thrown away ([`Split::dirtied`], [`Split::submitted`],
//!   [`Split::freed`]), each with its causes.
//! - *block*: as every [`Scheduler`](crate::Scheduler); there each [`Request`](crate::Request) carries its causes.
//!
//! And it may act ([`Split::act`]): let a held call go on, have a file's pages written back, be asked again at a time
//! ([`Split::alarm`]).
//!
//! Block-level writes are never held for priority's sake: what they block may be more important than they are.
//!
//! # Sources
//! Yang et al., *Split-Level I/O Scheduling*, SOSP 2015: figure "Multi-Layer Hooks", section "Tags".

use crate::request::{CauseSet, Priority};
use crate::time::{Span, Time};

/// Whom work is done for and charged to: a process, a virtual machine, a tenant. The host says which.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Account(pub u32);

/// What was agreed with an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Terms {
    /// Its priority, from which policies derive its share.
    pub priority: Priority,
    /// The most that it may cause, in bytes a second of sequential I/O; `None` for no limit.
    pub rate: Option<u64>,
    /// How soon its `fsync` shall return; `None` if nobody cares.
    pub fsync_deadline: Option<Span>,
}

/// A file, as the host numbers them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct File(pub u64);

/// A system call's name from [`Split::entered`] to [`Split::returned`]. The host may reuse it afterwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId(pub u32);

/// What a system call is about to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallKind {
    /// Gets bytes, from the page cache or the disk. Split policies let it pass; it is here for policies that know nothing
    /// below the call.
    Read {
        /// How many.
        bytes: u64,
    },
    /// Puts bytes into the page cache.
    Write {
        /// Of which file.
        file: File,
        /// How many.
        bytes: u64,
    },
    /// Makes a file durable.
    Fsync {
        /// Which.
        file: File,
    },
    /// Makes a file.
    Create,
    /// Makes a directory.
    Mkdir,
}

/// A system call that a split policy hears of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SystemCall {
    /// Its name while it lasts.
    pub id: CallId,
    /// Whose it is.
    pub account: Account,
    /// What it does.
    pub kind: CallKind,
}

/// Whether a system call may go on.
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
    /// The file; the host has a number for what belongs to none (its journal, its metadata).
    pub file: File,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// How much will be written, in bytes.
    pub bytes: u32,
}

/// What a split policy has the host do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// This held call goes on.
    Admit(CallId),
    /// So many dirty pages of a file are written back, the oldest first; nobody waits for them.
    WriteBack {
        /// The file.
        file: File,
        /// At most so many.
        pages: u32,
    },
}

/// What a split policy hears and does above the block layer.
///
/// A policy that takes over a live queue is told first what is there: accounts, sets, dirty pages (as in
/// [`dirtied`](Self::dirtied)), and held calls, which enter again. Calls that its predecessor had let go on are not mentioned to it,
/// nor that they return.
///
/// After each call of these, and of the scheduler, the host asks
/// [`act`](Self::act) until there is nothing more to do.
pub trait Split {
    /// What was agreed with an account. Heard before anything else of it, and again when it changes.
    fn account(&mut self, now: Time, account: Account, terms: Terms);

    /// Who is in a set of causes; each account once. Heard before anything bears the set.
    fn causes(&mut self, set: CauseSet, members: &[Account]);

    /// A system call begins.
    fn entered(&mut self, now: Time, call: &SystemCall) -> Verdict;

    /// It ended.
    fn returned(&mut self, _now: Time, _call: &SystemCall) {}

    /// A page is dirty because of `causes`. `before` is whose it was if it was dirty already.
    fn dirtied(&mut self, now: Time, page: &Page, causes: CauseSet, before: Option<CauseSet>);

    /// A dirty page is on its way to the block layer. The request that carries it may carry pages of others too, and has
    /// all their causes.
    fn submitted(&mut self, _now: Time, _page: &Page, _causes: CauseSet) {}

    /// A dirty page was thrown away (its file was cut or removed) and will never be written.
    fn freed(&mut self, now: Time, page: &Page, causes: CauseSet);

    /// The next thing that it wants done.
    fn act(&mut self, now: Time) -> Option<Action>;

    /// When to ask [`act`](Self::act) again, if nothing happens before.
    fn alarm(&self) -> Option<Time> {
        None
    }
}
