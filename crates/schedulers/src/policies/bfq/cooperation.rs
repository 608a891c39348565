//! Queues of processes that read the same region are merged, and split when they no longer do.
//!
//! A merge is a redirection: a process whose request lies close to another queue's sends its requests there from now on. It
//! happens only in the first 100 ms of a queue; later, closeness is mostly chance. Queues created within 180 ms of each other
//! with the same priority are assumed to belong to one task; after 600 ms they are merged permanently, unless idling for the
//! queue pays. (While a queue is raised it never does. Several sequential readers that start together at the default weight
//! therefore share one queue, and the head moves between them.)

use elevator::{PriorityClass, Request, Sector, Span, Time};

use super::contexts::Saved;
use super::queue::Raising;
use super::queue::{ContextId, QueueId};
use super::service::Slot;
use super::{Bfq, burst, passed};

/// How long after its first service a queue may be merged.
const MERGE_TIME: Span = Span::from_millis(100);
/// The greatest distance in sectors of close requests.
const CLOSE: u64 = 8 * 1024;
/// Queues created farther apart than this are never merged permanently.
const STABLE_TOGETHER: Span = Span::from_millis(600);
/// The age at which a queue is merged permanently.
const STABLE_AGE: Span = Span::from_millis(600);

impl Bfq {
    fn too_late_to_merge(&self, now: Time, id: QueueId) -> bool {
        let queue = &self.queues[id];
        queue.service_since_backlogged > 0 && queue.first_io + MERGE_TIME < now
    }

    /// Inserts the queue at its next request's position into the index of possible cooperators.
    pub(super) fn reposition(&mut self, now: Time, id: QueueId) {
        self.unposition(id);
        let idle_class = self.service.get(id).class == PriorityClass::Idle;
        let Some(next) = self.queues[id].next else { return };
        if self.is_fast_and_queues() || idle_class || self.too_late_to_merge(now, id) {
            return;
        }
        let start = self.start_of(next);
        let taken = self.positions.around(start)[1].is_some_and(|(at, _)| at == start);
        if !taken {
            let key = self.key_of(next);
            self.positions.insert_key(key, next);
            self.queues[id].positioned = Some((key, next));
        }
    }

    pub(super) fn unposition(&mut self, id: QueueId) {
        if let Some((key, _)) = self.queues[id].positioned.take() {
            self.positions.remove_key(key);
        }
    }

    /// The queue whose next request lies nearest to `sector`, if it is close.
    fn close_to(&self, sector: Sector) -> Option<QueueId> {
        let nearest =
            self.positions.around(sector).into_iter().flatten().min_by_key(|(at, _)| at.distance(sector));
        let (at, request) = nearest?;
        (at.distance(sector) <= CLOSE).then(|| self.requests[request].queue)
    }

    fn may_cooperate(&self, now: Time, id: QueueId, other: QueueId) -> bool {
        let class = self.service.get(id).class;
        let alike = class == self.service.get(other).class && class != PriorityClass::Idle;
        let suited = |id: QueueId| self.queues[id].sync && !self.queues[id].is_seeky();
        alike && suited(id) && suited(other) && !self.too_late_to_merge(now, other)
    }

    /// The queue for requests of this process that would go to `id`: the queue to merge with, if there is one.
    pub(super) fn find_cooperator(
        &mut self,
        now: Time,
        id: QueueId,
        request: &Request,
        context: ContextId,
    ) -> Option<QueueId> {
        if self.queues[id].merges_into.is_some() {
            return Some(self.end_of_chain(id));
        }
        if self.is_fast_and_queues() {
            return None;
        }
        if self.is_stable_merge_due(now, id, context) {
            return self.merge_stably(id, context);
        }
        if self.too_late_to_merge(now, id) || self.service.busy() == 1 {
            return None;
        }
        self.cooperator_in_service(now, id, request).and_then(|other| self.arrange_merge(id, other)).or_else(
            || {
                let other = self.close_to(request.start).filter(|&other| other != id)?;
                self.may_cooperate(now, id, other).then(|| self.arrange_merge(id, other))?
            },
        )
    }

