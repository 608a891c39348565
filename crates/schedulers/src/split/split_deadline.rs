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
//! Dirty pages by file (they are what an fsync will cost). Held fsyncs with the time of their next look; held writes. At the
//! block: deadline's own two orders, and apart from them the writes of those who have a deadline, by that deadline.
//!
//! # Order of decisions
//! At the call, of accounts without an fsync deadline:
//! 1. An fsync of a file with `big_fsync` dirty pages or more is held: `bleed` pages are written back, and every
//!    `look_again` it is looked at, until fewer are left.
//! 2. A write to a file with `big_write` dirty pages or more is held, and the file written back likewise.
//! 3. While somebody has a deadline: a write is also held when everything that such accounts have dirty or in the queue
//!    would take longer than `in_front` at the pace of late. Any of it may be dragged into the transaction that somebody
//!    with a deadline waits for.
//!
//! At the block:
//! 1. Synchronous writes with a cause that has a deadline: the earliest first.
//! 2. While one of them is in the device, or somebody has a deadline and any request has been in there for `overdue`: nothing
//!    else, for a drive that orders its own queue would serve what lies near first, and what somebody waits for last.
//! 3. Everything else as in `deadline`.
//!
//! # Where it differs from the source
//! - The source marks background accounts by a fixed number in their deadline; here they are those without one.
//! - Rule 3 is ours. The source counts dirty pages only, of one file, and by number: at 25 MB/s its thousand pages are
//!   160 ms, and what was bled out stands in the queue, up to its limit of requests, which is seconds.
//! - The source's threshold on writes, 1000 pages, is written there but not in force. The paper's slides say that write is
//!   suspended too; set `big_write` to its maximum for the source's behaviour.
//!
//! # Not for
//! A host that does not tell of dirty pages.
//!
//! # Sources
//! Yang et al., *Split-Level I/O Scheduling*, SOSP 2015, "Deadline Scheduler"; its published code for constants.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use elevator::split::{Account, Action, CallId, CallKind, File, Page, Split, SystemCall, Terms, Verdict};
use elevator::{
    Candidate, CauseSet, Growth, Op, Outcome, Reason, Request, RequestId, Side, Span, Time, Tunable,
    TuneError, Value, View, WorkConserving, tunables,
};

use super::ledger::Ledger;
use crate::deadline::{Deadline, Version};
use crate::listing::{Listing, Make};
use crate::per_request::PerRequest;

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
        /// How long everything that background accounts have dirty or queued may take while somebody has a deadline; at
        /// least `bleed` pages are always allowed. Longer: better for them, later fsyncs. 0 for the source's behaviour.
        in_front: Span = Span::from_millis(50), Span::ZERO, Span::from_secs(60);
        /// How long a request may be in the device, while somebody has a deadline, before nothing else is sent there.
        /// Shorter: the drive orders less by itself. A revolution and a long seek are some 20 ms.
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

/// A call that waits for its file to have fewer dirty pages.
#[derive(Clone, Copy)]
struct Held {
    call: CallId,
    file: File,
    fsync: bool,
    look: Time,
}

/// Split-Deadline: its block level, and through [`WorkConserving::split`] the levels above.
pub struct SplitDeadline {
    tunables: Tunables,
    ledger: Ledger,
    /// By place: how soon an account's fsync shall return.
    deadlines: Vec<Option<Span>>,
    held: VecDeque<Held>,
    actions: VecDeque<Action>,
    others: Deadline,
    /// Writes of those with a deadline: (deadline, serial, id).
    urgent: BTreeSet<(Time, u64, RequestId)>,
    /// By request: its deadline, if it is in `urgent`.
    due: PerRequest<Option<Time>>,
    /// When a running fsync shall have returned, by account.
    running: BTreeMap<(usize, CallId), Time>,
    background: Background,
    in_flight: u32,
    /// Of those, writes with a deadline.
    urgent_in_flight: u32,
    /// Whether a request was one when it was sent.
    sent_urgent: PerRequest<bool>,
    /// When each request in flight was sent, with its serial number; the longest first.
    in_device: Vec<(Time, u64)>,
}

/// What accounts without a deadline have in front of those with one.
#[derive(Default)]
struct Background {
    /// Their dirty pages. An account that is given a deadline leaves behind what it has: both counts stop at zero.
    dirty: u64,
    /// Sectors of their writes, queued and in flight.
    queued: u64,
    /// What a sector written took of late, in 1/1024 ns.
    pace: u64,
    /// When the device was last known to be busy with something else, or with nothing.
    since: Time,
}

impl Background {
    const PAGE_SECTORS: u64 = 8;

    fn sectors(&self) -> u64 {
        self.dirty * Self::PAGE_SECTORS + self.queued
    }

