//! Credit: the effect of a scheduler beyond its own windows.
//!
//! # Idea
//! Some effects show later than in the scheduler's own window. Readers that it no longer keeps together do not find each other's pages in the
//! cache; a process that it serves first ends early and leaves a slow rest. Such schedulers look equal or better in one window. A scheduler is
//! therefore also credited with the windows *after* a kind of load, as many as it served, until the kind returns. Several schedulers share these
//! windows in proportion.
//!
//! The same holds within a kind with [autocorrelation](super::autocorrelation): a window's value is shared by all schedulers that served the windows
//! which still have an effect. Without it, a window belongs to its scheduler alone.
//!
//! # Order of decisions
//! 1. Among the schedulers that single windows do not distinguish, one with fewer than [`FIRST`] windows comes first.
//! 2. Then the best mean wins. Another scheduler takes a turn when the best has 1 + loss/[`BUDGET`] times as many windows, so that the loss costs one
//!    in a hundred. It stays until it has twice as many windows as before, so that late effects show.
//! 3. Only a loss beyond chance counts ([`Credits::loss`]).
//!
//! # Not for
//! Loads whose values drift by more than schedulers differ, for longer than their turns: the scheduler whose turn was in the good phase looks
//! best for long.

use serde::{Deserialize, Serialize};

use super::autocorrelation::Autocorrelation;
use crate::saved::{carried_over, place_now};
use observation::Better;

/// The part of all windows' worth that trying a scheduler may cost: one in a hundred.
pub(super) const BUDGET: f64 = 0.01;
/// Windows of each scheduler's first turn, as many as the paper keeps values.
pub(super) const FIRST: f64 = 20.0;
/// Windows over which a mean averages; older ones fade.
const MEMORY: f64 = 1000.0;
/// The greatest number of windows after a kind that are credited.
const AFTER: f64 = 200.0;

/// The credit of one scheduler.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Credit {
    mean: f64,
    variance: f64,
    windows: f64,
    /// Windows after the kind that are still to be credited.
    to_credit: f64,
    /// Its share in the windows that still have an effect.
    part: f64,
    /// Windows of the kind that it served, and their mean.
    served: f64,
    served_mean: f64,
}

impl Credit {
    /// Adds a window, or a part of one.
    fn learn(&mut self, value: f64, part: f64) {
        self.windows += part;
        let weight = (part / self.windows.min(MEMORY)).min(1.0);
        let off = value - self.mean;
        self.mean += weight * off;
        self.variance = (1.0 - weight) * (self.variance + weight * off * off);
    }
}

/// The credits of all schedulers for one kind of load.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Credits {
    runs: Vec<Credit>,
    /// The scheduler that takes its turn, and its number of windows at the end.
    turn: Option<(usize, f64)>,
    /// Deviations from the scheduler's mean of *this* kind. The means above include windows after the kind; a second load would look like
    /// autocorrelation.
    autocorrelation: Autocorrelation,
}

impl Credits {
    pub(super) fn new(schedulers: usize) -> Self {
        Self {
            runs: vec![Credit::default(); schedulers],
            turn: None,
            autocorrelation: Autocorrelation::default(),
        }
    }

    /// For another list of schedulers: `from[s]` is the present index of scheduler `s`, if it is there.
    pub(super) fn restored(&self, from: &[Option<usize>]) -> Self {
        let turn = self.turn.and_then(|(who, until)| Some((place_now(who, from)?, until)));
        Self { runs: carried_over(&self.runs, from), turn, autocorrelation: self.autocorrelation.clone() }
    }

    /// Appends the credits of other schedulers, up to `schedulers`.
    pub(super) fn put_beside(&mut self, others: Self, schedulers: usize) {
        self.runs.extend(others.runs);
        self.runs.resize(schedulers, Credit::default());
    }

    pub(super) fn is_sound(&self) -> bool {
        let numbers = |run: &Credit| {
            [run.mean, run.variance, run.windows, run.to_credit, run.part, run.served, run.served_mean]
        };
        let finite =
            self.runs.iter().flat_map(numbers).chain(self.turn.map(|turn| turn.1)).all(f64::is_finite);
        finite && self.autocorrelation.is_sound()
    }