    fn cooperator_in_service(&self, now: Time, id: QueueId, request: &Request) -> Option<QueueId> {
        let other = self.in_service().filter(|&other| other != id)?;
        let close = request.start.distance(self.driver.service_position) <= CLOSE;
        (close && self.may_cooperate(now, id, other)).then_some(other)
    }

    fn end_of_chain(&self, mut id: QueueId) -> QueueId {
        while let Some(next) = self.queues[id].merges_into {
            id = next;
        }
        id
    }

    /// Redirects the processes of `id` to `other`, or to that queue's own target, and counts them there.
    fn arrange_merge(&mut self, id: QueueId, other: QueueId) -> Option<QueueId> {
        if self.queues[other].processes == 0 {
            return None;
        }
        let into = self.end_of_chain(other);
        let moving = self.queues[id].processes;
        if into == id || moving == 0 || self.queues[into].processes == 0 {
            return None;
        }
        self.queues[id].merges_into = Some(into);
        self.queues[into].processes += moving;
        Some(into)
    }

    /// Moves a process from its queue `id` to the one that this is merged with.
    pub(super) fn merge(&mut self, now: Time, context: ContextId, id: QueueId, into: QueueId) {
        self.save_state(now, id);
        self.save_state(now, into);
        let io_bound = core::mem::take(&mut self.queues[id].io_bound);
        self.queues[into].io_bound |= io_bound;
        self.inherit_waker(id, into);
        self.inherit_raising(id, into);
        self.contexts[context].sync = Some(into);
        if self.contexts[context].stable_merge == Some(into) {
            self.forget_stable_merge(context);
        }
        self.queues[id].owner = None;
        let shared = &mut self.queues[into];
        shared.shared = true;
        shared.owner = None;
        if self.queues.resolve(self.last_created) == Some(id) {
            self.last_created = Some(self.queues.handle(into));
        }
        self.release(now, id);
    }

    fn inherit_waker(&mut self, id: QueueId, into: QueueId) {
        let waker = self.queues[id].waker;
        let has_one = self.queues.resolve(self.queues[into].waker).is_some();
        if let Some(by) = self.queues.resolve(waker).filter(|&by| by != into && !has_one) {
            self.set_waker(into, by);
        }
    }

    fn inherit_raising(&mut self, id: QueueId, into: QueueId) {
        let factor = self.service.get(id).raising;
        if factor == 1 {
            return;
        }
        if self.service.get(into).raising == 1 {
            let raising = self.queues[id].raising;
            let service = self.queues[into].raising.service;
            self.queues[into].raising = Raising { service, ..raising };
            self.set_factor(into, factor);
        }
        self.set_factor(id, 1);
    }

    /// Stores the state of a queue before it is shared, with its process.
    fn save_state(&mut self, now: Time, id: QueueId) {
        let queue = &self.queues[id];
        let Some(owner) = queue.owner else { return };
        let unborn = queue.just_created && !queue.in_large_burst && self.tunables.low_latency;
        let mut saved = Saved {
            weight: self.service.get(id).base_weight,
            think: queue.think,
            thinks_briefly: queue.thinks_briefly,
            io_bound: queue.io_bound,
            io_start: queue.io_start,
            idle_total: queue.idle_total,
            in_large_burst: queue.in_large_burst,
            was_in_burst_list: queue.in_burst_list,
            factor: self.service.get(id).raising,
            raising: queue.raising,
            injection: queue.injection,
        };
        if unborn {
            // It would have been raised, had it existed at its first request.
            let (factor, why, lasts) = self.factor_at_creation();
            let service = self.contexts[owner].saved.raising.service;
            saved.factor = factor;
            saved.raising = Raising { why, lasts, since: now, interactive_since: None, service };
        }
        self.contexts[owner].saved = saved;
    }

    /// Gives a process its own queue back.
    pub(super) fn resume_state(&mut self, now: Time, id: QueueId, context: ContextId) {
        let saved = self.contexts[context].saved;
        let queue = &mut self.queues[id];
        queue.thinks_briefly = saved.thinks_briefly;
        queue.io_bound = saved.io_bound;
        queue.injection = saved.injection;
        queue.think = saved.think;
        queue.io_start = saved.io_start;
        queue.idle_total = saved.idle_total;
        queue.raising = saved.raising;
        self.service.get_mut(id).new_weight = saved.weight;
        self.resume_raising(now, id, saved.factor);
    }