    /// How long all of it would take.
    fn takes(&self) -> Span {
        Span::from_nanos(self.sectors().saturating_mul(self.pace) / 1024)
    }

    /// A request came back: what it took goes into the average, one part in eight.
    fn served(&mut self, now: Time, request: &Request) {
        let sectors = u64::from(request.sectors.0);
        if request.op == Op::Write && sectors > 0 {
            let took = now.since(self.since).as_nanos().saturating_mul(1024) / sectors;
            self.pace = if self.pace == 0 { took } else { (self.pace * 7 + took) / 8 };
        }
        self.since = now;
    }
}

impl Default for SplitDeadline {
    fn default() -> Self {
        Self {
            tunables: Tunables::default(),
            ledger: Ledger::new(false),
            deadlines: Vec::new(),
            held: VecDeque::new(),
            actions: VecDeque::new(),
            others: Deadline::new(Version::V2_6_32),
            urgent: BTreeSet::new(),
            due: PerRequest::new(),
            running: BTreeMap::new(),
            background: Background::default(),
            in_flight: 0,
            urgent_in_flight: 0,
            sent_urgent: PerRequest::new(),
            in_device: Vec::new(),
        }
    }
}

impl SplitDeadline {
    fn deadline(&self, place: usize) -> Option<Span> {
        self.deadlines.get(place).copied().flatten()
    }

    /// The deadline of a request: the earliest of its causes' running fsyncs; of one that is running for nobody yet, its
    /// arrival and what was agreed.
    fn due(&self, request: &Request) -> Option<Time> {
        if request.op == Op::Read || !request.is_sync() {
            return None;
        }
        let causes = self.ledger.members(request.causes?);
        causes
            .iter()
            .filter_map(|&place| {
                let agreed = self.deadline(place)?;
                let calls = self.running.range((place, CallId(0))..=(place, CallId(u32::MAX)));
                Some(calls.map(|(_, &due)| due).min().unwrap_or(request.arrived + agreed))
            })
            .min()
    }

    /// Whether nobody in a set has a deadline.
    fn is_background(&self, set: CauseSet) -> bool {
        self.ledger.members(set).iter().all(|&place| self.deadline(place).is_none())
    }

    /// Whether background accounts have too much in front of somebody with a deadline.
    fn is_crowded(&self) -> bool {
        let Tunables { in_front, bleed, .. } = self.tunables;
        let guards = in_front > Span::ZERO && self.guards();
        guards
            && self.background.sectors() > bleed * Background::PAGE_SECTORS
            && self.background.takes() > in_front
    }

    fn guards(&self) -> bool {
        self.deadlines.iter().any(Option::is_some)
    }

    /// Whether the device has kept something for too long, and somebody minds.
    fn is_overdue(&self, now: Time) -> bool {
        let longest = self.in_device.first();
        longest.is_some_and(|&(sent, _)| now.since(sent) >= self.tunables.overdue) && self.guards()
    }

    fn must_wait(&self, file: File, fsync: bool) -> bool {
        let dirty = self.ledger.dirty_pages(file);
        if fsync {
            dirty >= self.tunables.big_fsync
        } else {
            dirty >= self.tunables.big_write || self.is_crowded()
        }
    }

    /// Whether a request stands in front of those with a deadline.
    fn counts(&self, request: &Request) -> bool {
        request.op == Op::Write && request.causes.is_some_and(|set| self.is_background(set))
    }

    fn queues(&mut self, request: &Request, sectors: u64) {
        if self.counts(request) {
            self.background.queued += sectors;
        }
    }

    fn bleed(&mut self, file: File) {
        self.actions.push_back(Action::WriteBack { file, pages: self.tunables.bleed as u32 });
    }

    /// Looks at every held call whose time has come, or whose file may have changed.
    fn look(&mut self, now: Time) {
        for _ in 0..self.held.len() {
            let Some(held) = self.held.pop_front() else { return };
            if !self.must_wait(held.file, held.fsync) {
                self.actions.push_back(Action::Admit(held.call));
            } else if held.look > now {
                self.held.push_back(held);
            } else {
                if self.background.queued <= self.tunables.bleed * Background::PAGE_SECTORS {
                    self.bleed(held.file);
                }
                self.held.push_back(Held { look: now + self.tunables.look_again, ..held });
            }
        }
    }

    fn forget(&mut self, request: &Request) -> bool {
        match self.due.get(request.id).copied().flatten() {
            Some(due) => {
                self.due.set(request.id, None);
                self.urgent.remove(&(due, request.serial, request.id))
            }
            None => false,
        }
    }
}

