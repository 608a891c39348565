//! Blocks: every arm is measured once, and compared with `none` of the same block.
//!
//! A disk serves different loads in turn, and the best arm for one is not the best for another; averaged over all of them, `none` may look best.
//! So blocks are compared only within one kind of load, and a block during which the load changed is discarded. Loads are distinguished by what
//! schedulers do not change: request size, share of reads, share of requests near to earlier ones, and reads in flight within a factor of eight.

use observation::Better;

use crate::load::Load;
use crate::measured::Measured;

/// The least number of blocks for the verdicts twice as good, better, and no better.
const LEAST_PLAIN: usize = 2;
const LEAST_BETTER: usize = 3;
const LEAST_EQUAL: usize = 4;
/// The least gain over `none` that counts.
pub(super) const WORTH: f64 = 0.02;
/// A gain in each of two blocks that suffices. One block does not: a program that starts during it, or another process, can halve the value of
/// `none`.
const PLAIN: f64 = 1.0;
/// A loss in two blocks after which an arm is left out.
const HOPELESS: f64 = -0.2;
/// Standard errors that a gain must exceed. Several arms are tested after each block, so that a limit of two would be exceeded by chance every
/// third time.
const SURE: f64 = 3.0;
/// The standard error at which a gain is known well enough.
const KNOWN: f64 = 0.05;
/// The greatest number of blocks, including discarded ones; smaller gains are not worth more.
pub(super) const MOST: usize = 24;

/// The result of the blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// An arm is better than `none`.
    Better,
    /// No arm is better, as far as can be known.
    Equal,
    /// The load changed too often to compare anything.
    Unknown,
}

/// The blocks of a test.
#[derive(Debug)]
pub(super) struct Blocks {
    none: usize,
    /// The arms that can be measured.
    arms: Vec<usize>,
    /// The order of the present block, and its results so far.
    order: Vec<usize>,
    values: Vec<Measured>,
    kinds: Vec<LoadResults>,
    /// The kind of load of the present block.
    kind: usize,
    blocks: usize,
}

/// The results for one kind of load.
#[derive(Debug)]
struct LoadResults {
    load: Load,
    /// The gain of each arm over `none` in each block.
    gains: Vec<Vec<f64>>,
    blocks: usize,
}

impl Blocks {
    pub(super) fn of(arms: usize, none: usize) -> Self {
        let order: Vec<usize> = std::iter::once(none).chain((0..arms).filter(|&arm| arm != none)).collect();
        Self { none, arms: order.clone(), order, values: Vec::new(), kinds: Vec::new(), kind: 0, blocks: 0 }
    }

    /// Counts the values of an opening as the first block, if every arm has one.
    pub(super) fn opened(&mut self, values: &[Option<Measured>], load: &Load, better: Better) {
        let all: Option<Vec<Measured>> = self.order.iter().map(|&arm| *values.get(arm)?).collect();
        let Some(all) = all.filter(|_| self.values.is_empty() && self.blocks == 0) else { return };
        self.kind = self.kind_of(load);
        self.values = all;
        self.note(better);
        self.begin();
    }

    /// Leaves out arms that lose too much.
    pub(super) fn leave_out(&mut self, hopeless: &[usize]) {
        for list in [&mut self.arms, &mut self.order] {
            list.retain(|arm| !hopeless.contains(arm));
        }
    }

    /// The arm to measure next.
    pub(super) fn next(&self) -> usize {
        self.order[self.values.len()]
    }

    /// The arm to measure next and the best value of the block so far. Not for `none`, with which all arms are compared: it gets whole windows.
    pub(super) fn to_beat(&self, better: Better) -> Option<(usize, Measured)> {
        let best = |a: Measured, b: Measured| if b.gain_over(&a, better) > 0.0 { b } else { a };
        let reference = self.values.iter().copied().reduce(best)?;
        Some((self.next(), reference)).filter(|&(arm, _)| arm != self.none)
    }

