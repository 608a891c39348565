//! The end of a queue's slot: its charge, and the queue's next budget.

use elevator::{Span, Time};

use super::Bfq;
use super::queue::QueueId;
use super::service::{Slot, Start};
use crate::parts::jiffies::Ticks;

/// The clock by which slots end.
const TICKS: Ticks = Ticks::of_hz(250);

/// The largest budget, in sectors, until the device's rate is known: 8 MiB.
pub(super) const DEFAULT: u64 = 16 * 1024;
/// The decaying count of assigned budgets (limit 256) from which the measured rate is used.
const ASSIGNED_MIN: u32 = 194;
/// Slots shorter than this do not show a process's speed.
const SLOT_SHORT: Span = Span::from_millis(1);
/// Slots longer than this do.
const SLOT_LONG: Span = Span::from_millis(20);
/// The assumed duration of a short slot on a disk: a seek (the default of `slice_idle`).
const SEEK: Span = Span::from_millis(8);
/// The same without a head.
pub(super) const THINK_MIN: Span = Span::from_millis(2);

/// The reason for the end of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expiry {
    /// The wait for its next request ended without one.
    TooIdle,
    /// Its time is over.
    Timeout,
    /// Its next request exceeds the rest of its budget.
    Exhausted,
    /// It ran empty, and the device did not wait for it.
    NoMoreRequests,
    /// Another queue goes before it.
    Preempted,
}

/// The end of the time that counts as a queue's slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SlotTime {
    UntilNow,
    /// Until the device was left idle for the queue.
    UntilIdling,
}

impl Bfq {
    /// The largest budget in sectors, as far as the rate is known.
    pub(super) const fn trusted_max_budget(&self) -> u64 {
        if self.budgets_assigned < ASSIGNED_MIN { DEFAULT } else { self.max_budget }
    }

    pub(super) const fn min_budget(&self) -> u64 {
        self.trusted_max_budget() / 32
    }

    /// The peak rate changed: a full slot of a fast process shall just use up its budget.
    pub(super) const fn rate_changed(&mut self) {
        if self.tunables.max_budget == 0 {
            self.max_budget = self.rate.sectors_in(self.slot());
        }
    }

    /// How long a slot lasts.
    pub(super) const fn slot(&self) -> Span {
        TICKS.span(TICKS.of(self.tunables.timeout_sync))
    }

    /// Sets the time of a queue that was just selected.
    pub(super) fn begin_slot(&mut self, now: Time, id: QueueId) {
        self.queues[id].fifo_checked = false;
        self.budgets_assigned = (self.budgets_assigned * 7 + 256) / 8;
        self.prolong_soft_real_time(now, id);
        let entity = self.service.get(id);
        let times = if self.is_soft_real_time(id) { 1 } else { entity.weight / entity.base_weight };
        self.slot_began = now;
        let ticks = TICKS.of(self.tunables.timeout_sync) * u64::from(times);
        self.queues[id].budget_timeout = Some(TICKS.time(TICKS.at(now) + ticks));
        self.driver.service_position = elevator::Sector(0);
    }

    /// The queue's slot has lasted long enough.
    pub(super) fn is_timed_out(&self, now: Time, id: QueueId) -> bool {
        self.queues[id].budget_timeout.is_none_or(|timeout| timeout <= now)
    }

    /// Whether the slot may end for that: not while the device waits for the queue, unless the queue is slow.
    pub(super) fn may_time_out(&self, now: Time, id: QueueId) -> bool {
        (!self.queues[id].waits || self.has_third_left(id)) && self.is_timed_out(now, id)
    }

    fn has_third_left(&self, id: QueueId) -> bool {
        let entity = self.service.get(id);
        entity.budget_left() >= (entity.budget / 3) as i64
    }

    /// Ends the slot of the queue in service.
    pub(super) fn expire(&mut self, now: Time, id: QueueId, slot_time: SlotTime, why: Expiry) {
        let (slow, time) = self.judge_speed(now, id, slot_time);
        let raised = self.service.get(id).raising > 1;
        if !raised && (slow || (why == Expiry::Timeout && self.has_third_left(id))) {
            self.charge_time(now, id, time);
        }
        self.note_end_of_slot(now, id);
        self.sampling.stop();
        self.next_budget(id, why);
        self.leave_service(now, id, why);
        let goes_on_unattended =
            !self.service.get(id).busy && !matches!(why, Expiry::Timeout | Expiry::Exhausted);
        if goes_on_unattended {
            // Its service is kept: if its next request comes soon, it continues with the rest of this budget.
            self.queues[id].waits_unattended = true;
        } else {
            self.service.get_mut(id).service = 0;
        }
    }

    /// Whether the queue used its slot slowly, and the slot's length. Slow is less than half of the device's rate; for a
    /// short slot, whether the queue seeks decides.
    fn judge_speed(&self, now: Time, id: QueueId, slot_time: SlotTime) -> (bool, Span) {
        let queue = &self.queues[id];
        if !queue.sync {
            return (false, Span::ZERO);
        }
        let end = match slot_time {
            SlotTime::UntilNow => now,
            SlotTime::UntilIdling => self.idling_began,
        };
        let time = end.since(self.slot_began);
        if time < SLOT_SHORT {
            return (queue.is_seeky(), if self.driver.rotational { SEEK } else { THINK_MIN });
        }
        let slow = if time > SLOT_LONG {
            self.service.get(id).service < self.max_budget / 2
        } else {
            queue.is_seeky()
        };
        (slow, time)
    }

