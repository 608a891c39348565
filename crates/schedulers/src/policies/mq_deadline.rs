//! Deadline with priority classes and ageing, as in Linux 6.18 (`mq-deadline`).
//!
//! # Idea
//! Deadline's two orders, once per priority class. A class is served only while no higher class has a request queued or in
//! flight, except for requests of a lower class that have waited very long. `async_depth` can limit writes and discards, so
//! that reads find room in the queue.
//!
//! # State
//! Per class: the number of requests queued or in flight, and per direction an index by sector, a list by arrival and the
//! first sector of the last dispatched request (`latest_pos`). Shared by all classes, as in Linux: the number of requests
//! other than reads, the last direction, `batching` and `starved`. A batch can therefore continue in another class.
//!
//! # Order of decisions
//! 1. If at least two classes have requests: the choice of best-effort, then of idle, provided that it arrived at least
//!    `prio_aging_expire` ago.
//! 2. The choice of the highest class that has anything queued or in flight. If all of it is in flight: none, so the lower
//!    classes wait.
//!
//! The choice of a class:
//! 1. While `batching` < `fifo_batch`: the next request at or behind `latest_pos` in the last direction.
//! 2. Else reads, if there are any, unless writes wait and were passed `writes_starved` times; else writes.
//! 3. In that direction: the oldest request if it has expired (this is *urgent*); else the next at or behind `latest_pos`;
//!    else the oldest.
//!
//! A choice that rule 1 rejects as too young has still changed `starved` and `batching` for the choices after it, as in Linux.
//!
//! # Where it differs from the source
//! - `async_depth` counts the scheduler's requests. The source gives writes the first tags of each word of the tag bitmap,
//!   including tags that reads hold, so its writes find less room than the number suggests.
//! - The counters change when a request is taken. In Linux they also change when a dispatch returns nothing.
//! - Zoned devices and insertion at the head are left to the host. The host itself repeats a request that the device gave
//!   back, so it no longer counts in its class; in Linux, lower classes wait for it as well.
//! - A request that a wrapper dispatches in place of the candidate counts in the batch and moves the sweep.
//!
//! # Not for
//! Several synchronous readers on one disk; fairness between processes of one class. There is no bound on waiting: higher
//! classes can fill the device, and ageing applies to a class's choice in sector order, not to its oldest request.
//!
//! # Sources
//! Linux 6.18 `block/mq-deadline.c`; the priority classes came with the patch series of 21 June 2021.

use alloc::boxed::Box;

use elevator::{
    Admission, Candidate, Capabilities, Decision, Direction, Growth, Hold, Outcome, PriorityClass, Process,
    Reason, Request, RequestId, Scheduler, Side, Span, Time, View, WorkConserving, tunables, tuned_by,
};

use crate::listing::{Listing, Make};
use crate::parts::fifo::{Fifo, Links};
use crate::parts::per_request::PerRequest;
use crate::parts::sorted::{Key, SortedIndex};

tunables! {
    /// Tunables. Names and defaults are Linux's.
    pub struct Tunables {
        /// How long a read may wait before it is dispatched out of order.
        read_expire: Span = Span::from_millis(500), Span::ZERO, Span::from_secs(3_600);
        /// The same for writes. A soft limit: reads go first even then.
        write_expire: Span = Span::from_secs(5), Span::ZERO, Span::from_secs(3_600);
        /// How many read batches may pass waiting writes. 0: writes always go first.
        writes_starved: Count = 2, 0, 1_000;
        /// Requests in a batch. Expiry is checked between batches only.
        fifo_batch: Count = 16, 1, 1_000_000;
        /// Whether a request may grow at its front.
        front_merges: Flag = true, false, true;
        /// How long a request of a lower class may wait for the higher classes.
        prio_aging_expire: Span = Span::from_secs(10), Span::ZERO, Span::from_secs(3_600);
        /// The most requests other than reads. Below the request limit, a flood of writes leaves room for reads. Linux's
        /// default, nr_requests, is no limit, and neither is this one.
        async_depth: Count = 1_000_000, 1, 1_000_000;
    }
}

const CLASSES: usize = 3;

/// Shared by the classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Batch {
    last_direction: Direction,
    batching: u64,
    starved: u64,
}

/// One direction of one class.
#[derive(Default)]
struct Queue {
    sorted: SortedIndex,
    fifo: Fifo,
    latest_pos: elevator::Sector,
}

#[derive(Default)]
struct Class {
    queues: [Queue; 2],
    /// Requests queued or in flight.
    unfinished: u32,
}

/// `mq-deadline`.
pub struct MqDeadline {
    tunables: Tunables,
    classes: [Class; CLASSES],
    links: Links,
    expires: PerRequest<Time>,
    batch: Batch,
    /// Requests queued or in flight other than reads.
    throttled: u32,
    /// The latest candidate, and the counters after it has been taken.
    choice: Option<(RequestId, Batch)>,
}

