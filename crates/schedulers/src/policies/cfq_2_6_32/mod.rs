//! Complete fair queueing of Linux 2.6.32: time slices, and idling for their owners.
//!
//! # Idea
//! Each process with synchronous requests gets the device for a time slice, which is longer for a higher priority. Within a
//! slice the device idles for a moment when the owner has nothing queued, because the owner's next request is likely to be
//! near. Fairness and anticipation are thus one mechanism. Asynchronous requests share queues, and wait for synchronous ones.
//!
//! # State
//! - A queue per I/O context with synchronous requests (or for several contexts that cooperate), and one queue for all
//!   asynchronous requests of each priority.
//! - The order of turns, and per priority an order of queues by next position.
//! - The slice's owner, and the end of idling for it.
//! - Think times per context, seek distances per queue, and whether the device queues commands.
//!
//! # Order of decisions
//! 1. The owner's slice continues while it is not used up and the owner has requests.
//! 2. If the owner has none: a cooperating queue near by gets a slice, and the two queues are merged for the future.
//! 3. If there is none: hold, while the device idles for the owner or has its requests.
//! 4. The next queue in the order of turns gets a slice.
//! 5. Within the queue: the oldest request if it has expired (checked once per slice), else the best: synchronous, metadata,
//!    nearest (one way; a short way back counts more).
//! 6. Hold before dispatching, if asynchronous requests must leave the device first, or synchronous ones, or if the queue has
//!    enough in the device. The limit is `quantum`, four times as much if the queue is alone. For asynchronous requests it grows
//!    with the time since a synchronous request completed.
//!
//! A new request preempts the owner (its queue gets a slice at once) if
//! - the slice is used up, or the owner is of the idle class;
//! - the request is synchronous and the owner asynchronous;
//! - the request is metadata, or of the real-time class;
//! - the device idles, and the request is as near as the owner's own would be.
//!
//! # Where it differs from the source
//! - Times are counted in ticks, with `hz` as a tunable (250, as distributions configured it).
//! - The order by position is updated whenever a next request changes.
//! - A synchronous write counts as `REQ_NOIDLE`, as `fsync` marks its writes: the device does not idle after it.
//! - Holders of file-system locks are not boosted, because hosts cannot identify them.
//! - The permission to exceed the queue's limit ends with the request that used it.
//! - Requests of unknown processes belong to one process, as those of one I/O context.
//! - Of requests at the same sector, the source dispatches the older one at once; here both stay queued.
//! - Of two near neighbours, the one above is tried first; in the source the order depends on the shape of its tree.
//! - The end of a process does not end the slice of the asynchronous queue that it used.
//!
//! # Not for
//! Solid-state devices and arrays (idling costs more than seeks), and hosts that cannot name processes: all requests are then
//! in one queue, in elevator order without fairness. There is no bound on waiting: the real-time class preempts every other.
//!
//! # Sources
//! Linux 2.6.32 `block/cfq-iosched.c`.

mod cooperators;
mod hardware;
mod queue;
mod slices;
#[cfg(test)]
mod tests;
mod trees;

use alloc::boxed::Box;

use elevator::{
    Admission, Capabilities, Decision, Direction, Growth, Op, Outcome, Priority, PriorityClass, Process,
    Reason, Request, RequestId, Scheduler, Sector, Side, Span, Time, TuneError, Tuning, Value, View,
    tunables, tuned_by_itself,
};

use self::hardware::Hardware;
use self::queue::{QueueId, Queues};
use self::trees::{PositionTree, ServiceTree};
use crate::listing::{Environment, Listing, Make};
use crate::parts::averages::ThinkTime;
use crate::parts::fifo::Links;
use crate::parts::jiffies::{Jiffies, Ticks};
use crate::parts::nearest::Reach;
use crate::parts::per_request::PerRequest;
use crate::parts::processes::{Processes, Slot};
use crate::parts::sorted::Key;

