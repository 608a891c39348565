//! Arrival: the queue of a request, and what the request shows about its process.

use elevator::{Admission, Priority, PriorityClass, Process, Request, Span, Time};

use super::budget::{Expiry, SlotTime};
use super::queue::{ContextId, Handle, QueueId};
use super::service::Entity;
use super::{Bfq, LEVELS, passed, weight_raising};

/// Sectors from the end of the last request from which the next one is a seek;
const SEEK: u64 = 800;
/// except, on a solid-state device, if it is at least this large.
const LARGE: u64 = 64;
/// A smaller request may still be merged: it does not end the wait for the queue, if idling pays.
const SMALL: u32 = 32;
/// The period over which a process's intensity is observed.
const IO_WINDOW: Span = Span::from_millis(200);
/// A queue that was not waited for resumes its budget if its next request arrives within this multiple of `slice_idle`.
const IN_TIME_SLICES: u64 = 3;

/// The weight of a level below [`LEVELS`]: 80 for the highest, 10 for the lowest.
fn weight_of(level: u8) -> u32 {
    (LEVELS as u32 - u32::from(level)) * 10
}

/// The idle class has the lowest level.
fn level_of(priority: Priority) -> u8 {
    let lowest = LEVELS as u8 - 1;
    if priority.class == PriorityClass::Idle { lowest } else { priority.level.min(lowest) }
}

impl Bfq {
    /// The queue for such requests of the process, if it exists.
    pub(super) fn queue_of(&self, context: ContextId, sync: bool) -> Option<QueueId> {
        let context = &self.contexts[context];
        if sync { context.sync } else { context.asynchronous }
    }

    pub(super) fn arrive(&mut self, now: Time, request: &Request) {
        let context = self.contexts.find_or_add(request.process, request.priority);
        let sync = request.is_sync();
        self.check_priority(now, context, request.priority);
        let id = self.queue_for(now, context, sync);
        self.queues[id].allocated += 1;
        self.contexts[context].requests += 1;
        self.allocated += 1;
        self.allocated_async += u32::from(!sync);
        self.consider_burst(now, id);
        let id = self.redirect(now, id, request, context);
        self.observe(now, id, request);
        self.remember(now, request, id, context);
        self.add(now, id, request, context);
        self.after_arrival(now, id, request);
    }

    /// The process's priority changed: its synchronous queue takes it on when it is next put in order; its asynchronous
    /// requests go to another queue from now on.
    fn check_priority(&mut self, now: Time, context: ContextId, priority: Priority) {
        if self.contexts[context].priority == priority {
            return;
        }
        self.contexts[context].priority = priority;
        if let Some(id) = self.contexts[context].asynchronous.take() {
            self.release(now, id);
        }
        if let Some(id) = self.contexts[context].sync {
            self.take_priority(id, priority);
        }
    }

    fn take_priority(&mut self, id: QueueId, priority: Priority) {
        let level = level_of(priority);
        self.queues[id].level = level;
        let entity = self.service.get_mut(id);
        entity.new_weight = weight_of(level);
        entity.new_class = priority.class;
        entity.changed = true;
    }

    /// The process's queue, created if needed, and split from a shared one if the processes no longer cooperate.
    fn queue_for(&mut self, now: Time, context: ContextId, sync: bool) -> QueueId {
        let Some(id) = self.queue_of(context, sync) else {
            let id = self.new_queue(now, context, sync);
            self.own(id, context);
            return id;
        };
        let queue = &self.queues[id];
        if !queue.shared || !queue.to_split || self.contexts[context].stably_merged {
            self.own(id, context);
            return id;
        }
        self.split_from(now, id, context)
    }

    fn split_from(&mut self, now: Time, id: QueueId, context: ContextId) -> QueueId {
        let waker = self.waker_after_split(id);
        self.contexts[context].saved.in_large_burst |= self.queues[id].in_large_burst;
        let id = if self.split(now, id, context) {
            id
        } else {
            let new = self.queue_after_split(now, context);
            if let Some(waker) = self.queues.resolve(waker) {
                self.set_waker(new, waker);
            }
            new
        };
        if self.own(id, context) {
            self.resume_state(now, id, context);
        }
        id
    }

    /// The waker that a queue keeps after a split, unless that is the queue it was to be merged with and only this process
    /// uses it, or a queue without users.
    fn waker_after_split(&self, id: QueueId) -> Option<Handle> {
        let waker = self.queues[id].waker;
        let by = self.queues.resolve(waker).filter(|&by| self.queues[by].processes > 0)?;
        let mut next = self.queues[id].merges_into;
        while let Some(into) = next {
            if into == by {
                return waker.filter(|_| self.queues[by].processes != 1);
            }
            next = self.queues[into].merges_into;
        }
        waker
    }

    /// A queue that one process uses belongs to that process; asynchronous queues belong to none.
    fn own(&mut self, id: QueueId, context: ContextId) -> bool {
        let queue = &mut self.queues[id];
        let own = queue.processes == 1 && queue.merges_into.is_none();
        if own {
            queue.owner = Some(context);
        }
        own
    }

