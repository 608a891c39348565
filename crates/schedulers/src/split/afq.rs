//! AFQ, actually fair queueing: the device's time in proportion to priority, writes included.
//!
//! # Idea
//! A block-level fair queue charges a write to whoever submits it, which is the kernel's writeback thread; and once data
//! is in a transaction it cannot be put back. So charge each request to its causes, schedule reads where they are
//! requests, and schedule writes where they can still be held: at the call that would dirty pages or force them out.
//!
//! # State
//! Per account its *service*: cost divided by share (stride scheduling), charged when a page is dirtied (an estimate) and
//! corrected when the request goes; its queued reads in sector order; its held calls. One index for all writes.
//!
//! # Order of decisions
//! At the call:
//! 1. A write, creat or mkdir of an account whose service is more than `ahead` above the least of all active accounts is
//!    held. The least served of the held goes on as soon as it is within `ahead`, or when the device has nothing to do.
//! 2. Every fsync queues; at most `fsyncs` run at a time, least service first.
//!
//! At the block:
//! 1. Writes go straight out: what they block may be more important than they are. After `batch` of them in a row,
//!    reads that wait have a turn.
//! 2. The account whose turn it is goes on in one-way sector order, for at most `slice` and `batch` requests.
//! 3. If it has no more, was sequential, and there is time left: wait for it, while it has reads in the device and `idle`
//!    longer (only when AFQ runs alone; inside the stream framework, that decides about waiting).
//! 4. Else the account of least service.
//!
//! # Where it differs from the source
//! - Service counts pages of 4 KB times 840 over the share; the source does not name the unit of its 204,800.
//! - The source sends batches of 5 to 100 requests and the next when the last has finished; here a turn ends by `slice`
//!   and `batch`, and the device's queue is filled as its depth allows.
//! - An account counts as active while it has a call, a dirty page, a queued request or one in flight. The source
//!   looks at the last 20 seconds, which lets nobody run ahead of one that has gone to sleep.
//! - The source wakes a held call every 40 ms come what may; here only if the device has nothing to do.
//!
//! # Not for
//! A host that does not tag causes: without them nobody is ever charged.
//!
//! # Sources
//! Yang et al., *Split-Level I/O Scheduling*, SOSP 2015, "Priority Scheduler"; its published code for constants.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use elevator::split::{Account, Action, CallId, CallKind, Page, Split, SystemCall, Terms, Verdict};
use elevator::{
    Candidate, CauseSet, Decision, Growth, Hold, HoldReason, Op, Outcome, PriorityClass, Reason, Request,
    RequestId, Scheduler, Side, Span, Time, Tunable, TuneError, Value, View, Wake, WorkConserving, tunables,
};

use super::lane::Lane;
use super::ledger::Ledger;
use crate::listing::{Listing, Make};

tunables! {
    /// What can be tuned.
    pub struct Tunables {
        /// How far an account's service may be above the least served one's before its writes are held: pages × 840 / share.
        /// Smaller: fairer over short times. Source: 204,800.
        ahead: Count = 204_800, 0, 1 << 40;
        /// How long one account's reads may go on while others wait. Source: HZ / 4.
        slice: Span = Span::from_millis(250), Span::from_millis(1), Span::from_secs(10);
        /// Requests in a turn, of an account's reads and of writes. Source: 100.
        batch: Count = 100, 1, 1_000_000;
        /// How long to wait for a sequential reader's next request. Source: 20 ms.
        idle: Span = Span::from_millis(20), Span::ZERO, Span::from_secs(1);
        /// Requests in a row, each near the last, that make a reader sequential. Source: 12.
        sequential_after: Count = 12, 0, 1_000_000;
        /// What near means. Source: 1024 sectors.
        near: Sectors = 1024, 0, 1 << 40;
        /// How many fsync calls run at a time. The source keeps at least two requests in flight.
        fsyncs: Count = 2, 1, 1_000_000;
    }
}

