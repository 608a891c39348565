//! Finds out whether a choice matters on this device, and stops choosing where it does not.
//!
//! # Idea
//! On a device with nothing to seek and nobody to be fair to, no scheduler is better than `none`, which costs the least. Whoever
//! goes on trying there pays for trials and switches and wins nothing. The analyser alone never finds out: it tries each scheduler
//! once for a pattern, and then has one value of it, which is chance. So every arm is measured in turn, in blocks, first to
//! last and then last to first, and compared with `none` of the same block: what the load or the machine does meanwhile is in
//! both. If no arm is better than `none` beyond what blocks differ by, `none` it is, until it is time to ask again.
//! That is asked of one kind of load at a time: see `blocks`.
//!
//! # Order of decisions
//! After each block, of the gains over `none` so far with such a load:
//! 1. an arm that is much worse is left out of the blocks to come;
//! 2. twice as good in each of the first two blocks, or clearly better after three: it matters, and the analyser has the word;
//! 3. known well enough, or looked at long enough, and none is better: to rest;
//! 4. looked at long enough, and the load never stayed for the blocks that say so: the analyser has the word.
//!
//! Where it matters it is asked again after a long while, and sooner if the analyser, with all that it has seen since, knows of no gain over
//! `none` either.
//!
//! Not in the paper, which always goes on trying; a guard rail of the live part, as a tuner that costs something where it
//! cannot win is a tuner that is turned off.

mod blocks;

use ioanalyzer::Better;

pub use self::blocks::Measured;
use self::blocks::{Blocks, Found, WORTH};
use crate::load::Load;
use crate::standby::Known;

/// Windows after which all is asked again: the first time, and at most, an hour at the default length. Each time that nothing is
/// found it takes twice as long. A value that falls is no reason to ask: a device is asked for less most of the time.
const AGAIN: u32 = 120;
const AGAIN_MOST: u32 = 720;

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Measure this arm, to find out.
    Measure(usize),
    /// It matters: choose.
    Matters,
    /// It does not: stay with this arm.
    Standby(usize),
}

/// What is known of each arm, whatever the pattern.
#[derive(Debug)]
pub struct SignificanceTest {
    better: Better,
    none: usize,
    arms: usize,
    /// How often it came to rest in a row.
    rests: u32,
    /// How often it was asked again in a row as the analyser knew of no gain.
    doubts: u32,
    /// What nothing mattered for.
    known: Known,
    state: State,
}

#[derive(Debug)]
enum State {
    Measuring(Blocks),
    /// For so many windows; in the latest of them, `vain`, the analyser knew of no gain.
    Matters {
        windows: u32,
        vain: u32,
    },
    Standby {
        windows: u32,
    },
}

const MATTERS: State = State::Matters { windows: 0, vain: 0 };

impl SignificanceTest {
    /// Over these arms; `None` if `none` is not one of them, as there is no cheapest then.
    pub fn new(arms: &[String], better: Better) -> Option<Self> {
        let none = arms.iter().position(|arm| arm == "none")?;
        Some(Self {
            better,
            none,
            arms: arms.len(),
            rests: 0,
            doubts: 0,
            known: Known::default(),
            state: State::Measuring(Blocks::of(arms.len(), none)),
        })
    }

    /// What follows from what was learned so far.
    pub fn verdict(&self) -> Verdict {
        match &self.state {
            State::Measuring(blocks) => Verdict::Measure(blocks.next()),
            State::Matters { .. } => Verdict::Matters,
            State::Standby { .. } => Verdict::Standby(self.none),
        }
    }

    /// The place of the arm that is measured now among those that are measured in turn, from 1, and how many these are.
    #[must_use]
    pub fn progress(&self) -> (usize, usize) {
        match &self.state {
            State::Measuring(blocks) => blocks.progress(),
            State::Matters { .. } | State::Standby { .. } => (0, 0),
        }
    }

    /// The arm cannot be measured: the device refuses it.
    pub fn rejected(&mut self, arm: usize) {
        if let State::Measuring(blocks) = &mut self.state
            && !blocks.rejected(arm)
        {
            self.state = MATTERS;
        }
    }

