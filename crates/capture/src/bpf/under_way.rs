//! Submissions in flight.

use elevator::{Span, Time};
use hashbrown::HashMap;

use super::record::Bio;
use crate::event::{Arrival, Completed};

/// The greatest number of submissions in flight; above it, completions were lost.
const LENGTH_MAX: usize = 1 << 16;
/// Then submissions older than Linux's request timeout of 30 s are forgotten.
const AGE_MAX: Span = Span::from_secs(60);

/// Joins arrivals with their completions.
#[derive(Default)]
pub(super) struct UnderWay {
    table: HashMap<Bio, Arrival>,
    /// Completions that were not reported, although the ring buffer lost none.
    missing: u64,
}

impl UnderWay {
    pub(super) fn arrived(&mut self, bio: Bio, arrival: Arrival) {
        if self.table.len() >= LENGTH_MAX {
            self.table.retain(|_, old| arrival.at.since(old.at) < AGE_MAX);
            if self.table.len() >= LENGTH_MAX {
                self.table.clear();
            }
        }
        // An address that is in use already belongs to a submission whose completion was not reported.
        self.missing += u64::from(self.table.insert(bio, arrival).is_some());
    }

    /// How many submissions are known to be complete only because their address was reused.
    pub(super) const fn missing(&self) -> u64 {
        self.missing
    }

    /// `None` if its arrival was not reported.
    pub(super) fn completed(&mut self, bio: Bio, at: Time, failed: bool) -> Option<Completed> {
        self.table.remove(&bio).map(|arrival| Completed { arrival, at, failed })
    }
}

#[cfg(test)]
mod tests {
    use elevator::{Flags, Op, Sector, Sectors};

    use super::*;
    use crate::event::Name;

    #[test]
    fn a_reused_address_completes_the_earlier_submission() {
        let arrival = |us| Arrival {
            at: Time::ZERO + Span::from_micros(us),
            op: Op::Read,
            start: Sector(0),
            sectors: Sectors(8),
            flags: Flags::default(),
            priority: None,
            process: None,
            name: Name::from("a reader"),
        };
        let (mut under_way, bios) = (UnderWay::default(), [1, 2].map(Bio));
        under_way.arrived(bios[0], arrival(1));
        under_way.arrived(bios[1], arrival(2));
        assert!(under_way.completed(bios[1], Time::ZERO, false).is_some());
        under_way.arrived(bios[1], arrival(3));
        assert_eq!(under_way.missing(), 0);
        under_way.arrived(bios[0], arrival(4));
        assert_eq!(under_way.missing(), 1);
        assert_eq!(under_way.completed(bios[0], Time::ZERO, false).unwrap().arrival, arrival(4));
    }
}