pub(crate) const LISTINGS: &[Listing] = &[Listing {
    name: "afq",
    version: "",
    plain: true,
    about: "split-level fair queueing: shares by priority, charged by cause, writes held at the call",
    source: "Yang et al., Split-Level I/O Scheduling, SOSP 2015",
    split: true,
    tunables: Tunables::TABLE,
    make: Make::Either { alone: |_| Box::new(Alone(Afq::default())), wrapped: |_| Box::new(Afq::default()) },
}];

/// What is known of an account.
struct Member {
    share: i64,
    /// Cost over share; comparable between accounts.
    service: i64,
    reads: Lane,
    /// Reads in a row, each near the last.
    steps: u64,
    /// Why it is active: calls, dirty pages, requests queued and in flight.
    pending: u64,
    held: VecDeque<CallId>,
    fsyncs: VecDeque<CallId>,
    /// Its reads in the device, and when the last of them came back.
    reading: u32,
    read: Time,
}

/// Service counts pages times this over the share, so that shares from 1 to 8 divide it.
const STRIDE: i64 = 840;
const PAGE: i64 = 4096;

impl Member {
    fn new(service: i64) -> Self {
        Self {
            share: share(PriorityClass::BestEffort, 4),
            service,
            reads: Lane::default(),
            steps: 0,
            pending: 0,
            held: VecDeque::new(),
            fsyncs: VecDeque::new(),
            reading: 0,
            read: Time::ZERO,
        }
    }

    fn charge(&mut self, bytes: i64) {
        self.service += bytes * STRIDE / PAGE / self.share;
    }
}

/// Priority 0 has eight times the share of priority 7; the idle class has the least, the real-time class the most.
const fn share(class: PriorityClass, level: u8) -> i64 {
    match class {
        PriorityClass::RealTime => 8,
        PriorityClass::BestEffort => 8 - if level < 8 { level as i64 } else { 7 },
        PriorityClass::Idle => 1,
    }
}

/// Whose turn it is.
#[derive(Clone, Copy)]
struct Turn {
    member: usize,
    began: Time,
    sent: u64,
}

/// AFQ without anticipation of its own: what a wrapper wraps.
#[derive(Default)]
pub struct Afq {
    tunables: Tunables,
    ledger: Ledger,
    members: Vec<Member>,
    writes: Lane,
    queued_writes: u32,
    /// Writes sent since reads had a turn.
    writes_in_a_row: u64,
    turn: Option<Turn>,
    queued: u32,
    in_flight: u32,
    fsyncs_running: u64,
    /// A call was let go because the device had nothing to do, and has not returned yet.
    kicked: Option<CallId>,
}

/// Requests that nobody is known to have caused are this account's.
const NOBODY: Account = Account(u32::MAX);

impl Afq {
    fn member(&mut self, account: Account) -> usize {
        let place = self.ledger.place(account);
        self.grow();
        place
    }

    /// Newcomers begin where the least served one is.
    fn grow(&mut self) {
        let floor = self.floor();
        while self.members.len() < self.ledger.accounts() {
            self.members.push(Member::new(floor));
        }
    }

    /// The account that a request queues with: the first of its causes.
    fn queue_of(&mut self, request: &Request) -> usize {
        let first = request.causes.and_then(|set| self.ledger.members(set).first().copied());
        first.unwrap_or_else(|| self.member(NOBODY))
    }

    fn lane(&mut self, member: usize, op: Op) -> &mut Lane {
        if op == Op::Read { &mut self.members[member].reads } else { &mut self.writes }
    }

    /// The service of the least served active account.
    fn floor(&self) -> i64 {
        let active = self.members.iter().filter(|member| member.pending > 0);
        active
            .map(|member| member.service)
            .min()
            .or_else(|| self.members.iter().map(|m| m.service).max())
            .unwrap_or(0)
    }

