//! Slipped and remapped sectors of a zone, found by binary search.
//!
//! The slip list is sorted once, together with `slips[i] - i`, which never decreases. The number of slips up to the n-th good sector
//! is then one search; DiskSim scans the whole list for every translation.

use crate::parameters::Remap;

/// The slipped sectors of a zone, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Slips {
    places: Vec<u64>,
    /// `places[i] - i`: the number of good sectors before slip `i`.
    good_before: Vec<u64>,
}

impl Slips {
    pub(super) fn new(places: impl Iterator<Item = u64>) -> Self {
        let mut places: Vec<u64> = places.collect();
        places.sort_unstable();
        places.dedup();
        let good_before = places.iter().enumerate().map(|(i, &place)| place - i as u64).collect();
        Self { places, good_before }
    }

    pub(super) fn len(&self) -> u64 {
        self.places.len() as u64
    }

    /// Number of slips before `place`.
    pub(super) fn before(&self, place: u64) -> u64 {
        self.places.partition_point(|&slip| slip < place) as u64
    }

    /// The position of the `offset`-th good sector from `base` on, counting from 0.
    pub(super) fn nth_good(&self, base: u64, offset: u64) -> u64 {
        if self.places.is_empty() {
            return base + offset;
        }
        let skipped = self.before(base);
        let target = base + offset - skipped.min(base + offset);
        let all = self.good_before.partition_point(|&good| good <= target) as u64;
        base + offset + all.max(skipped) - skipped
    }

    /// Number of good sectors in `base..end`.
    pub(super) fn good_between(&self, base: u64, end: u64) -> u64 {
        (end - base) - (self.before(end) - self.before(base))
    }
}

/// Defective sectors and their replacements, in order of the former.
#[derive(Clone, Debug, Default)]
pub(super) struct Remaps(Vec<(u64, u64)>);

impl Remaps {
    pub(super) fn new(remaps: &[Remap]) -> Self {
        let moved = remaps.iter().filter(|r| r.from != r.to);
        let mut pairs: Vec<_> = moved.map(|r| (u64::from(r.from), u64::from(r.to))).collect();
        pairs.sort_unstable();
        pairs.dedup_by_key(|pair| pair.0);
        Self(pairs)
    }

    /// The pairs, in order.
    pub(super) fn places(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow_nth_good(slips: &[u64], base: u64, offset: u64) -> u64 {
        (base..).filter(|place| !slips.contains(place)).nth(offset as usize).unwrap()
    }

    #[test]
    fn searches_as_scans_do() {
        let places = [3, 4, 5, 9, 20, 21, 40];
        let slips = Slips::new(places.iter().rev().copied());
        for base in 0..50 {
            for offset in 0..60 {
                assert_eq!(slips.nth_good(base, offset), slow_nth_good(&places, base, offset));
            }
            for end in base..60 {
                let slow = (base..end).filter(|p| !places.contains(p)).count() as u64;
                assert_eq!(slips.good_between(base, end), slow);
            }
        }
    }
}
