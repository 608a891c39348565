//! A kind of load: the history of each scheduler for it.
//!
//! # Idea
//! Schedulers are judged by *pairs*: a window against the last one before the switch. A load that varies as much as its mean, under any scheduler,
//! varies over many windows and not between two, so that a trial in a poor phase does not lower its scheduler's rating. A pair gives the relative
//! difference of two schedulers. A *rating* is the mean, over a scheduler's pairs, of the other scheduler's rating plus the relative difference to
//! it. The first scheduler has 0.
//!
//! # Order of decisions
//! 1. A scheduler whose trial is due is tried: see [`Kind::due`].
//! 2. Of the scheduler with the best rating and those within [`NEAR`] of it, the one with the best [credit](super::credit) is used.

use serde::{Deserialize, Serialize};

use super::credit::{BUDGET, Credits, FIRST};
use super::measured_values::MeasuredValues;
use super::shape::Shape;
use crate::saved::{COUNT_MAX, carried_over};
use observation::Better;

/// Windows of a trial. Only the last is compared: in the first, buffers that filled under the previous scheduler are emptied, which looks like
/// twice the disks' speed on a stripe of eight.
pub(super) const TRIAL: u64 = 2;
/// Pairs after which trials become no rarer, and of which a rating is the mean: older pairs fade; as many as the paper keeps values.
const SURE: u64 = 20;
/// Two windows do not distinguish schedulers whose ratings differ by no more than this: the effect of the page cache that the paper reports
/// (IV-B: 25.74%).
const NEAR: f64 = 0.25;
/// The greatest loss that a rating from another host is trusted for: a little more than [`NEAR`].
const TRUSTED: f64 = 0.3;
/// Windows over which a shape averages.
const MEMORY: u64 = 100;

/// The knowledge about a scheduler from single windows.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Arm {
    /// The mean, over its pairs (the last [`SURE`] count most), of the other scheduler's rating plus the relative difference to it. The first
    /// scheduler has 0.
    pub(super) rating: f64,
    /// The pairs behind the rating.
    pub(super) pairs: u64,
    /// Windows in use.
    pub(super) windows: u64,
    /// The kind's window count when it was last in use.
    at: u64,
    /// The scheduler takes no turn until the kind has so many windows: with its loss in an opening, a turn would cost more than [`BUDGET`].
    #[serde(default)]
    aside: u64,
    /// It began with a rating from elsewhere, which counts as one of its windows and one of its pairs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_prior: bool,
    /// The values of its windows.
    #[serde(default)]
    pub(super) tally: MeasuredValues,
}

/// The rating of one scheduler for a kind, by its index.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Rating {
    pub(crate) scheduler: usize,
    /// As [`Arm::rating`]; only differences of ratings of one kind have a meaning.
    pub(crate) rating: f64,
    pub(crate) pairs: u64,
    pub(crate) windows: u64,
}

/// A kind of load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Kind {
    shape: Shape,
    /// Of random requests: whether a sequential reader is among them. It has few of them under a scheduler that does not serve it, so that the shape
    /// does not show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    has_stream: Option<bool>,
    pub(super) windows: u64,
    arms: Vec<Arm>,
    pub(super) credits: Credits,
    /// By a significance test no scheduler is better than `none`, whatever was measured right after a switch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) none_suffices: bool,
    /// The kind that this was merged into, which has the knowledge; this is only another shape of it.
    pub(super) part_of: Option<usize>,
}

impl Kind {
    pub(super) fn new(shape: Shape, schedulers: usize) -> Self {
        let (arms, credits) = (vec![Arm::default(); schedulers], Credits::new(schedulers));
        Self { shape, has_stream: None, windows: 0, arms, credits, none_suffices: false, part_of: None }
    }

    /// The same shape without knowledge.
    pub(super) fn unlearned(&self) -> Self {
        Self { has_stream: self.has_stream, ..Self::new(self.shape.clone(), self.arms.len()) }
    }

    /// Whether a window with such random requests may belong to it.
    pub(super) fn may_have(&self, has_stream: Option<bool>) -> bool {
        self.has_stream.zip(has_stream).is_none_or(|(own, other)| own == other)
    }

    pub(super) const fn has_stream(&self) -> Option<bool> {
        self.has_stream
    }

    pub(super) fn set_stream(&mut self, has_stream: Option<bool>) {
        self.has_stream = self.has_stream.or(has_stream);
    }

    pub(super) const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// For another list of schedulers: `from[s]` is the present index of scheduler `s`, if it is there.
    pub(super) fn restored(&self, from: &[Option<usize>]) -> Self {
        let arms = carried_over(&self.arms, from);
        Self { arms, credits: self.credits.restored(from), ..self.clone() }
    }

    /// Appends the knowledge about other schedulers, up to `schedulers`.
    pub(super) fn put_beside(&mut self, others: Option<Self>, schedulers: usize) {
        let (arms, runs) = others.map(|of| (of.arms, of.credits)).unwrap_or_default();
        self.arms.extend(arms);
        self.arms.resize(schedulers, Arm::default());
        self.credits.put_beside(runs, schedulers);
    }

