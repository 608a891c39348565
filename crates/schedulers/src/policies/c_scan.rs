//! C-SCAN: the elevator that moves in one direction.
//!
//! # Idea
//! Dispatch in ascending sector order; after the last request, return to the lowest. Waits vary less than with LOOK, because
//! no region is passed twice in a row, and a disk reads ahead in the direction of the sweep.
//!
//! # State
//! An index by sector.
//!
//! # Order of decisions
//! 1. The next request at or above the head. The head is assumed to be where the last dispatched request ended.
//! 2. If there is none: the lowest request.
//!
//! # Where it differs from the source
//! The textbook's C-SCAN moves to the disk's edge before it returns. This one returns at the last request (C-LOOK).
//!
//! # Not for
//! Loads with a stream of new requests right ahead of the head. There is no bound on waiting: a sweep ends only at the device's
//! last sector, and the policy does not know the device's size.
//!
//! # Sources
//! Worthington, Ganger, Patt, "Scheduling algorithms for modern disk drives", SIGMETRICS 1994.

use alloc::boxed::Box;

use elevator::{
    Candidate, Capabilities, Decision, Growth, Reason, Request, Scheduler, Time, View, WorkConserving,
};

use crate::listing::{Listing, Make};
use crate::parts::sorted::SortedIndex;
use crate::policies::look::{head, resort};

/// The one-way elevator.
#[derive(Default)]
pub struct CScan {
    sorted: SortedIndex,
}

pub(crate) const LISTINGS: &[Listing] = &[Listing::new(
    "c-scan",
    "sector order, always upward",
    Make::WorkConserving(|_| Box::new(CScan::default())),
)
.with_source("Worthington, Ganger, Patt, SIGMETRICS 1994")];

impl Scheduler for CScan {
    fn insert(&mut self, _now: Time, request: &Request) {
        self.sorted.insert(request);
    }

    fn merged(&mut self, _now: Time, request: &Request, growth: Growth<'_>) {
        resort(&mut self.sorted, request, &growth);
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        self.dispatch_candidate(now, view).unwrap_or(Decision::Idle)
    }
}

impl WorkConserving for CScan {
    fn candidate(&mut self, _now: Time, view: &View<'_>) -> Option<Candidate> {
        let (id, reason) = match self.sorted.at_or_after(head(view)) {
            Some(id) => (id, Reason::SectorOrder),
            None => (self.sorted.first()?, Reason::NewSweep),
        };
        Some(Candidate { id, urgent: false, reason })
    }

    fn take(&mut self, _now: Time, request: &Request) {
        self.sorted.remove(request);
    }
}

impl Capabilities for CScan {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Table;
    use Reason::{NewSweep, SectorOrder};

    #[test]
    fn up_and_again_from_the_bottom() {
        let mut t = Table::new(CScan::default());
        let [b, a, twin] = [500, 300, 300].map(|sector| t.read(sector));
        t.serves(a, SectorOrder);
        let [late, low] = [304, 100].map(|sector| t.read(sector));
        t.serves(b, SectorOrder);
        t.serves(low, NewSweep);
        t.serves(twin, SectorOrder);
        t.serves(late, NewSweep); // 304 lies inside 300..308, behind the head
        t.idles();
    }
}