    /// The queue was shared by processes that do not cooperate; returns whether the process keeps it as its last user.
    pub(super) fn split(&mut self, now: Time, id: QueueId, context: ContextId) -> bool {
        let queue = &mut self.queues[id];
        if queue.processes == 1 && queue.merges_into.is_none() {
            queue.shared = false;
            queue.to_split = false;
            return true;
        }
        self.contexts[context].sync = None;
        self.cancel_merges(id);
        self.release(now, id);
        false
    }

    /// A process that leaves `id` will not follow its merges.
    pub(super) fn cancel_merges(&mut self, id: QueueId) {
        let mut next = self.queues[id].merges_into;
        while let Some(into) = next {
            self.queues[into].processes -= 1;
            next = self.queues[into].merges_into;
            self.free_if_unused(into);
        }
    }

    /// One process fewer uses the queue.
    pub(super) fn release(&mut self, now: Time, id: QueueId) {
        let empty = self.queues[id].is_empty();
        if self.service.get(id).busy && empty && self.in_service() != Some(id) {
            self.not_busy(now, id, Slot::Unchanged);
        }
        if self.queues.resolve(self.last_created) == Some(id) {
            self.last_created = None;
        }
        self.queues[id].processes -= 1;
        self.free_if_unused(id);
    }

    /// A queue was created: merges it with others of the same task, and returns the queue to use.
    pub(super) fn consider_stable_merge(&mut self, now: Time, id: QueueId, context: ContextId) -> QueueId {
        let handle = Some(self.queues.handle(id));
        let Some(last) = self.queues.resolve(self.last_created).filter(|&last| self.is_of_a_kind(id, last))
        else {
            self.last_created = handle;
            return id;
        };
        if self.queues[last].created + burst::INTERVAL < now {
            return id;
        }
        if self.is_fast_and_queues() {
            return self.merge_at_birth(now, id, last, context);
        }
        self.forget_stable_merge(context);
        self.queues[last].awaited_by += 1;
        self.contexts[context].stable_merge = Some(last);
        id
    }

    fn is_of_a_kind(&self, id: QueueId, last: QueueId) -> bool {
        let (queue, other) = (&self.queues[id], &self.queues[last]);
        other.created + STABLE_TOGETHER >= queue.created
            && other.level == queue.level
            && self.service.get(last).class == self.service.get(id).class
    }

    fn merge_at_birth(&mut self, now: Time, id: QueueId, last: QueueId, context: ContextId) -> QueueId {
        let Some(into) = self.arrange_merge(id, last) else { return id };
        if let Some(owner) = self.queues[into].owner {
            self.contexts[owner].stably_merged = true;
        }
        self.contexts[context].stably_merged = true;
        self.queues[id].owner = Some(context);
        self.merge(now, context, id, into);
        into
    }

    fn is_stable_merge_due(&self, now: Time, id: QueueId, context: ContextId) -> bool {
        let queue = &self.queues[id];
        self.contexts[context].stable_merge.is_some()
            && queue.sync
            && !queue.just_created
            && passed(now, queue.split, STABLE_AGE)
            && passed(now, Some(queue.created), STABLE_AGE)
    }

    /// Executes a permanent merge that was deferred.
    fn merge_stably(&mut self, id: QueueId, context: ContextId) -> Option<QueueId> {
        let other = self.contexts[context].stable_merge?;
        let into = if self.idling_pays(id) { None } else { self.arrange_merge(id, other) };
        if let Some(into) = into {
            self.contexts[context].stably_merged = true;
            if let Some(owner) = self.queues[into].owner {
                self.contexts[owner].stably_merged = true;
            }
        }
        self.forget_stable_merge(context);
        into
    }

