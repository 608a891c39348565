//! Statistics of a device: requests, bytes, busy time, deliberate waits.

use disks::{Completion, Travel};
use elevator::queue::{Event, Fault, Observer};
use elevator::{Op, Outcome, Request, Span, Time};

use super::{MemberMeasured, Waits};
use crate::waits::{WaitClock, Waited};

/// Statistics of a device.
#[derive(Default)]
pub(crate) struct DeviceStats {
    dispatched: u64,
    bytes: u64,
    pub(crate) travel: Travel,
    waits: Waits,
    wait_clock: WaitClock,
    in_flight: u32,
    busy: Span,
    busy_since: Time,
    /// The first fault of the scheduler. After it another policy decides.
    pub(crate) fault: Option<Fault>,
}

impl DeviceStats {
    /// Counts a finished request.
    pub(crate) fn served(&mut self, request: &Request, completion: &Completion) {
        if matches!(request.op, Op::Flush | Op::Discard) || completion.outcome == Outcome::Failed {
            return;
        }
        self.bytes += request.sectors.bytes();
    }

    pub(super) fn report(&self, now: Time) -> MemberMeasured {
        let busy_now = if self.in_flight == 0 { Span::ZERO } else { now.since(self.busy_since) };
        MemberMeasured {
            dispatched: self.dispatched,
            bytes: self.bytes,
            head_travel_sectors: self.travel.sectors,
            seeks: self.travel.seeks,
            busy_ns: (self.busy + busy_now).as_nanos(),
            waits: self.waits.clone(),
        }
    }

    fn waited(&mut self, waited: &Waited) {
        let ns = waited.to.since(waited.from).as_nanos();
        self.waits.count += 1;
        self.waits.total_ns += ns;
        *self.waits.by_reason.entry(waited.reason.as_str()).or_default() += ns;
    }

    fn began(&mut self, now: Time) {
        if self.in_flight == 0 {
            self.busy_since = now;
        }
        self.in_flight += 1;
        self.dispatched += 1;
    }

    fn ended(&mut self, now: Time) {
        self.in_flight -= 1;
        if self.in_flight == 0 {
            self.busy += now.since(self.busy_since);
        }
    }
}

impl Observer for DeviceStats {
    #[inline(always)]
    fn event(&mut self, now: Time, event: &Event<'_>) {
        match event {
            Event::Dispatched { .. } => self.began(now),
            Event::Completed { .. } => self.ended(now),
            Event::Faulted { fault, .. } => {
                self.fault.get_or_insert(*fault);
            }
            _ => {}
        }
        if let Some(waited) = self.wait_clock.event(now, event) {
            self.waited(&waited);
        }
    }
}
