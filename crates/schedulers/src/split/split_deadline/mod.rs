//! Split-Deadline: a deadline for `fsync`, kept by letting nothing big into the file system in front of it.
//!
//! # Idea
//! An fsync commits a transaction, and with it the ordered data of everybody in it. Once a megabyte of somebody else's dirty
//! pages is entangled with a four-kilobyte flush, no order of requests at the block layer can save the flush. So look at an
//! fsync before it enters: if its file has much to write, have that written back first, a little at a time, and let the
//! fsync go on when little is left; and hold writers that dirty faster than their pages go out. Calls with a deadline are
//! never held.
//!
//! # State
//! Dirty pages by file (they are what an fsync will cost). Held calls with the time of their next look (`calls`). What
//! accounts without a deadline have dirty and queued, and how long that takes (`background`). At the block: deadline's own
//! two orders, apart from them the urgent writes (`urgent`), how many of them may go before an fsync's own (`patience`), and
//! what is in the device since when (`device`).
//!
//! # Order of decisions
//! At the call, of accounts without an fsync deadline:
//! 1. An fsync of a file with `big_fsync` dirty pages or more is held: `bleed` pages are written back, and every
//!    `look_again` it is looked at, until fewer are left.
//! 2. A write to a file with `big_write` dirty pages or more is held, and the file written back likewise.
//! 3. While somebody has a deadline: a write is also held when everything that such accounts have dirty or in the queue
//!    would take longer than `in_front` of the shortest deadline, at the pace of late, flushes included. Any of it may be
//!    dragged into the transaction that somebody with a deadline waits for.
//! 4. Nothing is bled while an fsync with a deadline runs.
//!
//! At the block, while somebody has a deadline:
//! 1. What is surely waited for, the earliest deadline first: synchronous writes of which one with a deadline is a cause,
//!    and those of the file system itself, for whose log everybody waits.
//! 2. What may be waited for: other synchronous writes, and while an fsync with a deadline runs all data, for it may be in
//!    the transaction, and ordered data is not caused by whoever waits for it. A transaction that does wait for data writes
//!    nothing of its own meanwhile, so the turn of these comes when it is needed: on ext3 where every commit waits for all of
//!    it, on XFS never.
//! 3. Once some of these go, so many of them follow as fsyncs have borne of late (`patience`): between two of an fsync's own
//!    writes one of them costs two seeks, several at once hardly more.
//! 4. The device has `urgent_depth` of all these at a time, and gets none while it has kept anything for `overdue`: a drive
//!    that orders its own queue serves what lies near first, and what it keeps may be what the fsync waits for.
//! 5. While one of them is in the device, or a request has been in there for `overdue`, or what is in there will take that
//!    long: nothing else.
//! 6. While an fsync with a deadline runs, everything else goes to the device one by one. It is not kept back: block-level
//!    writes never are.
//! 7. Everything else as in `deadline`.
//!
//! # Where it differs from the source
//! - The source marks background accounts by a fixed number in their deadline; here they are those without one.
//! - Rule 3 at the call is ours. The source counts dirty pages only, of one file, and by number: at 25 MB/s its thousand
//!   pages are 160 ms, and what was bled out stands in the queue, up to its limit of requests, which is seconds.
//! - The source flushes the drive's cache before each bleeding, which empties the drive; here what is bled waits until
//!   little of it is queued.
//! - The source's block level knows no fsync; rules 1 to 6 there are ours.
//! - The source's threshold on writes, 1000 pages, is written there but not in force. The paper's slides say that write is
//!   suspended too; set `big_write` to its maximum for the source's behaviour.
//!
//! # Not for
//! A host that does not tell of dirty pages.
//!
//! # Sources
//! Yang et al., *Split-Level I/O Scheduling*, SOSP 2015, "Deadline Scheduler"; its published code for constants.

mod background;
mod block;
mod calls;
mod device;
mod patience;
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
use self::patience::Patience;
use self::urgent::{Claim, Urgency, Urgent};
use super::ledger::Ledger;
use crate::listing::{Listing, Make};
use crate::parts::sorted::{Key, SortedIndex};
use crate::policies::deadline::{Deadline, Version};