tunables! {
    /// Tunables. Names and defaults are Linux's; times are truncated to whole ticks.
    pub struct Tunables {
        /// The most requests of one queue in the device; four times as many for a queue that is alone. Larger: better for
        /// devices that queue, worse for the latency of other queues.
        quantum: Count = 4, 1, 1_000;
        /// The age from which the oldest synchronous request goes first in its queue's slice.
        fifo_expire_sync: Span = Span::from_millis(125), Span::ZERO, Span::from_secs(3_600);
        /// The same for asynchronous requests.
        fifo_expire_async: Span = Span::from_millis(250), Span::ZERO, Span::from_secs(3_600);
        /// How far back the head may go for a request. Linux: 16384 KiB.
        back_seek_max: Sectors = 32_768, 0, 4_294_967_296;
        /// Cost of a sector backward, relative to one forward.
        back_seek_penalty: Count = 2, 1, 1_000;
        /// The slice of a synchronous queue of priority 4. Longer: fewer seeks, longer waits.
        slice_sync: Span = Span::from_millis(100), Span::from_millis(1), Span::from_secs(10);
        /// The slice of an asynchronous queue of priority 4.
        slice_async: Span = Span::from_millis(40), Span::from_millis(1), Span::from_secs(10);
        /// Sets the number of requests that an asynchronous queue may dispatch in a slice: 2 (n + n (7 - priority)).
        slice_async_rq: Count = 2, 1, 1_000;
        /// How long to idle for the owner of the slice. 0: never, better for devices without seeks.
        slice_idle: Span = Span::from_millis(8), Span::ZERO, Span::from_secs(1);
        /// Idle for seeky processes too, and limit the rate of asynchronous requests.
        low_latency: Flag = true, false, true;
        /// Ticks per second of the modelled kernel.
        hz: Count = 250, 10, 10_000;
    }
}

/// A context unused for this long may be evicted; the kernel keeps it until its tasks end.
const STALE: Span = Span::from_secs(60);

/// The number of best-effort levels, and of orders by position.
const LEVELS: usize = 8;

/// The tunables that are times, in ticks.
#[derive(Clone, Copy, Debug)]
struct Timing {
    /// Asynchronous, synchronous.
    fifo_expire: [Jiffies; 2],
    slice: [Jiffies; 2],
    slice_idle: Jiffies,
    /// How long to idle for a seeky queue (`CFQ_MIN_TT`).
    min_think: Jiffies,
    /// How far an idle queue's turn is behind all others (`CFQ_IDLE_DELAY`).
    idle_delay: Jiffies,
    /// How long a shared queue may be seeky before it is split (`CFQQ_COOP_TOUT`), and the advance of a queue that preempts.
    second: Jiffies,
    stale: Jiffies,
}

impl Timing {
    fn of(tunables: &Tunables) -> Self {
        let ticks = Ticks::of_hz(tunables.hz);
        Self {
            fifo_expire: [tunables.fifo_expire_async, tunables.fifo_expire_sync].map(|span| ticks.of(span)),
            slice: [tunables.slice_async, tunables.slice_sync].map(|span| ticks.of(span)),
            slice_idle: ticks.of(tunables.slice_idle),
            min_think: ticks.rounded_up(Span::from_millis(2)),
            idle_delay: ticks.of(Span::from_millis(200)),
            second: ticks.of(Span::from_secs(1)),
            stale: ticks.of(STALE),
        }
    }
}

/// The state of an I/O context (`cfq_io_context`).
#[derive(Clone, Copy, Debug, Default)]
struct Context {
    is_known: bool,
    /// The queue of its synchronous requests.
    queue: Option<QueueId>,
    ttime: ThinkTime,
    last_end_request: Jiffies,
    priority: Priority,
}

/// The state of a request from its insertion to its end.
#[derive(Clone, Copy, Debug)]
struct Record {
    queue: QueueId,
    context: Slot,
    is_sync: bool,
    is_meta: bool,
    start: Sector,
    expires: Jiffies,
}