    pub(super) fn forget_stable_merge(&mut self, context: ContextId) {
        if let Some(other) = self.contexts[context].stable_merge.take() {
            self.queues[other].awaited_by -= 1;
            self.free_if_unused(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;

    use elevator::Process;

    use super::*;
    use crate::testing::Table;

    fn table() -> Table<Bfq> {
        Table::of(Box::new(Bfq::new(true, 256)))
    }

    fn context_of(bfq: &Bfq, process: u32) -> ContextId {
        bfq.contexts.find(Some(Process::single(process))).unwrap()
    }

    fn queue_of(bfq: &Bfq, process: u32) -> QueueId {
        bfq.queue_of(context_of(bfq, process), true).unwrap()
    }

    /// Processes 1 to 3 have queues of their own. The first one's is merged with the second one's.
    fn merged(prepare: impl FnOnce(&mut Bfq, [QueueId; 3])) -> (Table<Bfq>, [QueueId; 3]) {
        let mut t = table();
        (1..=3).for_each(|process| _ = t.read_by(process, u64::from(process) * 100_000_000));
        let (now, bfq) = (t.now, &mut *t.scheduler);
        let queues = [1, 2, 3].map(|process| queue_of(bfq, process));
        let [first, second, _] = queues;
        prepare(bfq, queues);
        bfq.arrange_merge(first, second).unwrap();
        bfq.merge(now, context_of(bfq, 1), first, second);
        assert_eq!([1, 2].map(|process| queue_of(bfq, process)), [second; 2]);
        (t, queues)
    }

    #[test]
    fn a_shared_queue_keeps_the_device_busy_if_one_of_its_processes_did() {
        for (first, second) in [(false, false), (false, true), (true, false), (true, true)] {
            let (t, [_, shared, _]) = merged(|bfq, [one, other, _]| {
                (bfq.queues[one].io_bound, bfq.queues[other].io_bound) = (first, second);
            });
            assert_eq!(t.scheduler.queues[shared].io_bound, first || second, "{first}, {second}");
        }
    }

    #[test]
    fn a_permanent_merge_is_no_longer_due_once_its_queues_are_merged() {
        for with_third in [false, true] {
            let (t, [_, _, third]) = merged(|bfq, [_, second, third]| {
                let context = context_of(bfq, 1);
                bfq.forget_stable_merge(context);
                let other = if with_third { third } else { second };
                bfq.queues[other].awaited_by += 1;
                bfq.contexts[context].stable_merge = Some(other);
            });
            let due = t.scheduler.contexts[context_of(&t.scheduler, 1)].stable_merge;
            assert_eq!(due, with_third.then_some(third));
        }
    }

    /// A new queue is compared with the last one created, or with the one that has its processes.
    #[test]
    fn a_queue_that_is_merged_leaves_its_age_to_the_shared_one() {
        for is_last in [true, false] {
            let (t, [_, shared, third]) = merged(|bfq, [first, _, third]| {
                bfq.last_created = Some(bfq.queues.handle(if is_last { first } else { third }));
            });
            let last = t.scheduler.queues.resolve(t.scheduler.last_created);
            assert_eq!(last, Some(if is_last { shared } else { third }));
        }
    }

    #[test]
    fn a_merged_queue_brings_its_waker_unless_the_other_one_has_a_waker_or_is_the_waker() {
        // By number of the process: the waker of the merged queue 1, that of queue 2 before, and after.
        for (own, other, then) in [
            (Some(3), None, Some(3)),
            (Some(3), Some(4), Some(4)),
            (Some(2), None, None),
            (None, Some(4), Some(4)),
            (None, None, None),
        ] {
            let mut t = table();
            (1..=4).for_each(|process| _ = t.read_by(process, u64::from(process) * 100_000_000));
            let bfq = &mut *t.scheduler;
            let queues = [1, 2].map(|process| queue_of(bfq, process));
            for (queue, waker) in queues.into_iter().zip([own, other]) {
                if let Some(waker) = waker {
                    bfq.set_waker(queue, queue_of(bfq, waker));
                }
            }
            bfq.inherit_waker(queues[0], queues[1]);
            let waker = bfq.queues.resolve(bfq.queues[queues[1]].waker);
            assert_eq!(waker, then.map(|waker| queue_of(bfq, waker)), "{own:?}, {other:?}");
        }
    }
}
