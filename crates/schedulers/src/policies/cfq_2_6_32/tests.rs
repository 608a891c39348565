//! Decision tables in ticks of a millisecond, and a test that all state is freed.

use alloc::vec::Vec;

use elevator::Random;
use elevator::{
    Admission, Decision, Direction, Flags, HoldReason, Op, Priority, PriorityClass, Process, Reason, Request,
    RequestId, Side, Span, Time, Value,
};

use super::{Cfq2_6_32, Environment};
use crate::testing::{Table, at_ms, request};
use HoldReason::{AwaitSliceOwner, BatchChange, DepthLimit, SyncFirst};
use Reason::{Cooperator, Expired, NewSlice, SliceOwner};

/// A distant position.
const FAR: u64 = 1 << 30;

fn cfq() -> Table {
    let mut t = Table::new(Cfq2_6_32::new(&Environment::default()));
    t.scheduler.tune("hz", Value::Count(1000)).unwrap();
    t
}

fn until(ms: u64) -> Option<Time> {
    Some(at_ms(ms))
}

fn later(t: &mut Table, ms: u64) {
    t.now += Span::from_millis(ms);
}

fn with_priority(process: u32, start: u64, class: PriorityClass, level: u8) -> Request {
    let process = Some(Process::single(process));
    Request { process, priority: Priority { class, level }, ..request(start, 8) }
}

/// An asynchronous write of a process of normal priority.
fn write(start: u64) -> Request {
    Request { op: Op::Write, process: Some(Process::single(90)), ..request(start, 8) }
}

/// Serves requests until `ms` with a service time of `service` ms; `reads_on` returns a process's next request.
fn owners(
    t: &mut Table,
    ms: u64,
    service: u64,
    mut reads_on: impl FnMut(&mut Table, u32),
) -> Vec<(u64, u32)> {
    let mut turns = Vec::new();
    while t.now < at_ms(ms) {
        match t.next() {
            Decision::Dispatch { id, .. } => {
                let owner = t.requests[id].process.map_or(0, |process| process.task);
                if turns.last().is_none_or(|(_, last)| *last != owner) {
                    turns.push((t.now.as_nanos() / 1_000_000, owner));
                }
                later(t, service);
                t.complete(id);
                reads_on(t, owner);
            }
            Decision::Hold(hold) => t.now = hold.until.expect("the device is free"),
            Decision::Idle => panic!("every process keeps reading"),
        }
    }
    turns
}

#[test]
fn each_reader_has_the_device_for_a_slice_that_begins_with_its_first_completion() {
    let mut t = cfq();
    let mut at = [0, FAR, 2 * FAR, 3 * FAR];
    for n in 1..4 {
        t.read_by(n, at[n as usize]);
    }
    let turns = owners(&mut t, 400, 5, |t, n| {
        at[n as usize] += 8;
        t.read_by(n, at[n as usize]);
    });
    // 100 ms from the completion at 5, plus the request in the device at that time.
    assert_eq!(turns, [(0, 1), (105, 2), (210, 3), (315, 1)]);
}

#[test]
fn slices_are_longer_at_higher_priority() {
    let mut t = cfq();
    let mut at = [0, FAR, 2 * FAR, 3 * FAR];
    let levels = [0, 0, 4, 7];
    let read = |t: &mut Table, n: u32, at: u64| {
        t.insert(with_priority(n, at, PriorityClass::BestEffort, levels[n as usize]));
    };
    (1..4).for_each(|n| read(&mut t, n, at[n as usize]));
    let turns = owners(&mut t, 525, 5, |t, n| {
        at[n as usize] += 8;
        read(t, n, at[n as usize]);
    });
    // 180, 100 and 40 ms, each from its first completion. Turns: 1 at key 0, 2 at 80, 3 at 2 * 140 = 280; then 1 at 185,
    // before 3; then 2 at 290 + 2 * 80, after it.
    assert_eq!(turns, [(0, 1), (185, 2), (290, 1), (475, 3), (520, 2)]);
}