    /// A window of such a load went like this under that arm.
    pub fn learn(&mut self, arm: usize, value: Measured, load: &Load) {
        match &mut self.state {
            State::Measuring(blocks) if blocks.next() == arm => {
                match blocks.measured(value, load, self.better) {
                    None => {}
                    Some(Found::Better | Found::Unknown) => {
                        self.state = MATTERS;
                        self.rests = 0;
                        self.known.refuted();
                    }
                    Some(Found::Equal) => {
                        self.state = State::Standby { windows: 0 };
                        (self.rests, self.doubts) = (self.rests + 1, 0);
                        self.known.answered();
                    }
                }
            }
            State::Measuring(_) => {}
            State::Matters { windows, vain } => {
                *windows += 1;
                let in_vain = *vain >= standby_windows(self.doubts + 1);
                if in_vain || *windows >= AGAIN_MOST {
                    self.doubts += u32::from(in_vain);
                    self.ask();
                }
            }
            State::Standby { windows } => {
                *windows += 1;
                if *windows >= standby_windows(self.rests) {
                    self.ask();
                }
            }
        }
    }

    /// So much better than `none` the analyser believes another arm to be for what was asked in the latest window, as a part of what that
    /// gives; `None` if it does not know.
    pub fn believed(&mut self, gain: Option<f64>) {
        let (State::Matters { vain, .. }, Some(gain)) = (&mut self.state, gain) else { return };
        if gain > WORTH {
            (*vain, self.doubts) = (0, 0);
        } else {
            *vain += 1;
        }
    }

    fn ask(&mut self) {
        self.state = State::Measuring(Blocks::of(self.arms, self.none));
    }

    /// A window at rest, without a look at what was asked but for the kernel's counters. Why to ask again, if there is a reason:
    /// it is asked for something else, which begins everything anew, or it was long enough ago.
    pub fn standby_window(&mut self, load: &Load) -> Option<String> {
        let State::Standby { windows } = &mut self.state else { return None };
        if !load.counts() {
            return None;
        }
        *windows += 1;
        let why = match self.known.watch(load) {
            Some(what) => {
                self.rests = 0;
                format!("the load changed ({what})")
            }
            None if *windows >= standby_windows(self.rests) => {
                format!("the last test was {windows} windows ago")
            }
            None => return None,
        };
        self.ask();
        Some(why)
    }
}

/// Windows of the n-th rest in a row, counted from 1.
fn standby_windows(n: u32) -> u32 {
    AGAIN_MOST.min(AGAIN << n.saturating_sub(1).min(8))
}

#[cfg(test)]
mod tests {
    use ioanalyzer::Random;

    use super::blocks::MOST;
    use super::*;

    const SMALL: Load =
        Load { iops: 1000.0, size: 4096.0, reads: 1.0, bandwidth: 0.0, under_way: 0.0, latency: 0.0 };
    const LARGE: Load = Load { size: 131_072.0, ..SMALL };

    fn names() -> Vec<String> {
        ["mq-deadline", "none", "bfq", "kyber"].map(str::to_owned).to_vec()
    }

    fn fresh() -> SignificanceTest {
        SignificanceTest::new(&names(), Better::Higher).unwrap()
    }

    /// A window in which the device was busy throughout.
    fn learn(test: &mut SignificanceTest, arm: usize, value: f64, load: &Load) {
        test.learn(arm, Measured::throughout(value), load);
    }

    /// Windows of a device that gives these means, `noise` of them either way by chance, and that drifts by `drift` a window;
    /// how many it took until there was a verdict.
    fn found_out(means: [f64; 4], noise: f64, drift: f64, seed: u64) -> (Verdict, usize) {
        let (mut random, mut test, mut now) = (Random::seeded(seed), fresh(), 1.0);
        for n in 0..1000 {
            let Verdict::Measure(arm) = test.verdict() else { return (test.verdict(), n) };
            learn(&mut test, arm, now * means[arm] * (1.0 - noise + 2.0 * noise * random.unit()), &SMALL);
            now *= 1.0 + drift;
        }
        panic!("no verdict");
    }

