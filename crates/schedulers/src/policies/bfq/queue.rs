//! Queues: the requests of one process (or of several that cooperate), and the measurements of its behaviour.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use elevator::{RequestId, Sector, Span, Time};

use crate::parts::fifo::Fifo;
use crate::parts::sorted::SortedIndex;

/// The id of a context: its index in the slab of [`contexts`](super::contexts).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ContextId(pub(super) u32);

/// A queue's id: its index in the slab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct QueueId(pub(super) u32);

impl QueueId {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A reference to a queue that may have been freed; see [`Queues::resolve`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Handle {
    id: QueueId,
    generation: u32,
}

/// Mean think time of a process, from its last completion to its next request: a decaying average in 256ths.
#[derive(Clone, Copy, Default)]
pub(super) struct ThinkTime {
    samples: u64,
    total: u64,
    mean: Span,
}

impl ThinkTime {
    pub(super) fn add(&mut self, thought: Span) {
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * thought.as_nanos()) / 8;
        self.mean = Span::from_nanos((self.total + 128) / self.samples);
    }

    /// Whether the mean of at least three samples is longer than `limit`.
    pub(super) fn is_longer_than(&self, limit: Span) -> bool {
        self.samples > 80 && self.mean > limit
    }
}

/// The reason why a queue's weight is raised.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Raised {
    #[default]
    No,
    /// It has begun to read recently: an application starts.
    Interactive,
    /// It issues few requests at regular intervals: a media player.
    SoftRealTime,
}

/// The state of raising a queue's weight; the factor itself is with the entity.
#[derive(Clone, Copy, Default)]
pub(super) struct Raising {
    pub(super) why: Raised,
    /// Maximum duration of the period.
    pub(super) lasts: Span,
    /// When the present period began, or the latest one ended, or (not raised) the latest request arrived.
    pub(super) since: Time,
    /// The beginning of the interactive period that a soft real-time period interrupted.
    pub(super) interactive_since: Option<Time>,
    /// Sectors served since it began.
    pub(super) service: u64,
}

/// The limit of injected requests while the queue is in service and empty.
#[derive(Clone, Copy, Default)]
pub(super) struct Injection {
    /// The number of requests in the device up to which another one is injected.
    pub(super) limit: u32,
    /// Service time of its requests without injection.
    pub(super) alone: Option<Span>,
    /// When the limit was last lowered or reset.
    pub(super) lowered: Time,
}

/// One queue.
pub(super) struct Queue {
    generation: u32,
    in_use: bool,

    // Users.
    /// Its process's context; `None` once several share it.
    pub(super) owner: Option<ContextId>,
    pub(super) sync: bool,
    pub(super) level: u8,
    /// Processes that use the queue, including those that an arranged merge redirects here.
    pub(super) processes: u32,
    /// Requests queued or dispatched.
    pub(super) allocated: u32,
    /// Contexts with a deferred permanent merge into this queue.
    pub(super) awaited_by: u32,
    /// The queue to which the next requests of its processes go.
    pub(super) merges_into: Option<QueueId>,
    pub(super) created: Time,

    // Backlog.
    pub(super) sorted: SortedIndex,
    pub(super) fifo: Fifo,
    pub(super) next: Option<RequestId>,
    /// The next request was chosen because it had expired.
    pub(super) next_expired: bool,
    pub(super) dispatched: u32,
    /// Its entry in the index of positions: the key and id of its next request at insertion.
    pub(super) positioned: Option<(crate::parts::sorted::Key, RequestId)>,

    // Flags.
    pub(super) just_created: bool,
    /// The device is idle, waiting for its next request.
    pub(super) waits: bool,
    /// The awaited request has arrived.
    pub(super) anticipated: bool,
    /// It ran empty, and the device did not wait for it.
    pub(super) waits_unattended: bool,
    /// The expiry of the oldest request was checked in this slot.
    pub(super) fifo_checked: bool,
    pub(super) thinks_briefly: bool,
    /// It keeps the device busy for most of its time in service.
    pub(super) io_bound: bool,
    pub(super) in_large_burst: bool,
    pub(super) in_burst_list: bool,
    pub(super) soft_rt_pending: bool,
    /// Several processes share it.
    pub(super) shared: bool,
    /// They do not cooperate any more.
    pub(super) to_split: bool,

    // Budget.
    /// Its next budget, in sectors.
    pub(super) max_budget: u64,
    /// The latest end of its slot. For an empty queue out of service: the end of its last slot. `None`: not in service so far.
    pub(super) budget_timeout: Option<Time>,

    // Behaviour.
    pub(super) think: ThinkTime,
    pub(super) last_completion: Time,
    /// One bit per request, 1 if it was a seek.
    pub(super) seeks: u32,
    pub(super) last_end: Sector,
    pub(super) io_start: Time,
    pub(super) idle_total: u64,
    pub(super) first_io: Time,
    /// When it last turned from empty to busy, and the sectors served since.
    pub(super) backlogged: Time,
    pub(super) service_since_backlogged: u64,

    // Weight raising.
    pub(super) raising: Raising,
    /// The time from which a request counts as soft real-time.
    pub(super) soft_rt_next: Time,
    /// When it was last split from others.
    pub(super) split: Option<Time>,

