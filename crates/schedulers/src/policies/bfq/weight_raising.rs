//! Raised weights: thirty times the usual for interactive queues, three thousand times for soft real-time ones.
//!
//! A queue is interactive when it begins, or after two idle seconds, for as long as a large application takes to start (3 to
//! 25 s, by the device's rate), or until it has been served 60 MB, which no application needs to start. It is soft real-time
//! when it requests at most 3.5 MB/s, in batches, each after the last one has completed. Only the default weight is raised: a
//! priority set by the user is respected.

use elevator::{Span, Time};

use super::queue::{ContextId, QueueId, Raised};
use super::service::Changes;
use super::{Bfq, passed};

/// The factor for interactive queues,
const INTERACTIVE: u32 = 30;
/// and for soft real-time ones, which must win against them.
const SOFT_REAL_TIME: u32 = INTERACTIVE * 100;
/// The duration of soft real-time without a new sign.
const SOFT_REAL_TIME_LASTS: Span = Span::from_millis(300);
/// The most sectors per second of a player.
const SOFT_REAL_TIME_RATE: u64 = 7_000;
/// A greedy process returns sooner than `slice_idle` and this: four jiffies.
const GREEDY_MARGIN: Span = Span::from_millis(16);
/// A queue that was idle for this long begins anew.
pub(super) const IDLE_MIN: Span = Span::from_secs(2);
/// An asynchronous queue becomes interactive after this long without a request.
const ASYNC_PAUSE: Span = Span::from_millis(500);
/// Sectors after which a queue is no longer starting up.
const SERVICE_MAX: u64 = 120_000;
/// A queue that was idle for this long has left its burst.
const CROWD_FORGOTTEN: Span = Span::from_secs(10);
/// The weight of queues without a set priority.
const DEFAULT_WEIGHT: u32 = 40;

/// The classification of a queue that becomes busy.
#[derive(Clone, Copy)]
struct Signs {
    interactive: bool,
    soft_real_time: bool,
    in_burst: bool,
}

impl Bfq {
    pub(super) fn is_soft_real_time(&self, id: QueueId) -> bool {
        self.queues[id].raising.why == Raised::SoftRealTime
    }

    /// Sets the factor of the queue's weight, to take effect when it is next put in order.
    pub(super) fn set_factor(&mut self, id: QueueId, factor: u32) {
        let entity = self.service.get_mut(id);
        let before = core::mem::replace(&mut entity.raising, factor);
        entity.changed |= before != factor;
        if entity.busy {
            self.raised_busy += u32::from(factor > 1);
            self.raised_busy -= u32::from(before > 1);
        }
    }

    fn raise(&mut self, id: QueueId, why: Raised) {
        let (factor, lasts) = match why {
            Raised::No => (1, Span::ZERO),
            Raised::Interactive => (INTERACTIVE, self.rate.interactive_time()),
            Raised::SoftRealTime => (SOFT_REAL_TIME, SOFT_REAL_TIME_LASTS),
        };
        self.set_factor(id, factor);
        let raising = &mut self.queues[id].raising;
        raising.why = why;
        raising.lasts = lasts;
    }

    pub(super) fn end_raising(&mut self, now: Time, id: QueueId) {
        if !self.is_soft_real_time(id) {
            // Service during the start does not predict later rates.
            self.queues[id].soft_rt_next = now;
        }
        self.raise(id, Raised::No);
        self.queues[id].raising.since = now;
        self.service.get_mut(id).changed = true;
    }

    /// Ends all raised weights.
    pub(super) fn end_all_raising(&mut self) {
        for id in self.queues.ids() {
            if self.queues.is_in_use(id) && self.service.get(id).raising > 1 {
                let since = self.queues[id].raising.since;
                self.end_raising(since, id);
            }
        }
    }

    /// Returns to interactive: the soft real-time period ended before the interactive one.
    fn resume_interactive(&mut self, id: QueueId) {
        self.raise(id, Raised::Interactive);
        let raising = &mut self.queues[id].raising;
        raising.since = raising.interactive_since.unwrap_or_default();
        self.service.get_mut(id).changed = true;
    }

