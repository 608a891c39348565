//! Split-Token: rate limits by account, charged by real cost as soon as the work is foreseeable.
//!
//! # Idea
//! A limit at the block layer takes effect too late for writes, and applies to the writeback thread. A limit at the call cannot
//! see that a read was cached, that a page was dirty already, or that a small write costs a long seek. Split-Token charges an
//! estimate when a page becomes dirty, corrects it to the true cost at dispatch, and refunds it if the page is discarded.
//!
//! # State
//! A token bucket per account with a limit, in byte equivalents; its held calls; its queued reads. One index for writes.
//!
//! # Order of decisions
//! At the call: a write, creat or mkdir is held while the account is in debt, or has fewer tokens than bytes in calls that were admitted and have
//! not ended. Otherwise all calls that wait would go on when a debt is paid, as none of them is charged before it dirties pages. An
//! fsync is not held: its data is already charged. A process that has submitted requests itself is held while its account is in debt and
//! `crowd` of them wait at the block layer.
//!
//! At the block layer:
//! 1. Writes are always allowed, and alternate with reads in turns of `turn_bytes`. Direct writes, on which nothing else depends, count as reads.
//! 2. Reads of accounts in debt wait. The other accounts go round robin, each for `turn_bytes`, in one-way sector order. An account
//!    that reads sequentially and got into debt in its turn may continue up to `run`. If more than `crowd` requests of an account
//!    wait, the others are served in spite of its debt: they would take the room of all others in the device's queue.
//! 3. The account in turn has no more reads and was sequential: wait `idle` for it, also while its last read is in the device. Likewise for
//!    writes, if no process waits for the last one: the kernel submits no more than the queue of its device admits, and each interruption
//!    costs two seeks.
//!
//! # Where it differs from the source
//! - A request with several causes queues with the first of them; in the source with account 0. All causes are charged.
//! - A request is charged the seek from the previous request, whichever account that belonged to. The source collects 64 requests
//!   or 32 MiB, prices them in sector order, and charges each account in proportion to the cost of its own part alone. Measured
//!   on the same requests, with two appending tenants, both charges agree within a tenth.
//! - As the source charges seeks only after such a batch, a sequential reader continues within it whatever its debt; here `run`
//!   allows that.
//! - The source checks a held call again after at least 100 us and at most 5 s; here exactly when its debt is paid, or when tokens
//!   are refunded.
//! - Metadata is charged what it adds to one pass over all dirty metadata, as it becomes dirty in the order of its transaction's list; the
//!   source charges the distance from the block before, which is a long seek for nearly each.
//! - In front of a device without a head a request costs its bytes. The source has the model of a hard disk only.
//! - The source holds no direct writes and has no limit on the waiting requests of an account: it has a queue without a limit.
//! - The source waits for any account; here only for accounts whose last reads were near each other, as in AFQ, and for writes.
//!
//! # Not for
//! Hosts that do not tag causes: nothing is charged there. There is no bound on waiting: an account in debt waits as long as its
//! rate requires.
//!
//! # Sources
//! Yang et al., "Split-Level I/O Scheduling", SOSP 2015, "token bucket for performance isolation"; its published code for
//! constants.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use elevator::split::{Account, Action, CallId, CallKind, Page, Split, SystemCall, Terms, Verdict};
use elevator::{
    Capabilities, CauseSet, Decision, Fact, Growth, Hold, HoldReason, Inspection, Item, Outcome, Reason,
    Request, RequestId, Scheduler, Side, Span, Time, View, Wake, tunables, tuned_by,
};

use super::lane::Lanes;
use super::ledger::Ledger;
use super::tokens::Bucket;
use crate::listing::{Listing, Make};