/// CFQ of 2.6.32.
pub struct Cfq2_6_32 {
    tunables: Tunables,
    timing: Timing,
    ticks: Ticks,
    /// The time of the latest event.
    now: Time,
    is_rotational: bool,
    /// By I/O context; unknown processes have one.
    contexts: Processes<Context, Option<u32>>,
    queues: Queues,
    /// By class and level; idle ones share the last.
    async_queues: [Option<QueueId>; 2 * LEVELS + 1],
    service_tree: ServiceTree,
    positions: [PositionTree; LEVELS],
    links: Links,
    records: PerRequest<Option<Record>>,
    /// The owner of the slice (`active_queue`), and the context whose request began it (`active_cic`).
    active: Option<QueueId>,
    active_context: Option<Slot>,
    /// The end of idling for the owner (`idle_slice_timer`).
    idle_until: Option<Jiffies>,
    /// The reason of the owner's slice.
    slice_reason: Reason,
    rq_queued: u32,
    /// Asynchronous and synchronous requests in the device.
    rq_in_driver: [u32; 2],
    /// Requests of synchronous queues in the device.
    sync_flight: u32,
    hardware: Hardware,
    /// The end of the latest request.
    last_position: Sector,
    last_end_sync: Jiffies,
}

pub(crate) const LISTINGS: &[Listing] = &[Listing::new(
    "cfq",
    "slices of time for every process, idling for their owners",
    Make::Scheduler(|environment| Box::new(Cfq2_6_32::new(environment))),
)
.with_version("2.6.32")
.with_source("Linux 2.6.32, block/cfq-iosched.c")
.with_tunables(Tunables::TABLE)];

fn key(process: Option<Process>) -> Option<u32> {
    process.map(|process| process.context)
}

impl Cfq2_6_32 {
    /// With the defaults, and nothing queued.
    #[must_use]
    pub fn new(environment: &Environment) -> Self {
        let tunables = Tunables::default();
        Self {
            timing: Timing::of(&tunables),
            ticks: Ticks::of_hz(tunables.hz),
            tunables,
            now: Time::ZERO,
            is_rotational: environment.rotational,
            contexts: Processes::default(),
            queues: Queues::default(),
            async_queues: [None; 2 * LEVELS + 1],
            service_tree: ServiceTree::default(),
            positions: Default::default(),
            links: Links::new(),
            records: PerRequest::new(),
            active: None,
            active_context: None,
            idle_until: None,
            slice_reason: Reason::NewSlice,
            rq_queued: 0,
            rq_in_driver: [0; 2],
            sync_flight: 0,
            hardware: Hardware::new(),
            last_position: Sector(0),
            last_end_sync: 0,
        }
    }

    fn record(&self, id: RequestId) -> &Record {
        self.records[id].as_ref().expect("a request that was inserted")
    }

    const fn reach(&self) -> Reach {
        Reach { back_max: self.tunables.back_seek_max, back_penalty: self.tunables.back_seek_penalty }
    }

    /// The context of a request's process, created if needed. An evicted context leaves its queue.
    fn enter(&mut self, now: Jiffies, request: &Request) -> Slot {
        let stale = now.saturating_sub(self.timing.stale);
        let mut forgotten = None;
        let key = key(request.process);
        let slot = self.contexts.enter(key, now, stale, |context: Context| forgotten = context.queue);
        if let Some(queue) = forgotten {
            self.leave(now, queue);
        }
        let context = &mut self.contexts[slot];
        if !context.is_known {
            let priority = request.priority;
            *context = Context { is_known: true, last_end_request: now, priority, ..Context::default() };
        } else if context.priority != request.priority {
            context.priority = request.priority;
            if let Some(queue) = context.queue {
                self.change_priority(queue, request.priority);
            }
        }
        slot
    }

