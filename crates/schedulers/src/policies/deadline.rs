//! Deadline, as in Linux 2.6.9 and 2.6.32.
//!
//! # Idea
//! Dispatch in ascending sector order, in batches of one direction. Between batches, check whether a request has expired.
//! Reads are preferred, because processes wait for them, but may pass writes only a few times.
//!
//! # State
//! Per direction: an index by sector, a list by arrival (each request with its expiry time), and the successor of the last
//! dispatched request in sector order (`next`). Only one direction has a `next`. `batching` counts requests since the batch
//! began; `starved` counts read batches that passed waiting writes.
//!
//! # Order of decisions
//! 1. A batch is running (there is a `next`, and `batching` < `fifo_batch`): its next request.
//! 2. Otherwise choose a direction: reads, if there are any, unless writes wait and reads have passed them `writes_starved`
//!    times; else writes, which resets `starved`.
//! 3. In that direction: the oldest request, if it has expired. Such a request is *urgent*.
//! 4. Else its `next`, if it has one.
//! 5. Else a new sweep: from the oldest request (2.6.32), or from the lowest sector (2.6.9).
//!
//! In 2.6.9 a batch continues only while requests are contiguous. At any other `next`, rules 2 to 5 apply, and rule 4 begins
//! no new batch: rules 2 to 5 then choose every request until a batch begins.
//!
//! Waiting is bounded (`longest_wait`) unless `writes_starved` is 0: by the longer expiry time, and then, for each queued request, by the
//! requests of `writes_starved` + 2 batches.
//!
//! # Where it differs from the source
//! - A request's expiry time counts from its arrival, not from its insertion into the present scheduler. Linux drains the
//!   queue before a switch, so there is no difference there.
//! - Both versions dispatch a queued request at once when another request with the same first sector arrives; here both stay
//!   queued.
//! - A request that the stream framework dispatches in place of the candidate counts in the batch and moves the sweep.
//! - Time is exact; Linux counts jiffies.
//!
//! # Not for
//! Several synchronous readers on one disk: each read is served at once, and the head seeks for every one.
//!
//! # Sources
//! Linux 2.6.11 `drivers/block/deadline-iosched.c` (unchanged since 2.6.9) and 2.6.32 `block/deadline-iosched.c`.

use alloc::boxed::Box;

use elevator::{
    Candidate, Capabilities, Decision, Direction, Growth, Load, Reason, Request, RequestId, Scheduler,
    ShortPath, Side, Span, Time, View, WorkConserving, tunables, tuned_by,
};

use crate::listing::{Listing, Make};
use crate::parts::fifo::{Fifo, Links};
use crate::parts::per_request::PerRequest;
use crate::parts::sorted::{Key, SortedIndex};

tunables! {
    /// Tunables. Names and defaults are Linux's.
    pub struct Tunables {
        /// How long a read may wait before it is dispatched out of order. Shorter: smaller worst case, more seeks.
        read_expire: Span = Span::from_millis(500), Span::ZERO, Span::from_secs(3_600);
        /// The same for writes. A soft limit: reads go first even then.
        write_expire: Span = Span::from_secs(5), Span::ZERO, Span::from_secs(3_600);
        /// How many read batches may pass waiting writes. 0: writes always go first.
        writes_starved: Count = 2, 0, 1_000;
        /// Requests in a batch. Expiry is checked between batches only. 1: nearly first come, first served.
        fifo_batch: Count = 16, 1, 1_000_000;
        /// Whether a request may grow at its front. Off saves the look-up where front merges do not occur.
        front_merges: Flag = true, false, true;
    }
}

/// The version whose rules apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// 2.6.9: contiguous batches; a sweep begins at the lowest sector.
    V2_6_9,
    /// 2.6.32: batches in sector order; a sweep begins with the request that has waited longest.
    V2_6_32,
}

/// The counters of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Batch {
    batching: u64,
    starved: u64,
}

/// The two orders of one direction's requests.
#[derive(Default)]
struct Queue {
    sorted: SortedIndex,
    fifo: Fifo,
    next: Option<RequestId>,
}

/// Deadline, in either version.
pub struct Deadline {
    tunables: Tunables,
    version: Version,
    queues: [Queue; 2],
    links: Links,
    expires: PerRequest<Time>,
    batch: Batch,
    /// The latest candidate, and the counters after it has been taken.
    choice: Option<(RequestId, Batch)>,
}