tunables! {
    /// Tunables.
    pub struct Tunables {
        /// Bytes in a turn, for an account's reads and for writes. Source: 10 MiB.
        turn_bytes: Count = 10 << 20, 1, 1 << 40;
        /// Maximum wait for the next request of the party in turn. Source: 10 ms.
        idle: Span = Span::from_millis(10), Span::ZERO, Span::from_secs(1);
        /// The maximum saved credit of an account, as the time in which it accrues. The source has a cap without a number.
        saves: Span = Span::from_secs(1), Span::ZERO, Span::from_secs(3_600);
        /// Bytes of a turn that an account may read sequentially in spite of debt. Otherwise an account whose seek has used up its credit before any
        /// transfer would have to pay for another seek. The longest seek costs 2 MiB: with the same amount read after it, at
        /// least half of the credit is transfer. Higher: reads of others wait longer. 0: debt stops every account.
        run: Count = 2 << 20, 0, 1 << 40;
        /// Maximum distance of near reads, as in AFQ.
        near: Sectors = 1024, 0, 1 << 40;
        /// Requests of an account in debt that wait, merged ones counted singly: a quarter of the 128 places of a loop device. Its process is stopped when there are as many, and what it
        /// submits before that is served. Lower: more processes are stopped, and stopping takes milliseconds. Higher: less room for others.
        crowd: Count = 32, 1, 1 << 20;
    }
}

const ABOUT: &str = "split-level token bucket: limits by account, charged when dirtied, corrected when sent, refunded when freed";

pub(crate) const LISTINGS: &[Listing] = &[Listing::new(
    "split-token",
    ABOUT,
    Make::Scheduler(|environment| Box::new(SplitToken::for_device(environment.rotational))),
)
.with_source("Yang et al., Split-Level I/O Scheduling, SOSP 2015")
.with_split()
.with_tunables(Tunables::TABLE)];

struct Member {
    bucket: Bucket,
    /// Held calls, each with its [`least_charge`].
    held: VecDeque<(CallId, u64)>,
    /// Held calls whose turn has come.
    admitted: VecDeque<CallId>,
    /// The sum of [`least_charge`] of the admitted calls that have not ended.
    running: u64,
    reads: Run,
}

impl Member {
    /// Whether a further call may begin.
    fn admits(&mut self, now: Time) -> bool {
        self.bucket.has(now, self.running)
    }

    /// The next held call, if it may begin.
    fn next_call(&mut self, now: Time) -> Option<CallId> {
        let &(call, bytes) = self.held.front().filter(|_| self.bucket.has(now, self.running))?;
        self.held.pop_front();
        self.running += bytes;
        Some(call)
    }
}

/// What a call is expected to be charged at least, in bytes: its data or a block of metadata, and no seek.
fn least_charge(call: CallKind) -> u64 {
    match call {
        CallKind::Write { bytes, .. } => bytes.max(BLOCK),
        CallKind::Create | CallKind::Mkdir => BLOCK,
        _ => 0,
    }
}

/// The usual block of a file system, in bytes.
const BLOCK: u64 = 4096;

/// The latest requests of a party.
#[derive(Default)]
struct Run {
    /// Whether the last one was near the one before, and no process waits for it if it is a write.
    sequential: bool,
    /// Its requests in the device.
    in_flight: u32,
    /// The time of the last completion.
    returned: Time,
}

/// The party in turn at the block layer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Party {
    Reads(usize),
    Writes,
}

/// Split-Token.
pub struct SplitToken {
    tunables: Tunables,
    ledger: Ledger,
    members: Vec<Member>,
    lanes: Lanes,
    writes: Run,
    turn: (Party, u64),
    now: Time,
}

impl Default for SplitToken {
    /// For a device with a head.
    fn default() -> Self {
        Self::for_device(true)
    }
}

impl SplitToken {
    fn for_device(has_head: bool) -> Self {
        Self {
            tunables: Tunables::default(),
            ledger: Ledger::new(true).for_device(has_head),
            members: Vec::new(),
            lanes: Lanes::with_direct_writes(),
            writes: Run::default(),
            turn: (Party::Writes, 0),
            now: Time::ZERO,
        }
    }

