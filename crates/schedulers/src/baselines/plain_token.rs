//! Token buckets at one level only: the baselines of Split-Token.
//!
//! # Idea
//! `token-block` charges each request to its submitter, and holds the requests of accounts in debt. `token-call` charges each
//! read and write call by its bytes and holds the calls of accounts in debt; it ignores the block layer.
//!
//! # State
//! A token bucket per account with a limit, held calls, and queued requests by submitter in order of arrival.
//!
//! # Order of decisions
//! - `token-block`: first come, first served among the requests whose submitter is not in debt.
//! - `token-call`: first come, first served, so the waiting of requests is bounded as in `noop` (`longest_wait`). A call of an account in
//!   debt is held until the debt is paid.
//!
//! # Where it differs from the source
//! The paper describes both in a sentence each; the order of arrival and the accounting in debt are ours.
//!
//! # Not for
//! Anything but comparison. `token-block` charges the kernel's writeback thread for other processes' writes, and holds requests
//! that a journal may need; there is no bound on waiting, because an account in debt waits as long as its rate requires.
//! `token-call` charges cached reads and overwritten pages, but no seeks.
//!
//! # Sources
//! Yang et al., "Split-Level I/O Scheduling", SOSP 2015; the comparison at the system call follows Craciunas et al., 2008, as
//! cited there.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use elevator::split::{Account, Action, CallId, CallKind, Page, Split, SystemCall, Terms, Verdict};
use elevator::{
    Capabilities, CauseSet, Decision, Growth, Hold, HoldReason, Load, Reason, Request, RequestId, Scheduler,
    Span, Time, View, Wake, tunables, tuned_by,
};

use crate::listing::{Listing, Make};
use crate::split::tokens::Bucket;
use crate::split::tokens::Head;

tunables! {
    /// Tunables.
    pub struct Tunables {
        /// The maximum saved credit of an account, as the time in which it accrues.
        saves: Span = Span::from_secs(1), Span::ZERO, Span::from_secs(3_600);
    }
}

pub(crate) const LISTINGS: &[Listing] = &[
    Listing::new(
        "token-block",
        "token bucket at the block layer only: requests are charged to their submitters",
        Make::Scheduler(|_| Box::new(PlainToken::new(Level::Block))),
    )
    .with_source("Yang et al., Split-Level I/O Scheduling, SOSP 2015 (comparison)")
    .with_split()
    .with_tunables(Tunables::TABLE),
    Listing::new(
        "token-call",
        "token bucket at the system call only: calls are charged by their bytes",
        Make::Scheduler(|_| Box::new(PlainToken::new(Level::Call))),
    )
    .with_source("Yang et al., Split-Level I/O Scheduling, SOSP 2015 (comparison)")
    .with_split()
    .with_tunables(Tunables::TABLE),
];

/// The level at which it charges and holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Block,
    Call,
}

/// A token bucket at one level.
pub struct PlainToken {
    tunables: Tunables,
    level: Level,
    buckets: BTreeMap<Account, Bucket>,
    /// Held calls, in order of entry.
    held: Vec<(Account, CallId)>,
    /// Queued requests by submitter, each in order of arrival with its serial number. Empty lists are kept: there are at most as many as
    /// processes with I/O.
    queues: BTreeMap<Account, VecDeque<(u64, RequestId)>>,
    queued: u32,
    head: Head,
}

/// The account of requests without a known submitter; it has no limit.
const NO_SUBMITTER: Account = Account(u32::MAX);

/// At the block layer an account is a thread group, the only identity in a request.
fn submitter(request: &Request) -> Account {
    request.process.map_or(NO_SUBMITTER, |process| Account(process.group))
}

impl PlainToken {
    const fn new(level: Level) -> Self {
        Self {
            tunables: Tunables { saves: Span::from_secs(1) },
            level,
            buckets: BTreeMap::new(),
            held: Vec::new(),
            queues: BTreeMap::new(),
            queued: 0,
            head: Head::new(),
        }
    }

    fn is_open(&mut self, account: Account, now: Time) -> bool {
        self.buckets.get_mut(&account).is_none_or(|bucket| bucket.is_open(now))
    }

    fn opens(&self, account: Account) -> Option<Time> {
        self.buckets.get(&account).and_then(Bucket::opens)
    }

    /// The submitter with the oldest request that may be dispatched.
    fn choose(&mut self, now: Time) -> Option<Account> {
        let Self { level, queues, buckets, .. } = self;
        let open = queues.iter().filter(|(account, _)| {
            *level == Level::Call || buckets.get_mut(account).is_none_or(|bucket| bucket.is_open(now))
        });
        open.filter_map(|(&account, queue)| Some((queue.front()?.0, account)))
            .min()
            .map(|(_, account)| account)
    }
}

impl Scheduler for PlainToken {
    fn insert(&mut self, _now: Time, request: &Request) {
        self.queued += 1;
        let queue = self.queues.entry(submitter(request)).or_default();
        // Each list has room for all queued requests, so that none grows in the steady state.
        if queue.capacity() < self.queued as usize {
            queue.reserve((self.queued as usize).next_power_of_two() - queue.len());
        }
        queue.push_back((request.serial, request.id));
    }

