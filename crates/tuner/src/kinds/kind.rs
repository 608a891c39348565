//! A kind of load: what is known of each scheduler for it.
//!
//! # Idea
//! A scheduler is judged by *pairs*: what a window gave, against the last one before the switch. A load that goes up and down as much as
//! its own mean, whoever serves it, does so over many windows and not between two, so that a trial that falls on a poor moment is not
//! held against its scheduler. A pair says by how much one is ahead of the other, as a part of the greater value; a rating adds
//! that up from the schedulers that were compared.
//!
//! # Order of decisions
//! 1. A scheduler whose trial is due is tried: see [`Kind::due`].
//! 2. Of the scheduler with the best rating and those [`NEAR`] it the one with the best [long run](super::credit) is used.

use serde::{Deserialize, Serialize};

use super::Shape;
use super::credit::{BUDGET, Credits};
use crate::saved::{COUNT_MAX, carried_over};
use ioanalyzer::Better;

/// Windows that a trial takes. Only the last is compared: in the first, buffers that the scheduler before has filled run empty, which on
/// a stripe of eight looks like twice what the disks can do.
pub(super) const TRIAL: u64 = 2;
/// Pairs from which on a rating is held for sure, as many as the paper keeps values: trials get no rarer then, and older pairs fade.
const SURE: u64 = 20;
/// Schedulers whose rating is no more than this behind are not told from the best by single windows. As much as the paper finds that
/// the page cache makes of what users see (IV-B: 25.74%).
const NEAR: f64 = 0.25;
/// Windows that a shape goes back.
const MEMORY: u64 = 100;

/// What is known of a scheduler for a kind by single windows.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Arm {
    /// How far it is ahead of where the first one stands.
    pub(super) rating: f64,
    /// Pairs behind the rating.
    pub(super) pairs: u64,
    /// Windows in use.
    pub(super) windows: u64,
    /// The kind's windows when it was last in use.
    at: u64,
}

/// A kind of load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Kind {
    shape: Shape,
    pub(super) windows: u64,
    arms: Vec<Arm>,
    pub(super) credits: Credits,
    /// The kind whose load this turned out to be; what is known is known there, and this is only another shape of it.
    pub(super) part_of: Option<usize>,
}

impl Kind {
    pub(super) fn new(shape: Shape, schedulers: usize) -> Self {
        let (arms, credits) = (vec![Arm::default(); schedulers], Credits::new(schedulers));
        Self { shape, windows: 0, arms, credits, part_of: None }
    }

    /// Of the same shape, with nothing known of it.
    pub(super) fn unlearned(&self) -> Self {
        Self::new(self.shape.clone(), self.arms.len())
    }

    pub(super) const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// For other schedulers: `from[s]` is where scheduler `s` stands so far, if it does.
    pub(super) fn restored(&self, from: &[Option<usize>]) -> Self {
        let arms = carried_over(&self.arms, from);
        Self { arms, credits: self.credits.restored(from), ..self.clone() }
    }

    /// Appends what is known of other schedulers, if anything is, so that there are so many.
    pub(super) fn put_beside(&mut self, others: Option<Self>, schedulers: usize) {
        let (arms, runs) = others.map(|of| (of.arms, of.credits)).unwrap_or_default();
        self.arms.extend(arms);
        self.arms.resize(schedulers, Arm::default());
        self.credits.put_beside(runs, schedulers);
    }

    pub(super) fn is_sound(&self) -> bool {
        let is_sound = |arm: &Arm| arm.rating.is_finite() && arm.pairs.max(arm.windows) <= COUNT_MAX;
        let arms = self.windows <= COUNT_MAX && self.arms.iter().all(is_sound);
        self.shape.is_sound() && arms && self.credits.is_sound()
    }

    pub(super) fn forget(&mut self, scheduler: usize) {
        if let Some(arm) = self.arms.get_mut(scheduler) {
            *arm = Arm::default();
        }
        self.credits.forget(scheduler);
    }

    /// How alike a window is, 0 to 1.
    pub(super) fn similarity(&self, shape: &Shape) -> f64 {
        self.shape.similarity(shape)
    }

