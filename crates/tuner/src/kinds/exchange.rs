//! Exports the ratings of kinds of load for other hosts, and adds kinds with the ratings of other hosts.

use super::kind::{Kind, Rating};
use super::shape::{ALIKE, Shape};
use super::{Kinds, MOST};
use crate::shared::Given;

impl Kinds {
    /// The shape, the number of windows and the ratings of each kind in which schedulers were compared.
    pub(crate) fn learned(&self) -> Vec<(Shape, u64, Vec<Rating>)> {
        let kinds = self.loads().map(|kind| &self.kinds[kind]);
        kinds
            .map(|kind| (kind.shape().clone(), kind.windows, kind.ratings()))
            .filter(|of| of.2.len() > 1)
            .collect()
    }

    /// The ratings of other hosts, relative to their best one, that a kind has begun with, by scheduler: those of schedulers that have served no
    /// window here. `None` if there are none.
    pub fn of_other_hosts(&self, kind: usize) -> Option<Vec<Option<f64>>> {
        self.kinds.get(kind)?.of_other_hosts()
    }

    /// Adds a kind with ratings from elsewhere, by scheduler, unless `given` counts a reason against it.
    pub(crate) fn expect(&mut self, shape: &Shape, ratings: &[Option<f64>], given: &mut Given) {
        if self.nearest(shape).is_some_and(|(_, alike)| alike >= ALIKE) {
            given.known += 1;
        } else if ratings.iter().flatten().count() < 2 {
            given.unrated += 1;
        } else if self.kinds.len() >= MOST {
            given.excess += 1;
        } else {
            let mut kind = Kind::new(shape.clone(), self.schedulers);
            kind.expect(ratings);
            self.kinds.push(kind);
            given.added += 1;
        }
    }
}
