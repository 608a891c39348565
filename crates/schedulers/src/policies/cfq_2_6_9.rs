//! Complete fair queueing of Linux 2.6.9: rounds over processes, and a share of the queue for each.
//!
//! # Idea
//! As in [`cfq_2003`](super::cfq_2003), each round takes one request of every process. A process is a thread group; rounds are
//! smaller; and the more processes have requests, the fewer each may queue.
//!
//! # State
//! A queue in sector order per process with requests, the list of these queues, and the dispatch list.
//!
//! # Order of decisions
//! 1. The next request of the dispatch list.
//! 2. If the list is empty: the lowest request of every process, round after round, until there are `quantum` requests or no
//!    more; then in sector order.
//!
//! A process may queue (8192 - `queued`) / processes with requests of each kind, at least 3 and at most the queue's limit.
//!
//! # Where it differs from the source
//! - The source raises the queue's limit to 8192, and the block layer asks for the share only when the queue is full. Here a
//!   process below its share may exceed the queue's limit as far as the host allows; a modelled kernel has the source's limit
//!   ([`Listing::request_limit`]).
//! - The share counts synchronous and asynchronous requests, not reads and writes, because the host distinguishes those.
//! - The source inserts into the dispatch list behind the first entry from the back that is not higher, which leaves 100, 200,
//!   150, 300 after 100, 200, 300, 150. Here the list is sorted, as intended.
//! - Of a process's requests at the same sector, the source dispatches the older one at once; here both stay queued.
//! - Requests of unknown processes belong to one process.
//!
//! # Not for
//! The loads that [`cfq_2003`](super::cfq_2003) is not for. The policy does not anticipate. There is no bound on waiting: a
//! process's own requests at lower sectors pass its others, and nothing expires.
//!
//! # Sources
//! Linux 2.6.9 `drivers/block/cfq-iosched.c`.

use alloc::boxed::Box;

use elevator::{
    Admission, Capabilities, Decision, Direction, Growth, Process, Request, Scheduler, Side, Time, View,
    tunables, tuned_by,
};

use crate::listing::{Environment, Listing, Make};
use crate::parts::process_rounds::ProcessRounds;

tunables! {
    /// Tunables. Names and defaults are Linux's.
    pub struct Tunables {
        /// The least number of requests dispatched together; a round is never cut short. Larger: fewer seeks, less fair.
        quantum: Count = 4, 1, 1_000_000;
        /// Requests of the whole queue that are not shared out. Larger: smaller shares.
        queued: Count = 8, 1, 8_192;
    }
}

/// The source's request limit: it limits processes instead of the queue.
const NR_REQUESTS: u64 = 8_192;

/// The least share of a process.
const LEAST_SHARE: u64 = 3;

/// CFQ of 2.6.9.
pub struct Cfq2_6_9 {
    tunables: Tunables,
    rounds: ProcessRounds,
    /// The queue's request limit for one direction: the most that one process may queue.
    max_queued: u64,
}

pub(crate) const LISTINGS: &[Listing] = &[Listing::new(
    "cfq",
    "one request of each process in turn, and a share of the queue for each; without waiting",
    Make::Scheduler(|environment| Box::new(Cfq2_6_9::new(environment))),
)
.with_version("2.6.9")
.superseded()
.with_source("Linux 2.6.9, drivers/block/cfq-iosched.c")
.with_tunables(Tunables::TABLE)
.with_request_limit(8192)];

fn key(process: Option<Process>) -> Option<u32> {
    process.map(|process| process.group)
}

impl Cfq2_6_9 {
    /// With the defaults, and nothing queued.
    #[must_use]
    pub fn new(environment: &Environment) -> Self {
        Self {
            tunables: Tunables::default(),
            rounds: ProcessRounds::default(),
            max_queued: u64::from(environment.nr_requests / 2),
        }
    }

    /// The number of requests of each kind that a process may queue.
    fn share(&self) -> u64 {
        let each = NR_REQUESTS.saturating_sub(self.tunables.queued) / self.rounds.busy_queues().max(1);
        each.min(self.max_queued).max(LEAST_SHARE)
    }
}

impl Scheduler for Cfq2_6_9 {
    fn insert(&mut self, _now: Time, request: &Request) {
        self.rounds.insert(key(request.process), request);
    }

    fn merged(&mut self, _now: Time, request: &Request, growth: Growth<'_>) {
        self.rounds.merged(request, &growth);
    }

    fn next(&mut self, _now: Time, view: &View<'_>) -> Decision {
        self.rounds.next(self.tunables.quantum, view)
    }

    fn may_queue(
        &self,
        _now: Time,
        process: Option<Process>,
        _direction: Direction,
        sync: bool,
    ) -> Admission {
        match self.rounds.queued(key(process), sync) {
            Some(queued) if u64::from(queued) > self.share() => Admission::No,
            _ => Admission::Must,
        }
    }

    /// A submission may join at the back of any process's request, and at the front of one of its own process.
    fn may_merge(&self, request: &Request, addition: &Request, side: Side) -> bool {
        let own = side == Side::Back || self.rounds.is_of(request, key(addition.process));
        own && self.rounds.may_grow(request, addition)
    }
}

impl Capabilities for Cfq2_6_9 {
    tuned_by!(tunables);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Table, request};
    use elevator::Reason::RoundRobin;
    use elevator::RequestId;

    fn table() -> Table {
        Table::new(Cfq2_6_9::new(&Environment::default()))
    }

    #[test]
    fn threads_of_a_process_share_its_queue_and_its_turn() {
        let mut t = table();
        let by = |task, group| Some(Process { task, group, context: task });
        let own: [RequestId; 4] = core::array::from_fn(|n| {
            t.insert(Request { process: by(10 + n as u32, 1), ..request(100 * n as u64, 8) })
        });
        let other = t.insert(Request { process: by(20, 2), ..request(50, 8) });
        // Three of the one, one of the other: four, in sector order.
        for id in [own[0], other, own[1], own[2], own[3]] {
            t.serves(id, RoundRobin);
        }
    }

    #[test]
    fn a_process_may_not_fill_the_queue() {
        let mut t = table();
        let leave = |t: &Table, process| {
            t.scheduler.may_queue(t.now, Some(Process::single(process)), Direction::Read, true)
        };
        for n in 0..129 {
            assert_eq!(leave(&t, 1), Admission::Must);
            t.read_by(1, 100 * n);
        }
        assert_eq!(leave(&t, 1), Admission::No, "129 are more than 128");
        assert_eq!(leave(&t, 2), Admission::Must);
        for process in 3..4_000 {
            t.read_by(process, 0);
        }
        // (8192 - 8) / 3998 = 2, but at least 3.
        for n in 0..3 {
            t.read_by(2, n);
        }
        assert_eq!(leave(&t, 2), Admission::Must);
        t.read_by(2, 4);
        assert_eq!(leave(&t, 2), Admission::No);
    }

    #[test]
    fn front_merges_only_with_the_same_process() {
        let mut t = table();
        let a = t.read_by(1, 100);
        let addition = |process| Request { process: Some(Process::single(process)), ..request(92, 8) };
        let may = |t: &Table, process, side| t.scheduler.may_merge(&t.requests[a], &addition(process), side);
        assert!(may(&t, 1, Side::Front) && !may(&t, 2, Side::Front));
        assert!(may(&t, 1, Side::Back) && may(&t, 2, Side::Back));
    }
}
