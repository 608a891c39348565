//! Kyber: limits the device's queue so that completions meet a latency target per kind of request.
//!
//! # Idea
//! A fast device needs no sorting, but a short queue. Requests belong to four domains (reads, writes, discards, others); each
//! domain has a number of tokens, the most of its requests in the device at once. When the device responds slowly
//! (congestion), domains that meet their target give up tokens, so that the others meet theirs again.
//!
//! # State
//! Per domain: requests in order of arrival, depth (tokens) and tokens taken, two latency histograms (since arrival, and in
//! the device alone) with eight buckets of a quarter of the target each, and the 99th percentile kept from a window without
//! congestion. Shared: the current domain, the number of requests it has sent in this turn, and the time of the next
//! evaluation.
//!
//! # Order of decisions
//! 1. The current domain, while its batch lasts (16 reads, 8 writes, 1 discard, 1 other) and it has a request and a token.
//! 2. Else the next domain in turn that has both begins a batch; the search ends at the domain at which it began.
//! 3. None found: idle if nothing is queued, else wait for a completion, which returns a token.
//!
//! The evaluation takes place 100 ms after the first completion since the last one. A domain whose 90th percentile in the
//! device misses its target means congestion. Then, per domain: the new depth is the old depth × the bucket of its 99th
//! percentile / 4; under congestion for every domain, otherwise only for those that missed their target. A percentile needs
//! 500 samples or a second.
//!
//! Waiting is bounded (`longest_wait`): each earlier request of the same domain waits at most until the device has served its requests,
//! and for one batch of every domain.
//!
//! # Where it differs from the source
//! - One software queue and one histogram instead of one per CPU; one hardware queue. A batch that moves from the software
//!   queue to the scheduler (from `staged` to `moved` here) can no longer grow, as in the source. A submission is compared
//!   with the eight youngest requests only.
//! - The source resizes a bitmap of tokens and wakes waiters in groups; here every completion can dispatch.
//! - Time is in nanoseconds; the source's intervals of 100 ms and 1 s are in jiffies.
//! - The domains' initial depths are the source's (256, 128, 64, 16), whatever the device's depth. On a device of depth 31
//!   they have an effect only after congestion has reduced them, as in the kernel.
//!
//! # Not for
//! Rotating disks (no sorting, no anticipation); fairness between processes.
//!
//! # Sources
//! Linux 6.x `block/kyber-iosched.c` (O. Sandoval, 2017) and `Documentation/block/kyber-iosched.rst`.

use alloc::boxed::Box;

use elevator::{
    Admission, Capabilities, Decision, Direction, Growth, Hold, HoldReason, Load, Op, Outcome, Process,
    Reason, Request, RequestId, Scheduler, Side, Span, Time, Tunable, TuneError, Tuning, Value, View, Wake,
    tunables, tuned_by_itself,
};

use crate::listing::{Listing, Make};
use crate::parts::fifo::{Fifo, Links};
use crate::parts::per_request::PerRequest;

tunables! {
    /// Tunables.
    pub struct Tunables {
        /// Target for reads, from arrival to completion. Lower throttles writes earlier. The kernel calls it read_lat_nsec.
        read_lat: Span = Span::from_millis(2), Span::from_nanos(1), Span::from_secs(100);
        /// Target for writes, from arrival to completion. The kernel calls it write_lat_nsec.
        write_lat: Span = Span::from_millis(10), Span::from_nanos(1), Span::from_secs(100);
    }
}

pub(crate) const LISTINGS: &[Listing] = &[Listing::new(
    "kyber",
    "keeps the device's queue short enough that reads and writes meet their latency targets",
    Make::Scheduler(|environment| Box::new(Kyber::new(environment.nr_requests))),
)
.with_source("Linux 6.x, block/kyber-iosched.c")
.with_tunables(Tunables::TABLE)];

/// Scheduling domains, in the order in which they take turns.
const READ: usize = 0;
const WRITE: usize = 1;
const DISCARD: usize = 2;
const OTHER: usize = 3;
const DOMAINS: usize = 4;