    fn is_interactive_time_over(&self, now: Time, id: QueueId) -> bool {
        passed(now, self.queues[id].raising.interactive_since, self.rate.interactive_time())
    }

    fn was_idle_for_long(&self, now: Time, id: QueueId) -> bool {
        let queue = &self.queues[id];
        queue.dispatched == 0 && passed(now, queue.budget_timeout, IDLE_MIN)
    }

    fn signs(&self, now: Time, id: QueueId) -> Signs {
        let queue = &self.queues[id];
        let in_burst = queue.in_large_burst;
        let unasked = !in_burst && self.service.get(id).new_weight == DEFAULT_WEIGHT;
        Signs {
            interactive: unasked && self.was_idle_for_long(now, id),
            soft_real_time: unasked
                && !queue.is_totally_seeky()
                && queue.soft_rt_next < now
                && queue.dispatched == 0,
            in_burst,
        }
    }

    /// The queue becomes busy, with its budget set: determines whether it is raised, and returns whether it is interactive.
    /// Shared queues are not raised, unless they were merged permanently.
    pub(super) fn reconsider_raising(&mut self, now: Time, id: QueueId, context: ContextId) -> bool {
        let signs = self.signs(now, id);
        let queue = &self.queues[id];
        let one_task = queue.owner.is_some() || self.contexts[context].stably_merged;
        let deserves = queue.sync && one_task && (signs.interactive || signs.soft_real_time);
        let idle_for_long = self.was_idle_for_long(now, id);
        if !queue.just_created && idle_for_long && passed(now, queue.budget_timeout, CROWD_FORGOTTEN) {
            self.leave_burst(id);
        }
        let settled = passed(now, self.queues[id].split, IDLE_MIN);
        if self.tunables.low_latency && settled {
            match self.service.get(id).raising > 1 {
                true => self.update_raised(now, id, signs),
                false if deserves => self.begin_raising(id, signs),
                false => {}
            }
        }
        signs.interactive
    }

    /// Its first budgets are small, so that others do not wait long either.
    fn begin_raising(&mut self, id: QueueId, signs: Signs) {
        let raising = &mut self.queues[id].raising;
        if signs.interactive {
            raising.service = 0;
            self.raise(id, Raised::Interactive);
        } else {
            raising.interactive_since = None;
            self.raise(id, Raised::SoftRealTime);
        }
        let small = 2 * self.min_budget();
        let entity = self.service.get_mut(id);
        entity.budget = entity.budget.min(small);
    }

    fn update_raised(&mut self, now: Time, id: QueueId, signs: Signs) {
        if signs.interactive {
            self.raise(id, Raised::Interactive);
        } else if signs.in_burst {
            self.set_factor(id, 1);
        } else if signs.soft_real_time {
            if !self.is_soft_real_time(id) {
                let raising = &mut self.queues[id].raising;
                raising.interactive_since = Some(raising.since);
                self.raise(id, Raised::SoftRealTime);
            }
            self.queues[id].raising.since = now;
        }
    }

    /// A request arrived at an asynchronous queue after a pause: a process has begun to write.
    pub(super) fn reconsider_async(&mut self, now: Time, id: QueueId, sync: bool) {
        let raised = self.service.get(id).raising > 1;
        let paused = passed(now, Some(self.queues[id].raising.since), ASYNC_PAUSE);
        if self.tunables.low_latency && !raised && !sync && paused {
            self.raise(id, Raised::Interactive);
        }
    }

    /// A request of the queue was dispatched: ends its raised weight if its time is over.
    pub(super) fn check_raising(&mut self, now: Time, id: QueueId) {
        if self.service.get(id).raising > 1 {
            self.check_end_of_raising(now, id);
        }
        let entity = self.service.get(id);
        if (entity.weight > entity.base_weight) != (entity.raising > 1) {
            self.service.apply_changes(id, Changes::Weight);
        }
    }

