//! Which requests are one flow, and what is measured of flows.

use alloc::vec::Vec;

use elevator::Priority;

use super::flows::Flow;
use super::*;
use crate::testing::{at_ms, request};

const THRESHOLD: u64 = 4;
const KIB: u64 = 2;
const MIB: u64 = 1024 * KIB;
/// Requests farther apart than this are distinct flows.
const APART: u64 = 100_000_000;

/// The flows of a desktop drive, whose requests complete when a test has it so.
struct Stand {
    flows: Flows,
    curve: ServiceCurve,
    now: Time,
}

impl Stand {
    fn new() -> Self {
        let curve = ServiceCurve::default();
        Self { flows: Flows::new(&curve), curve, now: at_ms(1_300) }
    }

    fn arrives(&mut self, request: Request) -> FlowId {
        self.flows.forget(self.now);
        self.flows.tracked(self.now, &request, &self.curve)
    }

    /// A read of 8 sectors, which is outstanding from now on.
    fn begins(&mut self, start: u64) -> FlowId {
        self.arrives(request(start, 8))
    }

    fn ends(&mut self, flow: FlowId) {
        self.flows.ended(self.now, flow, THRESHOLD);
    }

    /// A request that completes at once.
    fn serves(&mut self, request: Request) -> FlowId {
        let flow = self.arrives(request);
        self.ends(flow);
        flow
    }

    /// A read of 8 sectors that completes at once.
    fn reads(&mut self, start: u64) -> FlowId {
        self.serves(request(start, 8))
    }

    fn passes(&mut self, time: Span) -> &mut Self {
        self.now += time;
        self
    }

    fn get(&self, flow: FlowId) -> &Flow {
        self.flows.get(flow)
    }

    /// A flow with so many contiguous sectors.
    fn with_contiguous(&mut self, start: u64, sectors: u64) -> FlowId {
        self.reads(start);
        self.serves(request(start + 8, sectors as u32))
    }

    fn bytes(&self, flow: FlowId) -> u64 {
        self.get(flow).recent_bytes(self.now)
    }
}

#[test]
fn a_flow_goes_on_within_near_forward_and_half_of_that_backward() {
    let near = Stand::new().flows.near();
    // From where the first request ends.
    for (from_end, continues) in [
        (0, true),
        (near as i64, true),
        (near as i64 + 1, false),
        (-(near as i64) / 2, true),
        (-(near as i64) / 2 - 1, false),
    ] {
        let mut t = Stand::new();
        let first = t.reads(APART);
        t.passes(Span::from_millis(2));
        let second = t.reads((APART as i64 + 8 + from_end) as u64);
        assert_eq!(first == second, continues, "{from_end}");
    }
}

/// Requests that do not wait for each other are nearer.
#[test]
fn before_its_request_has_completed_a_flow_goes_on_within_a_mebibyte() {
    for (gap, continues) in [(MIB, true), (MIB + 1, false)] {
        let mut t = Stand::new();
        let first = t.begins(APART);
        assert_eq!(t.begins(APART + 8 + gap) == first, continues, "{gap}");
    }
}

#[test]
fn a_prompt_request_continues_a_flow_up_to_twice_the_distance_of_the_nearest_pending_request() {
    let other = 2000 * MIB;
    let millisecond = Span::from_millis(1);
    for (distance, after, continues) in [
        (2 * other, millisecond, true),
        (2 * other + 1, millisecond, false),
        (2 * other, millisecond + Span::from_nanos(1), false),
    ] {
        let mut t = Stand::new();
        let own = t.begins(APART);
        let others = [t.begins(APART + 8 + 9 * other), t.begins(APART + other)];
        // A request that has completed is not pending.
        t.reads(APART + other / 2);
        t.ends(own);
        // Where the nearest pending one ends is `other` from where the own one ends.
        assert!(!others.contains(&own));
        t.passes(after);
        assert_eq!(t.begins(APART + 8 + distance) == own, continues, "{distance} after {after}");
    }
}

