//! SPTF: shortest positioning time first, with positioning times from a model of the drive.
//!
//! # Idea
//! Dispatch the request whose first sector passes under the head soonest, seek and rotation included. Only the drive knows
//! these times; its own queue (NCQ) does the same for at most 32 requests.
//!
//! # State
//! An index by sector, a list by arrival, and the angle of each request once it was computed.
//!
//! # Order of decisions
//! 1. The request with the least positioning time minus `ageing` × time waited; of equals the oldest. The search starts with
//!    requests in the drive's buffer and goes outwards from the head. It computes the positioning time only of requests at an
//!    angle that passes in time, and ends when the seek alone takes longer than the best positioning time found.
//! 2. Without an oracle of positioning times: the nearest sector, as SSTF. The stated reason is then "nearest sector".
//!
//! # Where it differs from the source
//! The oracle assumes that the drive begins now. With requests in the drive's own queue its answers are estimates.
//!
//! # Not for
//! Long queues that need quick decisions, with `ageing`, a `window`, queued discards, or an oracle without angles and seeks:
//! each decision then evaluates every request (or the `window` oldest). There is no bound on waiting: with `ageing` at 0, or
//! without an oracle, nearer requests can pass a distant one forever.
//!
//! # Sources
//! Jacobson, Wilkes, "Disk scheduling algorithms based on rotational position", HPL-CSP-91-7, 1991 (`ageing`: ASATF); Seltzer,
//! Chen, Ousterhout, "Disk scheduling revisited", USENIX Winter 1990.

use alloc::boxed::Box;
use core::iter;

use elevator::{
    Angles, Candidate, Capabilities, Decision, Growth, Op, Positioning, Reason, Request, RequestId,
    Scheduler, Sector, Span, Time, View, WorkConserving, tunables, tuned_by,
};

use crate::listing::{Listing, Make};
use crate::parts::fifo::{Fifo, Links};
use crate::parts::per_request::PerRequest;
use crate::parts::sorted::{At, SortedIndex};
use crate::policies::look::{head, resort};
use crate::policies::sstf::nearest;

tunables! {
    /// Tunables.
    pub struct Tunables {
        /// The share of the waiting time that is subtracted from a request's positioning time. 0: pure SPTF. Jacobson and
        /// Wilkes found that a few per cent bound the worst case at little cost.
        ageing: Percent = 0, 0, 10_000;
        /// The number of oldest requests that are considered. A limit bounds the work of a decision.
        window: Count = 1_000_000, 1, 1_000_000;
    }
}

/// A request's place among all arrivals, and its angle on the platter.
#[derive(Clone, Copy, Default)]
struct Place {
    arrival: u64,
    /// Computed on first use.
    angle: Option<u32>,
}

/// Shortest positioning time first.
#[derive(Default)]
pub struct Sptf {
    tunables: Tunables,
    sorted: SortedIndex,
    links: Links,
    list: Fifo,
    places: PerRequest<Place>,
    latest: u64,
    /// Queued requests without a position: neither reads nor writes.
    elsewhere: u32,
}

pub(crate) const LISTINGS: &[Listing] = &[Listing::new(
    "sptf",
    "shortest positioning time first, from a model of the drive; without a model the nearest sector",
    Make::WorkConserving(|_| Box::new(Sptf::default())),
)
.with_source("Jacobson, Wilkes, HPL-CSP-91-7, 1991")
.with_tunables(Tunables::TABLE)];

impl Sptf {
    fn soonest(&mut self, now: Time, view: &View<'_>, oracle: &dyn Positioning) -> Option<RequestId> {
        let queued = self.list.len();
        let all_count = self.tunables.window as usize >= queued && self.tunables.ageing == 0;
        if queued > FEW && all_count && self.elsewhere == 0 {
            self.soonest_outwards(now, view, oracle)
        } else {
            self.soonest_of_all(now, view, oracle)
        }
    }

