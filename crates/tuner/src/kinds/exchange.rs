//! Exports the ratings of kinds of load for other hosts, and adds kinds with the ratings of other hosts.

use super::kind::Kind;
use super::{ALIKE, Kinds, MOST, Shape};

/// The rating of one scheduler for a kind, by its index.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Rating {
    pub(crate) scheduler: usize,
    /// The sum of relative differences to others; only differences of ratings of one kind have a meaning.
    pub(crate) rating: f64,
    pub(crate) pairs: u64,
    pub(crate) windows: u64,
}

impl Kinds {
    /// The shape, the number of windows and the ratings of each kind in which schedulers were compared.
    pub(crate) fn learned(&self) -> Vec<(Shape, u64, Vec<Rating>)> {
        let kinds = self.loads().map(|kind| &self.kinds[kind]);
        kinds
            .map(|kind| (kind.shape().clone(), kind.windows, kind.ratings()))
            .filter(|of| of.2.len() > 1)
            .collect()
    }

    /// Adds a kind with ratings from elsewhere, by scheduler, unless a kind of this shape exists or there are too many; returns whether it was added.
    pub(crate) fn expect(&mut self, shape: &Shape, ratings: &[Option<f64>]) -> bool {
        let known = self.nearest(shape).is_some_and(|(_, alike)| alike >= ALIKE);
        if known || self.kinds.len() >= MOST || ratings.iter().flatten().count() < 2 {
            return false;
        }
        let mut kind = Kind::new(shape.clone(), self.schedulers);
        kind.expect(ratings);
        self.kinds.push(kind);
        true
    }
}

/// Whether windows of these shapes are of one kind.
pub(crate) fn are_alike(one: &Shape, other: &Shape) -> bool {
    one.similarity(other) >= ALIKE
}