    /// Takes a window of this shape for one of its own. A part's are counted here, as what is [used](Self::used) is counted for its load.
    pub(super) fn blend(&mut self, shape: &Shape) {
        self.shape.blend(shape, 1.0 / (self.windows + 1).min(MEMORY) as f64);
        if self.part_of.is_some() {
            self.windows += 1;
        }
    }

    /// A window of it ended, which was served by a scheduler.
    pub(super) fn used(&mut self, scheduler: usize) {
        self.windows += 1;
        let windows = self.windows;
        if let Some(arm) = self.arms.get_mut(scheduler) {
            arm.windows += 1;
            arm.at = windows;
        }
    }

    pub(super) fn arm(&self, scheduler: usize) -> Arm {
        self.arms.get(scheduler).copied().unwrap_or_default()
    }

    /// A pair: `scheduler` was ahead of `than` by this part of the greater value.
    pub(super) fn pair(&mut self, scheduler: usize, than: usize, ahead: f64) {
        let sample = self.arm(than).rating + ahead;
        if let Some(arm) = self.arms.get_mut(scheduler) {
            arm.pairs += 1;
            arm.rating += (sample - arm.rating) / arm.pairs.min(SURE) as f64;
        }
    }

    /// Takes the rating back to what it was.
    pub(super) fn rate_again(&mut self, scheduler: usize, before: Arm) {
        if let Some(arm) = self.arms.get_mut(scheduler) {
            (arm.rating, arm.pairs) = (before.rating, before.pairs);
        }
    }

    /// Counts a window that a scheduler did not serve, as it is refused, for one in which it gave nothing.
    pub(super) fn rejected(&mut self, scheduler: usize) {
        let windows = self.windows;
        let Some((best, _)) = self.best() else { return };
        if let Some(arm) = self.arms.get_mut(scheduler) {
            (arm.windows, arm.at) = (arm.windows + 1, windows);
        }
        self.pair(scheduler, best, -1.0);
    }

    fn known(&self) -> impl Iterator<Item = (usize, &Arm)> {
        self.arms.iter().enumerate().filter(|(_, arm)| arm.windows > 0)
    }

    /// The scheduler with the best rating, of equals the first, and that rating.
    fn best(&self) -> Option<(usize, f64)> {
        let rated = self.known().map(|(index, arm)| (index, arm.rating));
        rated.reduce(|best, other| if other.1 > best.1 { other } else { best })
    }

    /// The scheduler to use, if any is known.
    pub(super) fn choose(&mut self, better: Better) -> Option<usize> {
        let (_, best) = self.best()?;
        let near = self.near(best);
        self.credits.choose(&near, better)
    }

    /// What each scheduler is expected to give, and how many windows it served; `None` of one that was never tried. Of those near the best
    /// that is their mean of the long run, of others what their rating says of the best one's.
    pub(super) fn expected(&self, better: Better) -> Option<Vec<Option<(f64, u64)>>> {
        let (_, rating) = self.best()?;
        let near = self.near(rating);
        let in_use: Vec<usize> = near.into_iter().filter(|&who| self.credits.mean(who).is_some()).collect();
        let (best, mean) = self.credits.best(&in_use, better)?;
        let rated = self.arm(best).rating;
        let expected = |(index, arm): (usize, &Arm)| {
            let long = self.credits.mean(index).filter(|_| in_use.contains(&index));
            long.unwrap_or_else(|| behind(mean, rated - arm.rating, better))
        };
        let arms = self.arms.iter().enumerate();
        Some(arms.map(|of| (of.1.windows > 0).then(|| (expected(of), of.1.windows))).collect())
    }

    /// How much better `to` is expected to be than `from`, as a part of what `from` gives; `None` if one of them was never tried, and of one
    /// that has its turn, which is to show just that.
    pub(super) fn gain(&self, to: usize, from: usize, better: Better) -> Option<f64> {
        let expected = self.expected(better).filter(|_| !self.credits.is_turn_of(to))?;
        let of = |who: usize| Some(expected.get(who)?.as_ref()?.0);
        let (to, from) = (of(to)?, of(from)?);
        (from != 0.0).then(|| better.oriented(to - from) / from.abs())
    }

