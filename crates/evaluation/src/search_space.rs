//! Searches the tunables of a policy for their best values with TPE (the crate `tpe`): each tunable has a ladder of values around its default.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;

use elevator::Random;
use elevator::{Tunable, Value};
use schedulers::Spec;
use tpe::TpeOptimizer;
use tpe::density_estimation::DefaultEstimatorBuilder;

/// Measurements before the optimiser is used: with fewer it stays near the first one.
const STARTUP: u64 = 6;

/// A setting and its ordered values; neighbours are expected to perform alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ladder {
    /// Its name, as in an arm's braces.
    pub setting: String,
    pub values: Vec<String>,
}

/// A scheduler and its settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Space {
    /// The plain scheduler's name.
    pub scheduler: String,
    /// The settings.
    pub ladders: Vec<Ladder>,
}

/// The search space of a policy's tunables that `wanted` selects; `None` if it selects none.
pub fn of_policy(spec: &Spec, wanted: impl Fn(&str) -> bool) -> Option<Space> {
    let tunables = spec.listing().tunables.iter().filter(|tunable| wanted(tunable.name));
    let ladders: Vec<Ladder> = tunables.filter_map(ladder).collect();
    (!ladders.is_empty()).then(|| Space { scheduler: spec.to_string(), ladders })
}

/// Values from a quarter to four times the default, within the tunable's range; on and off for a switch.
fn ladder(tunable: &Tunable) -> Option<Ladder> {
    let by = |quarters: u64| match tunable.default {
        Value::Span(span) => Some(Value::Span(span * quarters / 4)),
        Value::Count(n) => Some(Value::Count(n * quarters / 4)),
        Value::Percent(n) => Some(Value::Percent(n * quarters / 4)),
        Value::Sectors(_) | Value::Flag(_) => None,
    };
    let values: Vec<Value> = match tunable.default {
        Value::Flag(_) => vec![Value::Flag(false), Value::Flag(true)],
        _ => [0, 1, 2, 4, 8, 16].into_iter().filter_map(by).collect(),
    };
    let mut values: Vec<String> =
        values.into_iter().filter(|value| tunable.check(*value).is_ok()).map(text).collect();
    values.dedup();
    (values.len() > 1).then(|| Ladder { setting: tunable.name.to_owned(), values })
}

/// The value as written in a policy's braces.
fn text(value: Value) -> String {
    value.to_string().replace(' ', "")
}

impl Space {
    /// The number of different settings.
    pub fn size(&self) -> u64 {
        self.ladders.iter().fold(1, |size, ladder| size.saturating_mul(ladder.values.len() as u64))
    }
}

/// A search of one space by measurements that repeat exactly, such as those of a model. It proposes no settings twice.
pub struct Optimiser {
    space: Space,
    optimisers: Vec<TpeOptimizer<DefaultEstimatorBuilder>>,
    /// The number of measurements so far.
    scores: u64,
    /// Indexes of each ladder's values.
    proposed: BTreeSet<Vec<usize>>,
}

impl Optimiser {
    /// A search of this space.
    ///
    /// # Errors
    /// The space has no setting, or a setting has no values.
    pub fn new(space: Space) -> Result<Self, String> {
        if space.ladders.is_empty() {
            return Err(format!("{}: there is nothing to set", space.scheduler));
        }
        let optimiser = |ladder: &Ladder| {
            let range = tpe::range(0.0, ladder.values.len() as f64)
                .map_err(|_| format!("{}: there is no value for '{}'", space.scheduler, ladder.setting))?;
            Ok(TpeOptimizer::new(tpe::parzen_estimator(), range))
        };
        let optimisers = space.ladders.iter().map(optimiser).collect::<Result<_, String>>()?;
        Ok(Self { space, optimisers, scores: 0, proposed: BTreeSet::new() })
    }

    /// The next settings to measure, as indexes of each ladder's values; `None` after all. The first ones are drawn.
    pub fn propose(&mut self, random: &mut Random) -> Option<Vec<usize>> {
        let estimated = if self.scores < STARTUP { None } else { self.estimate(random) };
        let wanted = estimated.unwrap_or_else(|| self.draw(random));
        let places = self.nearest_new(wanted)?;
        self.proposed.insert(places.clone());
        Some(places)
    }

