//! Faults of a scheduler: their detection while the queue runs, and the recovery.
//!
//! A scheduler is untrusted code: users write their own. A fault must cost the user the policy, not the device. The queue owns every
//! request, so it can recover from any fault: it replaces the scheduler by a built-in first-come-first-served policy (`noop`) and
//! inserts every queued request there in order of arrival. No request is lost, none is dispatched twice.
//!
//! | fault | detected |
//! |---|---|
//! | an id that names no queued request | at once, when the scheduler returns it |
//! | `Idle` with requests queued; a hold without end or with an end that has passed | at once |
//! | a panic | at once, if the host sets [`Queue::contain_panics`] |
//! | an endless hold | after [`Supervision::longest_hold`] |
//! | a request that is never dispatched | after [`Supervision::oldest`] and [`Supervision::overtaken`] |
//!
//! The two time limits count only time for which the scheduler is responsible:
//! - A hold counts while requests are queued and the device has nothing but a flush to do. While the device is busy, however slow it
//!   is, nothing counts.
//! - A request ages from its insertion into the present scheduler. Submissions behind a barrier, asleep, or in the plug have not been
//!   inserted. A request is overdue at the maximum age if the scheduler has dispatched many others since, so a slow device with a long
//!   backlog triggers nothing; and otherwise at ten times that age, if the device could have served all requests twice meanwhile at its
//!   slowest. After a time without calls of the scheduler (the device hung, or the host was stopped), the ten times count from its end. A
//!   scheduler that states a bound ([`Scheduler::longest_wait`]) has at least twice that bound. Requests of the idle class are exempt: they
//!   wait for as long as other classes have requests.
//! - Policies that work above the block layer are exempt from both. They limit the rates of processes, so a hold may last for as long
//!   as a process is in debt. A modelled machine or `dwell serve --causes` hosts them. In front of a served device, `dwell ctl switch`
//!   or the end of the account's last agent ends such a hold.
//!
//! An endless loop inside a call is not detected here, since the call does not return. The host's own watchdog must end it.

use super::fault::Fault;
use super::hosted::Contain;
use super::{Event, Observer, Queue, State};
use crate::cold_path;
use crate::request::{PriorityClass, RequestId};
use crate::scheduler::{Hold, Load, Wake};
use crate::time::{Span, Time};

/// The data for the detection of faults.
#[derive(Default)]
pub(super) struct Watchdog {
    /// Since when the scheduler has held back an idle device.
    held_since: Option<Time>,
    /// When the ages of queued requests are compared with the limit next.
    next_scan: Time,
    /// Requests that the scheduler has dispatched.
    pub(super) dispatched: u64,
    /// The longest time that the device took for a request, its own queue included.
    longest_service: Span,
    /// The maximum number of requests that were queued or in flight at the same time.
    most: u32,
    /// Since when the scheduler was called without a long interruption.
    called_since: Time,
}

impl Watchdog {
    /// Requests are scanned this many times within their limit.
    const SCANS: u64 = 8;

    /// A request of so many times the limit is overdue whatever the scheduler has dispatched.
    const OLD: u64 = 10;

    /// The scheduler made progress, or holds no request back.
    #[inline]
    pub(super) const fn progressed(&mut self) {
        self.held_since = None;
    }

    /// The device has completed a request.
    #[inline]
    pub(super) fn served(&mut self, took: Span) {
        self.held_since = None;
        self.longest_service = self.longest_service.max(took);
    }
}

impl<O: Observer> Queue<O> {
    /// From now on the queue calls its scheduler through `contain`, which must run the closure and return whether it ended without a
    /// panic. A host with the standard library passes a function around `catch_unwind`; a kernel, where a panic does not unwind, sets
    /// nothing. The panic message of the standard library's hook is still printed.
    pub const fn contain_panics(&mut self, contain: Contain) {
        self.hosted.contain = Some(contain);
    }

    /// Whether the queue has replaced a faulty scheduler by its own and no other was switched to since.
    #[must_use]
    pub const fn has_fallen_back(&self) -> bool {
        self.hosted.is_fallback
    }

    /// Replaces the scheduler if a call has found it faulty.
    #[inline]
    pub(super) fn recover(&mut self, now: Time) {
        if self.hosted.fault.is_some() {
            cold_path();
            self.fall_back(now);
        }
    }

    #[cold]
    fn fall_back(&mut self, now: Time) {
        // Taking over reports the fault.
        self.take_over(now, None, now);
    }

    /// Checks the id of a dispatch.
    #[inline]
    pub(super) fn check_dispatch(&self, id: RequestId) -> Result<(), Fault> {
        // An ended id keeps its last state, so both must be checked.
        let queued = self.requests.get(id).is_some() && self.meta[id.index()].state == State::Queued;
        if queued { Ok(()) } else { Err(Fault::NotQueued(id)) }
    }