    /// The position of that arm in the block, from 1, and the block's length.
    pub(super) fn progress(&self) -> (usize, usize) {
        (self.values.len() + 1, self.order.len())
    }

    /// Leaves an arm out; returns whether there is still something to compare.
    pub(super) fn rejected(&mut self, arm: usize) -> bool {
        self.values.clear();
        self.arms.retain(|&other| other != arm);
        self.order.retain(|&other| other != arm);
        self.arms.contains(&self.none) && self.arms.len() >= 2
    }

    /// Adds a window of a load under the present arm.
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
        let known = self.kinds.iter().position(|kind| load.requests_differ_from(&kind.load).is_none());
        if let Some(known) = known {
            // Those of an opening are unknown.
            let of_kind = &mut self.kinds[known].load;
            of_kind.reads_in_flight = of_kind.reads_in_flight.or(load.reads_in_flight);
        }
        known.unwrap_or_else(|| {
            let gains = vec![Vec::new(); self.arms.iter().max().map_or(0, |&arm| arm + 1)];
            self.kinds.push(LoadResults { load: *load, gains, blocks: 0 });
            self.kinds.len() - 1
        })
    }

    /// Records the gains of a complete block.
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

    /// Starts the next block in reverse order, without the arms that are much worse for the present load.
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

impl LoadResults {
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
        // Arms differ in their means, less in their variance: pooling it gives an earlier result.
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

/// [`SURE`] if the error is estimated from so many blocks: the quantile of Student's t with the same probability, by its series in the reciprocal
/// of the degrees of freedom. These are one less than the blocks, regardless of the number of arms: all arms are compared with the same windows
/// of `none`, so their errors are not independent.
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
    fn few_blocks_need_a_greater_gain_than_many() {
        // From tables: 9.22, 4.53 and 3.36 for 3, 7 and 23 degrees of freedom and a probability of 0.00135.
        for (blocks, quantile) in [(4, 9.22), (8, 4.53), (24, 3.36)] {
            assert!((sure(blocks) / quantile - 1.0).abs() < 0.08, "{blocks}: {}", sure(blocks));
        }
    }

    #[test]
    fn the_limit_is_the_quantile_of_student_s_t() {
        // By numerical integration, for a tail of 0.00134990 and 23, 47 and 95 degrees of freedom.
        for (blocks, quantile, within) in
            [(24, 3.361_320, 2e-4), (48, 3.167_682, 1e-5), (96, 3.080_894_4, 1e-6)]
        {
            assert!((sure(blocks) - quantile).abs() < within, "{blocks}: {}", sure(blocks));
        }
        // The series with fractions: 3 + 15/2/3 + 277/16/9 + 285/16/27.
        assert!((sure(4) - (3.0 + 7.5 / 3.0 + 17.25 / 9.0 + 30.187_5 / 27.0)).abs() < 1e-9, "{}", sure(4));
    }

    fn judged(gains: &[&[f64]]) -> Option<Found> {
        let blocks = gains.iter().map(|gains| gains.len()).max().unwrap_or(0);
        let gains = std::iter::once(Vec::new()).chain(gains.iter().map(|gains| gains.to_vec())).collect();
        LoadResults { load: Load::default(), gains, blocks }.judge(0)
    }

    #[test]
    fn a_gain_is_judged_by_its_size_its_error_and_the_number_of_blocks() {
        use Found::{Better, Equal};
        assert_eq!(judged(&[&[1.1, 1.1]]), Some(Better), "plain");
        assert_eq!(judged(&[&[1.1, 0.9]]), None, "not in each block");
        assert_eq!(judged(&[&[1.1]]), None, "one block");
        assert_eq!(judged(&[&[0.1, 0.1]]), None);
        assert_eq!(judged(&[&[0.1, 0.1, 0.1]]), Some(Better));
        assert_eq!(judged(&[&[0.02; 3]]), None);
        assert_eq!(judged(&[&[0.02; 4]]), Some(Equal), "too little");
        // Beyond three errors, not beyond the quantile: more blocks are needed.
        assert_eq!(judged(&[&[0.03, 0.07, 0.03, 0.07]]), None);
        assert_eq!(judged(&[&[0.01, 0.05, -0.03, 0.03]]), Some(Equal), "within its error");
        assert_eq!(judged(&[&[0.5, -0.5, 0.4, -0.4]]), None, "the error is too large");
        assert_eq!(judged(&[&[-0.3; 4], &[0.0; 4]]), Some(Equal), "a hopeless arm is left out");
        // The spread is that of all arms.
        assert_eq!(judged(&[&[0.1, 0.1, 0.1], &[0.5, -0.5, 0.0]]), None);
        // An arm that was not measured in each block is no candidate.
        assert_eq!(judged(&[&[0.9], &[0.0; 4]]), Some(Equal));
    }