tunables! {
    /// What can be tuned, beside what `deadline` offers.
    pub struct Tunables {
        /// Dirty pages of a file from which an fsync of it is held. Source: 100.
        big_fsync: Count = 100, 1, 1 << 40;
        /// Pages that are written back at a time while a call is held. Source: 100.
        bleed: Count = 100, 1, 1 << 32;
        /// How often a held fsync is looked at. Source: 10 ms.
        look_again: Span = Span::from_millis(10), Span::from_micros(100), Span::from_secs(10);
        /// Dirty pages of a file from which a write to it is held. Source: 1000.
        big_write: Count = 1_000, 1, 1 << 40;
        /// How long everything that background accounts have dirty or queued may take, of the shortest deadline that anybody
        /// has: a third for it, a third for what the device has in hand, a third for the fsync's own three writes. At least
        /// `bleed` pages are always allowed. More: better for them, later fsyncs. 0 for the source's behaviour.
        in_front: Percent = 33, 0, 1_000;
        /// Urgent writes that the device is given at once. 1: it cannot put them in another order, but may rest between
        /// them; more: the last of them waits while it does.
        urgent_depth: Count = 1, 1, 1_000_000;
        /// How much of its deadline an fsync must have had left, for the next one to let more pass that nobody is known to
        /// wait for. Less: better for background writers, later fsyncs. 100%: only one at a time passes.
        spare: Percent = 50, 0, 100;
        /// How long a request may be in the device, and what is in there may take by what requests took of late, before
        /// nothing else is sent while somebody has a deadline, and what is urgent only if nothing is kept so long. Shorter: the drive orders less by itself. A revolution and a
        /// long seek are some 20 ms.
        overdue: Span = Span::from_millis(25), Span::from_millis(1), Span::from_secs(60);
    }
}

pub(crate) const LISTINGS: &[Listing] = &[Listing {
    name: "split-deadline",
    version: "",
    plain: true,
    about: "split-level deadlines: what would be in an fsync's way is written back before it may enter",
    source: "Yang et al., Split-Level I/O Scheduling, SOSP 2015",
    split: true,
    tunables: Tunables::TABLE,
    make: Make::WorkConserving(|_| Box::<SplitDeadline>::default()),
}];

/// Split-Deadline: its block level, and through [`WorkConserving::split`](elevator::WorkConserving::split) the levels above.
pub struct SplitDeadline {
    tunables: Tunables,
    ledger: Ledger,
    /// By place: how soon an account's fsync shall return.
    deadlines: Vec<Option<Span>>,
    /// When a running fsync shall have returned, by account.
    running: BTreeMap<(usize, CallId), Time>,
    held: Held,
    background: Background,
    others: Deadline,
    /// Those of `others` that a transaction may wait for, by id.
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
            deadlines: Vec::new(),
            running: BTreeMap::new(),
            held: Held::default(),
            background: Background::default(),
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
        self.deadlines.get(place).copied().flatten()
    }

    /// The shortest deadline that anybody has.
    fn shortest(&self) -> Option<Span> {
        self.deadlines.iter().flatten().min().copied()
    }

    /// Whether anybody has one.
    fn guards(&self) -> bool {
        self.shortest().is_some()
    }

    /// A request's place in `data`.
    const fn data_key(id: RequestId) -> Key {
        Key::by(id.0 as u64, 0)
    }

    /// Whether a transaction may have to wait for a write: it is a file's data.
    fn may_be_ordered(request: &Request) -> bool {
        request.op == Op::Write && !request.flags.meta
    }

    /// When an account's earliest running fsync is due, if it has a deadline.
    fn running_due(&self, place: usize) -> Option<Time> {
        self.running.range((place, CallId(0))..=(place, CallId(u32::MAX))).map(|(_, &due)| due).min()
    }

    /// Whether a request is urgent, and until when: the earliest of its causes' running fsyncs, or what was agreed with them;
    /// of one whose causes have none, that of the fsync that is running and may wait for it. A read is if an fsync needs it.
    fn due(&self, request: &Request) -> Option<Urgency> {
        let causes = request.causes.map_or(&[][..], |set| self.ledger.members(set));
        if request.op == Op::Read {
            let due = causes.iter().filter_map(|&place| self.running_due(place)).min()?;
            return Some(Urgency { claim: Claim::Sure, due });
        }
        let earliest = || self.running.values().min().copied();
        if !request.is_sync() {
            let due = earliest().filter(|_| Self::may_be_ordered(request))?;
            return Some(Urgency { claim: Claim::Perhaps, due });
        }
        let shortest = self.shortest()?;
        let own = causes.iter().filter_map(|&place| {
            let agreed = self.deadline(place)?;
            Some(self.running_due(place).unwrap_or(request.arrived + agreed))
        });
        Some(own.min().map_or_else(
            || Urgency {
                claim: if request.flags.meta { Claim::Sure } else { Claim::Perhaps },
                due: earliest().unwrap_or(request.arrived + shortest),
            },
            |due| Urgency { claim: Claim::Sure, due },
        ))
    }

    /// Whether nobody in a set has a deadline.
    fn is_background(&self, set: CauseSet) -> bool {
        self.ledger.members(set).iter().all(|&place| self.deadline(place).is_none())
    }
}
