//! Whether the device idles for the queue in service, and for how long.

use elevator::{Hold, HoldReason, PriorityClass, Span, Time, Wake};

use super::Bfq;
use super::budget::{Expiry, SlotTime, THINK_MIN};
use super::queue::QueueId;

/// The least wait for a raised queue.
const RAISED_MIN: Span = Span::from_millis(20);
/// The number of other queues' requests in the device that delay a raised queue's next one noticeably.
const OTHERS_IN_FLIGHT: u32 = 4;

impl Bfq {
    /// Idling gains throughput: on a disk, for a sequential process; on a disk that takes one request at a time, for all. Not
    /// while raised queues are busy: with fewer requests of others served, fewer tags are taken.
    pub(super) fn idling_pays(&self, id: QueueId) -> bool {
        let queue = &self.queues[id];
        let sequential = !queue.is_seeky() && queue.io_bound && queue.thinks_briefly;
        let single = self.driver.queues == Some(false);
        let pays = match self.driver.rotational {
            true => single || sequential,
            false => single && sequential,
        };
        queue.processes > 0 && pays && self.raised_busy == 0
    }

    /// Without idling the queue would lose its share: it is raised and others are not or have many requests in the device, or
    /// shares differ, or it is alone, and a burst of others must not delay its next request.
    pub(super) fn needs_idling(&self, id: QueueId) -> bool {
        let queue = &self.queues[id];
        if queue.processes == 0 {
            return false;
        }
        let busy = self.service.busy();
        let crowd = self.driver.in_flight >= queue.dispatched + OTHERS_IN_FLIGHT;
        let raised = self.service.get(id).raising > 1 && (self.raised_busy < busy || crowd);
        raised || busy == 1 || self.service.is_asymmetric(Some(id))
    }

    pub(super) fn better_to_idle(&self, id: QueueId) -> bool {
        let queue = &self.queues[id];
        if queue.processes == 0 || self.tunables.strict_guarantees {
            return queue.processes > 0;
        }
        let idle_class = self.service.get(id).class == PriorityClass::Idle;
        let never = self.tunables.slice_idle == Span::ZERO || !queue.sync || idle_class;
        !never && (self.idling_pays(id) || self.needs_idling(id))
    }

    /// It is empty, but the device idles for it.
    pub(super) fn must_idle(&self, id: QueueId) -> bool {
        self.queues[id].is_empty() && self.better_to_idle(id)
    }

    /// Idles from now on. Briefly for a seeky queue, whose next request gains nothing.
    pub(super) fn begin_idling(&mut self, now: Time, id: QueueId) {
        let raised = self.service.get(id).raising > 1;
        let slice = self.tunables.slice_idle;
        let time = if raised {
            slice.max(RAISED_MIN)
        } else if self.queues[id].is_seeky() && !self.service.is_asymmetric(Some(id)) {
            slice.min(THINK_MIN)
        } else {
            slice
        };
        self.queues[id].waits = true;
        self.idling_began = now;
        self.idle_until = Some(now + time);
    }

    pub(super) fn end_idling(&mut self, id: QueueId) {
        self.queues[id].waits = false;
        self.idle_until = None;
    }

    /// The time is `now`: the wait may be over. It ends at its time, whatever call comes first.
    pub(super) fn advance(&mut self, now: Time) {
        let Some(until) = self.idle_until.filter(|&until| until <= now) else { return };
        self.idle_until = None;
        let Some(id) = self.in_service() else { return };
        self.queues[id].waits = false;
        if self.is_timed_out(until, id) {
            self.expire(until, id, SlotTime::UntilIdling, Expiry::Timeout);
        } else if self.queues[id].is_empty() {
            self.expire(until, id, SlotTime::UntilIdling, Expiry::TooIdle);
        }
    }

    /// The reason for not dispatching although requests are queued.
    pub(super) const fn hold(&self) -> Hold {
        match self.idle_until {
            Some(_) => {
                Hold { until: self.idle_until, wake: Wake::Timer, reason: HoldReason::AwaitSliceOwner }
            }
            None => Hold { until: None, wake: Wake::Completion, reason: HoldReason::AwaitCompletion },
        }
    }
}