pub(crate) const LISTINGS: &[Listing] = &[Listing::new(
    "mq-deadline",
    "deadline with priority classes and ageing",
    Make::WorkConserving(|_| Box::new(MqDeadline::default())),
)
.with_version("6.18")
.with_source("Linux 6.18, block/mq-deadline.c")
.with_tunables(Tunables::TABLE)];

impl Default for MqDeadline {
    fn default() -> Self {
        Self {
            tunables: Tunables::default(),
            classes: Default::default(),
            links: Links::new(),
            expires: PerRequest::new(),
            // Linux begins as if in a write batch: writes that are queued first go first.
            batch: Batch { last_direction: Direction::Write, batching: 0, starved: 0 },
            throttled: 0,
            choice: None,
        }
    }
}

const fn class_of(request: &Request) -> usize {
    match request.priority.class {
        PriorityClass::RealTime => 0,
        PriorityClass::BestEffort => 1,
        PriorityClass::Idle => 2,
    }
}

impl Class {
    /// The next request at or behind the last dispatched one.
    fn next(&self, direction: Direction) -> Option<RequestId> {
        let queue = &self.queues[direction as usize];
        queue.sorted.at_or_after(queue.latest_pos)
    }

    fn oldest(&self, direction: Direction) -> Option<RequestId> {
        self.queues[direction as usize].fifo.front()
    }
}

impl MqDeadline {
    const fn expiry(&self, direction: Direction) -> Span {
        match direction {
            Direction::Read => self.tunables.read_expire,
            Direction::Write => self.tunables.write_expire,
        }
    }

    fn choose(&self, now: Time, view: &View<'_>, batch: &mut Batch) -> Option<(RequestId, Reason)> {
        self.choose_aged(now, view, batch).or_else(|| {
            let highest = self.classes.iter().find(|class| class.unfinished > 0)?;
            self.choose_in(now, highest, batch)
        })
    }

    fn choose_aged(&self, now: Time, view: &View<'_>, batch: &mut Batch) -> Option<(RequestId, Reason)> {
        if self.classes.iter().filter(|class| class.unfinished > 0).count() < 2 {
            return None;
        }
        self.classes[1..].iter().find_map(|class| {
            let (id, reason) = self.choose_in(now, class, batch)?;
            let waited = now.since(view.requests[id].arrived);
            let reason = if reason == Reason::Expired { reason } else { Reason::Aged };
            (waited >= self.tunables.prio_aging_expire).then_some((id, reason))
        })
    }

    fn choose_in(&self, now: Time, class: &Class, batch: &mut Batch) -> Option<(RequestId, Reason)> {
        let next = class.next(batch.last_direction);
        if let (Some(next), true) = (next, batch.batching < self.tunables.fifo_batch) {
            return Some((next, Reason::Batch));
        }
        let (direction, why) = self.choose_direction(class, batch)?;
        let oldest = class.oldest(direction)?;
        let (id, reason) = match class.next(direction) {
            _ if now >= self.expires[oldest] => (oldest, Reason::Expired),
            Some(next) => (next, why),
            None => (oldest, if why == Reason::Starved { why } else { Reason::NewSweep }),
        };
        batch.last_direction = direction;
        batch.batching = 0;
        Some((id, reason))
    }

    fn choose_direction(&self, class: &Class, batch: &mut Batch) -> Option<(Direction, Reason)> {
        let [reads, writes] = class.queues.each_ref().map(|queue| !queue.fifo.is_empty());
        let mut starving = false;
        if reads && writes {
            starving = batch.starved >= self.tunables.writes_starved;
            batch.starved += 1;
        }
        match (reads, writes) {
            (true, _) if !starving => Some((Direction::Read, Reason::NewBatch)),
            (_, true) => {
                batch.starved = 0;
                Some((Direction::Write, if starving { Reason::Starved } else { Reason::NewBatch }))
            }
            _ => None,
        }
    }

    /// A request ended: absorbed, or completed.
    fn ended(&mut self, request: &Request) {
        self.classes[class_of(request)].unfinished -= 1;
        self.throttled -= u32::from(request.direction() == Direction::Write);
    }

    /// The absorbed request ends. If it would have expired first, the absorbing request takes its place. Both are of one
    /// class: requests of different priority are never merged.
    fn absorb(&mut self, request: &Request, absorbed: &Request) {
        self.ended(absorbed);
        let class = &mut self.classes[class_of(absorbed)];
        let queue = &mut class.queues[absorbed.direction() as usize];
        queue.sorted.remove(absorbed);
        if self.expires[absorbed.id] < self.expires[request.id] {
            self.links.remove(&mut queue.fifo, request.id);
            self.links.replace(&mut queue.fifo, absorbed.id, request.id);
            self.expires[request.id] = self.expires[absorbed.id];
        } else {
            self.links.remove(&mut queue.fifo, absorbed.id);
        }
    }
}