    pub(super) fn forget(&mut self, scheduler: usize) {
        if let Some(run) = self.runs.get_mut(scheduler) {
            *run = Credit::default();
        }
        self.turn = self.turn.filter(|turn| turn.0 != scheduler);
    }

    /// Adds a window of the kind that a scheduler served.
    pub(super) fn served(&mut self, scheduler: usize, value: f64) {
        let Some(run) = self.runs.get_mut(scheduler) else { return };
        run.served = (run.served + 1.0).min(MEMORY);
        let off = value - run.served_mean;
        run.served_mean += off / run.served;
        if run.served > 1.0 {
            self.autocorrelation.note(off);
        }
        let fresh = 1.0 / self.autocorrelation.windows().min(AFTER);
        self.runs.iter_mut().for_each(|run| run.part *= 1.0 - fresh);
        self.runs[scheduler].part += fresh;
        let parts: f64 = self.runs.iter().map(|run| run.part).sum();
        for run in self.runs.iter_mut().filter(|run| run.part > 0.0) {
            run.learn(value, run.part / parts);
        }
        self.runs[scheduler].to_credit += 1.0;
        let all = self.all_to_credit();
        if all > AFTER {
            self.runs.iter_mut().for_each(|run| run.to_credit *= AFTER / all);
        }
    }

    /// Adds a window of another kind.
    pub(super) fn afterwards(&mut self, value: f64) {
        let all = self.all_to_credit();
        for run in self.runs.iter_mut().filter(|run| run.to_credit > 0.0) {
            run.learn(value, run.to_credit / all);
            run.to_credit *= (1.0 - 1.0 / all).max(0.0);
        }
    }

    fn all_to_credit(&self) -> f64 {
        self.runs.iter().map(|run| run.to_credit).sum()
    }

    /// The scheduler, among these, that serves the kind.
    pub(super) fn choose(&mut self, near: &[usize], better: Better) -> Option<usize> {
        let still = |&(who, until): &(usize, f64)| near.contains(&who) && self.runs[who].windows < until;
        self.turn = self.turn.filter(still);
        if self.turn.is_none() {
            self.turn = self.next_turn(near, better);
        }
        self.turn.map(|turn| turn.0).or_else(|| Some(self.best(near, better)?.0))
    }

    /// Whether a scheduler is in use because it takes its turn.
    pub(super) fn is_turn_of(&self, scheduler: usize) -> bool {
        self.turn.is_some_and(|turn| turn.0 == scheduler)
    }

    fn next_turn(&self, near: &[usize], better: Better) -> Option<(usize, f64)> {
        if let Some(&new) = near.iter().find(|&&who| self.runs[who].windows < FIRST) {
            return Some((new, FIRST));
        }
        let best = &self.runs[self.best(near, better)?.0];
        let due = |&&who: &&usize| {
            let run = &self.runs[who];
            run.windows * (1.0 + Self::loss(best, run, better) / BUDGET) < best.windows
        };
        near.iter().find(due).map(|&who| (who, self.runs[who].windows * 2.0))
    }

    /// The best mean among these schedulers.
    pub(super) fn best(&self, near: &[usize], better: Better) -> Option<(usize, f64)> {
        let merit = |who: usize| better.oriented(self.runs[who].mean);
        let best = near
            .iter()
            .copied()
            .reduce(|best, other| if merit(other) > merit(best) { other } else { best })?;
        Some((best, self.runs[best].mean))
    }

    /// A scheduler's mean, if it had more than trials.
    pub(super) fn mean(&self, scheduler: usize) -> Option<f64> {
        self.runs.get(scheduler).filter(|run| run.windows > 0.0).map(|run| run.mean)
    }

