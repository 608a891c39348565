//! What BFQ learns of queues and of the device, and what follows from that.

use alloc::boxed::Box;

use elevator::{
    Admission, Capabilities, Decision, Direction, PriorityClass, Process, Reason, Request, Scheduler, Span,
    Value,
};

use super::Bfq;
use super::budget::{DEFAULT, Expiry, SlotTime};
use super::queue::{QueueId, Raised};
use super::tests::{FAR, of, write_of};
use crate::testing::{Table, at_ms, request};

/// A device of depth 31, without raised weights.
fn table() -> Table<Bfq> {
    let mut t = privileged();
    t.scheduler.tune("low_latency", Value::Flag(false)).unwrap();
    t
}

fn privileged() -> Table<Bfq> {
    let mut t = Table::of(Box::new(Bfq::new(true, 256)));
    t.depth = 31;
    t
}

/// The queue of a process.
fn queue_of(t: &Table<Bfq>, process: u32, sync: bool) -> QueueId {
    let context = t.scheduler.contexts.find(Some(Process::single(process))).expect("a known process");
    t.scheduler.queue_of(context, sync).expect("a queue")
}

/// A queue in service after one request of 8 sectors, which has completed or not.
fn in_service(request: Request, completes: bool) -> (Table<Bfq>, QueueId) {
    let mut t = table();
    let id = t.insert(request);
    t.sends(id, Reason::NewBudget);
    let queue = t.scheduler.in_service().expect("a queue in service");
    if completes {
        t.complete(id);
    }
    (t, queue)
}

#[test]
fn the_next_budget_follows_from_the_use_of_the_last_one() {
    let least = DEFAULT / 32;
    for (why, had, completes, service, budget) in [
        // It was not needed.
        (Expiry::TooIdle, DEFAULT, true, 8, DEFAULT - 4 * least),
        (Expiry::TooIdle, 5 * least + 1, true, 8, least + 1),
        (Expiry::TooIdle, 5 * least, true, 8, least),
        (Expiry::NoMoreRequests, DEFAULT, true, 3_000, 3_000),
        (Expiry::NoMoreRequests, DEFAULT, true, 8, least),
        // Time or budget was short, or requests are on their way.
        (Expiry::TooIdle, 4_000, false, 8, 8_000),
        (Expiry::Timeout, 4_000, true, 8, 8_000),
        (Expiry::Timeout, 12_000, true, 8, DEFAULT),
        (Expiry::Exhausted, 1_000, true, 8, 4_000),
        (Expiry::Exhausted, 5_000, true, 8, DEFAULT),
        (Expiry::Preempted, 4_000, true, 8, 4_000),
    ] {
        let (mut t, queue) = in_service(of(1, PriorityClass::BestEffort, 4, 1_000), completes);
        t.scheduler.queues[queue].max_budget = had;
        t.scheduler.service.get_mut(queue).service = service;
        t.scheduler.expire(t.now, queue, SlotTime::UntilNow, why);
        assert_eq!(t.scheduler.queues[queue].max_budget, budget, "{why:?}, {had}, {completes}, {service}");
    }
    let (mut t, queue) = in_service(of(1, PriorityClass::BestEffort, 4, 1_000), true);
    t.scheduler.set_factor(queue, 30);
    t.scheduler.expire(t.now, queue, SlotTime::UntilNow, Expiry::Timeout);
    assert_eq!(t.scheduler.queues[queue].max_budget, 2 * least, "raised queues have small budgets");
    let (mut t, queue) = in_service(write_of(1, 1_000), false);
    t.scheduler.expire(t.now, queue, SlotTime::UntilNow, Expiry::TooIdle);
    assert_eq!(t.scheduler.queues[queue].max_budget, DEFAULT, "asynchronous ones the largest");
}