    #[test]
    fn where_nothing_is_better_than_none_it_comes_to_rest() {
        for seed in 0..20 {
            let (verdict, windows) = found_out([100.0, 100.0, 60.0, 99.0], 0.02, 0.0, seed);
            assert_eq!(verdict, Verdict::Standby(1), "seed {seed}");
            assert!(windows <= 16, "four blocks: {windows}");
        }
    }

    #[test]
    fn a_busy_machine_takes_longer_but_it_still_comes_to_rest() {
        let runs: Vec<_> =
            (0..50).map(|seed| found_out([100.0, 100.0, 60.0, 100.0], 0.3, 0.0, seed)).collect();
        let rested = runs.iter().filter(|(verdict, _)| *verdict == Verdict::Standby(1)).count();
        let longest = runs.iter().map(|&(_, windows)| windows).max().unwrap();
        assert!(rested >= 48 && longest <= 200, "{rested} of 50, {longest} windows at most");
    }

    #[test]
    fn a_drift_is_no_gain() {
        for drift in [0.01, -0.01] {
            assert_eq!(found_out([100.0; 4], 0.005, drift, 3).0, Verdict::Standby(1), "{drift}");
        }
    }

    /// Three more programs join after the first window, or something else has the machine in it.
    #[test]
    fn one_poor_window_of_none_is_no_gain_of_the_others() {
        let (mut test, mut windows) = (fresh(), 0);
        while let Verdict::Measure(arm) = test.verdict() {
            learn(&mut test, arm, if windows == 0 { 25.0 } else { 100.0 }, &SMALL);
            windows += 1;
        }
        assert_eq!(test.verdict(), Verdict::Standby(1), "after {windows} windows");
    }

    #[test]
    fn where_one_is_better_the_analyser_has_the_word() {
        assert_eq!(found_out([100.0, 100.0, 110.0, 100.0], 0.02, 0.0, 5), (Verdict::Matters, 12));
        assert_eq!(found_out([300.0, 100.0, 900.0, 50.0], 0.3, 0.0, 5), (Verdict::Matters, 8), "two blocks");
    }

    #[test]
    fn without_none_there_is_nothing_to_find() {
        let without_none = ["bfq".to_owned(), "kyber".to_owned()];
        assert!(SignificanceTest::new(&without_none, Better::Higher).is_none());
    }

    #[test]
    fn an_arm_that_is_refused_is_left_out_and_without_none_there_is_no_comparing() {
        let mut test = fresh();
        test.rejected(2);
        let mut measured = [0; 4];
        while let Verdict::Measure(arm) = test.verdict() {
            measured[arm] += 1;
            learn(&mut test, arm, 100.0, &SMALL);
        }
        assert_eq!((test.verdict(), measured), (Verdict::Standby(1), [4, 4, 0, 4]));
        let mut test = fresh();
        test.rejected(1);
        assert_eq!(test.verdict(), Verdict::Matters);
    }

    #[test]
    fn windows_of_another_arm_are_not_counted() {
        let mut test = fresh();
        (0..50).for_each(|_| learn(&mut test, 2, 100.0, &SMALL));
        assert_eq!(test.verdict(), Verdict::Measure(1));
    }

    #[test]
    fn a_load_that_comes_and_goes_is_looked_at_for_so_long_and_no_longer() {
        let (mut random, mut test, mut windows) = (Random::seeded(4), fresh(), 0);
        while let Verdict::Measure(arm) = test.verdict() {
            // Nearly idle or busy, whatever the scheduler.
            learn(&mut test, arm, if random.coin() { 100.0 } else { 80.0 + 40.0 * random.unit() }, &SMALL);
            windows += 1;
        }
        assert!(windows <= MOST * 4, "{windows}");
    }

    #[test]
    fn of_a_load_that_never_stays_for_a_block_nothing_is_known() {
        let (mut test, mut windows) = (fresh(), 0);
        while let Verdict::Measure(arm) = test.verdict() {
            let (load, value) =
                if windows % 3 == 0 { (&LARGE, 90.0) } else { (&SMALL, [9.0, 1.0, 9.0, 1.0][arm]) };
            learn(&mut test, arm, value, load);
            windows += 1;
        }
        assert_eq!(test.verdict(), Verdict::Matters, "after {windows} windows");
    }

