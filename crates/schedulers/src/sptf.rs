//! SPTF: shortest positioning time first, by the drive's own word.
//!
//! # Idea
//! Of all requests, serve the one whose first sector passes under the head soonest: seek and rotation together, which
//! only the drive knows. What a drive's own queue (NCQ) does, without its limit of 32.
//!
//! # State
//! An index by sector, and a list by arrival.
//!
//! # Order of decisions
//! 1. The least positioning time minus `ageing` times the time waited; of equals the one that came first. Found from the
//!    head outwards: what the drive's buffer holds, then the nearest sectors on both sides, until the arm's move alone
//!    would take longer than the best found.
//! 2. Without an oracle: the nearest sector, as SSTF; the reason given says so ("nearest sector").
//!
//! # Where it differs from the source
//! The oracle answers as if the drive began now, so with requests in the drive's own queue it is a guess.
//!
//! # Not for
//! Long queues that must be decided quickly, with `ageing`, a `window`, discards queued, or an oracle that bounds nothing:
//! then every decision asks about every request (or the `window` oldest), so it takes time in proportion. `ageing` at 0
//! promises nothing to anybody far away.
//!
//! # Sources
//! Jacobson, Wilkes, "Disk scheduling algorithms based on rotational position", HPL-CSP-91-7, 1991 (there ASATF for the
//! ageing form); Seltzer, Chen, Ousterhout, "Disk scheduling revisited", USENIX Winter 1990.

use alloc::boxed::Box;

use elevator::{
    Candidate, Growth, Op, Positioning, Reason, Request, RequestId, Sector, Span, Time, View, WorkConserving,
    tunables,
};

use crate::fifo::{Fifo, Links};
use crate::listing::{Listing, Make};
use crate::look::{head, resort};
use crate::per_request::PerRequest;
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
    /// The place of each request among all arrivals.
    arrivals: PerRequest<u64>,
    latest: u64,
    /// Queued requests that no sector bounds: neither reads nor writes.
    elsewhere: u32,
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
        let queued = self.list.len();
        let all_count = self.tunables.window as usize >= queued && self.tunables.ageing == 0;
        if queued > FEW && all_count && self.elsewhere == 0 && has_bounds(now, oracle) {
            self.soonest_outwards(now, view, oracle)
        } else {
            self.soonest_of_all(now, view, oracle)
        }
    }

    fn soonest_outwards(&self, now: Time, view: &View<'_>, oracle: &dyn Positioning) -> Option<RequestId> {
        let mut search = Search { now, view, oracle, arrivals: &self.arrivals, best: None };
        for n in 0.. {
            let Some((first, end)) = oracle.buffered(n) else { break };
            let mut next = self.sorted.at_or_after(first).map(|id| &view.requests[id]);
            while let Some(request) = next.filter(|request| request.start < end) {
                search.ask(request);
                next = self.sorted.successor(request).map(|id| &view.requests[id]);
            }
        }
        let head = head(view);
        let (mut below, mut above) = (self.sorted.before(head), self.sorted.at_or_after(head));
        while below.is_some() || above.is_some() {
            above = above.and_then(|id| {
                let request = search.visit(id, |sector| oracle.least_at_or_above(now, sector))?;
                self.sorted.successor(request)
            });
            below = below.and_then(|id| {
                let request = search.visit(id, |sector| oracle.least_at_or_below(now, sector))?;
                self.sorted.predecessor(request)
            });
        }
        search.best.map(|(_, id)| id)
    }

    fn soonest_of_all(&self, now: Time, view: &View<'_>, oracle: &dyn Positioning) -> Option<RequestId> {
        let cost = |id: RequestId| {
            let request = &view.requests[id];
            let credit = now.since(request.arrived).percent(self.tunables.ageing);
            signed(oracle.positioning_time(now, request)) - signed(credit)
        };
        // `min_by_key` keeps the first of equals.
        self.links.iter(&self.list).take(self.tunables.window as usize).min_by_key(|&id| cost(id))
    }
}

/// To ask about so few costs no more than to look for the nearest.
const FEW: usize = 8;

/// Whether the oracle bounds anything: one that has a head is far from one end at least.
fn has_bounds(now: Time, oracle: &dyn Positioning) -> bool {
    let ends = [oracle.least_at_or_above(now, Sector(u64::MAX)), oracle.least_at_or_below(now, Sector(0))];
    ends.iter().any(|&least| least > Span::ZERO)
}

/// A search for the least positioning time.
struct Search<'a> {
    now: Time,
    view: &'a View<'a>,
    oracle: &'a dyn Positioning,
    arrivals: &'a PerRequest<u64>,
    /// The best of the requests that were asked about.
    best: Option<(Span, RequestId)>,
}

impl<'a> Search<'a> {
    /// Asks about a request, unless none from here on can be better; then there is nothing to return.
    fn visit(&mut self, id: RequestId, least: impl Fn(Sector) -> Span) -> Option<&'a Request> {
        let request = &self.view.requests[id];
        if self.best.is_some_and(|(time, _)| time < least(request.start)) {
            return None;
        }
        self.ask(request);
        Some(request)
    }

    fn ask(&mut self, request: &Request) {
        let time = self.oracle.positioning_time(self.now, request);
        let better = self.best.is_none_or(|(least, id)| {
            time < least || time == least && self.arrivals[request.id] < self.arrivals[id]
        });
        if better {
            self.best = Some((time, request.id));
        }
    }
}