impl Scheduler for MqDeadline {
    fn insert(&mut self, _now: Time, request: &Request) {
        let direction = request.direction();
        self.expires.set(request.id, request.arrived + self.expiry(direction));
        self.throttled += u32::from(direction == Direction::Write);
        let class = &mut self.classes[class_of(request)];
        class.unfinished += 1;
        let queue = &mut class.queues[direction as usize];
        queue.sorted.insert(request);
        self.links.push_back(&mut queue.fifo, request.id);
    }

    fn merged(&mut self, _now: Time, request: &Request, growth: Growth<'_>) {
        if growth.was_start != request.start {
            let queue = &mut self.classes[class_of(request)].queues[request.direction() as usize];
            queue.sorted.remove_key(Key::at(growth.was_start, request.serial));
            queue.sorted.insert(request);
        }
        if let Some(absorbed) = growth.absorbed {
            self.absorb(request, absorbed);
        }
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        self.dispatch_candidate(now, view).unwrap_or_else(|| {
            let mut queues = self.classes.iter().flat_map(|class| &class.queues);
            if queues.all(|queue| queue.fifo.is_empty()) {
                Decision::Idle
            } else {
                Decision::Hold(Hold::CLASS_WAITS)
            }
        })
    }

    fn completed(&mut self, _now: Time, request: &Request, _outcome: Outcome) {
        self.ended(request);
    }

    fn may_queue(
        &self,
        _now: Time,
        _process: Option<Process>,
        direction: Direction,
        _sync: bool,
    ) -> Admission {
        let full = u64::from(self.throttled) >= self.tunables.async_depth;
        if full && direction == Direction::Write { Admission::No } else { Admission::ByLimit }
    }

    fn may_merge(&self, _request: &Request, _addition: &Request, side: Side) -> bool {
        side == Side::Back || self.tunables.front_merges
    }
}

impl WorkConserving for MqDeadline {
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
            _ => Batch { last_direction: direction, batching: self.batch.batching + 1, ..self.batch },
        };
        let queue = &mut self.classes[class_of(request)].queues[direction as usize];
        queue.sorted.remove(request);
        self.links.remove(&mut queue.fifo, request.id);
        queue.latest_pos = request.start;
    }
}