/// The most requests of a domain in the device; according to the source enough to saturate the fastest devices.
const DEPTH_MAX: [u32; DOMAINS] = [256, 128, 64, 16];
/// Requests that a domain dispatches in a row.
const BATCH_SIZE: [u32; DOMAINS] = [16, 8, 1, 1];
/// Discards may take long; the source has no tunable for them.
const DISCARD_LAT: Span = Span::from_secs(5);
/// Share of the queue open to asynchronous requests in per cent, so that they cannot exclude synchronous ones.
const ASYNC_PERCENT: u64 = 75;
/// From the first completion to the next evaluation of the histograms.
const LOOK_AFTER: Span = Span::from_millis(100);
/// Samples from which a percentile is evaluated at once.
const SAMPLES_MIN: u32 = 500;
/// Time since the first evaluation that found a sample, after which a percentile is evaluated with fewer than [`SAMPLES_MIN`].
const WINDOW: Span = Span::from_secs(1);
/// How many of the youngest requests a submission may join.
const MERGE_REACH: u64 = 8;

/// Latencies in quarters of the target; the first [`GOOD`] buckets meet it.
const BUCKETS: usize = 8;
const GOOD: usize = 4;

/// Counts of completions by latency.
#[derive(Clone, Copy, Debug, Default)]
struct Histogram([u32; BUCKETS]);

impl Histogram {
    fn add(&mut self, latency: Span, target: Span) {
        let width = (target.as_nanos() / GOOD as u64).max(1);
        let bucket = latency.as_nanos().saturating_sub(1) / width;
        self.0[(bucket as usize).min(BUCKETS - 1)] += 1;
    }

    fn samples(&self) -> u32 {
        self.0.iter().sum()
    }

    /// The bucket of the given percentile, up to 100. Resets the histogram.
    fn take_percentile(&mut self, percent: u32) -> usize {
        let mut rank = (self.samples() * percent).div_ceil(100);
        let mut bucket = 0;
        while self.0[bucket] < rank {
            rank -= self.0[bucket];
            bucket += 1;
        }
        *self = Self::default();
        bucket
    }
}

/// The measured side of a domain.
#[derive(Clone, Copy, Default)]
struct Latency {
    /// Since arrival.
    total: Histogram,
    /// Since dispatch.
    device: Histogram,
    /// From this time on a percentile needs no minimum number of samples.
    window_ends: Option<Time>,
    /// The 99th percentile's bucket from a window without congestion.
    remembered: Option<usize>,
}

/// A domain's two histograms.
#[derive(Clone, Copy)]
enum Kind {
    Total,
    Device,
}

impl Latency {
    /// The percentile's bucket, if there are enough samples or they are old enough. Both histograms share one window, as in
    /// the source: the first one evaluated closes it.
    fn percentile(&mut self, now: Time, kind: Kind, percent: u32) -> Option<usize> {
        let histogram = match kind {
            Kind::Total => &mut self.total,
            Kind::Device => &mut self.device,
        };
        let samples = histogram.samples();
        if samples == 0 {
            return None;
        }
        let ends = *self.window_ends.get_or_insert(now + WINDOW);
        if samples < SAMPLES_MIN && now < ends {
            return None;
        }
        self.window_ends = None;
        Some(histogram.take_percentile(percent))
    }
}

/// One domain.
struct Domain {
    /// Out of the software queue: dispatched next, closed to merges.
    moved: Fifo,
    /// In the software queue.
    staged: Fifo,
    /// Tokens.
    depth: u32,
    /// Tokens taken: requests of this domain in the device.
    taken: u32,
    latency: Latency,
}

impl Domain {
    fn new(depth: u32) -> Self {
        Self { moved: Fifo::new(), staged: Fifo::new(), depth, taken: 0, latency: Latency::default() }
    }

    fn is_empty(&self) -> bool {
        self.moved.is_empty() && self.staged.is_empty()
    }

    /// The oldest request, if there is a token for it.
    fn take(&mut self, links: &mut Links) -> Option<RequestId> {
        if self.taken >= self.depth {
            return None;
        }
        if self.moved.is_empty() {
            core::mem::swap(&mut self.moved, &mut self.staged);
        }
        let id = links.pop_front(&mut self.moved)?;
        self.taken += 1;
        Some(id)
    }
}

/// The state of a request.
#[derive(Clone, Copy, Default, PartialEq)]
enum Place {
    #[default]
    Unknown,
    /// In its domain's software queue, after this many requests of the domain.
    Queued(u64),
    Sent(Time),
}