    /// One more reason for an account to be active. One that comes back has saved up nothing.
    fn begins(&mut self, member: usize) {
        if self.members[member].pending == 0 {
            let floor = self.floor();
            let member = &mut self.members[member];
            member.service = member.service.max(floor);
        }
        self.members[member].pending += 1;
    }

    fn is_ahead(&self, member: usize) -> bool {
        let lead = self.members[member].service - self.floor();
        lead > i64::try_from(self.tunables.ahead).unwrap_or(i64::MAX)
    }

    /// The account whose turn goes on, if it does.
    fn goes_on(&self, now: Time) -> Option<usize> {
        let turn = self.turn?;
        let left = turn.sent < self.tunables.batch && now < turn.began + self.tunables.slice;
        left.then_some(turn.member)
    }

    fn choose_read(&self, now: Time) -> Option<(usize, Reason)> {
        if let Some(member) = self.goes_on(now).filter(|&member| !self.members[member].reads.is_empty()) {
            return Some((member, Reason::SliceOwner));
        }
        let waiting = (0..self.members.len()).filter(|&place| !self.members[place].reads.is_empty());
        waiting.min_by_key(|&place| (self.members[place].service, place)).map(|place| (place, Reason::Share))
    }

    fn reads_wait(&self) -> bool {
        self.queued > self.queued_writes
    }

    fn choose(&self, now: Time) -> Option<(RequestId, Reason)> {
        let reads_turn = self.writes_in_a_row >= self.tunables.batch || self.goes_on(now).is_some();
        if let Some(id) = self.writes.next().filter(|_| !reads_turn || !self.reads_wait()) {
            return Some((id, Reason::SectorOrder));
        }
        let (member, reason) = self.choose_read(now)?;
        self.members[member].reads.next().map(|id| (id, reason))
    }

    /// The wait for the account whose turn it is, if that is worth it: for its reads in the device, and then for its next.
    fn awaits(&self, now: Time) -> Option<Hold> {
        let member = &self.members[self.goes_on(now)?];
        let sequential = member.steps >= self.tunables.sequential_after;
        if !sequential || !member.reads.is_empty() || !self.writes.is_empty() {
            return None;
        }
        let reason = HoldReason::AwaitSliceOwner;
        if member.reading > 0 {
            return Some(Hold { until: None, wake: Wake::Completion, reason });
        }
        let until = member.read + self.tunables.idle;
        (now < until).then_some(Hold { until: Some(until), wake: Wake::Timer, reason })
    }

    fn cleaned(&mut self, page: &Page, causes: CauseSet) {
        let Self { ledger, members, .. } = self;
        ledger.cleaned(page, causes, &mut |member, bytes| members[member].charge(bytes));
        for &place in ledger.members(causes) {
            members[place].pending -= 1;
        }
    }

    fn queues(&mut self, request: &Request, bytes: u64) {
        let Self { ledger, members, .. } = self;
        ledger.queued(request, bytes, &mut |member, bytes| members[member].charge(bytes));
    }

    /// The held call to go on with: (its account, whether it is an fsync).
    fn next_held(&self) -> Option<(usize, bool)> {
        let may_fsync = self.fsyncs_running < self.tunables.fsyncs;
        let idle = self.queued == 0 && self.in_flight == 0 && self.kicked.is_none();
        let held = self.members.iter().enumerate().filter_map(|(place, member)| {
            let fsync = may_fsync && !member.fsyncs.is_empty();
            let write = !member.held.is_empty() && (idle || !self.is_ahead(place));
            (fsync || write).then_some((member.service, place, fsync))
        });
        held.min().map(|(_, place, fsync)| (place, fsync))
    }
}

impl WorkConserving for Afq {
    fn insert(&mut self, _now: Time, request: &Request) {
        self.queued += 1;
        let member = self.queue_of(request);
        self.begins(member);
        self.queued_writes += u32::from(request.op != Op::Read);
        self.lane(member, request.op).insert(request);
        self.queues(request, request.sectors.bytes());
    }

