//! A bound on regret: never more than a part (5%) below the best fixed scheduler over the last hour; and back again when a switch
//! hurt.
//!
//! # Idea
//! For each window of the last hour stands what it gave, and what each scheduler would have given: the mean of its values for that
//! window's cluster, or, for one that missed, for windows that missed. The best fixed scheduler is the one with the best sum. Regret is how far our own sum is below it. A trial
//! is allowed only if the bound would still hold should the trial's windows give nothing at all; if the bound is broken, the
//! best fixed scheduler is used until it holds.
//!
//! # State
//! A ledger of the last hour, and what was left because it hurt.
//!
//! # Limits
//! - What a scheduler would have given where it was never tried is unknown, and counted as what the window gave. The bound is
//!   against what is known: a scheduler of which less than half of the hour's windows tell is no candidate.
//! - Where less is better a window's loss has no limit; there a trial is assumed to cost at most as much as the worst window of
//!   the hour did.
//! - A trial of several windows is allowed as a whole and then brought to its end, whatever its first window gave.
//! - Metrics that can be negative (user minus system bandwidth) have no meaningful part: with a best sum at or below zero the
//!   bound is silent.
//! - Trials need a budget: at 5%, the first is allowed after twenty windows for each that it takes. Learning is slower; that is why it is
//!   off by default.

use std::collections::VecDeque;

use elevator::{Span, Time};
use ioanalyzer::{Better, SchedulerId};

use crate::decision::Restraint;

/// How many windows a scheduler that hurt is not chosen again: a minute, at 5 s a window.
const LEFT_FOR: u64 = 12;

/// What a decider wants.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Proposal {
    /// The scheduler to use.
    pub scheduler: SchedulerId,
    /// The one in use.
    pub current: SchedulerId,
    /// For how many windows it is to be tried from here on; 0 if it is known to be good.
    pub trial: u64,
    /// Whether that is the rest of a trial of several windows. Cut short it would teach nothing, and be made again and again.
    pub under_way: bool,
}

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

/// The rule and its ledger.
#[derive(Clone, Debug)]
pub struct RegretBound {
    bound: f64,
    hour: Span,
    hurts: f64,
    better: Better,
    ledger: VecDeque<Entry>,
    /// Sum of what was given.
    own: f64,
    /// Sums of what each scheduler would have given; `None` for one of which less than half of the windows tell.
    fixed: Vec<Option<f64>>,
    /// Who was left because it hurt, and for how many windows still.
    left: Option<(SchedulerId, u64)>,
}