    fn soonest_outwards(
        &mut self,
        now: Time,
        view: &View<'_>,
        oracle: &dyn Positioning,
    ) -> Option<RequestId> {
        let Self { sorted, places, .. } = self;
        let mut search = Search { now, view, oracle, places, least: Span::MAX, best: None };
        for n in 0.. {
            let Some((first, end)) = oracle.buffered(n) else { break };
            for (_, id) in sorted.outwards(first).1.take_while(|&(sector, _)| sector < end) {
                search.evaluate(id);
            }
        }
        let (mut below, mut above) = sorted.outwards(head(view));
        let (mut is_below, mut is_above) = (true, true);
        let mut few = FIRST_FEW;
        while is_below || is_above {
            is_above = is_above
                && search
                    .visit(few, &mut above, |sector, least| oracle.reached_at_or_above(now, sector, least));
            is_below = is_below
                && search
                    .visit(few, &mut below, |sector, least| oracle.reached_at_or_below(now, sector, least));
            few = (2 * few).min(MOST);
        }
        search.best
    }

    fn soonest_of_all(&self, now: Time, view: &View<'_>, oracle: &dyn Positioning) -> Option<RequestId> {
        let cost = |id: RequestId| {
            let request = &view.requests[id];
            let credit = now.since(request.arrived).percent(self.tunables.ageing);
            signed(oracle.positioning_time(now, request)) - signed(credit)
        };
        // `min_by_key` returns the first of equals.
        self.links.iter(&self.list).take(self.tunables.window as usize).min_by_key(|&id| cost(id))
    }
}

/// Up to this number, evaluating all requests costs no more than searching for the nearest.
const FEW: usize = 8;

/// The numbers of neighbours for which the reachable angles are computed once: initially, when each evaluated request narrows
/// the range, and at most, after doubling each time. Fewer: more calls of the oracle. More: more requests checked in vain.
const FIRST_FEW: usize = 2;
const MOST: usize = 16;

/// A search for the least positioning time.
struct Search<'a> {
    now: Time,
    view: &'a View<'a>,
    oracle: &'a dyn Positioning,
    places: &'a mut PerRequest<Place>,
    /// The least time so far, and its request.
    least: Span,
    best: Option<RequestId>,
}

impl Search<'_> {
    /// Evaluates those of the next few requests whose angle can be reached within the least time so far; returns whether
    /// requests beyond them may be better.
    fn visit(
        &mut self,
        few: usize,
        requests: &mut impl Iterator<Item = At>,
        reached: impl Fn(Sector, Span) -> Option<Angles>,
    ) -> bool {
        let Some(first) = requests.next() else { return false };
        let Some(angles) = reached(first.0, self.least) else { return false };
        for (sector, id) in iter::once(first).chain(requests.take(few - 1)) {
            if angles.contains(self.angle(sector, id)) {
                self.evaluate(id);
            }
        }
        true
    }

    fn angle(&mut self, sector: Sector, id: RequestId) -> u32 {
        let oracle = self.oracle;
        *self.places[id].angle.get_or_insert_with(|| oracle.angle(sector))
    }

    fn evaluate(&mut self, id: RequestId) {
        let time = self.oracle.positioning_time(self.now, &self.view.requests[id]);
        let earlier = |best| self.places[id].arrival < self.places[best].arrival;
        if time < self.least || time == self.least && self.best.is_none_or(earlier) {
            (self.least, self.best) = (time, Some(id));
        }
    }
}

/// Whether the request has a position.
fn has_place(request: &Request) -> bool {
    matches!(request.op, Op::Read | Op::Write)
}

fn signed(span: Span) -> i128 {
    i128::from(span.as_nanos())
}

impl Scheduler for Sptf {
    fn insert(&mut self, _now: Time, request: &Request) {
        self.sorted.insert(request);
        self.links.push_back(&mut self.list, request.id);
        self.latest += 1;
        self.places.set(request.id, Place { arrival: self.latest, angle: None });
        self.elsewhere += u32::from(!has_place(request));
    }

