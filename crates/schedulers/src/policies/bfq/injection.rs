//! Injection: requests of other queues while the queue in service is empty; their limit, and queues that wake others.
//!
//! An injected request is harmless if the queue's own next request takes less than one and a half times as long as alone. The
//! limit of requests in the device is learnt: it rises by one after a harmless injection and falls by one after a harmful
//! one. It is reset once a second.
//!
//! Some queues are empty because they wait for another queue's requests (a database for its log). If a queue with a long
//! think time becomes busy within 4 ms of a completion of the same other queue three times in a row, that queue is its waker,
//! and is served while the device idles for the woken one.

use elevator::{RequestId, Span, Time};

use super::Bfq;
use super::queue::QueueId;
use super::queue::{ContextId, Injection};

/// The least time between two changes of a limit.
const PAUSE: Span = Span::from_millis(10);
/// The time after which a limit is reset.
const FORGET: Span = Span::from_secs(1);
/// How long a queue that begins to think briefly keeps its limit.
const FORGET_ON_CHANGE: Span = Span::from_millis(100);
/// From the waker's completion to the woken one's request.
const WAKES_WITHIN: Span = Span::from_millis(4);
/// The number of times in a row.
const WAKES: u32 = 3;
/// Within so many times `slice_idle`.
const WAKES_SLICES: u64 = 128;
/// On a solid-state device, one request of this many sectors at a time.
const LARGE: u64 = 64;

/// Measures the effect of injections on the queue in service: from a request that found it empty, to its end.
#[derive(Default)]
pub(super) struct Sampling {
    /// When the request arrived.
    began: Time,
    /// It has not been dispatched yet.
    awaits_dispatch: bool,
    /// It has, and is this one.
    request: Option<RequestId>,
    /// Requests of other queues were dispatched meanwhile.
    injected: bool,
}

impl Sampling {
    pub(super) const fn stop(&mut self) {
        self.awaits_dispatch = false;
        self.request = None;
        self.injected = false;
    }

    /// The queue in service sends a request.
    pub(super) const fn dispatched(&mut self, id: RequestId) {
        if self.awaits_dispatch {
            self.awaits_dispatch = false;
            self.request = Some(id);
        }
    }
}

impl Bfq {
    /// A request arrived at a queue whose process had none: determines its waker, and begins a measurement.
    pub(super) fn prepare_injection(&mut self, now: Time, id: QueueId) {
        self.look_for_waker(now, id);
        if self.queues[id].injection.lowered + FORGET <= now {
            self.reset_injection(now, id);
        }
        let injection = self.queues[id].injection;
        let alone = self.driver.in_flight == 0;
        let measurable = alone || (injection.alone.is_some() && self.sampling.injected);
        if self.in_service() == Some(id) && measurable && injection.lowered + PAUSE <= now {
            self.sampling.began = now;
            self.sampling.awaits_dispatch = true;
            self.sampling.injected &= !alone;
        }
    }

    /// Resets the limit: one request for a queue with a long think time, none otherwise.
    fn reset_injection(&mut self, now: Time, id: QueueId) {
        self.sampling.request = None;
        let queue = &mut self.queues[id];
        queue.injection = Injection { limit: u32::from(!queue.thinks_briefly), alone: None, lowered: now };
    }

    /// The queue's think time became long or short.
    pub(super) fn think_time_changed(&mut self, now: Time, id: QueueId) {
        let queue = &self.queues[id];
        let unlearnt = queue.injection.alone.is_none();
        if unlearnt && (!queue.thinks_briefly || queue.injection.lowered + FORGET_ON_CHANGE <= now) {
            self.reset_injection(now, id);
        }
    }

