//! BFQ: budget fair queueing. Each process gets a share of the device's service by its weight, and interactive and soft
//! real-time processes get it at once.
//!
//! # Idea
//! Each process has a queue, and each queue a budget in sectors, not in time. The queue in service owns the device until its
//! budget is used up, it runs empty, or 125 ms have passed. B-WF2Q+ (module `service`) determines the next queue, so shares
//! follow weights whatever the budgets. Budgets can therefore be large for queues that use them well (sequential readers, for
//! throughput) and small for others (for latency). When the queue in service runs empty, the device may idle for its next
//! request, if that pays or if the queue would lose its share otherwise.
//!
//! # State
//! | module | content |
//! |---|---|
//! | `contexts`, `queue` | processes and their synchronous queues (asynchronous requests share one queue per priority level) |
//! | `service`, `tree` | the order of service in virtual time, per class |
//! | `backlog` | a queue's requests: by sector, by age, the next one |
//! | `arrival`, `dispatch` | the paths of a request in and out, and the states of a queue in between |
//! | `budget` | the end of a slot: its charge, the next budget |
//! | `idling` | whether the device idles, and for how long |
//! | `weights` | the weights of busy queues |
//! | `rate` | the device's peak rate, which limits the budgets |
//! | `weight_raising`, `burst` | weights raised for interactive and soft real-time processes, but not for bursts of processes |
//! | `cooperation` | queues of processes that read the same region, merged and split again |
//! | `injection` | other queues' requests while the queue in service is empty; queues that wake each other |
//!
//! # Order of decisions
//! 1. `strict_guarantees`: one request in the device at a time.
//! 2. The slot of the queue in service is over (125 ms, times its raised weight): the queue goes back in order, unless the
//!    device is about to wait for it.
//! 3. The queue's next request fits into its budget: dispatch it. Otherwise: a new budget, and back in order.
//! 4. The queue is empty, but worth waiting for (or waiting for its requests in the device): wait 8 ms (2 ms if it only seeks,
//!    20 ms if its weight is raised). Meanwhile requests of other queues may be injected: its process's asynchronous ones, those of the
//!    queue that wakes it or that it wakes, or any others up to a limit learnt from the delay that they cause.
//! 5. The queue is empty otherwise: it leaves service. The next queue in virtual time gets its budget; continue with 3.
//!
//! Within a queue: a request past its `fifo_expire`, checked once per slot; else synchronous before asynchronous, metadata before
//! data, and the nearest, where up to 16 MiB back count double and farther back comes last.
//!
//! # Where it differs from the source
//! - No control groups: all queues are in one group. No multiple actuators.
//! - Slots end with a tick of HZ=250, as in the source. Other times in jiffies are in nanoseconds here; four jiffies are 16 ms.
//! - A limit of the source that never takes effect (it compares nanoseconds with jiffies, and would allow one injection after
//!   a whole `slice_idle`) is omitted.
//! - A close cooperator is the nearer of the two neighbours in sector order; the source's choice depends on the shape of its
//!   tree.
//! - Of several queues that one queue wakes, only the latest to become busy is stored; the source keeps a list, and reads its
//!   first entry.
//! - A change of class while the queue is busy moves it in the count of busy queues; the source omits this.
//! - `may_queue` counts the scheduler's requests against `nr_requests`; it does not distinguish synchronous writes from reads.
//!   Processes that the host does not name share one queue, as those behind a loop device's worker do.
//! - `strict_guarantees` raises `slice_idle` to 8 ms when set, as in the source.
//! - A slow queue is charged for its time out of `timeout_sync`; the source divides by that tunable's default, whatever its value.
//! - Queues merge when a request is inserted. The source searches for a cooperator earlier, when a bio might join a queued
//!   request, so a cooperator's first bio can join there already.
//!
//! # Not for
//! Devices so fast that a microsecond per request matters; maximal throughput (`low_latency` off helps). There is no bound on
//! waiting: a higher class is always served first, and a queue's requests are dispatched in sector order.
//!
//! # Sources
//! Linux 6.12 (6.12.117 as in Debian) `block/bfq-iosched.c` and `block/bfq-wf2q.c`, compared function by function; the changes
//! from 6.13 to 6.18 were not compared. P. Valente and A. Avanzini, "Evolution of the BFQ Storage-I/O Scheduler", 2015.

mod arrival;
mod backlog;
mod budget;
mod burst;
mod contexts;
mod cooperation;
mod dispatch;
mod idling;
mod injection;
mod queue;

mod rate;
mod service;
#[cfg(test)]
mod state_tests;
#[cfg(test)]
mod tests;
mod tree;
mod weight_raising;
mod weights;

use alloc::boxed::Box;