    #[test]
    fn it_asks_again_after_a_while_and_then_less_often() {
        let mut test = fresh();
        let mut rested = Vec::new();
        for _ in 0..5 {
            while let Verdict::Measure(arm) = test.verdict() {
                learn(&mut test, arm, 100.0, &SMALL);
            }
            let mut windows = 0;
            while test.verdict() == Verdict::Standby(1) {
                // Asked for little, it stays at rest all the same.
                learn(&mut test, 1, 5.0, &SMALL);
                windows += 1;
            }
            rested.push(windows);
        }
        assert_eq!(rested, [120, 240, 480, 720, 720]);
    }

    /// Windows until it is asked again whether it matters, if the analyser believes in this gain in each.
    fn doubted(test: &mut SignificanceTest, mut gain: impl FnMut(u32) -> Option<f64>) -> u32 {
        while let Verdict::Measure(arm) = test.verdict() {
            learn(test, arm, [100.0, 100.0, 900.0, 100.0][arm], &SMALL);
        }
        let mut windows = 0;
        while test.verdict() == Verdict::Matters {
            test.believed(gain(windows));
            learn(test, 2, 100.0, &SMALL);
            windows += 1;
        }
        windows
    }

    #[test]
    fn where_the_analyser_knows_of_no_gain_it_is_asked_again_sooner_and_then_less_often() {
        let mut test = fresh();
        let vain: Vec<u32> = (0..5).map(|_| doubted(&mut test, |_| Some(0.01))).collect();
        assert_eq!(vain, [120, 240, 480, 720, 720]);
        assert_eq!(doubted(&mut test, |n| Some(if n < 20 { 0.5 } else { -0.2 })), 140);
        for gain in [None, Some(0.5)] {
            assert_eq!(doubted(&mut fresh(), |_| gain), 720);
        }
        // Of two programs that take turns one has something to gain.
        assert_eq!(doubted(&mut fresh(), |n| Some(if n / 100 % 2 == 0 { 0.0 } else { 0.5 })), 720);
    }

    #[test]
    fn without_looking_it_asks_again_as_late_and_sooner_if_asked_for_something_else() {
        let mut test = fresh();
        let mut rested = Vec::new();
        for n in 0..6 {
            while let Verdict::Measure(arm) = test.verdict() {
                learn(&mut test, arm, 100.0, &SMALL);
            }
            let mut windows = 0;
            let why = loop {
                windows += 1;
                // Idle windows say nothing.
                assert_eq!(test.standby_window(&Load::default()), None);
                let load = if n >= 2 && windows > 10 { LARGE } else { SMALL };
                if let Some(why) = test.standby_window(&load) {
                    break why;
                }
            };
            rested.push((windows, why.contains("128 KiB instead of 4")));
        }
        let expected = [(120, false), (240, false), (13, true), (120, false), (240, false), (480, false)];
        assert_eq!(rested, expected, "large requests are asked about once");
    }

    /// A disk on which `none` is best for one program and worst for the other, in phases of ten windows.
    #[test]
    fn programs_that_take_turns_do_not_hide_one_another() {
        for phase in [10, 16] {
            let (mut test, mut windows) = (fresh(), 0);
            while let Verdict::Measure(arm) = test.verdict() {
                let (load, means) = match windows / phase % 2 {
                    0 => (LARGE, [91.0, 99.0, 38.0, 99.0]),
                    _ => (SMALL, [3.0, 2.1, 3.5, 2.1]),
                };
                learn(&mut test, arm, means[arm], &load);
                windows += 1;
            }
            assert!(test.verdict() == Verdict::Standby(1) || windows <= 3 * phase, "{windows}");
            // Large requests do not need anything; small ones do, and bfq was not forgotten for them.
            let mut small = 0;
            test.ask();
            while let Verdict::Measure(arm) = test.verdict() {
                learn(&mut test, arm, [3.0, 2.1, 3.5, 2.1][arm], &SMALL);
                small += 1;
            }
            assert_eq!((test.verdict(), small), (Verdict::Matters, 12));
        }
    }
}
