//! Finds out that a choice does not matter, and stops making it.
//!
//! On a device with nothing to seek and nobody to be fair to, no scheduler is better than `none`, which costs the least. Whoever
//! goes on trying there pays for trials and switches and wins nothing. Once every arm has been measured and none of them is
//! better than `none` beyond what measurements differ by, `none` it is, until things change or an hour has passed.
//!
//! Not in the paper, which always goes on trying; a guard rail of the live part, as a tuner that costs something where it
//! cannot win is a tuner that is turned off.

use std::collections::VecDeque;

use tuner::Better;

/// Measurements of each arm before anything is said, and the latest that count.
const LEAST: usize = 4;
const KEPT: usize = 20;
/// So much better than `none` a scheduler must be, as a part of what `none` gives, to be worth a thought.
const WORTH: f64 = 0.02;
/// Standard errors that a difference must exceed.
const SURE: f64 = 2.0;
/// Under `none` alone, a value that is so much worse than when it was settled on shows that things have changed.
const CHANGED: f64 = 0.3;
/// Windows after which all is asked again: an hour at the default length.
const AGAIN: u32 = 720;

/// What is known of each arm, whatever the pattern.
#[derive(Debug)]
pub(crate) struct Indifference {
    better: Better,
    none: usize,
    values: Vec<VecDeque<f64>>,
    settled: Option<Settled>,
}

#[derive(Clone, Copy, Debug)]
struct Settled {
    mean: f64,
    windows: u32,
    worse: u32,
}

impl Indifference {
    /// Over these arms; `None` if `none` is not one of them, as there is no cheapest then.
    pub(crate) fn new(arms: &[String], better: Better) -> Option<Self> {
        let none = arms.iter().position(|arm| arm == "none")?;
        Some(Self { better, none, values: vec![VecDeque::new(); arms.len()], settled: None })
    }

    /// The arm to stay with, as it does not matter.
    pub(crate) fn settled(&self) -> Option<usize> {
        self.settled.map(|_| self.none)
    }

    /// A window went like this under that arm.
    pub(crate) fn learn(&mut self, arm: usize, value: f64) {
        if let Some(settled) = &mut self.settled {
            let loss = self.better.oriented(settled.mean - value) / settled.mean.abs().max(f64::MIN_POSITIVE);
            settled.windows += 1;
            // One bad window may be chance, two in a row are not.
            settled.worse = if loss > CHANGED { settled.worse + 1 } else { 0 };
            if settled.worse < 2 && settled.windows < AGAIN {
                return;
            }
            self.settled = None;
            self.values.iter_mut().for_each(VecDeque::clear);
        }
        let values = &mut self.values[arm];
        values.push_back(value);
        if values.len() > KEPT {
            values.pop_front();
        }
        self.settled = self.judge();
    }

    fn judge(&self) -> Option<Settled> {
        if self.values.iter().any(|values| values.len() < LEAST) {
            return None;
        }
        let (none, none_error) = mean(&self.values[self.none]);
        let matters = self.values.iter().map(mean).any(|(value, error)| {
            let gain = self.better.oriented(value - none);
            gain > WORTH * none.abs() && gain > SURE * error.hypot(none_error)
        });
        (!matters).then_some(Settled { mean: none, windows: 0, worse: 0 })
    }
}

/// Mean and its standard error.
fn mean(values: &VecDeque<f64>) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, (variance / n).sqrt())
}

#[cfg(test)]
mod tests {
    use tuner::Random;

    use super::*;

    fn names() -> Vec<String> {
        ["mq-deadline", "none", "bfq"].map(str::to_owned).to_vec()
    }

    /// So many windows under arms in turn, each a tenth apart by chance.
    fn settle(means: [f64; 3]) -> Indifference {
        let mut random = Random::seeded(5);
        let mut indifference = Indifference::new(&names(), Better::Higher).unwrap();
        for n in 0..45 {
            let arm = indifference.settled().unwrap_or(n % 3);
            indifference.learn(arm, means[arm] * (0.95 + 0.1 * random.unit()));
        }
        indifference
    }

    #[test]
    fn where_nothing_is_better_than_none_it_settles() {
        assert_eq!(settle([100.0, 100.0, 60.0]).settled(), Some(1));
        assert_eq!(settle([100.0, 100.0, 140.0]).settled(), None, "one is better");
        let without_none = ["bfq".to_owned(), "kyber".to_owned()];
        assert!(Indifference::new(&without_none, Better::Higher).is_none());
    }

    #[test]
    fn not_before_every_arm_was_measured() {
        let mut indifference = Indifference::new(&names(), Better::Higher).unwrap();
        (0..20).for_each(|n| indifference.learn(n % 2, 100.0));
        assert_eq!(indifference.settled(), None);
    }

    #[test]
    fn it_asks_again_when_things_change_and_after_an_hour() {
        let mut indifference = settle([100.0, 100.0, 60.0]);
        indifference.learn(1, 50.0);
        assert!(indifference.settled().is_some(), "one bad window");
        indifference.learn(1, 50.0);
        assert_eq!(indifference.settled(), None);
        let mut indifference = settle([100.0, 100.0, 60.0]);
        let asked = (0..AGAIN).find(|_| {
            indifference.learn(1, 100.0);
            indifference.settled().is_none()
        });
        assert!(asked.is_some());
    }
}
