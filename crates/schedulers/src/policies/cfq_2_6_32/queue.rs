//! A queue: the requests that are served in one slice (`cfq_queue`).

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use elevator::{Priority, PriorityClass, RequestId, Sector};

use crate::parts::averages::SeekDistance;
use crate::parts::fifo::Fifo;
use crate::parts::jiffies::Jiffies;
use crate::parts::sorted::SortedIndex;

/// The index of a queue in the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct QueueId(pub(super) u32);

/// The order of turns: real-time queues first, idle ones last, then by key, then first come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Turn {
    pub(super) class: PriorityClass,
    /// In ticks; `rb_key`.
    pub(super) key: i64,
    /// The order of arrival among queues with one key.
    pub(super) number: u64,
}

/// The mean seek from which a queue is seeky, and the distance that is close while little is known: 4 MiB.
pub(super) const SEEK_THRESHOLD: u64 = 8 * 1024;

/// The lowest level of priority.
const LOWEST: u8 = 7;

/// The state of a slice.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slice {
    /// Its end, once it has begun (`slice_end`).
    pub(super) end: Jiffies,
    /// None of its requests has completed, so it has not begun (`slice_new`).
    pub(super) is_new: bool,
    /// The rest of the last slice, or its overrun (`slice_resid`).
    pub(super) residual: i64,
    /// Requests dispatched in it (`slice_dispatch`).
    pub(super) dispatched: u64,
    /// The device idles for the queue's next request (`wait_request`).
    pub(super) wait_request: bool,
    /// That request has arrived and must be dispatched before the slice ends (`must_dispatch`).
    pub(super) must_dispatch: bool,
    /// Its process was admitted beyond the limit (`must_alloc_slice`).
    pub(super) must_alloc: bool,
    /// Whether the oldest request has been checked (`fifo_expire`).
    pub(super) fifo_checked: bool,
}

/// The synchronous requests of one process or of several that cooperate, or all asynchronous requests of a priority.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) is_sync: bool,
    pub(super) priority: Priority,
    pub(super) sorted: SortedIndex,
    pub(super) fifo: Fifo,
    /// The best request known (`next_rq`).
    pub(super) next: Option<RequestId>,
    /// Requests in the device.
    pub(super) dispatched: u64,
    /// Queued metadata requests (`meta_pending`).
    pub(super) meta_pending: u32,
    /// The processes that use it, or will after a merge (`cfqq_process_refs`).
    pub(super) process_refs: u32,
    /// Its turn, while it has requests (`on_rr`).
    pub(super) turn: Option<Turn>,
    /// The position of its next request, if it is in the order by position.
    pub(super) position: Option<Sector>,
    pub(super) slice: Slice,
    /// Whether to idle for it at all (`idle_window`).
    pub(super) idle_window: bool,
    /// Several processes share it (`coop`).
    pub(super) is_shared: bool,
    pub(super) seek: SeekDistance,
    pub(super) last_request_pos: Sector,
    /// Since when it has been seeky while shared.
    pub(super) seeky_start: Option<Jiffies>,
    /// The queue that its processes will use (`new_cfqq`).
    pub(super) merges_into: Option<QueueId>,
}

impl Queue {
    pub(super) fn is_idle_class(&self) -> bool {
        self.priority.class == PriorityClass::Idle
    }

    pub(super) fn is_real_time(&self) -> bool {
        self.priority.class == PriorityClass::RealTime
    }

    pub(super) const fn is_seeky(&self) -> bool {
        self.seek.mean() > SEEK_THRESHOLD
    }

    /// The greatest distance of an expected next request.
    pub(super) const fn expected_seek(&self) -> u64 {
        if self.seek.is_valid() { self.seek.mean() } else { SEEK_THRESHOLD }
    }

    /// Idle queues have the lowest level and are never idled for.
    pub(super) fn set_priority(&mut self, priority: Priority) {
        self.priority = Priority { level: priority.level.min(LOWEST), ..priority };
        if self.is_idle_class() {
            self.priority.level = LOWEST;
            self.idle_window = false;
        }
    }

    /// Whether its slice has begun and is over.
    pub(super) const fn slice_used(&self, now: Jiffies) -> bool {
        !self.slice.is_new && now >= self.slice.end
    }

    /// Whether it has no users.
    pub(super) fn is_unused(&self) -> bool {
        self.process_refs == 0 && self.sorted.is_empty() && self.dispatched == 0
    }
}

/// All queues.
#[derive(Default)]
pub(super) struct Queues {
    queues: Vec<Queue>,
    free: Vec<QueueId>,
}

impl Queues {
    /// A queue for one process, or for all asynchronous requests of a priority.
    pub(super) fn make(&mut self, is_sync: bool, priority: Priority) -> QueueId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.queues.push(Queue::default());
            QueueId(self.queues.len() as u32 - 1)
        });
        let queue = &mut self[id];
        queue.is_sync = is_sync;
        queue.idle_window = is_sync;
        queue.process_refs = 1;
        queue.set_priority(priority);
        id
    }

    /// The highest number of queues at once.
    #[cfg(test)]
    pub(super) fn made(&self) -> usize {
        self.queues.len()
    }

    /// The number of shared queues.
    #[cfg(test)]
    pub(super) fn shared(&self) -> usize {
        self.queues.iter().filter(|queue| queue.is_shared).count()
    }

    /// Frees a queue that is unused.
    pub(super) fn free(&mut self, id: QueueId) {
        let sorted = core::mem::take(&mut self[id].sorted); // empty, but with memory
        self[id] = Queue { sorted, ..Queue::default() };
        self.free.push(id);
    }
}

impl Index<QueueId> for Queues {
    type Output = Queue;

    fn index(&self, id: QueueId) -> &Queue {
        &self.queues[id.0 as usize]
    }
}

impl IndexMut<QueueId> for Queues {
    fn index_mut(&mut self, id: QueueId) -> &mut Queue {
        &mut self.queues[id.0 as usize]
    }
}
