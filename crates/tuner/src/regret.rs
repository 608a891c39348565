//! The bound on regret: at most 5% below the best fixed scheduler over the last hour. Reverts a switch that made the metric worse.
//!
//! # Idea
//! For each window of the last hour the ledger has its value and the value that each scheduler would have given: its mean for such windows. The
//! best fixed scheduler has the best sum; *regret* is the distance of the actual sum below it. A trial is allowed only if the bound would hold
//! even if the trial's windows had the value 0. While the bound is broken, the best fixed scheduler is used.
//!
//! # Limits
//! - A scheduler that was never tried for such windows counts as the window's own value. One that is unknown in more than half of the hour is no
//!   candidate for the best fixed scheduler.
//! - Where lower is better, a window's loss has no limit; a trial is assumed to cost as much as the worst window of the hour.
//! - A trial of several windows is allowed as a whole and then completed.
//! - If the best sum is zero or negative (user minus system bandwidth), the bound has no effect.
//! - The first trial is possible after twenty windows for each window that it takes, so the decider learns more slowly. The bound is therefore off
//!   by default.

use std::collections::VecDeque;

use elevator::{Span, Time};
use observation::{Better, SchedulerId};

use crate::decision::Restraint;

/// Windows for which a scheduler is not chosen after a rollback: a minute at 5 s per window.
const LEFT_FOR: u64 = 12;

#[derive(Clone, Debug)]
struct Entry {
    at: Time,
    own: f64,
    means: Vec<Option<f64>>,
}

impl Entry {
    fn mean(&self, scheduler: usize) -> Option<f64> {
        *self.means.get(scheduler)?
    }
}

/// The bound and its ledger.
#[derive(Clone, Debug)]
pub(crate) struct RegretBound {
    bound: f64,
    hour: Span,
    hurts: f64,
    better: Better,
    ledger: VecDeque<Entry>,
    /// The sum of the own values.
    own: f64,
    /// The sum of each scheduler's values; `None` if it is unknown in more than half of the windows.
    fixed: Vec<Option<f64>>,
    /// The scheduler that a rollback left, and the number of further windows for which it is not chosen.
    left: Option<(SchedulerId, u64)>,
}

impl RegretBound {
    /// A ledger for a number of schedulers and a direction of the metric.
    pub(crate) fn new(schedulers: usize, better: Better) -> Self {
        Self {
            bound: 0.05,
            hour: Span::from_secs(3600),
            hurts: 0.1,
            better,
            ledger: VecDeque::new(),
            own: 0.0,
            fixed: vec![None; schedulers],
            left: None,
        }
    }

    /// Adds a window at `at` with the value `own`. `means`: each scheduler's mean for such windows.
    pub(crate) fn record(&mut self, at: Time, own: f64, means: &[Option<f64>]) {
        self.ledger.push_back(Entry { at, own, means: means.to_vec() });
        while self.ledger.front().is_some_and(|entry| at.since(entry.at) >= self.hour) {
            self.ledger.pop_front();
        }
        // Summed anew each time, because a running sum would drift; an hour has 720 windows.
        self.own = self.ledger.iter().map(|entry| entry.own).sum();
        for (scheduler, sum) in self.fixed.iter_mut().enumerate() {
            let known = self.ledger.iter().filter(|entry| entry.mean(scheduler).is_some()).count();
            let all = self.ledger.iter().map(|entry| entry.mean(scheduler).unwrap_or(entry.own)).sum();
            *sum = (known * 2 >= self.ledger.len()).then_some(all);
        }
    }

    /// The best fixed scheduler of the hour, and its sum.
    pub(crate) fn best_fixed(&self) -> Option<(SchedulerId, f64)> {
        let known =
            self.fixed.iter().enumerate().filter_map(|(index, sum)| Some((SchedulerId(index), (*sum)?)));
        let oriented = |sum: f64| self.better.oriented(sum);
        known.reduce(|a, b| if oriented(b.1) > oriented(a.1) { b } else { a })
    }

    /// The regret as a part of the best fixed scheduler's sum; negative if the own sum is better.
    pub(crate) fn regret(&self) -> f64 {
        self.best_fixed().map_or(0.0, |(_, best)| self.part(self.own, best))
    }

    fn part(&self, own: f64, best: f64) -> f64 {
        if best > 0.0 { self.better.oriented(best - own) / best } else { 0.0 }
    }

    /// The regret after so many windows of the worst assumed value.
    fn regret_after(&self, windows: u64) -> f64 {
        let Some((_, best)) = self.best_fixed() else { return f64::INFINITY };
        let mean = best / self.ledger.len() as f64;
        let worst = match self.better {
            Better::Higher => 0.0,
            Better::Lower => self.ledger.iter().map(|entry| entry.own).fold(mean, f64::max),
        };
        let windows = windows as f64;
        self.part(self.own + windows * worst, best + windows * mean)
    }

