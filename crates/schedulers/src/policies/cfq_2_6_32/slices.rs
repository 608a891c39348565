//! Slices: their assignment, duration and preemption, and idling for the owner.

use elevator::{Hold, HoldReason, PriorityClass, Reason, Request, RequestId, Time, Wake};

use super::queue::{QueueId, Slice};
use super::{Cfq2_6_32, LEVELS};
use crate::parts::jiffies::Jiffies;

/// The level of normal priority: its slices have the lengths of the tunables.
const NORMAL: i64 = 4;

/// The change of a slice's length per level: a fifth (`CFQ_SLICE_SCALE`).
const SLICE_SCALE: i64 = 5;

/// The multiple of `quantum` that a queue that is alone may have in the device.
const ALONE: u64 = 4;

/// Requests up to this size do not end idling if no other queue waits: more may be merged into them.
const SMALL_BYTES: u64 = 4096;

impl Cfq2_6_32 {
    /// The time in ticks. Ends idling first if its time is over (`cfq_idle_slice_timer`).
    pub(super) fn clock(&mut self, now: Time) -> Jiffies {
        self.now = now;
        let now = self.ticks.at(now);
        if self.idle_until.is_some_and(|until| now >= until) {
            self.idle_until = None;
            self.idled(now);
        }
        now
    }

    fn idled(&mut self, now: Jiffies) {
        let Some(id) = self.active else { return };
        let queue = &self.queues[id];
        let has_request = queue.slice.must_dispatch || !queue.sorted.is_empty();
        let in_time = has_request || self.service_tree.is_empty();
        if !queue.slice.must_dispatch && (queue.slice_used(now) || !in_time) {
            self.slice_expired(now, id, false);
        }
    }

    /// The length of a slice by priority: at level 0 180 %, at 4 100 %, at 7 40 %.
    fn prio_slice(&self, is_sync: bool, level: u8) -> i64 {
        let base = self.timing.slice[usize::from(is_sync)] as i64;
        base + base / SLICE_SCALE * (NORMAL - i64::from(level))
    }

    /// The delay of a queue's turn relative to the highest priority's; it grows with the number of queues.
    fn slice_offset(&self, id: QueueId) -> i64 {
        let queue = &self.queues[id];
        // The queue itself counts among the busy ones.
        let others = i64::from(self.service_tree.len()) - i64::from(queue.turn.is_some());
        others * (self.prio_slice(true, 0) - self.prio_slice(queue.is_sync, queue.priority.level))
    }

    /// Gives a queue with requests its first or next turn (`cfq_service_tree_add`).
    pub(super) fn take_turn(&mut self, now: Jiffies, id: QueueId, in_front: bool) {
        let key = if self.queues[id].is_idle_class() {
            let last = self.service_tree.last().filter(|(_, queue)| *queue != id);
            last.map_or(now as i64, |(turn, _)| turn.key) + self.timing.idle_delay as i64
        } else if in_front {
            let first = self.service_tree.first().map_or(now as i64, |(turn, _)| turn.key);
            first - self.timing.second as i64
        } else {
            let residual = core::mem::take(&mut self.queues[id].slice.residual);
            self.slice_offset(id) + now as i64 - residual
        };
        let class = self.queues[id].priority.class;
        if let Some(turn) = self.queues[id].turn {
            if turn.key == key && turn.class == class {
                return;
            }
            self.service_tree.remove(turn);
        }
        self.queues[id].turn = Some(self.service_tree.add(class, key, id));
    }

    /// The owner's slice is used up or given up (`__cfq_slice_expired`).
    pub(super) fn slice_expired(&mut self, now: Jiffies, id: QueueId, timed_out: bool) {
        let slice = &mut self.queues[id].slice;
        if slice.wait_request {
            self.idle_until = None;
        }
        slice.wait_request = false;
        if timed_out && !slice.is_new {
            slice.residual = slice.end as i64 - now as i64;
        }
        if self.queues[id].turn.is_some() {
            self.take_turn(now, id, false);
            self.update_position(id);
        }
        if self.active == Some(id) {
            self.active = None;
        }
        if let Some(context) = self.active_context.take() {
            self.contexts.unpin(context);
        }
    }

    /// A queue gets the slice.
    fn set_active(&mut self, id: QueueId, reason: Reason) {
        let residual = self.queues[id].slice.residual;
        self.queues[id].slice = Slice { is_new: true, residual, ..Slice::default() };
        self.idle_until = None;
        self.slice_reason = reason;
        self.active = Some(id);
    }

    /// The queue to serve (`cfq_select_queue`); there are requests.
    pub(super) fn select(&mut self, now: Jiffies) -> Result<QueueId, Hold> {
        let mut cooperator = None;
        if let Some(id) = self.active {
            let queue = &self.queues[id];
            if !queue.slice_used(now) || queue.slice.must_dispatch {
                if !queue.sorted.is_empty() {
                    return Ok(id);
                }
                cooperator = self.close_cooperator(id);
                match cooperator {
                    Some(other) => self.plan_merge(id, other),
                    None => self.wait_for_owner(id)?,
                }
            }
            self.slice_expired(now, id, false);
        }
        let next = match cooperator {
            Some(id) => Some((id, Reason::Cooperator)),
            None => self.service_tree.first().map(|(_, id)| (id, Reason::NewSlice)),
        };
        let (id, reason) = next.expect("asked only while something is queued");
        self.set_active(id, reason);
        Ok(id)
    }