#[test]
fn the_device_idles_for_the_owner_and_then_serves_the_next_queue() {
    let mut t = cfq();
    let first = t.read_by(1, 1_000);
    t.serves(first, NewSlice);
    let other = t.at(1).read_by(2, FAR);
    t.holds(AwaitSliceOwner, until(8));
    let next = t.at(5).read_by(1, 1_008);
    t.serves(next, SliceOwner);
    t.holds(AwaitSliceOwner, until(13));
    t.at(13).serves(other, NewSlice);
}

#[test]
fn no_other_queue_dispatches_while_the_owner_has_a_request_in_the_device() {
    let mut t = cfq();
    t.depth = 31;
    let first = t.read_by(1, 1_000);
    t.sends(first, NewSlice);
    let other = t.read_by(2, FAR);
    t.holds(AwaitSliceOwner, None);
    t.at(9).complete(first);
    t.holds(AwaitSliceOwner, until(17));
    t.at(17).sends(other, NewSlice);
}

#[test]
fn the_device_does_not_idle_for_an_ended_process() {
    let mut t = cfq();
    let first = t.read_by(1, 1_000);
    t.sends(first, NewSlice);
    let other = t.read_by(2, FAR);
    t.scheduler.exited(t.now, Process::single(1));
    t.at(5).complete(first);
    t.serves(other, NewSlice);
}

#[test]
fn the_device_does_not_idle_for_a_process_that_thinks_long() {
    let mut t = cfq();
    for n in 0..4 {
        let id = t.read_by(1, 1_000 + 8 * n);
        t.next();
        t.complete(id);
        later(&mut t, 14);
    }
    let id = t.read_by(1, 1_032);
    t.next();
    t.complete(id);
    let other = t.read_by(2, FAR);
    assert_eq!(t.next(), Decision::Dispatch { id: other, reason: NewSlice });
}

#[test]
fn for_a_seeky_process_the_device_idles_two_milliseconds() {
    let mut t = cfq();
    for n in 0..6 {
        let id = t.read_by(1, 1_000_000 * n + 8);
        t.next();
        t.complete(id);
    }
    t.read_by(2, FAR);
    t.holds(AwaitSliceOwner, until(2));
}

#[test]
fn slice_idle_off_is_no_idling() {
    let mut t = cfq();
    t.scheduler.tune("slice_idle", Value::Span(Span::ZERO)).unwrap();
    let first = t.read_by(1, 1_000);
    t.serves(first, NewSlice);
    let other = t.read_by(2, FAR);
    t.serves(other, NewSlice);
}

#[test]
fn the_device_idles_on_solid_state_only_if_it_does_not_queue() {
    let mut t = Table::new(Cfq2_6_32::new(&Environment { rotational: false, ..Environment::default() }));
    let first = t.read_by(1, 1_000);
    t.serves(first, NewSlice);
    let other = t.read_by(2, FAR);
    t.serves(other, NewSlice);
}

#[test]
fn a_close_queue_is_served_next_and_the_two_are_merged() {
    let mut t = cfq();
    t.depth = 31;
    let first = t.read_by(1, 1_000);
    t.sends(first, NewSlice);
    let [far, near] = [FAR, 1_008].map(|sector| t.read_by(if sector == FAR { 2 } else { 3 }, sector));
    t.sends(near, Cooperator);
    t.at(1).complete(first);
    t.complete(near);
    // From their next requests on, processes 1 and 3 share a queue, whose slice continues with requests of either.
    let [a, b] = [1, 3].map(|process| t.read_by(process, 1_016 + 8 * u64::from(process)));
    let Decision::Dispatch { id, .. } = t.next() else { panic!("a request of the merged queue") };
    assert_eq!(id, a);
    t.sends(b, SliceOwner);
    assert!(t.scheduler.may_merge(
        &t.requests[far],
        &with_priority(2, FAR + 8, PriorityClass::BestEffort, 4),
        Side::Back
    ));
}

