//! Arms measured in turn, block by block, and compared with `none` of the same block.
//!
//! A disk is asked for one thing and then for another, and what is best for the one is not for the other: over all of them together
//! `none` may well be the best, and differences between them hide those between arms. So blocks are compared with blocks of the same
//! kind of load only, and a block in which that changed says nothing. Kinds are told by what schedulers do not change: the size of
//! requests and the share of reads.
//!
//! # Idle time
//! A device that is not busy all the time does what it is asked for, and how much that is in a window is nobody's merit: a load that begins
//! in the middle of one, or comes in bursts, would make schedulers look twice as good as one another. So what arms give is compared
//! for the time in which the device was busy, and counts for as much as that time was under `none`: whoever is done
//! in half of it is twice as good where the device is always busy, and a ninth better where it is for a fifth of the time. So much it is for
//! programs that wait for an answer, think, and ask again. Those that ask at their own pace gain nothing, as what was given in the window
//! says: who serves faster what is asked no more often does not count either. So a gain or a loss is what both show, the less of the two,
//! and nothing if they disagree. Where the device is always busy, as programs keep it that only wait, they are the same.

use ioanalyzer::Better;

use crate::load::Load;

/// Blocks before an arm counts as plainly better, as better, and before it is said that none is.
const LEAST_PLAIN: usize = 2;
const LEAST_BETTER: usize = 3;
const LEAST_EQUAL: usize = 4;
/// So much better than `none` a scheduler must be, as a part of what `none` gives, to be worth a thought.
pub(super) const WORTH: f64 = 0.02;
/// So much better in each of two blocks that they say enough. One does not: a program that joins in the middle of it, or whatever else has
/// the machine for a window, makes `none` look half as good.
const PLAIN: f64 = 1.0;
/// So much worse that two blocks say enough.
const HOPELESS: f64 = -0.2;
/// Over a `none` that gave nothing at all a gain is reckoned as this.
const GAIN_MOST: f64 = 1e6;
/// A device is busy for no less than this part of a window in which it does anything.
const LEAST_BUSY: f64 = 1e-9;
/// Standard errors that a difference must exceed, if they are known: several arms are looked at, after each block again, so two would be
/// exceeded by chance every third time.
const SURE: f64 = 3.0;
/// The standard error of a gain at which it is known well enough.
const KNOWN: f64 = 0.05;
/// Blocks, of all kinds and cut short ones included, after which what is still hidden in chance is not worth looking for.
pub(super) const MOST: usize = 24;

/// How a window went.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// The metric's value.
    pub value: f64,
    /// The part of the time that it comes of, above 0 and up to 1: that in which the device was busy, if it is a rate.
    pub busy: f64,
}

impl Measured {
    /// All the time says something of it.
    pub const fn throughout(value: f64) -> Self {
        Self { value, busy: 1.0 }
    }

    /// A rate of something that a device gives while it is busy.
    pub fn rate(value: f64, busy: f64) -> Self {
        Self { value, busy: busy.clamp(LEAST_BUSY, 1.0) }
    }

    /// How much better it is than `base`, as a part of that.
    fn gain_over(&self, base: &Self, better: Better) -> f64 {
        let gain = |value: f64, base: f64| {
            let gain = better.oriented(value - base) / base.abs().max(f64::MIN_POSITIVE);
            gain.clamp(-GAIN_MOST, GAIN_MOST)
        };
        let busy = gain(self.value / self.busy, base.value / base.busy);
        // What takes 1 / (1 + busy) of the busy time then, and the idle time as before.
        let served = base.busy * busy / (1.0 + (1.0 - base.busy) * busy);
        let given = gain(self.value, base.value);
        if served.signum() != given.signum() {
            return 0.0;
        }
        if served.abs() < given.abs() { served } else { given }
    }
}

/// What blocks say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// An arm is better than `none`.
    Better,
    /// None is, as far as can be known.
    Equal,
    /// The load changed too often to compare anything.
    Unknown,
}