    fn member(&mut self, account: Account) -> usize {
        let place = self.ledger.place(account);
        self.grow();
        place
    }

    fn grow(&mut self) {
        let (now, saves) = (self.now, self.tunables.saves);
        self.members.resize_with(self.ledger.accounts(), || Member {
            bucket: Bucket::new(now, None, saves),
            held: VecDeque::new(),
            admitted: VecDeque::new(),
            running: 0,
            reads: Run::default(),
        });
    }

    /// The account in whose queue a request is: a read with the first of its causes.
    fn place_of(&mut self, request: &Request) -> usize {
        let place = self.ledger.place_of(request);
        self.grow();
        place
    }

    fn queues(&mut self, now: Time, request: &Request, bytes: u64) {
        let Self { ledger, members, .. } = self;
        ledger.queued(request, bytes, &mut |place, bytes| members[place].bucket.spend(now, bytes));
    }

    fn may_read(&mut self, place: usize, now: Time) -> bool {
        let waiting = u64::from(self.lanes.own(place));
        let is_allowed = self.is_on_a_run(place) || self.members[place].bucket.is_open(now);
        waiting > 0 && (is_allowed || waiting > self.tunables.crowd)
    }

    /// Whether so many requests of an account in debt wait that its process must not submit more.
    fn is_crowded(&mut self, place: usize, now: Time) -> bool {
        u64::from(self.lanes.own(place)) >= self.tunables.crowd && !self.members[place].bucket.is_open(now)
    }

    /// Whether an account reads sequentially in its own turn, within the `run` that is allowed in debt.
    fn is_on_a_run(&self, place: usize) -> bool {
        let (turn, sent) = self.turn;
        turn == Party::Reads(place) && sent < self.tunables.run && self.members[place].reads.sequential
    }

    fn has_work(&mut self, party: Party, now: Time) -> bool {
        match party {
            Party::Writes => self.lanes.writes_wait(),
            Party::Reads(place) => self.may_read(place, now),
        }
    }

    /// The next party in round-robin order: writes first, then each account.
    fn next_turn(&mut self, now: Time) -> Option<Party> {
        let round = self.members.len() + 1;
        let after = match self.turn.0 {
            Party::Writes => 0,
            Party::Reads(place) => place + 1,
        };
        (1..=round)
            .map(|step| match (after + step) % round {
                0 => Party::Writes,
                n => Party::Reads(n - 1),
            })
            .find(|&party| self.has_work(party, now))
    }

    fn run(&mut self, party: Party) -> &mut Run {
        match party {
            Party::Writes => &mut self.writes,
            Party::Reads(place) => &mut self.members[place].reads,
        }
    }

    /// The wait for the party in turn: until its last request completes, and then for `idle`.
    fn awaits(&mut self, now: Time) -> Option<Hold> {
        let (party, sent) = self.turn;
        let worth = match party {
            Party::Writes => !self.lanes.writes_wait(),
            Party::Reads(place) => {
                let may_read = self.is_on_a_run(place) || self.members[place].bucket.is_open(now);
                may_read && !self.lanes.has_reads(place)
            }
        };
        let idle = self.tunables.idle;
        let &mut Run { sequential, in_flight, returned } = self.run(party);
        let until = (in_flight == 0).then_some(returned + idle);
        let in_time = sent < self.tunables.turn_bytes && until.is_none_or(|until| now < until);
        let wake = if until.is_some() { Wake::Timer } else { Wake::External };
        (worth && sequential && in_time).then_some(Hold { until, wake, reason: HoldReason::AwaitSliceOwner })
    }

    /// When the first account in debt may read again.
    fn opens(&self) -> Option<Time> {
        self.lanes.readers().filter_map(|place| self.members[place].bucket.opens()).min()
    }

