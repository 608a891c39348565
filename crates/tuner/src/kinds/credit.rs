//! The long run: what comes of a scheduler beyond its own windows.
//!
//! # Idea
//! What a scheduler does to the load that comes later does not show in its own window. Readers that it no longer keeps together do not
//! find each other's pages in the cache; whoever it serves first is done early and leaves a slow rest. In one window such schedulers
//! are as good as the others, or better. So a scheduler answers for the windows that come *after* a kind of load, too: for as many
//! as it served, until the kind comes again. Where several served it they share what comes after in that proportion.
//!
//! The same holds within a kind that has [autocorrelation](super::autocorrelation): a window's value is shared by all who served it in the windows that
//! the load still remembers. A load without is its scheduler's of the moment alone.
//!
//! # Order of decisions
//! 1. Of the schedulers that single windows do not tell apart, who was in use for less than [`FIRST`] windows goes first.
//! 2. Then the best mean wins. Another one is due when the best has been in use 1 + loss/[`BUDGET`] times as long: what it loses costs
//!    one in a hundred. It then stays until it has been in use twice as long as before, so what takes effect late shows in the end.
//! 3. Loss is what is surely lost: means of few windows that differ much say little ([`Credits::loss`]).
//!
//! # Not for
//! Loads whose values drift by more than schedulers differ, over longer than the turns that schedulers take: whose turn fell on the
//! good time looks best, for long.

use serde::{Deserialize, Serialize};

use super::autocorrelation::Autocorrelation;
use crate::saved::{carried_over, place_now};
use ioanalyzer::Better;

/// The part of all windows' worth that trying a scheduler may cost: one in a hundred.
pub(super) const BUDGET: f64 = 0.01;
/// Windows that every scheduler is in use for at first, as many as the paper keeps values.
const FIRST: f64 = 20.0;
/// Windows that a mean goes back; what is older fades.
const MEMORY: f64 = 1000.0;
/// Windows after a kind that schedulers answer for at most.
const AFTER: f64 = 200.0;

/// What came of one scheduler.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Credit {
    mean: f64,
    variance: f64,
    windows: f64,
    /// Windows after the kind that it still answers for.
    answers_for: f64,
    /// The part that it had in the windows which the load still remembers.
    part: f64,
    /// Windows of the kind that it served itself, and their mean.
    served: f64,
    served_mean: f64,
}

impl Credit {
    /// A window, or the part of one that it answers for.
    fn learn(&mut self, value: f64, part: f64) {
        self.windows += part;
        let weight = (part / self.windows.min(MEMORY)).min(1.0);
        let off = value - self.mean;
        self.mean += weight * off;
        self.variance = (1.0 - weight) * (self.variance + weight * off * off);
    }
}