/// Each arm once, and again.
#[derive(Debug)]
pub(super) struct Blocks {
    none: usize,
    /// What can be measured.
    arms: Vec<usize>,
    /// The arms of this block, in turn, and what those gave that were measured.
    order: Vec<usize>,
    values: Vec<Measured>,
    kinds: Vec<Kind>,
    /// The kind of this block.
    kind: usize,
    blocks: usize,
}

/// What was found for one kind of load.
#[derive(Debug)]
struct Kind {
    load: Load,
    /// How much better than `none` each arm was in each block, as a part of that.
    gains: Vec<Vec<f64>>,
    blocks: usize,
}

impl Blocks {
    pub(super) fn of(arms: usize, none: usize) -> Self {
        let order: Vec<usize> = std::iter::once(none).chain((0..arms).filter(|&arm| arm != none)).collect();
        Self { none, arms: order.clone(), order, values: Vec::new(), kinds: Vec::new(), kind: 0, blocks: 0 }
    }

    /// The arm to be measured next.
    pub(super) fn next(&self) -> usize {
        self.order[self.values.len()]
    }

    /// The place of that arm in the block, from 1, and the block's length.
    pub(super) fn progress(&self) -> (usize, usize) {
        (self.values.len() + 1, self.order.len())
    }

    /// Leaves an arm out; whether there is still something to compare.
    pub(super) fn rejected(&mut self, arm: usize) -> bool {
        self.values.clear();
        self.arms.retain(|&other| other != arm);
        self.order.retain(|&other| other != arm);
        self.arms.contains(&self.none) && self.arms.len() >= 2
    }

    /// A window of such a load went like this under the arm whose turn it is.
    pub(super) fn measured(&mut self, value: Measured, load: &Load, better: Better) -> Option<Found> {
        let kind = self.kind_of(load);
        if kind != std::mem::replace(&mut self.kind, kind) && !self.values.is_empty() {
            return self.begin();
        }
        self.values.push(value);
        if self.values.len() < self.order.len() {
            return None;
        }
        self.note(better);
        let found = self.kinds[self.kind].judge(self.none);
        found.or_else(|| self.begin())
    }

    fn kind_of(&mut self, load: &Load) -> usize {
        let known = self.kinds.iter().position(|kind| load.is_another_kind_than(&kind.load).is_none());
        known.unwrap_or_else(|| {
            let gains = vec![Vec::new(); self.arms.iter().max().map_or(0, |&arm| arm + 1)];
            self.kinds.push(Kind { load: *load, gains, blocks: 0 });
            self.kinds.len() - 1
        })
    }

    /// A block is full: its gains.
    fn note(&mut self, better: Better) {
        let measured = || self.order.iter().zip(&self.values);
        let base = measured().find(|&(&arm, _)| arm == self.none);
        let base = base.map_or(Measured::throughout(0.0), |(_, &value)| value);
        let gains: Vec<(usize, f64)> =
            measured().map(|(&arm, value)| (arm, value.gain_over(&base, better))).collect();
        let kind = &mut self.kinds[self.kind];
        kind.blocks += 1;
        for (arm, gain) in gains.into_iter().filter(|&(arm, _)| arm != self.none) {
            kind.gains[arm].push(gain);
        }
    }

    /// The next block, the other way round, without those that are much worse for what is asked for now.
    fn begin(&mut self) -> Option<Found> {
        self.values.clear();
        self.blocks += 1;
        let last = self.order.last().copied();
        let kind = &self.kinds[self.kind];
        self.order = self.arms.iter().copied().filter(|&arm| !kind.is_hopeless(arm)).collect();
        if last != Some(self.none) {
            self.order.reverse();
        }
        let compared = self.kinds.iter().any(|kind| kind.blocks >= LEAST_EQUAL);
        (self.blocks >= MOST).then_some(if compared { Found::Equal } else { Found::Unknown })
    }
}