pub(crate) const LISTINGS: &[Listing] = &[
    Listing::new(
        "deadline",
        "contiguous batches in one-way sector order, expired requests first",
        Make::WorkConserving(|_| Box::new(Deadline::new(Version::V2_6_9))),
    )
    .with_version("2.6.9")
    .superseded()
    .with_source("Linux 2.6.9 to 2.6.12, drivers/block/deadline-iosched.c")
    .with_tunables(Tunables::TABLE),
    Listing::new(
        "deadline",
        "batches in one-way sector order, expired requests first",
        Make::WorkConserving(|_| Box::new(Deadline::new(Version::V2_6_32))),
    )
    .with_version("2.6.32")
    .with_source("Linux 2.6.32, block/deadline-iosched.c")
    .with_tunables(Tunables::TABLE),
];

impl Deadline {
    /// With the defaults, and nothing queued.
    #[must_use]
    pub fn new(version: Version) -> Self {
        Self {
            tunables: Tunables::default(),
            version,
            queues: Default::default(),
            links: Links::new(),
            expires: PerRequest::new(),
            batch: Batch::default(),
            choice: None,
        }
    }

    const fn expiry(&self, direction: Direction) -> Span {
        match direction {
            Direction::Read => self.tunables.read_expire,
            Direction::Write => self.tunables.write_expire,
        }
    }

    /// The successor of the last dispatched request, which may continue its batch.
    fn next_in_batch(&self, view: &View<'_>, batch: &mut Batch) -> Option<RequestId> {
        let [reads, writes] = &self.queues;
        let next = writes.next.or(reads.next)?;
        if self.version == Version::V2_6_9 && !is_contiguous(next, view) {
            batch.batching += self.tunables.fifo_batch;
        }
        (batch.batching < self.tunables.fifo_batch).then_some(next)
    }

    fn choose_direction(&self, batch: &mut Batch) -> Option<(Direction, Reason)> {
        let [reads, writes] = self.queues.each_ref().map(|queue| !queue.fifo.is_empty());
        if !reads && !writes {
            return None;
        }
        let mut starving = false;
        if reads && writes {
            starving = batch.starved >= self.tunables.writes_starved;
            batch.starved += 1;
        }
        if reads && !starving {
            return Some((Direction::Read, Reason::NewBatch));
        }
        batch.starved = 0;
        Some((Direction::Write, if starving { Reason::Starved } else { Reason::NewBatch }))
    }

    /// The request with which a direction continues outside a batch.
    fn choose_request(
        &self,
        now: Time,
        direction: Direction,
        batch: &mut Batch,
    ) -> Option<(RequestId, Reason)> {
        let queue = &self.queues[direction as usize];
        let oldest = queue.fifo.front()?;
        if now > self.expires[oldest] {
            batch.batching = 0;
            return Some((oldest, Reason::Expired));
        }
        match (queue.next, self.version) {
            (Some(next), Version::V2_6_9) => Some((next, Reason::SectorOrder)),
            (Some(next), Version::V2_6_32) => {
                batch.batching = 0;
                Some((next, Reason::NewBatch))
            }
            (None, version) => {
                batch.batching = 0;
                let lowest = queue.sorted.first()?;
                Some((if version == Version::V2_6_9 { lowest } else { oldest }, Reason::NewSweep))
            }
        }
    }

    fn choose(&self, now: Time, view: &View<'_>, batch: &mut Batch) -> Option<(RequestId, Reason)> {
        if let Some(next) = self.next_in_batch(view, batch) {
            return Some((next, Reason::Batch));
        }
        let (direction, why) = self.choose_direction(batch)?;
        let (id, reason) = self.choose_request(now, direction, batch)?;
        Some((id, if reason == Reason::Expired || why == Reason::NewBatch { reason } else { why }))
    }

    /// Removes a request, as it was with that key, from its queue's order; if it was `next`, its successor becomes `next`.
    fn unsort(&mut self, id: RequestId, direction: Direction, key: Key) {
        let queue = &mut self.queues[direction as usize];
        if queue.next == Some(id) {
            queue.next = queue.sorted.after(key);
        }
        queue.sorted.remove_key(key);
    }

    /// The absorbed request ends. If it would have expired first, the absorbing request takes its place.
    fn absorb(&mut self, request: &Request, absorbed: &Request) {
        let direction = absorbed.direction();
        self.unsort(absorbed.id, direction, Key::of(absorbed));
        let fifo = &mut self.queues[direction as usize].fifo;
        if self.expires[absorbed.id] < self.expires[request.id] {
            self.links.remove(fifo, request.id);
            self.links.replace(fifo, absorbed.id, request.id);
            self.expires[request.id] = self.expires[absorbed.id];
        } else {
            self.links.remove(fifo, absorbed.id);
        }
    }
}