    /// Checks a hold. Returns it with an end that is not later than the time limit.
    pub(super) fn check_hold(&mut self, now: Time, hold: Hold) -> Result<Hold, Fault> {
        if self.queued == 0 {
            self.watchdog.held_since = None;
            return Ok(hold);
        }
        match (hold.wake, hold.until) {
            (_, Some(until)) if until <= now => return Err(Fault::HoldInThePast(hold)),
            (Wake::Timer, None) => return Err(Fault::HoldWithoutEnd(hold)),
            (Wake::Completion, None) if self.in_flight == 0 => return Err(Fault::HoldWithoutEnd(hold)),
            _ => {}
        }
        let counts = self.is_idle_for_scheduler() && !self.hosted.is_split;
        let (Some(limit), true) = (self.options.supervision.longest_hold, counts) else {
            self.watchdog.held_since = None;
            return Ok(hold);
        };
        let since = *self.watchdog.held_since.get_or_insert(now);
        let held = now.since(since);
        if held >= limit {
            return Err(Fault::HeldTooLong { hold, held });
        }
        let end = since + limit;
        Ok(Hold { until: Some(hold.until.map_or(end, |until| until.min(end))), ..hold })
    }

    /// Whether the device has nothing to do but a flush, which schedulers do not dispatch.
    fn is_idle_for_scheduler(&self) -> bool {
        self.in_flight == u32::from(self.flushes.is_running())
    }

    /// Returns a fault if a request is overdue. Scans all queued requests, but only a few times within the limit.
    #[inline]
    pub(super) fn check_ages(&mut self, now: Time) -> Result<(), Fault> {
        if now < self.watchdog.next_scan {
            return Ok(());
        }
        self.scan_ages(now)
    }

    #[cold]
    fn scan_ages(&mut self, now: Time) -> Result<(), Fault> {
        let Some(limit) = self.options.supervision.oldest.filter(|_| !self.hosted.is_split) else {
            self.watchdog.next_scan = Time::from_nanos(u64::MAX);
            return Ok(());
        };
        if now >= self.watchdog.next_scan + limit {
            self.watchdog.called_since = now;
        }
        self.watchdog.next_scan = now + Span::from_nanos(limit.as_nanos() / Watchdog::SCANS + 1);
        let Watchdog { most, longest_service, called_since, .. } = self.watchdog;
        let twice = Span::from_nanos(longest_service.as_nanos().saturating_mul(2 * u64::from(most)));
        let old = Span::from_nanos(limit.as_nanos().saturating_mul(Watchdog::OLD)).max(twice);
        let (overtaken, dispatched) = (self.options.supervision.overtaken, self.watchdog.dispatched);
        let queued = self.requests.iter().filter(|request| {
            let meta = &self.meta[request.id.index()];
            meta.state == State::Queued
                && request.priority.class != PriorityClass::Idle
                && (dispatched - meta.inserted_behind >= overtaken
                    || now.since(meta.inserted.max(called_since)) >= old)
        });
        let oldest =
            queued.map(|request| (self.meta[request.id.index()].inserted, request.serial, request.id));
        let Some((inserted, serial, id)) = oldest.min() else { return Ok(()) };
        let waited = now.since(inserted);
        if waited < limit {
            return Ok(());
        }
        let load = Load { requests: most, depth: self.options.depth, service: longest_service };
        let promised = self.hosted.call("longest_wait", |scheduler| scheduler.longest_wait(load)).flatten();
        if promised.is_some_and(|promised| waited < Span::from_nanos(promised.as_nanos().saturating_mul(2))) {
            return Ok(());
        }
        let overtaken = dispatched - self.meta[id.index()].inserted_behind;
        Err(Fault::NeverDispatched { serial, waited, overtaken })
    }

    /// Records the number of requests, for the load under which a scheduler states its bound.
    #[inline]
    pub(super) fn note_load(&mut self) {
        self.watchdog.most = self.watchdog.most.max(self.queued + self.in_flight);
    }

    /// Reports the fault and the queue's reaction.
    pub(super) fn report_fault(&mut self, now: Time, fault: Fault) {
        let queued = self.queued;
        self.observer.event(now, &Event::Faulted { fault, queued });
    }

    /// Resets the data about the previous scheduler.
    pub(super) fn reset_watchdog(&mut self) {
        let Watchdog { longest_service, most, called_since, .. } = self.watchdog;
        self.watchdog = Watchdog { longest_service, most, called_since, ..Watchdog::default() };
    }
}
