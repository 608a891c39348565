//! The early end of a trial: a clearly worse scheduler is abandoned inside a window.
//!
//! # Idea
//! A trial is abandoned after a window in which it lost more than a limit. The trial ends earlier when its loss so far, spread
//! over the whole window, already exceeds the limit. If a part `p` of the window has the gain `g`, and the rest has the value of the reference, the window's gain is `p·g`. A scheduler
//! that completes nothing is abandoned after a quarter of a window if the limit is a quarter.
//!
//! # Not for
//! Values that exist once a window: those of users and of external commands.

use observation::Better;

use crate::measured::Measured;

/// The loss in a window that ends a trial, as a part of the reference's value.
pub(crate) const ABANDON: f64 = -0.25;
/// The same for a scheduler that warms up: it may be this much worse at first.
pub(crate) const COLD: f64 = -0.6;
/// The part of a window before which no trial ends: the device still completes requests of the scheduler before.
const LEAST: f64 = 0.2;

/// The condition for which the trial under way ends inside its window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EarlyEnd {
    /// The scheduler on trial; under another one the condition is void.
    pub scheduler: usize,
    /// The value with which it is compared.
    pub reference: Measured,
    /// The gain, a negative one, that ends the trial.
    pub limit: f64,
    /// Which direction is better.
    pub better: Better,
}

impl EarlyEnd {
    /// Whether the window is lost, if the first `part` of it (0 to 1) has this value.
    pub fn is_due(&self, value: &Measured, part: f64) -> bool {
        part >= LEAST && part * value.gain_over(&self.reference, self.better) <= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(limit: f64, better: Better) -> EarlyEnd {
        EarlyEnd { scheduler: 1, reference: Measured::throughout(100.0), limit, better }
    }

    #[test]
    fn a_trial_ends_when_the_rest_of_the_window_cannot_make_up_for_the_loss() {
        let warm = of(ABANDON, Better::Higher);
        let due = |value, part| warm.is_due(&Measured::throughout(value), part);
        assert_eq!([due(0.0, 0.2), due(0.0, 0.25)], [false, true], "nothing completed");
        assert_eq!([due(50.0, 0.45), due(50.0, 0.5)], [false, true], "half");
        assert_eq!([due(80.0, 0.9), due(80.0, 1.0)], [false, false], "a fifth less is no reason");
        let cold = of(COLD, Better::Higher);
        assert!(
            !cold.is_due(&Measured::throughout(10.0), 0.6) && cold.is_due(&Measured::throughout(10.0), 0.7)
        );
    }

    #[test]
    fn latencies_that_multiply_end_a_trial_but_not_before_the_least_part() {
        let latency = of(ABANDON, Better::Lower);
        let due = |value, part| latency.is_due(&Measured::throughout(value), part);
        assert_eq!([due(1000.0, 0.15), due(1000.0, 0.2), due(120.0, 1.0)], [false, true, false]);
    }

    #[test]
    fn an_idle_device_ends_no_trial() {
        let condition = EarlyEnd { reference: Measured::rate(100.0, 1.0), ..of(ABANDON, Better::Higher) };
        // The programs ended after a tenth of the window.
        assert!(!condition.is_due(&Measured::rate(20.0, 0.2), 0.5));
        assert!(condition.is_due(&Measured::rate(20.0, 1.0), 0.5));
    }
}
