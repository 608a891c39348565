//! A queue's requests: in sector order, in order of age, and which of them is next.

use elevator::{Growth, Request, RequestId, Sector, Time};

use super::queue::{ContextId, QueueId};
use super::service::{Slot, Start};
use super::{Bfq, NO_REQUEST};
use crate::parts::sorted::Key;

/// The charge for requests of a queue that is neither synchronous nor raised, as a multiple of their size, so that they do
/// not take throughput from queues for which a process waits.
const ASYNC_CHARGE: u64 = 3;

/// The state of a request.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// Its serial number, which distinguishes it from earlier requests with its id.
    serial: u64,
    pub(super) queue: QueueId,
    pub(super) context: ContextId,
    start: Sector,
    pub(super) sectors: u64,
    /// When it is due.
    due: Time,
    pub(super) sync: bool,
    meta: bool,
    /// It is queued.
    pub(super) queued: bool,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            serial: 0,
            queue: QueueId(u32::MAX),
            context: ContextId::default(),
            start: Sector(0),
            sectors: 0,
            due: Time::ZERO,
            sync: false,
            meta: false,
            queued: false,
        }
    }
}

impl Entry {
    fn key(&self) -> Key {
        Key::at(self.start, self.serial)
    }
}

impl Bfq {
    pub(super) fn is_queued(&self, id: RequestId) -> bool {
        self.requests.get(id).is_some_and(|entry| entry.queued)
    }

    pub(super) fn remember(&mut self, now: Time, request: &Request, queue: QueueId, context: ContextId) {
        let sync = request.is_sync();
        let expire = if sync { self.tunables.fifo_expire_sync } else { self.tunables.fifo_expire_async };
        let entry = Entry {
            serial: request.serial,
            queue,
            context,
            start: request.start,
            sectors: u64::from(request.sectors.0),
            due: now + expire,
            sync,
            meta: request.flags.meta,
            queued: true,
        };
        self.requests.set(request.id, entry);
    }

    /// Inserts a request among its queue's others; returns whether it is the next one now.
    pub(super) fn add_to_backlog(&mut self, id: RequestId) -> bool {
        let entry = self.requests[id];
        let queue = &mut self.queues[entry.queue];
        queue.sorted.insert_key(entry.key(), id);
        self.links.push_back(&mut queue.fifo, id);
        self.queued += 1;
        let before = queue.next;
        let next = self.nearer(before, Some(id), self.driver.position);
        self.set_next(entry.queue, next);
        next != before
    }

    fn set_next(&mut self, queue: QueueId, next: Option<RequestId>) {
        self.queues[queue].next = next;
        self.queues[queue].next_expired = false;
    }

    /// Takes a request out of its queue.
    pub(super) fn remove_from_backlog(&mut self, now: Time, id: RequestId) {
        let entry = self.requests[id];
        let queue = entry.queue;
        if self.queues[queue].next == Some(id) {
            self.advance_next(now, queue, id);
            self.updated_next(now, queue);
        }
        let state = &mut self.queues[queue];
        self.links.remove(&mut state.fifo, id);
        state.sorted.remove_key(entry.key());
        self.requests[id].queued = false;
        self.queued -= 1;
        if self.queues[queue].is_empty() {
            self.emptied(now, queue);
        } else {
            self.reposition(now, queue);
        }
    }

    /// The queue has no more requests. Out of service, there is nothing to wait for.
    fn emptied(&mut self, now: Time, queue: QueueId) {
        self.unposition(queue);
        if self.service.get(queue).busy && self.in_service() != Some(queue) {
            self.not_busy(now, queue, Slot::Unchanged);
            let entity = self.service.get_mut(queue);
            entity.budget = 0;
            entity.service = 0;
        }
    }

    /// Sets the successor of `last`, a request of the queue: the oldest if it is due, else the nearest.
    fn advance_next(&mut self, now: Time, queue: QueueId, last: RequestId) {
        let due = self.due(now, queue, last);
        let next = due.or_else(|| self.nearest(queue, last));
        self.set_next(queue, next);
        self.queues[queue].next_expired = due.is_some();
    }

    fn nearest(&self, queue: QueueId, last: RequestId) -> Option<RequestId> {
        let entry = self.requests[last];
        let sorted = &self.queues[queue].sorted;
        let [before, behind] = sorted.neighbours(entry.key());
        let behind = behind.or_else(|| sorted.first().filter(|&first| first != last));
        self.nearer(behind, before, entry.start)
    }

    /// The queue's oldest request, if it is due; checked once per slot.
    fn due(&mut self, now: Time, queue: QueueId, last: RequestId) -> Option<RequestId> {
        let state = &mut self.queues[queue];
        if core::mem::replace(&mut state.fifo_checked, true) {
            return None;
        }
        state.fifo.front().filter(|&oldest| oldest != last && self.requests[oldest].due <= now)
    }