#[test]
fn the_oldest_goes_first_if_it_has_expired_once_in_a_slice() {
    let mut t = cfq();
    let owner = t.read_by(1, FAR);
    t.serves(owner, NewSlice);
    let [high, low, lower] = [3_000, 2_000, 1_000].map(|sector| t.read_by(2, sector));
    t.at(126).serves(high, Expired); // idling ended at 8; expired since 125
    // The next request was chosen from the earlier position of the head: all are too far behind it, so the lowest.
    t.serves(lower, SliceOwner);
    t.serves(low, SliceOwner);
}

#[test]
fn within_a_queue_synchronous_and_metadata_requests_precede_near_ones() {
    let mut t = cfq();
    let flags = Flags { meta: true, ..Flags::default() };
    let near = t.read_by(1, 10);
    let meta = t.insert(Request { flags, ..with_priority(1, FAR, PriorityClass::BestEffort, 4) });
    t.serves(meta, NewSlice);
    t.serves(near, SliceOwner);
}

#[test]
fn writes_wait_for_reads_in_the_device_and_reads_for_writes() {
    let mut t = cfq();
    t.depth = 31;
    t.scheduler.tune("slice_idle", Value::Span(Span::ZERO)).unwrap();
    t.at(500);
    let read = t.read_by(1, 1_000);
    t.sends(read, NewSlice);
    let late = t.insert(write(FAR));
    t.holds(SyncFirst, None);
    t.at(510).complete(read);
    t.sends(late, NewSlice);
    t.scheduler.tune("slice_idle", Value::Span(Span::from_millis(8))).unwrap();
    let next = t.read_by(2, 2_000); // takes the slice away, but must wait until the write is out
    t.holds(BatchChange, None);
    t.at(520).complete(late);
    t.sends(next, NewSlice);
}

#[test]
fn writes_ramp_up_with_the_time_since_the_last_read() {
    for (ms, depth) in [(0, 1), (150, 1), (250, 2), (350, 3), (450, 4), (1_000, 10), (9_000, 16)] {
        let mut t = cfq();
        t.depth = 31;
        let read = t.read_by(1, 0);
        t.serves(read, NewSlice);
        t.at(ms.max(10));
        let writes: Vec<RequestId> = (0..20).map(|n| t.insert(write(FAR + 100 * n))).collect();
        let sent = writes.iter().take_while(|_| matches!(t.next(), Decision::Dispatch { .. })).count();
        assert_eq!(sent, depth, "at {ms} ms"); // quantum 4, times four when alone
        t.holds(DepthLimit, None);
    }
}

#[test]
fn a_queue_has_four_requests_in_the_device_and_sixteen_when_it_is_alone() {
    for (others, most) in [(0, 16), (1, 4)] {
        let mut t = cfq();
        t.depth = 31;
        for n in 0..20 {
            t.read_by(1, 100 * n);
        }
        for _ in 0..others {
            t.read_by(2, FAR);
        }
        for n in 0..most {
            assert!(matches!(t.next(), Decision::Dispatch { .. }), "request {n}");
        }
        t.holds(DepthLimit, None);
    }
}

#[test]
fn an_asynchronous_queue_sends_so_many_in_a_slice_if_others_wait() {
    let mut t = cfq();
    t.scheduler.tune("slice_async_rq", Value::Count(1)).unwrap();
    t.at(5_000);
    let lowest = |start| Request { op: Op::Write, ..with_priority(8, start, PriorityClass::BestEffort, 7) };
    let low = [50, 60, 70].map(|start| t.insert(lowest(start)));
    let writes: Vec<RequestId> = (0..10).map(|n| t.insert(write(FAR + 100 * n))).collect();
    t.serves(low[0], NewSlice);
    t.serves(low[1], SliceOwner); // 2 (1 + 1 (7 - 7))
    t.serves(writes[0], NewSlice);
    writes[1..8].iter().for_each(|&write| t.serves(write, SliceOwner)); // 2 (1 + 1 (7 - 4))
    t.serves(writes[8], NewSlice); // its next slice: a higher priority has an earlier turn
}