    pub(super) fn is_sound(&self) -> bool {
        let is_sound = |arm: &Arm| {
            arm.rating.is_finite()
                && arm.tally.is_sound()
                && arm.pairs.max(arm.windows).max(arm.aside) <= COUNT_MAX
        };
        let arms = self.windows <= COUNT_MAX && self.arms.iter().all(is_sound);
        self.shape.is_sound() && arms && self.credits.is_sound()
    }

    /// The similarity of a window, 0 to 1.
    pub(super) fn similarity(&self, shape: &Shape) -> f64 {
        self.shape.similarity(shape)
    }

    /// Adds a window's shape. Windows of a merged kind are counted here; [`used`](Self::used) counts for the kind that it was merged into.
    pub(super) fn blend(&mut self, shape: &Shape) {
        self.shape.blend(shape, 1.0 / (self.windows + 1).min(MEMORY) as f64);
        if self.part_of.is_some() {
            self.windows += 1;
        }
    }

    /// Counts a window that a scheduler served.
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

    /// Adds a pair: `scheduler` exceeded `than` by `ahead`, as a part of the greater value.
    pub(super) fn pair(&mut self, scheduler: usize, than: usize, ahead: f64) {
        let sample = self.arm(than).rating + ahead;
        if let Some(arm) = self.arms.get_mut(scheduler) {
            arm.pairs += 1;
            arm.rating += (sample - arm.rating) / arm.pairs.min(SURE) as f64;
        }
    }

    /// Postpones the first turn of each scheduler that an opening found behind the best, so that the turn's loss stays within [`BUDGET`].
    pub(super) fn opened(&mut self) {
        let Some((_, best)) = self.best() else { return };
        let windows = self.windows;
        for arm in &mut self.arms {
            let (turn, loss) = match arm.windows {
                // It was not worth a trial.
                0 => (TRIAL as f64, 1.0),
                _ => (FIRST, (best - arm.rating).clamp(0.0, 1.0)),
            };
            arm.aside = windows + (turn * loss / BUDGET) as u64;
        }
    }

    /// The ratings of the schedulers that served the kind on this host. Those from elsewhere are left out: their hosts export them.
    pub(super) fn ratings(&self) -> Vec<Rating> {
        let rating = |(scheduler, arm): (usize, &Arm)| {
            let Arm { rating, pairs, windows, has_prior, .. } = *arm;
            let prior = u64::from(has_prior);
            let (pairs, windows) = (pairs.saturating_sub(prior), windows.saturating_sub(prior));
            Rating { scheduler, rating, pairs, windows }
        };
        self.known().map(rating).filter(|of| of.windows > 0).collect()
    }

    /// Begins with ratings from elsewhere. Each counts as one window and one pair, and as at most [`TRUSTED`] behind the best, so that the first trials
    /// on a device for which the ratings are wrong come within about sixty windows; worse schedulers have their turns later, as after an opening.
    pub(super) fn expect(&mut self, ratings: &[Option<f64>]) {
        let best = ratings.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
        for (arm, rating) in self.arms.iter_mut().zip(ratings) {
            if let Some(rating) = *rating {
                let rating = rating.max(best - TRUSTED);
                *arm = Arm { rating, pairs: 1, windows: 1, has_prior: true, ..Arm::default() };
            }
        }
        self.opened();
    }

    /// The ratings of other hosts for schedulers that have served no window here, relative to the best of them.
    pub(super) fn of_other_hosts(&self) -> Option<Vec<Option<f64>>> {
        let rating = |arm: &Arm| (arm.has_prior && arm.windows <= 1).then_some(arm.rating);
        let best = self.arms.iter().filter_map(rating).reduce(f64::max)?;
        Some(self.arms.iter().map(|arm| rating(arm).map(|rating| rating - best)).collect())
    }

    /// The tally of a scheduler, to change it.
    pub(super) fn tally_mut(&mut self, scheduler: usize) -> Option<&mut MeasuredValues> {
        Some(&mut self.arms.get_mut(scheduler)?.tally)
    }

    /// The tallies of the schedulers that have one, by scheduler.
    pub(super) fn tallies(&self) -> Vec<Option<MeasuredValues>> {
        self.arms.iter().map(|arm| Some(arm.tally).filter(|tally| tally.windows > 0)).collect()
    }

    /// Restores a previous rating.
    pub(super) fn rate_again(&mut self, scheduler: usize, before: Arm) {
        if let Some(arm) = self.arms.get_mut(scheduler) {
            (arm.rating, arm.pairs) = (before.rating, before.pairs);
        }
    }

    /// Counts a rejected scheduler as a window with a total loss.
    pub(super) fn rejected(&mut self, scheduler: usize) {
        let windows = self.windows;
        let Some((best, _)) = self.best() else { return };
        if let Some(arm) = self.arms.get_mut(scheduler) {
            (arm.windows, arm.at) = (arm.windows + 1, windows);
        }
        self.pair(scheduler, best, -1.0);
    }