    fn merged(&mut self, _now: Time, request: &Request, growth: Growth<'_>) {
        resort(&mut self.sorted, request, &growth);
        self.places[request.id].angle = None;
        if let Some(absorbed) = growth.absorbed {
            self.links.remove(&mut self.list, absorbed.id);
            self.elsewhere -= u32::from(!has_place(absorbed));
        }
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        self.dispatch_candidate(now, view).unwrap_or(Decision::Idle)
    }
}

impl WorkConserving for Sptf {
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
}

impl Capabilities for Sptf {
    tuned_by!(tunables);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, Table, request};
    use core::cell::Cell;
    use elevator::Requests;
    use elevator::{Device, LastDispatched, Value};

    /// A drive on which higher sectors have shorter positioning times.
    struct Backward;

    impl Positioning for Backward {
        fn positioning_time(&self, _now: Time, request: &Request) -> Span {
            Span::from_micros(10_000 - request.start.0)
        }
    }

    /// A drive with a buffer, a head that is not at the end of the last request, few different angles (so that ties occur),
    /// and a counter of evaluations.
    struct Disc {
        head: u64,
        buffer: (u64, u64),
        has_angles: bool,
        asked: Cell<u32>,
    }

    /// Number of angles, and the time from one angle to the next.
    const ANGLES: u64 = 16;
    const STEP_US: u64 = 400;

    impl Disc {
        fn seek_us(&self, sector: u64) -> u64 {
            (sector.abs_diff(self.head) / 100).isqrt() * 50
        }

        fn angle_of(sector: u64) -> u64 {
            sector.wrapping_mul(0x9e37_79b9) % ANGLES
        }

        /// The angles that pass between the end of a move by `sectors` and `within`.
        fn reached(&self, now: Time, sectors: u64, within: Span) -> Option<Angles> {
            let seek_us = self.seek_us(self.head + sectors);
            let rest_us = (within.as_nanos() / 1000).checked_sub(seek_us)?;
            if !self.has_angles || rest_us >= ANGLES * STEP_US {
                return Some(Angles::ALL);
            }
            let landed = (now.as_nanos() / 1000 + seek_us).div_ceil(STEP_US);
            Some(Angles { first: (landed as u32) << 28, length: ((rest_us / STEP_US) as u32) << 28 })
        }
    }

    impl Positioning for Disc {
        fn positioning_time(&self, now: Time, request: &Request) -> Span {
            self.asked.set(self.asked.get() + 1);
            let start = request.start.0;
            if !has_place(request) || self.buffer.0 <= start && request.end().0 <= self.buffer.1 {
                return Span::ZERO;
            }
            let seek_us = self.seek_us(start);
            let landed_us = now.as_nanos() / 1000 + seek_us;
            let turn_us = ANGLES * STEP_US;
            let wait_us = (Self::angle_of(start) * STEP_US + turn_us - landed_us % turn_us) % turn_us;
            Span::from_micros(seek_us + wait_us)
        }

        fn angle(&self, sector: Sector) -> u32 {
            (Self::angle_of(sector.0) as u32) << 28
        }

        fn reached_at_or_above(&self, now: Time, sector: Sector, within: Span) -> Option<Angles> {
            self.reached(now, sector.0.saturating_sub(self.head), within)
        }

        fn reached_at_or_below(&self, now: Time, sector: Sector, within: Span) -> Option<Angles> {
            self.reached(now, self.head.saturating_sub(sector.0), within)
        }

        fn buffered(&self, n: usize) -> Option<(Sector, Sector)> {
            (n == 0).then_some((Sector(self.buffer.0), Sector(self.buffer.1)))
        }
    }

    /// The requests to a [`Disc`].
    #[derive(Clone, Copy)]
    struct Traffic {
        capacity: u64,
        astray: u64,
        depth: usize,
    }

    /// Keeps `depth` requests queued and serves `turns` of them, with the head up to `astray` sectors from the last one. Each choice must be that
    /// of a full evaluation. Returns the mean number of evaluated requests per decision.
    fn evaluated_per_decision(seed: u64, traffic: Traffic, has_angles: bool, turns: u32) -> u32 {
        let Traffic { capacity, astray, depth } = traffic;
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
                has_angles,
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
    fn the_outward_search_finds_the_same_request_as_a_full_evaluation() {
        for (seed, capacity) in [(1, 50), (2, 10_000), (3, 50_000_000)] {
            for depth in [1, FEW, FEW + 1, 300] {
                for astray in [1, capacity] {
                    let traffic = Traffic { capacity, astray, depth };
                    evaluated_per_decision(seed, traffic, true, 1_000);
                    evaluated_per_decision(seed, traffic, false, 1_000);
                }
            }
        }
    }

    /// A discard far away needs no move. The outward search would not find it.
    #[test]
    fn requests_without_a_position_are_compared_with_all_others() {
        let (mut requests, mut sptf) = (Requests::default(), Sptf::default());
        let disc = Disc { head: 0, buffer: (0, 0), has_angles: false, asked: Cell::new(0) };
        for n in 1..40 {
            let id = requests.add(request(n * 1_000, 8));
            sptf.insert(Time::ZERO, &requests[id]);
        }
        let discard = requests.add(Request { op: Op::Discard, ..request(50_000_000, 8) });
        sptf.insert(Time::ZERO, &requests[discard]);
        let device = Device { depth: 1, in_flight: 0, last_dispatched: None, positioning: Some(&disc) };
        assert_eq!(sptf.soonest(Time::ZERO, &View { requests: &requests, device }, &disc), Some(discard));
        sptf.take(Time::ZERO, &requests.remove(discard));
        assert_eq!(sptf.elsewhere, 0);
    }

    #[test]
    fn growth_at_the_front_changes_the_angle() {
        let (mut requests, mut sptf) = (Requests::default(), Sptf::default());
        let disc = Disc { head: 0, buffer: (0, 0), has_angles: true, asked: Cell::new(0) };
        let ids: alloc::vec::Vec<RequestId> = (1..40).map(|n| requests.add(request(n * 20, 8))).collect();
        ids.iter().for_each(|&id| sptf.insert(Time::ZERO, &requests[id]));
        for turn in 0..1_000 {
            let device = Device { depth: 1, in_flight: 0, last_dispatched: None, positioning: Some(&disc) };
            let now = Time::from_nanos(turn * 977_000);
            let view = View { requests: &requests, device };
            let chosen = sptf.soonest(now, &view, &disc);
            assert_eq!(chosen, sptf.soonest_of_all(now, &view, &disc), "turn {turn}");
            let grows = requests.get_mut(ids[turn as usize % ids.len()]);
            let (was_start, was_sectors) = (grows.start, grows.sectors);
            if turn % 40 < 12 && grows.start.0 > 0 {
                (grows.start.0, grows.sectors.0) = (was_start.0 - 1, was_sectors.0 + 1);
                sptf.merged(now, grows, Growth { was_start, was_sectors, absorbed: None });
            }
        }
    }

    #[test]
    fn few_requests_of_a_long_queue_are_evaluated() {
        let asked = |depth, has_angles| {
            evaluated_per_decision(4, Traffic { capacity: 50_000_000, astray: 1_000, depth }, has_angles, 200)
        };
        let [some, many] = [100, 5_000].map(|depth| asked(depth, false));
        assert!(some < 30 && many < 60, "{some} {many}");
        let [some, many] = [100, 5_000].map(|depth| asked(depth, true));
        assert!(some < 10 && many < 10, "{some} {many}");
    }

    fn table(settings: &[(&str, Value)]) -> Table {
        let mut t = Table::new(Sptf::default());
        t.positioning = Some(Box::new(Backward));
        for (name, value) in settings {
            t.scheduler.tune(name, *value).unwrap();
        }
        t
    }

    #[test]
    fn the_shortest_positioning_time_is_first_and_of_equals_the_oldest() {
        let mut t = table(&[]);
        let [low, high, twin] = [100, 900, 900].map(|sector| t.read(sector));
        t.serves(high, Reason::ShortestPositioning);
        t.serves(twin, Reason::ShortestPositioning);
        t.serves(low, Reason::ShortestPositioning);
        t.idles();
    }

    #[test]
    fn waiting_reduces_the_cost_of_a_request() {
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