use elevator::{
    Admission, Capabilities, Decision, Direction, Growth, Outcome, Process, Request, RequestId, Scheduler,
    Sector, Side, Span, Time, Tunable, TuneError, Tuning, Value, View, tunables, tuned_by_itself,
};

use self::backlog::Entry;
use self::burst::Burst;
use self::contexts::Contexts;
use self::injection::Sampling;
use self::queue::QueueId;
use self::queue::{Handle, Queues};
use self::rate::Rate;
use self::service::Service;
use crate::listing::{Listing, Make};
use crate::parts::fifo::Links;
use crate::parts::per_request::PerRequest;
use crate::parts::sorted::SortedIndex;

tunables! {
    /// Tunables.
    pub struct Tunables {
        /// Whether to raise the weights of interactive and soft real-time processes. Off: more throughput, shares by weight only.
        low_latency: Flag = true, false, true;
        /// How long the device is kept idle for a queue's next request. 0 gives up throughput of sequential readers and
        /// shares, for the throughput of devices that queue.
        slice_idle: Span = Span::from_millis(8), Span::ZERO, Span::from_secs(5);
        /// Whether to idle always and to dispatch one request at a time, so that the device cannot change the order of service.
        strict_guarantees: Flag = false, false, true;
        /// Age at which a synchronous request is due.
        fifo_expire_sync: Span = Span::from_millis(125), Span::from_millis(1), Span::from_secs(3600);
        /// Age at which an asynchronous request is due.
        fifo_expire_async: Span = Span::from_millis(250), Span::from_millis(1), Span::from_secs(3600);
        /// The maximum distance of a backward seek that competes with forward seeks. (In the kernel: KiB.)
        back_seek_max: Sectors = 32_768, 0, 1 << 40;
        /// Factor on the distance of a backward seek.
        back_seek_penalty: Count = 2, 1, 1_000;
        /// Limit of the time for which a queue is served without a break; for a raised queue, times the raise. Counted in ticks of
        /// 4 ms, including the tick in which the service begins, so that 125 ms are 120 to 124.
        timeout_sync: Span = Span::from_millis(125), Span::from_millis(1), Span::from_secs(10);
        /// Limit of the sectors for which a queue is served without a break; 0: derived from the device's measured rate.
        max_budget: Sectors = 0, 0, 1 << 31;
        /// Whether tasks plug their requests before submission. Not in the source; for hosts without plugs. A task without a plug, such as one
        /// that reads a device directly, call by call, has a newer clock value when its first request is examined.
        plugged: Flag = true, false, true;
    }
}

pub(crate) const LISTINGS: &[Listing] = &[Listing::new(
    "bfq",
    "a share of the service for every process by weight, and low latency for interactive processes",
    Make::Scheduler(|environment| Box::new(Bfq::new(environment.rotational, environment.nr_requests))),
)
.with_source("Linux 6.x, block/bfq-iosched.c and block/bfq-wf2q.c")
.with_tunables(Tunables::TABLE)];

/// Levels of priority in a class.
const LEVELS: usize = 8;

/// The state of the device.
#[derive(Default)]
struct Driver {
    rotational: bool,
    /// Requests in the device.
    in_flight: u32,
    /// Most of them since the last judgement.
    in_flight_max: u32,
    samples: u32,
    /// Whether it takes several at once and makes something of it; unknown until it was judged.
    queues: Option<bool>,
    /// Where the request that was sent last ends.
    position: Sector,
    /// The same, of the queue in service.
    service_position: Sector,
    last_completion: Time,
}

/// The scheduler; see the head of this module.
pub struct Bfq {
    tunables: Tunables,
    nr_requests: u32,
    contexts: Contexts,
    queues: Queues,
    service: Service,
    /// One queue for each level of the real-time and best-effort classes, and one for the idle class.
    asynchronous: [[Option<QueueId>; LEVELS]; 3],
    requests: PerRequest<Entry>,
    links: Links,
    queued: u32,
    /// Requests queued or dispatched: all, and the asynchronous ones.
    allocated: u32,
    allocated_async: u32,
    driver: Driver,
    rate: Rate,
    /// Sectors of the largest budget.
    max_budget: u64,
    /// Grows to 256 as budgets are assigned: the rate is to be trusted when there were enough.
    budgets_assigned: u32,
    slot_began: Time,
    idling_began: Time,
    /// When the device has been idle long enough.
    idle_until: Option<Time>,
    /// Busy queues whose weight is raised.
    raised_busy: u32,
    burst: Burst,
    /// Next requests of queues that may find cooperators, by position.
    positions: SortedIndex,
    last_created: Option<Handle>,
    last_completed: Option<Handle>,
    sampling: Sampling,
}