    /// A request ends; if it is the measured one, the limit is adapted. Called before it is counted out of the device.
    pub(super) fn learn_from(&mut self, now: Time, request: RequestId, id: QueueId) {
        if self.sampling.request != Some(request) {
            return;
        }
        let took = now.since(self.sampling.began);
        let injected = self.sampling.injected;
        let last_in_flight = self.driver.in_flight == 1;
        let in_flight_max = self.driver.in_flight_max;
        let injection = &mut self.queues[id].injection;
        let limit_before = injection.limit;
        if let Some(alone) = injection.alone.filter(|_| injected) {
            if took >= alone + alone / 2 && limit_before > 0 {
                injection.limit -= 1;
                injection.lowered = now;
            } else if took < alone + alone / 2 && limit_before <= in_flight_max {
                injection.limit += 1;
            }
        }
        match injection.alone {
            None if last_in_flight => {
                injection.limit = limit_before.max(1);
                injection.alone = Some(took);
            }
            Some(alone) if took < alone || (!injected && last_in_flight) => injection.alone = Some(took),
            _ => {}
        }
        self.sampling.request = None;
        self.sampling.injected = false;
    }

    fn look_for_waker(&mut self, now: Time, id: QueueId) {
        let Some(last) = self.queues.resolve(self.last_completed).filter(|&last| last != id) else { return };
        let soon = now.since(self.driver.last_completion) < WAKES_WITHIN;
        if self.queues[id].thinks_briefly || !soon {
            return;
        }
        let again = self.queues.resolve(self.queues[id].tentative_waker) == Some(last);
        let limit = self.tunables.slice_idle * WAKES_SLICES;
        let handle = self.queues.handle(last);
        let queue = &mut self.queues[id];
        if again && now <= queue.waker_since + limit {
            queue.waker_detections += 1;
        } else {
            queue.tentative_waker = Some(handle);
            queue.waker_detections = 1;
            queue.waker_since = now;
        }
        if queue.waker_detections == WAKES {
            self.set_waker(id, last);
        }
    }

    pub(super) fn set_waker(&mut self, id: QueueId, waker: QueueId) {
        self.queues[id].waker = Some(self.queues.handle(waker));
        self.queues[id].tentative_waker = None;
        self.queues[waker].woken = Some(self.queues.handle(id));
    }

    /// Of the queues that one queue wakes, only the latest to become busy is stored.
    pub(super) fn note_woken(&mut self, id: QueueId) {
        if let Some(waker) = self.queues.resolve(self.queues[id].waker) {
            self.queues[waker].woken = Some(self.queues.handle(id));
        }
    }

    /// A queue that has a request which fits into its budget.
    fn has_fitting(&self, id: QueueId) -> bool {
        self.service.get(id).busy && self.fits(id)
    }

    /// Whose request may be sent while the queue in service is waited for.
    pub(super) fn injectable(&mut self, id: QueueId) -> Option<QueueId> {
        let queue = &self.queues[id];
        if let Some(own) = queue.owner.and_then(|owner| self.own_async(owner)) {
            return Some(own);
        }
        let waker = self.queues.resolve(queue.waker);
        let woken = self.queues.resolve(queue.woken);
        let woken = woken.filter(|&woken| self.queues.resolve(self.queues[woken].waker) == Some(id));
        if let Some(friend) = [waker, woken].into_iter().flatten().find(|&id| self.has_fitting(id)) {
            return Some(friend);
        }
        let raised = self.service.get(id).raising > 1;
        let harmless = !raised || self.raised_busy > 1 || !queue.thinks_briefly;
        let may = harmless && !self.idling_pays(id);
        may.then(|| self.choose_for_injection(id, raised)).flatten()
    }

    /// The process's own asynchronous requests can only do it good.
    fn own_async(&self, owner: ContextId) -> Option<QueueId> {
        let id = self.contexts[owner].asynchronous.filter(|&id| self.has_fitting(id))?;
        let next = self.queues[id].next?;
        (self.requests[next].context == owner).then_some(id)
    }