    /// The owner has nothing queued: no other queue is served while the device idles for it, or has requests of it.
    fn wait_for_owner(&self, id: QueueId) -> Result<(), Hold> {
        let reason = HoldReason::AwaitSliceOwner;
        let queue = &self.queues[id];
        match self.idle_until {
            Some(until) => Err(Hold { until: Some(self.ticks.time(until)), wake: Wake::Timer, reason }),
            None if queue.dispatched > 0 && queue.idle_window => {
                Err(Hold { until: None, wake: Wake::Completion, reason })
            }
            None => Ok(()),
        }
    }

    /// The request of the chosen queue to dispatch, if any (`cfq_dispatch_request`).
    pub(super) fn choose(&mut self, now: Jiffies, id: QueueId) -> Result<(RequestId, Reason), Hold> {
        self.may_dispatch(now, id).map_err(|reason| Hold { until: None, wake: Wake::Completion, reason })?;
        let expired = self.expired(now, id);
        let reason =
            if self.queues[id].slice.dispatched == 0 { self.slice_reason } else { Reason::SliceOwner };
        let next = self.queues[id].next.or_else(|| self.queues[id].sorted.first());
        let chosen = expired.map(|id| (id, Reason::Expired)).or(next.map(|id| (id, reason)));
        Ok(chosen.expect("a queue with a turn has requests"))
    }

    /// The oldest request, if it has expired; checked once per slice (`cfq_check_fifo`).
    fn expired(&mut self, now: Jiffies, id: QueueId) -> Option<RequestId> {
        let queue = &mut self.queues[id];
        if core::mem::replace(&mut queue.slice.fifo_checked, true) {
            return None;
        }
        queue.fifo.front().filter(|&oldest| now >= self.record(oldest).expires)
    }

    /// Whether a request of the queue may join those in the device, of which there is at least one; if not, why
    /// (`cfq_may_dispatch`).
    fn may_dispatch(&self, now: Jiffies, id: QueueId) -> Result<(), HoldReason> {
        let queue = &self.queues[id];
        if queue.idle_window && self.rq_in_driver[0] > 0 {
            return Err(HoldReason::BatchChange);
        }
        if self.sync_flight > 0 && !queue.is_sync {
            return Err(HoldReason::SyncFirst);
        }
        if queue.dispatched < self.max_dispatch(now, id) { Ok(()) } else { Err(HoldReason::DepthLimit) }
    }

    fn max_dispatch(&self, now: Jiffies, id: QueueId) -> u64 {
        let queue = &self.queues[id];
        if queue.is_idle_class() {
            return 1;
        }
        let quantum = self.tunables.quantum;
        let alone = queue.dispatched >= quantum && self.service_tree.len() <= 1;
        let most = if alone { quantum * ALONE } else { quantum };
        if queue.is_sync || !self.tunables.low_latency {
            return most;
        }
        // The limit for asynchronous requests grows with the time since the last synchronous one.
        let depth = now.saturating_sub(self.last_end_sync) / self.timing.slice[1].max(1);
        most.min(if depth == 0 && queue.dispatched == 0 { 1 } else { depth })
    }

    /// The number of requests that an asynchronous queue may dispatch in a slice (`cfq_prio_to_maxrq`).
    fn max_requests(&self, level: u8) -> u64 {
        let base = self.tunables.slice_async_rq;
        2 * (base + base * (LEVELS as u64 - 1 - u64::from(level)))
    }

    /// A request of the queue was dispatched: ends its slice if due (`cfq_dispatch_requests`).
    pub(super) fn sent(&mut self, now: Jiffies, id: QueueId) {
        let queue = &mut self.queues[id];
        queue.slice.dispatched += 1;
        queue.slice.must_dispatch = false;
        let (sent, level) = (queue.slice.dispatched, queue.priority.level);
        let (is_sync, is_idle) = (queue.is_sync, queue.is_idle_class());
        let enough = is_idle || (!is_sync && sent >= self.max_requests(level));
        if enough && self.service_tree.len() > 1 {
            self.slice_expired(now, id, false);
        }
    }

    /// A request of the queue completed: its slice may begin, end, or idle (`cfq_completed_request`).
    pub(super) fn owner_completed(&mut self, now: Jiffies, id: QueueId, may_idle: bool) {
        if self.active != Some(id) {
            return;
        }
        let length = self.prio_slice(self.queues[id].is_sync, self.queues[id].priority.level);
        let queue = &mut self.queues[id];
        if queue.slice.is_new {
            queue.slice.end = now + length as u64;
            queue.slice.is_new = false;
        }
        let is_empty = queue.sorted.is_empty();
        if queue.slice_used(now) || queue.is_idle_class() {
            self.slice_expired(now, id, true);
        } else if is_empty && may_idle && self.close_cooperator(id).is_none() {
            self.arm_slice_timer(now, id);
        }
    }

