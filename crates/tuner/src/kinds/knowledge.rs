//! What was measured of the schedulers for a kind of load: the answer that `patterns` lists and `advise` recommends.

use observation::{Better, SchedulerId};

use super::Kinds;
use super::measured_values::{MeasuredValues, surely_ahead};

/// Smaller gains count as none.
const WORTH_IT: f64 = 0.03;

/// What is known about a scheduler for a kind, compared with another one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The mean value of the metric in whole windows.
    pub value: f64,
    /// Windows behind it.
    pub windows: u64,
    /// By how much it exceeds the other scheduler beyond chance, as a part of the greater value.
    pub surely: f64,
}

/// Whether a gain, as a part of what the scheduler in use gives, and the part of it beyond chance are a reason to change the scheduler.
pub fn is_worth_it(gain: f64, surely: f64) -> bool {
    gain >= WORTH_IT && surely > 0.0
}

/// The schedulers that were tried for a kind, compared with one of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Knowledge {
    /// The scheduler that the others are compared with.
    pub base: SchedulerId,
    /// By scheduler; `None` if it was never tried.
    pub estimates: Vec<Option<Estimate>>,
    better: Better,
}

impl Knowledge {
    /// The expected gain of a scheduler over the base, as a part of what the base gives.
    pub fn gain(&self, scheduler: SchedulerId) -> Option<f64> {
        let of = |scheduler: SchedulerId| Some(self.estimates.get(scheduler.0)?.as_ref()?.value);
        let (to, from) = (of(scheduler)?, of(self.base)?);
        (from != 0.0).then(|| self.better.oriented(to - from) / from.abs())
    }

    /// The best scheduler: the base, unless another one is better beyond chance and by more than a few per cent.
    pub fn best(&self) -> SchedulerId {
        let gain = |scheduler: usize| self.gain(SchedulerId(scheduler)).unwrap_or(0.0);
        let tried = |&scheduler: &usize| {
            let surely = self.estimates[scheduler].map_or(0.0, |of| of.surely);
            is_worth_it(gain(scheduler), surely)
        };
        let better = (0..self.estimates.len()).filter(tried);
        better.max_by(|&a, &b| gain(a).total_cmp(&gain(b))).map_or(self.base, SchedulerId)
    }

    /// Whether a scheduler besides the base was tried.
    pub fn compares(&self) -> bool {
        self.estimates.iter().flatten().count() > 1
    }
}

impl Kinds {
    /// What was measured for a kind, compared with `base`, or with the first scheduler that was measured if `base` was not. `None` if there is no
    /// such kind, or no whole window.
    pub fn compared(&self, kind: usize, base: Option<SchedulerId>, better: Better) -> Option<Knowledge> {
        let of = self.kinds.get(kind)?;
        let tallies = of.tallies();
        let is_known = |scheduler: &SchedulerId| tallies.get(scheduler.0).is_some_and(Option::is_some);
        let first = || (0..tallies.len()).map(SchedulerId).find(is_known);
        let base = base.filter(is_known).or_else(first)?;
        let than = tallies[base.0]?;
        let estimate = |tally: &Option<MeasuredValues>| {
            let tally = (*tally)?;
            let surely = if of.none_suffices { 0.0 } else { surely_ahead(&tally, &than, better) };
            Some(Estimate { value: tally.mean, windows: tally.windows, surely })
        };
        let estimates = tallies.iter().map(estimate).collect();
        Some(Knowledge { base, estimates, better })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(values: &[Option<(f64, f64)>], better: Better) -> usize {
        let estimate =
            |of: &Option<(f64, f64)>| of.map(|(value, surely)| Estimate { value, windows: 9, surely });
        let estimates = values.iter().map(estimate).collect();
        Knowledge { base: SchedulerId(0), estimates, better }.best().0
    }

    #[test]
    fn another_scheduler_is_best_only_by_a_gain_beyond_chance() {
        let base = Some((10.0, 0.0));
        assert_eq!(best(&[base, Some((20.0, 0.4)), Some((15.0, 0.3))], Better::Higher), 1);
        assert_eq!(best(&[base, Some((20.0, 0.0))], Better::Higher), 0, "it may be chance");
        assert_eq!(best(&[base, Some((10.2, 0.1))], Better::Higher), 0, "too little");
        assert_eq!(best(&[base, None], Better::Higher), 0);
        assert_eq!(best(&[base, Some((5.0, 0.4))], Better::Lower), 1);
    }
}