    fn choose_for_injection(&mut self, id: QueueId, raised: bool) -> Option<QueueId> {
        let queue = &self.queues[id];
        if self.driver.in_flight >= queue.injection.limit {
            return None;
        }
        let anybody = !raised || !queue.thinks_briefly;
        let chosen = self.service.active().find(|&other| {
            self.fits(other)
                && (anybody || self.service.get(other).raising > 1)
                && !(self.is_large_on_solid_state(other) && self.driver.in_flight > 0)
        });
        self.sampling.injected |= chosen.is_some();
        chosen
    }

    fn is_large_on_solid_state(&self, id: QueueId) -> bool {
        let large = |next| self.requests[next].sectors >= LARGE;
        !self.driver.rotational && self.queues[id].next.is_some_and(large)
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;

    use elevator::Process;

    use super::*;
    use crate::testing::{Table, at_ms};

    /// The first request of process 1 was sent at 0 ms; process 2 has a queue, too.
    fn served() -> (Table<Bfq>, RequestId, [QueueId; 2]) {
        let mut t = Table::of(Box::new(Bfq::new(true, 256)));
        t.scheduler.tunables.low_latency = false;
        t.depth = 31;
        let first = t.read_by(1, 1_000);
        t.read_by(2, 900_000_000);
        assert_eq!(t.dispatches(), first);
        let queue_of = |process| {
            let context = t.scheduler.contexts.find(Some(Process::single(process))).unwrap();
            t.scheduler.queue_of(context, true).unwrap()
        };
        let queues = [queue_of(1), queue_of(2)];
        (t, first, queues)
    }

    #[test]
    fn the_limit_of_injected_requests_follows_the_time_of_the_queues_own_requests() {
        let ms = |ms| Some(Span::from_millis(ms));
        let most = 4;
        // The time alone so far, whether others were injected, the limit, the time now, requests in the device; the limit and the time alone then.
        for (alone, injected, limit, took, in_flight, limit_then, alone_then) in [
            (None, false, 0, 10, 1, 1, ms(10)),
            (None, false, 3, 10, 1, 3, ms(10)),
            (None, true, 0, 10, 2, 0, None),
            // Half as long again is harmful.
            (ms(10), true, 2, 15, 2, 1, ms(10)),
            (ms(10), true, 0, 15, 2, 0, ms(10)),
            (ms(10), true, 2, 14, 2, 3, ms(10)),
            (ms(10), true, most, 14, 2, most + 1, ms(10)),
            (ms(10), true, most + 1, 14, 2, most + 1, ms(10)),
            // The time alone is the shortest, or that of the last request that was alone.
            (ms(10), true, 2, 9, 2, 3, ms(9)),
            (ms(10), false, 2, 20, 1, 2, ms(20)),
            (ms(10), false, 2, 20, 2, 2, ms(10)),
        ] {
            let (mut t, first, [queue, _]) = served();
            let bfq = &mut *t.scheduler;
            (bfq.driver.in_flight, bfq.driver.in_flight_max) = (in_flight, most);
            bfq.queues[queue].injection = Injection { limit, alone, lowered: Time::ZERO };
            bfq.sampling =
                Sampling { began: at_ms(100), awaits_dispatch: false, request: Some(first), injected };
            bfq.learn_from(at_ms(100 + took), first, queue);
            let Injection { limit: now, alone: time, lowered } = bfq.queues[queue].injection;
            assert_eq!(
                (now, time),
                (limit_then, alone_then),
                "{alone:?}, {injected}, {limit}, {took} ms, {in_flight}"
            );
            assert_eq!(lowered > Time::ZERO, now < limit, "it is not lowered again at once");
            assert!(bfq.sampling.request.is_none() && !bfq.sampling.injected);
        }
        let (mut t, first, [queue, _]) = served();
        let before = t.scheduler.queues[queue].injection.limit;
        t.scheduler.learn_from(at_ms(1), first, queue);
        assert_eq!(t.scheduler.queues[queue].injection.alone, None, "no measurement was begun");
        assert_eq!(t.scheduler.queues[queue].injection.limit, before);
    }

    #[test]
    fn limits_are_reset_after_a_second() {
        for (briefly, limit) in [(true, 0), (false, 1)] {
            for (age, is_reset) in [(999, false), (1_000, true)] {
                let (mut t, _, [queue, _]) = served();
                let alone = Some(Span::from_millis(10));
                t.scheduler.queues[queue].thinks_briefly = briefly;
                t.scheduler.queues[queue].injection = Injection { limit: 7, alone, lowered: at_ms(1) };
                t.scheduler.prepare_injection(at_ms(1 + age), queue);
                assert_eq!(t.scheduler.queues[queue].injection.limit, if is_reset { limit } else { 7 });
                assert_eq!(t.scheduler.queues[queue].injection.alone.is_none(), is_reset);
            }
        }
    }

    /// A measurement begins with a request of the queue in service, alone or after injected ones, 10 ms after the limit was lowered.
    #[test]
    fn a_measurement_begins_with_a_request_that_found_the_queue_empty() {
        let alone = Some(Span::from_millis(10));
        for (is_in_service, in_flight, injected, alone, since, begins) in [
            (true, 0, false, None, 10, true),
            (true, 0, true, None, 9, false),
            (false, 0, false, None, 10, false),
            (true, 1, true, alone, 10, true),
            (true, 1, true, None, 10, false),
            (true, 1, false, alone, 10, false),
        ] {
            let (mut t, _, queues) = served();
            let queue = queues[usize::from(!is_in_service)];
            let bfq = &mut *t.scheduler;
            bfq.driver.in_flight = in_flight;
            bfq.sampling = Sampling { injected, ..Sampling::default() };
            bfq.queues[queue].injection = Injection { limit: 1, alone, lowered: at_ms(100) };
            bfq.prepare_injection(at_ms(100 + since), queue);
            assert_eq!(
                bfq.sampling.awaits_dispatch, begins,
                "{is_in_service}, {in_flight}, {injected}, {since}"
            );
            if begins {
                assert_eq!((bfq.sampling.began, bfq.sampling.injected), (at_ms(100 + since), in_flight > 0));
            }
        }
    }

    /// It has become busy within 4 ms of a completion of the waker three times in a row, within 128 times `slice_idle`.
    #[test]
    fn a_queue_that_waits_for_another_one_three_times_has_a_waker() {
        let brief = |bfq: &mut Bfq, id: QueueId| bfq.queues[id].thinks_briefly = true;
        let none = |_: &mut Bfq, _: QueueId| ();
        // The time after each completion, between two of them, and what else is different.
        for (after, apart, change, is_woken) in [
            (3_999, 512, none as fn(&mut Bfq, QueueId), true),
            (4_000, 512, none, false),
            (1_000, 513, none, false),
            (1_000, 10, brief, false),
        ] {
            let (mut t, _, [waker, woken]) = served();
            let bfq = &mut *t.scheduler;
            bfq.last_completed = Some(bfq.queues.handle(waker));
            bfq.queues[woken].thinks_briefly = false;
            change(bfq, woken);
            for n in 1..=3 {
                assert_eq!(bfq.queues[woken].waker, None);
                bfq.driver.last_completion = at_ms(n * apart);
                bfq.look_for_waker(at_ms(n * apart) + Span::from_micros(after), woken);
            }
            let found = bfq.queues.resolve(bfq.queues[woken].waker);
            assert_eq!(found, is_woken.then_some(waker), "{after} us, {apart} ms");
            let back = bfq.queues.resolve(bfq.queues[waker].woken);
            assert_eq!(back, is_woken.then_some(woken));
        }
        // No queue wakes itself.
        let (mut t, _, [queue, _]) = served();
        let bfq = &mut *t.scheduler;
        bfq.last_completed = Some(bfq.queues.handle(queue));
        bfq.queues[queue].thinks_briefly = false;
        (0..3).for_each(|_| bfq.look_for_waker(Time::ZERO, queue));
        assert_eq!(bfq.queues[queue].waker, None);
    }
}