/// The Kyber scheduler.
pub struct Kyber {
    tunables: Tunables,
    domains: [Domain; DOMAINS],
    /// Requests ever staged, per domain; they number the requests.
    staged: [u64; DOMAINS],
    links: Links,
    places: PerRequest<Place>,
    current: usize,
    /// Requests dispatched in the current domain's batch.
    batching: u32,
    /// When the histograms are evaluated next.
    look_at: Option<Time>,
    /// Asynchronous requests queued or in the device, and their limit.
    asynchronous: u32,
    asynchronous_max: u32,
}

impl Kyber {
    /// With nothing queued, for a queue with `nr_requests` requests.
    #[must_use]
    pub fn new(nr_requests: u32) -> Self {
        Self {
            tunables: Tunables::default(),
            domains: DEPTH_MAX.map(Domain::new),
            staged: [0; DOMAINS],
            links: Links::new(),
            places: PerRequest::new(),
            current: READ,
            batching: 0,
            look_at: None,
            asynchronous: 0,
            asynchronous_max: (u64::from(nr_requests) * ASYNC_PERCENT / 100) as u32,
        }
    }

    const fn target(&self, domain: usize) -> Span {
        match domain {
            READ => self.tunables.read_lat,
            WRITE => self.tunables.write_lat,
            _ => DISCARD_LAT,
        }
    }

    fn place(&self, id: RequestId) -> Place {
        self.places.get(id).copied().unwrap_or_default()
    }

    /// Whether a request with that number is still in its domain's software queue.
    fn is_staged(&self, domain: usize, place: Place) -> bool {
        let oldest = self.staged[domain] - self.domains[domain].staged.len() as u64;
        matches!(place, Place::Queued(number) if number >= oldest)
    }

    /// The current domain's next request, if it may be dispatched.
    fn take_current(&mut self, now: Time) -> Option<RequestId> {
        let id = self.domains[self.current].take(&mut self.links)?;
        self.batching += 1;
        self.places.set(id, Place::Sent(now));
        Some(id)
    }

    fn choose(&mut self, now: Time) -> Option<(RequestId, Reason)> {
        if self.batching < BATCH_SIZE[self.current]
            && let Some(id) = self.take_current(now)
        {
            return Some((id, Reason::Domain));
        }
        self.batching = 0;
        for _ in 0..DOMAINS {
            self.current = (self.current + 1) % DOMAINS;
            if let Some(id) = self.take_current(now) {
                return Some((id, Reason::NewBatch));
            }
        }
        None
    }

    /// Evaluates the histograms if it is time. The time may have passed some while ago: no decision since then depended on
    /// it, and completions call this before they add samples.
    fn look(&mut self, now: Time) {
        if let Some(at) = self.look_at.filter(|&at| at <= now) {
            self.look_at = None;
            let congested = self.is_congested(at);
            for domain in READ..OTHER {
                self.adjust(at, domain, congested);
            }
        }
    }

    /// Whether the device is too slow for any domain. Every domain is evaluated, because that resets its histogram.
    fn is_congested(&mut self, now: Time) -> bool {
        let mut congested = false;
        for domain in &mut self.domains[READ..OTHER] {
            let p90 = domain.latency.percentile(now, Kind::Device, 90);
            congested |= p90.is_some_and(|bucket| bucket >= GOOD);
        }
        congested
    }

    /// Changes a domain's tokens. Under congestion, a percentile from an earlier window is used once.
    fn adjust(&mut self, now: Time, domain: usize, congested: bool) {
        let domain_state = &mut self.domains[domain];
        let mut p99 = domain_state.latency.percentile(now, Kind::Total, 99);
        if congested {
            p99 = p99.or(domain_state.latency.remembered);
            domain_state.latency.remembered = None;
        } else if p99.is_some() {
            domain_state.latency.remembered = p99;
        }
        let Some(bucket) = p99 else { return };
        if congested || bucket >= GOOD {
            let scaled = domain_state.depth * (bucket as u32 + 1) / GOOD as u32;
            domain_state.depth = scaled.clamp(1, DEPTH_MAX[domain]);
        }
    }
}

const fn domain_of(op: Op) -> usize {
    match op {
        Op::Read => READ,
        Op::Write => WRITE,
        Op::Discard => DISCARD,
        Op::Flush => OTHER,
    }
}

impl Scheduler for Kyber {
    fn insert(&mut self, _now: Time, request: &Request) {
        let domain = domain_of(request.op);
        self.links.push_back(&mut self.domains[domain].staged, request.id);
        self.places.set(request.id, Place::Queued(self.staged[domain]));
        self.staged[domain] += 1;
        self.asynchronous += u32::from(!request.is_sync());
    }

