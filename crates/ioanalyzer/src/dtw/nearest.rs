//! The nearest of many stored series.

use super::band::{BandedDtw, Sixteen};
use super::fast::FastDtw;
use super::lanes::LANES;

/// The nearest series; among equals the first.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Nearest {
    /// Its index among the searched series.
    pub index: usize,
    pub distance: f64,
    /// The greatest distance among the searched series.
    pub farthest: f64,
}

impl Nearest {
    fn add(found: &mut Option<Self>, index: usize, distance: f64) {
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

/// The nearest to `query` under FastDTW, every series compared.
pub fn nearest_fast(fast: &mut FastDtw, query: &[f64], stored: &[&[f64]]) -> Option<Nearest> {
    let mut found = None;
    for (index, other) in stored.iter().enumerate() {
        Nearest::add(&mut found, index, fast.distance(query, other));
    }
    found
}

/// The nearest to `query` under exact banded warping. Series are numbered consecutively over the batches; series for which
/// `wanted` is false are not compared.
pub fn nearest_banded(
    banded: &mut BandedDtw,
    query: &[f32],
    batches: &[Sixteen],
    wanted: impl Fn(usize) -> bool,
) -> Option<Nearest> {
    let mut found: Option<Nearest> = None;
    for (batch, first) in batches.iter().zip((0..).step_by(LANES)) {
        if !(first..first + batch.count()).any(&wanted) {
            continue;
        }
        let distances = banded.distances(query, batch);
        for (index, &distance) in (first..).zip(&distances.0).filter(|(index, _)| wanted(*index)) {
            Nearest::add(&mut found, index, f64::from(distance));
        }
    }
    found
}
