//! Which flow and which request is next, and what is measured of the device.

use elevator::{HoldReason, Reason, Sectors, Value};

use super::tests::{direct, stream};
use super::*;
use crate::testing::{Table, request};

const FAR: u64 = 400_000_000;

fn table() -> Table<Dwell> {
    Table::of(Box::new(Dwell::new(&Environment::default())))
}

/// The next dispatch; time passes if the disk waits.
#[track_caller]
fn dispatched(t: &mut Table<Dwell>) -> RequestId {
    loop {
        match t.next() {
            Decision::Dispatch { id, .. } => return id,
            Decision::Hold(hold) => t.now = hold.until.expect("a time"),
            Decision::Idle => panic!("idle with requests queued"),
        }
    }
}

/// Light streams of eight short reads each, so long after the ones before. Returns where they go on.
fn readers<const N: usize>(t: &mut Table<Dwell>, from: [u64; N], gap: Span) -> [u64; N] {
    for n in 0..8 {
        t.now += gap;
        from.iter().for_each(|from| _ = t.read(from + n * 8));
        for _ in from {
            let id = dispatched(t);
            t.complete(id);
        }
    }
    from.map(|from| from + 64)
}

fn reader(t: &mut Table<Dwell>, from: u64, gap: Span) -> u64 {
    let [next] = readers(t, [from], gap);
    next
}

/// The flow of the queued request.
fn flow_of(t: &Table<Dwell>, id: RequestId) -> FlowId {
    t.scheduler.stored[id].flow
}

/// However soon each one has followed the one before.
#[test]
fn the_disk_does_not_wait_for_asynchronous_writes_and_long_synchronous_ones() {
    let bulk = |start: u64| Request { sectors: Sectors(1024), ..direct(start) };
    let write = |start: u64| Request { op: Op::Write, ..request(start, 8) };
    for (is_bulk, own, other) in
        [(true, bulk as fn(u64) -> Request, write as fn(u64) -> Request), (false, write, bulk)]
    {
        let mut t = table();
        for n in 0..50 {
            // Long writes that continue each other are a stream's.
            let id = t.insert(own(if is_bulk { n * 10_000_000 } else { FAR + n * 8 }));
            assert_eq!(dispatched(&mut t), id);
            assert_eq!(flow_of(&t, id), if is_bulk { BULK } else { WRITES });
            t.now += Span::from_micros(100);
            t.complete(id);
            t.now += Span::from_micros(100);
        }
        let other = t.insert(other(3 * FAR));
        assert_eq!(t.dispatches(), other, "bulk: {is_bulk}");
    }
}

/// A stream does, at its first request of its own queue.
#[test]
fn asynchronous_writes_do_not_take_the_disk_over_from_scattered_requests() {
    let mut t = table();
    let read = t.read(0);
    assert_eq!(dispatched(&mut t), read);
    t.complete(read);
    for n in 0..10 {
        t.write(FAR + n * 8);
        assert_eq!(t.scheduler.owner.map(|owner| owner.flow), Some(SCATTERED), "{n} writes before");
    }
}

#[test]
fn an_area_has_a_slice_for_its_flows_and_then_the_oldest_request_is_next() {
    let slice = Span::from_millis(150);
    for (after, is_near) in [(slice - Span::from_nanos(1), true), (slice, false)] {
        let mut t = table();
        // Two files in one area, read at the same time, and one elsewhere.
        let [a, b] = readers(&mut t, [FAR, FAR + 100_000], Span::from_micros(100));
        let c = reader(&mut t, 2 * FAR, Span::from_micros(100));
        t.now += Span::from_millis(300);
        let first = t.read(a);
        assert_eq!(t.dispatches(), first);
        let begun = t.now;
        let far = t.read(c);
        t.now += Span::from_millis(1);
        let near = t.read(b);
        t.complete(first);
        t.now = begun + after;
        assert_eq!(t.dispatches(), if is_near { near } else { far }, "{after}");
    }
}