    fn merged(&mut self, _now: Time, request: &Request, growth: Growth<'_>) {
        let member = self.queue_of(request);
        self.lane(member, request.op).merged(request, growth);
        if growth.absorbed.is_none() {
            self.queues(request, request.sectors.bytes() - growth.was_sectors.bytes());
        } else {
            self.queued -= 1;
            self.queued_writes -= u32::from(request.op != Op::Read);
            self.members[member].pending -= 1;
        }
    }

    fn candidate(&mut self, now: Time, _view: &View<'_>) -> Option<Candidate> {
        self.choose(now).map(|(id, reason)| Candidate { id, urgent: false, reason })
    }

    fn take(&mut self, now: Time, request: &Request) {
        self.queued -= 1;
        self.in_flight += 1;
        let place = self.queue_of(request);
        let Self { ledger, members, .. } = self;
        ledger.dispatched(request, &mut |member, bytes| members[member].charge(bytes));
        if request.op != Op::Read {
            self.writes.take(request);
            self.queued_writes -= 1;
            self.writes_in_a_row += 1;
            return;
        }
        self.writes_in_a_row = 0;
        let turn = self.goes_on(now).filter(|&member| member == place).and(self.turn);
        let Turn { began, sent, .. } = turn.unwrap_or(Turn { member: place, began: now, sent: 0 });
        self.turn = Some(Turn { member: place, began, sent: sent + 1 });
        let member = &mut self.members[place];
        member.reading += 1;
        let near = member.reads.take(request) <= self.tunables.near;
        member.steps = if near { member.steps + 1 } else { 0 };
    }

    fn completed(&mut self, now: Time, request: &Request, _outcome: Outcome) {
        self.in_flight -= 1;
        let member = self.queue_of(request);
        let member = &mut self.members[member];
        member.pending -= 1;
        if request.op == Op::Read {
            member.reading -= 1;
            member.read = now;
        }
    }

    /// Requests of different accounts stay apart; the host merges only what has the same causes.
    fn may_merge(&self, request: &Request, addition: &Request, _side: Side) -> bool {
        request.causes == addition.causes
    }

    fn split(&mut self) -> Option<&mut dyn Split> {
        Some(self)
    }

    tuned!(self.tunables: Tunables);
}

impl Split for Afq {
    fn account(&mut self, _now: Time, account: Account, terms: Terms) {
        let member = self.member(account);
        self.members[member].share = share(terms.priority.class, terms.priority.level);
    }

    fn causes(&mut self, set: CauseSet, members: &[Account]) {
        self.ledger.define(set, members);
        self.grow();
    }

    fn entered(&mut self, _now: Time, call: &SystemCall) -> Verdict {
        if matches!(call.kind, CallKind::Read { .. }) {
            return Verdict::Proceed;
        }
        let place = self.member(call.account);
        self.begins(place);
        let ahead = self.is_ahead(place);
        let member = &mut self.members[place];
        match call.kind {
            CallKind::Fsync { .. } => member.fsyncs.push_back(call.id),
            _ if ahead || !member.held.is_empty() => member.held.push_back(call.id),
            _ => return Verdict::Proceed,
        }
        Verdict::Hold
    }

    fn returned(&mut self, _now: Time, call: &SystemCall) {
        if matches!(call.kind, CallKind::Read { .. }) {
            return;
        }
        let place = self.member(call.account);
        self.members[place].pending -= 1;
        self.kicked = self.kicked.filter(|&kicked| kicked != call.id);
        self.fsyncs_running -= u64::from(matches!(call.kind, CallKind::Fsync { .. }));
    }

    fn dirtied(&mut self, _now: Time, page: &Page, causes: CauseSet, before: Option<CauseSet>) {
        if before == Some(causes) {
            return;
        }
        for nth in 0..self.ledger.members(causes).len() {
            self.begins(self.ledger.members(causes)[nth]);
        }
        for &place in before.iter().flat_map(|&before| self.ledger.members(before)) {
            self.members[place].pending -= 1;
        }
        let Self { ledger, members, .. } = self;
        ledger.dirtied(page, causes, before, &mut |member, bytes| members[member].charge(bytes));
    }

