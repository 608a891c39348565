//! Split-Deadline: deadlines for `fsync`, met by keeping large amounts of dirty data out of the file system's transactions.
//!
//! # Idea
//! An fsync commits a transaction, with the ordered data of every file in it. Once a megabyte of another process's dirty pages is
//! in the transaction of a four-kilobyte flush, no order of requests at the block layer helps. Split-Deadline therefore checks
//! an fsync before it enters: if its file has much to write, that is written back first, a little at a time, and the fsync
//! proceeds when little is left. It also holds writers that dirty faster than their pages are written. Calls with a deadline
//! are never held. If no account with a deadline calls fsync, nothing is held or written early.
//!
//! # State
//! Dirty pages by file (the cost of an fsync). Held calls with the time of their next check (`calls`). The accounts with a deadline, and
//! when they call fsync (`guarded`). What accounts without a
//! deadline have dirty and queued, and how long it takes to write (`background`); which of it is rewritten in the page cache, and whether
//! transactions wait for dirty data (`rewritten`). At the block layer: deadline's two orders;
//! apart from them the urgent writes (`urgent`), how many of them may pass an fsync's own (`patience`), and the requests in the
//! device with their dispatch times (`device`).
//!
//! # Order of decisions
//! At the call, for accounts without an fsync deadline, while an account with one is active (`guarded`: during its fsyncs,
//! and after an fsync for the longer of two times: ten deadlines, and twice its longest recent interval between two fsyncs, limited to 30 s):
//! 1. An fsync of a file with at least `big_fsync` dirty pages is held: `bleed` pages are written back, and further ones when at most
//!    as many are under way, until fewer are dirty. The call is checked at every event, and every `look_again`.
//! 2. A write to a file with at least `big_write` dirty pages is held, and the file is written back likewise.
//! 3. A write is also held when the queued data of such accounts, or with dirty pages in its own file the dirty and queued data, would take longer
//!    than `in_front` of the shortest deadline. Any of it may enter the transaction that an account with a deadline waits for, and a commit
//!    waits for what is in the drive's cache. The speed is learnt: what became durable between two fsyncs of which the second was late.
//!    Once transactions are known not to wait for dirty pages (rule 4), small files are an exception, in which nothing was written recently beyond
//!    `bleed` pages: the kernel writes many of them at once, and limits their program by its dirty pages.
//! 4. Rules 2 and 3 do not apply to a file of whose dirty pages at least half are rewritten ones, because their early writeback would be in vain. They
//!    do apply while an fsync of the file is held. Rewritten pages do not count as dirty data in rule 3. A page is rewritten if it was written within the
//!    last 30 s and is dirty again; up to 64 MB of pages also if they are before the end of what was written to their file. If more than 64 MB that were written within the last 30 s are dirty again, none
//!    of these count as rewritten for 30 s: the kernel would write them all at once, in the way of the next fsync. This holds as soon as the
//!    transactions are known not to wait for dirty pages (`rewritten`): on ext4 and XFS, not on ext3.
//! 5. No page is written back for held calls while an fsync with a deadline runs.
//!
//! At the block layer, while an account has a deadline:
//! 1. Writes that are surely waited for, the earliest deadline first: synchronous writes caused by an account with a deadline, and
//!    those of the file system itself, because everything waits for its log.
//! 2. Writes that may be waited for: other synchronous writes except direct ones, and while an fsync with a deadline runs all data, which may be in the
//!    transaction although the waiting account did not cause it. A transaction that waits for data writes nothing of its
//!    own meanwhile, so these get their turn when needed: on ext3 at every commit, on XFS never.
//!    Once transactions are known not to wait for dirty pages, what the kernel writes by itself is not among them.
//! 3. Once some of these were dispatched, as many follow as recent fsyncs have tolerated (`patience`): between two of an fsync's
//!    own writes one of them costs two seeks, several at once hardly more.
//! 4. The device gets `urgent_depth` of all these at a time, and none while it has kept a request for `overdue`: a drive that orders
//!    its own queue serves near requests first, and the one it keeps may be the one that the fsync waits for.
//! 5. While one of them is in the device, or a request has been there for `overdue`, or the device's requests will take that
//!    long: nothing else.
//! 6. While an fsync with a deadline runs, everything else is dispatched one by one.
//! 7. Everything else as in `deadline`. Without queued reads, writes of background accounts wait while an account with a deadline is active and
//!    what the drive and its cache have of them would take longer than `in_front` of the shortest deadline: an fsync ends with a flush, which waits for
//!    it; while an fsync runs, a quarter of that. The kernel writes up to 64 MB at once of the pages that are left to it. Under a wrapper such as
//!    `stream`, they do not wait.
//!
//! # Where it differs from the source
//! - The source marks background accounts by a fixed number in their deadline; here they are the accounts without one.
//! - Rule 3 at the call is ours. The source counts dirty pages only, per file and by number: at 25 MB/s its thousand pages are
//!   160 ms, and written-back pages wait in the queue, up to its request limit, which is seconds.
//! - The source flushes the drive's cache before each writeback, which empties the drive, and writes `bleed` pages every `look_again`: at
//!   most 41 MB/s. Here writeback continues when at most `bleed` pages of the previous ones are under way.
//! - The source's block level has no notion of fsync; rules 1 to 6 there are ours.
//! - The source contains a threshold on writes, 1000 pages, which is not in force. The paper's slides say that writes are
//!   suspended too; set `big_write` to its maximum for the source's behaviour.
//!
//! # Not for
//! Hosts that do not report dirty pages. There is no bound on waiting: urgent writes pass all others.
//!
//! # Sources
//! Yang et al., "Split-Level I/O Scheduling", SOSP 2015, "Deadline Scheduler"; its published code for constants.