    fn estimate(&mut self, random: &mut Random) -> Option<Vec<usize>> {
        let mut chance = OptimiserRandom(random);
        let place = |(optimiser, ladder): (&mut TpeOptimizer<_>, &Ladder)| {
            let at = optimiser.ask(&mut chance).ok()?;
            Some((at as usize).min(ladder.values.len() - 1))
        };
        self.optimisers.iter_mut().zip(&self.space.ladders).map(place).collect()
    }

    fn draw(&self, random: &mut Random) -> Vec<usize> {
        let place = |ladder: &Ladder| random.below(ladder.values.len() as u64) as usize;
        self.space.ladders.iter().map(place).collect()
    }

    /// The settings with the fewest steps from these that were not proposed.
    fn nearest_new(&self, wanted: Vec<usize>) -> Option<Vec<usize>> {
        let (mut seen, mut queue) = (BTreeSet::from([wanted.clone()]), VecDeque::from([wanted]));
        while let Some(places) = queue.pop_front() {
            if !self.proposed.contains(&places) {
                return Some(places);
            }
            for (at, ladder) in self.space.ladders.iter().enumerate() {
                let steps = [places[at].checked_sub(1), Some(places[at] + 1)];
                for step in steps.into_iter().flatten().filter(|&step| step < ladder.values.len()) {
                    let mut next = places.clone();
                    next[at] = step;
                    if seen.insert(next.clone()) {
                        queue.push_back(next);
                    }
                }
            }
        }
        None
    }

    /// Adds a measurement; less is better.
    pub fn report(&mut self, places: &[usize], loss: f64) {
        self.scores += 1;
        for (optimiser, &place) in self.optimisers.iter_mut().zip(places) {
            // The middle of the chosen step. The optimiser rejects only values outside of the range and NaN, so the result is ignored.
            let _ = optimiser.tell(place as f64 + 0.5, loss);
        }
    }

    /// Names and values of these settings.
    pub fn settings<'a>(&'a self, places: &'a [usize]) -> impl Iterator<Item = (&'a str, &'a str)> {
        let of = |(ladder, &place): (&'a Ladder, &usize)| (&*ladder.setting, &*ladder.values[place]);
        self.space.ladders.iter().zip(places).map(of)
    }
}

/// The caller's random numbers for the optimiser.
struct OptimiserRandom<'a>(&'a mut Random);

impl rand::TryRng for OptimiserRandom<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.0.next() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.next())
    }

    fn try_fill_bytes(&mut self, destination: &mut [u8]) -> Result<(), Infallible> {
        for chunk in destination.chunks_mut(8) {
            chunk.copy_from_slice(&self.0.next().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_accept_every_value_of_their_ladders() {
        for name in ["cfq-2.6.32", "anticipatory-2.6.32", "deadline-2.6.32", "bfq"] {
            let spec = Spec::parse(name).unwrap();
            let space = of_policy(&spec, |tunable| tunable != "hz").unwrap();
            for ladder in &space.ladders {
                for value in &ladder.values {
                    let arm = format!("{name}{{{}={value}}}", ladder.setting);
                    assert!(Spec::parse(&arm).is_ok(), "{arm}");
                }
            }
        }
        assert!(of_policy(&Spec::parse("noop").unwrap(), |_| true).is_none());
    }

    #[test]
    fn no_settings_are_proposed_twice_and_all_before_the_end() {
        let ladder = |setting: &str, count: usize| Ladder {
            setting: setting.to_owned(),
            values: (0..count).map(|value| value.to_string()).collect(),
        };
        let space = Space { scheduler: "any".to_owned(), ladders: vec![ladder("a", 5), ladder("b", 3)] };
        assert_eq!(space.size(), 15);
        let (mut optimiser, mut random) = (Optimiser::new(space).unwrap(), Random::new(1));
        let mut all = BTreeSet::new();
        while let Some(places) = optimiser.propose(&mut random) {
            assert!(places[0] < 5 && places[1] < 3);
            optimiser.report(&places, places[0] as f64);
            assert!(all.insert(places));
        }
        assert_eq!(all.len(), 15);
    }
}