impl Bfq {
    /// For a device with a head to move (`rotational`) or without, on a queue that takes so many requests.
    #[must_use]
    pub fn new(rotational: bool, nr_requests: u32) -> Self {
        Self {
            tunables: Tunables::default(),
            nr_requests,
            contexts: Contexts::default(),
            queues: Queues::default(),
            service: Service::default(),
            asynchronous: Default::default(),
            requests: PerRequest::new(),
            links: Links::new(),
            queued: 0,
            allocated: 0,
            allocated_async: 0,
            driver: Driver { rotational, ..Driver::default() },
            rate: Rate::new(rotational),
            max_budget: budget::DEFAULT,
            budgets_assigned: 0,
            slot_began: Time::ZERO,
            idling_began: Time::ZERO,
            idle_until: None,
            raised_busy: 0,
            burst: Burst::default(),
            positions: SortedIndex::new(),
            last_created: None,
            last_completed: None,
            sampling: Sampling::default(),
        }
    }

    /// A solid-state device that queues: it finds the best order itself, so queues need not be merged for it.
    fn is_fast_and_queues(&self) -> bool {
        !self.driver.rotational && self.driver.queues != Some(false)
    }

    fn in_service(&self) -> Option<QueueId> {
        self.service.in_service()
    }

    /// Frees an empty queue to which no process can send requests, and whose history has no further effect.
    fn free_if_unused(&mut self, id: QueueId) {
        let queue = &self.queues[id];
        let unused = queue.processes == 0 && queue.allocated == 0 && queue.awaited_by == 0;
        if unused && self.queues.is_in_use(id) && !self.service.is_somewhere(id) {
            self.unposition(id);
            self.service.uncount_weight(id);
            self.queues.free(id);
        }
    }

    fn free_released(&mut self) {
        while let Some(id) = self.service.next_released() {
            self.free_if_unused(id);
        }
    }
}

/// Whether `since` plus `time` has passed; `None` was long ago.
fn passed(now: Time, since: Option<Time>, time: Span) -> bool {
    since.is_none_or(|since| since + time < now)
}

impl Scheduler for Bfq {
    fn insert(&mut self, now: Time, request: &Request) {
        self.advance(now);
        self.arrive(now, request);
        self.free_released();
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        self.advance(now);
        self.grow(now, request, growth);
        self.free_released();
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        self.advance(now);
        let decision = self.decide(now, view);
        self.free_released();
        decision
    }

    fn completed(&mut self, now: Time, request: &Request, _outcome: Outcome) {
        self.advance(now);
        self.complete(now, request.id);
        self.free_released();
    }

    fn exited(&mut self, now: Time, process: Process) {
        self.advance(now);
        self.end_process(now, process);
        self.free_released();
    }

    fn may_queue(
        &self,
        _now: Time,
        process: Option<Process>,
        _direction: Direction,
        sync: bool,
    ) -> Admission {
        self.leave(process, sync)
    }

    /// Only requests of one queue may merge, except at the back of a request, where a submission of any queue may join. The source rejects the
    /// latter as a bio merge, but merges the request at its insertion, independent of the queue.
    fn may_merge(&self, request: &Request, addition: &Request, side: Side) -> bool {
        let queue = if self.is_queued(addition.id) {
            Some(self.requests[addition.id].queue)
        } else if side == Side::Back {
            return true;
        } else {
            let context = self.contexts.find(addition.process);
            context.and_then(|context| self.queue_of(context, addition.is_sync()))
        };
        queue == Some(self.requests[request.id].queue)
    }
}

impl Capabilities for Bfq {
    tuned_by_itself!();
}

impl Tuning for Bfq {
    fn table(&self) -> &[Tunable] {
        Tunables::TABLE
    }

    fn value(&self, name: &str) -> Option<Value> {
        self.tunables.get(name)
    }

    fn set_value(&mut self, name: &str, value: Value) -> Result<(), TuneError> {
        let before = self.tunables;
        self.tunables.set(name, value)?;
        if before.low_latency && !self.tunables.low_latency {
            self.end_all_raising();
        }
        if !before.strict_guarantees && self.tunables.strict_guarantees {
            self.tunables.slice_idle = self.tunables.slice_idle.max(Tunables::default().slice_idle);
        }
        self.max_budget = match self.tunables.max_budget {
            0 if (before.max_budget, before.timeout_sync) == (0, self.tunables.timeout_sync) => {
                self.max_budget
            }
            0 => self.rate.sectors_in(self.slot()),
            fixed => fixed,
        };
        Ok(())
    }
}

/// A request's name for which there is no request.
const NO_REQUEST: RequestId = RequestId(u32::MAX);