    fn submitted(&mut self, _now: Time, page: &Page, causes: CauseSet) {
        self.cleaned(page, causes);
    }

    fn freed(&mut self, _now: Time, page: &Page, causes: CauseSet) {
        self.cleaned(page, causes);
    }

    fn act(&mut self, _now: Time) -> Option<Action> {
        let (place, fsync) = self.next_held()?;
        if fsync {
            self.fsyncs_running += 1;
            return self.members[place].fsyncs.pop_front().map(Action::Admit);
        }
        let ahead = self.is_ahead(place);
        let call = self.members[place].held.pop_front()?;
        if ahead {
            self.kicked = Some(call);
        }
        Some(Action::Admit(call))
    }
}

/// AFQ as published: with anticipation of its own.
struct Alone(Afq);

impl Scheduler for Alone {
    fn insert(&mut self, now: Time, request: &Request) {
        self.0.insert(now, request);
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        self.0.merged(now, request, growth);
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        if self.0.queued == 0 {
            return Decision::Idle;
        }
        if let Some(hold) = self.0.awaits(now) {
            return Decision::Hold(hold);
        }
        match self.0.candidate(now, view) {
            Some(Candidate { id, reason, .. }) => {
                self.0.take(now, &view.requests[id]);
                Decision::Dispatch { id, reason }
            }
            None => Decision::Idle,
        }
    }

    fn completed(&mut self, now: Time, request: &Request, outcome: Outcome) {
        self.0.completed(now, request, outcome);
    }

    fn may_merge(&self, request: &Request, addition: &Request, side: Side) -> bool {
        self.0.may_merge(request, addition, side)
    }

    fn split(&mut self) -> Option<&mut dyn Split> {
        Some(&mut self.0)
    }

