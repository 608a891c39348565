//! The nearest of many stored series, with the same answer as comparing all of them.

use super::band::{BandedDtw, Envelope, Sixteen};
use super::fast::FastDtw;
use super::lanes::LANES;

/// The nearest series, by its index among those that were searched. Of equals the first.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Nearest {
    /// Its index.
    pub index: usize,
    /// How far it is.
    pub distance: f64,
    /// The greatest distance that was found on the way: of all that were searched, or, if some were left out, of those
    /// whose comparison was finished.
    pub farthest: f64,
}

impl Nearest {
    fn heed(found: &mut Option<Self>, index: usize, distance: f64) {
        if !distance.is_finite() {
            return;
        }
        let nearest = found.get_or_insert(Self { index, distance, farthest: distance });
        nearest.farthest = nearest.farthest.max(distance);
        if (distance, index) < (nearest.distance, nearest.index) {
            (nearest.index, nearest.distance) = (index, distance);
        }
    }
}

/// A series with its extremes.
#[derive(Clone, Copy, Debug)]
pub struct Bounded<'a> {
    points: &'a [f64],
    least: f64,
    greatest: f64,
}

impl<'a> Bounded<'a> {
    /// Of these points.
    #[must_use]
    pub fn of(points: &'a [f64]) -> Self {
        let least = points.iter().copied().fold(f64::INFINITY, |a, b| if b < a { b } else { a });
        let greatest = points.iter().copied().fold(f64::NEG_INFINITY, |a, b| if b > a { b } else { a });
        Self { points, least, greatest }
    }

    /// How far the points lie outside of the other's extremes, summed.
    fn outside(&self, other: &Self) -> f64 {
        self.points.iter().map(|&p| (p - other.greatest).max(0.0) + (other.least - p).max(0.0)).sum()
    }

    /// A number that no warping of the two can be below (`LB_Yi`): each point meets at least one of the other's. Holds for
    /// every window, hence for FastDTW. Less a margin for the rounding of both sums.
    #[must_use]
    pub fn least_distance(&self, other: &Self) -> f64 {
        self.outside(other).max(other.outside(self)) * (1.0 - 1e-9)
    }
}

/// The nearest to `query` under FastDTW, every series compared.
pub fn nearest_fast(fast: &mut FastDtw, query: &[f64], stored: &[&[f64]]) -> Option<Nearest> {
    let mut found = None;
    for (index, other) in stored.iter().enumerate() {
        Nearest::heed(&mut found, index, fast.distance(query, other));
    }
    found
}

/// The same nearest series at the same distance, with comparisons left out that `LB_Yi` rules out, and others given up as soon
/// as they exceed the best so far. `farthest` may come out smaller.
pub fn nearest_fast_pruned(fast: &mut FastDtw, query: &[f64], stored: &[&[f64]]) -> Option<Nearest> {
    let query = Bounded::of(query);
    let bound = |other: &&[f64]| query.least_distance(&Bounded::of(other));
    let mut by_bound: Vec<(f64, usize)> = stored.iter().map(bound).zip(0..).collect();
    by_bound.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut found = None;
    for (bound, index) in by_bound {
        let best = found.map_or(f64::INFINITY, |nearest: Nearest| nearest.distance);
        if bound > best {
            break;
        }
        Nearest::heed(&mut found, index, fast.distance_within(query.points, stored[index], best));
    }
    found
}

/// The nearest to `query` under exact banded warping. Series are numbered through the batches, lane by lane; those for which
/// `wanted` is false do not count. With `prune`, batches and comparisons that cannot hold the nearest are left out.
pub fn nearest_banded(
    banded: &mut BandedDtw,
    query: &[f32],
    batches: &[Sixteen],
    wanted: impl Fn(usize) -> bool,
    prune: bool,
) -> Option<Nearest> {
    let mut found: Option<Nearest> = None;
    for (bound, batch) in in_order(banded, query, batches, prune) {
        let best = found.filter(|_| prune).map_or(f32::INFINITY, |nearest| nearest.distance as f32);
        if bound > best {
            break;
        }
        let first = batch * LANES;
        if !(first..first + batches[batch].count()).any(&wanted) {
            continue;
        }
        let distances = banded.distances(query, &batches[batch], best);
        for (index, &distance) in (first..).zip(&distances.0).filter(|(index, _)| wanted(*index)) {
            Nearest::heed(&mut found, index, f64::from(distance));
        }
    }
    found
}

/// The batches with the least distance that they may hold: the most promising first if that is to save work.
fn in_order(banded: &BandedDtw, query: &[f32], batches: &[Sixteen], prune: bool) -> Vec<(f32, usize)> {
    if !prune {
        return (0..batches.len()).map(|batch| (0.0, batch)).collect();
    }
    let envelope = Envelope::of(query, banded.width());
    let bound =
        |batch: &Sixteen| BandedDtw::bounds(&envelope, batch).0.into_iter().fold(f32::INFINITY, f32::min);
    let mut by_bound: Vec<(f32, usize)> = batches.iter().map(bound).zip(0..).collect();
    by_bound.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    by_bound
}