/// A sequence that the program has left does not attract others' requests.
#[test]
fn a_flow_of_two_sequences_loses_the_one_from_which_the_other_is_far_away() {
    let near = Stand::new().flows.near();
    for (distance, continues) in [(near, true), (near + 1, false)] {
        let mut t = Stand::new();
        let flow = t.reads(APART);
        let write = |start| Request { op: Op::Write, ..request(start, 8) };
        assert_eq!(t.serves(write(APART + 8)), flow);
        assert_eq!(t.reads(APART + 16 + distance - 8), flow);
        assert_eq!(t.serves(write(APART + 16)) == flow, continues, "{distance}");
    }
}

#[test]
fn a_request_continues_the_nearest_flow() {
    for order in [[0, 1], [1, 0]] {
        let mut t = Stand::new();
        let near = t.flows.near();
        let mut flows = [0; 2];
        for n in order {
            flows[n] = t.reads(APART + n as u64 * (near * 3 / 2));
        }
        assert_ne!(flows[0], flows[1]);
        // Both reach there: it is nearer to the first one's end than, backward, to the second one.
        assert_eq!(t.reads(APART + near * 9 / 10), flows[0]);
        assert_eq!(t.reads(APART + near * 3 / 2 + 8), flows[1]);
    }
}

#[test]
fn a_flow_is_remembered_for_a_second_once_it_is_established_and_half_the_longest_move_before() {
    let (brief, second) = (ServiceCurve::default().longest() / 2, Span::from_secs(1));
    for (requests, memory) in [(1, brief), (THRESHOLD, brief), (THRESHOLD + 1, second)] {
        for (late, continues) in [(Span::ZERO, false), (Span::from_nanos(1), true)] {
            let mut t = Stand::new();
            let flow = (0..requests).map(|n| t.reads(APART + n * 8)).last().unwrap();
            t.passes(memory - late);
            t.flows.forget(t.now);
            assert_eq!(t.flows.is_used(flow), continues, "{requests} requests, {late} before");
            // Another one has its place meanwhile, or the flow goes on.
            t.begins(9 * APART);
            let next = t.reads(APART + requests * 8);
            assert_eq!(t.get(next).is_established(1), continues, "{requests} requests, {late} before");
        }
    }
}

#[test]
fn a_new_flow_has_the_place_of_the_one_that_is_over_first_and_none_while_all_have_requests() {
    let mut t = Stand::new();
    let first = t.reads(0);
    let mut others: Vec<_> = (1..28).map(|n| t.passes(Span::from_micros(1)).reads(n * APART / 4)).collect();
    others.sort_unstable();
    others.dedup();
    assert!(others.len() == 27 && !others.contains(&first));
    assert_eq!(t.begins(40 * APART), first);
    for n in 1..28 {
        assert_ne!(t.begins((40 + n) * APART), SCATTERED);
    }
    assert_eq!(t.begins(80 * APART), SCATTERED);
}

#[test]
fn contiguous_data_halves_with_each_second_without_requests() {
    let data = 8 * MIB;
    let bytes = data * 512;
    for (ms, part) in [(0, 1), (999, 1), (1_000, 2), (1_999, 2), (2_000, 4), (3_500, 8), (100_000, u64::MAX)]
    {
        let mut t = Stand::new();
        let flow = t.with_contiguous(APART, data);
        t.passes(Span::from_millis(ms));
        assert_eq!(t.bytes(flow), bytes / part, "{ms} ms");
    }
    // Pauses add up.
    let mut t = Stand::new();
    let flow = (0..5).map(|n| t.reads(APART - 40 + n * 8)).last().unwrap();
    let before = t.bytes(flow);
    assert_eq!(t.serves(request(APART, data as u32)), flow);
    t.passes(Span::from_millis(600));
    let pending = t.begins(APART + data);
    assert_eq!((pending, t.bytes(flow)), (flow, before + bytes + 4096));
    t.passes(Span::from_millis(5_300));
    assert_eq!(t.bytes(flow), before + bytes + 4096, "it waits for its turn");
    let last = t.begins(APART + data + 8);
    [flow, last].into_iter().for_each(|flow| t.ends(flow));
    t.passes(Span::from_millis(400) - Span::from_nanos(1));
    assert_eq!(t.bytes(flow), before + bytes + 2 * 4096);
    t.passes(Span::from_nanos(1));
    assert_eq!(t.bytes(flow), (before + bytes + 2 * 4096) / 2);
}