mod background;
mod block;
mod calls;
mod device;
mod guarded;
mod patience;
mod rewritten;
#[cfg(test)]
mod tests;
mod urgent;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use elevator::split::CallId;
use elevator::{CauseSet, Op, Request, RequestId, Span, Time, tunables};

use self::background::Background;
use self::calls::Held;
use self::device::InDevice;
use self::guarded::Guarded;
use self::patience::Patience;
use self::rewritten::{Rewritten, Transactions};
use self::urgent::{Claim, Urgency, Urgent};
use super::ledger::Ledger;
use crate::listing::{Listing, Make};
use crate::parts::sorted::{Key, SortedIndex};
use crate::policies::deadline::{Deadline, Version};

tunables! {
    /// Tunables, in addition to those of `deadline`.
    pub struct Tunables {
        /// Dirty pages of a file from which an fsync of it is held. Source: 100.
        big_fsync: Count = 100, 1, 1 << 40;
        /// Pages that are written back at a time while a call is held. Source: 100.
        bleed: Count = 100, 1, 1 << 32;
        /// Period of checks of a held fsync. Source: 10 ms.
        look_again: Span = Span::from_millis(10), Span::from_micros(100), Span::from_secs(10);
        /// Dirty pages of a file from which a write to it is held. Source: 1000.
        big_write: Count = 1_000, 1, 1 << 40;
        /// The share of the shortest deadline in which the dirty and queued data of background accounts must be writable. The default
        /// leaves a third for this data, a third for requests in the device, and a third for the fsync's own three writes. At least
        /// `bleed` pages are always allowed in the page cache and the queue. Higher: better for background accounts, later fsyncs. 0: the source's behaviour.
        in_front: Percent = 33, 0, 1_000;
        /// Urgent writes in the device at the same time. 1: the device cannot reorder them, but may idle between
        /// them. More: the device may reorder them, so that the last one waits.
        urgent_depth: Count = 1, 1, 1_000_000;
        /// The share of the deadline that must be left at the return of an fsync for the next fsync to let more uncertain writes
        /// pass. Lower: better for background writers, later fsyncs. 100%: only one at a time passes.
        spare: Percent = 50, 0, 100;
        /// Time for which a request may be in the device, and which the device's requests may take by recent service times. Beyond this time,
        /// and while an account has a deadline, only urgent requests are dispatched; none if a request has been in the device for longer. Shorter: the
        /// drive reorders less. A revolution and a long seek take about 20 ms.
        overdue: Span = Span::from_millis(25), Span::from_millis(1), Span::from_secs(60);
    }
}

pub(crate) const LISTINGS: &[Listing] = &[Listing::new(
    "split-deadline",
    "split-level deadlines: what would be in an fsync's way is written back before it may enter",
    Make::WorkConserving(|_| Box::<SplitDeadline>::default()),
)
.with_source("Yang et al., Split-Level I/O Scheduling, SOSP 2015")
.with_split()
.with_tunables(Tunables::TABLE)];

