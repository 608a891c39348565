//! Decision tables: arrivals and completions with their times, and the expected decisions.

use elevator::{
    Admission, Direction, Flags, HoldReason, Op, Process, Reason, Request, RequestId, Span, Time, Value,
};

use super::{Tunables, Tunables2_6_9, version_2_6_9, version_2_6_32};
use crate::testing::{Table, at_ms, request};
use HoldReason::{AwaitCompletion, AwaitProcess, BatchChange};
use Reason::{Anticipated, Batch, CloseEnough, Expired, NewBatch, SectorOrder, WaitOver, WaitUseless};

/// A distant position: 2^30 sectors are 512 GiB.
const FAR: u64 = 1 << 30;

fn las() -> Table {
    Table::new(version_2_6_9())
}

/// 2.6.32 with ticks of a millisecond, so that the tables are easy to read.
fn as_2_6_32() -> Table {
    let mut t = Table::new(version_2_6_32());
    t.scheduler.tune("hz", Value::Count(1000)).unwrap();
    t
}

/// Every version.
fn both() -> [Table; 2] {
    [las(), as_2_6_32()]
}

fn until(ms: u64) -> Option<Time> {
    Some(at_ms(ms))
}

fn exits(t: &mut Table, process: u32) {
    t.scheduler.exited(t.now, Process::single(process));
}

/// Process 1 has read three times sequentially with a think time of `think` ms; the last read is queued.
fn with_history(t: &mut Table, think: u64) -> RequestId {
    for n in 0..3 {
        let id = t.read_by(1, 1_000 + 8 * n);
        let reason = if n == 0 { SectorOrder } else { Anticipated };
        t.serves(id, reason);
        let now = t.now + Span::from_millis(think);
        t.now = now;
    }
    t.read_by(1, 1_024)
}

#[test]
fn the_next_read_of_the_same_process_is_served_before_an_older_one() {
    for mut t in both() {
        let first = t.read_by(1, 1_000);
        t.serves(first, SectorOrder); // completes at 0
        let other = t.read_by(2, FAR);
        t.holds(AwaitProcess, until(6)); // no reason against waiting
        t.at(2).holds(AwaitProcess, until(6));
        let next = t.read_by(1, 1_008);
        t.serves(next, Anticipated); // its own request
        t.holds(AwaitProcess, until(8)); // its mean think time: (2*256/8 + 128) / 32 = 6
        t.at(8).serves(other, WaitOver); // the time is over
        t.idles();
    }
}

#[test]
fn the_time_limit_begins_at_the_completion_of_the_read() {
    for mut t in both() {
        t.depth = 4;
        let first = t.read_by(1, 1_000);
        t.sends(first, SectorOrder);
        let other = t.read_by(2, FAR);
        t.at(50).holds(AwaitCompletion, None); // WAIT_REQ
        t.at(70).complete(first);
        t.holds(AwaitProcess, until(76)); // WAIT_NEXT
        t.at(76).sends(other, WaitOver);
    }
}

#[test]
fn a_request_long_after_the_completion_is_not_held() {
    for mut t in both() {
        let first = t.read_by(1, 1_000);
        t.serves(first, SectorOrder);
        let other = t.at(6).read_by(2, FAR);
        t.serves(other, WaitOver);
        let early = t.at(11).read_by(1, 1_000);
        t.holds(AwaitProcess, until(12)); // the rest of the time limit
        t.at(12).serves(early, WaitOver);
    }
}

#[test]
fn anticipation_off_is_no_anticipation() {
    for mut t in both() {
        t.scheduler.tune("antic_expire", Value::Span(Span::ZERO)).unwrap();
        let first = t.read_by(1, 1_000);
        t.serves(first, SectorOrder);
        let other = t.read_by(2, FAR);
        t.serves(other, SectorOrder);
    }
}

#[test]
fn no_process_is_waited_for_after_a_write_or_a_read_of_an_unknown_process() {
    for mut t in both() {
        let write = t.insert(Request { process: Some(Process::single(1)), op: Op::Write, ..request(500, 8) });
        t.serves(write, NewBatch);
        let anonymous = t.read(FAR);
        t.serves(anonymous, NewBatch);
        let other = t.read(0);
        t.serves(other, SectorOrder);
    }
}

#[test]
fn with_one_identity_for_all_the_next_in_order_always_breaks_the_wait() {
    for mut t in both() {
        let ids = [1_000, FAR, 2_000].map(|sector| t.read_by(1, sector));
        t.serves(ids[0], SectorOrder);
        t.serves(ids[2], Anticipated); // its own request, and sector order
        t.serves(ids[1], Anticipated);
    }
}

