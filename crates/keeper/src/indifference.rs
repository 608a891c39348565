//! Finds out whether a choice matters on this device, and stops choosing where it does not.
//!
//! # Idea
//! On a device with nothing to seek and nobody to be fair to, no scheduler is better than `none`, which costs the least. Whoever
//! goes on trying there pays for trials and switches and wins nothing. The analyser alone never finds out: it tries each scheduler
//! once for a pattern, and then has one value of it, which is chance. So every arm is measured in turn, in blocks, first to
//! last and then last to first, and compared with `none` of the same block: what the load or the machine does meanwhile is in
//! both. If no arm is better than `none` beyond what blocks differ by, `none` it is, until it is time to ask again.
//!
//! # Order of decisions
//! After each block, of the gains over `none` so far:
//! 1. an arm that is much worse is left out of the blocks to come;
//! 2. twice as good in the first block, or clearly better after three: it matters, and the analyser has the word;
//! 3. known well enough, or looked at long enough, and none is better: to rest.
//!
//! Not in the paper, which always goes on trying; a guard rail of the live part, as a tuner that costs something where it
//! cannot win is a tuner that is turned off.

use tuner::Better;

use crate::rest::{Known, Load};

/// Blocks before an arm counts as better, and before it is said that none is.
const LEAST_BETTER: usize = 3;
const LEAST_EQUAL: usize = 4;
/// So much better than `none` a scheduler must be, as a part of what `none` gives, to be worth a thought.
const WORTH: f64 = 0.02;
/// So much better that one block says enough.
const PLAIN: f64 = 1.0;
/// So much worse that two blocks say enough.
const HOPELESS: f64 = -0.2;
/// Standard errors that a difference must exceed: several arms are looked at, after each block again, so two would be exceeded by
/// chance every third time.
const SURE: f64 = 3.0;
/// The standard error of a gain at which it is known well enough.
const KNOWN: f64 = 0.05;
/// Blocks after which what is still hidden in chance is not worth looking for.
const MOST: usize = 24;
/// Windows after which all is asked again: the first time, and at most, an hour at the default length. Each time that nothing is
/// found it takes twice as long. A value that falls is no reason to ask: a device is asked for less most of the time.
const AGAIN: u32 = 120;
const AGAIN_MOST: u32 = 720;

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Measure this arm, to find out.
    Measure(usize),
    /// It matters: choose.
    Matters,
    /// It does not: stay with this arm.
    Rest(usize),
}

/// What is known of each arm, whatever the pattern.
#[derive(Debug)]
pub(crate) struct Indifference {
    better: Better,
    none: usize,
    arms: usize,
    /// How often it came to rest in a row.
    rests: u32,
    /// What nothing mattered for.
    known: Known,
    state: State,
}

#[derive(Debug)]
enum State {
    Measuring(Blocks),
    Matters { windows: u32 },
    Resting { windows: u32 },
}

/// Each arm once, and again.
#[derive(Debug)]
struct Blocks {
    /// The arms of this block, in turn, and how many of them were measured.
    order: Vec<usize>,
    values: Vec<f64>,
    /// How much better than `none` each arm was in each block, as a part of that.
    gains: Vec<Vec<f64>>,
    /// Blocks so far.
    blocks: usize,
}

impl Indifference {
    /// Over these arms; `None` if `none` is not one of them, as there is no cheapest then.
    pub(crate) fn new(arms: &[String], better: Better) -> Option<Self> {
        let none = arms.iter().position(|arm| arm == "none")?;
        Some(Self {
            better,
            none,
            arms: arms.len(),
            rests: 0,
            known: Known::default(),
            state: State::Measuring(Blocks::of(arms.len(), none)),
        })
    }

    /// What follows from what was learned so far.
    pub(crate) fn verdict(&self) -> Verdict {
        match &self.state {
            State::Measuring(blocks) => Verdict::Measure(blocks.order[blocks.values.len()]),
            State::Matters { .. } => Verdict::Matters,
            State::Resting { .. } => Verdict::Rest(self.none),
        }
    }

    /// The arm cannot be measured: the device refuses it.
    pub(crate) fn refused(&mut self, arm: usize) {
        let State::Measuring(blocks) = &mut self.state else { return };
        if !blocks.order.contains(&arm) {
            return;
        }
        blocks.values.clear();
        blocks.order.retain(|&other| other != arm);
        if arm == self.none || blocks.order.len() < 2 {
            self.state = State::Matters { windows: 0 };
        }
    }

