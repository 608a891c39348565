//! Autocorrelation of a load: for how many windows its values stay above or below the mean, whichever scheduler serves it.
//!
//! # Idea
//! Scans that share the page cache go on doing so for a hundred windows; scans that have separated stay separate. A window's value then depends
//! more on the schedulers of the windows before than on its own. Other loads depend on the present scheduler alone. The greatest distance at which
//! two windows are still above or below the mean together shows which.
//!
//! # Not for
//! Loads that repeat within 128 windows: a repetition looks like persistence.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// The number of distances at which windows are compared: 1, 2, 4 to 128; most loads do not last longer.
const DISTANCES: usize = 8;
/// Windows over which a covariance averages; older ones fade.
const MEMORY: f64 = 1000.0;

/// Deviations of windows from their scheduler's mean, and their covariances.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Autocorrelation {
    /// The latest deviations, newest first.
    latest: VecDeque<f64>,
    windows: f64,
    variance: f64,
    /// At distance 2^n.
    covariances: [f64; DISTANCES],
}

impl Autocorrelation {
    /// Adds the deviation of a window.
    pub(super) fn note(&mut self, off: f64) {
        self.windows = (self.windows + 1.0).min(MEMORY);
        let moved = |from: f64, to: f64| from + (to - from) / self.windows;
        self.variance = moved(self.variance, off * off);
        for (n, covariance) in self.covariances.iter_mut().enumerate() {
            if let Some(then) = self.latest.get((1 << n) - 1) {
                *covariance = moved(*covariance, off * then);
            }
        }
        self.latest.push_front(off);
        self.latest.truncate(1 << (DISTANCES - 1));
    }

    /// For how many windows a scheduler has an effect, at least 1: twice the greatest distance at which the covariance is half of the variance.
    pub(super) fn windows(&self) -> f64 {
        let together = |&n: &usize| self.covariances[n] * 2.0 >= self.variance && self.variance > 0.0;
        (0..DISTANCES).rev().find(together).map_or(1.0, |n| (2 << n) as f64)
    }

    pub(super) fn is_sound(&self) -> bool {
        let numbers = self.latest.iter().chain(&self.covariances);
        numbers.chain([&self.windows, &self.variance]).all(|number| number.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elevator::Random;

    fn of(value: impl Fn(u64, &mut Random) -> f64) -> f64 {
        let (mut autocorrelation, mut random) = (Autocorrelation::default(), Random::new(1));
        (0..2000).for_each(|n| autocorrelation.note(value(n, &mut random)));
        autocorrelation.windows()
    }

    #[test]
    fn noise_has_none_and_a_slow_alternation_has_much() {
        assert_eq!(of(|_, random| random.unit() - 0.5), 1.0);
        assert_eq!(of(|_, _| 0.0), 1.0);
        let stays = of(|n, random| if n % 200 < 100 { 5.0 } else { -5.0 } + random.unit());
        assert!((32.0..=128.0).contains(&stays), "{stays}");
    }
}