    // Injection.
    pub(super) injection: Injection,
    /// The queue whose completions wake this one's process.
    pub(super) waker: Option<Handle>,
    pub(super) tentative_waker: Option<Handle>,
    pub(super) waker_detections: u32,
    pub(super) waker_since: Time,
    /// The latest queue that this one wakes.
    pub(super) woken: Option<Handle>,
}

impl Queue {
    fn new(now: Time, sync: bool, generation: u32, sorted: SortedIndex) -> Self {
        Self {
            generation,
            in_use: true,
            owner: None,
            sync,
            level: 4,
            processes: 1,
            allocated: 0,
            awaited_by: 0,
            merges_into: None,
            created: now,
            sorted,
            fifo: Fifo::new(),
            next: None,
            next_expired: false,
            dispatched: 0,
            positioned: None,
            just_created: sync,
            waits: false,
            anticipated: false,
            waits_unattended: false,
            fifo_checked: false,
            thinks_briefly: sync,
            io_bound: true,
            in_large_burst: false,
            in_burst_list: false,
            soft_rt_pending: false,
            shared: false,
            to_split: false,
            max_budget: 0,
            budget_timeout: None,
            think: ThinkTime::default(),
            last_completion: now + Span::from_nanos(1),
            // The first request has no predecessor, and is almost certainly a seek.
            seeks: 1,
            last_end: Sector(0),
            io_start: now,
            idle_total: 0,
            first_io: Time::ZERO,
            backlogged: Time::ZERO,
            service_since_backlogged: 0,
            raising: Raising { since: now, ..Raising::default() },
            soft_rt_next: now,
            split: None,
            injection: Injection { lowered: now, ..Injection::default() },
            waker: None,
            tentative_waker: None,
            waker_detections: 0,
            waker_since: Time::ZERO,
            woken: None,
        }
    }

    /// Nanoseconds since its last completion, at least 1. Before the first completion: the maximum, as in the source. Its "minus infinity" is a
    /// nanosecond ahead of the clock, which stands still while a task gathers requests (since 6.9), and the difference
    /// wraps around. For a task that gathers no requests the clock advances.
    pub(super) fn idle_for(&self, now: Time) -> u64 {
        if now < self.last_completion { u64::MAX } else { now.since(self.last_completion).as_nanos().max(1) }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.next.is_none()
    }

    /// More than 19 of its latest 32 requests were seeks.
    pub(super) const fn is_seeky(&self) -> bool {
        self.seeks.count_ones() > 19
    }

    pub(super) const fn is_totally_seeky(&self) -> bool {
        self.seeks == u32::MAX
    }
}

/// Every queue.
#[derive(Default)]
pub(super) struct Queues {
    slots: Vec<Queue>,
    free: Vec<QueueId>,
}

impl Queues {
    /// Adds a queue; reuses the memory of a freed one.
    pub(super) fn add(&mut self, now: Time, sync: bool) -> QueueId {
        match self.free.pop() {
            Some(id) => {
                let slot = &mut self.slots[id.index()];
                let sorted = core::mem::take(&mut slot.sorted);
                *slot = Queue::new(now, sync, slot.generation + 1, sorted);
                id
            }
            None => {
                self.slots.push(Queue::new(now, sync, 0, SortedIndex::new()));
                QueueId(self.slots.len() as u32 - 1)
            }
        }
    }

    pub(super) fn free(&mut self, id: QueueId) {
        let slot = &mut self.slots[id.index()];
        debug_assert!(slot.in_use && slot.sorted.is_empty());
        slot.in_use = false;
        slot.generation += 1;
        self.free.push(id);
    }

    pub(super) fn is_in_use(&self, id: QueueId) -> bool {
        self[id].in_use
    }

    pub(super) fn handle(&self, id: QueueId) -> Handle {
        Handle { id, generation: self[id].generation }
    }

    /// The queue of a handle, if it was not freed.
    pub(super) fn resolve(&self, handle: Option<Handle>) -> Option<QueueId> {
        handle.filter(|handle| self[handle.id].generation == handle.generation).map(|handle| handle.id)
    }

    /// All queues in use.
    pub(super) fn ids(&self) -> impl Iterator<Item = QueueId> + use<> {
        (0..self.slots.len() as u32).map(QueueId)
    }
}

impl Index<QueueId> for Queues {
    type Output = Queue;

    fn index(&self, id: QueueId) -> &Queue {
        &self.slots[id.index()]
    }
}

impl IndexMut<QueueId> for Queues {
    fn index_mut(&mut self, id: QueueId) -> &mut Queue {
        &mut self.slots[id.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn think_times_count_from_the_third_on_and_decay() {
        let mut think = ThinkTime::default();
        let limit = Span::from_millis(4);
        let mut is_longer = |ms| {
            think.add(Span::from_millis(ms));
            think.is_longer_than(limit)
        };
        assert_eq!([9, 9, 9].map(&mut is_longer), [false, false, true]);
        // The mean of five falls below 4 ms with the third short one.
        assert_eq!([0, 0, 0, 0].map(is_longer), [true, true, false, false]);
    }

    #[test]
    fn a_queue_is_seeky_if_more_than_19_of_32_requests_were_seeks() {
        let mut queue = Queue::new(Time::ZERO, true, 0, SortedIndex::new());
        for (seeks, is_seeky) in [(19, false), (20, true), (32, true)] {
            queue.seeks = u32::MAX >> (32 - seeks);
            assert_eq!((queue.is_seeky(), queue.is_totally_seeky()), (is_seeky, seeks == 32), "{seeks}");
        }
    }
}