    fn send(&mut self, party: Party, view: &View<'_>, now: Time) -> Option<(RequestId, Reason)> {
        let (id, place) = match party {
            Party::Writes => (self.lanes.next_write()?, 0),
            Party::Reads(place) => (self.lanes.next_read(place)?, place),
        };
        if let Party::Reads(place) = party {
            // What opened the bucket is for both: otherwise reads, which wait here all the time, would always be first.
            let member = &mut self.members[place];
            let call = member.next_call(now);
            member.admitted.extend(call);
        }
        let request = &view.requests[id];
        let near = self.lanes.take(place, request) <= self.tunables.near;
        let run = self.run(party);
        run.sequential = near && (party != Party::Writes || !request.is_sync());
        run.in_flight += 1;
        let (was, sent) = self.turn;
        let reason = if was == party { Reason::SliceOwner } else { Reason::RoundRobin };
        self.turn = (party, if was == party { sent } else { 0 } + request.sectors.bytes());
        let Self { ledger, members, .. } = self;
        ledger.dispatched(request, &mut |place, bytes| members[place].bucket.spend(now, bytes));
        Some((id, reason))
    }

    fn choose(&mut self, now: Time) -> Option<Party> {
        let (party, sent) = self.turn;
        if sent < self.tunables.turn_bytes && self.has_work(party, now) {
            return Some(party);
        }
        let next = self.next_turn(now)?;
        if next == party {
            self.turn.1 = 0;
        }
        Some(next)
    }
}

impl Scheduler for SplitToken {
    fn insert(&mut self, now: Time, request: &Request) {
        let place = self.place_of(request);
        self.lanes.insert(place, request);
        self.queues(now, request, request.sectors.bytes());
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        let place = self.place_of(request);
        let bytes = self.lanes.merged(place, request, growth);
        self.queues(now, request, bytes);
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        if self.lanes.is_empty() {
            return Decision::Idle;
        }
        if let Some(hold) = self.awaits(now) {
            return Decision::Hold(hold);
        }
        if let Some((id, reason)) = self.choose(now).and_then(|party| self.send(party, view, now)) {
            return Decision::Dispatch { id, reason };
        }
        let until = self.opens();
        let wake = if until.is_some() { Wake::Timer } else { Wake::External };
        Decision::Hold(Hold { until, wake, reason: HoldReason::NoToken })
    }

    fn completed(&mut self, now: Time, request: &Request, _outcome: Outcome) {
        let is_own = self.lanes.is_own(request);
        let party = if is_own { Party::Reads(self.place_of(request)) } else { Party::Writes };
        let run = self.run(party);
        run.in_flight -= 1;
        run.returned = now;
    }

    fn may_merge(&self, request: &Request, addition: &Request, _side: Side) -> bool {
        request.causes == addition.causes && request.flags.direct == addition.flags.direct
    }
}

impl Inspection for SplitToken {
    fn inspect(&self, now: Time) -> Vec<Item> {
        let item = |(account, place): (Account, usize)| {
            let member = self.members.get(place)?;
            let tokens = member.bucket.tokens(now);
            let count = |of: Option<i64>| of.map_or(Fact::None, |of| Fact::Count(of.max(0).unsigned_abs()));
            let opens = member.bucket.opens().map_or(Fact::None, |at| Fact::Span(at.since(now)));
            let item = Item::new("account", u64::from(account.0))
                .with("tokens", count(tokens))
                .with("debt", count(tokens.map(i64::wrapping_neg)))
                .with("paid in", opens)
                .with("held", Fact::Count(member.held.len() as u64));
            Some(item)
        };
        self.ledger.each().filter_map(item).collect()
    }
}

impl Capabilities for SplitToken {
    fn inspection(&self) -> Option<&dyn Inspection> {
        Some(self)
    }

    fn split(&mut self) -> Option<&mut dyn Split> {
        Some(self)
    }

    tuned_by!(tunables);
}