impl WorkConserving for SplitDeadline {
    fn insert(&mut self, now: Time, request: &Request) {
        let due = self.due(request);
        self.due.set(request.id, due);
        match due {
            Some(due) => _ = self.urgent.insert((due, request.serial, request.id)),
            None => self.others.insert(now, request),
        }
        self.queues(request, u64::from(request.sectors.0));
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        if growth.absorbed.is_none() {
            self.queues(request, u64::from(request.sectors.0 - growth.was_sectors.0));
        }
        let absorbed_due =
            growth.absorbed.map(|absorbed| (absorbed, self.due.get(absorbed.id).copied().flatten()));
        match (self.due.get(request.id).copied().flatten(), absorbed_due) {
            (None, None | Some((_, None))) => self.others.merged(now, request, growth),
            (Some(_), None) => {}
            (Some(due), Some((absorbed, Some(other)))) => {
                self.forget(absorbed);
                self.forget(request);
                let due = due.min(other);
                self.due.set(request.id, Some(due));
                self.urgent.insert((due, request.serial, request.id));
            }
            // One of each kind is refused in `may_merge`; a host that joins them all the same loses nothing.
            (Some(_), Some((absorbed, None))) => self.others.take(now, absorbed),
            (None, Some((absorbed, Some(_)))) => {
                self.forget(absorbed);
                self.others.merged(now, request, Growth { absorbed: None, ..growth });
            }
        }
    }

    fn candidate(&mut self, now: Time, view: &View<'_>) -> Option<Candidate> {
        match self.urgent.first() {
            Some(&(_, _, id)) => Some(Candidate { id, urgent: true, reason: Reason::Urgent }),
            None if self.urgent_in_flight > 0 || self.is_overdue(now) => None,
            None => self.others.candidate(now, view),
        }
    }

    fn take(&mut self, now: Time, request: &Request) {
        if self.in_flight == 0 {
            self.background.since = now;
        }
        self.in_flight += 1;
        let urgent = self.forget(request);
        self.sent_urgent.set(request.id, urgent);
        self.in_device.push((now, request.serial));
        if urgent {
            self.urgent_in_flight += 1;
        } else {
            self.others.take(now, request);
        }
    }

    fn completed(&mut self, now: Time, request: &Request, outcome: Outcome) {
        self.in_flight -= 1;
        self.urgent_in_flight -= u32::from(self.sent_urgent[request.id]);
        self.in_device.retain(|&(_, serial)| serial != request.serial);
        self.background.served(now, request);
        if self.counts(request) {
            self.background.queued = self.background.queued.saturating_sub(u64::from(request.sectors.0));
        }
        self.others.completed(now, request, outcome);
    }

    fn may_merge(&self, request: &Request, addition: &Request, side: Side) -> bool {
        let is_due = self.due.get(request.id).copied().flatten().is_some();
        is_due == self.due(addition).is_some() && (is_due || self.others.may_merge(request, addition, side))
    }

    fn split(&mut self) -> Option<&mut dyn Split> {
        Some(self)
    }

    fn tunables(&self) -> &'static [Tunable] {
        Tunables::TABLE
    }

    fn tunable(&self, name: &str) -> Option<Value> {
        self.tunables.get(name).or_else(|| self.others.tunable(name))
    }

    fn tune(&mut self, name: &str, value: Value) -> Result<(), TuneError> {
        if self.tunables.get(name).is_some() {
            return self.tunables.set(name, value);
        }
        self.others.tune(name, value)
    }
}

impl Split for SplitDeadline {
    fn account(&mut self, _now: Time, account: Account, terms: Terms) {
        let place = self.ledger.place(account);
        if place >= self.deadlines.len() {
            self.deadlines.resize(place + 1, None);
        }
        self.deadlines[place] = terms.fsync_deadline;
    }

    fn causes(&mut self, set: CauseSet, members: &[Account]) {
        self.ledger.define(set, members);
    }

    fn entered(&mut self, now: Time, call: &SystemCall) -> Verdict {
        let place = self.ledger.place(call.account);
        let (file, fsync) = match call.kind {
            CallKind::Fsync { file } => (file, true),
            CallKind::Write { file, .. } => (file, false),
            CallKind::Read { .. } | CallKind::Create | CallKind::Mkdir => return Verdict::Proceed,
        };
        if let Some(deadline) = self.deadline(place) {
            if fsync {
                self.running.insert((place, call.id), now + deadline);
            }
            return Verdict::Proceed;
        }
        if !self.must_wait(file, fsync) {
            return Verdict::Proceed;
        }
        self.bleed(file);
        self.held.push_back(Held { call: call.id, file, fsync, look: now + self.tunables.look_again });
        Verdict::Hold
    }

