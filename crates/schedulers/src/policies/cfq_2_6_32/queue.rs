//! A queue: the requests that are served in one slice (`cfq_queue`).

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use elevator::{Priority, PriorityClass, RequestId, Sector};

use crate::parts::averages::SeekDistance;
use crate::parts::fifo::Fifo;
use crate::parts::jiffies::Jiffies;
use crate::parts::sorted::SortedIndex;

/// A queue's place in the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct QueueId(pub(super) u32);

/// When a queue's turn comes: real-time queues before all, idle ones after all, then by key, then first come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Turn {
    pub(super) class: PriorityClass,
    /// In ticks; `rb_key`.
    pub(super) key: i64,
    /// Of the queues with one key, which came first.
    pub(super) number: u64,
}

/// The mean seek beyond which a queue is seeky, and how close counts while little is known: 4 MiB.
pub(super) const SEEK_THRESHOLD: u64 = 8 * 1024;

/// The lowest level of priority.
const LOWEST: u8 = 7;

/// How a slice stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slice {
    /// When it is over, once it has begun (`slice_end`).
    pub(super) end: Jiffies,
    /// Nothing of it has completed, so it has not begun (`slice_new`).
    pub(super) is_new: bool,
    /// What was left of the last one, or how much it overran (`slice_resid`).
    pub(super) residual: i64,
    /// Requests sent in it (`slice_dispatch`).
    pub(super) dispatched: u64,
    /// The device idles for the queue's next request (`wait_request`).
    pub(super) wait_request: bool,
    /// That request has come and must not be lost to the slice's end (`must_dispatch`).
    pub(super) must_dispatch: bool,
    /// Its process was let past the limit (`must_alloc_slice`).
    pub(super) must_alloc: bool,
    /// Whether the oldest request has been looked at (`fifo_expire`).
    pub(super) fifo_checked: bool,
}

/// One process's synchronous requests, several processes' that work together, or everybody's asynchronous requests of a
/// priority.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) is_sync: bool,
    pub(super) priority: Priority,
    pub(super) sorted: SortedIndex,
    pub(super) fifo: Fifo,
    /// The best request, as far as was looked (`next_rq`).
    pub(super) next: Option<RequestId>,
    /// Requests in the device.
    pub(super) dispatched: u64,
    /// Queued metadata requests (`meta_pending`).
    pub(super) meta_pending: u32,
    /// Processes that use it, or will once their queue has merged into it (`cfqq_process_refs`).
    pub(super) process_refs: u32,
    /// Its turn, while it has requests (`on_rr`).
    pub(super) turn: Option<Turn>,
    /// Where its next request begins, if it is known there.
    pub(super) position: Option<Sector>,
    pub(super) slice: Slice,
    /// Whether to idle for it at all (`idle_window`).
    pub(super) idle_window: bool,
    /// Several processes share it (`coop`).
    pub(super) is_shared: bool,
    pub(super) seek: SeekDistance,
    pub(super) last_request_pos: Sector,
    /// Since when, while it is shared, it has been seeky.
    pub(super) seeky_start: Option<Jiffies>,
    /// The queue that its processes will go to (`new_cfqq`).
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

    /// How far its next request may be and still be one that was to be expected.
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

    /// Whether nobody and nothing needs it any more.
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
    /// A queue for one process, or for all with asynchronous requests of a priority.
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

    /// How many there ever were at once.
    #[cfg(test)]
    pub(super) fn made(&self) -> usize {
        self.queues.len()
    }

    /// How many are shared now.
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