    fn merged(&mut self, _now: Time, _request: &Request, growth: Growth<'_>) {
        if let Some(absorbed) = growth.absorbed {
            if let Some(queue) = self.queues.get_mut(&submitter(absorbed)) {
                queue.retain(|&(_, id)| id != absorbed.id);
            }
            self.queued -= 1;
        }
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        if self.queued == 0 {
            return Decision::Idle;
        }
        let Some(account) = self.choose(now) else {
            let waiting = self.queues.iter().filter(|(_, queue)| !queue.is_empty());
            let until = waiting.filter_map(|(&account, _)| self.opens(account)).min();
            let wake = if until.is_some() { Wake::Timer } else { Wake::External };
            return Decision::Hold(Hold { until, wake, reason: HoldReason::NoToken });
        };
        let oldest = self.queues.get_mut(&account).and_then(VecDeque::pop_front);
        let Some((_, id)) = oldest else { return Decision::Idle };
        let request = &view.requests[id];
        self.queued -= 1;
        let cost = self.head.moves(request.start, request.sectors);
        if self.level == Level::Block
            && let Some(bucket) = self.buckets.get_mut(&account)
        {
            bucket.spend(now, cost as i64);
        }
        Decision::Dispatch { id, reason: Reason::FirstCome }
    }

    /// `token-call` dispatches in order of arrival. `token-block` holds the requests of an account in debt for as long as its
    /// rate is low.
    fn longest_wait(&self, load: Load) -> Option<Span> {
        (self.level == Level::Call).then(|| load.service * u64::from(load.requests))
    }
}

impl Capabilities for PlainToken {
    fn split(&mut self) -> Option<&mut dyn Split> {
        Some(self)
    }

    tuned_by!(tunables);
}

impl Split for PlainToken {
    fn account(&mut self, now: Time, account: Account, terms: Terms) {
        let saves = self.tunables.saves;
        self.buckets
            .entry(account)
            .or_insert_with(|| Bucket::new(now, terms.rate, saves))
            .set(now, terms.rate, saves);
    }

    fn causes(&mut self, _set: CauseSet, _members: &[Account]) {}

    fn entered(&mut self, now: Time, call: &SystemCall) -> Verdict {
        let (CallKind::Read { bytes } | CallKind::Write { bytes, .. }) = call.kind else {
            return Verdict::Proceed;
        };
        if self.level == Level::Block {
            return Verdict::Proceed;
        }
        let open = self.is_open(call.account, now);
        if let Some(bucket) = self.buckets.get_mut(&call.account) {
            bucket.spend(now, bytes as i64);
        }
        if open {
            return Verdict::Proceed;
        }
        self.held.push((call.account, call.id));
        Verdict::Hold
    }

    fn returned(&mut self, _now: Time, call: &SystemCall) {
        self.held.retain(|&(_, held)| held != call.id);
    }

    fn dirtied(&mut self, _now: Time, _page: &Page, _causes: CauseSet, _before: Option<CauseSet>) {}

    fn freed(&mut self, _now: Time, _page: &Page, _causes: CauseSet) {}

    fn act(&mut self, now: Time) -> Option<Action> {
        let open = (0..self.held.len()).find(|&nth| self.is_open(self.held[nth].0, now))?;
        Some(Action::Admit(self.held.remove(open).1))
    }

    fn alarm(&self) -> Option<Time> {
        self.held.iter().filter_map(|&(account, _)| self.opens(account)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::testing::Host;
    use elevator::{Op, Process};

    use crate::testing::request;

    fn host(level: Level) -> Host {
        let limited = Terms { rate: Some(1_000_000), ..Terms::default() };
        let policy = PlainToken { tunables: Tunables { saves: Span::ZERO }, ..PlainToken::new(level) };
        Host::new(policy).accounts(&[Terms::default(), limited])
    }

    fn submitted(t: &mut Host, by: u32, start: u64) -> RequestId {
        let process = Some(Process::single(by));
        t.table.insert(Request { op: Op::Write, process, causes: Some(CauseSet(1)), ..request(start, 8) })
    }

    #[test]
    fn token_block_charges_and_holds_the_submitter_not_the_causes() {
        let mut t = host(Level::Block);
        let flusher = submitted(&mut t, 77, 0);
        let own = submitted(&mut t, 1, 8);
        let next = submitted(&mut t, 1, 16);
        t.table.serves(flusher, Reason::FirstCome);
        t.table.serves(own, Reason::FirstCome);
        t.table.holds(HoldReason::NoToken, Some(Time::from_nanos(4_096_000)));
        t.table.at(5).serves(next, Reason::FirstCome);
        t.table.idles();
        assert_eq!(t.write(1, 1).1, Verdict::Proceed);
    }

    #[test]
    fn an_absorbed_request_is_not_queued_any_more() {
        for level in [Level::Block, Level::Call] {
            let mut t = host(level);
            let [own, absorbed, other] = [0, 8, 100].map(|start| submitted(&mut t, 77, start));
            t.table.absorb(own, absorbed);
            t.table.serves(own, Reason::FirstCome);
            t.table.serves(other, Reason::FirstCome);
            t.table.idles();
        }
    }

    #[test]
    fn token_call_charges_bytes_of_calls_and_no_requests() {
        let mut t = host(Level::Call);
        assert_eq!(t.write(1, 1).1, Verdict::Proceed);
        let (call, verdict) = t.write(1, 1);
        assert_eq!(verdict, Verdict::Hold);
        let own = submitted(&mut t, 1, 1_000_000);
        t.table.serves(own, Reason::FirstCome);
        assert_eq!(t.alarm_ms(), Some(9), "both calls' bytes");
        t.table.at(9);
        assert_eq!(t.acts(), [Action::Admit(call)]);
    }
}