    /// The loss of the first window after a switch, as a part of `usual`, if it is large enough to revert the switch. `value`: that window's
    /// value; `usual`: the previous scheduler's mean for such windows. A rollback is not reverted: where the first window after any switch is
    /// poor, switching back would cost as much again.
    pub(crate) fn loss_by_switch(&self, from: SchedulerId, value: f64, usual: f64) -> Option<f64> {
        let loss = if usual == 0.0 { 0.0 } else { self.better.oriented(usual - value) / usual.abs() };
        (loss > self.hurts && self.left.is_none_or(|left| left.0 != from)).then_some(loss)
    }

    /// A rollback left `scheduler`, which is not chosen for a while.
    pub(crate) fn leave(&mut self, scheduler: SchedulerId) {
        self.left = Some((scheduler, LEFT_FOR));
    }

    /// Rejects a choice, with the scheduler to use instead, or returns `None`. `trial`: its windows, 0 if the choice is none. `under_way`: a trial of
    /// several windows goes on, which would have to be repeated if it were cut short.
    pub(crate) fn review(
        &mut self,
        wanted: SchedulerId,
        current: SchedulerId,
        trial: u64,
        under_way: bool,
    ) -> Option<(SchedulerId, Restraint)> {
        let regret = self.regret();
        let left = self.left.take();
        self.left =
            left.filter(|&(_, windows)| windows > 1).map(|(scheduler, windows)| (scheduler, windows - 1));
        if left.is_some_and(|(scheduler, _)| scheduler == wanted) && wanted != current {
            return Some((current, Restraint::RegretBound { wanted, regret }));
        }
        if under_way {
            return None;
        }
        let broken = regret > self.bound;
        let dear = trial > 0 && self.regret_after(trial) > self.bound;
        if !broken && !dear {
            return None;
        }
        let instead = self.best_fixed().map_or(current, |(best, _)| best);
        (instead != wanted).then_some((instead, Restraint::RegretBound { wanted, regret }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(window: u64) -> Time {
        Time::ZERO + Span::from_secs(5 * window)
    }

    /// Scheduler 0 is in use.
    fn review(regret: &mut RegretBound, wanted: usize, trial: u64) -> Option<(SchedulerId, Restraint)> {
        regret.review(SchedulerId(wanted), SchedulerId(0), trial, false)
    }

    #[test]
    fn a_trial_waits_for_its_budget() {
        let mut regret = RegretBound::new(2, Better::Higher);
        let mut allowed_at = None;
        for window in 0..60 {
            if review(&mut regret, 1, 1).is_none() {
                allowed_at.get_or_insert(window);
            }
            regret.record(at(window), 100.0, &[Some(100.0), None]);
        }
        assert_eq!(allowed_at, Some(19), "one window of twenty is 5%");
        assert!(review(&mut regret, 1, 3).is_none(), "three of sixty");
        assert!(review(&mut regret, 1, 4).is_some());
    }

    #[test]
    fn while_the_bound_is_broken_the_best_fixed_scheduler_is_used() {
        let mut regret = RegretBound::new(2, Better::Lower);
        for window in 0..10 {
            regret.record(at(window), 2.0, &[Some(2.0), Some(1.0)]);
        }
        assert_eq!(regret.regret(), 1.0);
        assert_eq!(review(&mut regret, 0, 0).unwrap().0, SchedulerId(1));
        for window in 10..10 + 730 {
            regret.record(at(window), 1.0, &[Some(2.0), Some(1.0)]);
        }
        assert_eq!(review(&mut regret, 0, 0), None);
    }

    #[test]
    fn a_switch_with_a_clear_loss_is_reverted() {
        let regret = RegretBound::new(2, Better::Higher);
        assert_eq!((regret.loss_by_switch(SchedulerId(0), 70.0, 100.0).unwrap() * 10.0).round(), 3.0);
        assert_eq!(regret.loss_by_switch(SchedulerId(0), 95.0, 100.0), None);
        assert_eq!(RegretBound::new(2, Better::Lower).loss_by_switch(SchedulerId(0), 70.0, 100.0), None);
    }

    #[test]
    fn a_scheduler_is_not_chosen_for_a_while_after_a_rollback() {
        let mut regret = RegretBound::new(2, Better::Higher);
        for window in 0..100 {
            regret.record(at(window), 100.0, &[Some(100.0), None]);
        }
        regret.leave(SchedulerId(1));
        let refused = (0..30).take_while(|_| review(&mut regret, 1, 1).is_some()).count();
        assert_eq!(refused as u64, LEFT_FOR);
    }

    #[test]
    fn a_trial_of_a_latency_may_cost_as_much_as_the_worst_window() {
        let mut regret = RegretBound::new(2, Better::Lower);
        for window in 0..60 {
            regret.record(at(window), if window == 30 { 2.0 } else { 1.0 }, &[Some(1.0), None]);
        }
        assert!((regret.regret() - 1.0 / 60.0).abs() < 1e-9);
        assert!(review(&mut regret, 1, 1).is_none(), "63 instead of 61");
        assert!(review(&mut regret, 1, 3).is_some(), "67 instead of 63");
    }

    #[test]
    fn without_a_value_there_is_no_regret() {
        let mut regret = RegretBound::new(1, Better::Higher);
        assert_eq!(regret.regret(), 0.0);
        regret.record(at(0), 0.0, &[Some(0.0)]);
        assert_eq!(regret.regret(), 0.0);
    }
}