#[test]
fn the_device_does_not_idle_for_a_queue_without_processes() {
    for processes in [1, 0] {
        let (mut t, queue) = in_service(of(1, PriorityClass::BestEffort, 4, 1_000), true);
        t.scheduler.driver.queues = Some(false);
        t.scheduler.queues[queue].processes = processes;
        let bfq = &t.scheduler;
        let idles = [bfq.idling_pays(queue), bfq.needs_idling(queue), bfq.better_to_idle(queue)];
        assert_eq!(idles, [processes == 1; 3], "{processes}");
    }
}

#[test]
fn a_single_small_request_does_not_end_the_wait_for_its_queue() {
    for (sectors, device_queues, waits) in
        [([31, 8], false, [true, false]), ([32, 8], false, [false; 2]), ([31, 8], true, [false; 2])]
    {
        let (mut t, queue) = in_service(of(1, PriorityClass::BestEffort, 4, 1_000), true);
        t.scheduler.driver.queues = Some(device_queues);
        t.scheduler.queues[queue].seeks = u32::MAX;
        assert!(t.scheduler.queues[queue].waits);
        for (start, sectors, waits) in [(1_008, sectors[0], waits[0]), (9_000, sectors[1], waits[1])] {
            let sectors = elevator::Sectors(sectors);
            t.insert(Request { sectors, ..of(1, PriorityClass::BestEffort, 4, start) });
            assert_eq!(t.scheduler.queues[queue].waits, waits, "{sectors:?}, {device_queues}");
        }
    }
}

/// Sectors that a fast queue would have had in the time of the slot: seeky queues, and in longer slots all that had less than half of the device's
/// rate. A slot shorter than a millisecond counts as 8 ms.
#[test]
fn slow_queues_are_charged_for_time() {
    let fast = |ms: u64| DEFAULT * ms / 124;
    let half = DEFAULT / 2;
    let (seeky, sequential) = (true, false);
    for (ms, seeks, service, why, charged) in [
        (0, seeky, 8, Expiry::TooIdle, fast(8)),
        (0, sequential, 8, Expiry::TooIdle, 8),
        (1, seeky, 8, Expiry::TooIdle, fast(1)),
        (20, seeky, 8, Expiry::TooIdle, fast(20)),
        (20, sequential, 8, Expiry::TooIdle, 8),
        (21, sequential, 8, Expiry::TooIdle, fast(21)),
        (70, sequential, half - 1, Expiry::TooIdle, fast(70)),
        (70, sequential, half, Expiry::TooIdle, half),
        (70, seeky, half, Expiry::TooIdle, half),
        (200, seeky, 8, Expiry::TooIdle, DEFAULT),
        // A queue that has a third of its budget left at the end of its time was slow, too.
        (10, sequential, 8, Expiry::Timeout, fast(10)),
        (10, sequential, DEFAULT - DEFAULT / 3 + 1, Expiry::Timeout, DEFAULT - DEFAULT / 3 + 1),
    ] {
        let (mut t, queue) = in_service(of(1, PriorityClass::BestEffort, 4, 1_000), true);
        t.scheduler.queues[queue].seeks = if seeks { u32::MAX } else { 0 };
        let entity = t.scheduler.service.get_mut(queue);
        (entity.service, entity.budget) = (service, DEFAULT);
        t.scheduler.queues[queue].service_since_backlogged = service;
        t.scheduler.expire(at_ms(ms), queue, SlotTime::UntilNow, why);
        let total = t.scheduler.queues[queue].service_since_backlogged;
        assert_eq!(total, charged, "{ms} ms, seeky: {seeks}, {service}, {why:?}");
    }
    for (raising, is_charged) in [(1, true), (30, false)] {
        let (mut t, queue) = in_service(of(1, PriorityClass::BestEffort, 4, 1_000), true);
        t.scheduler.queues[queue].seeks = u32::MAX;
        t.scheduler.set_factor(queue, raising);
        // The time for which the device was left idle does not count.
        t.scheduler.idling_began = at_ms(10);
        t.scheduler.expire(at_ms(30), queue, SlotTime::UntilIdling, Expiry::TooIdle);
        let total = t.scheduler.queues[queue].service_since_backlogged;
        assert_eq!(total, if is_charged { fast(10) } else { 8 });
    }
}

