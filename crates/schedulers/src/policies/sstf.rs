//! SSTF: shortest seek time first, estimated by distance.
//!
//! # Idea
//! Dispatch the request nearest to the head. The greedy extreme among the textbook policies: short seeks, no fairness.
//!
//! # State
//! An index by sector.
//!
//! # Order of decisions
//! 1. The request whose first sector is nearest to the head. The head is assumed to be where the last dispatched request
//!    ended. Of two requests at the same distance, the one ahead.
//!
//! # Where it differs from the source
//! Textbooks count cylinders; a disk's host knows only sectors.
//!
//! # Not for
//! Loads in which the longest wait matters. There is no bound on waiting: a distant request waits until no nearer one arrives.
//!
//! # Sources
//! Denning, "Effects of scheduling on file memory operations", 1967; Worthington, Ganger, Patt, "Scheduling algorithms for
//! modern disk drives", SIGMETRICS 1994.

use alloc::boxed::Box;

use elevator::{
    Candidate, Capabilities, Decision, Growth, Reason, Request, RequestId, Scheduler, Sector, Time, View,
    WorkConserving,
};

use crate::listing::{Listing, Make};
use crate::parts::sorted::SortedIndex;
use crate::policies::look::{head, resort};

/// Nearest sector first.
#[derive(Default)]
pub struct Sstf {
    sorted: SortedIndex,
}

pub(crate) const LISTINGS: &[Listing] =
    &[Listing::new("sstf", "the nearest sector first", Make::WorkConserving(|_| Box::new(Sstf::default())))
        .with_source("Denning, 1967; Worthington, Ganger, Patt, SIGMETRICS 1994")];

/// The request nearest to `head`; of two at the same distance the one ahead.
pub(crate) fn nearest(sorted: &SortedIndex, head: Sector) -> Option<RequestId> {
    match sorted.around(head) {
        [Some((below, id)), Some((above, _))] if head.distance(below) < head.distance(above) => Some(id),
        [_, Some((_, id))] | [Some((_, id)), None] => Some(id),
        [None, None] => None,
    }
}

impl Scheduler for Sstf {
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

impl WorkConserving for Sstf {
    fn candidate(&mut self, _now: Time, view: &View<'_>) -> Option<Candidate> {
        let id = nearest(&self.sorted, head(view))?;
        Some(Candidate { id, urgent: false, reason: Reason::NearestSector })
    }

    fn take(&mut self, _now: Time, request: &Request) {
        self.sorted.remove(request);
    }
}

impl Capabilities for Sstf {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Table;
    use Reason::NearestSector as Nearest;

    #[test]
    fn the_nearest_first_and_of_two_the_one_ahead() {
        let mut t = Table::new(Sstf::default());
        let [far, near] = [5_000, 100].map(|sector| t.read(sector));
        t.serves(near, Nearest); // the head is at 0, then at 108
        let [below, above] = [8, 208].map(|sector| t.read(sector));
        t.serves(above, Nearest); // both are 100 sectors away; then the head is at 216
        t.serves(below, Nearest);
        t.serves(far, Nearest);
        t.idles();
    }
}
