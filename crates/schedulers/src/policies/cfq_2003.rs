//! Complete fair queueing as first posted: one request of every process per round.
//!
//! # Idea
//! A process with few requests should not wait for a process with many. Every process has a queue, and each round takes one
//! request of every queue. Only the requests that go to the device together are sorted.
//!
//! # State
//! A queue in sector order per process with requests, the list of these queues, and the dispatch list.
//!
//! # Order of decisions
//! 1. The next request of the dispatch list.
//! 2. If the list is empty: the lowest request of every process, round after round, until there are `quantum` requests or no
//!    more; then in sector order.
//!
//! # Where it differs from the source
//! The posted inner loop takes the first queue of the list each time instead of the next one, by mistake; here the intended
//! round is implemented. The dispatch list is kept sorted. The source's hash of 64 buckets has no effect on decisions and is a
//! hash table here. Only back merges, as posted, and none into the dispatch list. Requests of unknown processes belong to one
//! process.
//!
//! # Not for
//! Throughput: the policy does not anticipate, so with several readers the head seeks for every request. Latency under writeback:
//! the flusher counts as one process, but fairness counts requests. There is no bound on waiting: a process's own requests at
//! lower sectors pass its others, and nothing expires.
//!
//! # Sources
//! J. Axboe, "CFQ disk scheduler (was SFQ)", linux-kernel, 11 February 2003, a patch against Linux 2.5.60.

use alloc::boxed::Box;

use elevator::{
    Capabilities, Decision, Growth, Process, Request, Scheduler, Side, Time, View, tunables, tuned_by,
};

use crate::listing::{Listing, Make};
use crate::parts::process_rounds::ProcessRounds;

tunables! {
    /// Tunables. The value is a constant in the source.
    pub struct Tunables {
        /// The least number of requests dispatched together; a round is never cut short. Larger: fewer seeks, less fair.
        quantum: Count = 8, 1, 1_000_000;
    }
}

/// CFQ as posted in February 2003.
#[derive(Default)]
pub struct Cfq2003 {
    tunables: Tunables,
    rounds: ProcessRounds,
}

pub(crate) const LISTINGS: &[Listing] = &[Listing::new(
    "cfq",
    "one request of each process in turn, without waiting: the CFQ of the 2003 benchmarks",
    Make::Scheduler(|_| Box::new(Cfq2003::default())),
)
.with_version("2003")
.superseded()
.with_source("Axboe's patch against Linux 2.5.60, 11 February 2003")
.with_tunables(Tunables::TABLE)];

fn key(process: Option<Process>) -> Option<u32> {
    process.map(|process| process.task)
}

impl Scheduler for Cfq2003 {
    fn insert(&mut self, _now: Time, request: &Request) {
        self.rounds.insert(key(request.process), request);
    }

    fn merged(&mut self, _now: Time, request: &Request, growth: Growth<'_>) {
        self.rounds.merged(request, &growth);
    }

    fn next(&mut self, _now: Time, view: &View<'_>) -> Decision {
        self.rounds.next(self.tunables.quantum, view)
    }

    fn may_merge(&self, request: &Request, addition: &Request, side: Side) -> bool {
        side == Side::Back && self.rounds.may_grow(request, addition)
    }
}

impl Capabilities for Cfq2003 {
    tuned_by!(tunables);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Table, request};
    use elevator::Reason::RoundRobin;
    use elevator::RequestId;

    fn serves(t: &mut Table, ids: &[RequestId]) {
        ids.iter().for_each(|&id| t.serves(id, RoundRobin));
    }

    #[test]
    fn every_process_gets_one_request_in_before_any_gets_two() {
        let mut t = Table::new(Cfq2003::default());
        let greedy: [RequestId; 10] = core::array::from_fn(|n| t.read_by(1, 1_000 + 10 * n as u64));
        let quiet = t.read_by(2, 9_000);
        // Seven of the first process and the one of the second make eight; in sector order.
        serves(&mut t, &greedy[..7]);
        serves(&mut t, &[quiet]);
        serves(&mut t, &greedy[7..]);
        t.idles();
    }

    #[test]
    fn a_round_is_never_cut_short() {
        let mut t = Table::new(Cfq2003::default());
        let ids: [RequestId; 12] = core::array::from_fn(|n| t.read_by(n as u32, 100 * (12 - n as u64)));
        let late = t.read_by(0, 5);
        // Twelve queues: the round takes the lowest of each, 5 before 1200 of process 0.
        serves(&mut t, &[late]);
        let in_order: [RequestId; 11] = core::array::from_fn(|n| ids[11 - n]);
        serves(&mut t, &in_order);
        serves(&mut t, &[ids[0]]);
    }

    #[test]
    fn later_requests_wait_for_the_next_rounds() {
        let mut t = Table::new(Cfq2003::default());
        let [a, b] = [100, 300].map(|sector| t.read_by(1, sector));
        serves(&mut t, &[a]);
        let between = t.read_by(2, 200);
        serves(&mut t, &[b, between]);
    }

    #[test]
    fn only_back_merges_and_only_before_the_round() {
        let mut t = Table::new(Cfq2003::default());
        let [a, b] = [100, 300].map(|sector| t.read_by(1, sector));
        let addition = request(108, 8);
        assert!(t.scheduler.may_merge(&t.requests[a], &addition, Side::Back));
        assert!(!t.scheduler.may_merge(&t.requests[a], &addition, Side::Front));
        serves(&mut t, &[a]);
        assert!(!t.scheduler.may_merge(&t.requests[b], &addition, Side::Back));
    }

    #[test]
    fn requests_become_one_within_a_process_and_before_the_round() {
        let mut t = Table::new(Cfq2003::default());
        let [first, listed] = [100, 300].map(|sector| t.read_by(1, sector));
        serves(&mut t, &[first]);
        let [queued, next, other] = [(1, 292), (1, 308), (2, 316)].map(|(by, at)| t.read_by(by, at));
        let may = |t: &Table, id, by| t.scheduler.may_merge(&t.requests[id], &t.requests[by], Side::Back);
        assert!(!may(&t, queued, listed), "it is on its way to the device");
        assert!(may(&t, queued, next) && !may(&t, next, other));
    }

    #[test]
    fn a_swallowed_request_is_served_with_the_one_that_swallowed_it() {
        let mut t = Table::new(Cfq2003::default());
        let [a, b] = [100, 108].map(|sector| t.read_by(1, sector));
        let other = t.read_by(2, 200);
        t.absorb(a, b);
        serves(&mut t, &[a, other]);
        t.idles();
    }
}