    /// Charges a slow queue as if it had been fast for its whole slot: seeky queues get fair shares of time, not of sectors,
    /// or they would ruin throughput for all.
    fn charge_time(&mut self, now: Time, id: QueueId, time: Span) {
        let timeout = self.slot().as_nanos() / 1_000_000;
        let time = (time.as_nanos() / 1_000_000).min(timeout);
        let entity = self.service.get_mut(id);
        let charged = entity.service;
        let total = (self.max_budget * time / timeout.max(1)).max(charged);
        entity.budget = entity.budget.max(total);
        self.served(now, id, total - charged);
    }

    /// The queue was given `sectors` of service.
    pub(super) fn served(&mut self, now: Time, id: QueueId, sectors: u64) {
        let queue = &mut self.queues[id];
        if queue.service_since_backlogged == 0 {
            queue.first_io = now;
        }
        if self.service.get(id).raising > 1 {
            queue.raising.service += sectors;
        }
        queue.service_since_backlogged += sectors;
        self.service.served(id, sectors);
    }

    /// Sets the queue's next budget by its use of this one.
    fn next_budget(&mut self, id: QueueId, why: Expiry) {
        let Some(budget) = self.earned_budget(id, why) else { return };
        let trusted = self.budgets_assigned >= ASSIGNED_MIN && self.tunables.max_budget == 0;
        let queue = &mut self.queues[id];
        queue.max_budget = if trusted { budget.min(self.max_budget) } else { budget };
        if let Some(next) = queue.next {
            let budget = queue.max_budget.max(self.charge(next));
            self.service.get_mut(id).budget = budget;
        }
    }

    /// Asynchronous queues get the largest budget (they are charged more), raised ones small budgets often. Others get more
    /// if time or budget was short, and less if it was not needed.
    fn earned_budget(&self, id: QueueId, why: Expiry) -> Option<u64> {
        let (queue, entity) = (&self.queues[id], self.service.get(id));
        let (min, max, had) = (self.min_budget(), self.max_budget, queue.max_budget);
        if !queue.sync {
            return Some(max);
        }
        if entity.raising > 1 {
            return Some(2 * min);
        }
        match why {
            Expiry::TooIdle if queue.dispatched == 0 && had > 5 * min => Some(had - 4 * min),
            Expiry::TooIdle if queue.dispatched == 0 => Some(min),
            Expiry::TooIdle | Expiry::Timeout => Some((had * 2).min(max)),
            Expiry::Exhausted => Some((had * 4).min(max)),
            Expiry::NoMoreRequests => Some(entity.service.max(min)),
            Expiry::Preempted => None,
        }
    }

    /// Puts the queue back in order, or removes it if it is empty. A queue preempted while the device waited for it stays in
    /// order although empty, if its share depends on that.
    pub(super) fn leave_service(&mut self, now: Time, id: QueueId, why: Expiry) {
        let must_stay = why == Expiry::Preempted && self.needs_idling(id);
        let queue = &mut self.queues[id];
        queue.to_split |= queue.shared && queue.is_seeky();
        if queue.is_empty() && !must_stay {
            if queue.dispatched == 0 {
                queue.budget_timeout = Some(now);
            }
            self.not_busy(now, id, Slot::Ends);
        } else {
            self.service.activate_or_requeue(id, Start::AtVirtualTime, Slot::Ends, now);
            self.reposition(now, id);
        }
        self.end_idling(id);
        self.queues[id].anticipated = false;
        self.service.end();
        self.free_if_unused(id);
    }

    /// The queue has requests again.
    pub(super) fn busy(&mut self, now: Time, id: QueueId) {
        let recovers = core::mem::take(&mut self.queues[id].waits_unattended);
        let start = if recovers { Start::AtLastFinish } else { Start::AtVirtualTime };
        self.service.activate_or_requeue(id, start, Slot::Unchanged, now);
        self.service.set_busy(id, true);
        let raised = self.service.get(id).raising > 1;
        if self.queues[id].dispatched == 0 && !raised {
            self.service.count_weight(id);
        }
        self.raised_busy += u32::from(raised);
        self.note_woken(id);
    }

    /// The queue has no requests, and the device does not idle for it.
    pub(super) fn not_busy(&mut self, now: Time, id: QueueId, slot: Slot) {
        self.service.set_busy(id, false);
        self.raised_busy -= u32::from(self.service.get(id).raising > 1);
        self.service.deactivate(id, slot, now);
        if self.queues[id].dispatched == 0 {
            self.service.uncount_weight(id);
        }
    }

    /// The budget of a queue that becomes busy. A queue that was not waited for but returned soon continues with its rest,
    /// and may preempt: it did not lose its turn by its own fault.
    pub(super) fn budget_for_activation(&mut self, id: QueueId, in_time: bool) -> bool {
        let queue = &self.queues[id];
        let left = self.service.get(id).budget_left();
        let recovers = queue.waits_unattended && in_time && left > 0;
        let budget = if recovers {
            queue.max_budget.min(left as u64)
        } else {
            queue.max_budget.max(queue.next.map_or(0, |next| self.charge(next)))
        };
        let entity = self.service.get_mut(id);
        entity.service = 0;
        entity.budget = budget;
        self.queues[id].waits_unattended &= recovers;
        recovers
    }
}