    /// The loss against the best beyond chance, as a part of the greater mean. The error of a mean may be the standard deviation of windows divided by the
    /// number of turns of [`FIRST`] windows: with alternating values, one turn's excess is another's deficit.
    fn loss(best: &Credit, run: &Credit, better: Better) -> f64 {
        let greater = best.mean.abs().max(run.mean.abs());
        if greater == 0.0 {
            return 0.0;
        }
        let off = f64::midpoint(best.variance, run.variance).sqrt() * FIRST / run.windows;
        ((better.oriented(best.mean - run.mean) - off) / greater).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elevator::Random;

    /// The means of two schedulers after twenty runs of 200 windows, of which the second serves the last 50.
    fn means(mut value: impl FnMut(usize, u64) -> f64) -> [f64; 2] {
        let mut runs = Credits::new(2);
        for window in 0..4000 {
            let scheduler = usize::from(window % 200 >= 150);
            runs.served(scheduler, value(scheduler, window));
        }
        [0, 1].map(|scheduler| runs.mean(scheduler).expect("both served"))
    }

    #[test]
    fn a_poor_phase_is_shared_with_the_scheduler_before() {
        // Readers share the cache for 70 windows, then no longer.
        let [first, second] = means(|_, window| if window % 200 < 70 { 12.0 } else { 1.0 });
        assert!(second > first / 2.0, "{second} and {first}; by their own windows it is 1.0 and 6.1");
    }

    #[test]
    fn without_autocorrelation_windows_belong_to_their_scheduler() {
        let mut noise = Random::new(1);
        let given = |scheduler: usize, _| [10.0, 8.0][scheduler] + noise.unit();
        let [first, second] = means(given);
        assert!((first - 10.5).abs() < 0.1 && (second - 8.5).abs() < 0.1, "{first} and {second}");
    }

    #[test]
    fn the_first_window_of_a_scheduler_has_no_deviation() {
        let mut runs = Credits::new(2);
        runs.served(0, 10.0);
        runs.served(1, 20.0);
        assert_eq!(runs.autocorrelation, Autocorrelation::default());
        runs.served(1, 21.0);
        assert_ne!(runs.autocorrelation, Autocorrelation::default());
    }

    #[test]
    fn of_equal_schedulers_the_first_is_the_best() {
        let mut runs = Credits::new(3);
        [5.0, 5.0, 4.0].into_iter().enumerate().for_each(|(scheduler, value)| runs.served(scheduler, value));
        assert_eq!(runs.best(&[1, 0, 2], Better::Higher), Some((1, 5.0)));
        assert_eq!(runs.best(&[0, 1, 2], Better::Lower), Some((2, 4.0)));
        assert_eq!(runs.best(&[], Better::Higher), None);
    }

    #[test]
    fn turns_come_first_to_schedulers_with_few_windows_and_last_until_twice_as_many() {
        let mut runs = Credits::new(2);
        let served = |runs: &mut Credits, scheduler: usize, windows: u32| {
            (0..windows).for_each(|_| runs.served(scheduler, 10.0));
        };
        served(&mut runs, 0, 20);
        assert_eq!((runs.choose(&[0, 1], Better::Higher), runs.turn), (Some(1), Some((1, FIRST))));
        assert!(runs.is_turn_of(1) && !runs.is_turn_of(0));
        served(&mut runs, 1, 20);
        assert_eq!((runs.choose(&[0, 1], Better::Higher), runs.turn), (Some(0), None));
        // Without a loss, a turn is due when the best has more windows.
        served(&mut runs, 0, 1);
        assert_eq!((runs.choose(&[0, 1], Better::Higher), runs.turn), (Some(1), Some((1, 40.0))));
        assert_eq!((runs.choose(&[0], Better::Higher), runs.turn), (Some(0), None), "no longer near");
        runs.turn = Some((1, 40.0));
        runs.forget(0);
        assert_eq!(runs.turn, Some((1, 40.0)));
        runs.forget(1);
        assert_eq!(runs.turn, None);
    }

    #[test]
    fn windows_of_other_kinds_are_credited_in_proportion() {
        let mut runs = Credits::new(2);
        (0..3).for_each(|_| runs.served(0, 10.0));
        runs.served(1, 10.0);
        runs.afterwards(50.0);
        let windows = |runs: &Credits| runs.runs.iter().map(|run| run.windows).collect::<Vec<_>>();
        assert_eq!(windows(&runs), [3.75, 1.25]);
        assert_eq!(runs.all_to_credit(), 3.0);
        (0..10).for_each(|_| runs.afterwards(50.0));
        assert!(
            (windows(&runs).iter().sum::<f64>() - 8.0).abs() < 1e-9,
            "as many as it served: {:?}",
            windows(&runs)
        );
        (0..500).for_each(|_| runs.served(0, 10.0));
        assert!((runs.all_to_credit() - AFTER).abs() < 1e-9);
    }
}