impl Kind {
    fn is_hopeless(&self, arm: usize) -> bool {
        self.gains[arm].len() >= 2 && mean(&self.gains[arm]) < HOPELESS
    }

    fn judge(&self, none: usize) -> Option<Found> {
        let blocks = self.blocks;
        let in_it = || {
            let arms = (0..self.gains.len()).filter(|&arm| arm != none && !self.is_hopeless(arm));
            arms.map(|arm| &self.gains[arm]).filter(|gains| gains.len() == blocks)
        };
        let best = in_it().map(|gains| mean(gains)).fold(f64::NEG_INFINITY, f64::max);
        // Arms differ in what they give, less in how much that varies: together they tell it sooner.
        let spread = in_it().map(|gains| variance(gains)).sum::<f64>() / in_it().count().max(1) as f64;
        let error = (spread / blocks as f64).sqrt();
        let plain = blocks >= LEAST_PLAIN && in_it().any(|gains| gains.iter().all(|&gain| gain > PLAIN));
        if plain || (blocks >= LEAST_BETTER && best > WORTH && best > sure(blocks) * error) {
            return Some(Found::Better);
        }
        let may_be_better = best > WORTH && best > SURE * error;
        (blocks >= LEAST_EQUAL && error <= KNOWN && !may_be_better).then_some(Found::Equal)
    }
}

/// [`SURE`] where the error itself is guessed from so many blocks: the quantile of Student's t that is exceeded by chance as rarely, by
/// its series in the reciprocal of the degrees of freedom. Of those there is one less than blocks, however many arms there are: they are
/// all compared with the same windows of `none`, so whatever was in one of these is in every gain.
fn sure(blocks: usize) -> f64 {
    let (z, freedom) = (SURE, (blocks - 1) as f64);
    let terms = [
        z,
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
    ];
    terms.iter().rev().fold(0.0, |sum, term| sum / freedom + term)
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
    use super::*;

    #[test]
    fn of_few_blocks_more_is_asked_than_of_many() {
        // Tables have 9.22, 4.53 and 3.36 for 3, 7 and 23 degrees of freedom and a probability of 0.00135.
        for (blocks, quantile) in [(4, 9.22), (8, 4.53), (24, 3.36)] {
            assert!((sure(blocks) / quantile - 1.0).abs() < 0.08, "{blocks}: {}", sure(blocks));
        }
    }

    #[test]
    fn a_gain_is_for_as_much_as_the_device_is_busy_and_no_more_than_was_given() {
        let base = Measured::rate(20.0, 0.2);
        let gain = |value, busy| Measured::rate(value, busy).gain_over(&base, Better::Higher);
        let near = |gain: f64, expected: f64| assert!((gain - expected).abs() < 1e-9, "{gain}");
        // Programs that think for four fifths of the time, and are answered twice as fast.
        near(gain(20.0 / 0.9, 0.1 / 0.9), 1.0 / 9.0);
        // They ask no more often, twice as often, and are answered no faster.
        near(gain(20.0, 0.1), 0.0);
        near(gain(40.0, 0.4), 0.0);
        // More in all and slower, and the other way round.
        near(gain(40.0, 0.8), 0.0);
        near(gain(10.0, 0.05), 0.0);
        assert!(gain(15.0, 0.3) < -0.1);
    }

    #[test]
    fn where_it_is_always_busy_or_that_says_nothing_values_are_compared() {
        let gain =
            |value, base, better| Measured::throughout(value).gain_over(&Measured::throughout(base), better);
        assert_eq!([gain(30.0, 10.0, Better::Higher), gain(30.0, 10.0, Better::Lower)], [2.0, -2.0]);
        assert_eq!([gain(-5.0, -10.0, Better::Higher), gain(0.0, 0.0, Better::Higher)], [0.5, 0.0]);
        assert!(gain(1e8, 0.0, Better::Higher) >= GAIN_MOST, "none gave nothing");
    }
}