    /// Idles for the owner, if that is likely to pay (`cfq_arm_slice_timer`).
    fn arm_slice_timer(&mut self, now: Jiffies, id: QueueId) {
        let Some(context) = self.active_context else { return };
        let ttime = self.contexts[context].ttime;
        let running = self.contexts.is_running(context);
        let queue = &mut self.queues[id];
        let pointless = !self.is_rotational && self.hardware.queues;
        let wanted = self.timing.slice_idle > 0 && queue.idle_window && running;
        let too_slow = ttime.is_valid() && queue.slice.end.saturating_sub(now) < ttime.mean();
        if pointless || !wanted || too_slow || self.rq_in_driver != [0, 0] {
            return;
        }
        queue.slice.wait_request = true;
        let seeky = queue.seek.is_valid() && queue.is_seeky();
        let idle = self.timing.slice_idle;
        self.idle_until = Some(now + if seeky { idle.min(self.timing.min_think) } else { idle });
    }

    /// A request was queued: it may end idling, or preempt the owner (`cfq_rq_enqueued`).
    pub(super) fn enqueued(&mut self, now: Jiffies, id: QueueId, request: &Request) {
        if self.active == Some(id) {
            let slice = &mut self.queues[id].slice;
            if slice.wait_request {
                slice.must_dispatch = true;
                slice.must_alloc = true;
                if request.sectors.bytes() > SMALL_BYTES || self.service_tree.len() > 1 {
                    self.idle_until = None;
                }
            }
        } else if self.should_preempt(now, id, request) {
            self.preempt(now, id);
        }
    }

    /// Whether a new request's queue preempts the owner.
    fn should_preempt(&self, now: Jiffies, id: QueueId, request: &Request) -> bool {
        let Some(owner) = self.active else { return false };
        let (new, owner) = (&self.queues[id], &self.queues[owner]);
        if owner.slice_used(now) {
            return true;
        }
        if new.is_idle_class() || owner.is_idle_class() {
            return !new.is_idle_class();
        }
        let sync_first = request.is_sync() && !owner.is_sync;
        let meta_first = request.flags.meta && owner.meta_pending == 0;
        let real_time_first = new.is_real_time() && !owner.is_real_time();
        let idling = self.active_context.is_some() && owner.slice.wait_request;
        let close = self.last_position.distance(request.start) <= owner.expected_seek();
        sync_first || meta_first || real_time_first || (idling && close)
    }

    fn preempt(&mut self, now: Jiffies, id: QueueId) {
        if let Some(owner) = self.active {
            self.slice_expired(now, owner, true);
        }
        self.take_turn(now, id, true);
        let slice = &mut self.queues[id].slice;
        slice.end = 0;
        slice.is_new = true;
    }

    /// Updates the order by position, which has the queues with a next request, except idle ones.
    pub(super) fn update_position(&mut self, id: QueueId) {
        let queue = &self.queues[id];
        let wanted = queue.next.filter(|_| queue.priority.class != PriorityClass::Idle);
        let wanted = wanted.map(|next| self.record(next).start);
        if queue.position == wanted {
            return;
        }
        self.forget_position(id);
        if let Some(sector) = wanted
            && self.positions[level(&self.queues[id])].add(sector, id)
        {
            self.queues[id].position = Some(sector);
        }
    }

    pub(super) fn forget_position(&mut self, id: QueueId) {
        if let Some(sector) = self.queues[id].position.take() {
            self.positions[level(&self.queues[id])].remove(sector);
        }
    }
}

/// The order by position of a queue.
pub(super) fn level(queue: &super::queue::Queue) -> usize {
    usize::from(queue.priority.level).min(LEVELS - 1)
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;

    use elevator::Process;

    use super::*;
    use crate::Environment;
    use crate::testing::Table;

    #[test]
    fn a_queue_whose_turn_stays_the_same_keeps_its_place_unless_its_class_changes() {
        let mut t = Table::of(Box::new(Cfq2_6_32::new(&Environment::default())));
        (1..=2).for_each(|process| _ = t.read_by(process, u64::from(process) * 100_000_000));
        let cfq = &mut *t.scheduler;
        let [first, second] = [1, 2].map(|process| {
            let slot = cfq.contexts.find(Some(Process::single(process).context)).unwrap();
            cfq.contexts[slot].queue.unwrap()
        });
        let next = |cfq: &Cfq2_6_32| cfq.service_tree.first().unwrap().1;
        assert_eq!(next(cfq), first, "it arrived alone");
        // Both have the turn of one of two queues.
        cfq.take_turn(0, first, false);
        assert_eq!(next(cfq), second);
        cfq.take_turn(0, second, false);
        assert_eq!(next(cfq), second);
        cfq.queues[first].priority.class = PriorityClass::RealTime;
        cfq.take_turn(0, first, false);
        assert_eq!(next(cfq), first);
    }
}
