//! The armed bandit, which chooses the scheduler for unrecognised windows.
//!
//! "A random pattern is detected by our algorithm when we have a miss. In that case, we use a technique called Armed-bandit
//! where the scheduler is selected based on a dynamic probability (for example, NOOP 80%, DL 10%, CFQ 5% and AS 5%). This
//! probability is updated to select more times the schedulers with the better performance while still giving a chance to the
//! other ones to detect environment changes." (III-D)
//!
//! # Where it differs from the source
//! The paper does not define the update of the probabilities. Here each update moves them by `bandit_rate` towards the example's: `bandit_best` for
//! the scheduler with the best mean of its latest values, `bandit_second` for the second, the rest shared by the others. Ranks instead of
//! proportions work for every metric, also a negative one. With two schedulers the second gets the rest. An unknown scheduler ranks first.
//! Probabilities start equal and are mixtures of positive numbers, so none reaches zero.
//!
//! It learns only from misses, because the values of recognised patterns do not predict those of unrecognised ones.

use crate::cluster::Values;
use crate::parameters::Parameters;
use elevator::Random;
use observation::{Better, SchedulerId};

/// The probabilities, and the values from which they are updated.
#[derive(Clone, PartialEq, Debug)]
pub struct Bandit {
    probabilities: Vec<f64>,
    performance: Vec<Values>,
}

impl Bandit {
    /// Equal probabilities for `schedulers` candidates.
    pub fn new(schedulers: usize) -> Self {
        let equal = 1.0 / schedulers.max(1) as f64;
        Self { probabilities: vec![equal; schedulers], performance: vec![Values::default(); schedulers] }
    }

    /// A saved bandit. Each probability is at least a millionth; they are scaled to sum to 1 unless they already do up to rounding, so that a valid
    /// state is restored to the bit.
    pub fn restored(probabilities: &[f64], performance: Vec<Values>) -> Self {
        const LEAST: f64 = 1e-6;
        let floored = probabilities.iter().map(|p| if p.is_finite() { p.clamp(LEAST, 1.0) } else { LEAST });
        let sum: f64 = floored.clone().sum();
        let scale = if (sum - 1.0).abs() < 1e-9 { 1.0 } else { sum };
        Self { probabilities: floored.map(|p| p / scale).collect(), performance }
    }

    /// The probability of each scheduler.
    pub fn probabilities(&self) -> &[f64] {
        &self.probabilities
    }

    /// The values of each scheduler in windows that missed.
    pub fn performance(&self) -> &[Values] {
        &self.performance
    }

    /// Whether there are no values yet.
    pub fn knows_nothing(&self) -> bool {
        self.performance.iter().all(|values| values.count() == 0)
    }

    pub fn draw(&self, random: &mut Random) -> SchedulerId {
        SchedulerId(weighted(random, &self.probabilities))
    }

    /// Adds the value of a window that missed.
    pub fn learn(&mut self, scheduler: SchedulerId, value: f64, better: Better, parameters: &Parameters) {
        let Some(values) = self.performance.get_mut(scheduler.0) else { return };
        values.add(value, parameters.values as usize, 0);
        let rate = parameters.bandit_rate as f64 / 100.0;
        for (rank, scheduler) in self.ranked(better).into_iter().enumerate() {
            let aim = aim(rank, self.probabilities.len(), parameters);
            let probability = &mut self.probabilities[scheduler];
            *probability += rate * (aim - *probability);
        }
    }

    /// The schedulers by rank; unknown ones first, equal ones in the listed order.
    fn ranked(&self, better: Better) -> Vec<usize> {
        let merit = |index: &usize| {
            self.performance[*index].mean().map_or(f64::INFINITY, |mean| better.oriented(mean))
        };
        let mut ranked: Vec<usize> = (0..self.performance.len()).collect();
        ranked.sort_by(|a, b| merit(b).total_cmp(&merit(a)));
        ranked
    }
}

/// The probability that a rank approaches.
fn aim(rank: usize, schedulers: usize, parameters: &Parameters) -> f64 {
    let (best, second) = (parameters.bandit_best as f64 / 100.0, parameters.bandit_second as f64 / 100.0);
    match (rank, schedulers) {
        (_, 1) => 1.0,
        (0, _) => best,
        (_, 2) => 1.0 - best,
        (1, _) => second,
        _ => (1.0 - best - second) / (schedulers - 2) as f64,
    }
}

/// An index drawn with these weights, which need not sum to 1. If rounding leaves the draw beyond all of them, the last with a weight; 0 if none
/// has one.
fn weighted(random: &mut Random, weights: &[f64]) -> usize {
    let mut left = random.unit() * weights.iter().sum::<f64>();
    let mut chosen = 0;
    for (index, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
        chosen = index;
        left -= weight;
        if left < 0.0 {
            break;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_schedulers_end_at_the_papers_example() {
        // The paper's example.
        let parameters = Parameters { bandit_best: 80, bandit_second: 10, ..Parameters::default() };
        let mut bandit = Bandit::new(4);
        for _ in 0..100 {
            for (scheduler, value) in [100.0, 80.0, 60.0, 60.0].into_iter().enumerate() {
                bandit.learn(SchedulerId(scheduler), value, Better::Higher, &parameters);
            }
        }
        for (probability, aim) in bandit.probabilities().iter().zip([0.8, 0.1, 0.05, 0.05]) {
            assert!((probability - aim).abs() < 1e-6, "{:?}", bandit.probabilities());
        }
    }

    #[test]
    fn weights_are_kept() {
        let mut random = Random::new(7);
        let mut drawn = [0u32; 4];
        for _ in 0..100_000 {
            drawn[weighted(&mut random, &[0.8, 0.1, 0.0, 0.1])] += 1;
        }
        assert!((79_000..81_000).contains(&drawn[0]), "{drawn:?}");
        assert!((9_400..10_600).contains(&drawn[1]), "{drawn:?}");
        assert_eq!(drawn[2], 0);
    }

    #[test]
    fn no_probability_ever_reaches_zero_and_they_sum_to_one() {
        let mut random = Random::new(11);
        for schedulers in 1..=6 {
            let parameters = Parameters { bandit_rate: 1 + random.below(100), ..Parameters::default() };
            let mut bandit = Bandit::new(schedulers);
            for _ in 0..2000 {
                let scheduler = bandit.draw(&mut random);
                bandit.learn(scheduler, random.unit() - 0.5, Better::Lower, &parameters);
                let least = bandit.probabilities().iter().copied().fold(1.0, f64::min);
                assert!(least > 0.004, "{:?}", bandit.probabilities());
                assert!((bandit.probabilities().iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn it_follows_a_change() {
        let parameters = Parameters::default();
        let (mut bandit, mut random) = (Bandit::new(4), Random::new(5));
        let mut drawn_after = [0; 4];
        for round in 0..2000 {
            let scheduler = bandit.draw(&mut random);
            let best = if round < 500 { 0 } else { 3 };
            bandit.learn(
                scheduler,
                if scheduler.0 == best { 120.0 } else { 100.0 },
                Better::Higher,
                &parameters,
            );
            if round >= 1500 {
                drawn_after[scheduler.0] += 1;
            }
        }
        assert!(drawn_after[3] > 350, "{drawn_after:?}");
    }
}