#[test]
fn requests_are_contiguous_up_to_128_kib_behind_the_latest_of_their_direction() {
    for (gap, is_contiguous) in [(0, true), (128 * KIB, true), (128 * KIB + 1, false)] {
        let mut t = Stand::new();
        t.reads(APART);
        let flow = t.reads(APART + 8 + gap);
        assert_eq!(t.bytes(flow) > 0, is_contiguous, "{gap}");
    }
    let mut t = Stand::new();
    t.reads(APART);
    let flow = t.reads(APART - 8);
    assert_eq!(t.bytes(flow), 0, "backward");
}

#[test]
fn a_flow_is_heavy_by_its_data_and_beside_the_heaviest() {
    let limit = 4 * MIB * 512;
    // Sectors of the flow, and of another one.
    for (own, other, is_heavy) in [
        (4 * MIB, 0, false),
        (4 * MIB + 1, 0, true),
        // Beside a heavy flow, a quarter is enough.
        (MIB, 5 * MIB, false),
        (MIB + 1, 5 * MIB, true),
        (MIB + 1, 4 * MIB, false),
        // But not less than an eighth of the heaviest.
        (8 * MIB, 64 * MIB, true),
        (8 * MIB - 1, 64 * MIB, false),
        // More than 256 MiB are as heavy as 256 MiB.
        (32 * MIB, 1024 * MIB, true),
        (32 * MIB - 1, 1024 * MIB, false),
    ] {
        let mut t = Stand::new();
        let flow = t.with_contiguous(APART, own);
        t.with_contiguous(20 * APART, other);
        t.flows.forget(t.now);
        assert_eq!(t.flows.is_heavy(t.now, flow, limit), is_heavy, "{own} beside {other}");
    }
}

#[test]
fn writes_are_a_run_after_sixteen_requests_without_a_pause_longer_than_a_millisecond() {
    let mut t = Stand::new();
    let flow = t.reads(APART);
    let mut next = APART + 8;
    let mut goes_on = |t: &mut Stand, gap: Span| {
        t.passes(gap);
        next += 8;
        t.reads(next - 8);
    };
    for _ in 0..16 {
        goes_on(&mut t, Span::from_millis(1));
    }
    assert!(!t.get(flow).is_run());
    goes_on(&mut t, Span::from_millis(1));
    assert!(t.get(flow).is_run());
    goes_on(&mut t, Span::from_micros(1_001));
    assert!(!t.get(flow).is_run());
}

#[test]
fn gaps_are_means_in_which_late_requests_count_as_just_in_time() {
    let mut t = Stand::new();
    let limit = t.curve.longest() / 2;
    let flow = t.reads(APART);
    t.passes(Span::from_millis(1)).reads(APART + 8);
    assert_eq!((t.get(flow).gap(false), t.get(flow).gap(true)), (Span::from_millis(1), Span::from_millis(1)));
    t.passes(Span::from_millis(5)).reads(APART + 16);
    t.reads(APART + 24);
    t.begins(APART + 32);
    // Not while one is outstanding.
    t.passes(Span::from_millis(9)).begins(APART + 40);
    t.ends(flow);
    t.ends(flow);
    let mean = Span::from_nanos(1_125_000); // (1, 5, 0, 0)
    assert_eq!(t.get(flow).gap(false), mean);
    t.passes(limit * 3).reads(APART + 48);
    assert_eq!(t.get(flow).gap(true), mean);
    assert_eq!(t.get(flow).gap(false), (mean * 3 + limit) / 4);
}