    fn check_end_of_raising(&mut self, now: Time, id: QueueId) {
        let raising = self.queues[id].raising;
        if self.queues[id].in_large_burst {
            self.end_raising(now, id);
        } else if passed(now, Some(raising.since), raising.lasts) {
            if !self.is_soft_real_time(id) || self.is_interactive_time_over(now, id) {
                self.end_raising(now, id);
            } else {
                self.resume_interactive(id);
            }
        }
        let served = self.queues[id].raising.service > SERVICE_MAX;
        if self.service.get(id).raising > 1 && !self.is_soft_real_time(id) && served {
            self.end_raising(now, id);
        }
    }

    /// A soft real-time queue that only seeks is not soft real-time.
    pub(super) fn check_seeks_of_soft_real_time(&mut self, now: Time, id: QueueId) {
        let raised = self.service.get(id).raising > 1 && self.is_soft_real_time(id);
        if raised && self.queues[id].is_totally_seeky() {
            if self.is_interactive_time_over(now, id) {
                self.end_raising(now, id);
            } else {
                self.resume_interactive(id);
            }
        }
    }

    /// Time without service does not count against a soft real-time queue.
    pub(super) fn prolong_soft_real_time(&mut self, now: Time, id: QueueId) {
        let raised = self.service.get(id).raising > 1 && self.is_soft_real_time(id);
        let queue = &mut self.queues[id];
        let since = queue.raising.since;
        if raised && since < now && queue.budget_timeout.is_none_or(|out| out < now) {
            queue.raising.since = match queue.budget_timeout {
                Some(out) if out > since => since + now.since(out),
                _ => now,
            };
        }
    }

    /// A slot ended: the earliest time at which the queue's next request is that of a soft real-time process.
    pub(super) fn note_end_of_slot(&mut self, now: Time, id: QueueId) {
        if !self.tunables.low_latency {
            return;
        }
        if self.service.get(id).raising == 1 {
            self.queues[id].raising.since = now;
        }
        if self.queues[id].is_empty() {
            if self.queues[id].dispatched == 0 {
                self.set_soft_rt_next(now, id);
            } else {
                self.queues[id].soft_rt_pending = true;
            }
        }
    }

    /// The same, deferred until the last of its requests has completed.
    pub(super) fn note_last_completion(&mut self, now: Time, id: QueueId) {
        let queue = &self.queues[id];
        let done = queue.soft_rt_pending && queue.dispatched == 0 && queue.is_empty();
        if done && self.service.get(id).raising != INTERACTIVE {
            self.set_soft_rt_next(now, id);
        }
    }

    /// Not before the next request of a process with that rate, and not so soon that a greedy process would qualify.
    fn set_soft_rt_next(&mut self, now: Time, id: QueueId) {
        let margin = self.tunables.slice_idle + GREEDY_MARGIN;
        let queue = &mut self.queues[id];
        let paced = Span::from_secs(queue.service_since_backlogged) / SOFT_REAL_TIME_RATE;
        queue.soft_rt_next = queue.soft_rt_next.max(queue.backlogged + paced).max(now + margin);
    }

    /// The state that a queue would have had without being merged at its creation.
    pub(super) fn factor_at_creation(&self) -> (u32, Raised, Span) {
        (INTERACTIVE, Raised::Interactive, self.rate.interactive_time())
    }

    /// A queue that was split continues in its former state, if its time is not over.
    pub(super) fn resume_raising(&mut self, now: Time, id: QueueId, factor: u32) {
        if self.tunables.low_latency {
            self.set_factor(id, factor);
        }
        let queue = &self.queues[id];
        let over = queue.in_large_burst || passed(now, Some(queue.raising.since), queue.raising.lasts);
        if self.service.get(id).raising > 1 && over {
            let soft = self.is_soft_real_time(id) && !self.queues[id].in_large_burst;
            if soft && !self.is_interactive_time_over(now, id) {
                self.resume_interactive(id);
            } else {
                self.set_factor(id, 1);
            }
        }
        self.service.get_mut(id).changed = true;
    }
}