    fn tunables(&self) -> &'static [Tunable] {
        Tunables::TABLE
    }

    fn tunable(&self, name: &str) -> Option<Value> {
        self.0.tunables.get(name)
    }

    fn tune(&mut self, name: &str, value: Value) -> Result<(), TuneError> {
        self.0.tunables.set(name, value)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use elevator::Priority;

    use super::super::testing::Host;
    use super::*;
    use crate::testing::at_ms;

    fn priority(level: u8) -> Terms {
        Terms { priority: Priority { level, ..Priority::default() }, ..Terms::default() }
    }

    /// Accounts 0, 1, … of these priority levels.
    fn host(levels: &[u8]) -> Host {
        let terms: Vec<_> = levels.iter().map(|&level| priority(level)).collect();
        Host::new(Alone(Afq::default())).accounts(&terms)
    }

    #[test]
    fn a_writer_that_is_ahead_of_the_least_served_one_is_held_until_that_has_caught_up() {
        let mut t = host(&[0, 7]);
        t.dirty(0, 1, 0, 1); // both active
        t.dirty(1, 2, 0, 1000); // 1000 pages × 840 / 1 is more than 204,800 ahead
        let busy = t.caused(0, Op::Read, 0, 8);
        let (held, verdict) = t.write(1, 2);
        assert_eq!(verdict, Verdict::Hold);
        assert_eq!(t.acts(), []);
        let (_, verdict) = t.write(0, 1);
        assert_eq!(verdict, Verdict::Proceed, "the least served one goes on");
        t.dirty(0, 1, 1, 7000); // 7000 × 840 / 8: within 204,800 of the other
        assert_eq!(t.acts(), [Action::Admit(held)]);
        t.table.sends(busy, Reason::Share);
    }

    #[test]
    fn pages_that_are_thrown_away_count_for_nobody() {
        let mut t = host(&[0, 7]);
        t.dirty(0, 1, 0, 1);
        t.dirty(1, 2, 0, 1000);
        t.free(1, 2, 0, 1000);
        assert_eq!(t.write(1, 2).1, Verdict::Proceed);
    }

    #[test]
    fn a_held_call_goes_on_when_the_device_has_nothing_to_do_one_at_a_time() {
        let mut t = host(&[0, 7]);
        t.dirty(0, 1, 0, 1);
        t.dirty(1, 2, 0, 1000);
        let (first, _) = t.write(1, 2);
        let (second, _) = t.write(1, 2);
        assert_eq!(t.acts(), [Action::Admit(first)]);
        t.returns(first);
        assert_eq!(t.acts(), [Action::Admit(second)]);
    }

    #[test]
    fn every_fsync_queues_and_the_least_served_goes_first_two_at_a_time() {
        let mut t = host(&[7, 0, 4]);
        for account in 0..3 {
            t.dirty(account, u64::from(account), 0, 1); // all begin at the same time
        }
        for account in 0..3 {
            t.dirty(account, u64::from(account), 1, 99);
        }
        let calls = [0, 1, 2].map(|account| t.fsync(account, u64::from(account)));
        assert!(calls.iter().all(|&(_, verdict)| verdict == Verdict::Hold));
        let [least, middle, most] = [calls[1].0, calls[2].0, calls[0].0];
        assert_eq!(t.acts(), [Action::Admit(least), Action::Admit(middle)]);
        t.returns(least);
        assert_eq!(t.acts(), [Action::Admit(most)]);
    }

    #[test]
    fn writes_go_straight_out_whoever_caused_them() {
        let mut t = host(&[0, 7]);
        let read = t.caused(0, Op::Read, 100, 8);
        let write = t.caused(1, Op::Write, 900, 8);
        t.table.serves(write, Reason::SectorOrder);
        t.table.serves(read, Reason::Share);
    }

    #[test]
    fn reads_are_served_in_proportion_to_their_shares() {
        let mut t = host(&[0, 6]); // shares 8 and 2
        t.table.scheduler.tune("batch", Value::Count(1)).unwrap();
        let mut served = [0, 0];
        for n in 0..100 {
            t.caused(0, Op::Read, n * 100_000, 8); // each a long seek away from every other: all cost the same
            t.caused(1, Op::Read, n * 100_000 + 50_000, 8);
        }
        for _ in 0..100 {
            let id = t.table.dispatches();
            let account = t.table.requests[id].causes.unwrap().0;
            served[account as usize] += 1;
            t.table.complete(id);
        }
        assert!((78..=82).contains(&served[0]), "{served:?}");
    }

    #[test]
    fn a_sequential_reader_is_waited_for_and_others_go_when_it_does_not_come() {
        let mut t = host(&[4, 4]);
        for n in 0..13 {
            let id = t.caused(0, Op::Read, n * 8, 8);
            assert_eq!(t.table.dispatches(), id);
            t.table.complete(id);
        }
        let other = t.caused(1, Op::Read, 1_000_000, 8);
        t.table.holds(HoldReason::AwaitSliceOwner, Some(at_ms(20)));
        t.table.at(21).serves(other, Reason::Share);
    }

    #[test]
    fn one_that_comes_back_has_saved_up_nothing() {
        let mut afq = Afq::default();
        let now = Time::ZERO;
        for n in 0..2 {
            afq.account(now, Account(n), priority(4));
            Split::causes(&mut afq, CauseSet(n), &[Account(n)]);
        }
        let page = |file, offset| Page { file: elevator::split::File(file), offset, bytes: 4096 };
        for n in 0..100_000 {
            afq.dirtied(now, &page(1, n * 4096), CauseSet(1), None);
        }
        afq.dirtied(now + Span::from_secs(1), &page(0, 0), CauseSet(0), None);
        let services: Vec<_> = afq.members.iter().map(|member| member.service).collect();
        assert_eq!(services, vec![services[1] + STRIDE / 4, services[1]]);
    }
}
