//! The value of the metric in a window, and gains of one value over another.
//!
//! # Idle time
//! A device that is not always busy completes all that is requested, and that amount does not depend on the scheduler. A load that starts in
//! the middle of a window, or comes in bursts, would make one arm appear twice as good as another. Rates are therefore compared for the time in
//! which the device was busy, and weighted with that time under `none`. An arm that needs half of the time is twice as good on a device that is
//! always busy. On one that is busy for a fifth of the time it is a ninth better, which is the gain of a program that waits for a reply,
//! computes, and submits again. Programs with a rate of their own gain nothing, which the amount per window shows. A gain is therefore the
//! smaller of both figures, and zero if their signs differ. On a device that is always busy they are equal.

use observation::Better;

/// The gain over a `none` that gave nothing.
const GAIN_MOST: f64 = 1e6;
/// The least busy share of a window with any request.
const LEAST_BUSY: f64 = 1e-9;

/// The result of a window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// The metric's value.
    pub value: f64,
    /// For a rate the busy share of the window, above 0 and up to 1; otherwise 1.
    pub busy: f64,
}

impl Measured {
    /// A value that does not depend on the busy time.
    pub const fn throughout(value: f64) -> Self {
        Self { value, busy: 1.0 }
    }

    /// A rate while the device is busy.
    pub fn rate(value: f64, busy: f64) -> Self {
        Self { value, busy: busy.clamp(LEAST_BUSY, 1.0) }
    }

    /// The gain over `base`, as a part of `base`.
    pub(crate) fn gain_over(&self, base: &Self, better: Better) -> f64 {
        let gain = |value: f64, base: f64| {
            let gain = better.oriented(value - base) / base.abs().max(f64::MIN_POSITIVE);
            gain.clamp(-GAIN_MOST, GAIN_MOST)
        };
        let busy = gain(self.value / self.busy, base.value / base.busy);
        // The busy time shrinks to 1 / (1 + busy) of itself; the idle time stays.
        let served = base.busy * busy / (1.0 + (1.0 - base.busy) * busy);
        let given = gain(self.value, base.value);
        if served.signum() != given.signum() {
            return 0.0;
        }
        if served.abs() < given.abs() { served } else { given }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_weighted_with_the_busy_time_and_limited_by_the_amount() {
        let base = Measured::rate(20.0, 0.2);
        let gain = |value, busy| Measured::rate(value, busy).gain_over(&base, Better::Higher);
        let near = |gain: f64, expected: f64| assert!((gain - expected).abs() < 1e-9, "{gain}");
        // Programs that compute for four fifths of the time, and are served twice as fast.
        near(gain(20.0 / 0.9, 0.1 / 0.9), 1.0 / 9.0);
        // The same amount in half of the busy time; twice the amount in twice the busy time.
        near(gain(20.0, 0.1), 0.0);
        near(gain(40.0, 0.4), 0.0);
        // A greater amount at a lower speed, and the reverse.
        near(gain(40.0, 0.8), 0.0);
        near(gain(10.0, 0.05), 0.0);
        assert!(gain(15.0, 0.3) < -0.1);
    }

    #[test]
    fn on_a_busy_device_values_are_compared() {
        let gain =
            |value, base, better| Measured::throughout(value).gain_over(&Measured::throughout(base), better);
        assert_eq!([gain(30.0, 10.0, Better::Higher), gain(30.0, 10.0, Better::Lower)], [2.0, -2.0]);
        assert_eq!([gain(-5.0, -10.0, Better::Higher), gain(0.0, 0.0, Better::Higher)], [0.5, 0.0]);
        assert!(gain(1e8, 0.0, Better::Higher) >= GAIN_MOST, "none gave nothing");
    }
}
