//! Sectors of a device that are read or written at least once.

use disks::Ideal;
use elevator::{Sector, Span};

/// From the first sector to the one before the second.
type Extent = (Sector, Sector);

/// A set of sectors.
#[derive(Clone, Debug, Default)]
pub(super) struct Covered {
    /// In order, with a gap between any two.
    extents: Vec<Extent>,
    /// Extents in no order.
    fresh: Vec<Extent>,
    /// The time in which the gaps that were closed pass: the set contains them, but they may not have been accessed.
    closed: Span,
    is_inexact: bool,
}

impl Covered {
    pub(super) fn add(&mut self, extent: Extent) {
        match self.fresh.last_mut() {
            Some(last) if last.1 == extent.0 => last.1 = extent.1,
            _ => self.fresh.push(extent),
        }
    }

    /// Adds what is fresh to the set.
    pub(super) fn merge(&mut self) {
        if !self.fresh.is_empty() {
            self.extents.append(&mut self.fresh);
            join(&mut self.extents);
        }
    }

    pub(super) fn size(&self) -> usize {
        self.extents.len() + self.fresh.len()
    }

    /// Closes the narrowest gaps until at most `most` extents are left, or one.
    pub(super) fn shrink(&mut self, most: usize, ideal: &dyn Ideal) {
        let excess = self.extents.len().saturating_sub(most.max(1));
        if excess == 0 {
            return;
        }
        let mut gaps: Vec<u64> = self.extents.windows(2).map(|pair| pair[1].0.0 - pair[0].1.0).collect();
        let (_, &mut widest, _) = gaps.select_nth_unstable(excess - 1);
        let (closed, narrow) =
            (&mut self.closed, |last: &Extent, next: &Extent| next.0.0 - last.1.0 <= widest);
        self.extents.dedup_by(|next, last| {
            let closes = narrow(last, next);
            if closes {
                *closed +=
                    ideal.least_pass(&mut std::iter::once((last.1, next.0)), false).0 + Span::from_nanos(1);
                last.1 = next.1;
            }
            closes
        });
        self.extents.shrink_to_fit();
        self.is_inexact = true;
    }
}

/// Sorts extents and joins those that overlap or touch.
fn join(extents: &mut Vec<Extent>) {
    extents.sort();
    extents.dedup_by(|next, last| {
        let touches = next.0 <= last.1;
        if touches {
            last.1 = last.1.max(next.1);
        }
        touches
    });
}

/// What is in `all` but not in `without`.
fn difference(all: &[Extent], without: &[Extent]) -> Vec<Extent> {
    let (mut rest, mut next) = (Vec::new(), 0);
    for &(mut start, end) in all {
        while without.get(next).is_some_and(|other| other.1 <= start) {
            next += 1;
        }
        for other in without[next..].iter().take_while(|other| other.0 < end) {
            if start < other.0 {
                rest.push((start, other.0));
            }
            start = start.max(other.1);
        }
        if start < end {
            rest.push((start, end));
        }
    }
    rest
}

/// The least time of the medium for reads and writes, and the moves in it. Data that is also written may be read from the buffer, and the
/// last data written may be in the buffer at the end.
pub(super) fn least_time([reads, writes]: &[Covered; 2], ideal: &dyn Ideal) -> (Span, u64) {
    let is_exact = !reads.is_inexact && !writes.is_inexact;
    let pass = |extents: &[Extent]| ideal.least_pass(&mut extents.iter().copied(), is_exact);
    let (time, moves) = pass(&difference(&reads.extents, &writes.extents));
    let of_reads = (time.saturating_sub(reads.closed), moves);
    let Some(buffered) = ideal.buffered_writes().filter(|_| !writes.extents.is_empty()) else {
        return of_reads;
    };
    let mut both = [&reads.extents[..], &writes.extents].concat();
    join(&mut both);
    let (time, moves) = pass(&both);
    let of_both = (time.saturating_sub(reads.closed + writes.closed + buffered), moves);
    of_reads.max(of_both)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(list: &[(u64, u64)]) -> Vec<Extent> {
        list.iter().map(|&(from, to)| (Sector(from), Sector(to))).collect()
    }

    #[test]
    fn a_difference_keeps_what_no_other_extent_has() {
        let all = extents(&[(0, 10), (20, 30), (40, 50)]);
        type Pairs = &'static [(u64, u64)];
        let cases: [(Pairs, Pairs); 5] = [
            (&[], &[(0, 10), (20, 30), (40, 50)]),
            (&[(0, 100)], &[]),
            (&[(2, 4), (6, 8)], &[(0, 2), (4, 6), (8, 10), (20, 30), (40, 50)]),
            (&[(5, 45)], &[(0, 5), (45, 50)]),
            (&[(10, 20), (30, 40)], &[(0, 10), (20, 30), (40, 50)]),
        ];
        for (without, rest) in cases {
            assert_eq!(difference(&all, &extents(without)), extents(rest), "{without:?}");
        }
    }

    #[test]
    fn extents_that_touch_are_one() {
        let mut covered = Covered::default();
        for (from, to) in [(20, 30), (0, 8), (8, 16), (25, 40), (17, 20)] {
            covered.add((Sector(from), Sector(to)));
        }
        covered.merge();
        assert_eq!(covered.extents, extents(&[(0, 16), (17, 40)]));
    }
}