/// What came of each scheduler, for one kind of load.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Credits {
    runs: Vec<Credit>,
    /// Who has its turn, and how many windows it will have been in use for at the end of it.
    turn: Option<(usize, f64)>,
    /// By how much windows were off what their scheduler gives of *this* kind. Not off the means above, in which what comes after stands:
    /// a second load would look like autocorrelation.
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

    /// For other schedulers: `from[s]` is where scheduler `s` stands so far, if it does.
    pub(super) fn restored(&self, from: &[Option<usize>]) -> Self {
        let turn = self.turn.and_then(|(who, until)| Some((place_now(who, from)?, until)));
        Self { runs: carried_over(&self.runs, from), turn, autocorrelation: self.autocorrelation.clone() }
    }

    /// Appends what came of other schedulers, so that there are so many.
    pub(super) fn put_beside(&mut self, others: Self, schedulers: usize) {
        self.runs.extend(others.runs);
        self.runs.resize(schedulers, Credit::default());
    }

    pub(super) fn is_sound(&self) -> bool {
        let numbers = |run: &Credit| {
            [run.mean, run.variance, run.windows, run.answers_for, run.part, run.served, run.served_mean]
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

    /// A window of the kind was served by a scheduler.
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
        self.runs[scheduler].answers_for += 1.0;
        let all = self.answered();
        if all > AFTER {
            self.runs.iter_mut().for_each(|run| run.answers_for *= AFTER / all);
        }
    }

    /// A window of another kind.
    pub(super) fn afterwards(&mut self, value: f64) {
        let all = self.answered();
        for run in self.runs.iter_mut().filter(|run| run.answers_for > 0.0) {
            run.learn(value, run.answers_for / all);
            run.answers_for *= (1.0 - 1.0 / all).max(0.0);
        }
    }

    fn answered(&self) -> f64 {
        self.runs.iter().map(|run| run.answers_for).sum()
    }

    /// Which of these schedulers is to serve the kind.
    pub(super) fn choose(&mut self, near: &[usize], better: Better) -> Option<usize> {
        let still = |&(who, until): &(usize, f64)| near.contains(&who) && self.runs[who].windows < until;
        self.turn = self.turn.filter(still);
        if self.turn.is_none() {
            self.turn = self.next_turn(near, better);
        }
        self.turn.map(|turn| turn.0).or_else(|| Some(self.best(near, better)?.0))
    }

    /// Whether a scheduler is in use to find out what comes of it.
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

    /// The one of these with the best mean, and that mean.
    pub(super) fn best(&self, near: &[usize], better: Better) -> Option<(usize, f64)> {
        let merit = |who: usize| better.oriented(self.runs[who].mean);
        let best = near
            .iter()
            .copied()
            .reduce(|best, other| if merit(other) > merit(best) { other } else { best })?;
        Some((best, self.runs[best].mean))
    }

    /// What came of a scheduler on average, if it was in use but for trials.
    pub(super) fn mean(&self, scheduler: usize) -> Option<f64> {
        self.runs.get(scheduler).filter(|run| run.windows > 0.0).map(|run| run.mean)
    }

    /// What `from` [surely loses](Self::loss) to `to`; 0 if one of them was not in use but for trials.
    pub(super) fn surely_ahead(&self, to: usize, from: usize, better: Better) -> f64 {
        let in_use = |who: usize| self.runs.get(who).filter(|run| run.windows > 0.0);
        in_use(to).zip(in_use(from)).map_or(0.0, |(to, from)| Self::loss(to, from, better))
    }

    /// What a scheduler surely loses to the best, as a part of the greater mean. Its mean may be off by as much as windows differ, over
    /// the number of [`FIRST`] turns that it had: where values rise and fall in turn, what is too much at one time is too little at
    /// another.
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
    use ioanalyzer::Random;

    /// The means of two schedulers after twenty runs of 200 windows, of which the first serves all but the last 50.
    fn means(mut value: impl FnMut(usize, u64) -> f64) -> [f64; 2] {
        let mut runs = Credits::new(2);
        for window in 0..4000 {
            let scheduler = usize::from(window % 200 >= 150);
            runs.served(scheduler, value(scheduler, window));
        }
        [0, 1].map(|scheduler| runs.mean(scheduler).expect("both served"))
    }

    #[test]
    fn who_inherits_a_poor_moment_does_not_answer_for_it_alone() {
        // Readers are together for 70 windows, then apart to the end of the run.
        let [first, second] = means(|_, window| if window % 200 < 70 { 12.0 } else { 1.0 });
        assert!(second > first / 2.0, "{second} and {first}; by their own windows it is 1.0 and 6.1");
    }

    #[test]
    fn where_nothing_lasts_each_answers_for_its_own_windows() {
        let mut noise = Random::seeded(1);
        let given = |scheduler: usize, _| [10.0, 8.0][scheduler] + noise.unit();
        let [first, second] = means(given);
        assert!((first - 10.5).abs() < 0.1 && (second - 8.5).abs() < 0.1, "{first} and {second}");
    }
}
