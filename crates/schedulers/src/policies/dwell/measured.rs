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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Span = Span::from_millis;

    #[test]
    fn an_estimate_is_corrected_by_the_ratio_of_what_was_measured() {
        let mut measured = Measured::begun(MS(1));
        assert_eq!(measured.scaled(MS(7)), MS(7));
        measured.add(MS(5), MS(1));
        // 1 ms less a sixteenth, and 5 ms; of 1 ms less a sixteenth, and 1 ms.
        assert_eq!(measured.scaled(Span::from_micros(19_375)), Span::from_micros(59_375));
        // A millisecond as expected counts, too.
        let mut measured = Measured::default();
        assert_eq!((measured.corrected(MS(8), 256), measured.corrected(MS(8), 64)), (MS(8), MS(2)));
        measured.add(MS(5), MS(1));
        assert_eq!(measured.corrected(MS(8), 256), MS(24));
        assert_eq!(measured.corrected(MS(8), 512), MS(28));
    }

    #[test]
    fn the_latest_sixteen_measurements_count() {
        let mut measured = Measured::default();
        (0..100).for_each(|_| measured.add(MS(2), MS(1)));
        assert!(measured.scaled(MS(100)).as_nanos().abs_diff(200_000_000) < 1_000);
        (0..16).for_each(|_| measured.add(MS(1), MS(1)));
        // (15/16)^16 of the former ratio is left.
        let left = measured.scaled(MS(1_000)).as_nanos() / 1_000_000;
        assert!((1_355..1_358).contains(&left), "{left}");
    }
}