/// The factor on a queue's weight, long after its start, if its process pauses after each of its requests.
fn factor_of(pause_ms: u64, sectors: u32, apart: u64) -> u32 {
    let mut t = privileged();
    let serve = |t: &mut Table<Bfq>, n: u64| {
        let id = t.insert(Request {
            sectors: elevator::Sectors(sectors),
            ..of(1, PriorityClass::BestEffort, 4, 1_000 + n * apart)
        });
        assert_eq!(t.dispatches(), id);
        t.now += Span::from_millis(1);
        t.complete(id);
    };
    serve(&mut t, 0);
    let queue = queue_of(&t, 1, true);
    t.scheduler.end_raising(t.now, queue);
    for n in 1..60 {
        t.now += Span::from_millis(pause_ms);
        serve(&mut t, n);
    }
    t.scheduler.service.get(queue).raising
}

#[test]
fn a_process_with_small_requests_and_pauses_is_soft_real_time() {
    assert_eq!(factor_of(60, 8, 8), 3_000);
    assert_eq!(factor_of(30, 8, 8), 1, "its pauses are as short as those of a greedy one");
    assert_eq!(factor_of(60, 1_024, 1_024), 1, "more than 3.5 MB/s");
    assert_eq!(factor_of(150, 1_024, 1_024), 3_000);
    assert_eq!(factor_of(60, 8, 100_000), 1, "it only seeks");
}

#[test]
fn a_process_that_was_idle_for_more_than_two_seconds_is_interactive_from_its_next_request_on() {
    for (idle_ms, is_interactive) in [(2_000, false), (2_001, true)] {
        let mut t = privileged();
        let first = t.read_by(1, 1_000);
        t.serves(first, Reason::NewBudget);
        let queue = queue_of(&t, 1, true);
        t.scheduler.end_raising(t.now, queue);
        // Its slot has ended, and it is too early for a soft real-time one.
        let end = at_ms(100);
        t.scheduler.advance(end);
        t.scheduler.queues[queue].budget_timeout = Some(end);
        t.scheduler.queues[queue].soft_rt_next = at_ms(10_000);
        t.now = end + Span::from_millis(idle_ms);
        t.read_by(1, 2_000);
        let raising = t.scheduler.service.get(queue).raising;
        assert_eq!(raising, if is_interactive { 30 } else { 1 }, "{idle_ms}");
        assert_eq!(t.scheduler.queues[queue].raising.since, t.now);
    }
}

/// Its state before was raised since 0 ms, for interactive use or soft real-time use; the present is 1,000 ms.
#[test]
fn a_queue_that_was_split_is_raised_for_the_rest_of_its_time_unless_it_is_of_a_large_burst() {
    let (interactive, soft) = ((30, Raised::Interactive), (3_000, Raised::SoftRealTime));
    for ((factor, why), lasts_ms, interactive_since, in_burst, then) in [
        (interactive, 1_000, None, false, 30),
        (interactive, 999, None, false, 1),
        (interactive, 1_000, None, true, 1),
        (soft, 1_000, None, false, 3_000),
        (soft, 999, Some(0), false, 30),
        (soft, 999, Some(0), true, 1),
        (soft, 1_000, Some(0), true, 1),
        ((1, Raised::No), 0, None, false, 1),
    ] {
        let mut t = privileged();
        t.insert(of(1, PriorityClass::BestEffort, 4, 1_000));
        let queue = queue_of(&t, 1, true);
        let state = &mut t.scheduler.queues[queue];
        state.in_large_burst = in_burst;
        state.raising.why = why;
        state.raising.since = at_ms(0);
        state.raising.lasts = Span::from_millis(lasts_ms);
        state.raising.interactive_since = interactive_since.map(at_ms);
        t.scheduler.resume_raising(at_ms(1_000), queue, factor);
        let raising = t.scheduler.service.get(queue).raising;
        assert_eq!(raising, then, "{why:?}, {lasts_ms} ms, {interactive_since:?}, {in_burst}");
    }
}

