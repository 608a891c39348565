//! Autocorrelation of a load: for how many windows it stays as it is, whoever serves it.
//!
//! # Idea
//! Scans that found each other in the cache go on doing so for a hundred windows, and once they are apart so they stay. What a window
//! gives then says more of who served the windows before than of who served it. Other loads give what their scheduler makes of them
//! and nothing else. The windows themselves tell: how far apart two may be and still be above or below the mean together.
//!
//! # Not for
//! Loads that come round within 128 windows: what comes again looks like what stays.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Distances at which windows are compared: 1, 2, 4 to 128, beyond which a run of most loads is over.
const DISTANCES: usize = 8;
/// Windows that a covariance goes back; what is older fades.
const MEMORY: f64 = 1000.0;

/// By how much windows were off their scheduler's mean, and how that went together.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Autocorrelation {
    /// The latest ones, the last first.
    latest: VecDeque<f64>,
    windows: f64,
    variance: f64,
    /// At distance 2^n.
    covariances: [f64; DISTANCES],
}

impl Autocorrelation {
    /// A window was off by this.
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

    /// Over how many windows the load remembers who served it; 1 is not at all: twice the greatest distance at which windows have half
    /// of their variance in common.
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
    use ioanalyzer::Random;

    fn of(value: impl Fn(u64, &mut Random) -> f64) -> f64 {
        let (mut autocorrelation, mut random) = (Autocorrelation::default(), Random::seeded(1));
        (0..2000).for_each(|n| autocorrelation.note(value(n, &mut random)));
        autocorrelation.windows()
    }

    #[test]
    fn what_comes_and_goes_has_none_and_what_stays_has_much() {
        assert_eq!(of(|_, random| random.unit() - 0.5), 1.0);
        assert_eq!(of(|_, _| 0.0), 1.0);
        let stays = of(|n, random| if n % 200 < 100 { 5.0 } else { -5.0 } + random.unit());
        assert!((32.0..=128.0).contains(&stays), "{stays}");
    }
}
