//! The distance rule of the anticipatory scheduler, which CFQ adopted: which of two requests is nearer to the head.
//!
//! A one-way elevator that allows short moves backward at a higher cost.

use elevator::{RequestId, Sector};

use crate::parts::sorted::SortedIndex;

/// The limit of backward moves, and their cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reach {
    /// Sectors behind the head up to which a request counts as reachable.
    pub(crate) back_max: u64,
    /// Cost of a sector backward, relative to one forward.
    pub(crate) back_penalty: u64,
}

/// The cost of moving to a sector: the lower cost is served first; at equal costs the higher sector.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Cost {
    /// Too far behind: served in the next sweep.
    wrapped: bool,
    /// The distance, or the sector if it is behind.
    distance: u64,
    higher_first: core::cmp::Reverse<Sector>,
}

impl Reach {
    /// The cost of moving from `last`, the end of the latest request, to `sector`.
    pub(crate) const fn cost(self, last: Sector, sector: Sector) -> Cost {
        let (wrapped, distance) = if sector.0 >= last.0 {
            (false, sector.0 - last.0)
        } else if sector.0.saturating_add(self.back_max) >= last.0 {
            (false, (last.0 - sector.0).saturating_mul(self.back_penalty))
        } else {
            (true, sector.0)
        };
        Cost { wrapped, distance, higher_first: core::cmp::Reverse(sector) }
    }

    /// The nearest request. Only the next one above, the next one below and, if both are too far behind, the lowest can be
    /// it.
    pub(crate) fn nearest(self, sorted: &SortedIndex, last: Sector) -> Option<RequestId> {
        match sorted.around(last) {
            [below, None] => {
                let (sector, id) = below?;
                if self.cost(last, sector).wrapped { sorted.first() } else { Some(id) }
            }
            [None, Some((_, id))] => Some(id),
            [Some(below), Some(above)] => {
                let back = self.cost(last, below.0) < self.cost(last, above.0);
                Some(if back { below.1 } else { above.1 })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, request};
    use alloc::vec::Vec;
    use elevator::Request;

    const REACH: Reach = Reach { back_max: 1_000, back_penalty: 2 };

    #[test]
    fn short_backward_moves_count_double_and_long_ones_wait_for_the_next_sweep() {
        let cost = |sector| REACH.cost(Sector(5_000), Sector(sector));
        assert!(cost(5_100) < cost(5_101));
        assert!(cost(4_950) > cost(5_099)); // 50 back counts 100
        assert!(cost(4_950) < cost(5_101));
        assert!(cost(5_100) < cost(4_950)); // a tie: the higher sector
        assert!(cost(4_000) < cost(9_000)); // 1000 back is still reachable
        assert!(cost(3_999) > cost(1 << 40)); // 1001 is not
        assert!(cost(10) < cost(3_000)); // both in the next sweep: the lowest first
    }

    #[test]
    fn the_nearest_has_the_lowest_cost() {
        let mut random = Random::new(3);
        for _ in 0..2_000 {
            let mut sorted = SortedIndex::new();
            let requests: Vec<Request> = (0..random.below(6))
                .map(|n| {
                    let id = RequestId(n as u32);
                    Request { id, serial: n, ..request(random.below(4_000), 8) }
                })
                .collect();
            requests.iter().for_each(|r| sorted.insert(r));
            let last = Sector(random.below(4_000));
            let least = requests.iter().map(|r| REACH.cost(last, r.start)).min();
            let found = REACH.nearest(&sorted, last).map(|id| requests[id.index()].start);
            assert_eq!(found.map(|sector| REACH.cost(last, sector)), least);
        }
    }
}