impl RegretBound {
    /// For so many schedulers and a metric of that direction: at most 5% below the best fixed one over an hour; a switch that
    /// makes it a tenth worse is taken back.
    #[must_use]
    pub fn new(schedulers: usize, better: Better) -> Self {
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

    /// A window at `at` gave `own`; by what is known of its cluster each scheduler would have given `means`.
    pub fn record(&mut self, at: Time, own: f64, means: &[Option<f64>]) {
        self.ledger.push_back(Entry { at, own, means: means.to_vec() });
        while self.ledger.front().is_some_and(|entry| at.since(entry.at) >= self.hour) {
            self.ledger.pop_front();
        }
        // Summed anew each time, as a running sum would drift; an hour is 720 windows.
        self.own = self.ledger.iter().map(|entry| entry.own).sum();
        for (scheduler, sum) in self.fixed.iter_mut().enumerate() {
            let known = self.ledger.iter().filter(|entry| entry.mean(scheduler).is_some()).count();
            let all = self.ledger.iter().map(|entry| entry.mean(scheduler).unwrap_or(entry.own)).sum();
            *sum = (known * 2 >= self.ledger.len()).then_some(all);
        }
    }

    /// Forgets what a scheduler would have given, as it stands for something else from now on.
    pub(crate) fn forget(&mut self, scheduler: SchedulerId) {
        let means = self.ledger.iter_mut().filter_map(|entry| entry.means.get_mut(scheduler.0));
        means.chain(self.fixed.get_mut(scheduler.0)).for_each(|known| *known = None);
        self.left = self.left.filter(|left| left.0 != scheduler);
    }

    /// The scheduler that would have been the best over the hour, and its sum.
    #[must_use]
    pub fn best_fixed(&self) -> Option<(SchedulerId, f64)> {
        let known =
            self.fixed.iter().enumerate().filter_map(|(index, sum)| Some((SchedulerId(index), (*sum)?)));
        let oriented = |sum: f64| self.better.oriented(sum);
        known.reduce(|a, b| if oriented(b.1) > oriented(a.1) { b } else { a })
    }

    /// How far the hour's sum is below the best fixed scheduler's, as a part of that; below 0 if it is above.
    #[must_use]
    pub fn regret(&self) -> f64 {
        self.best_fixed().map_or(0.0, |(_, best)| self.part(self.own, best))
    }

    fn part(&self, own: f64, best: f64) -> f64 {
        if best > 0.0 { self.better.oriented(best - own) / best } else { 0.0 }
    }

    /// The regret after so many windows that go as badly as is assumed of a trial.
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

    /// The first window after a switch from a scheduler that is known to give `usual` for such windows gave `value`. How much worse that is,
    /// as a part of `usual`, if it is so much that the switch is to be taken back. A scheduler that was left because it hurt is not returned to:
    /// where the first window after any switch is poor, going back hurts as well.
    #[must_use]
    pub fn loss_by_switch(&self, from: SchedulerId, value: f64, usual: f64) -> Option<f64> {
        let loss = if usual == 0.0 { 0.0 } else { self.better.oriented(usual - value) / usual.abs() };
        (loss > self.hurts && self.left.is_none_or(|left| left.0 != from)).then_some(loss)
    }

    /// `scheduler` hurt and is not to be chosen for a while.
    pub fn leave(&mut self, scheduler: SchedulerId) {
        self.left = Some((scheduler, LEFT_FOR));
    }

    /// Says no, with the scheduler to use instead.
    pub fn review(&mut self, proposal: &Proposal) -> Option<(SchedulerId, Restraint)> {
        let (wanted, regret) = (proposal.scheduler, self.regret());
        let left = self.left.take();
        self.left =
            left.filter(|&(_, windows)| windows > 1).map(|(scheduler, windows)| (scheduler, windows - 1));
        if left.is_some_and(|(scheduler, _)| scheduler == wanted) && wanted != proposal.current {
            return Some((proposal.current, Restraint::RegretBound { wanted, regret }));
        }
        if proposal.under_way {
            return None;
        }
        let broken = regret > self.bound;
        let dear = proposal.trial > 0 && self.regret_after(proposal.trial) > self.bound;
        if !broken && !dear {
            return None;
        }
        let instead = self.best_fixed().map_or(proposal.current, |(best, _)| best);
        (instead != wanted).then_some((instead, Restraint::RegretBound { wanted, regret }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(window: u64) -> Time {
        Time::ZERO + Span::from_secs(5 * window)
    }

    fn trial(scheduler: usize) -> Proposal {
        Proposal { scheduler: SchedulerId(scheduler), current: SchedulerId(0), trial: 1, under_way: false }
    }

    #[test]
    fn a_trial_waits_until_it_can_be_afforded() {
        let mut regret = RegretBound::new(2, Better::Higher);
        let mut allowed_at = None;
        for window in 0..60 {
            if regret.review(&trial(1)).is_none() {
                allowed_at.get_or_insert(window);
            }
            regret.record(at(window), 100.0, &[Some(100.0), None]);
        }
        assert_eq!(allowed_at, Some(19), "one window of twenty is 5%");
        assert!(regret.review(&Proposal { trial: 3, ..trial(1) }).is_none(), "three of sixty");
        assert!(regret.review(&Proposal { trial: 4, ..trial(1) }).is_some());
    }

    #[test]
    fn a_broken_bound_brings_the_best_fixed_one_until_it_holds() {
        let mut regret = RegretBound::new(2, Better::Lower);
        for window in 0..10 {
            regret.record(at(window), 2.0, &[Some(2.0), Some(1.0)]);
        }
        let stay = Proposal { trial: 0, ..trial(0) };
        assert_eq!(regret.regret(), 1.0);
        assert_eq!(regret.review(&stay).unwrap().0, SchedulerId(1));
        for window in 10..10 + 730 {
            regret.record(at(window), 1.0, &[Some(2.0), Some(1.0)]);
        }
        assert_eq!(regret.review(&stay), None);
    }

    #[test]
    fn an_arm_that_got_other_settings_is_not_the_best_by_the_old_ones() {
        let mut regret = RegretBound::new(2, Better::Higher);
        for window in 0..100 {
            regret.record(at(window), 50.0, &[Some(50.0), Some(100.0)]);
        }
        regret.leave(SchedulerId(1));
        let stay = Proposal { trial: 0, ..trial(0) };
        assert_eq!(regret.review(&stay).unwrap().0, SchedulerId(1));
        regret.forget(SchedulerId(1));
        assert_eq!(regret.review(&stay), None);
        assert_eq!(regret.review(&trial(1)), None, "it has hurt nobody");
        regret.record(at(100), 50.0, &[Some(50.0), None]);
        assert_eq!(regret.review(&stay), None);
    }

    #[test]
    fn a_switch_that_hurt_is_taken_back() {
        let regret = RegretBound::new(2, Better::Higher);
        assert_eq!((regret.loss_by_switch(SchedulerId(0), 70.0, 100.0).unwrap() * 10.0).round(), 3.0);
        assert_eq!(regret.loss_by_switch(SchedulerId(0), 95.0, 100.0), None);
        assert_eq!(RegretBound::new(2, Better::Lower).loss_by_switch(SchedulerId(0), 70.0, 100.0), None);
    }

    #[test]
    fn what_hurt_is_left_alone_for_a_while() {
        let mut regret = RegretBound::new(2, Better::Higher);
        for window in 0..100 {
            regret.record(at(window), 100.0, &[Some(100.0), None]);
        }
        regret.leave(SchedulerId(1));
        let refused = (0..30).take_while(|_| regret.review(&trial(1)).is_some()).count();
        assert_eq!(refused as u64, LEFT_FOR);
    }
}