    #[test]
    fn an_arm_is_hopeless_after_two_blocks_with_a_fifth_less() {
        let of = |gains: &[f64]| {
            LoadResults { load: Load::default(), gains: vec![gains.to_vec()], blocks: 2 }.is_hopeless(0)
        };
        assert_eq!(
            [of(&[-0.9]), of(&[-0.2, -0.2]), of(&[-0.3, -0.2]), of(&[0.5, -0.8])],
            [false, false, true, false]
        );
    }

    #[test]
    fn an_opening_is_the_first_block_if_it_measured_every_arm() {
        let value = |of: f64| Some(Measured::throughout(of));
        let all = [value(100.0), value(90.0), value(110.0)];
        let windows = |values: &[Option<Measured>]| {
            let (mut blocks, load) = (Blocks::of(3, 0), Load::default());
            blocks.opened(values, &load, Better::Higher);
            let first = blocks.next();
            let found = (1..).find(|_| {
                let arm = blocks.next();
                blocks
                    .measured(Measured::throughout([100.0, 90.0, 110.0][arm]), &load, Better::Higher)
                    .is_some()
            });
            (first, found)
        };
        assert_eq!(windows(&all), (2, Some(6)), "two blocks are left, and the next one is in reverse order");
        assert_eq!(windows(&[all[0], None, all[2]]), (0, Some(9)));
        // A block under way is not replaced.
        let mut blocks = Blocks::of(3, 0);
        blocks.measured(Measured::throughout(1.0), &Load::default(), Better::Higher);
        blocks.opened(&all, &Load::default(), Better::Higher);
        assert_eq!(blocks.progress(), (2, 3));
    }

    #[test]
    fn a_block_in_which_the_load_changes_is_discarded() {
        let (reads, writes) = (Load { reads: 1.0, ..Load::default() }, Load::default());
        let mut blocks = Blocks::of(3, 0);
        let mut measure = |load: &Load| {
            blocks.measured(Measured::throughout(1.0), load, Better::Higher);
            blocks.progress().0
        };
        assert_eq!([measure(&reads), measure(&reads)], [2, 3]);
        assert_eq!(measure(&writes), 1, "the window counts for no block");
        assert_eq!([measure(&writes), measure(&writes), measure(&writes)], [2, 3, 1]);
    }

    #[test]
    fn the_best_value_of_a_block_is_the_reference_of_all_arms_but_none() {
        let mut blocks = Blocks::of(3, 1);
        assert_eq!(blocks.to_beat(Better::Lower), None);
        let measured = |blocks: &mut Blocks, value| {
            blocks.measured(Measured::throughout(value), &Load::default(), Better::Lower);
            blocks.to_beat(Better::Lower).map(|(arm, reference)| (arm, reference.value))
        };
        assert_eq!(measured(&mut blocks, 5.0), Some((0, 5.0)));
        assert_eq!(measured(&mut blocks, 4.0), Some((2, 4.0)));
        assert_eq!(measured(&mut blocks, 6.0), None, "the next block");
        assert_eq!(measured(&mut blocks, 6.0), Some((0, 6.0)));
        assert_eq!(measured(&mut blocks, 7.0), None, "none is last in every other block");
    }
}