    /// The process's priority changed; its queue's changes with the next turn.
    fn change_priority(&mut self, id: QueueId, priority: Priority) {
        self.forget_position(id);
        self.queues[id].set_priority(priority);
        self.update_position(id);
    }

    /// The queue of a request.
    fn queue_for(&mut self, now: Jiffies, context: Slot, request: &Request) -> QueueId {
        if request.is_sync() { self.sync_queue(now, context) } else { self.async_queue(request.priority) }
    }

    fn async_queue(&mut self, priority: Priority) -> QueueId {
        let level = usize::from(priority.level).min(LEVELS - 1);
        let index = match priority.class {
            PriorityClass::RealTime => level,
            PriorityClass::BestEffort => LEVELS + level,
            PriorityClass::Idle => 2 * LEVELS,
        };
        *self.async_queues[index].get_or_insert_with(|| self.queues.make(false, priority))
    }

    /// The order of requests: synchronous, metadata, near.
    fn preference(&self, id: RequestId) -> impl Ord + use<> {
        let record = self.record(id);
        (!record.is_sync, !record.is_meta, self.reach().cost(self.last_position, record.start))
    }

    fn better(&self, a: Option<RequestId>, b: Option<RequestId>) -> Option<RequestId> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if self.preference(b) < self.preference(a) { b } else { a }),
            _ => a.or(b),
        }
    }

    /// The best neighbour of a request that is about to leave its queue (`cfq_find_next_rq`).
    fn find_next(&self, queue: QueueId, request: &Request) -> Option<RequestId> {
        let sorted = &self.queues[queue].sorted;
        let up = sorted.successor(request).or_else(|| sorted.first().filter(|&first| first != request.id));
        self.better(up, sorted.predecessor(request))
    }

    /// `cfq_add_rq_rb`.
    fn add(&mut self, now: Jiffies, id: QueueId, request: &Request) {
        self.queues[id].sorted.insert(request);
        if self.queues[id].turn.is_none() {
            self.take_turn(now, id, false);
        }
        self.set_next(id, self.better(self.queues[id].next, Some(request.id)));
    }

    fn set_next(&mut self, id: QueueId, next: Option<RequestId>) {
        self.queues[id].next = next;
        self.update_position(id);
    }

    /// A request leaves its queue (`cfq_remove_request`).
    fn remove(&mut self, request: &Request) {
        let Record { queue: id, is_meta, .. } = *self.record(request.id);
        if self.queues[id].next == Some(request.id) {
            let next = self.find_next(id, request);
            self.queues[id].next = next;
        }
        let queue = &mut self.queues[id];
        self.links.remove(&mut queue.fifo, request.id);
        queue.sorted.remove(request);
        queue.meta_pending -= u32::from(is_meta);
        self.rq_queued -= 1;
        if queue.sorted.is_empty()
            && let Some(turn) = queue.turn.take()
        {
            self.service_tree.remove(turn);
        }
        self.update_position(id);
    }

    /// `cfq_dispatch_insert`, and the driver's part.
    fn send(&mut self, request: &Request) {
        let Record { queue: id, context, is_sync, .. } = *self.record(request.id);
        self.queues[id].next = self.find_next(id, request);
        self.remove(request);
        let queue = &mut self.queues[id];
        queue.dispatched += 1;
        self.sync_flight += u32::from(queue.is_sync);
        self.rq_in_driver[usize::from(is_sync)] += 1;
        self.last_position = request.end();
        if self.active_context.is_none() {
            self.contexts.pin(context);
            self.active_context = Some(context);
        }
    }

    /// A request ends, and possibly its queue.
    fn forget(&mut self, now: Jiffies, id: RequestId) {
        let Some(record) = self.records[id].take() else { return };
        self.contexts.unpin(record.context);
        self.release(now, record.queue);
    }

    /// Frees a queue without users; if it owned the slice, the slice is over.
    fn release(&mut self, now: Jiffies, id: QueueId) {
        if self.queues[id].is_unused() {
            if self.active == Some(id) {
                self.slice_expired(now, id, false);
            }
            self.queues.free(id);
        }
    }

    /// Updates the averages of an arrival's process and queue (`cfq_rq_enqueued`, first half).
    fn learn(&mut self, now: Jiffies, context: Slot, id: QueueId, request: &Request) {
        let most = 2 * self.timing.slice_idle;
        let context = &mut self.contexts[context];
        context.ttime.add(now.saturating_sub(context.last_end_request).min(most));
        let queue = &mut self.queues[id];
        let last = queue.last_request_pos;
        queue.seek.add(if last == Sector(0) { 0 } else { last.distance(request.start) });
        queue.last_request_pos = request.end();
        if queue.is_shared {
            queue.seeky_start = if queue.is_seeky() { queue.seeky_start.or(Some(now)) } else { None };
        }
    }

    /// Whether to idle for a queue at all: not if its process has ended, thinks long, or seeks too much
    /// (`cfq_update_idle_window`).
    fn update_idle_window(&mut self, slot: Slot, id: QueueId) {
        let Timing { slice_idle, min_think, .. } = self.timing;
        let (context, running) = (self.contexts[slot], self.contexts.is_running(slot));
        let queue = &mut self.queues[id];
        if !queue.is_sync || queue.is_idle_class() {
            return;
        }
        let pointless = !self.tunables.low_latency && self.hardware.queues && queue.is_seeky();
        if !running || slice_idle == 0 || pointless {
            queue.idle_window = false;
        } else if context.ttime.is_valid() {
            let seeky = queue.seek.is_valid() && queue.is_seeky();
            queue.idle_window = context.ttime.mean() <= if seeky { min_think } else { slice_idle };
        }
    }

    /// Changes the tick length.
    fn change_hz(&mut self) {
        let anew = self.ticks.change_hz(self.now, self.tunables.hz);
        let slice = self.active.map(|id| &mut self.queues[id].slice.end);
        let expiries = self.records.values_mut().flatten().map(|record| &mut record.expires);
        self.idle_until.iter_mut().chain(slice).chain(expiries).for_each(|point| anew.apply(point));
    }

    /// A queued request was absorbed by `request`. If it would have expired first, `request` takes its place.
    fn absorb(&mut self, now: Jiffies, request: &Request, absorbed: &Request) {
        let (was, is) = (*self.record(absorbed.id), *self.record(request.id));
        if was.queue == is.queue && was.expires < is.expires {
            let fifo = &mut self.queues[is.queue].fifo;
            self.links.remove(fifo, request.id);
            self.links.replace(fifo, absorbed.id, request.id);
            self.links.push_back(fifo, absorbed.id); // it leaves with the rest of it
            self.records.set(request.id, Some(Record { expires: was.expires, ..is }));
        }
        self.remove(absorbed);
        self.forget(now, absorbed.id);
    }
}

