//! The significance test: whether any scheduler is better than `none` on this device.
//!
//! # Idea
//! On a device without seeks and without competing processes, no scheduler is better than `none`, which costs the least; every trial and switch is a
//! loss. A decider cannot detect that, because it compares single trials, whose differences may be chance. The test measures every arm in
//! *blocks*, forwards and then backwards, and compares it with `none` of the same block, so that changes of the load or the machine affect both.
//! Blocks are compared only within one kind of load: see `blocks`.
//!
//! # Order of decisions
//! After each block, by the gains over `none` so far for this kind of load:
//! 1. An arm that is much worse is left out of later blocks.
//! 2. An arm is twice as good in each of the first two blocks, or significantly better after three: the choice matters, and the decider chooses.
//! 3. The confidence intervals are narrow enough, or there were enough blocks, and no arm is better: standby under `none`.
//! 4. There were enough blocks, but the load changed too often to complete them: the decider chooses.
//!
//! Where the choice matters, the test is repeated after many windows, or sooner if the decider has measured no gain over `none`. The paper has no
//! such test; its trials never end.

mod blocks;

use observation::Better;

use self::blocks::{Blocks, Found, WORTH};
use crate::early_end::{ABANDON, EarlyEnd};
use crate::load::Load;
use crate::measured::Measured;
use crate::opened::Opened;
use crate::standby::Known;

/// Windows until the test is repeated: the first time, and at most (an hour at the default length). Each negative result doubles it. A falling
/// value does not trigger the test, because devices are often idle.
const AGAIN: u32 = 120;
const AGAIN_MOST: u32 = 720;

/// The state of the test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Measure this arm next.
    Measure(usize),
    /// The choice matters: the decider chooses.
    Matters,
    /// The choice does not matter: use this arm.
    Standby(usize),
}

/// The test of one device.
#[derive(Debug)]
pub struct SignificanceTest {
    better: Better,
    none: usize,
    arms: usize,
    /// Consecutive negative results.
    standbys: u32,
    /// Consecutive repetitions because the decider had measured no gain.
    doubts: u32,
    /// Loads for which the test was negative.
    known: Known,
    state: State,
}

#[derive(Debug)]
enum State {
    Measuring(Blocks),
    /// For `windows` windows; in the latest `vain` of them the decider knew of no gain.
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
    /// A test of these arms; `None` if `none` is not among them.
    pub fn new(arms: &[String], better: Better) -> Option<Self> {
        let none = arms.iter().position(|arm| arm == "none")?;
        Some(Self {
            better,
            none,
            arms: arms.len(),
            standbys: 0,
            doubts: 0,
            known: Known::default(),
            state: State::Measuring(Blocks::of(arms.len(), none)),
        })
    }

    /// The present verdict.
    pub fn verdict(&self) -> Verdict {
        match &self.state {
            State::Measuring(blocks) => Verdict::Measure(blocks.next()),
            State::Matters { .. } => Verdict::Matters,
            State::Standby { .. } => Verdict::Standby(self.none),
        }
    }

    /// An [opening](crate::Opening) is over: its values are the first block, or the answer.
    pub fn opened(&mut self, opened: &Opened) {
        match &mut self.state {
            _ if opened.clear => self.state = MATTERS,
            // Nothing else comes near `none`.
            State::Measuring(_) if opened.hopeless.len() + 1 >= self.arms => self.remember(),
            State::Measuring(blocks) => {
                blocks.leave_out(&opened.hopeless);
                blocks.opened(&opened.values, &opened.load, self.better);
            }
            State::Matters { .. } | State::Standby { .. } => {}
        }
    }

    /// An earlier run found no scheduler better than `none` for the present load.
    pub fn remember(&mut self) {
        (self.state, self.standbys) = (State::Standby { windows: 0 }, self.standbys + 1);
        self.known.answered();
    }

    /// The condition that ends the window of the present arm early.
    pub fn early_end(&self) -> Option<EarlyEnd> {
        let State::Measuring(blocks) = &self.state else { return None };
        let (scheduler, reference) = blocks.to_beat(self.better)?;
        Some(EarlyEnd { scheduler, reference, limit: ABANDON, better: self.better })
    }

    /// The position of the present arm in its block, from 1, and the block's length.
    pub fn progress(&self) -> (usize, usize) {
        match &self.state {
            State::Measuring(blocks) => blocks.progress(),
            State::Matters { .. } | State::Standby { .. } => (0, 0),
        }
    }

    /// The device rejects an arm, which cannot be measured.
    pub fn rejected(&mut self, arm: usize) {
        if let State::Measuring(blocks) = &mut self.state
            && !blocks.rejected(arm)
        {
            self.state = MATTERS;
        }
    }