impl Split for SplitToken {
    fn account(&mut self, now: Time, account: Account, terms: Terms) {
        self.now = now;
        let place = self.member(account);
        self.members[place].bucket.set(now, terms.rate, self.tunables.saves);
    }

    fn forget(&mut self, now: Time, account: Account) {
        self.now = now;
        let place = self.member(account);
        let member = &mut self.members[place];
        member.bucket = Bucket::new(now, None, self.tunables.saves);
        member.running = 0;
    }

    fn causes(&mut self, set: CauseSet, members: &[Account]) {
        self.ledger.define(set, members);
        self.grow();
    }

    fn entered(&mut self, now: Time, call: &SystemCall) -> Verdict {
        self.now = now;
        if matches!(call.kind, CallKind::Read { .. } | CallKind::Fsync { .. }) {
            return Verdict::Proceed;
        }
        let place = self.member(call.account);
        if call.kind == CallKind::Submit && !self.is_crowded(place, now) {
            return Verdict::Proceed;
        }
        let member = &mut self.members[place];
        let bytes = least_charge(call.kind);
        if member.held.is_empty() && member.admits(now) {
            member.running += bytes;
            return Verdict::Proceed;
        }
        member.held.push_back((call.id, bytes));
        Verdict::Hold
    }

    fn returned(&mut self, now: Time, call: &SystemCall) {
        self.now = now;
        let place = self.member(call.account);
        let member = &mut self.members[place];
        let waited = member.held.len();
        member.held.retain(|&(held, _)| held != call.id);
        if member.held.len() == waited {
            member.admitted.retain(|&admitted| admitted != call.id);
            member.running = member.running.saturating_sub(least_charge(call.kind));
        }
    }

    fn dirtied(&mut self, now: Time, page: &Page, causes: CauseSet, before: Option<CauseSet>) {
        let Self { ledger, members, .. } = self;
        ledger.dirtied(page, causes, before, &mut |place, bytes| members[place].bucket.spend(now, bytes));
    }

    fn submitted(&mut self, now: Time, page: &Page, causes: CauseSet) {
        self.freed(now, page, causes);
    }

    fn freed(&mut self, now: Time, page: &Page, causes: CauseSet) {
        let Self { ledger, members, .. } = self;
        ledger.cleaned(page, causes, &mut |place, bytes| members[place].bucket.spend(now, bytes));
    }

    fn act(&mut self, now: Time) -> Option<Action> {
        self.now = now;
        let admit = |(place, member): (usize, &mut Member)| {
            let call = member.admitted.pop_front();
            call.or_else(|| if self.lanes.has_reads(place) { None } else { member.next_call(now) })
        };
        self.members.iter_mut().enumerate().find_map(admit).map(Action::Admit)
    }

    fn alarm(&self) -> Option<Time> {
        // A call of an account whose reads wait is admitted with the next one of them.
        let waits =
            |&(place, member): &(usize, &Member)| !member.held.is_empty() && !self.lanes.has_reads(place);
        let held = self.members.iter().enumerate().filter(waits);
        held.filter_map(|(_, member)| member.bucket.has_at(member.running)).min()
    }
}

#[cfg(test)]
mod tests {
    use elevator::Op;

    use super::super::testing::Host;
    use super::*;
    use crate::testing::{at_ms, request};

    /// Account 0 has no limit; account 1 has one megabyte (10^6 bytes) per second and saves no credit.
    fn host() -> Host {
        let limited = Terms { rate: Some(1_000_000), ..Terms::default() };
        let policy = SplitToken {
            tunables: Tunables { saves: Span::ZERO, ..Tunables::default() },
            ..SplitToken::default()
        };
        Host::new(policy).accounts(&[Terms::default(), limited])
    }