    /// A window went like this under that arm.
    pub(crate) fn learn(&mut self, arm: usize, value: f64) {
        let next = match &mut self.state {
            State::Measuring(blocks) if blocks.order[blocks.values.len()] == arm => {
                blocks.values.push(value);
                (blocks.values.len() == blocks.order.len()).then(|| blocks.finish(self.none, self.better))
            }
            State::Measuring(_) => None,
            State::Matters { windows } => {
                *windows += 1;
                (*windows >= AGAIN_MOST).then(|| Some(State::Measuring(Blocks::of(self.arms, self.none))))
            }
            State::Resting { windows } => {
                *windows += 1;
                (*windows >= rest(self.rests))
                    .then(|| Some(State::Measuring(Blocks::of(self.arms, self.none))))
            }
        };
        if let Some(state) = next.flatten() {
            match state {
                State::Resting { .. } => {
                    self.rests += 1;
                    self.known.answered();
                }
                State::Matters { .. } => {
                    self.rests = 0;
                    self.known.refuted();
                }
                State::Measuring(_) => {}
            }
            self.state = state;
        }
    }

    /// A window at rest, without a look at what was asked but for the kernel's counters. Why to ask again, if there is a reason:
    /// it is asked for something else, which begins everything anew, or it was long enough ago.
    pub(crate) fn rest(&mut self, load: &Load) -> Option<String> {
        let State::Resting { windows } = &mut self.state else { return None };
        if !load.counts() {
            return None;
        }
        *windows += 1;
        let why = match self.known.watch(load) {
            Some(what) => {
                self.rests = 0;
                format!("the device is asked for something else ({what})")
            }
            None if *windows >= rest(self.rests) => format!("it was found {windows} windows ago"),
            None => return None,
        };
        self.state = State::Measuring(Blocks::of(self.arms, self.none));
        Some(why)
    }
}

/// Windows of the n-th rest in a row, counted from 1.
fn rest(n: u32) -> u32 {
    AGAIN_MOST.min(AGAIN << n.saturating_sub(1).min(8))
}

impl Blocks {
    fn of(arms: usize, none: usize) -> Self {
        let others = (0..arms).filter(|&arm| arm != none);
        let order = std::iter::once(none).chain(others).collect();
        Self { order, values: Vec::new(), gains: vec![Vec::new(); arms], blocks: 0 }
    }

    /// A block is full: notes its gains. The verdict, if there is one already; else the next block goes the other way round.
    fn finish(&mut self, none: usize, better: Better) -> Option<State> {
        let measured: Vec<(usize, f64)> = self.order.iter().copied().zip(self.values.drain(..)).collect();
        let base = measured.iter().find(|&&(arm, _)| arm == none).map_or(0.0, |&(_, value)| value);
        self.blocks += 1;
        for (arm, value) in measured.into_iter().filter(|&(arm, _)| arm != none) {
            self.gains[arm].push(better.oriented(value - base) / base.abs().max(f64::MIN_POSITIVE));
        }
        let Self { order, gains, .. } = self;
        order.retain(|&arm| arm == none || !(gains[arm].len() >= 2 && mean(&gains[arm]) < HOPELESS));
        order.reverse();
        self.judge(none)
    }

    fn judge(&self, none: usize) -> Option<State> {
        let blocks = self.blocks;
        let in_it = || self.order.iter().filter(|&&arm| arm != none).map(|&arm| &self.gains[arm]);
        let best = in_it().map(|gains| mean(gains)).fold(f64::NEG_INFINITY, f64::max);
        // Arms differ in what they give, less in how much that varies: together they tell it sooner.
        let spread = in_it().map(|gains| variance(gains)).sum::<f64>() / in_it().count().max(1) as f64;
        let error = (spread / blocks as f64).sqrt();
        if best > PLAIN || (blocks >= LEAST_BETTER && best > WORTH && best > SURE * error) {
            return Some(State::Matters { windows: 0 });
        }
        let known = blocks >= MOST || (blocks >= LEAST_EQUAL && error <= KNOWN);
        known.then_some(State::Resting { windows: 0 })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0).max(1.0)
}

#[cfg(test)]
mod tests {
    use tuner::Random;

    use super::*;

    fn names() -> Vec<String> {
        ["mq-deadline", "none", "bfq", "kyber"].map(str::to_owned).to_vec()
    }

    fn fresh() -> Indifference {
        Indifference::new(&names(), Better::Higher).unwrap()
    }

    /// Windows of a device that gives these means, `noise` of them either way by chance, and that drifts by `drift` a window;
    /// how many it took until there was a verdict.
    fn found_out(means: [f64; 4], noise: f64, drift: f64, seed: u64) -> (Verdict, usize) {
        let (mut random, mut indifference, mut now) = (Random::seeded(seed), fresh(), 1.0);
        for n in 0..1000 {
            let Verdict::Measure(arm) = indifference.verdict() else { return (indifference.verdict(), n) };
            indifference.learn(arm, now * means[arm] * (1.0 - noise + 2.0 * noise * random.unit()));
            now *= 1.0 + drift;
        }
        panic!("no verdict");
    }