/// Split-Deadline: its block level, and through [`Capabilities::split`](elevator::Capabilities::split) the levels above.
pub struct SplitDeadline {
    tunables: Tunables,
    ledger: Ledger,
    /// By account index: the deadline of its fsyncs.
    guarded: Vec<Option<Guarded>>,
    /// The times at which running fsyncs are due, by account.
    running: BTreeMap<(usize, CallId), Time>,
    held: Held,
    background: Background,
    rewritten: Rewritten,
    transactions: Transactions,
    others: Deadline,
    /// Requests in `others` for which a transaction may wait, by id.
    data: SortedIndex,
    urgent: Urgent,
    patience: Patience,
    device: InDevice,
}

impl Default for SplitDeadline {
    fn default() -> Self {
        Self {
            tunables: Tunables::default(),
            ledger: Ledger::new(false),
            guarded: Vec::new(),
            running: BTreeMap::new(),
            held: Held::default(),
            background: Background::default(),
            rewritten: Rewritten::default(),
            transactions: Transactions::default(),
            others: Deadline::new(Version::V2_6_32),
            data: SortedIndex::new(),
            urgent: Urgent::default(),
            patience: Patience::default(),
            device: InDevice::default(),
        }
    }
}

impl SplitDeadline {
    fn deadline(&self, place: usize) -> Option<Span> {
        self.guarded.get(place).copied().flatten().map(|account| account.deadline)
    }

    /// The shortest deadline of all accounts.
    fn shortest(&self) -> Option<Span> {
        self.guarded.iter().flatten().map(|account| account.deadline).min()
    }

    /// The shortest deadline of the active accounts.
    fn shortest_active(&self, now: Time) -> Option<Span> {
        let active = self.guarded.iter().flatten().filter(|account| account.is_active(now));
        active.map(|account| account.deadline).min()
    }

    /// Whether any account has a deadline.
    fn guards(&self) -> bool {
        self.shortest().is_some()
    }

    /// A request's key in `data`.
    const fn data_key(id: RequestId) -> Key {
        Key::by(id.0 as u64, 0)
    }

    /// Whether a write is data of a file, from the page cache.
    fn is_cached_data(request: &Request) -> bool {
        request.op == Op::Write && !request.flags.meta && !request.flags.direct
    }

    /// Whether a transaction may have to wait for a write. For what the kernel writes in the background, only if transactions wait for dirty data.
    fn may_be_ordered(&self, request: &Request) -> bool {
        let is_awaited = || self.transactions.wait() || request.is_sync() || !self.counts(request);
        Self::is_cached_data(request) && is_awaited()
    }

    /// When an account's earliest running fsync is due, if it has a deadline.
    fn running_due(&self, place: usize) -> Option<Time> {
        self.running.range((place, CallId(0))..=(place, CallId(u32::MAX))).map(|(_, &due)| due).min()
    }

    /// Whether a request is urgent, and its due time: the earliest of its causes' running fsyncs, or of their deadlines from now;
    /// if its causes have no deadline, that of the running fsync that may wait for it. A read is urgent if a running fsync needs it.
    fn due(&self, request: &Request) -> Option<Urgency> {
        let causes = request.causes.map_or(&[][..], |set| self.ledger.members(set));
        if request.op == Op::Read {
            let due = causes.iter().filter_map(|&place| self.running_due(place)).min()?;
            return Some(Urgency { claim: Claim::Sure, due });
        }
        let earliest = || self.running.values().min().copied();
        if !request.is_sync() {
            let due = earliest().filter(|_| self.may_be_ordered(request))?;
            return Some(Urgency { claim: Claim::Perhaps, due });
        }
        let shortest = self.shortest()?;
        let own = causes.iter().filter_map(|&place| {
            let agreed = self.deadline(place)?;
            Some(self.running_due(place).unwrap_or(request.arrived + agreed))
        });
        let own = own.min();
        if own.is_none() && request.flags.direct {
            return None;
        }
        Some(own.map_or_else(
            || Urgency {
                claim: if request.flags.meta { Claim::Sure } else { Claim::Perhaps },
                due: earliest().unwrap_or(request.arrived + shortest),
            },
            |due| Urgency { claim: Claim::Sure, due },
        ))
    }

    /// Whether no account in a set has a deadline.
    fn is_background(&self, set: CauseSet) -> bool {
        self.background.is_without_deadline(set)
    }
}
