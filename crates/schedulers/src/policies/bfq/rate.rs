//! The device's peak rate, which determines budgets and the duration of raised weights.
//!
//! A device that queues does not show when it serves a request. Over time it cannot accept more than it serves, so the rate
//! of accepted requests is measured, over about a second of work. A rate counts if most of that time was sequential, or if it
//! is higher than the present estimate.

use elevator::{Span, Time};

/// Rates are in sectors a microsecond, times 2¹⁶.
const SHIFT: u32 = 16;
/// Fewer requests give no measurement,
const SAMPLES_MIN: u32 = 32;
/// nor does less time.
const INTERVAL_MIN: Span = Span::from_millis(300);
/// The duration of a measurement.
const INTERVAL: Span = Span::from_secs(1);
/// A limit above every device: 20 sectors per microsecond, 10 GB/s.
const ABSURD: u64 = 20 << SHIFT;
/// A gap of that length with an empty device ends a measurement.
const IDLE: Span = Span::from_millis(100);
/// A completion later than that after the previous one,
const SLOW_COMPLETION: Span = Span::from_millis(2);
/// at a rate below 2^-10 sectors per microsecond, ends one too.
const SLOW_SHIFT: u32 = SHIFT - 10;

/// Reference drives: their rate, and their time to start a large application (seconds of raised weight); rotating and
/// solid-state.
const REFERENCE: [(u64, Span); 2] = [(14_000, Span::from_secs(7)), (33_000, Span::from_millis(2_500))];

/// The estimate of the device's speed.
pub(super) struct Rate {
    reference: (u64, Span),
    peak: u64,
    samples: u32,
    sequential: u32,
    sectors: u64,
    /// Largest of the latest 32 requests.
    largest: u64,
    first_dispatch: Time,
    last_dispatch: Time,
    measured_for: Span,
}

/// A dispatched request, as the rate counts it.
#[derive(Clone, Copy)]
pub(super) struct Dispatched {
    pub(super) sectors: u64,
    /// It lies close to the previous one, or is large enough for that not to matter.
    pub(super) sequential: bool,
    /// Requests in the device without this one.
    pub(super) in_driver: u32,
    pub(super) last_completion: Time,
}

impl Rate {
    /// For a device with an assumed two thirds of the reference drive's rate.
    pub(super) const fn new(rotational: bool) -> Self {
        let reference = if rotational { REFERENCE[0] } else { REFERENCE[1] };
        Self {
            reference,
            peak: reference.0 * 2 / 3,
            samples: 0,
            sequential: 0,
            sectors: 0,
            largest: 0,
            first_dispatch: Time::ZERO,
            last_dispatch: Time::ZERO,
            measured_for: Span::ZERO,
        }
    }

    /// Sectors that the device transfers in `time` at its peak rate.
    pub(super) const fn sectors_in(&self, time: Span) -> u64 {
        (self.peak * (time.as_nanos() / 1_000)) >> SHIFT
    }

    /// The time to start an application on a device of this speed.
    pub(super) fn interactive_time(&self) -> Span {
        let (rate, time) = self.reference;
        (time * rate / self.peak).clamp(Span::from_secs(3), Span::from_secs(25))
    }

    /// A request is dispatched. Returns whether the peak rate changed.
    pub(super) fn dispatched(&mut self, now: Time, request: Dispatched) -> bool {
        let mut changed = false;
        if self.samples == 0 {
            self.begin(now, request.sectors);
        } else if now.since(self.last_dispatch) > IDLE && request.in_driver == 0 {
            changed = self.judge(request.last_completion);
            self.begin(now, request.sectors);
        } else {
            self.add(now, request);
            if self.measured_for >= INTERVAL {
                changed = self.judge(request.last_completion);
                self.begin(now, request.sectors);
            }
        }
        self.last_dispatch = now;
        changed
    }

    /// A request completed, this long after the previous one. Returns whether the peak rate changed.
    pub(super) fn completed(&mut self, since_last: Span, last_completion: Time) -> bool {
        let us = since_last.as_nanos() / 1_000;
        if since_last > SLOW_COMPLETION && (self.largest << SHIFT) / us.max(1) < 1 << SLOW_SHIFT {
            let changed = self.judge(last_completion);
            self.samples = 0;
            return changed;
        }
        false
    }

    fn begin(&mut self, now: Time, sectors: u64) {
        self.first_dispatch = now;
        self.samples = 1;
        self.sequential = 0;
        self.sectors = sectors;
        self.largest = sectors;
    }