    /// A request that grows keeps its place; [`may_merge`](Self::may_merge) refuses absorptions.
    fn merged(&mut self, _now: Time, _request: &Request, _growth: Growth<'_>) {}

    fn next(&mut self, now: Time, _view: &View<'_>) -> Decision {
        self.look(now);
        match self.choose(now) {
            Some((id, reason)) => Decision::Dispatch { id, reason },
            None if self.domains.iter().all(Domain::is_empty) => Decision::Idle,
            None => Decision::Hold(Hold { until: None, wake: Wake::Completion, reason: HoldReason::NoToken }),
        }
    }

    fn completed(&mut self, now: Time, request: &Request, outcome: Outcome) {
        self.look(now);
        let Place::Sent(sent) = self.place(request.id) else { return };
        self.places.set(request.id, Place::Unknown);
        self.asynchronous -= u32::from(!request.is_sync());
        let domain = domain_of(request.op);
        self.domains[domain].taken -= 1;
        if outcome == Outcome::GivenBack || domain == OTHER {
            return;
        }
        let target = self.target(domain);
        let latency = &mut self.domains[domain].latency;
        latency.total.add(now.since(request.arrived), target);
        latency.device.add(now.since(sent), target);
        self.look_at.get_or_insert(now + LOOK_AFTER);
    }

    /// Asynchronous requests may fill three quarters of the queue. While they are refused, synchronous ones may exceed the
    /// limit.
    fn may_queue(
        &self,
        _now: Time,
        _process: Option<Process>,
        _direction: Direction,
        sync: bool,
    ) -> Admission {
        match (self.asynchronous >= self.asynchronous_max, sync) {
            (false, _) => Admission::ByLimit,
            (true, true) => Admission::Must,
            (true, false) => Admission::No,
        }
    }

    /// A submission may join one of the youngest requests of the software queue; a queued request joins none.
    fn may_merge(&self, request: &Request, addition: &Request, _side: Side) -> bool {
        let domain = domain_of(request.op);
        let place = self.place(request.id);
        let in_reach = matches!(place, Place::Queued(number) if number + MERGE_REACH >= self.staged[domain]);
        in_reach && self.is_staged(domain, place) && !matches!(self.place(addition.id), Place::Queued(_))
    }

    /// A request waits for the earlier requests of its domain. Each of them waits at most until a token is returned
    /// (everything in the device is served meanwhile) and then for one batch of every domain.
    fn longest_wait(&self, load: Load) -> Option<Span> {
        let turn = BATCH_SIZE.iter().sum::<u32>() + load.requests;
        Some(load.service * u64::from(turn) * u64::from(load.requests))
    }
}

impl Capabilities for Kyber {
    tuned_by_itself!();
}

impl Tuning for Kyber {
    fn table(&self) -> &[Tunable] {
        Tunables::TABLE
    }

    /// In addition to the tunables, the present depths for display: `read_depth`, `write_depth`, `discard_depth`,
    /// `other_depth`.
    fn value(&self, name: &str) -> Option<Value> {
        let depth = |domain: usize| Some(Value::Count(u64::from(self.domains[domain].depth)));
        match name {
            "read_depth" => depth(READ),
            "write_depth" => depth(WRITE),
            "discard_depth" => depth(DISCARD),
            "other_depth" => depth(OTHER),
            _ => self.tunables.get(name),
        }
    }