impl Scheduler for Cfq2_6_32 {
    /// `cfq_insert_request`.
    fn insert(&mut self, now: Time, request: &Request) {
        let now = self.clock(now);
        let context = self.enter(now, request);
        self.contexts.pin(context);
        let queue = self.queue_for(now, context, request);
        let is_sync = request.is_sync();
        let expires = self.ticks.at(request.arrived) + self.timing.fifo_expire[usize::from(is_sync)];
        let record =
            Record { queue, context, is_sync, is_meta: request.flags.meta, start: request.start, expires };
        self.records.set(request.id, Some(record));
        self.add(now, queue, request);
        self.links.push_back(&mut self.queues[queue].fifo, request.id);
        self.rq_queued += 1;
        self.queues[queue].meta_pending += u32::from(record.is_meta);
        self.learn(now, context, queue, request);
        self.update_idle_window(context, queue);
        self.enqueued(now, queue, request);
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        let now = self.clock(now);
        if growth.was_start != request.start {
            let record = Record { start: request.start, ..*self.record(request.id) };
            self.records.set(request.id, Some(record));
            let queue = &mut self.queues[record.queue];
            queue.sorted.remove_key(Key::at(growth.was_start, request.serial));
            queue.sorted.insert(request);
            self.set_next(record.queue, self.better(self.queues[record.queue].next, Some(request.id)));
        }
        if let Some(absorbed) = growth.absorbed {
            self.absorb(now, request, absorbed);
        }
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        let now = self.clock(now);
        if self.service_tree.is_empty() {
            return Decision::Idle;
        }
        match self.select(now).and_then(|queue| self.choose(now, queue)) {
            Ok((id, reason)) => {
                let queue = self.record(id).queue;
                self.send(&view.requests[id]);
                self.sent(now, queue);
                Decision::Dispatch { id, reason }
            }
            Err(hold) => Decision::Hold(hold),
        }
    }