/// The share of requests in time begins at a half and is a mean of the last eight.
#[test]
fn late_requests_and_vain_waits_make_a_flow_unreliable_and_timely_ones_reliable() {
    let mut t = Stand::new();
    let limit = t.curve.longest() / 2;
    let flow = (0..5).map(|n| t.reads(APART + n * 8)).last().unwrap();
    let mut next = APART + 40;
    let mut reads = |t: &mut Stand, gap: Span| {
        next += 8;
        t.passes(gap).reads(next - 8);
        (t.get(flow).is_steady(), t.get(flow).is_reliable())
    };
    assert_eq!(reads(&mut t, limit), (true, true), "just in time");
    let late: Vec<_> = (0..9).map(|_| reads(&mut t, limit + Span::from_nanos(1))).collect();
    // 0.74 of requests were in time: below a half after three late ones, below a quarter after eight.
    let steady = late.iter().filter(|of| of.0).count();
    let reliable = late.iter().filter(|of| of.1).count();
    assert_eq!((steady, reliable), (2, 7));
    assert_eq!(reads(&mut t, limit), (false, true));
    // Waits were rewarded always, until now: below a half after three in vain, below a quarter after five.
    let mut t = Stand::new();
    let flow = (0..60).map(|n| t.reads(APART + n * 8)).last().unwrap();
    let states: Vec<_> = (0..5)
        .map(|_| {
            t.flows.get_mut(flow).missed();
            (t.get(flow).is_steady(), t.get(flow).is_reliable())
        })
        .collect();
    assert_eq!(states, [(true, true), (true, true), (false, true), (false, true), (false, false)]);
}

/// Only what a wait cost and brought differs: all requests are in time.
#[test]
fn waits_that_end_with_an_asynchronous_write_count_twice_and_rewarded_ones_at_once() {
    let rewarded = |waits: fn(&mut Flow), written_before: Option<Span>| {
        let mut t = Stand::new();
        let flow = (0..60).map(|n| t.reads(APART + n * 8)).last().unwrap();
        (0..4).for_each(|_| t.flows.get_mut(flow).missed());
        waits(t.flows.get_mut(flow));
        if let Some(before) = written_before {
            t.flows.written(t.now);
            t.passes(before);
        }
        (0..40)
            .take_while(|n| {
                t.reads(APART + (60 + n) * 8);
                !(t.get(flow).is_steady() && t.get(flow).is_reliable())
            })
            .count()
    };
    let micros = |us| Some(Span::from_micros(us));
    // After four vain waits 81/256 were rewarded. A request without a wait adds 4/256, a rewarded wait a quarter of the rest; after two requests
    // most are in time again.
    assert_eq!(rewarded(|flow| flow.waits(), micros(1)), 2);
    assert_eq!(rewarded(|_| (), None), 11);
    assert_eq!(rewarded(|_| (), micros(51)), 11);
    assert_eq!(rewarded(|_| (), micros(50)), 17);
}

#[test]
fn a_wait_pays_if_its_share_of_requests_in_time_saves_more_than_half_of_what_vain_waits_cost() {
    let mut t = Stand::new();
    let flow = t.reads(APART);
    // Half of the requests are in time: a wait pays if it is shorter than twice what it saves.
    let pays = |saved, wait| t.get(flow).pays(Span::from_micros(saved), Span::from_micros(wait));
    assert!(pays(1_000, 1_999));
    assert!(!pays(1_000, 2_000));
}

#[test]
fn a_flow_is_random_if_its_moves_take_a_millisecond_on_average() {
    // Neighbours; and every 64th sector takes 0.6 ms, every 512th takes 4 ms.
    for (gap, is_random) in [(0, false), (64, false), (512, true)] {
        let mut t = Stand::new();
        let flow = (0..30).map(|n| t.reads(APART + n * (8 + gap))).last().unwrap();
        assert_eq!(t.get(flow).is_random(), is_random, "{gap}");
    }
    // Long transfers are no moves.
    let mut t = Stand::new();
    let flow = (0..30).map(|n| t.serves(request(APART + n * 1024, 1024))).last().unwrap();
    assert!(!t.get(flow).is_random());
}