#[test]
fn a_process_with_a_queued_request_is_not_waited_for() {
    for mut t in both() {
        let first = t.read_by(1, 1_000);
        // Its own other request is distant; another process's request is nearer, but not close.
        let own_far = t.read_by(1, 3 * FAR);
        t.serves(first, SectorOrder);
        let other = t.read_by(2, FAR);
        t.serves(other, SectorOrder);
        let _ = own_far;
    }
}

#[test]
fn a_close_request_of_another_process_ends_the_wait() {
    // 2.6.9: initially 64 sectors ahead or 32 behind; the distance doubles with each millisecond from the second on.
    for (ms, start, close) in [
        (0, 1_008 + 64, true),
        (0, 1_008 + 65, false),
        (1, 1_008 + 64, true),
        (1, 1_008 + 65, false),
        (2, 1_008 + 128, true),
        (2, 1_008 + 129, false),
        (5, 1_008 + 1_024, true),
        (5, 1_008 + 1_025, false),
        (0, 1_008 - 32, true),
        (0, 1_008 - 33, false),
    ] {
        let mut t = las();
        check_close(&mut t, ms, start, close);
    }
    // 2.6.32: initially 8192 sectors ahead or 4096 behind; the distance doubles with each tick.
    for (ms, start, close) in [
        (0, 100_008 + 8_192, true),
        (0, 100_008 + 8_193, false),
        (1, 100_008 + 16_384, true),
        (1, 100_008 + 16_385, false),
        (0, 100_008 - 4_096, true),
        (0, 100_008 - 4_097, false),
    ] {
        let mut t = as_2_6_32();
        check_close(&mut t, ms, start, close);
    }
}

/// The distance grows while the device waits, not while it has nothing to wait with.
#[test]
fn a_request_that_ends_an_idle_period_is_not_close_because_of_its_length() {
    for (mut t, first, start) in [(las(), 1_000, 1_008 + 65), (as_2_6_32(), 100_000, 100_008 + 8_193)] {
        let first = t.read_by(1, first);
        t.serves(first, SectorOrder);
        t.at(4).idles();
        t.read_by(3, start);
        t.holds(AwaitProcess, until(6));
    }
}

/// A read that ends at 1008 or 100008, a distant one that has to wait, and one at `start` after `ms`.
#[track_caller]
fn check_close(t: &mut Table, ms: u64, start: u64, close: bool) {
    let first = t.read_by(1, if start < 50_000 { 1_000 } else { 100_000 });
    t.serves(first, SectorOrder);
    t.read_by(2, FAR);
    t.holds(AwaitProcess, until(6));
    let near = t.at(ms).read_by(3, start);
    if close {
        t.sends(near, CloseEnough);
    } else {
        t.holds(AwaitProcess, until(6));
    }
}

#[test]
fn after_20_ms_each_request_is_close() {
    for (ms, is_close) in [(20, false), (21, true)] {
        for mut t in both() {
            t.scheduler.tune("antic_expire", Value::Span(Span::from_millis(40))).unwrap();
            let first = t.read_by(1, 1_000);
            t.serves(first, SectorOrder);
            t.read_by(2, 1 << 41);
            t.holds(AwaitProcess, until(40));
            let other = t.at(ms).read_by(3, 1 << 40);
            match is_close {
                true => t.sends(other, CloseEnough),
                false => t.holds(AwaitProcess, until(40)),
            }
        }
    }
}

#[test]
fn las_does_not_wait_for_ended_processes() {
    let mut t = las();
    let first = t.read_by(1, 1_000);
    t.serves(first, SectorOrder);
    exits(&mut t, 1);
    let other = t.read_by(2, FAR);
    t.serves(other, WaitUseless);
}

#[test]
fn an_ended_process_is_waited_for_until_half_of_them_were_not_continued() {
    let mut t = as_2_6_32();
    let mut waits = 0;
    for n in 0..20 {
        let first = t.read_by(10 + n, 1_000);
        t.serves(first, if n == 0 { SectorOrder } else { WaitOver });
        exits(&mut t, 10 + n);
        let other = t.read_by(100 + n, FAR);
        if t.next() == (elevator::Decision::Dispatch { id: other, reason: WaitUseless }) {
            break;
        }
        waits += 1;
        t.now += Span::from_millis(6);
        t.serves(other, WaitOver);
        exits(&mut t, 100 + n);
        t.now += Span::from_millis(10);
    }
    // Each time-out raises exit_no_coop: 32, 60, 84, 105, 123, 139 of 256; the seventh wait does not begin.
    assert_eq!(waits, 6);
}

