//! Dispatch and completion: the queue to serve, and the effects of a completion.

use elevator::{Decision, Hold, HoldReason, PriorityClass, Reason, Request, RequestId, Time, View, Wake};

use super::Bfq;
use super::budget::{Expiry, SlotTime};
use super::queue::QueueId;
use super::rate::Dispatched;

/// More requests at once than this show that the device queues,
const QUEUES_MIN: u32 = 3;
/// evaluated over this many completions.
const QUEUES_SAMPLES: u32 = 32;
/// Sectors between requests from which it is a seek; the device's rate is measured without seeks.
const SEEK: u64 = 800;

impl Bfq {
    pub(super) fn decide(&mut self, now: Time, view: &View<'_>) -> Decision {
        if self.queued == 0 {
            return Decision::Idle;
        }
        if self.tunables.strict_guarantees && self.driver.in_flight > 0 {
            let reason = HoldReason::DepthLimit;
            return Decision::Hold(Hold { until: None, wake: Wake::Completion, reason });
        }
        let Some((queue, reason)) = self.select(now) else { return Decision::Hold(self.hold()) };
        let Some(id) = self.queues[queue].next else { return Decision::Hold(self.hold()) };
        let reason = if self.queues[queue].next_expired { Reason::Expired } else { reason };
        self.send(now, queue, &view.requests[id]);
        Decision::Dispatch { id, reason }
    }

    /// The queue to serve; none if the device waits for the one in service.
    fn select(&mut self, now: Time) -> Option<(QueueId, Reason)> {
        if let Some(id) = self.in_service()
            && self.may_time_out(now, id)
            && !self.must_idle(id)
        {
            self.expire(now, id, SlotTime::UntilNow, Expiry::Timeout);
        }
        let mut reason = Reason::Budget;
        loop {
            let id = match self.in_service() {
                Some(id) => id,
                None => {
                    reason = Reason::NewBudget;
                    self.begin_service(now)?
                }
            };
            let queue = &self.queues[id];
            if !queue.is_empty() {
                if self.fits(id) {
                    return Some((id, self.end_wait(id).unwrap_or(reason)));
                }
                self.expire(now, id, SlotTime::UntilNow, Expiry::Exhausted);
            } else if queue.waits || (queue.dispatched > 0 && self.better_to_idle(id)) {
                return self.injectable(id).map(|other| (other, Reason::Injected));
            } else {
                self.expire(now, id, SlotTime::UntilNow, Expiry::NoMoreRequests);
            }
        }
    }

    fn begin_service(&mut self, now: Time) -> Option<QueueId> {
        let id = self.service.begin_next(now)?;
        self.begin_slot(now, id);
        Some(id)
    }

    /// The awaited request has arrived.
    fn end_wait(&mut self, id: QueueId) -> Option<Reason> {
        let came = core::mem::take(&mut self.queues[id].anticipated);
        let waited = self.queues[id].waits;
        if waited {
            self.end_idling(id);
        }
        (came || waited).then_some(Reason::Anticipated)
    }

    /// Sends the queue's next request to the device.
    fn send(&mut self, now: Time, queue: QueueId, request: &Request) {
        let in_service = self.in_service() == Some(queue);
        let charge = self.charge(request.id);
        self.served(now, queue, charge);
        if in_service {
            self.sampling.dispatched(request.id);
        }
        self.queues[queue].dispatched += 1;
        self.measure(now, request, in_service);
        self.remove_from_backlog(now, request.id);
        self.driver.in_flight += 1;
        if in_service {
            self.check_raising(now, queue);
            let idle_class = self.service.get(queue).class == PriorityClass::Idle;
            if idle_class && self.service.busy() > 1 {
                self.expire(now, queue, SlotTime::UntilNow, Expiry::Exhausted);
            }
        }
    }

    fn measure(&mut self, now: Time, request: &Request, in_service: bool) {
        let sectors = u64::from(request.sectors.0);
        let known = self.driver.position.0 != 0;
        let far = known && request.start.distance(self.driver.position) > SEEK;
        let dispatched = Dispatched {
            sectors,
            sequential: !far || (!self.driver.rotational && sectors >= 64),
            in_driver: self.driver.in_flight,
            last_completion: self.driver.last_completion,
        };
        if self.rate.dispatched(now, dispatched) {
            self.rate_changed();
        }
        self.driver.position = request.end();
        if in_service {
            self.driver.service_position = request.end();
        }
    }

    /// A request of this scheduler ended, successfully or not.
    pub(super) fn complete(&mut self, now: Time, request: RequestId) {
        if !self.is_known(request) {
            return;
        }
        let id = self.requests[request].queue;
        self.learn_from(now, request, id);
        self.judge_queueing();
        self.driver.in_flight -= 1;
        self.queues[id].dispatched -= 1;
        if self.queues[id].dispatched == 0 && !self.service.get(id).busy {
            self.queues[id].budget_timeout = Some(now);
            self.service.uncount_weight(id);
        }
        self.queues[id].last_completion = now;
        let since_last = now.since(self.driver.last_completion);
        if self.rate.completed(since_last, self.driver.last_completion) {
            self.rate_changed();
        }
        self.driver.last_completion = now;
        let shared = self.queues[id].shared;
        self.last_completed = (!shared).then(|| self.queues.handle(id));
        self.note_last_completion(now, id);
        if self.in_service() == Some(id) {
            self.after_completion(now, id);
        }
        self.request_ended(request);
    }

    /// Whether to wait for the queue in service, or to end its slot.
    fn after_completion(&mut self, now: Time, id: QueueId) {
        if self.must_idle(id) {
            if self.queues[id].dispatched == 0 {
                self.begin_idling(now, id);
            }
        } else if self.may_time_out(now, id) {
            self.expire(now, id, SlotTime::UntilNow, Expiry::Timeout);
        } else if self.queues[id].is_empty() {
            self.expire(now, id, SlotTime::UntilNow, Expiry::NoMoreRequests);
        }
    }

    /// Whether the device takes several requests at a time and uses them. Once shown, this is final.
    fn judge_queueing(&mut self) {
        self.driver.in_flight_max = self.driver.in_flight_max.max(self.driver.in_flight);
        if self.driver.queues == Some(true) || self.driver.in_flight + self.queued <= QUEUES_MIN {
            return;
        }
        if self.in_service().is_some_and(|id| self.keeps_device_short(id)) {
            return;
        }
        self.driver.samples += 1;
        if self.driver.samples > QUEUES_SAMPLES {
            self.driver.queues = Some(self.driver.in_flight_max > QUEUES_MIN);
            self.driver.in_flight_max = 0;
            self.driver.samples = 0;
        }
    }

    /// The queue in service has too few requests, and may be waited for: the device could not have more.
    fn keeps_device_short(&self, id: QueueId) -> bool {
        let queue = &self.queues[id];
        let has = queue.dispatched + queue.sorted.len() as u32;
        queue.thinks_briefly && has < QUEUES_MIN && self.driver.in_flight < QUEUES_MIN
    }
}