fn is_contiguous(next: RequestId, view: &View<'_>) -> bool {
    view.device.last_dispatched.is_some_and(|last| last.end == view.requests[next].start)
}

impl Deadline {
    /// Whether nothing is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.fifo.is_empty())
    }

    /// Whether reads are queued.
    pub(crate) fn has_reads(&self) -> bool {
        !self.queues[Direction::Read as usize].fifo.is_empty()
    }
}

impl Scheduler for Deadline {
    fn insert(&mut self, _now: Time, request: &Request) {
        let direction = request.direction();
        self.expires.set(request.id, request.arrived + self.expiry(direction));
        let queue = &mut self.queues[direction as usize];
        queue.sorted.insert(request);
        self.links.push_back(&mut queue.fifo, request.id);
    }

    fn merged(&mut self, _now: Time, request: &Request, growth: Growth<'_>) {
        if growth.was_start != request.start {
            let direction = request.direction();
            self.unsort(request.id, direction, Key::at(growth.was_start, request.serial));
            self.queues[direction as usize].sorted.insert(request);
        }
        if let Some(absorbed) = growth.absorbed {
            self.absorb(request, absorbed);
        }
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        self.dispatch_candidate(now, view).unwrap_or(Decision::Idle)
    }

    fn ignores_processes(&self) -> bool {
        true
    }

    fn may_merge(&self, _request: &Request, _addition: &Request, side: Side) -> bool {
        side == Side::Back || self.tunables.front_merges
    }

    /// Once a request has expired, every batch of its direction begins with one that expired at the same time or earlier.
    /// Between two such batches pass at most `writes_starved` batches of the other direction, or one.
    fn longest_wait(&self, load: Load) -> Option<Span> {
        let Tunables { read_expire, write_expire, writes_starved, fifo_batch, .. } = self.tunables;
        let passing = fifo_batch.min(u64::from(load.requests)) * (writes_starved + 2);
        let expiry = read_expire.max(write_expire);
        (writes_starved > 0).then(|| expiry + load.service * u64::from(load.requests).saturating_mul(passing))
    }
}

impl WorkConserving for Deadline {
    fn candidate(&mut self, now: Time, view: &View<'_>) -> Option<Candidate> {
        let mut batch = self.batch;
        let chosen = self.choose(now, view, &mut batch);
        batch.batching += 1;
        self.choice = chosen.map(|(id, _)| (id, batch));
        chosen.map(|(id, reason)| Candidate { id, urgent: reason == Reason::Expired, reason })
    }

    fn take(&mut self, _now: Time, request: &Request) {
        let direction = request.direction();
        self.batch = match self.choice.take() {
            Some((id, batch)) if id == request.id => batch,
            _ => Batch { batching: self.batch.batching + 1, ..self.batch },
        };
        let queue = &mut self.queues[direction as usize];
        queue.next = queue.sorted.take(request);
        self.links.remove(&mut queue.fifo, request.id);
        self.queues[direction.other() as usize].next = None;
    }
}

impl ShortPath for Deadline {
    /// Rules 2 to 5 for one request: a direction without the other, no `next`, and no writes that reads have passed: `starved` is 0.
    fn dispatch_alone(&mut self, now: Time, arrived: Time, direction: Direction) -> Reason {
        self.batch.batching = 1;
        if now > arrived + self.expiry(direction) { Reason::Expired } else { Reason::NewSweep }
    }
}

impl Capabilities for Deadline {
    tuned_by!(tunables);