#[test]
fn the_real_time_class_preempts_and_the_idle_class_is_served_last() {
    let mut t = cfq();
    let [a, b] = [1_000, 1_008].map(|sector| t.read_by(1, sector));
    let idle = t.insert(with_priority(3, 500, PriorityClass::Idle, 0));
    t.serves(a, NewSlice);
    let real_time = t.insert(with_priority(2, FAR, PriorityClass::RealTime, 4));
    t.serves(real_time, NewSlice);
    t.holds(AwaitSliceOwner, until(8));
    t.at(8).serves(b, NewSlice);
    t.holds(AwaitSliceOwner, until(16));
    t.at(16).serves(idle, NewSlice);
}

/// Metadata of another queue goes first, unless the owner has some queued as well.
#[test]
fn metadata_preempts_an_owner_without_metadata() {
    let meta = |process, start| {
        let flags = Flags { meta: true, ..Flags::default() };
        Request { flags, ..with_priority(process, start, PriorityClass::BestEffort, 4) }
    };
    for owner_has_more in [true, false] {
        let mut t = cfq();
        let served = t.insert(meta(1, 1_000));
        let own = t.insert(if owner_has_more {
            meta(1, 2_000)
        } else {
            with_priority(1, 2_000, PriorityClass::BestEffort, 4)
        });
        t.serves(served, NewSlice);
        let other = t.insert(meta(2, FAR));
        if owner_has_more {
            t.serves(own, SliceOwner);
        } else {
            t.serves(other, NewSlice);
        }
    }
}

#[test]
fn while_idling_a_close_request_takes_the_slice() {
    let mut t = cfq();
    let first = t.read_by(1, 1_000);
    t.serves(first, NewSlice);
    t.at(1).idles(); // the device idles for process 1; nothing is queued
    let near = t.read_by(2, 1_008 + 8_192);
    t.serves(near, NewSlice);
}

#[test]
fn while_idling_a_request_farther_away_waits() {
    let mut t = cfq();
    let first = t.read_by(1, 1_000);
    t.serves(first, NewSlice);
    t.read_by(2, 1_008 + 8_193);
    t.holds(AwaitSliceOwner, until(8));
}

#[test]
fn the_awaited_process_may_exceed_the_limit_once() {
    let mut t = cfq();
    let first = t.read_by(1, 1_000);
    t.serves(first, NewSlice);
    let leave = |t: &Table, n| t.scheduler.may_queue(t.now, Some(Process::single(n)), Direction::Read, true);
    assert_eq!((leave(&t, 1), leave(&t, 2)), (Admission::Must, Admission::ByLimit));
    t.read_by(1, 1_008);
    assert_eq!(leave(&t, 1), Admission::ByLimit);
}

#[test]
fn a_change_of_hz_does_not_move_the_end_of_idling() {
    let mut t = cfq();
    let own = t.read_by(1, 1_000);
    t.read_by(2, FAR);
    t.sends(own, NewSlice);
    t.at(5).complete(own);
    t.holds(AwaitSliceOwner, until(13));
    t.scheduler.tune("hz", Value::Count(10)).unwrap();
    t.holds(AwaitSliceOwner, until(105)); // the next tick
}