/// From the head on; but requests that have waited for longer than a sweep takes, one after the other, wherever the head was meanwhile.
#[test]
fn scattered_requests_are_in_the_order_of_a_sweep() {
    let sweep = Span::from_millis(100 + 2 * 8);
    for (waited, is_first) in [(sweep - Span::from_nanos(1), false), (sweep, true)] {
        let mut t = table();
        let next = reader(&mut t, 2 * FAR, Span::from_micros(100));
        for start in [FAR, next] {
            t.now += Span::from_millis(200);
            t.read(start);
            let id = dispatched(&mut t);
            t.complete(id);
        }
        t.now += Span::from_millis(200);
        let behind = t.read(FAR * 3 / 2);
        let ahead = t.read(FAR * 9 / 4);
        t.now += waited;
        assert_eq!(t.dispatches(), if is_first { behind } else { ahead }, "{waited}");
    }
}

/// A drive that has read ahead serves a read at once, but soon has to move: only a flow that pauses is left for it.
#[test]
fn a_flow_with_pauses_is_left_for_reads_that_the_drive_has_read_ahead() {
    let write = |start| direct(start);
    let read = |start| request(start, 8);
    let (prompt, pauses) = (Span::from_micros(500), Span::from_millis(2));
    for (gap, other, is_left) in
        [(pauses, &read as &dyn Fn(u64) -> Request, true), (prompt, &read, false), (pauses, &write, false)]
    {
        let mut t = table();
        let elsewhere = reader(&mut t, 2 * FAR, Span::from_micros(100));
        reader(&mut t, FAR, gap);
        let other = t.insert(other(elsewhere));
        let flow = flow_of(&t, other);
        t.scheduler.flows.get_mut(flow).served_after_others(Span::ZERO, Span::from_millis(500));
        let decision = t.next();
        assert_eq!(matches!(decision, Decision::Dispatch { id, .. } if id == other), is_left, "{decision:?}");
        assert!(is_left || matches!(decision, Decision::Hold(Hold { reason: HoldReason::AwaitChild, .. })));
    }
}

#[test]
fn a_flows_own_time_is_measured_while_the_device_has_nothing_else() {
    #[derive(Debug, PartialEq)]
    enum Before {
        Itself,
        Other,
        OtherInDevice,
    }
    for before in [Before::Itself, Before::Other, Before::OtherInDevice] {
        let mut t = table();
        t.depth = 2;
        let next = reader(&mut t, FAR, Span::from_micros(100));
        let other = (before != Before::Itself).then(|| t.read(0));
        if let Some(other) = other {
            assert_eq!(dispatched(&mut t), other);
        }
        if let Some(other) = other.filter(|_| before == Before::Other) {
            t.complete(other);
        }
        let own = t.read(next);
        let flow = flow_of(&t, own);
        assert_eq!(dispatched(&mut t), own);
        let (alone, after) = {
            let flow = t.scheduler.flows.get(flow);
            (flow.time(256), flow.time_after_others(Span::from_millis(10)))
        };
        t.now += Span::from_millis(30);
        t.complete(own);
        let flow = t.scheduler.flows.get(flow);
        assert_eq!(flow.time(256) > alone, before == Before::Itself, "{before:?}");
        // The move to it took longer than estimated.
        let is_after = flow.time_after_others(Span::from_millis(10)) > after;
        assert_eq!(is_after, before == Before::Other, "{before:?}");
    }
}

/// Synchronous writes that need a move show whether the device has a cache for writes.
#[test]
fn the_time_of_synchronous_writes_elsewhere_is_measured() {
    let read = |start| request(start, 8);
    let asynchronous = |start| Request { op: Op::Write, ..request(start, 8) };
    let near = |_| direct(8);
    for (of, counts) in
        [(&direct as &dyn Fn(u64) -> Request, true), (&asynchronous, false), (&read, false), (&near, false)]
    {
        let mut t = table();
        let first = t.read(0);
        t.serves(first, Reason::NewSlice);
        let id = t.insert(of(FAR));
        assert_eq!(dispatched(&mut t), id);
        t.now += Span::from_micros(100);
        t.complete(id);
        let estimate = Span::from_millis(10);
        assert_eq!(t.scheduler.gains.written(estimate) < estimate, counts);
    }
}