    /// Adds a window of a load under an arm.
    pub fn learn(&mut self, arm: usize, value: Measured, load: &Load) {
        match &mut self.state {
            State::Measuring(blocks) if blocks.next() == arm => {
                match blocks.measured(value, load, self.better) {
                    None => {}
                    Some(Found::Better | Found::Unknown) => {
                        self.state = MATTERS;
                        self.standbys = 0;
                        self.known.refuted();
                    }
                    Some(Found::Equal) => {
                        self.state = State::Standby { windows: 0 };
                        (self.standbys, self.doubts) = (self.standbys + 1, 0);
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
                    self.start();
                }
            }
            State::Standby { windows } => {
                *windows += 1;
                if *windows >= standby_windows(self.standbys) {
                    self.start();
                }
            }
        }
    }

    /// The decider's expected gain of the best other arm over `none` for the latest window's load, as a part of what `none` gives; `None` if
    /// unknown.
    pub fn believed(&mut self, gain: Option<f64>) {
        let (State::Matters { vain, .. }, Some(gain)) = (&mut self.state, gain) else { return };
        if gain > WORTH {
            (*vain, self.doubts) = (0, 0);
        } else {
            *vain += 1;
        }
    }

    fn start(&mut self) {
        self.state = State::Measuring(Blocks::of(self.arms, self.none));
    }

    /// Whether the test was repeated because of another load.
    pub fn asks_for_another_load(&self) -> bool {
        self.known.asks()
    }

    /// A window on standby, of which only the kernel's counters are known. Returns the reason to repeat the test, if there is one: another load,
    /// which resets the delay, or enough windows.
    pub fn standby_window(&mut self, load: &Load) -> Option<String> {
        let State::Standby { windows } = &mut self.state else { return None };
        if !load.counts() {
            return None;
        }
        *windows += 1;
        let why = match self.known.watch(load) {
            Some(what) => {
                self.standbys = 0;
                format!("the load changed ({what})")
            }
            None if *windows >= standby_windows(self.standbys) => {
                format!("the last test was {windows} windows ago")
            }
            None => return None,
        };
        self.start();
        Some(why)
    }
}

/// Windows of the n-th standby in a row, from 1.
fn standby_windows(n: u32) -> u32 {
    AGAIN_MOST.min(AGAIN << n.saturating_sub(1).min(8))
}

#[cfg(test)]
mod tests {
    use elevator::Random;

    use super::blocks::MOST;
    use super::*;

    const SMALL: Load = Load {
        iops: 1000.0,
        size: 4096.0,
        reads: 1.0,
        bandwidth: 0.0,
        in_flight: 0.0,
        latency: 0.0,
        near: None,
        reads_in_flight: None,
    };
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

    /// Runs a test on a device with these means, relative noise and drift per window; returns the verdict and the number of windows.
    fn found_out(means: [f64; 4], noise: f64, drift: f64, seed: u64) -> (Verdict, usize) {
        let (mut random, mut test, mut now) = (Random::new(seed), fresh(), 1.0);
        for n in 0..1000 {
            let Verdict::Measure(arm) = test.verdict() else { return (test.verdict(), n) };
            learn(&mut test, arm, now * means[arm] * (1.0 - noise + 2.0 * noise * random.unit()), &SMALL);
            now *= 1.0 + drift;
        }
        panic!("no verdict");
    }

    #[test]
    fn without_a_better_arm_the_verdict_is_standby() {
        for seed in 0..20 {
            let (verdict, windows) = found_out([100.0, 100.0, 60.0, 99.0], 0.02, 0.0, seed);
            assert_eq!(verdict, Verdict::Standby(1), "seed {seed}");
            assert!(windows <= 16, "four blocks: {windows}");
        }
    }