/// Whether it is served at a place.
fn has_place(request: &Request) -> bool {
    matches!(request.op, Op::Read | Op::Write)
}

fn signed(span: Span) -> i128 {
    i128::from(span.as_nanos())
}

impl WorkConserving for Sptf {
    fn insert(&mut self, _now: Time, request: &Request) {
        self.sorted.insert(request);
        self.links.push_back(&mut self.list, request.id);
        self.latest += 1;
        self.arrivals.set(request.id, self.latest);
        self.elsewhere += u32::from(!has_place(request));
    }

    fn merged(&mut self, _now: Time, request: &Request, growth: Growth<'_>) {
        resort(&mut self.sorted, request, &growth);
        if let Some(absorbed) = growth.absorbed {
            self.links.remove(&mut self.list, absorbed.id);
            self.elsewhere -= u32::from(!has_place(absorbed));
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
        self.elsewhere -= u32::from(!has_place(request));
    }

    tuned!(self.tunables: Tunables);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, Table, request};
    use crate::work_conserving::Bare;
    use core::cell::Cell;
    use elevator::Requests;
    use elevator::{Device, LastDispatched, Value};

    /// A drive on which higher sectors come round sooner.
    struct Backward;

    impl Positioning for Backward {
        fn positioning_time(&self, _now: Time, request: &Request) -> Span {
            Span::from_micros(10_000 - request.start.0)
        }
    }

    /// A drive with a buffer, a head that is not where the last request was, few different rotational waits (so that there are
    /// equals), and a count of the questions.
    struct Disc {
        head: u64,
        buffer: (u64, u64),
        asked: Cell<u32>,
    }

    impl Disc {
        fn seek(distance: u64) -> Span {
            Span::from_micros((distance / 100).isqrt() * 50)
        }
    }

    impl Positioning for Disc {
        fn positioning_time(&self, now: Time, request: &Request) -> Span {
            self.asked.set(self.asked.get() + 1);
            let start = request.start.0;
            if self.buffer.0 <= start && request.end().0 <= self.buffer.1 {
                return Span::ZERO;
            }
            let wait = (start.wrapping_mul(0x9e37_79b9) ^ now.as_nanos()) % 16;
            Self::seek(start.abs_diff(self.head)) + Span::from_micros(400 * wait)
        }

        fn least_at_or_above(&self, _now: Time, sector: Sector) -> Span {
            Self::seek(sector.0.saturating_sub(self.head))
        }

        fn least_at_or_below(&self, _now: Time, sector: Sector) -> Span {
            Self::seek(self.head.saturating_sub(sector.0))
        }

        fn buffered(&self, n: usize) -> Option<(Sector, Sector)> {
            (n == 0).then_some((Sector(self.buffer.0), Sector(self.buffer.1)))
        }
    }

    /// Keeps `depth` requests queued and serves `turns` of them, each of which must be the one that asking about all would
    /// have chosen, with the head up to `astray` sectors from the last; how many a decision asked about, on average.
    fn asked_per_decision(seed: u64, capacity: u64, astray: u64, depth: usize, turns: u32) -> u32 {
        let (mut random, mut requests, mut sptf) = (Random::new(seed), Requests::default(), Sptf::default());
        let mut last_dispatched: Option<LastDispatched> = None;
        let mut asked = 0;
        for turn in 0..turns {
            let now = Time::from_nanos(u64::from(turn) * 977);
            while requests.len() < depth {
                let id = requests.add(request(random.below(capacity), 8));
                sptf.insert(now, &requests[id]);
            }
            let buffer = random.below(capacity);
            let disc = Disc {
                head: last_dispatched.map_or(0, |last| last.end.0) + random.below(astray),
                buffer: (buffer, buffer + random.below(20)),
                asked: Cell::new(0),
            };
            let device = Device { depth: 1, in_flight: 0, last_dispatched, positioning: Some(&disc) };
            let view = View { requests: &requests, device };
            let chosen = sptf.soonest(now, &view, &disc).unwrap();
            asked += disc.asked.get();
            assert_eq!(Some(chosen), sptf.soonest_of_all(now, &view, &disc), "seed {seed}, turn {turn}");
            let served = requests.remove(chosen);
            sptf.take(now, &served);
            let Request { serial, start, .. } = served;
            last_dispatched = Some(LastDispatched { serial, start, end: served.end(), at: now });
        }
        asked / turns
    }

    #[test]
    fn searching_outwards_finds_what_asking_about_all_finds() {
        for (seed, capacity) in [(1, 50), (2, 10_000), (3, 50_000_000)] {
            for depth in [1, FEW, FEW + 1, 300] {
                for astray in [1, capacity] {
                    asked_per_decision(seed, capacity, astray, depth, 1_000);
                }
            }
        }
    }

    #[test]
    fn a_long_queue_is_hardly_asked_about() {
        let asked = [100, 5_000].map(|depth| asked_per_decision(4, 50_000_000, 1_000, depth, 200));
        assert!(asked[0] < 30 && asked[1] < 60, "{asked:?}");
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