    #[test]
    fn where_nothing_is_better_than_none_it_comes_to_rest() {
        for seed in 0..20 {
            let (verdict, windows) = found_out([100.0, 100.0, 60.0, 99.0], 0.02, 0.0, seed);
            assert_eq!(verdict, Verdict::Rest(1), "seed {seed}");
            assert!(windows <= 16, "four blocks: {windows}");
        }
    }

    #[test]
    fn a_busy_machine_takes_longer_but_it_still_comes_to_rest() {
        let runs: Vec<_> =
            (0..50).map(|seed| found_out([100.0, 100.0, 60.0, 100.0], 0.3, 0.0, seed)).collect();
        let rested = runs.iter().filter(|(verdict, _)| *verdict == Verdict::Rest(1)).count();
        let longest = runs.iter().map(|&(_, windows)| windows).max().unwrap();
        assert!(rested >= 40 && longest <= 200, "{rested} of 50, {longest} windows at most");
    }

    #[test]
    fn a_drift_is_no_gain() {
        for drift in [0.01, -0.01] {
            assert_eq!(found_out([100.0; 4], 0.005, drift, 3).0, Verdict::Rest(1), "{drift}");
        }
    }

    #[test]
    fn where_one_is_better_the_analyser_has_the_word() {
        assert_eq!(found_out([100.0, 100.0, 110.0, 100.0], 0.02, 0.0, 5), (Verdict::Matters, 12));
        assert_eq!(found_out([300.0, 100.0, 900.0, 50.0], 0.3, 0.0, 5), (Verdict::Matters, 4), "one block");
    }

    #[test]
    fn without_none_there_is_nothing_to_find() {
        let without_none = ["bfq".to_owned(), "kyber".to_owned()];
        assert!(Indifference::new(&without_none, Better::Higher).is_none());
    }

    #[test]
    fn an_arm_that_is_refused_is_left_out_and_without_none_there_is_no_comparing() {
        let mut indifference = fresh();
        indifference.refused(2);
        let mut measured = [0; 4];
        while let Verdict::Measure(arm) = indifference.verdict() {
            measured[arm] += 1;
            indifference.learn(arm, 100.0);
        }
        assert_eq!((indifference.verdict(), measured), (Verdict::Rest(1), [4, 4, 0, 4]));
        let mut indifference = fresh();
        indifference.refused(1);
        assert_eq!(indifference.verdict(), Verdict::Matters);
    }

    #[test]
    fn windows_of_another_arm_are_not_counted() {
        let mut indifference = fresh();
        (0..50).for_each(|_| indifference.learn(2, 100.0));
        assert_eq!(indifference.verdict(), Verdict::Measure(1));
    }

    #[test]
    fn a_load_that_comes_and_goes_is_looked_at_for_so_long_and_no_longer() {
        let (mut random, mut indifference, mut windows) = (Random::seeded(4), fresh(), 0);
        while let Verdict::Measure(arm) = indifference.verdict() {
            // Nearly idle or busy, whatever the scheduler.
            indifference.learn(arm, if random.coin() { 100.0 } else { 80.0 + 40.0 * random.unit() });
            windows += 1;
        }
        assert!(windows <= MOST * 4, "{windows}");
    }

    #[test]
    fn it_asks_again_after_a_while_and_then_less_often() {
        let mut indifference = fresh();
        let mut rested = Vec::new();
        for _ in 0..5 {
            while let Verdict::Measure(arm) = indifference.verdict() {
                indifference.learn(arm, 100.0);
            }
            let mut windows = 0;
            while indifference.verdict() == Verdict::Rest(1) {
                // Asked for little, it stays at rest all the same.
                indifference.learn(1, 5.0);
                windows += 1;
            }
            rested.push(windows);
        }
        assert_eq!(rested, [120, 240, 480, 720, 720]);
    }

    #[test]
    fn without_looking_it_asks_again_as_late_and_sooner_if_asked_for_something_else() {
        let small = Load { iops: 1000.0, size: 4096.0, reads: 1.0, ..Load::default() };
        let large = Load { size: 131_072.0, ..small };
        let mut indifference = fresh();
        let mut rested = Vec::new();
        for n in 0..6 {
            while let Verdict::Measure(arm) = indifference.verdict() {
                indifference.learn(arm, 100.0);
            }
            let mut windows = 0;
            let why = loop {
                windows += 1;
                // Idle windows say nothing.
                assert_eq!(indifference.rest(&Load::default()), None);
                let load = if n >= 2 && windows > 10 { large } else { small };
                if let Some(why) = indifference.rest(&load) {
                    break why;
                }
            };
            rested.push((windows, why.contains("128 KiB instead of 4")));
        }
        let expected = [(120, false), (240, false), (13, true), (120, false), (240, false), (480, false)];
        assert_eq!(rested, expected, "large requests are asked about once");
    }
}