/// Half a second after its latest change of weight.
#[test]
fn an_asynchronous_queue_that_is_not_raised_is_interactive_after_a_pause() {
    for (factor, why, pause_ms, sync, then) in [
        (1, Raised::No, 501, false, 30),
        (1, Raised::No, 499, false, 1),
        (1, Raised::No, 501, true, 1),
        (3_000, Raised::SoftRealTime, 501, false, 3_000),
    ] {
        let mut t = privileged();
        t.insert(write_of(1, 1_000));
        let queue = queue_of(&t, 1, false);
        t.scheduler.set_factor(queue, factor);
        t.scheduler.queues[queue].raising.why = why;
        t.scheduler.queues[queue].raising.since = at_ms(1_000);
        t.scheduler.reconsider_async(at_ms(1_000 + pause_ms), queue, sync);
        assert_eq!(t.scheduler.service.get(queue).raising, then, "{why:?}, {pause_ms} ms, {sync}");
    }
}

#[test]
fn time_without_service_does_not_end_soft_real_time() {
    // Whether the queue is soft real-time; since when, the end of its last slot, and since when it counts at 100 ms.
    for (is_soft, since, out, then) in [
        (true, 10, Some(30), 80),
        (true, 10, Some(5), 100),
        (true, 10, None, 100),
        (true, 10, Some(100), 10),
        (true, 150, Some(30), 150),
        (false, 10, Some(30), 10),
        (false, 150, Some(30), 150),
    ] {
        let (mut t, queue) = in_service(of(1, PriorityClass::BestEffort, 4, 1_000), true);
        if is_soft {
            t.scheduler.set_factor(queue, 3_000);
            t.scheduler.queues[queue].raising.why = Raised::SoftRealTime;
        }
        t.scheduler.queues[queue].raising.since = at_ms(since);
        t.scheduler.queues[queue].budget_timeout = out.map(at_ms);
        t.scheduler.prolong_soft_real_time(at_ms(100), queue);
        assert_eq!(t.scheduler.queues[queue].raising.since, at_ms(then), "{is_soft}, {since}, {out:?}");
    }
}

/// So many requests of each kind are admitted to a queue of 256, if their processes have requests from the beginning.
#[test]
fn queues_have_shares_of_the_request_limit_by_weight() {
    let reader = |process, level| of(process, PriorityClass::BestEffort, level, u64::from(process) * FAR);
    let writer = |process, level| Request { op: elevator::Op::Write, ..reader(process, level) };
    for (raises, requests, admitted) in [
        (false, [reader(1, 4), reader(1, 4)], 256),
        (false, [reader(1, 4), reader(2, 4)], 128),
        (false, [reader(1, 0), reader(2, 7)], 228),
        (false, [reader(1, 7), reader(2, 0)], 28),
        // Asynchronous requests have half of all, or 3/16 beside a raised queue, of which it has its share.
        (false, [writer(1, 4), writer(1, 4)], 128),
        (false, [writer(1, 4), reader(2, 4)], 64),
        (true, [writer(1, 4), reader(2, 4)], 2),
    ] {
        let mut t = if raises { privileged() } else { table() };
        let [own, other] = requests;
        t.insert(other);
        t.insert(own);
        let mut count = 1 + u32::from(own == other);
        let may = |t: &Table<Bfq>| {
            let direction = if own.is_sync() { Direction::Read } else { Direction::Write };
            t.scheduler.may_queue(t.now, own.process, direction, own.is_sync())
        };
        while may(&t) != Admission::No {
            t.insert(Request { start: own.start + elevator::Sectors(8 * count), ..own });
            count += 1;
        }
        assert_eq!(count, admitted, "{own:?} beside {other:?}");
    }
    // While some are refused, others may exceed the limit.
    let mut t = table();
    assert_eq!(t.scheduler.may_queue(t.now, None, Direction::Read, true), Admission::Must);
    for process in 0..256 {
        t.insert(reader(process, 4));
    }
    let new = Some(Process::single(300));
    assert_eq!(t.scheduler.may_queue(t.now, new, Direction::Read, true), Admission::ByLimit);
}