    fn returned(&mut self, _now: Time, call: &SystemCall) {
        let place = self.ledger.place(call.account);
        self.running.remove(&(place, call.id));
    }

    fn dirtied(&mut self, _now: Time, page: &Page, causes: CauseSet, before: Option<CauseSet>) {
        self.ledger.dirtied(page, causes, before, &mut |_, _| {});
        self.background.dirty += u64::from(self.is_background(causes));
        let gone = before.is_some_and(|before| self.is_background(before));
        self.background.dirty = self.background.dirty.saturating_sub(u64::from(gone));
    }

    fn submitted(&mut self, now: Time, page: &Page, causes: CauseSet) {
        self.freed(now, page, causes);
    }

    fn freed(&mut self, _now: Time, page: &Page, causes: CauseSet) {
        self.ledger.cleaned(page, causes, &mut |_, _| {});
        let gone = self.is_background(causes);
        self.background.dirty = self.background.dirty.saturating_sub(u64::from(gone));
    }

    fn act(&mut self, now: Time) -> Option<Action> {
        if self.actions.is_empty() {
            self.look(now);
        }
        self.actions.pop_front()
    }

    fn alarm(&self) -> Option<Time> {
        self.held.iter().map(|held| held.look).min()
    }
}

#[cfg(test)]
mod tests {
    use elevator::Flags;

    use super::super::testing::Host;
    use super::*;
    use crate::testing::request;
    use crate::work_conserving::Bare;

    /// Account 0 wants its fsync within 100 ms; account 1 does not care.
    fn host() -> Host {
        let urgent = Terms { fsync_deadline: Some(Span::from_millis(100)), ..Terms::default() };
        Host::new(Bare::new(Box::<SplitDeadline>::default())).accounts(&[urgent, Terms::default()])
    }

    fn sync_write(t: &mut Host, account: u32, start: u64) -> RequestId {
        let flags = Flags { sync: true, ..Flags::default() };
        let causes = Some(CauseSet(account));
        t.table.insert(Request { op: Op::Write, flags, causes, ..request(start, 8) })
    }

    #[test]
    fn a_big_fsync_without_a_deadline_is_bled_out_first() {
        let mut t = host();
        t.dirty(1, 7, 0, 250);
        let (call, verdict) = t.fsync(1, 7);
        assert_eq!(verdict, Verdict::Hold);
        let bleed = Action::WriteBack { file: File(7), pages: 100 };
        assert_eq!(t.acts(), [bleed]);
        assert_eq!(t.alarm_ms(), Some(10));
        t.submit(1, 7, 0, 100);
        assert_eq!(t.acts(), [], "150 are left, and it is not time");
        t.table.at(10);
        assert_eq!(t.acts(), [bleed]);
        t.submit(1, 7, 100, 100);
        assert_eq!(t.acts(), [Action::Admit(call)], "50 are left");
        assert_eq!(t.alarm_ms(), None);
    }

    #[test]
    fn one_with_a_deadline_and_a_small_one_go_at_once() {
        let mut t = host();
        t.dirty(0, 1, 0, 5000);
        t.dirty(1, 2, 0, 99);
        assert_eq!(t.fsync(0, 1).1, Verdict::Proceed);
        assert_eq!(t.write(0, 1).1, Verdict::Proceed);
        assert_eq!(t.fsync(1, 2).1, Verdict::Proceed);
    }

    #[test]
    fn a_background_writer_is_held_while_its_file_has_too_much() {
        let mut t = host();
        t.dirty(1, 7, 0, 1000);
        let (call, verdict) = t.write(1, 7);
        assert_eq!(verdict, Verdict::Hold);
        assert_eq!(t.acts().len(), 1);
        t.free(1, 7, 0, 1);
        assert_eq!(t.acts(), [Action::Admit(call)]);
    }

    #[test]
    fn what_an_fsync_with_a_deadline_waits_for_goes_first() {
        let mut t = host();
        let read = t.caused(1, Op::Read, 100, 8);
        let background = sync_write(&mut t, 1, 500);
        assert_eq!(t.fsync(0, 1).1, Verdict::Proceed);
        let late = sync_write(&mut t, 0, 900_000);
        t.table.serves(late, Reason::Urgent);
        t.table.serves(read, Reason::NewSweep);
        t.table.serves(background, Reason::NewSweep);
        t.table.idles();
    }

    #[test]
    fn an_asynchronous_write_is_in_no_hurry() {
        let mut t = host();
        let read = t.caused(0, Op::Read, 100, 8);
        let write = t.caused(0, Op::Write, 500, 8);
        t.table.serves(read, Reason::NewSweep);
        t.table.serves(write, Reason::NewSweep);
    }
}