/// Until there are measurements, the expected correction is that of the device; each of them counts as its estimated time, against one millisecond.
#[test]
fn the_time_of_a_flow_is_its_estimate_corrected_by_what_was_measured() {
    let mut t = Stand::new();
    let flow = (0..30).map(|n| t.serves(request(APART + n * 1024, 1024))).last().unwrap();
    let estimate = t.curve.at_distance(0) + t.curve.transfer(elevator::Sectors(1024));
    let near = |a: Span, b: Span| a.max(b) - a.min(b) < Span::from_micros(2);
    assert!(near(t.get(flow).time(256), estimate));
    assert!(near(t.get(flow).time(128), estimate / 2));
    t.flows.get_mut(flow).served(Span::from_millis(3), Span::from_millis(1));
    assert!(near(t.get(flow).time(256), estimate * 2), "{} {estimate}", t.get(flow).time(256));
    // What the drive has read ahead of another flow's requests is measured by itself.
    assert_eq!(t.get(flow).time_after_others(estimate), estimate);
    t.flows.get_mut(flow).served_after_others(Span::ZERO, Span::from_millis(3));
    assert!(near(t.get(flow).time_after_others(estimate), estimate / 4));
    assert!(near(t.get(flow).time(256), estimate * 2));
}

#[test]
fn a_flow_is_parallel_if_one_and_a_half_requests_are_outstanding_on_average() {
    let mut t = Stand::new();
    let flow = (0..30).map(|n| t.reads(APART + n * 8)).last().unwrap();
    assert_eq!((t.get(flow).parallel(), t.get(flow).is_parallel()), (1, false));
    // Two at a time: the second of each pair finds another one.
    let mut next = APART + 240;
    let mut pair = |t: &mut Stand| {
        [t.begins(next), t.begins(next + 8)].into_iter().for_each(|flow| t.ends(flow));
        next += 16;
    };
    (0..20).for_each(|_| pair(&mut t));
    assert_eq!((t.get(flow).parallel(), t.get(flow).is_parallel()), (2, true));
}

#[test]
fn a_flush_is_a_request_of_flows_that_wrote_since_the_last_one_and_lately() {
    let mut t = Stand::new();
    let limit = t.curve.longest() / 2;
    let [reader, old, writer, busy] = [1, 2, 3, 4].map(|n| t.begins(n * APART));
    [old, writer, busy].into_iter().for_each(|flow| t.flows.wrote(flow));
    t.ends(old);
    t.passes(Span::from_nanos(1));
    [reader, writer].into_iter().for_each(|flow| t.ends(flow));
    t.passes(limit);
    let waiting: Vec<_> = t.flows.flushing(t.now).collect();
    assert_eq!(waiting, [writer, busy]);
    assert_eq!(waiting.iter().map(|&flow| t.get(flow).in_device).sum::<u32>(), 2);
    t.passes(Span::from_millis(5));
    let flushed = t.now;
    t.flows.flushed(t.now, THRESHOLD);
    assert_eq!(t.get(writer).idle_since, flushed);
    assert_ne!(t.get(busy).idle_since, flushed, "its own request has not completed");
    assert_eq!(t.flows.flushing(t.now).count(), 0, "they have written nothing more");
}

#[test]
fn after_a_flush_a_writer_has_no_run() {
    let mut t = Stand::new();
    let flow = (0..30).map(|n| t.reads(APART + n * 8)).last().unwrap();
    t.flows.wrote(flow);
    assert!(t.get(flow).is_run());
    assert_eq!(t.flows.flushing(t.now).count(), 1);
    assert!(!t.get(flow).is_run());
}

#[test]
fn a_flow_has_the_weight_of_its_latest_level() {
    let mut t = Stand::new();
    for (level, weight) in [(0, 8), (4, 4), (7, 1), (9, 1)] {
        let priority = Priority { level, ..Priority::default() };
        let flow = t.serves(Request { priority, ..request(APART, 8) });
        assert_eq!(t.get(flow).weight(), weight);
    }
}