#[test]
fn processes_that_stop_to_cooperate_have_queues_of_their_own_again() {
    let mut t = table();
    let before = t.read_by(1, 49_992);
    t.sends(before, Reason::NewBudget);
    t.at(9).complete(before);
    let first = t.at(10).read_by(1, 50_000);
    t.read_by(3, FAR);
    t.serves(first, Reason::Anticipated);
    let close = t.at(11).read_by(2, 50_008);
    t.serves(close, Reason::Anticipated);
    let shared = queue_of(&t, 1, true);
    assert_eq!(queue_of(&t, 2, true), shared);
    for (seeks, is_shared) in [(0, true), (u32::MAX, false)] {
        t.scheduler.queues[shared].seeks = seeks;
        while t.scheduler.in_service() != Some(shared) {
            match t.next() {
                Decision::Dispatch { id, .. } => t.complete(id),
                Decision::Hold(hold) => t.now = hold.until.expect("nothing is in the device"),
                Decision::Idle => panic!("requests are queued"),
            }
        }
        t.scheduler.expire(t.now, shared, SlotTime::UntilNow, Expiry::Timeout);
        let other = queue_of(&t, 3, true);
        if !is_shared {
            t.scheduler.set_waker(shared, other);
            t.scheduler.queues[shared].in_large_burst = true;
        }
        t.read_by(2, 90_000);
        let queue = queue_of(&t, 2, true);
        assert_eq!(queue == shared, is_shared);
        // A new queue has the old one's waker and burst.
        let (waker, in_burst) = (t.scheduler.queues[queue].waker, t.scheduler.queues[queue].in_large_burst);
        assert_eq!(t.scheduler.queues.resolve(waker), (!is_shared).then_some(other));
        assert_eq!(in_burst, !is_shared);
        t.read_by(1, 70_000);
        assert_eq!(queue_of(&t, 1, true), shared, "the last one keeps it");
        assert_eq!(t.scheduler.queues[shared].shared, is_shared);
    }
}

#[test]
fn asynchronous_requests_of_a_level_share_a_queue() {
    let mut t = table();
    let write = |process, level| Request {
        op: elevator::Op::Write,
        ..of(process, PriorityClass::BestEffort, level, u64::from(process) * FAR)
    };
    for (process, level) in [(1, 4), (2, 4), (3, 7)] {
        t.insert(write(process, level));
    }
    let queue = |t: &Table<Bfq>, process| queue_of(t, process, false);
    assert!(queue(&t, 1) == queue(&t, 2) && queue(&t, 1) != queue(&t, 3));
    t.insert(write(1, 7));
    assert!(queue(&t, 1) == queue(&t, 3) && queue(&t, 2) != queue(&t, 3), "its priority has changed");
}

/// It has had more than three requests, or kept none of three or fewer waiting in vain, at 33 completions with more than three in all.
#[test]
fn a_device_queues_if_it_takes_more_than_three_requests_when_there_are_more() {
    for (in_device, queued, completions, queues) in [
        (4, 0, 33, Some(true)),
        (4, 0, 32, None),
        (3, 0, 100, None),
        (3, 1, 33, Some(false)),
        (1, 9, 33, Some(false)),
    ] {
        let mut t = table();
        let mut sent = std::collections::VecDeque::new();
        (0..in_device + queued).for_each(|n| _ = t.insert(request(n * 8, 8)));
        for n in 0..completions {
            while sent.len() < in_device as usize {
                sent.push_back(t.dispatches());
            }
            t.complete(sent.pop_front().expect("one is in the device"));
            t.insert(request((n + 100) * 8, 8));
        }
        assert_eq!(t.scheduler.driver.queues, queues, "{in_device} and {queued}, {completions} completions");
    }
}