    #[test]
    fn dirtying_is_charged_and_the_next_write_waits_until_the_debt_is_paid() {
        let mut t = host();
        let (first, verdict) = t.write(1, 1);
        assert_eq!(verdict, Verdict::Proceed);
        t.dirty(1, 1, 0, 25); // 102,400 bytes
        t.returns(first);
        let (call, verdict) = t.write(1, 1);
        assert_eq!(verdict, Verdict::Hold);
        assert_eq!((t.acts(), t.alarm_ms()), (Vec::new(), Some(103)));
        let limited = &t.table.items()[1];
        assert_eq!(
            (limited.kind, limited.number, limited.fact("debt")),
            ("account", 1, Some(Fact::Count(102_400)))
        );
        assert_eq!(limited.fact("held"), Some(Fact::Count(1)));
        t.table.at(103);
        assert_eq!(t.acts(), [Action::Admit(call)]);
        assert_eq!(t.write(0, 2).1, Verdict::Proceed, "no limit");
    }

    /// Otherwise a thousand threads make a debt of a thousand calls whenever there is none.
    #[test]
    fn calls_that_wait_go_on_as_tokens_for_them_accrue() {
        let mut t = host();
        t.table.scheduler.tune("saves", elevator::Value::Span(Span::from_secs(1))).unwrap();
        let limited = Terms { rate: Some(1_000_000), ..Terms::default() };
        t.split().account(Time::ZERO, Account(1), limited);
        t.dirty(1, 1, 0, 25);
        let calls: Vec<_> = (0..1000).map(|_| t.write(1, 1).0).collect();
        assert_eq!(t.alarm_ms(), Some(103));
        t.table.at(103);
        assert_eq!(t.acts(), [Action::Admit(calls[0])], "one may begin when there is no debt");
        t.dirty(1, 2, 0, 1);
        assert_eq!((t.acts(), t.alarm_ms()), (Vec::new(), Some(111)), "its page, and as much until it ends");
        t.returns(calls[0]);
        assert_eq!((t.acts(), t.alarm_ms()), (Vec::new(), Some(107)));
        t.table.at(107);
        assert_eq!(t.acts(), [Action::Admit(calls[1])]);
        t.returns(calls[1]); // nothing clean became dirty
        assert_eq!(t.acts(), [Action::Admit(calls[2])]);
        calls[2..].iter().for_each(|&call| t.returns(call)); // their agent has ended
        assert_eq!((t.acts(), t.alarm_ms(), t.write(1, 1).1), (Vec::new(), None, Verdict::Proceed));
    }

    #[test]
    fn discarded_pages_are_refunded_at_once() {
        let mut t = host();
        t.dirty(1, 1, 0, 1000);
        let (call, _) = t.write(1, 1);
        t.free(1, 1, 0, 1000);
        assert_eq!(t.acts(), [Action::Admit(call)]);
    }

    /// A program that is started again continues with its account's debt; another account of the same number owes nothing.
    #[test]
    fn debt_ends_when_the_account_is_forgotten() {
        let mut t = host();
        let limited = Terms { rate: Some(1_000_000), ..Terms::default() };
        t.dirty(1, 1, 0, 1000);
        let split = t.split();
        split.account(Time::ZERO, Account(1), Terms { has_ended: true, ..Terms::default() });
        split.account(Time::ZERO, Account(1), limited);
        assert_eq!(t.write(1, 1).1, Verdict::Hold);
        let split = t.split();
        split.account(Time::ZERO, Account(1), Terms { has_ended: true, ..Terms::default() });
        while split.act(Time::ZERO).is_some() {}
        split.forget(Time::ZERO, Account(1));
        split.account(Time::ZERO, Account(1), limited);
        assert_eq!(t.write(1, 1).1, Verdict::Proceed);
    }

    #[test]
    fn fsync_is_not_held_because_its_data_is_already_charged() {
        let mut t = host();
        t.dirty(1, 1, 0, 1000);
        assert_eq!(t.fsync(1, 1).1, Verdict::Proceed);
    }