#[test]
fn a_process_that_continues_near_by_restores_the_wait_for_ended_ones() {
    let mut t = as_2_6_32();
    for n in 0..20 {
        let next = t.read_by(10 + n, 1_000 + 100 * u64::from(n));
        t.serves(next, if n == 0 { SectorOrder } else { CloseEnough });
        exits(&mut t, 10 + n);
        let other = t.read_by(200 + n, FAR);
        t.holds(AwaitProcess, Some(t.now + Span::from_millis(6)));
        t.now += Span::from_millis(2);
        let _ = other;
    }
}

#[test]
fn las_does_not_wait_for_new_processes_that_tend_to_end() {
    let mut t = las();
    // Each process reads once and ends during the wait: exit_prob 32, 60, 84, 105, 123, 139.
    for n in 0..6 {
        let once = t.read_by(10 + n, 1_000);
        t.next();
        t.complete(once);
        let far = t.read_by(50 + n, FAR);
        t.next();
        t.now += Span::from_millis(6);
        t.next();
        t.complete(far);
        exits(&mut t, 10 + n);
        exits(&mut t, 50 + n);
        t.now += Span::from_millis(10);
    }
    let newcomer = t.read_by(99, 1_000);
    t.next();
    t.complete(newcomer);
    let other = t.read_by(100, FAR);
    t.sends(other, WaitUseless);
}

#[test]
fn a_process_that_thinks_longer_than_the_wait_is_not_waited_for() {
    for mut t in both() {
        let last = with_history(&mut t, 3); // mean (total+128)/samples stays at 6 or below
        t.serves(last, Anticipated);
        let other = t.read_by(2, FAR);
        t.holds(AwaitProcess, Some(t.now + Span::from_millis(6)));
        t.now += Span::from_millis(6);
        t.serves(other, WaitOver);
    }
    for mut t in both() {
        // At think times of 10 ms each read after the first arrives after the wait.
        for n in 0..4 {
            let id = t.read_by(1, 1_000 + 8 * n);
            t.next();
            t.complete(id);
            t.now += Span::from_millis(10);
        }
        let last = t.read_by(1, 1_032);
        t.serves(last, Anticipated);
        let other = t.read_by(2, FAR);
        t.serves(other, WaitUseless);
    }
}

#[test]
fn las_ends_the_wait_for_a_request_nearer_than_the_mean_seek() {
    let mut t = las();
    // Each read of process 1 is a million sectors after the last one.
    for n in 0..4 {
        let id = t.read_by(1, 1_000_000 * (n + 1));
        t.next();
        t.complete(id);
    }
    let other = t.read_by(2, 4_000_008 + 100_000);
    t.serves(other, CloseEnough);
}

#[test]
fn an_expired_read_goes_at_once_and_no_other_for_as_long_again() {
    for mut t in both() {
        let mut reader = 1_000;
        let first = t.read_by(1, reader);
        t.at(100).serves(first, SectorOrder);
        let [old, older_too] = [FAR, FAR + 1_000_000].map(|sector| t.read_by(2, sector));
        t.holds(AwaitProcess, until(106));
        // Process 1 reads sequentially, and the device waits for it. The other reads expire at 225; the list was checked at 126.
        while t.now < at_ms(252) {
            reader += 8;
            let next = t.read_by(1, reader);
            t.serves(next, Anticipated);
            t.now += Span::from_millis(2);
        }
        let next = t.read_by(1, reader + 8);
        t.sends(old, Expired);
        t.complete(old);
        // The remaining request is adjacent, and process 2's own.
        t.sends(older_too, Anticipated);
        let _ = next;
    }
}

#[test]
fn reads_and_writes_alternate_in_batches_with_a_drained_device_between() {
    for mut t in both() {
        t.depth = 4;
        let write = t.write(500);
        t.at(1).sends(write, NewBatch);
        let read = t.read_by(1, 1_000);
        t.at(2).holds(BatchChange, None); // the write is still there
        t.at(9).complete(write);
        t.sends(read, SectorOrder);
        t.at(10).complete(read); // the read batch's clock starts: until 510
        let late = t.at(12).write(0);
        t.holds(AwaitProcess, until(16)); // the read batch goes on
        t.at(16).sends(late, NewBatch); // no read: the time is up, so writes
    }
}

#[test]
fn a_read_batch_ends_after_its_time_if_writes_wait() {
    for mut t in both() {
        let write = t.write(50);
        t.at(1).serves(write, NewBatch);
        let read = t.read_by(1, 1_000);
        t.serves(read, NewBatch); // completes at 1: until 501
        let write = t.write(60);
        let mut reader = 1_000;
        while t.now <= at_ms(501) {
            reader += 8;
            let next = t.read_by(1, reader);
            t.serves(next, Anticipated);
            t.now += Span::from_millis(4);
        }
        let next = t.read_by(1, reader + 8);
        t.serves(write, NewBatch);
        let _ = next;
    }
}

