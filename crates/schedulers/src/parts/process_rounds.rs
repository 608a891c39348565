//! Rounds over the processes' queues, as in the first two versions of CFQ.
//!
//! Each process has a queue in sector order. When the dispatch list is empty, it is filled in rounds. Each round
//! takes the lowest request of every queue, until the list has `quantum` requests; then the list is sorted by sector.
//!
//! One sorted index contains all queues in sequence, so that memory depends only on the number of requests, not on
//! their distribution over processes.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use elevator::{Decision, Growth, Reason, Request, RequestId, Sector, View};
use hashbrown::HashMap;

use crate::parts::per_request::PerRequest;
use crate::parts::sorted::{Key, SortedIndex};

/// The state of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Place {
    /// In the dispatch list; it must not grow.
    #[default]
    Dispatch,
    /// In the process queue of that index.
    Queue(u32),
}

/// Bits of an index key for the sector (8 PiB; beyond, a queue's order is only approximately that of sectors). The other bits are
/// the queue.
const SECTOR_BITS: u32 = 44;

/// The key of a queue's request that begins at `start`.
const fn place(queue: u32, start: Sector) -> Sector {
    Sector((queue as u64) << SECTOR_BITS | start.0 & ((1 << SECTOR_BITS) - 1))
}

/// One process's requests.
#[derive(Clone, Copy, Default)]
struct ProcessQueue {
    key: Option<u32>,
    /// Asynchronous and synchronous requests.
    queued: [u32; 2],
}

/// All processes' requests, and the dispatch list.
#[derive(Default)]
pub(crate) struct ProcessRounds {
    /// Requests by queue, then by sector.
    sorted: SortedIndex,
    queues: Vec<ProcessQueue>,
    free: Vec<u32>,
    by_key: HashMap<Option<u32>, u32>,
    /// Queues with requests, the head of the list last: a process that becomes active is served first.
    rr_list: Vec<u32>,
    dispatch: VecDeque<RequestId>,
    places: PerRequest<Place>,
}

impl ProcessRounds {
    /// A request of the process with that key; all requests of unknown processes have one queue.
    pub(crate) fn insert(&mut self, key: Option<u32>, request: &Request) {
        let index = self.queue_of(key);
        self.sorted.insert(&Request { start: place(index, request.start), ..*request });
        self.queues[index as usize].queued[usize::from(request.is_sync())] += 1;
        self.places.set(request.id, Place::Queue(index));
    }

    fn queue_of(&mut self, key: Option<u32>) -> u32 {
        if let Some(&index) = self.by_key.get(&key) {
            return index;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.queues.push(ProcessQueue::default());
            self.queues.len() as u32 - 1
        });
        self.queues[index as usize] = ProcessQueue { key, queued: [0; 2] };
        self.by_key.insert(key, index);
        self.rr_list.push(index);
        index
    }

    /// A request grew, possibly by absorbing another.
    pub(crate) fn merged(&mut self, request: &Request, growth: &Growth<'_>) {
        if let (Place::Queue(index), true) = (self.places[request.id], growth.was_start != request.start) {
            self.sorted.remove_key(Key::at(place(index, growth.was_start), request.serial));
            self.sorted.insert(&Request { start: place(index, request.start), ..*request });
        }
        if let Some(absorbed) = growth.absorbed
            && let Place::Queue(index) = self.places[absorbed.id]
        {
            self.take(index, absorbed);
        }
    }

    fn take(&mut self, index: u32, request: &Request) {
        self.sorted.remove_key(Key::at(place(index, request.start), request.serial));
        self.queues[index as usize].queued[usize::from(request.is_sync())] -= 1;
    }

    /// Removes queues without requests from the list.
    fn drop_empty(&mut self) {
        let Self { queues, free, by_key, rr_list, .. } = self;
        rr_list.retain(|&index| {
            let queue = &queues[index as usize];
            let busy = queue.queued != [0; 2];
            if !busy {
                by_key.remove(&queue.key);
                free.push(index);
            }
            busy
        });
    }

    /// The next request to dispatch. If the dispatch list is empty, rounds are made until it has `quantum` requests or none
    /// is left.
    pub(crate) fn next(&mut self, quantum: u64, view: &View<'_>) -> Decision {
        if self.dispatch.is_empty() {
            while (self.dispatch.len() as u64) < quantum && !self.rr_list.is_empty() {
                self.round(view);
            }
            let order = |id: &RequestId| Key::of(&view.requests[*id]);
            self.dispatch.make_contiguous().sort_unstable_by_key(order);
        }
        match self.dispatch.pop_front() {
            Some(id) => Decision::Dispatch { id, reason: Reason::RoundRobin },
            None => Decision::Idle,
        }
    }

    /// Moves the lowest request of every queue to the dispatch list.
    fn round(&mut self, view: &View<'_>) {
        for n in (0..self.rr_list.len()).rev() {
            let index = self.rr_list[n];
            if let Some(id) = self.sorted.at_or_after(place(index, Sector(0))) {
                self.take(index, &view.requests[id]);
                self.places[id] = Place::Dispatch;
                self.dispatch.push_back(id);
            }
        }
        self.drop_empty();
    }

    /// Whether a queued request may grow by a submission or by another queued request, which must be of the same process and
    /// not in the dispatch list.
    pub(crate) fn may_grow(&self, request: &Request, addition: &Request) -> bool {
        let place = self.places[request.id];
        place != Place::Dispatch && self.places.get(addition.id).is_none_or(|&other| other == place)
    }

    /// Whether a queued request belongs to the process with that key.
    pub(crate) fn is_of(&self, request: &Request, key: Option<u32>) -> bool {
        matches!(self.places[request.id], Place::Queue(index) if self.queues[index as usize].key == key)
    }

    /// The number of processes with requests.
    pub(crate) fn busy_queues(&self) -> u64 {
        self.rr_list.len() as u64
    }

    /// The number of asynchronous or synchronous requests that a process has queued, if it has any.
    pub(crate) fn queued(&self, key: Option<u32>, sync: bool) -> Option<u32> {
        let index = *self.by_key.get(&key)?;
        Some(self.queues[index as usize].queued[usize::from(sync)])
    }
}