    /// The significance test found no scheduler better than `none`. A greater rating came from windows right after a switch, so it is lowered.
    pub(super) fn settled(&mut self, none: usize) {
        let Arm { rating: base, windows, .. } = self.arm(none);
        if windows == 0 {
            return;
        }
        self.none_suffices = true;
        // `opened` may have postponed the turn of `none`, for a loss that the test refuted.
        self.arms[none].aside = 0;
        let has_credit = self.credits.mean(none).is_some();
        for scheduler in (0..self.arms.len()).filter(|&scheduler| scheduler != none) {
            let arm = &mut self.arms[scheduler];
            if base - arm.rating <= NEAR {
                arm.rating = arm.rating.min(base);
                // Without a mean of `none`, the others' means are all that is known.
                if has_credit {
                    self.credits.forget(scheduler);
                }
            }
        }
    }

    fn known(&self) -> impl Iterator<Item = (usize, &Arm)> {
        self.arms.iter().enumerate().filter(|(_, arm)| arm.windows > 0)
    }

    /// The best rating and its scheduler; of equals the first.
    fn best(&self) -> Option<(usize, f64)> {
        let rated = self.known().map(|(index, arm)| (index, arm.rating));
        rated.reduce(|best, other| if other.1 > best.1 { other } else { best })
    }

    /// The scheduler to use, if one is known.
    pub(super) fn choose(&mut self, better: Better) -> Option<usize> {
        let (_, best) = self.best()?;
        let near = self.near(best);
        self.credits.choose(&near, better)
    }

    /// The expected value of each scheduler and its number of windows; `None` if it was never tried. For those near the best it is their credited
    /// mean, for the others the best one's mean scaled by the rating.
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

    /// The measured gain of `to` over `from`, as a part of `from`'s value; `None` if one has no whole window, or if `to` takes its turn.
    pub(super) fn gain(&self, to: usize, from: usize, better: Better) -> Option<f64> {
        let of = |who: usize| Some(self.arm(who).tally).filter(|tally| tally.windows > 0);
        let (gained, from) = (of(to)?.mean, of(from)?.mean);
        (from != 0.0 && !self.credits.is_turn_of(to)).then(|| better.oriented(gained - from) / from.abs())
    }

    /// The schedulers near the best rating.
    fn near(&self, best: f64) -> Vec<usize> {
        let near = |arm: &Arm| best - arm.rating <= NEAR && arm.aside <= self.windows;
        self.known().filter(|(_, arm)| near(arm)).map(|(index, _)| index).collect()
    }

    /// The scheduler to try, if one is due: neither the one in use nor the best rated one. The one with the fewest windows, of equals the most
    /// promising.
    pub(super) fn trial(&self, in_use: usize, promise: &[f64]) -> Option<usize> {
        let (index_best, best) = self.best()?;
        let due =
            |&(index, arm): &(usize, &Arm)| index != in_use && index != index_best && self.due(arm, best);
        let sooner = |one: &(usize, &Arm), other: &(usize, &Arm)| {
            one.1.windows.cmp(&other.1.windows).then(promise[other.0].total_cmp(&promise[one.0]))
        };
        self.arms.iter().enumerate().filter(due).min_by(sooner).map(|(index, _)| index)
    }

    /// Whether a trial of a scheduler is due. An untested scheduler is tried at once, unless an opening skipped it. Otherwise the wait is
    /// [`TRIAL`] · n · (1 + loss/[`BUDGET`]) windows, where n is the number of pairs, at most [`SURE`]. A trial adds two pairs: with the scheduler before and
    /// with the scheduler after it; a switch without a trial and the opening may add others.
    fn due(&self, arm: &Arm, best: f64) -> bool {
        let loss = (best - arm.rating).max(0.0);
        let wait = (TRIAL * arm.pairs.clamp(1, SURE)) as f64 * (1.0 + loss / BUDGET);
        match arm.windows {
            0 => arm.aside <= self.windows,
            _ => (self.windows - arm.at.min(self.windows)) as f64 >= wait,
        }
    }
}

/// The difference of `value` and `than`, as a part of the greater one; positive if `value` is better.
pub(super) fn ahead(value: f64, than: f64, better: Better) -> f64 {
    let greater = value.abs().max(than.abs());
    if greater == 0.0 { 0.0 } else { better.oriented(value - than) / greater }
}

/// The value that `value` exceeds by this part: the inverse of [`ahead`]. Ratings can add up to more than 1, which counts as nearly 1.
fn behind(value: f64, part: f64, better: Better) -> f64 {
    let (value, left) = (better.oriented(value), 1.0 - part.clamp(0.0, 0.99));
    better.oriented(if value >= 0.0 { value * left } else { value / left })
}

#[cfg(test)]
mod tests {
    use elevator::{Op, Sector, Sectors, Span, Time};

    use super::*;
    use observation::{Access, Window};

    #[test]
    fn merging_kinds_averages_their_shapes() {
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
    fn behind_is_the_inverse_of_ahead() {
        for (value, better) in [(20.0, Better::Higher), (-20.0, Better::Higher), (20.0, Better::Lower)] {
            let other = behind(value, 0.4, better);
            assert!((ahead(value, other, better) - 0.4).abs() < 1e-12, "{value} and {other}");
        }
        assert!(behind(20.0, 1.5, Better::Lower).is_finite());
    }
}
