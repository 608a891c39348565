//! LOOK: the elevator that turns at the last request.
//!
//! # Idea
//! Dispatch in ascending sector order until no request lies above, then in descending order until none lies below. The head
//! never moves beyond the outermost requests.
//!
//! # State
//! An index by sector and the direction of the sweep.
//!
//! # Order of decisions
//! 1. The next request ahead of the head. The head is assumed to be where the last dispatched request ended.
//! 2. If there is none: turn around, and take the next request in the other direction.
//!
//! # Where it differs from the source
//! Textbooks move over cylinders, this policy over sectors: a disk's host knows no cylinders.
//!
//! # Not for
//! Even waits: requests in the middle wait half as long as those at the edges. There is no bound on waiting: a stream of new
//! requests right ahead of the head prolongs a sweep, and the policy does not know the device's size.
//!
//! # Sources
//! Merten, "Some quantitative techniques for file organization", 1970; Worthington, Ganger, Patt, "Scheduling algorithms for
//! modern disk drives", SIGMETRICS 1994.

use alloc::boxed::Box;

use elevator::{
    Candidate, Capabilities, Decision, Growth, Reason, Request, RequestId, Scheduler, Sector, Time, View,
    WorkConserving,
};

use crate::listing::{Listing, Make};
use crate::parts::sorted::{Key, SortedIndex};

/// The elevator.
pub struct Look {
    sorted: SortedIndex,
    upward: bool,
    /// The latest candidate, and the direction of the sweep after it has been taken.
    choice: Option<(RequestId, bool)>,
}

pub(crate) const LISTINGS: &[Listing] = &[Listing::new(
    "look",
    "sector order, alternately ascending and descending",
    Make::WorkConserving(|_| Box::new(Look::default())),
)
.with_source("Worthington, Ganger, Patt, SIGMETRICS 1994")];

impl Default for Look {
    fn default() -> Self {
        Self { sorted: SortedIndex::new(), upward: true, choice: None }
    }
}

/// The head's assumed position: the end of the last dispatched request.
pub(crate) fn head(view: &View<'_>) -> Sector {
    view.device.last_dispatched.map_or(Sector(0), |last| last.end)
}

/// The reaction to growth of policies that keep requests in sector order only.
pub(crate) fn resort(sorted: &mut SortedIndex, request: &Request, growth: &Growth<'_>) {
    if growth.was_start != request.start {
        sorted.remove_key(Key::at(growth.was_start, request.serial));
        sorted.insert(request);
    }
    if let Some(absorbed) = growth.absorbed {
        sorted.remove(absorbed);
    }
}

impl Look {
    fn ahead(&self, head: Sector, upward: bool) -> Option<RequestId> {
        if upward { self.sorted.at_or_after(head) } else { self.sorted.before(head) }
    }
}

impl Scheduler for Look {
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

impl WorkConserving for Look {
    fn candidate(&mut self, _now: Time, view: &View<'_>) -> Option<Candidate> {
        let head = head(view);
        let (id, upward) = match self.ahead(head, self.upward) {
            Some(id) => (id, self.upward),
            None => (self.ahead(head, !self.upward)?, !self.upward),
        };
        self.choice = Some((id, upward));
        let reason = if upward == self.upward { Reason::SectorOrder } else { Reason::NewSweep };
        Some(Candidate { id, urgent: false, reason })
    }

    fn take(&mut self, _now: Time, request: &Request) {
        if let Some((_, upward)) = self.choice.take().filter(|(id, _)| *id == request.id) {
            self.upward = upward;
        }
        self.sorted.remove(request);
    }
}

impl Capabilities for Look {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Table, request};
    use Reason::{NewSweep, SectorOrder};

    #[test]
    fn up_then_down_then_up() {
        let mut t = Table::new(Look::default());
        let [c, a] = [500, 300].map(|sector| t.read(sector));
        t.serves(a, SectorOrder);
        let [b, under] = [400, 100].map(|sector| t.read(sector));
        t.serves(b, SectorOrder);
        t.serves(c, SectorOrder);
        let [over, deeper] = [600, 50].map(|sector| t.read(sector));
        t.serves(over, SectorOrder);
        t.serves(under, NewSweep);
        t.serves(deeper, SectorOrder);
        let last = t.read(60);
        t.serves(last, NewSweep); // 50..58 has passed; nothing is below
        t.idles();
    }

    #[test]
    fn a_request_that_grew_is_where_it_begins_now() {
        let mut t = Table::new(Look::default());
        let [near, far] = [300, 408].map(|sector| t.read(sector));
        let front = t.insert(request(400, 8));
        t.absorb(far, front);
        let between = t.read(404);
        t.serves(near, SectorOrder);
        t.serves(far, SectorOrder);
        t.serves(between, NewSweep);
        t.idles();
    }
}