    fn new_queue(&mut self, now: Time, context: ContextId, sync: bool) -> QueueId {
        if !sync {
            return self.async_queue(now, context);
        }
        let created = self.create(now, context, true);
        let id = self.consider_stable_merge(now, created, context);
        self.contexts[context].sync = Some(id);
        id
    }

    /// A synchronous queue for a process that leaves a shared one. It continues the process's earlier queue.
    fn queue_after_split(&mut self, now: Time, context: ContextId) -> QueueId {
        let id = self.create(now, context, true);
        self.contexts[context].sync = Some(id);
        self.rejoin_burst(now, id, context);
        id
    }

    fn rejoin_burst(&mut self, now: Time, id: QueueId, context: ContextId) {
        let saved = self.contexts[context].saved;
        if saved.in_large_burst || (saved.was_in_burst_list && self.is_burst_large()) {
            self.queues[id].in_large_burst = true;
        } else if saved.was_in_burst_list {
            self.list_in_burst(id);
        }
        self.queues[id].split = Some(now);
    }

    /// Asynchronous requests of one level share a queue, which stays.
    fn async_queue(&mut self, now: Time, context: ContextId) -> QueueId {
        let priority = self.contexts[context].priority;
        let level = if priority.class == PriorityClass::Idle { 0 } else { level_of(priority) };
        let (class, level) = (priority.class as usize, usize::from(level));
        let id = match self.asynchronous[class][level] {
            Some(id) => id,
            None => {
                let id = self.create(now, context, false);
                self.asynchronous[class][level] = Some(id);
                id
            }
        };
        self.queues[id].processes += 1;
        self.contexts[context].asynchronous = Some(id);
        id
    }

    fn create(&mut self, now: Time, context: ContextId, sync: bool) -> QueueId {
        let id = self.queues.add(now, sync);
        if !self.tunables.plugged {
            self.queues[id].last_completion = now;
        }
        let priority = self.contexts[context].priority;
        let level = level_of(priority);
        self.service.add(id, Entity::new(weight_of(level), priority.class));
        self.queues[id].level = level;
        self.queues[id].max_budget = 2 * self.trusted_max_budget() / 3;
        id
    }

    /// The queue that this one is merged with, if any.
    fn redirect(&mut self, now: Time, id: QueueId, request: &Request, context: ContextId) -> QueueId {
        let Some(into) = self.find_cooperator(now, id, request, context) else { return id };
        self.queues[into].allocated += 1;
        if self.contexts[context].sync == Some(id) {
            self.follow_merges(now, id, into, context);
        }
        self.queues[id].just_created = false;
        self.queues[id].allocated -= 1;
        self.free_if_unused(id);
        into
    }

    fn follow_merges(&mut self, now: Time, id: QueueId, into: QueueId, context: ContextId) {
        let mut at = id;
        while at != into {
            let Some(next) = self.queues[at].merges_into else { break };
            self.merge(now, context, at, next);
            at = next;
        }
    }

    /// Updates the process's think time and seek history.
    fn observe(&mut self, now: Time, id: QueueId, request: &Request) {
        let slice = self.tunables.slice_idle;
        let busy = self.service.get(id).busy;
        let queue = &mut self.queues[id];
        if queue.dispatched == 0 && !busy {
            queue.think.add(Span::from_nanos(queue.idle_for(now)).min(slice * 2));
        }
        self.observe_think_time(now, id);
        let queue = &self.queues[id];
        let known = queue.last_end.0 != 0;
        let far = known && request.start.distance(queue.last_end) > SEEK;
        let seek = far && (self.driver.rotational || u64::from(request.sectors.0) < LARGE);
        self.queues[id].seeks = self.queues[id].seeks << 1 | u32::from(seek);
        self.check_seeks_of_soft_real_time(now, id);
    }

    fn observe_think_time(&mut self, now: Time, id: QueueId) {
        let slice = self.tunables.slice_idle;
        let idle_class = self.service.get(id).class == PriorityClass::Idle;
        let queue = &mut self.queues[id];
        let just_split = !passed(now, queue.split, weight_raising::IDLE_MIN);
        if !queue.sync || idle_class || slice == Span::ZERO || just_split {
            return;
        }
        let briefly = !queue.think.is_longer_than(slice / 2);
        if core::mem::replace(&mut queue.thinks_briefly, briefly) != briefly {
            self.think_time_changed(now, id);
        }
    }

    /// Inserts the request into its queue, and the queue into the order.
    fn add(&mut self, now: Time, id: QueueId, request: &Request, context: ContextId) {
        let sync = request.is_sync();
        if self.queues[id].sync && self.contexts[context].requests <= 1 {
            self.prepare_injection(now, id);
        }
        if self.queues[id].sync {
            self.observe_intensity(now, id);
        }
        let was_raised = self.service.get(id).raising > 1;
        let is_next = self.add_to_backlog(request.id);
        if is_next {
            self.reposition(now, id);
        }
        let mut interactive = false;
        if self.service.get(id).busy {
            self.reconsider_async(now, id, sync);
            if is_next {
                self.updated_next(now, id);
            }
        } else {
            interactive = self.turn_busy(now, id, context);
        }
        let raised = self.service.get(id).raising > 1;
        if self.tunables.low_latency && (!was_raised || !raised || interactive) {
            self.queues[id].raising.since = now;
        }
    }