    fn set_value(&mut self, name: &str, value: Value) -> Result<(), TuneError> {
        self.tunables.set(name, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at_ms, request};
    use alloc::vec::Vec;
    use elevator::{Device, Flags, Requests};

    fn histogram(counts: [u32; BUCKETS]) -> Histogram {
        Histogram(counts)
    }

    /// `good` samples far below the target, and `bad` samples far above it.
    fn good_and_bad(good: u32, bad: u32) -> Histogram {
        histogram([good, 0, 0, 0, 0, 0, 0, bad])
    }

    /// Evaluates these histograms of one domain (in the device, and since arrival); returns the depths after the evaluation.
    fn look(
        kyber: &mut Kyber,
        ms: u64,
        domain: usize,
        device: Histogram,
        total: Histogram,
    ) -> [u32; DOMAINS] {
        let latency = &mut kyber.domains[domain].latency;
        (latency.device, latency.total) = (device, total);
        kyber.look_at = Some(at_ms(ms));
        kyber.look(at_ms(ms));
        core::array::from_fn(|domain| kyber.domains[domain].depth)
    }

    const NOTHING: Histogram = Histogram([0; BUCKETS]);

    #[test]
    fn buckets_are_quarters_of_the_target_with_their_ends() {
        let target = Span::from_millis(2);
        for (us, ns, bucket) in [
            (0, 0, 0),
            (500, 0, 0),
            (500, 1, 1),
            (2_000, 0, 3),
            (2_000, 1, 4),
            (3_500, 0, 6),
            (3_500, 1, 7),
            (99_000, 0, 7),
        ] {
            let mut seen = Histogram::default();
            seen.add(Span::from_nanos(us * 1_000 + ns), target);
            assert_eq!(seen.0[bucket], 1, "{us} us {ns} ns: {seen:?}");
        }
        let mut kyber = Kyber::new(256);
        assert_eq!(
            [READ, WRITE, DISCARD].map(|domain| kyber.target(domain)),
            [2, 10, 5_000].map(Span::from_millis)
        );
        kyber.tune("write_lat", Value::Span(Span::from_millis(3))).unwrap();
        assert_eq!(kyber.target(WRITE), Span::from_millis(3));
    }

    #[test]
    fn a_percentile_is_the_bucket_that_reaches_the_share() {
        for (good, bad, percent, bucket) in [
            (99, 1, 99, 0),
            (98, 2, 99, 7),
            (9, 1, 99, 7),
            (9, 1, 90, 0),
            (8, 2, 90, 7),
            (0, 1, 1, 7),
            (1, 0, 99, 0),
        ] {
            let mut histogram = good_and_bad(good, bad);
            assert_eq!(histogram.take_percentile(percent), bucket, "{percent}% of {good} and {bad}");
            assert_eq!(histogram.samples(), 0, "taking a percentile resets the histogram");
        }
        for (percent, bucket) in [(40, 0), (50, 1), (70, 1), (90, 2), (91, 3)] {
            assert_eq!(Histogram([4, 3, 2, 1, 0, 0, 0, 0]).take_percentile(percent), bucket, "{percent}%");
        }
    }

    #[test]
    fn a_percentile_needs_500_samples_or_a_second_since_the_first_evaluation() {
        let after = |samples: u32, looks: &[u64]| -> Vec<Option<usize>> {
            let mut latency = Latency { total: good_and_bad(samples, 0), ..Latency::default() };
            looks.iter().map(|&ms| latency.percentile(at_ms(ms), Kind::Total, 99)).collect()
        };
        assert_eq!(after(500, &[100]), [Some(0)]);
        assert_eq!(after(499, &[100, 1_099, 1_100]), [None, None, Some(0)]);
        assert_eq!(after(0, &[100, 5_000]), [None, None]);
    }

    #[test]
    fn congestion_is_a_device_that_misses_the_target_for_more_than_a_tenth() {
        for (device, congested) in [
            (good_and_bad(450, 50), false),
            (good_and_bad(449, 51), true),
            (histogram([0, 0, 0, 500, 0, 0, 0, 0]), false),
            (histogram([0, 0, 0, 0, 500, 0, 0, 0]), true),
        ] {
            let mut kyber = Kyber::new(256);
            kyber.domains[WRITE].latency.total = histogram([0, 500, 0, 0, 0, 0, 0, 0]);
            let [_, writes, ..] = look(&mut kyber, 100, READ, device, NOTHING);
            assert_eq!(writes, if congested { 64 } else { 128 }, "{device:?}");
        }
    }

    #[test]
    fn a_domain_that_misses_its_target_gets_tokens_back_without_congestion_too() {
        let mut kyber = Kyber::new(256);
        kyber.domains[READ].depth = 10;
        // The 99th percentile decides: one per cent may miss the target.
        assert_eq!(look(&mut kyber, 100, READ, NOTHING, good_and_bad(495, 5))[READ], 10);
        assert_eq!(
            look(&mut kyber, 200, READ, NOTHING, good_and_bad(494, 6))[READ],
            20,
            "twice the target: twice the tokens"
        );
        assert_eq!(look(&mut kyber, 300, READ, NOTHING, histogram([0, 0, 0, 0, 500, 0, 0, 0]))[READ], 25);
        kyber.domains[READ].depth = 200;
        assert_eq!(
            look(&mut kyber, 400, READ, NOTHING, good_and_bad(0, 500))[READ],
            256,
            "never more than the initial depth"
        );
    }

    #[test]
    fn an_earlier_percentile_takes_tokens_once_under_congestion() {
        let mut kyber = Kyber::new(256);
        let congested = good_and_bad(0, 500);
        assert_eq!(
            look(&mut kyber, 100, WRITE, NOTHING, histogram([500, 0, 0, 0, 0, 0, 0, 0])),
            [256, 128, 64, 16]
        );
        assert_eq!(
            look(&mut kyber, 200, READ, congested, NOTHING),
            [256, 32, 64, 16],
            "a quarter of the target"
        );
        assert_eq!(look(&mut kyber, 300, READ, congested, NOTHING), [256, 32, 64, 16]);
        kyber.domains[WRITE].depth = 2;
        assert_eq!(
            look(&mut kyber, 400, READ, congested, NOTHING)[WRITE],
            2,
            "the stored percentile is used only once"
        );
        kyber.domains[WRITE].latency.total = histogram([500, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(look(&mut kyber, 500, READ, congested, NOTHING)[WRITE], 1, "at least one token is left");
    }

    #[test]
    fn latencies_since_arrival_and_since_dispatch_are_evaluated_after_100_ms() {
        let mut kyber = Kyber::new(256);
        let mut requests = Requests::default();
        let ids = [0, 1_000].map(|start| requests.add(request(start, 8)));
        ids.iter().for_each(|&id| kyber.insert(Time::ZERO, &requests[id]));
        let device = Device { depth: 2, in_flight: 0, last_dispatched: None, positioning: None };
        for _ in ids {
            kyber.next(at_ms(10), &View { requests: &requests, device });
        }
        kyber.completed(at_ms(11), &requests[ids[0]], Outcome::Done);
        kyber.completed(at_ms(12), &requests[ids[1]], Outcome::GivenBack);
        let latency = &kyber.domains[READ].latency;
        assert_eq!((latency.total.0[7], latency.device.0[1]), (1, 1), "11 ms of 2, and 1 ms of 2");
        assert_eq!(
            (latency.total.samples(), latency.device.samples()),
            (1, 1),
            "a returned request is no sample"
        );
        assert_eq!((kyber.look_at, kyber.domains[READ].taken), (Some(at_ms(111)), 0));
        kyber.look(at_ms(110));
        assert!(kyber.look_at.is_some());
        kyber.look(at_ms(111));
        assert!(kyber.look_at.is_none());
    }

    #[test]
    fn asynchronous_requests_fill_three_quarters_of_the_queue() {
        let mut kyber = Kyber::new(256);
        let mut requests = Requests::default();
        let device = Device { depth: 2, in_flight: 0, last_dispatched: None, positioning: None };
        let write = |sync| {
            let flags = Flags { sync, ..Flags::default() };
            Request { op: Op::Write, flags, ..request(0, 8) }
        };
        let leave = |kyber: &Kyber| {
            [true, false].map(|sync| kyber.may_queue(Time::ZERO, None, Direction::Write, sync))
        };
        let synchronous = requests.add(write(true));
        kyber.insert(Time::ZERO, &requests[synchronous]);
        for _ in 0..191 {
            let id = requests.add(write(false));
            kyber.insert(Time::ZERO, &requests[id]);
        }
        assert_eq!(leave(&kyber), [Admission::ByLimit, Admission::ByLimit]);
        let last = requests.add(write(false));
        kyber.insert(Time::ZERO, &requests[last]);
        assert_eq!(leave(&kyber), [Admission::Must, Admission::No]);
        let sent: Vec<RequestId> = (0..2)
            .filter_map(|_| match kyber.next(Time::ZERO, &View { requests: &requests, device }) {
                Decision::Dispatch { id, .. } => Some(id),
                _ => None,
            })
            .collect();
        kyber.completed(Time::ZERO, &requests[sent[0]], Outcome::Done);
        assert_eq!(
            leave(&kyber),
            [Admission::Must, Admission::No],
            "the queue is full after the synchronous request"
        );
        kyber.completed(Time::ZERO, &requests[sent[1]], Outcome::Done);
        assert_eq!(leave(&kyber), [Admission::ByLimit, Admission::ByLimit]);
    }
}