#[test]
fn merges_stay_within_a_queue_and_a_kind() {
    let mut t = cfq();
    let read = t.read_by(1, 1_000);
    let dirty = t.insert(write(FAR));
    let by = |process| with_priority(process, 1_008, PriorityClass::BestEffort, 4);
    let may =
        |id: RequestId, addition: &Request| t.scheduler.may_merge(&t.requests[id], addition, Side::Back);
    assert!(may(read, &by(1)) && !may(read, &by(2)));
    assert!(may(dirty, &write(FAR + 8)));
    let flags = Flags { sync: true, ..Flags::default() };
    assert!(!may(dirty, &Request { flags, ..write(FAR + 8) }));
}

#[test]
fn requests_of_one_queue_become_one_though_their_process_has_ended() {
    let mut t = cfq();
    let [own, next] = [1_000, 1_016].map(|start| t.read_by(1, start));
    let other = t.read_by(2, FAR);
    t.scheduler.exited(t.now, Process::single(1));
    let may = |id| t.scheduler.may_merge(&t.requests[own], &t.requests[id], Side::Back);
    assert!(may(next) && !may(other));
}

#[test]
fn an_absorbed_request_passes_on_its_place_in_the_list() {
    let mut t = cfq();
    let old = t.read_by(1, 1_000);
    let other = t.read_by(1, 5_000);
    t.at(100);
    let young = t.read_by(1, 992);
    t.absorb(young, old);
    t.at(126).serves(young, Expired);
    t.serves(other, SliceOwner);
    t.idles();
}

#[test]
fn a_request_that_absorbs_a_younger_one_keeps_its_own_place_in_the_list() {
    let mut t = cfq();
    let old = t.read_by(1, 1_000);
    let other = t.at(50).read_by(1, 500);
    let young = t.at(100).read_by(1, 1_008);
    t.absorb(old, young);
    t.at(126).serves(old, Expired);
    t.serves(other, SliceOwner);
    t.idles();
}

/// Processes start, cooperate, separate and end: every queue and context is freed.
#[test]
fn state_of_ended_processes_is_freed() {
    let mut cfq = Cfq2_6_32::new(&Environment::default());
    let mut requests = elevator::Requests::default();
    let mut random = Random::new(5);
    let mut at = [0u64; 6];
    let (mut ids, mut now) = ([1, 2, 3, 4, 5, 6], Time::ZERO);
    let mut in_device = Vec::new();
    let (mut shared, mut parted) = (0, 0);
    use elevator::{Outcome, Scheduler};
    for step in 0..200_000u32 {
        now += Span::from_micros(random.below(3_000));
        let before = cfq.queues.shared();
        let n = random.below(6) as usize;
        match random.below(10) {
            0..4 if requests.len() < 40 => {
                // They alternately read close to each other and far apart.
                let stray = if step / 10_000 % 2 == 0 { 300 } else { 3 };
                at[n] = if random.once_in(stray) { random.below(3) * 1_000_000 } else { at[n] + 8 };
                let process = Some(Process::single(ids[n]));
                let id = requests.add(Request { process, arrived: now, ..request(at[n], 8) });
                cfq.insert(now, &requests[id]);
            }
            4 if random.once_in(20) => {
                cfq.exited(now, Process::single(ids[n]));
                ids[n] = 100 + step;
            }
            _ if in_device.len() > 1 || (!in_device.is_empty() && random.once_in(2)) => {
                let id = in_device.remove(0);
                let request = requests.remove(id);
                cfq.completed(now, &request, Outcome::Done);
            }
            _ => {
                let device =
                    elevator::Device { depth: 31, in_flight: 0, last_dispatched: None, positioning: None };
                let view = elevator::View { requests: &requests, device };
                if let Decision::Dispatch { id, .. } = cfq.next(now, &view) {
                    in_device.push(id);
                }
            }
        }
        shared += u32::from(cfq.queues.shared() > before);
        parted += u32::from(cfq.queues.shared() < before);
    }
    assert!(shared > 10 && parted > 10, "{shared} times more shared queues, {parted} times fewer");
    assert!(cfq.queues.made() < 64, "{} queues for six processes", cfq.queues.made());
}
