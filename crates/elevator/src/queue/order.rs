//! Draining: a barrier, or a switch of schedulers, for which later submissions wait.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::fault::Fault;
use super::flush::Then;
use super::hosted::{Noop, contained};
use super::parts::PartId;
use super::{Barriers, Event, Observer, Queue, State, SwitchReport};
use crate::cold_path;
use crate::request::RequestId;
use crate::scheduler::Scheduler;
use crate::time::{Span, Time};

/// How a switch of schedulers treats queued requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwitchMode {
    /// The new scheduler takes over the queued requests at once.
    Transfer,
    /// The queue is drained first, while new submissions wait, as in Linux.
    Drain,
}

/// The purpose of draining.
enum Barrier {
    /// An ordered submission, not yet started.
    Waiting(PartId),
    /// An ordered submission that has started.
    Running,
    /// A flush, for which all later submissions wait outside the queue.
    Flush,
    /// Another scheduler, and the time of the order.
    Switch(Box<dyn Scheduler>, Time),
}

/// The barrier, if there is one, and everything submitted behind it.
#[derive(Default)]
pub(super) struct Order {
    barrier: Option<Barrier>,
    behind: VecDeque<PartId>,
}

impl Order {
    pub(super) const fn is_draining(&self) -> bool {
        if self.barrier.is_some() {
            cold_path();
        }
        self.barrier.is_some()
    }

    /// Holds `part` back if there is a barrier before it; returns whether that is so.
    pub(super) fn holds_back(&mut self, part: PartId) -> bool {
        let held_back = self.is_draining();
        if held_back {
            self.behind.push_back(part);
        }
        held_back
    }
}

impl<O: Observer> Queue<O> {
    /// Switches to another scheduler. With [`SwitchMode::Transfer`] the switch is complete on return, and its report is returned; with
    /// [`SwitchMode::Drain`] too if there is nothing to drain. Otherwise the observer receives the report when the queue has drained.
    pub fn switch(
        &mut self,
        now: Time,
        scheduler: Box<dyn Scheduler>,
        mode: SwitchMode,
    ) -> Option<SwitchReport> {
        self.unplug(now);
        let report = self.switch_to(now, scheduler, mode);
        self.recover(now);
        report
    }

    fn switch_to(
        &mut self,
        now: Time,
        scheduler: Box<dyn Scheduler>,
        mode: SwitchMode,
    ) -> Option<SwitchReport> {
        match mode {
            SwitchMode::Transfer => {
                let report = self.take_over(now, Some(scheduler), now);
                // A scheduler that waits for the queue to drain was ordered earlier than this one.
                if let Some(Barrier::Switch(waiting, _)) =
                    self.order.barrier.take_if(|barrier| matches!(barrier, Barrier::Switch(..)))
                {
                    self.hosted.discard(waiting);
                    self.release(now);
                }
                Some(report)
            }
            SwitchMode::Drain => {
                if let Some(Barrier::Switch(waiting, _)) = &mut self.order.barrier {
                    let replaced = core::mem::replace(waiting, scheduler);
                    self.hosted.discard(replaced);
                } else if self.order.barrier.is_some() || self.drained() {
                    // The queue already drains for a barrier, or there is nothing to drain: the switch happens now.
                    return Some(self.take_over(now, Some(scheduler), now));
                } else {
                    self.order.barrier = Some(Barrier::Switch(scheduler, now));
                }
                None
            }
        }
    }

    /// Replaces the scheduler, with the queue's own policy if `None`, and transfers the queued requests. First reports a fault of the old
    /// one, if there is one.
    pub(super) fn take_over(
        &mut self,
        now: Time,
        scheduler: Option<Box<dyn Scheduler>>,
        ordered: Time,
    ) -> SwitchReport {
        if let Some(fault) = self.hosted.fault {
            self.report_fault(now, fault);
        }
        self.hosted.replace(scheduler);
        self.reset_watchdog();
        self.generation += 1;
        self.last_hold = None;
        let ids = self.queued_in_order();
        let moved = ids.len() as u32;
        let report = SwitchReport { moved, in_flight: self.in_flight, drained_for: now.since(ordered) };
        self.observer.event(now, &Event::Switched(report));
        for id in ids {
            let meta = &mut self.meta[id.index()];
            (meta.inserted, meta.inserted_behind) = (now, 0);
            let request = &self.requests[id];
            self.hosted.call("insert", |scheduler| scheduler.insert(now, request));
        }
        if self.flushes.is_running() {
            self.hosted.call("flushing", |scheduler| scheduler.flushing(now));
        }
        report
    }

