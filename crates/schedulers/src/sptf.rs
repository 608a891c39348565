//! SPTF: shortest positioning time first, by the drive's own word.
//!
//! # Idea
//! Of all requests, serve the one whose first sector passes under the head soonest: seek and rotation together, which
//! only the drive knows. What a drive's own queue (NCQ) does, without its limit of 32.
//!
//! # State
//! A list by arrival, and an index by sector for devices that have no such oracle.
//!
//! # Order of decisions
//! 1. The least positioning time minus `ageing` times the time waited; of equals the one that came first.
//! 2. Without an oracle: the nearest sector, as SSTF; the reason given says so ("nearest sector").
//!
//! # Where it differs from the source
//! The oracle answers as if the drive began now, so with requests in the drive's own queue it is a guess.
//!
//! # Not for
//! Long queues that must be decided quickly: every decision asks the oracle about every request (or the `window` oldest),
//! so it takes time in proportion. `ageing` at 0 promises nothing to anybody far away.
//!
//! # Sources
//! Jacobson, Wilkes, "Disk scheduling algorithms based on rotational position", HPL-CSP-91-7, 1991 (there ASATF for the
//! ageing form); Seltzer, Chen, Ousterhout, "Disk scheduling revisited", USENIX Winter 1990.

use alloc::boxed::Box;

use elevator::{
    Candidate, Growth, Positioning, Reason, Request, RequestId, Span, Time, View, WorkConserving, tunables,
};

use crate::fifo::{Fifo, Links};
use crate::listing::{Listing, Make};
use crate::look::{head, resort};
use crate::sorted::SortedIndex;
use crate::sstf::nearest;

tunables! {
    /// What can be tuned.
    pub struct Tunables {
        /// How much of the time that it has waited is taken off a request's positioning time. 0 is pure SPTF; Jacobson and
        /// Wilkes found a few per cent to bound the worst case at little cost.
        ageing: Percent = 0, 0, 10_000;
        /// How many requests, the oldest ones, are considered. Less than all bounds the work of a decision.
        window: Count = 1_000_000, 1, 1_000_000;
    }
}

/// Shortest positioning time first.
#[derive(Default)]
pub struct Sptf {
    tunables: Tunables,
    sorted: SortedIndex,
    links: Links,
    list: Fifo,
}

pub(crate) const LISTINGS: &[Listing] = &[Listing {
    name: "sptf",
    version: "",
    plain: true,
    about: "the shortest positioning time first, as the drive's model tells it; else the nearest sector",
    source: "Jacobson, Wilkes, HPL-CSP-91-7, 1991",
    split: false,
    tunables: Tunables::TABLE,
    make: Make::WorkConserving(|_| Box::new(Sptf::default())),
}];

impl Sptf {
    fn soonest(&self, now: Time, view: &View<'_>, oracle: &dyn Positioning) -> Option<RequestId> {
        let cost = |id: RequestId| {
            let request = &view.requests[id];
            let credit = now.since(request.arrived).percent(self.tunables.ageing);
            signed(oracle.positioning_time(now, request)) - signed(credit)
        };
        // `min_by_key` keeps the first of equals.
        self.links.iter(&self.list).take(self.tunables.window as usize).min_by_key(|&id| cost(id))
    }
}

fn signed(span: Span) -> i128 {
    i128::from(span.as_nanos())
}

impl WorkConserving for Sptf {
    fn insert(&mut self, _now: Time, request: &Request) {
        self.sorted.insert(request);
        self.links.push_back(&mut self.list, request.id);
    }

    fn merged(&mut self, _now: Time, request: &Request, growth: Growth<'_>) {
        resort(&mut self.sorted, request, &growth);
        if let Some(absorbed) = growth.absorbed {
            self.links.remove(&mut self.list, absorbed.id);
        }
    }

    fn candidate(&mut self, now: Time, view: &View<'_>) -> Option<Candidate> {
        let (id, reason) = match view.device.positioning {
            Some(oracle) => (self.soonest(now, view, oracle)?, Reason::ShortestPositioning),
            None => (nearest(&self.sorted, head(view))?, Reason::NearestSector),
        };
        Some(Candidate { id, urgent: false, reason })
    }

    fn take(&mut self, _now: Time, request: &Request) {
        self.sorted.remove(request);
        self.links.remove(&mut self.list, request.id);
    }

    tuned!(self.tunables: Tunables);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Table;
    use crate::work_conserving::Bare;
    use elevator::Value;

    /// A drive on which higher sectors come round sooner.
    struct Backward;

    impl Positioning for Backward {
        fn positioning_time(&self, _now: Time, request: &Request) -> Span {
            Span::from_micros(10_000 - request.start.0)
        }
    }

    fn table(settings: &[(&str, Value)]) -> Table {
        let mut t = Table::new(Bare::new(Box::new(Sptf::default())));
        t.positioning = Some(Box::new(Backward));
        for (name, value) in settings {
            t.scheduler.tune(name, *value).unwrap();
        }
        t
    }

    #[test]
    fn the_drive_decides_and_of_equals_the_first() {
        let mut t = table(&[]);
        let [low, high, twin] = [100, 900, 900].map(|sector| t.read(sector));
        t.serves(high, Reason::ShortestPositioning);
        t.serves(twin, Reason::ShortestPositioning);
        t.serves(low, Reason::ShortestPositioning);
        t.idles();
    }

    #[test]
    fn a_request_that_waits_gets_nearer() {
        let mut t = table(&[("ageing", Value::Percent(10))]);
        let low = t.read(100);
        t.at(7); // 10% of 7 ms are 700 µs, of 9 ms 900 µs
        let high = t.read(900);
        t.serves(high, Reason::ShortestPositioning);
        t.at(9);
        let high = t.read(900);
        t.serves(low, Reason::ShortestPositioning);
        t.serves(high, Reason::ShortestPositioning);
    }

    #[test]
    fn only_the_window_is_considered() {
        let mut t = table(&[("window", Value::Count(2))]);
        let [low, middle, high] = [100, 500, 900].map(|sector| t.read(sector));
        t.serves(middle, Reason::ShortestPositioning);
        t.serves(high, Reason::ShortestPositioning);
        t.serves(low, Reason::ShortestPositioning);
    }

    #[test]
    fn without_an_oracle_the_nearest_sector() {
        let mut t = table(&[]);
        t.positioning = None;
        let [far, near] = [900, 100].map(|sector| t.read(sector));
        t.serves(near, Reason::NearestSector);
        t.serves(far, Reason::NearestSector);
    }
}