    #[test]
    fn a_noisy_machine_takes_longer_but_the_verdict_is_still_standby() {
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

    /// Three more programs start after the first window, or another process disturbs it.
    #[test]
    fn one_slow_window_under_none_is_no_gain() {
        let (mut test, mut windows) = (fresh(), 0);
        while let Verdict::Measure(arm) = test.verdict() {
            learn(&mut test, arm, if windows == 0 { 25.0 } else { 100.0 }, &SMALL);
            windows += 1;
        }
        assert_eq!(test.verdict(), Verdict::Standby(1), "after {windows} windows");
    }

    #[test]
    fn with_a_better_arm_the_choice_matters() {
        assert_eq!(found_out([100.0, 100.0, 110.0, 100.0], 0.02, 0.0, 5), (Verdict::Matters, 12));
        assert_eq!(found_out([300.0, 100.0, 900.0, 50.0], 0.3, 0.0, 5), (Verdict::Matters, 8), "two blocks");
    }

    #[test]
    fn there_is_no_test_without_none() {
        let without_none = ["bfq".to_owned(), "kyber".to_owned()];
        assert!(SignificanceTest::new(&without_none, Better::Higher).is_none());
    }

    #[test]
    fn a_rejected_arm_is_left_out_and_without_none_the_choice_matters() {
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
    fn only_arms_other_than_none_end_early_and_by_the_best_value_of_their_block() {
        let mut test = fresh();
        assert_eq!((test.verdict(), test.early_end()), (Verdict::Measure(1), None));
        learn(&mut test, 1, 100.0, &SMALL);
        learn(&mut test, 0, 150.0, &SMALL);
        let end = test.early_end().expect("bfq is measured");
        assert_eq!((end.scheduler, end.reference.value), (2, 150.0));
        learn(&mut test, 2, 90.0, &SMALL);
        learn(&mut test, 3, 90.0, &SMALL);
        assert_eq!(test.early_end(), None, "the next block begins");
    }

    #[test]
    fn windows_of_another_arm_are_not_counted() {
        let mut test = fresh();
        (0..50).for_each(|_| learn(&mut test, 2, 100.0, &SMALL));
        assert_eq!(test.verdict(), Verdict::Measure(1));
    }

    #[test]
    fn an_opening_in_which_nothing_comes_near_none_is_the_answer() {
        let opened = |hopeless: &[usize]| {
            let mut test = fresh();
            test.opened(&Opened {
                values: vec![None; 4],
                load: SMALL,
                clear: false,
                best: Some(1),
                confirmed: None,
                hopeless: hopeless.to_vec(),
            });
            test.verdict()
        };
        assert_eq!(opened(&[0, 2, 3]), Verdict::Standby(1));
        assert_eq!(opened(&[0, 2]), Verdict::Measure(1));
    }

    #[test]
    fn an_intermittent_load_is_tested_for_a_limited_time() {
        let (mut random, mut test, mut windows) = (Random::new(4), fresh(), 0);
        while let Verdict::Measure(arm) = test.verdict() {
            // Nearly idle or busy, regardless of the scheduler.
            learn(&mut test, arm, if random.coin() { 100.0 } else { 80.0 + 40.0 * random.unit() }, &SMALL);
            windows += 1;
        }
        assert!(windows <= MOST * 4, "{windows}");
    }

    #[test]
    fn a_load_that_never_lasts_for_a_block_gives_no_result() {
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
    fn the_test_is_repeated_after_growing_delays() {
        let mut test = fresh();
        let mut rested = Vec::new();
        for _ in 0..5 {
            while let Verdict::Measure(arm) = test.verdict() {
                learn(&mut test, arm, 100.0, &SMALL);
            }
            let mut windows = 0;
            while test.verdict() == Verdict::Standby(1) {
                // A low rate does not end standby.
                learn(&mut test, 1, 5.0, &SMALL);
                windows += 1;
            }
            rested.push(windows);
        }
        assert_eq!(rested, [120, 240, 480, 720, 720]);
    }

    /// Windows until the test is repeated if the decider expects this gain in each.
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
    fn the_test_is_repeated_sooner_if_the_decider_expects_no_gain() {
        let mut test = fresh();
        let vain: Vec<u32> = (0..5).map(|_| doubted(&mut test, |_| Some(0.01))).collect();
        assert_eq!(vain, [120, 240, 480, 720, 720]);
        assert_eq!(doubted(&mut test, |n| Some(if n < 20 { 0.5 } else { -0.2 })), 140);
        for gain in [None, Some(0.5)] {
            assert_eq!(doubted(&mut fresh(), |_| gain), 720);
        }
        // One of two alternating programs gains.
        assert_eq!(doubted(&mut fresh(), |n| Some(if n / 100 % 2 == 0 { 0.0 } else { 0.5 })), 720);
    }

    #[test]
    fn on_standby_the_test_is_repeated_after_a_delay_or_for_another_load() {
        let mut test = fresh();
        let mut rested = Vec::new();
        for n in 0..6 {
            while let Verdict::Measure(arm) = test.verdict() {
                learn(&mut test, arm, 100.0, &SMALL);
            }
            let mut windows = 0;
            let why = loop {
                windows += 1;
                // Idle windows do not count.
                assert_eq!(test.standby_window(&Load::default()), None);
                let load = if n >= 2 && windows > 10 { LARGE } else { SMALL };
                if let Some(why) = test.standby_window(&load) {
                    break why;
                }
            };
            rested.push((windows, why.contains("128 KiB instead of 4")));
        }
        let expected = [(120, false), (240, false), (13, true), (120, false), (240, false), (480, false)];
        assert_eq!(rested, expected, "large requests are tested once");
    }

    /// A disk on which `none` is best for one program and worst for the other, in alternating phases.
    #[test]
    fn alternating_programs_are_tested_separately() {
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
            // For small requests bfq is better, although large ones gain nothing.
            let mut small = 0;
            test.start();
            while let Verdict::Measure(arm) = test.verdict() {
                learn(&mut test, arm, [3.0, 2.1, 3.5, 2.1][arm], &SMALL);
                small += 1;
            }
            assert_eq!((test.verdict(), small), (Verdict::Matters, 12));
        }
    }
}