    fn queued_in_order(&self) -> Vec<RequestId> {
        let mut ids: Vec<RequestId> = self
            .requests
            .iter()
            .filter(|request| self.meta[request.id.index()].state == State::Queued)
            .map(|request| request.id)
            .collect();
        ids.sort_unstable_by_key(|&id| self.requests[id].serial);
        ids
    }

    #[cold]
    pub(super) fn begin_barrier(&mut self, now: Time, part: PartId) {
        self.unplug(now);
        self.order.barrier = Some(Barrier::Waiting(part));
    }

    /// A submission waits for a flush. With a worker in front of the queue ([`Barriers::Serial`](super::Barriers::Serial)), later submissions wait too.
    #[cold]
    pub(super) fn wait_for_flush(&mut self, part: PartId, then: Then) {
        self.flushes.wait(part, then);
        if self.options.barriers == Barriers::Serial {
            self.order.barrier.get_or_insert(Barrier::Flush);
        }
    }

    /// Continues everything that an ended request or flush has unblocked.
    #[inline]
    pub(super) fn settle(&mut self, now: Time) {
        self.continue_waiting(now);
        if self.order.is_draining() {
            self.drain(now);
        }
    }

    /// Continues with the purpose of draining when the queue has drained.
    #[cold]
    fn drain(&mut self, now: Time) {
        while self.order.is_draining() && self.may_go_on() {
            match self.order.barrier.take() {
                None => break,
                Some(Barrier::Waiting(part)) => {
                    self.order.barrier = Some(Barrier::Running);
                    let _ = self.start(now, part);
                }
                Some(Barrier::Running | Barrier::Flush) => self.release(now),
                Some(Barrier::Switch(scheduler, ordered)) => {
                    self.take_over(now, Some(scheduler), ordered);
                    self.release(now);
                }
            }
        }
    }

    fn may_go_on(&self) -> bool {
        if matches!(self.order.barrier, Some(Barrier::Flush)) {
            self.flushes.is_quiet()
        } else {
            self.drained()
        }
    }

    fn drained(&self) -> bool {
        self.requests.is_empty() && self.flushes.is_quiet()
    }

    /// Continues submissions behind the barrier, up to the next barrier.
    fn release(&mut self, now: Time) {
        while self.order.barrier.is_none() {
            let Some(part) = self.order.behind.pop_front() else { break };
            let _ = self.accept(now, part);
        }
    }

    /// Calls the scheduler that was chosen last: the one hosted, or the one that takes over once the queue has drained. `None` if the
    /// call panics: the queue's own policy then takes the place of that scheduler.
    pub fn with_chosen<R>(
        &mut self,
        now: Time,
        method: &'static str,
        call: impl FnOnce(&mut dyn Scheduler) -> R,
    ) -> Option<R> {
        let Some(Barrier::Switch(next, _)) = &mut self.order.barrier else {
            let result = self.hosted.call(method, call);
            self.recover(now);
            return result;
        };
        let Some(contain) = self.hosted.contain else { return Some(call(&mut **next)) };
        let result = contained(contain, || call(&mut **next));
        if result.is_none() {
            let noop: Box<dyn Scheduler> = Box::new(Noop::default());
            let faulty = core::mem::replace(next, noop);
            self.hosted.discard(faulty);
            self.report_fault(now, Fault::Panicked { method });
        }
        result
    }

    /// The time for which a barrier has held submissions back, for display.
    #[must_use]
    pub fn draining_for(&self, now: Time) -> Option<Span> {
        match &self.order.barrier {
            Some(Barrier::Switch(_, since)) => Some(now.since(*since)),
            _ => None,
        }
    }
}