    #[test]
    fn reads_of_an_account_in_debt_wait_and_writes_do_not() {
        let mut t = host();
        t.dirty(1, 1, 0, 25);
        let read = t.caused(1, Op::Read, 100, 8);
        let write = t.caused(1, Op::Write, 900_000, 8);
        t.table.serves(write, Reason::SliceOwner);
        t.table.holds(HoldReason::NoToken, Some(Time::from_nanos(106_496_000)));
        let other = t.caused(0, Op::Read, 5000, 8);
        t.table.serves(other, Reason::RoundRobin);
        t.table.at(1_000).serves(read, Reason::RoundRobin);
        t.table.idles();
    }

    /// Otherwise a process that reads would keep all others of its account from writing.
    #[test]
    fn a_held_call_is_admitted_with_a_read_that_waited_for_the_same_debt() {
        let mut t = host();
        t.dirty(1, 1, 0, 25);
        let (first, _) = t.write(1, 1);
        let (second, _) = t.write(1, 1);
        let reads = [100, 500_000, 900_000].map(|start| t.caused(1, Op::Read, start, 8));
        assert_eq!((t.acts(), t.alarm_ms()), (Vec::new(), None));
        t.table.at(103).serves(reads[0], Reason::RoundRobin);
        assert_eq!(t.acts(), [Action::Admit(first)]);
        t.returns(first);
        t.table.at(10_000).serves(reads[1], Reason::SliceOwner);
        assert_eq!(t.acts(), [Action::Admit(second)]);
    }

    #[test]
    fn a_call_that_goes_on_by_itself_is_forgotten() {
        let mut t = host();
        t.dirty(1, 1, 0, 25);
        let [first, second] = [(); 2].map(|()| t.write(1, 1).0);
        t.returns(first);
        t.table.at(103);
        assert_eq!(t.acts(), [Action::Admit(second)]);
    }

    #[test]
    fn direct_writes_of_an_account_in_debt_wait() {
        let mut t = host();
        t.dirty(1, 1, 0, 25);
        let direct = t.writes_directly(1, 100);
        let write = t.caused(1, Op::Write, 900_000, 8);
        t.table.serves(write, Reason::SliceOwner);
        t.table.holds(HoldReason::NoToken, Some(Time::from_nanos(110_592_000)));
        t.table.at(1_000).serves(direct, Reason::RoundRobin);
    }

    /// They would take the places of all others in the device.
    #[test]
    fn an_account_in_debt_whose_requests_crowd_is_stopped_and_has_no_more_than_these_waiting() {
        let mut t = host();
        t.table.scheduler.tune("crowd", elevator::Value::Count(2)).unwrap();
        t.dirty(1, 1, 0, 25);
        let first = t.caused(1, Op::Read, 100_000, 8);
        assert_eq!(t.submits(1).1, Verdict::Proceed);
        let second = t.caused(1, Op::Read, 500_000, 8);
        let (call, verdict) = t.submits(1);
        assert_eq!(verdict, Verdict::Hold);
        assert_eq!(t.submits(0).1, Verdict::Proceed, "no limit");
        t.table.holds(HoldReason::NoToken, Some(Time::from_nanos(102_400_000)));
        let third = t.caused(1, Op::Read, 900_000, 8);
        t.table.serves(first, Reason::RoundRobin);
        t.table.holds(HoldReason::NoToken, Some(Time::from_nanos(106_496_000)));
        assert_eq!(t.acts(), []);
        t.table.at(107).serves(second, Reason::SliceOwner);
        assert_eq!(t.acts(), [Action::Admit(call)]);
        t.table.at(10_000).serves(third, Reason::SliceOwner);
    }

    #[test]
    fn a_sequential_reader_may_finish_its_run_in_debt() {
        let mut t = host();
        t.table.scheduler.tune("run", elevator::Value::Count(8192)).unwrap();
        let before = t.caused(0, Op::Read, 900_000, 8);
        t.table.serves(before, Reason::RoundRobin);
        let reads = [0, 8, 16].map(|start| t.caused(1, Op::Read, start, 8));
        t.table.serves(reads[0], Reason::RoundRobin);
        t.table.serves(reads[1], Reason::SliceOwner);
        // The seek costs 2 MiB (2.097 s), in addition to two reads of 4 KB.
        t.table.holds(HoldReason::NoToken, Some(Time::from_nanos(2_105_344_000)));
        t.table.at(2_106).serves(reads[2], Reason::SliceOwner);
    }