    fn add(&mut self, now: Time, request: Dispatched) {
        self.samples += 1;
        let busy = request.in_driver > 0 || now.since(request.last_completion) < SLOW_COMPLETION;
        self.sequential += u32::from(busy && request.sequential);
        self.sectors += request.sectors;
        let before = if self.samples.is_multiple_of(32) { 0 } else { self.largest };
        self.largest = before.max(request.sectors);
        self.measured_for = now.since(self.first_dispatch);
    }

    /// Ends the measurement. Its weight in the new estimate, from a tenth to a half, depends on its share of sequential
    /// requests and its length.
    fn judge(&mut self, last_completion: Time) -> bool {
        if self.samples < SAMPLES_MIN || self.measured_for < INTERVAL_MIN {
            return false;
        }
        let time = self.measured_for.max(last_completion.since(self.first_dispatch));
        let rate = (self.sectors << SHIFT) / (time.as_nanos() / 1_000);
        let mostly_sequential = self.sequential >= 3 * self.samples / 4;
        if (!mostly_sequential && rate <= self.peak) || rate > ABSURD {
            return false;
        }
        let weight = u64::from(9 * self.sequential / self.samples);
        let weight = (weight * time.as_nanos() / INTERVAL.as_nanos()).min(8);
        let divisor = 10 - weight;
        self.peak = (self.peak * (divisor - 1) / divisor + rate / divisor).max(1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(rate: &mut Rate, from: u64, requests: u64, every: Span, sectors: u64, sequential: bool) -> bool {
        let mut changed = false;
        for n in from..from + requests {
            let now = Time::ZERO + every * n;
            let request = Dispatched { sectors, sequential, in_driver: 1, last_completion: now };
            changed |= rate.dispatched(now, request);
        }
        changed
    }

    #[test]
    fn a_second_of_sequential_work_counts_half() {
        let mut rate = Rate::new(true);
        assert_eq!(rate.sectors_in(Span::from_millis(125)), 17_801, "2/3 of the reference drive");
        assert!(feed(&mut rate, 0, 1_002, Span::from_millis(1), 200, true), "200,000 sectors a second");
        let measured = 200_000 / 8;
        let now = rate.sectors_in(Span::from_millis(125));
        assert!(now.abs_diff((17_801 + measured) / 2) < 30, "{now}");
    }

    #[test]
    fn seeks_do_not_change_the_peak_unless_they_are_faster() {
        let mut rate = Rate::new(true);
        assert!(!feed(&mut rate, 0, 1_002, Span::from_millis(1), 100, false));
        assert!(feed(&mut rate, 2_000, 1_100, Span::from_millis(1), 400, false));
    }

    /// A sector may take a twentieth of a microsecond.
    #[test]
    fn a_rate_that_no_device_has_is_ignored() {
        let second = Span::from_secs(1);
        for (sectors, counts) in [(20_000_000, true), (20_001_000, false)] {
            let (samples, sequential) = (100, 100);
            let mut rate = Rate { samples, sequential, sectors, measured_for: second, ..Rate::new(false) };
            assert_eq!(rate.judge(Time::ZERO + second), counts, "{sectors}");
        }
    }

    /// A measurement ends with a pause of an empty device, and counts from 32 requests on.
    #[test]
    fn a_pause_ends_a_measurement() {
        for (requests, in_driver, changes) in [(31, 0, false), (32, 0, true), (32, 1, false)] {
            let mut rate = Rate::new(true);
            assert!(!feed(&mut rate, 0, requests, Span::from_millis(10), 2_000, true));
            let last_completion = Time::ZERO + Span::from_millis(310);
            let request = Dispatched { sectors: 8, sequential: true, in_driver, last_completion };
            let changed = rate.dispatched(Time::ZERO + Span::from_millis(450), request);
            assert_eq!(changed, changes, "{requests} requests, {in_driver} in the device");
        }
    }

    /// At a rate of less than a sector in 1024 microseconds.
    #[test]
    fn a_very_slow_completion_ends_a_measurement() {
        for (us, ends) in [(2_048_000, false), (2_100_000, true)] {
            let mut rate = Rate::new(true);
            assert!(!feed(&mut rate, 0, 32, Span::from_millis(10), 2_000, true));
            let last = Time::ZERO + Span::from_millis(310);
            assert_eq!(rate.completed(Span::from_micros(us), last), ends, "{us}");
            assert_eq!(rate.samples == 0, ends);
        }
    }

    #[test]
    fn the_interactive_period_grows_as_the_device_is_slower_within_bounds() {
        let mut rate = Rate::new(true);
        assert_eq!(rate.interactive_time(), Span::from_nanos(7_000_000_000 * 14_000 / 9_333));
        rate.peak = 1;
        assert_eq!(rate.interactive_time(), Span::from_secs(25));
        rate.peak = 1 << 20;
        assert_eq!(rate.interactive_time(), Span::from_secs(3));
    }
}