impl Capabilities for MqDeadline {
    tuned_by!(tunables);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Table, request};
    use Reason::{Aged, Batch as Goes, Expired, NewBatch, NewSweep, Starved};
    use elevator::{HoldReason, Op, Priority, Value};

    fn table(settings: &[(&str, Value)]) -> Table {
        let mut t = Table::new(MqDeadline::default());
        for (name, value) in settings {
            t.scheduler.tune(name, *value).unwrap();
        }
        t
    }

    fn of(class: PriorityClass, start: u64) -> Request {
        Request { priority: Priority { class, level: 4 }, ..request(start, 8) }
    }

    #[test]
    fn one_class_alone_is_deadline() {
        let mut t = table(&[("fifo_batch", Value::Count(2))]);
        let [b, c, a, d] = [500, 900, 100, 950].map(|sector| t.read(sector));
        // `latest_pos` is 0 at first, so the first sweep begins at the lowest sector.
        t.serves(a, NewBatch);
        t.serves(b, Goes);
        t.serves(c, NewBatch);
        t.serves(d, Goes);
        let low = t.read(10);
        t.serves(low, NewSweep);
    }

    #[test]
    fn a_lower_class_waits_for_requests_in_flight() {
        let mut t = table(&[]);
        t.depth = 4;
        let idle = t.insert(of(PriorityClass::Idle, 0));
        let best_effort = t.insert(of(PriorityClass::BestEffort, 100));
        let real_time = t.insert(of(PriorityClass::RealTime, 200));
        t.sends(real_time, Goes); // best-effort, too young, has begun the batch
        t.holds(HoldReason::ClassWaits, None);
        t.complete(real_time);
        t.sends(best_effort, Goes); // the batch is shared by all classes
        t.holds(HoldReason::ClassWaits, None);
        t.complete(best_effort);
        t.serves(idle, Goes);
        t.idles();
    }

    #[test]
    fn a_request_of_a_lower_class_ages() {
        let mut t = table(&[("prio_aging_expire", Value::Span(Span::from_millis(50)))]);
        let low = t.insert(of(PriorityClass::Idle, 0));
        t.at(49);
        let high = t.insert(of(PriorityClass::RealTime, 200));
        let higher = t.insert(of(PriorityClass::RealTime, 300));
        t.serves(high, Goes);
        t.at(50).serves(low, Aged);
        t.serves(higher, Goes);
    }

    #[test]
    fn the_defaults_are_linuxs() {
        let Tunables {
            read_expire,
            write_expire,
            writes_starved,
            fifo_batch,
            front_merges,
            prio_aging_expire,
            async_depth,
        } = Tunables::default();
        let spans = (read_expire, write_expire, prio_aging_expire);
        assert_eq!(spans, (Span::from_millis(500), Span::from_secs(5), Span::from_secs(10)));
        assert_eq!((writes_starved, fifo_batch, front_merges), (2, 16, true));
        assert!(async_depth >= 1_000_000, "all that there are");
    }

    #[test]
    fn all_but_reads_may_be_kept_from_filling_the_queue() {
        let mut t = table(&[("async_depth", Value::Count(2))]);
        let leave = |t: &Table| {
            [Direction::Read, Direction::Write].map(|way| t.scheduler.may_queue(t.now, None, way, true))
        };
        let [first, second] = [0, 8].map(|sector| t.write(sector));
        assert_eq!(leave(&t), [Admission::ByLimit, Admission::No]);
        t.absorb(first, second);
        assert_eq!(leave(&t), [Admission::ByLimit; 2], "the two are one");
        let third = t.write(100);
        t.read(200);
        t.sends(first, Goes);
        assert_eq!(leave(&t), [Admission::ByLimit, Admission::No], "what is in flight counts");
        t.complete(first);
        assert_eq!(leave(&t), [Admission::ByLimit; 2]);
        t.sends(third, Goes);
    }

    #[test]
    fn best_effort_ages_before_idle_and_real_time_not_at_all() {
        let mut t = table(&[("prio_aging_expire", Value::Span(Span::from_millis(50)))]);
        let [real_time, idle, best_effort] =
            [PriorityClass::RealTime, PriorityClass::Idle, PriorityClass::BestEffort]
                .map(|class| t.insert(of(class, 0)));
        t.at(50).serves(best_effort, Aged);
        t.serves(idle, Aged);
        t.serves(real_time, Goes);
        t.idles();
    }

    #[test]
    fn a_class_whose_last_request_was_absorbed_holds_up_no_other() {
        let mut t = table(&[]);
        let [front, back] = [0, 8].map(|sector| t.insert(of(PriorityClass::RealTime, sector)));
        let low = t.insert(of(PriorityClass::Idle, 100));
        t.absorb(front, back);
        t.serves(front, Goes);
        t.serves(low, Goes);
        t.idles();
    }

    #[test]
    fn a_sweep_goes_on_from_where_the_last_request_began() {
        let mut t = table(&[]);
        let first = t.read(100);
        t.serves(first, NewBatch);
        let [overlapping, behind] = [104, 200].map(|sector| t.read(sector));
        t.serves(overlapping, Goes);
        t.serves(behind, Goes);
    }

    #[test]
    fn a_request_expires_by_its_arrival_however_late_this_scheduler_got_it() {
        let mut t = table(&[("fifo_batch", Value::Count(1))]);
        let moved = [900, 100].map(|sector| t.requests.add(request(sector, 8)));
        t.at(400);
        moved.iter().for_each(|&id| t.scheduler.insert(t.now, &t.requests[id]));
        let next = t.read(200);
        t.serves(moved[1], NewBatch);
        t.at(500).serves(moved[0], Expired);
        t.serves(next, NewSweep);
    }

    #[test]
    fn reads_pass_writes_by_twice_and_an_expired_one_comes_first() {
        let mut t = table(&[("fifo_batch", Value::Count(1))]);
        let reads = [0, 100, 200, 300].map(|sector| t.read(sector));
        t.serves(reads[0], NewBatch);
        let writes = [50, 60].map(|sector| t.write(sector));
        t.serves(reads[1], NewBatch);
        t.serves(reads[2], NewBatch);
        t.serves(writes[0], Starved); // and sets the count back
        let late = t.read(150);
        t.at(500).serves(reads[3], Expired);
        t.serves(late, Expired);
        t.serves(writes[1], NewBatch);
    }

    #[test]
    fn the_older_of_two_that_join_gives_its_place_in_the_list() {
        let mut t = table(&[("fifo_batch", Value::Count(1))]);
        let first = t.write(0);
        t.serves(first, Goes); // Linux begins as if in a write batch
        let old = t.insert(Request { op: Op::Write, ..request(1_000, 8) });
        let other = t.write(8);
        t.at(10);
        let young = t.insert(Request { op: Op::Write, ..request(992, 8) });
        t.absorb(young, old);
        t.at(5_000).serves(young, Expired);
        t.serves(other, Expired);
        t.idles();
    }
}