    fn short_path(&mut self) -> Option<&mut dyn ShortPath> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Table, request};
    use Reason::{Batch as Goes, Expired, NewBatch, NewSweep, SectorOrder, Starved};
    use Version::{V2_6_9, V2_6_32};
    use alloc::vec::Vec;
    use elevator::{Op, Sector};

    fn table(version: Version) -> Table {
        Table::new(Deadline::new(version))
    }

    fn with_batch(version: Version, fifo_batch: u64) -> Table {
        let mut t = table(version);
        t.scheduler.tune("fifo_batch", elevator::Value::Count(fifo_batch)).unwrap();
        t
    }

    #[test]
    fn a_batch_goes_upward_in_sector_order() {
        let mut t = table(V2_6_32);
        let [b, c, a] = [500, 900, 100].map(|sector| t.read(sector));
        t.serves(b, NewSweep); // the one that has waited longest begins
        t.serves(c, Goes);
        t.serves(a, NewSweep); // nothing above: again from the longest waiting
        t.idles();
    }

    #[test]
    fn a_sweep_of_2_6_9_begins_at_the_lowest_sector_and_only_contiguous_requests_are_a_batch() {
        let mut t = table(V2_6_9);
        let [b, c, a, a2] = [500, 900, 100, 108].map(|sector| t.read(sector));
        t.serves(a, NewSweep);
        t.serves(a2, Goes); // 108 follows 100..108
        t.serves(b, SectorOrder); // a gap ends the batch; the sweep goes on
        t.serves(c, SectorOrder);
    }

    #[test]
    fn expiry_is_looked_at_only_between_batches() {
        let mut t = with_batch(V2_6_32, 3);
        let low = t.read(0);
        t.serves(low, NewSweep);
        let old = t.read(50);
        let [a, b, c] = [100, 200, 300].map(|sector| t.read(sector));
        let behind = t.read(40);
        t.at(0).sends(old, NewSweep);
        t.complete(old);
        t.at(600).serves(a, Goes);
        t.serves(b, Goes); // three in this batch
        t.serves(c, Expired); // c came before `behind`
        t.serves(behind, Expired);
    }

    #[test]
    fn an_expired_request_of_2_6_9_breaks_the_sweep_at_the_next_gap() {
        let mut t = table(V2_6_9);
        let first = t.read(1_000);
        t.serves(first, NewSweep);
        let old = t.read(10);
        t.at(400);
        let [a, b] = [2_000, 3_000].map(|sector| t.read(sector));
        t.serves(old, NewSweep);
        t.serves(a, SectorOrder);
        let older = t.read(20);
        t.at(800).serves(b, SectorOrder);
        t.at(901).serves(older, Expired);
    }

    #[test]
    fn reads_pass_writes_by_twice() {
        for version in [V2_6_9, V2_6_32] {
            let mut t = with_batch(version, 1);
            let reads = [0, 100, 200, 300, 400].map(|sector| t.read(sector));
            let writes = [50, 60].map(|sector| t.write(sector));
            let goes_on = if version == V2_6_9 { SectorOrder } else { NewBatch };
            t.serves(reads[0], NewSweep);
            t.serves(reads[1], goes_on);
            t.serves(writes[0], Starved);
            t.serves(reads[2], NewSweep); // the write has moved the sweep away
            t.serves(reads[3], goes_on);
            t.serves(writes[1], Starved); // and set the count back
            t.serves(reads[4], NewSweep);
        }
    }

    #[test]
    fn the_defaults_are_linuxs() {
        let Tunables { read_expire, write_expire, writes_starved, fifo_batch, front_merges } =
            Tunables::default();
        assert_eq!((read_expire, write_expire), (Span::from_millis(500), Span::from_secs(5)));
        assert_eq!((writes_starved, fifo_batch, front_merges), (2, 16, true));
    }

    #[test]
    fn every_choice_but_the_next_in_a_batch_begins_one() {
        let mut t = with_batch(V2_6_32, 2);
        let [a, b, c, d, e] = [100, 200, 300, 400, 500].map(|sector| t.read(sector));
        let expired = [10, 20].map(|sector| t.read(sector));
        t.serves(a, NewSweep);
        t.serves(b, Goes);
        t.serves(c, NewBatch); // the sweep goes on in a new batch,
        t.serves(d, Goes);
        t.at(501).serves(e, Expired);
        t.serves(expired[0], Expired); // and an expired one begins a batch as well:
        t.serves(expired[1], Goes); // nobody asks whether this one has expired
    }

    #[test]
    fn a_batch_goes_on_behind_a_request_that_was_absorbed() {
        for version in [V2_6_9, V2_6_32] {
            let mut t = table(version);
            let [a, next, behind] = [100, 108, 116].map(|sector| t.read(sector));
            t.sends(a, NewSweep);
            let front = t.read(100);
            t.absorb(front, next);
            let goes_on = if version == V2_6_9 { SectorOrder } else { Goes };
            t.serves(behind, goes_on); // 108..116 is not where the last one ended, but its successor is
            t.serves(front, NewSweep);
        }
    }

    #[test]
    fn writes_expire_later_than_reads() {
        let mut t = with_batch(V2_6_32, 1);
        let [high, low, higher, highest] = [900, 100, 950, 960].map(|sector| t.write(sector));
        t.serves(high, NewSweep);
        t.at(501).serves(higher, NewBatch);
        t.at(5_000).serves(highest, NewBatch);
        let late = t.write(970);
        t.at(5_001).serves(low, Expired);
        t.serves(late, NewBatch);
    }

    #[test]
    fn a_request_expires_by_its_arrival_however_late_this_scheduler_got_it() {
        let mut t = with_batch(V2_6_32, 1);
        let moved = [900, 100].map(|sector| t.requests.add(request(sector, 8)));
        t.at(400);
        moved.iter().for_each(|&id| t.scheduler.insert(t.now, &t.requests[id]));
        t.serves(moved[0], NewSweep);
        t.read(950);
        t.at(501).serves(moved[1], Expired);
    }

    #[test]
    fn a_request_at_its_expiry_is_not_yet_expired() {
        let mut t = with_batch(V2_6_32, 1);
        let [high, low] = [900, 100].map(|sector| t.read(sector));
        t.at(500).serves(high, NewSweep);
        t.read(950);
        t.at(501).serves(low, Expired);
    }

    #[test]
    fn the_older_of_two_that_join_gives_its_place_in_the_list() {
        let mut t = with_batch(V2_6_32, 1);
        let old = t.read(1_000);
        let other = t.read(0);
        t.at(100);
        let young = t.insert(request(992, 8));
        t.absorb(young, old); // 992..1008 now expires when `old` would have
        t.at(501).serves(young, Expired);
        t.serves(other, Expired);
        t.idles();
    }

    /// Serves up to four requests, each after a while; a lone one by `pass` if `passes`.
    fn serve(t: &mut Table, passes: bool, requests: &[(Op, u64)], after: Span) -> Vec<(Sector, Reason)> {
        let arrived = t.now;
        if let (&[(op, sector)], true) = (requests, passes) {
            t.now += after;
            let reason = t.scheduler.short_path().unwrap().dispatch_alone(t.now, arrived, op.direction());
            return Vec::from([(Sector(sector), reason)]);
        }
        let ids = requests.iter().map(|&(op, sector)| t.insert(Request { op, ..request(sector, 8) }));
        let left = ids.count();
        let serve = |_| {
            t.now += after;
            let Decision::Dispatch { id, reason } = t.next() else { panic!("requests are queued") };
            let start = t.requests[id].start;
            t.complete(id);
            (start, reason)
        };
        (0..left).map(serve).collect()
    }

    #[test]
    fn a_lone_request_passes_as_by_insertion_and_decision() {
        for version in [V2_6_9, V2_6_32] {
            let mut random = crate::testing::Random::new(5);
            let [mut inserting, mut passing] = [table(version), table(version)];
            for _ in 0..3_000 {
                let requests: Vec<_> = (0..1 + random.below(4))
                    .map(|n| {
                        (if random.once_in(2) { Op::Read } else { Op::Write }, 8 * (n + 4 * random.below(9)))
                    })
                    .collect();
                let longest = if random.once_in(4) { 8_000 } else { 400 };
                let after = Span::from_millis(random.below(longest));
                let inserted = serve(&mut inserting, false, &requests, after);
                assert_eq!(
                    serve(&mut passing, true, &requests, after),
                    inserted,
                    "{version:?} {requests:?} {after}"
                );
            }
        }
    }

    #[test]
    fn a_request_sent_over_its_head_counts_in_the_batch_and_moves_the_sweep() {
        use elevator::Requests;
        use elevator::{Device, View};
        let mut policy = Deadline::new(V2_6_32);
        let mut requests = Requests::default();
        let ids = [100, 200, 300, 400].map(|sector| requests.add(request(sector, 8)));
        for id in ids {
            policy.insert(Time::ZERO, &requests[id]);
        }
        let device = Device { depth: 1, in_flight: 0, last_dispatched: None, positioning: None };
        let asked = |policy: &mut Deadline| {
            let view = View { requests: &requests, device };
            let first = policy.candidate(Time::ZERO, &view);
            assert_eq!(first, policy.candidate(Time::ZERO, &view), "asking changes nothing");
            first.map(|candidate| candidate.id)
        };
        assert_eq!(asked(&mut policy), Some(ids[0]));
        policy.take(Time::ZERO, &requests[ids[2]]);
        assert_eq!(policy.batch.batching, 1);
        assert_eq!(asked(&mut policy), Some(ids[3]));
    }
}