    /// The better of two requests for a head at `from`: synchronous, metadata, nearer; of two equally near, the one ahead; of
    /// two too far behind, the farther one.
    fn nearer(&self, one: Option<RequestId>, other: Option<RequestId>, from: Sector) -> Option<RequestId> {
        let (Some(a), Some(b)) = (one, other) else { return one.or(other) };
        let (first, second) = (&self.requests[a], &self.requests[b]);
        if first.sync != second.sync {
            return Some(if first.sync { a } else { b });
        }
        if first.meta != second.meta {
            return Some(if first.meta { a } else { b });
        }
        let first_wins = match (self.distance(first.start, from), self.distance(second.start, from)) {
            (Some(first_far), Some(second_far)) if first_far != second_far => first_far < second_far,
            (Some(_), Some(_)) => first.start >= second.start,
            (None, None) => first.start <= second.start,
            (first_far, _) => first_far.is_some(),
        };
        Some(if first_wins { a } else { b })
    }

    /// The distance from `from` to `to`, where backward counts more; `None` if it is too far back.
    fn distance(&self, to: Sector, from: Sector) -> Option<u64> {
        let far = to.distance(from);
        match to >= from {
            true => Some(far),
            false if far <= self.tunables.back_seek_max => Some(far * self.tunables.back_seek_penalty),
            false => None,
        }
    }

    /// The charge for a request.
    pub(super) fn charge(&self, id: RequestId) -> u64 {
        let entry = &self.requests[id];
        let raised = self.service.get(entry.queue).raising > 1;
        if self.queues[entry.queue].sync || raised || self.service.is_asymmetric(Some(entry.queue)) {
            entry.sectors
        } else {
            entry.sectors * ASYNC_CHARGE
        }
    }

    /// Whether the queue's next request fits into what is left of its budget.
    pub(super) fn fits(&self, queue: QueueId) -> bool {
        let next = self.queues[queue].next;
        next.is_some_and(|next| self.charge(next) as i64 <= self.service.get(queue).budget_left())
    }

    /// The next request changed: the budget must suffice at least for it, or the queue would have to be selected twice. The
    /// budget of the queue in service does not change.
    pub(super) fn updated_next(&mut self, now: Time, queue: QueueId) {
        let Some(next) = self.queues[queue].next else { return };
        if self.in_service() == Some(queue) {
            return;
        }
        let entity = self.service.get(queue);
        let budget = self.queues[queue].max_budget.max(self.charge(next)).max(entity.service);
        if entity.budget != budget {
            self.service.get_mut(queue).budget = budget;
            self.service.activate_or_requeue(queue, Start::AtVirtualTime, Slot::Unchanged, now);
        }
    }

    /// A queued request grew.
    pub(super) fn grow(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        let queue = self.requests[request.id].queue;
        self.requests[request.id].sectors = u64::from(request.sectors.0);
        if let Some(absorbed) = growth.absorbed {
            self.swallow(now, request.id, absorbed.id);
        }
        if growth.was_start != request.start {
            self.grew_forward(now, request, queue);
        }
    }

    /// Its first sector changed. It is compared with the next request only if it passed the request before it, as in the
    /// source.
    fn grew_forward(&mut self, now: Time, request: &Request, queue: QueueId) {
        let old_key = self.requests[request.id].key();
        self.requests[request.id].start = request.start;
        let state = &mut self.queues[queue];
        let [before, _] = state.sorted.neighbours(old_key);
        state.sorted.remove_key(old_key);
        state.sorted.insert_key(Key::of(request), request.id);
        if before.is_some_and(|before| request.start < self.requests[before].start) {
            self.compare_with_next(now, queue, request.id);
        }
        self.reposition(now, queue);
    }

    fn compare_with_next(&mut self, now: Time, queue: QueueId, id: RequestId) {
        let before = self.queues[queue].next;
        let next = self.nearer(before, Some(id), self.driver.position);
        if next != before {
            self.set_next(queue, next);
            self.updated_next(now, queue);
        }
    }

    /// A queued request absorbed another one, possibly of another queue. Within one queue it takes over the other's age.
    fn swallow(&mut self, now: Time, id: RequestId, other: RequestId) {
        let (entry, absorbed) = (self.requests[id], self.requests[other]);
        if entry.queue == absorbed.queue && absorbed.due < entry.due {
            let fifo = &mut self.queues[entry.queue].fifo;
            self.links.remove(fifo, id);
            self.links.replace(fifo, other, id);
            self.links.push_back(fifo, other);
            self.requests[id].due = absorbed.due;
        }
        if self.queues[entry.queue].next == Some(other) {
            self.set_next(entry.queue, Some(id));
        }
        self.remove_from_backlog(now, other);
        self.request_ended(other);
    }

    /// A request ended: merged into another, or completed.
    pub(super) fn request_ended(&mut self, id: RequestId) {
        let Entry { queue, context, sync, .. } = self.requests[id];
        self.requests[id].queue = QueueId(NO_REQUEST.0);
        self.allocated -= 1;
        self.allocated_async -= u32::from(!sync);
        self.queues[queue].allocated -= 1;
        self.contexts.request_ended(context);
        self.free_if_unused(queue);
    }

    /// Whether this scheduler dispatched `id` and it has not completed.
    pub(super) fn is_known(&self, id: RequestId) -> bool {
        self.requests.get(id).is_some_and(|entry| entry.queue != QueueId(NO_REQUEST.0))
    }

    pub(super) fn start_of(&self, id: RequestId) -> Sector {
        self.requests[id].start
    }

    pub(super) fn key_of(&self, id: RequestId) -> Key {
        self.requests[id].key()
    }
}