    /// Whether the process keeps the device busy: its queue was empty for less than a fifth of the time.
    fn observe_intensity(&mut self, now: Time, id: QueueId) {
        let queue = &mut self.queues[id];
        let total = now.since(queue.io_start);
        if queue.is_empty() && queue.dispatched == 0 {
            queue.idle_total = queue.idle_total.wrapping_add(queue.idle_for(now));
        }
        if queue.just_created {
            return;
        }
        queue.io_bound = queue.idle_total.wrapping_mul(5) <= total.as_nanos();
        if total > IO_WINDOW {
            queue.io_start = now - total / 2;
            queue.idle_total /= 2;
        }
    }

    /// An empty queue got a request. It may preempt the queue in service: if it did not lose its turn by its own fault, if
    /// its class or weight is higher, or if waiting for the queue in service no longer pays. Returns whether it is
    /// interactive.
    fn turn_busy(&mut self, now: Time, id: QueueId, context: ContextId) -> bool {
        let in_time = now <= self.queues[id].last_completion + self.tunables.slice_idle * IN_TIME_SLICES;
        let recovers = self.budget_for_activation(id, in_time);
        let interactive = self.reconsider_raising(now, id, context);
        let queue = &mut self.queues[id];
        queue.just_created = false;
        queue.backlogged = now;
        queue.service_since_backlogged = 0;
        queue.soft_rt_pending = false;
        self.busy(now, id);
        if let Some(current) = self.in_service().filter(|&current| self.goes_before(id, current, recovers)) {
            self.expire(now, current, SlotTime::UntilNow, Expiry::Preempted);
        }
        interactive
    }

    fn goes_before(&self, id: QueueId, current: QueueId, recovers: bool) -> bool {
        let (entity, other) = (self.service.get(id), self.service.get(current));
        (recovers && entity.raising >= other.raising)
            || entity.class < other.class
            || entity.weight > other.weight
            || !self.better_to_idle(current)
    }

    /// The wait for the queue in service is over, unless its request is small and may be merged before the next dispatch.
    fn after_arrival(&mut self, now: Time, id: QueueId, request: &Request) {
        self.queues[id].last_end = request.end();
        if self.in_service() != Some(id) || !self.queues[id].waits {
            return;
        }
        let timed_out = self.is_timed_out(now, id);
        let small = self.queues[id].sorted.len() == 1 && request.sectors.0 < SMALL;
        if small && self.idling_pays(id) && !timed_out {
            return;
        }
        self.end_idling(id);
        self.queues[id].anticipated = true;
        if timed_out {
            self.expire(now, id, SlotTime::UntilNow, Expiry::Timeout);
        }
    }

    /// A process ended: its queues lose it.
    pub(super) fn end_process(&mut self, now: Time, process: Process) {
        // A context that several threads share ends with the thread whose number it has.
        let context = self.contexts.find(Some(process)).filter(|_| process.context == process.task);
        let Some(context) = context else { return };
        self.forget_stable_merge(context);
        if let Some(id) = self.contexts[context].sync.take() {
            if self.queues[id].owner == Some(context) {
                self.queues[id].owner = None;
            }
            if self.in_service() == Some(id) {
                self.leave_service(now, id, Expiry::Timeout);
            }
            self.cancel_merges(id);
            self.release(now, id);
        }
        if let Some(id) = self.contexts[context].asynchronous.take() {
            if self.in_service() == Some(id) {
                self.leave_service(now, id, Expiry::Timeout);
            }
            self.release(now, id);
        }
        self.contexts.end(process);
    }

    /// Asynchronous requests may fill half of the queue, or 3/16 while a queue is raised; and each queue only its share by
    /// weight of that. While some are refused, the others may exceed the limit.
    pub(super) fn leave(&self, process: Option<Process>, sync: bool) -> Admission {
        let sixteenths = match (sync, self.raised_busy > 0) {
            (true, _) => 16,
            (false, false) => 8,
            (false, true) => 3,
        };
        let open = (u64::from(self.nr_requests) * sixteenths / 16).max(1);
        let crowded = !sync && u64::from(self.allocated_async) >= open;
        if crowded || self.has_more_than_share(process, sync, open) {
            return Admission::No;
        }
        if self.allocated < self.nr_requests { Admission::Must } else { Admission::ByLimit }
    }

    fn has_more_than_share(&self, process: Option<Process>, sync: bool, open: u64) -> bool {
        let context = self.contexts.find(process);
        let Some(id) = context.and_then(|context| self.queue_of(context, sync)) else { return false };
        let entity = self.service.get(id);
        let all = self.service.weight_sum_down_to(entity.class);
        if !self.service.is_somewhere(id) || all == 0 {
            return false;
        }
        let share = (open * u64::from(entity.weight) + all / 2) / all;
        u64::from(self.queues[id].allocated) >= share.max(1)
    }
}