    /// `cfq_completed_request`.
    fn completed(&mut self, now: Time, request: &Request, outcome: Outcome) {
        let now = self.clock(now);
        let Record { queue: id, context, is_sync, .. } = *self.record(request.id);
        self.hardware.sample(self.rq_queued, self.rq_in_driver.iter().sum());
        self.rq_in_driver[usize::from(is_sync)] -= 1;
        let queue = &mut self.queues[id];
        queue.dispatched -= 1;
        self.sync_flight -= u32::from(queue.is_sync);
        if outcome != Outcome::GivenBack {
            if is_sync {
                self.contexts[context].last_end_request = now;
                self.last_end_sync = now;
            }
            let may_idle = is_sync && request.op == Op::Read;
            self.owner_completed(now, id, may_idle);
        }
        self.forget(now, request.id);
    }

    /// An I/O context ends with the task that it was created for; other tasks that share it only leave it.
    fn exited(&mut self, now: Time, process: Process) {
        let now = self.clock(now);
        let key = key(Some(process)).filter(|&context| context == process.task);
        let Some(slot) = key.and_then(|key| self.contexts.find(Some(key))) else { return };
        if let Some(queue) = self.contexts[slot].queue.take() {
            self.leave(now, queue);
        }
        self.contexts.end(key);
    }

    /// The process for which the device idles must not block, once per slice.
    fn may_queue(
        &self,
        _now: Time,
        process: Option<Process>,
        _direction: Direction,
        sync: bool,
    ) -> Admission {
        let context = self.contexts.find(key(process)).filter(|_| sync);
        let queue = context.and_then(|slot| self.contexts[slot].queue);
        match queue.map(|id| &self.queues[id].slice) {
            Some(slice) if slice.wait_request && !slice.must_alloc => Admission::Must,
            _ => Admission::ByLimit,
        }
    }

    /// `cfq_allow_merge`: within a queue only, and no synchronous request into an asynchronous one. Queued requests merge
    /// within their queue's order, whatever their processes.
    fn may_merge(&self, request: &Request, addition: &Request, _side: Side) -> bool {
        let record = self.record(request.id);
        if let Some(Some(queued)) = self.records.get(addition.id) {
            return queued.queue == record.queue;
        }
        if !addition.is_sync() {
            return !self.queues[record.queue].is_sync;
        }
        let context = self.contexts.find(key(addition.process));
        record.is_sync && context.is_some_and(|slot| self.contexts[slot].queue == Some(record.queue))
    }
}

impl Capabilities for Cfq2_6_32 {
    tuned_by_itself!();
}

impl Tuning for Cfq2_6_32 {
    fn table(&self) -> &[elevator::Tunable] {
        Tunables::TABLE
    }

    fn value(&self, name: &str) -> Option<Value> {
        self.tunables.get(name)
    }

    fn set_value(&mut self, name: &str, value: Value) -> Result<(), TuneError> {
        let hz = self.tunables.hz;
        self.tunables.set(name, value)?;
        if self.tunables.hz != hz {
            self.change_hz();
        }
        self.timing = Timing::of(&self.tunables);
        Ok(())
    }
}