    /// By how much `to` is ahead of `from` beyond what chance explains, as a part of the greater value: in the long run if single windows do not
    /// tell them apart, else by their pairs, of which one may be chance.
    pub(super) fn surely_ahead(&self, to: usize, from: usize, better: Better) -> f64 {
        let near = self.best().map_or(Vec::new(), |(_, best)| self.near(best));
        if near.contains(&to) && near.contains(&from) {
            return self.credits.surely_ahead(to, from, better);
        }
        let (to, from) = (self.arm(to), self.arm(from));
        let pairs = to.pairs.max(from.pairs).max(1) as f64;
        (to.rating - from.rating) * (1.0 - 1.0 / pairs)
    }

    /// Those that are not told from the best, whose rating that is.
    fn near(&self, best: f64) -> Vec<usize> {
        self.known().filter(|(_, arm)| best - arm.rating <= NEAR).map(|(index, _)| index).collect()
    }

    /// The scheduler to be tried, if one is due beside the one in use and the one with the best rating, which is near it anyway: the one
    /// that was in use least, of equals the most promising.
    pub(super) fn trial(&self, in_use: usize, promise: &[f64]) -> Option<usize> {
        let (index_best, best) = self.best()?;
        let due =
            |&(index, arm): &(usize, &Arm)| index != in_use && index != index_best && self.due(arm, best);
        let sooner = |one: &(usize, &Arm), other: &(usize, &Arm)| {
            one.1.windows.cmp(&other.1.windows).then(promise[other.0].total_cmp(&promise[one.0]))
        };
        self.arms.iter().enumerate().filter(due).min_by(sooner).map(|(index, _)| index)
    }

    /// Whether a scheduler is to be tried: at once if it never was; otherwise the later, the more it loses and the surer that is.
    /// After n pairs, [`SURE`] at most, one that loses all waits n + n/[`BUDGET`] times as long as a trial takes, an equal one n times. A trial
    /// makes two pairs: with who was in use before, and with who is in use again.
    fn due(&self, arm: &Arm, best: f64) -> bool {
        let loss = (best - arm.rating).max(0.0);
        let wait = (TRIAL * arm.pairs.clamp(1, SURE)) as f64 * (1.0 + loss / BUDGET);
        arm.windows == 0 || (self.windows - arm.at.min(self.windows)) as f64 >= wait
    }
}

/// By how much `value` is ahead of `than`, as a part of the greater one.
pub(super) fn ahead(value: f64, than: f64, better: Better) -> f64 {
    let greater = value.abs().max(than.abs());
    if greater == 0.0 { 0.0 } else { better.oriented(value - than) / greater }
}

/// What is behind `value` by this part of the greater of the two: [`ahead`] the other way round. A part of all or more, which ratings
/// can add up to, is nearly all.
fn behind(value: f64, part: f64, better: Better) -> f64 {
    let (value, left) = (better.oriented(value), 1.0 - part.clamp(0.0, 0.99));
    better.oriented(if value >= 0.0 { value * left } else { value / left })
}

#[cfg(test)]
mod tests {
    use elevator::{Op, Sector, Sectors, Span, Time};

    use super::*;
    use ioanalyzer::{Access, Window};

    #[test]
    fn the_shape_of_a_part_goes_back_as_far_as_any() {
        let of = |op| {
            let access = |n: u64| Access { time: Time::ZERO, position: Sector(n * 8), op, size: Sectors(8) };
            let accesses = (0..10).map(access).collect();
            Shape::of(&Window { start: Time::ZERO, length: Span::from_secs(5), accesses })
        };
        let (reads, writes) = (of(Op::Read), of(Op::Write));
        let mut part = Kind { part_of: Some(0), ..Kind::new(reads.clone(), 1) };
        (0..MEMORY).for_each(|_| part.blend(&reads));
        part.blend(&writes);
        assert!((part.similarity(&reads) - 0.99).abs() < 1e-9, "{}", part.similarity(&reads));
    }

    #[test]
    fn what_is_behind_by_a_part_is_that_far_behind() {
        for (value, better) in [(20.0, Better::Higher), (-20.0, Better::Higher), (20.0, Better::Lower)] {
            let other = behind(value, 0.4, better);
            assert!((ahead(value, other, better) - 0.4).abs() < 1e-12, "{value} and {other}");
        }
        assert!(behind(20.0, 1.5, Better::Lower).is_finite());
    }
}