#[test]
fn writes_go_on_in_order_until_the_count_is_used_up() {
    // 125/10 = 12 writes at 1000 ticks a second, 31/10 = 3 at 250.
    for (mut t, count) in [(las(), 12), (Table::new(version_2_6_32()), 3)] {
        let writes: [RequestId; 14] = core::array::from_fn(|n| t.write(100 * n as u64));
        t.at(1).serves(writes[0], NewBatch);
        let read = t.read_by(1, FAR);
        for &write in &writes[1..count] {
            t.serves(write, Batch);
        }
        t.serves(read, NewBatch);
    }
}

#[test]
fn a_synchronous_write_counts_as_a_read() {
    for mut t in both() {
        let flags = Flags { sync: true, ..Flags::default() };
        let by = |process| Some(Process::single(process));
        let fsync = Request { op: Op::Write, flags, process: by(1), ..request(1_000, 8) };
        let write = t.insert(fsync);
        t.serves(write, SectorOrder);
        t.read_by(2, FAR);
        t.holds(AwaitProcess, until(6));
    }
}

#[test]
fn the_awaited_process_may_exceed_the_limit() {
    for mut t in both() {
        let first = t.read_by(1, 1_000);
        t.serves(first, SectorOrder);
        t.read_by(2, FAR);
        let leave =
            |t: &Table, n| t.scheduler.may_queue(t.now, Some(Process::single(n)), Direction::Read, true);
        assert_eq!(leave(&t, 1), Admission::ByLimit, "the device does not wait yet");
        t.holds(AwaitProcess, until(6));
        assert_eq!((leave(&t, 1), leave(&t, 2)), (Admission::Must, Admission::ByLimit));
        assert_eq!(t.scheduler.may_queue(t.now, None, Direction::Read, true), Admission::ByLimit);
    }
}

#[test]
fn a_process_with_the_number_of_an_ended_one_has_a_new_history() {
    let mut t = as_2_6_32();
    let first = t.read_by(1, 1_000);
    t.serves(first, SectorOrder);
    exits(&mut t, 1);
    t.read_by(2, FAR);
    t.holds(AwaitProcess, until(6));
    t.read_by(1, 3 * FAR); // not the awaited process
    t.holds(AwaitProcess, until(6));
}

#[test]
fn a_task_that_leaves_a_shared_context_ends_no_process() {
    let mut t = as_2_6_32();
    let first = t.read_by(1, 1_000);
    t.serves(first, SectorOrder);
    t.scheduler.exited(t.now, Process { task: 5, ..Process::single(1) });
    t.read_by(2, FAR);
    t.holds(AwaitProcess, until(6));
    let next = t.read_by(1, 1_008);
    t.serves(next, Anticipated);
}

#[test]
fn an_absorbed_request_passes_on_its_place_and_does_not_count_as_queued() {
    for mut t in both() {
        let first = t.read_by(1, 1_000);
        t.serves(first, SectorOrder);
        let a = t.read_by(2, FAR);
        let b = t.read_by(2, FAR + 8);
        t.absorb(a, b);
        t.holds(AwaitProcess, until(6));
        t.at(6).serves(a, WaitOver);
        t.idles();
        let other = t.read_by(3, 10);
        t.holds(AwaitProcess, until(12)); // process 2 has nothing queued
        let _ = other;
    }
}

#[test]
fn a_change_of_hz_does_not_move_the_end_of_a_batch() {
    for mut t in both() {
        let [first, second] = [1_000, FAR].map(|start| t.read(start));
        let write = t.write(2_000);
        t.at(10).serves(first, SectorOrder);
        t.scheduler.tune("hz", Value::Count(10)).unwrap();
        t.at(700).serves(write, NewBatch);
        t.serves(second, NewBatch);
    }
}

#[test]
fn ticks_make_the_wait_of_250_hz_end_at_a_multiple_of_4_ms() {
    let mut t = Table::new(version_2_6_32());
    let first = t.read_by(1, 1_000);
    t.sends(first, SectorOrder);
    t.at(7).complete(first);
    t.read_by(2, FAR);
    t.holds(AwaitProcess, until(8)); // one tick from tick 1
}

#[test]
fn the_defaults_are_the_sources() {
    let t = Tunables::default();
    let ms = [t.read_expire, t.write_expire, t.read_batch_expire, t.write_batch_expire, t.antic_expire]
        .map(|span| span.as_nanos() / 1_000_000);
    assert_eq!(ms, [125, 250, 500, 125, 6]);
    assert_eq!((t.hz, Tunables2_6_9::default().hz), (250, 1000));
}
