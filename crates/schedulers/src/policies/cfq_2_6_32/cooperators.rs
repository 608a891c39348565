//! Queues that cooperate closely are merged, and split when they no longer do.

use super::Cfq2_6_32;
use super::queue::QueueId;
use super::slices::level;
use crate::parts::jiffies::Jiffies;
use crate::parts::processes::Slot;

impl Cfq2_6_32 {
    /// Another queue of the same level whose next request is as near as the owner's own would be; both synchronous, neither
    /// seeky (`cfq_close_cooperator`).
    pub(super) fn close_cooperator(&self, owner: QueueId) -> Option<QueueId> {
        let queue = &self.queues[owner];
        if !queue.is_sync || queue.is_seeky() {
            return None;
        }
        let found = match self.positions[level(queue)].around(self.last_position) {
            Ok(exact) => Some(exact),
            Err(neighbours) => {
                neighbours.into_iter().flatten().find(|&id| self.is_close(id, queue.expected_seek()))
            }
        };
        found.filter(|&id| id != owner && self.queues[id].is_sync && !self.queues[id].is_seeky())
    }

    fn is_close(&self, id: QueueId, within: u64) -> bool {
        self.queues[id].position.is_some_and(|sector| self.last_position.distance(sector) <= within)
    }

    /// Two queues become one from their processes' next requests on: the one with fewer users merges into the other
    /// (`cfq_setup_merge`).
    pub(super) fn plan_merge(&mut self, id: QueueId, other: QueueId) {
        if self.queues[id].merges_into.is_some() || self.queues[other].process_refs == 0 {
            return;
        }
        let mut other = other;
        while let Some(next) = self.queues[other].merges_into {
            if next == id {
                return;
            }
            other = next;
        }
        let (refs, other_refs) = (self.queues[id].process_refs, self.queues[other].process_refs);
        if refs == 0 || other_refs == 0 {
            return;
        }
        let (from, into, moving) =
            if other_refs >= refs { (id, other, refs) } else { (other, id, other_refs) };
        self.queues[from].merges_into = Some(into);
        self.queues[into].process_refs += moving;
    }

    /// The queue for a context's synchronous requests: split, merged or created as needed (`cfq_set_request`).
    pub(super) fn sync_queue(&mut self, now: Jiffies, context: Slot) -> QueueId {
        let kept = self.contexts[context].queue.and_then(|id| self.split(now, context, id));
        let id = match kept {
            Some(id) => self.merge(now, context, id),
            None => self.queues.make(true, self.contexts[context].priority),
        };
        self.contexts[context].queue = Some(id);
        id
    }

    /// A shared queue that has been seeky for too long: this process leaves it, unless it is the last.
    fn split(&mut self, now: Jiffies, context: Slot, id: QueueId) -> Option<QueueId> {
        let queue = &mut self.queues[id];
        let too_long = queue.seeky_start.is_some_and(|start| now > start + self.timing.second);
        if !queue.is_shared || !too_long {
            return Some(id);
        }
        if queue.process_refs == 1 {
            queue.seeky_start = None;
            queue.is_shared = false;
            return Some(id);
        }
        self.contexts[context].queue = None;
        self.leave_planned(now, id);
        self.put(now, id);
        None
    }

    /// The queue that this process's queue merges into, if any.
    fn merge(&mut self, now: Jiffies, context: Slot, id: QueueId) -> QueueId {
        let Some(into) = self.queues[id].merges_into else { return id };
        self.contexts[context].queue = Some(into);
        self.queues[into].is_shared = true;
        self.put(now, id);
        into
    }

    /// A process stops using a queue.
    fn put(&mut self, now: Jiffies, id: QueueId) {
        self.queues[id].process_refs -= 1;
        self.release(now, id);
    }

    /// A process has ended: it leaves its queue, and those that it would have moved to (`cfq_exit_cfqq`).
    pub(super) fn leave(&mut self, now: Jiffies, id: QueueId) {
        if self.active == Some(id) {
            self.slice_expired(now, id, false);
        }
        self.leave_planned(now, id);
        self.put(now, id);
    }

    /// A process that leaves a queue will not move to the queues that it merges into. (After 2.6.32 the source does this for
    /// a split too; without it, queues are never freed.)
    fn leave_planned(&mut self, now: Jiffies, id: QueueId) {
        let mut planned = self.queues[id].merges_into;
        while let Some(next) = planned {
            planned = self.queues[next].merges_into;
            self.put(now, next);
        }
    }
}