    #[test]
    fn a_run_of_writeback_is_not_interrupted_while_the_kernel_submits_more_of_it() {
        let mut t = host();
        let first = t.caused(1, Op::Write, 900_000, 8);
        t.table.serves(first, Reason::SliceOwner);
        let second = t.caused(1, Op::Write, 900_008, 8);
        t.table.serves(second, Reason::SliceOwner);
        let read = t.caused(0, Op::Read, 100, 8);
        t.table.holds(HoldReason::AwaitSliceOwner, Some(at_ms(10)));
        let third = t.caused(1, Op::Write, 900_016, 8);
        t.table.at(9).serves(third, Reason::SliceOwner);
        t.table.holds(HoldReason::AwaitSliceOwner, Some(at_ms(19)));
        t.table.at(19).serves(read, Reason::RoundRobin);
    }

    #[test]
    fn the_device_does_not_wait_for_a_run_whose_turn_is_over() {
        for (turn_bytes, is_over) in [(8192, true), (8193, false)] {
            let mut t = host();
            t.table.scheduler.tune("turn_bytes", elevator::Value::Count(turn_bytes)).unwrap();
            for start in [900_000, 900_008] {
                let write = t.caused(1, Op::Write, start, 8);
                t.table.serves(write, Reason::SliceOwner);
            }
            let read = t.caused(0, Op::Read, 100, 8);
            if is_over {
                t.table.serves(read, Reason::RoundRobin);
            } else {
                t.table.holds(HoldReason::AwaitSliceOwner, Some(at_ms(10)));
            }
        }
    }

    #[test]
    fn after_a_write_for_which_a_process_waits_reads_are_next() {
        let mut t = host();
        for start in [900_000, 900_008] {
            let flags = elevator::Flags { sync: true, ..elevator::Flags::default() };
            let write = Request { op: Op::Write, flags, causes: Some(CauseSet(1)), ..request(start, 8) };
            let write = t.table.insert(write);
            t.table.serves(write, Reason::SliceOwner);
        }
        let read = t.caused(0, Op::Read, 100, 8);
        t.table.serves(read, Reason::RoundRobin);
    }

    /// Only a read or a direct write waits for its account's tokens.
    #[test]
    fn requests_merge_if_they_have_the_same_causes_and_are_both_direct_or_not() {
        let t = host();
        let write = |account, direct| Request {
            op: Op::Write,
            causes: Some(CauseSet(account)),
            flags: elevator::Flags { direct, ..elevator::Flags::default() },
            ..request(0, 8)
        };
        let own = write(1, true);
        for (other, merges) in [(own, true), (write(0, true), false), (write(1, false), false)] {
            assert_eq!(t.table.scheduler.may_merge(&own, &other, Side::Back), merges, "{other:?}");
        }
    }

    #[test]
    fn accounts_alternate_in_turns_of_turn_bytes() {
        let mut t = host();
        t.table.scheduler.tune("turn_bytes", elevator::Value::Count(8192)).unwrap();
        let mine = [0, 8, 16].map(|start| t.caused(0, Op::Read, start, 8));
        let write = t.caused(0, Op::Write, 900_000, 8);
        t.table.serves(write, Reason::SliceOwner);
        t.table.serves(mine[0], Reason::RoundRobin);
        let another = t.caused(0, Op::Write, 800_000, 8);
        t.table.serves(mine[1], Reason::SliceOwner);
        t.table.serves(another, Reason::RoundRobin);
        t.table.serves(mine[2], Reason::RoundRobin);
    }
}
