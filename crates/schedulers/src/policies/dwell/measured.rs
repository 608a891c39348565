//! Times as measured, relative to their estimates.

use elevator::Span;

/// One, in the fixed point of shares.
const ONE: u64 = 256;
/// Requests whose measured times count.
const WEIGHT: u64 = 16;
/// Weight of the estimate beside measurements, in nanoseconds.
const PRIOR: u64 = 1_000_000;

/// Decayed sums of actual and of estimated times, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(super) struct Measured {
    actual: u64,
    estimated: u64,
}

impl Measured {
    /// As if so much had been measured, and been as estimated; it decays with the measurements that follow.
    pub(super) const fn begun(time: Span) -> Self {
        Self { actual: time.as_nanos(), estimated: time.as_nanos() }
    }

    pub(super) fn add(&mut self, actual: Span, estimated: Span) {
        self.actual = self.actual - self.actual / WEIGHT + actual.as_nanos();
        self.estimated = self.estimated - self.estimated / WEIGHT + estimated.as_nanos();
    }

    /// The estimate, corrected by the measurements.
    pub(super) fn scaled(&self, estimate: Span) -> Span {
        scaled(estimate, self.actual, self.estimated)
    }

    /// The same with a lasting weight for the expected correction `gain`, in 1/256.
    pub(super) fn corrected(&self, estimate: Span, gain: u64) -> Span {
        scaled(estimate, self.actual + PRIOR * gain / ONE, self.estimated + PRIOR)
    }
}

/// An estimate, corrected by a sum of actual and one of estimated times.
pub(super) fn scaled(estimate: Span, actual: u64, estimated: u64) -> Span {
    let product = u128::from(estimate.as_nanos()) * u128::from(actual);
    Span::from_nanos((product / u128::from(estimated.max(1))) as u64)
}