#[test]
fn a_flush_is_no_request_of_programs_that_only_read_or_write_asynchronously() {
    let asynchronous = |start| Request { op: Op::Write, ..request(start, 8) };
    let read = |start| request(start, 8);
    for other in [&read as &dyn Fn(u64) -> Request, &asynchronous] {
        let mut t = table();
        let next = stream(&mut t, FAR, 20); // ten megabytes
        let other = t.insert(other(0));
        assert_eq!(dispatched(&mut t), other);
        t.complete(other);
        let child = t.insert(request(next, 1024));
        t.scheduler.flushing(t.now);
        assert_eq!(dispatched(&mut t), child);
    }
}

#[test]
fn fifo_batch_requests_are_dispatched_between_two_that_have_expired() {
    let mut t = table();
    t.scheduler.tune("fifo_batch", Value::Count(2)).unwrap();
    (0..7).for_each(|n| _ = t.read((7 - n) * 50_000_000));
    t.now += Span::from_secs(2);
    let expired = [(); 7].map(|()| match t.next() {
        Decision::Dispatch { id, reason } => {
            t.complete(id);
            reason == Reason::Expired
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(expired, [true, false, false, true, false, false, true]);
}

/// A flow with its next request, of which a test makes the older or the younger one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Sequential reads.
    Stream,
    /// Reads that take a move of 5 ms each.
    Random,
    Scattered,
}

#[test]
fn random_requests_are_in_the_order_of_a_sweep_and_others_by_age() {
    use Kind::{Random, Scattered, Stream};
    for (behind, ahead, is_ahead_first) in [
        (Random, Random, true),
        (Scattered, Random, true),
        (Random, Scattered, true),
        (Stream, Random, false),
        (Stream, Scattered, false),
        (Stream, Stream, false),
        (Random, Stream, false),
        (Scattered, Stream, false),
    ] {
        let sweep = Span::from_millis(100 + 2 * 8);
        for (waited, is_ahead_first) in [(sweep - Span::from_nanos(1), is_ahead_first), (sweep, false)] {
            let mut t = table();
            let next = |t: &mut Table<Dwell>, kind, from| match kind {
                Stream => reader(t, from, Span::from_micros(100)),
                Random => random_reader(t, from),
                Scattered => from,
            };
            let (older, younger) = (next(&mut t, behind, FAR), next(&mut t, ahead, 2 * FAR));
            t.now += Span::from_millis(200);
            // The head is between.
            let mut urgent = request(FAR * 3 / 2, 8);
            urgent.priority.class = PriorityClass::RealTime;
            t.insert(urgent);
            let urgent = dispatched(&mut t);
            t.complete(urgent);
            t.now += Span::from_millis(200);
            let older = t.read(older);
            let since = t.now;
            t.now += Span::from_millis(1);
            let younger = t.read(younger);
            t.now = since + waited;
            let first = if is_ahead_first { younger } else { older };
            assert_eq!(t.dispatches(), first, "{behind:?} behind, {ahead:?} ahead, after {waited}");
        }
    }
}

/// Eight reads with moves. Returns where the reader goes on.
fn random_reader(t: &mut Table<Dwell>, from: u64) -> u64 {
    for n in 0..8 {
        t.read(from + n * 2_000);
        let id = dispatched(t);
        t.now += Span::from_millis(6);
        t.complete(id);
    }
    from + 16_000
}

/// Its own order gains little by two requests, and more by many.
#[test]
fn a_device_that_queues_gets_the_random_requests_of_all_flows_if_there_are_many() {
    for (each, depth, all) in [(1, 32, 1), (16, 32, 32), (16, 1, 16)] {
        let mut t = table();
        t.depth = depth;
        let next = [2 * FAR, FAR].map(|from| random_reader(&mut t, from));
        next.iter().for_each(|from| (0..each).for_each(|n| _ = t.read(from + n * 2_000)));
        let sent = std::iter::from_fn(|| match t.next() {
            Decision::Dispatch { id, .. } => Some(id),
            _ => None,
        });
        assert_eq!(sent.count(), all, "{each} each, depth {depth}");
    }
}

/// Which requests are queued, and for how many milliseconds. Heavy: a long synchronous write.
#[derive(Clone, Copy, Default, Debug)]
struct Queued {
    light: Option<u64>,
    heavy: Option<u64>,
    writes: Option<u64>,
    real_time: Option<u64>,
}

impl Queued {
    /// A table after 10 s, when heavy flows and writes were served so many milliseconds ago.
    fn table(self, is_exhausted: bool, heavy: u64, writes: u64) -> Table<Dwell> {
        let mut t = table();
        let end = Span::from_secs(10);
        let mut urgent = request(3 * FAR, 8);
        urgent.priority.class = PriorityClass::RealTime;
        let mut requests = std::vec::Vec::from([
            (self.light, request(FAR, 8)),
            (self.heavy, Request { sectors: Sectors(SHORT_WRITE + 1), ..direct(0) }),
            (self.writes, Request { op: Op::Write, ..request(2 * FAR, 8) }),
            (self.real_time, urgent),
        ]);
        requests.sort_by_key(|(age, _)| core::cmp::Reverse(*age));
        for (age, request) in requests {
            if let Some(age) = age {
                t.now = Time::ZERO + end - Span::from_millis(age);
                t.insert(request);
            }
        }
        t.now = Time::ZERO + end;
        let ago = |ms| Time::ZERO + end - Span::from_millis(ms);
        t.scheduler.shares.is_exhausted = is_exhausted;
        (t.scheduler.last_heavy, t.scheduler.last_writes) = (ago(heavy), ago(writes));
        t
    }
}

#[test]
fn another_owner_is_chosen_by_kind_credit_and_age() {
    const LIGHT: FlowId = SCATTERED;
    let of = |light, heavy, writes| Queued { light, heavy, writes, real_time: None };
    let (now, all) = (Some(0), of(Some(0), Some(150), Some(600)));
    // Queued; whether the credit of light flows is used up; how long ago heavy flows and writes were served; the owner.
    for (queued, is_exhausted, heavy, writes, owner) in [
        (Queued { real_time: now, ..all }, false, 0, 0, Some(REAL_TIME)),
        (all, false, 0, 300, Some(LIGHT)),
        (of(now, None, None), true, 0, 0, Some(LIGHT)),
        // Beside light flows without credit, heavy flows and old writes alternate.
        (all, true, 0, 300, Some(WRITES)),
        (all, true, 300, 0, Some(BULK)),
        (of(now, Some(150), Some(500)), true, 0, 300, Some(WRITES)),
        (of(now, Some(150), Some(499)), true, 0, 300, Some(BULK)),
        // Not if the writes are much older.
        (of(now, Some(100), Some(600)), true, 300, 0, Some(WRITES)),
        (of(now, now, Some(501)), true, 300, 0, Some(WRITES)),
        (of(now, now, Some(500)), true, 300, 0, Some(BULK)),
        // A period after the last ones writes are next, unless it is the turn of heavy flows.
        (of(None, now, now), false, 500, 400, Some(WRITES)),
        (of(None, now, now), false, 500, 399, Some(BULK)),
        (of(None, now, now), true, 500, 400, Some(BULK)),
        (of(None, now, now), true, 300, 400, Some(WRITES)),
        (of(now, None, now), true, 0, 0, Some(WRITES)),
        (of(None, None, now), false, 0, 0, Some(WRITES)),
        (of(None, None, None), false, 0, 0, None),
    ] {
        let t = queued.table(is_exhausted, heavy, writes);
        let chosen = t.scheduler.choose(t.now, &t.view(), None);
        assert_eq!(chosen, owner, "{queued:?}, {is_exhausted}, {heavy}, {writes}");
    }
}

#[test]
fn a_choice_excludes_the_present_owner() {
    let now = Some(0);
    let queued = Queued { light: now, heavy: now, writes: now, real_time: now };
    let order = [(REAL_TIME, SCATTERED), (SCATTERED, REAL_TIME), (BULK, REAL_TIME), (WRITES, REAL_TIME)];
    for (owner, other) in order {
        let t = queued.table(false, 0, 0);
        assert_eq!(t.scheduler.choose(t.now, &t.view(), Some(owner)), Some(other), "{owner}");
    }
    let queued = Queued { real_time: None, ..queued };
    for (owner, other) in [(SCATTERED, BULK), (BULK, SCATTERED), (WRITES, SCATTERED)] {
        let t = queued.table(false, 0, 0);
        assert_eq!(t.scheduler.choose(t.now, &t.view(), Some(owner)), Some(other), "{owner}");
    }
    let queued = Queued { light: None, heavy: None, ..queued };
    let t = queued.table(false, 0, 0);
    assert_eq!(t.scheduler.choose(t.now, &t.view(), Some(WRITES)), None);
}

/// The owner and the reason with which another flow replaces it.
#[test]
fn an_owner_is_replaced_by_urgent_flows_and_at_the_end_of_its_slice() {
    use Reason::{StreamSliceOver, Urgent};
    let stream = 9; // A flow without data is light.
    let now = Some(0);
    let queued = Queued { light: now, heavy: now, writes: now, real_time: now };
    let over = Span::from_secs(1);
    let none = Span::ZERO;
    // The owner, and whether it was light when its slice began; how long ago; the other flow; whether light flows have credit.
    for (owner, was_light, since, other, has_credit, reason) in [
        (SCATTERED, true, none, REAL_TIME, true, Some(Urgent)),
        (WRITES, false, none, REAL_TIME, false, Some(Urgent)),
        (REAL_TIME, true, over, SCATTERED, true, None),
        (BULK, false, none, SCATTERED, true, Some(Urgent)),
        (BULK, false, none, SCATTERED, false, None),
        (BULK, false, over, SCATTERED, false, Some(StreamSliceOver)),
        (WRITES, false, none, SCATTERED, true, Some(Urgent)),
        (WRITES, false, none, BULK, false, Some(Urgent)),
        // A flow that becomes heavy keeps its slice, except beside scattered requests.
        (BULK, true, none, SCATTERED, true, Some(Urgent)),
        (BULK, true, none, stream, true, None),
        (BULK, false, none, stream, true, Some(Urgent)),
        // Light flows keep the disk from heavy ones while they have credit.
        (SCATTERED, true, none, stream, true, None),
        (SCATTERED, true, over, stream, true, Some(StreamSliceOver)),
        (SCATTERED, true, over, BULK, true, None),
        (SCATTERED, true, none, BULK, false, None),
        (SCATTERED, true, over, BULK, false, Some(StreamSliceOver)),
        // Writes are next in their turn only.
        (BULK, false, over, WRITES, false, None),
    ] {
        let t = queued.table(!has_credit, 0, 0);
        let work = Span::from_secs(1);
        let owner = Owner { flow: owner, since: t.now - since, work, is_turn: false, is_light: was_light };
        let why = t.scheduler.successor(t.now, owner, other).map(|(flow, why)| {
            assert_eq!(flow, other);
            why
        });
        let flow = owner.flow;
        assert_eq!(why, reason, "{flow} since {since}, then {other}; credit: {has_credit}");
    }
}

#[test]
fn real_time_requests_are_light_however_many_are_contiguous() {
    let mut t = table();
    for n in 0..20 {
        let mut read = request(FAR + n * 2048, 2048);
        read.priority.class = PriorityClass::RealTime;
        t.insert(read);
        let id = dispatched(&mut t);
        t.complete(id);
    }
    assert!(t.scheduler.is_light(t.now, REAL_TIME));
}

#[test]
fn heavy_flows_have_been_served_when_a_request_of_one_is_dispatched() {
    let long = |start: u64| Request { sectors: Sectors(1024), ..direct(start) };
    let write = Request { op: Op::Write, ..request(FAR, 8) };
    for (request, is_heavy) in [(long(FAR), true), (write, false), (request(FAR, 8), false)] {
        let mut t = table();
        t.now += Span::from_secs(1);
        let id = t.insert(request);
        assert_eq!(dispatched(&mut t), id);
        assert_eq!(t.scheduler.last_heavy == t.now, is_heavy, "{request:?}");
    }
}

/// A slice of work, and another for each 32 that are queued.
#[test]
fn a_turn_of_writes_has_more_work_if_more_are_queued() {
    for (queued, slices) in [(1, 1), (31, 1), (32, 2), (96, 4)] {
        let mut t = table();
        (0..queued).for_each(|n| _ = t.write(n * 1_000_000));
        dispatched(&mut t);
        let owner = t.scheduler.owner.expect("the writes");
        let slice = t.scheduler.tunables.write_slice * slices;
        assert!(owner.work < slice && owner.work > slice - Span::from_millis(50), "{queued}: {}", owner.work);
    }
}

/// A cache for writes accepts them at once; their time is charged nevertheless.
#[test]
fn light_flows_have_credit_for_writes_from_the_time_the_device_has_them() {
    for (op, pays) in [(Op::Write, true), (Op::Read, false)] {
        let mut t = table();
        t.scheduler.shares.credit = 0;
        let id = t.insert(Request { op, ..request(FAR, 8) });
        assert_eq!(dispatched(&mut t), id);
        assert_eq!(t.scheduler.shares.credit > 0, pays, "{op:?}");
    }
}

/// The turn of writes lasts for their slice of work.
#[test]
fn writes_whose_turn_it_is_are_replaced_after_their_slice() {
    let now = Some(0);
    let t = Queued { light: now, writes: now, ..Queued::default() }.table(false, 0, 0);
    for (work, reason) in [(Span::from_nanos(1), None), (Span::ZERO, Some(Reason::StreamSliceOver))] {
        let owner = Owner { flow: WRITES, since: t.now, work, is_turn: true, is_light: false };
        // A light flow with credit is urgent beside writes all the same.
        let light = t.scheduler.successor(t.now, owner, SCATTERED);
        assert_eq!(light.map(|(_, why)| why), Some(Reason::Urgent));
        let heavy = t.scheduler.successor(t.now, owner, BULK);
        assert_eq!(heavy.map(|(_, why)| why), reason, "{work}");
    }
}

#[test]
fn slices_are_shorter_beside_scattered_requests_and_longer_for_high_levels() {
    let mut t = table();
    let [light, high, heavy] = [(FAR, 4), (2 * FAR, 0), (3 * FAR, 4)].map(|(from, level)| {
        for n in 0..8 {
            let mut read = request(from + n * 2048, if from == 3 * FAR { 2048 } else { 8 });
            read.priority.level = level;
            t.insert(read);
            let id = dispatched(&mut t);
            t.complete(id);
        }
        let mut read = request(from + 16_384, 8);
        read.priority.level = level;
        let id = t.insert(read);
        flow_of(&t, id)
    });
    t.scheduler.flows.forget(t.now);
    assert!(t.scheduler.is_light(t.now, light) && !t.scheduler.is_light(t.now, heavy));
    let hour = 3_600_000;
    for (owner, other, ms) in [
        (light, SCATTERED, 80),
        (SCATTERED, light, 80),
        (SCATTERED, WRITES, 80),
        (light, heavy, 150),
        (heavy, SCATTERED, 150),
        (high, light, 300),
        (BULK, SCATTERED, 150),
        (WRITES, SCATTERED, hour),
        (REAL_TIME, SCATTERED, hour),
    ] {
        let work = Span::from_secs(1);
        let owned = Owner { flow: owner, since: t.now, work, is_turn: false, is_light: false };
        let end = t.scheduler.end(t.now, owned, other);
        assert_eq!(end.since(t.now), Span::from_millis(ms), "{owner} before {other}");
    }
}
