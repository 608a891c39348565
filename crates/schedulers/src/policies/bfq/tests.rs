//! Decision tables, one call per line.

use elevator::Requests;
use elevator::{
    Decision, Device, Flags, Growth, HoldReason, Op, Outcome, Priority, PriorityClass, Process, Reason,
    Request, Scheduler, Sector, Sectors, Side, Time, Value, View,
};

use super::Bfq;
use crate::testing::{Table, at_ms, request};

pub(super) const FAR: u64 = 100_000_000;

/// A device of depth 31, without raised weights.
fn table() -> Table {
    let mut t = Table::new(Bfq::new(true, 256));
    t.depth = 31;
    t.scheduler.tune("low_latency", Value::Flag(false)).unwrap();
    t
}

fn privileged() -> Table {
    let mut t = table();
    t.scheduler.tune("low_latency", Value::Flag(true)).unwrap();
    t
}

pub(super) fn of(process: u32, class: PriorityClass, level: u8, start: u64) -> Request {
    Request {
        process: Some(Process::single(process)),
        priority: Priority { class, level },
        ..request(start, 8)
    }
}

pub(super) fn write_of(process: u32, start: u64) -> Request {
    Request { op: Op::Write, process: Some(Process::single(process)), ..request(start, 8) }
}

#[test]
fn an_empty_queue_is_waited_for_and_then_the_next_queue_is_served() {
    let mut t = table();
    let first = t.read_by(1, 1_000);
    let other = t.read_by(2, FAR);
    t.sends(first, Reason::NewBudget);
    t.holds(HoldReason::AwaitCompletion, None);
    t.at(5).complete(first);
    t.holds(HoldReason::AwaitSliceOwner, Some(at_ms(13)));
    let second = t.at(6).read_by(1, 1_008);
    t.sends(second, Reason::Anticipated);
    t.at(15).complete(second);
    t.holds(HoldReason::AwaitSliceOwner, Some(at_ms(23)));
    t.at(23).sends(other, Reason::NewBudget);
}

#[test]
fn a_wait_ends_at_its_time_without_a_call() {
    let mut t = table();
    let first = t.read_by(1, 1_000);
    let other = t.read_by(2, FAR);
    t.sends(first, Reason::NewBudget);
    t.at(5).complete(first);
    t.holds(HoldReason::AwaitSliceOwner, Some(at_ms(13)));
    let late = t.at(40).read_by(1, 1_008);
    t.sends(other, Reason::NewBudget);
    t.holds(HoldReason::AwaitCompletion, None);
    t.at(41).complete(other);
    t.at(60).sends(late, Reason::NewBudget);
}

/// The slot ends after 125 ms, at the next request of its queue.
#[test]
fn a_slot_ends_by_time_when_the_queue_has_a_request_again() {
    let mut t = table();
    let mut current = t.read_by(1, 1_000);
    let rival = t.read_by(2, FAR);
    t.sends(current, Reason::NewBudget);
    for n in 1..=12 {
        t.at(10 * n - 1).complete(current);
        current = t.at(10 * n).read_by(1, 1_000 + 8 * n);
        t.sends(current, Reason::Anticipated);
    }
    t.at(129).complete(current);
    t.at(130).read_by(1, 2_000);
    t.sends(rival, Reason::NewBudget);
}

#[test]
fn strict_guarantees_let_one_request_at_a_time_into_the_device() {
    let mut t = table();
    t.scheduler.tune("strict_guarantees", Value::Flag(true)).unwrap();
    let (first, second) = (t.read_by(1, 0), t.read_by(1, 8_000));
    t.sends(first, Reason::NewBudget);
    t.holds(HoldReason::DepthLimit, None);
    t.at(3).complete(first);
    t.sends(second, Reason::Budget);
}

/// The nearest request first, where distances backward count double; the oldest when it is due.
#[test]
fn within_a_queue_the_nearest_goes_first_until_one_is_due() {
    let mut t = table();
    let here = t.read_by(1, 10_000);
    t.sends(here, Reason::NewBudget);
    let far_ahead = t.read_by(1, 30_000);
    let behind = t.read_by(1, 9_000);
    let ahead = t.read_by(1, 11_000);
    t.sends(ahead, Reason::Budget);
    t.sends(behind, Reason::Budget);
    t.sends(far_ahead, Reason::Budget);

    let mut t = table();
    let old = t.read_by(1, 500_000_000);
    let head = t.read_by(1, 10_000);
    t.at(126);
    let near = t.read_by(1, 10_100);
    t.sends(head, Reason::NewBudget);
    t.sends(old, Reason::Expired);
    t.sends(near, Reason::Budget);
}

#[test]
fn synchronous_requests_go_first_then_metadata_then_data() {
    let mut t = table();
    let head = t.insert(of(1, PriorityClass::BestEffort, 4, 10_000));
    let data = t.read_by(1, 10_100);
    let meta = t.insert(Request {
        flags: Flags { meta: true, ..Flags::default() },
        ..of(1, PriorityClass::BestEffort, 4, 90_000)
    });
    t.sends(meta, Reason::NewBudget);
    t.sends(head, Reason::Budget);
    t.sends(data, Reason::Budget);
}

/// Requests close to the last one of the queue in service join that queue: processes that read the same region share a slot.
#[test]
fn a_close_cooperator_joins_the_queue_in_service() {
    let mut t = table();
    let before = t.read_by(1, 49_992);
    t.sends(before, Reason::NewBudget);
    t.at(9).complete(before);
    let first = t.at(10).read_by(1, 50_000);
    let far = t.read_by(3, FAR);
    t.sends(first, Reason::Anticipated);
    t.holds(HoldReason::AwaitCompletion, None);
    let close = t.at(11).read_by(2, 50_008);
    t.sends(close, Reason::Budget);
    t.holds(HoldReason::AwaitCompletion, None);
    t.at(19).complete(first);
    t.complete(close);
    t.holds(HoldReason::AwaitSliceOwner, Some(at_ms(27)));
    t.at(27).sends(far, Reason::NewBudget);
}

#[test]
fn queues_do_not_merge_after_a_tenth_of_a_second() {
    let mut t = table();
    let mut last = t.read_by(1, 50_000);
    let far = t.read_by(3, FAR);
    t.sends(last, Reason::NewBudget);
    for n in 1..=26 {
        t.at(4 * n).complete(last);
        last = t.read_by(1, 50_000 + 8 * n);
        t.sends(last, Reason::Anticipated);
    }
    let close = t.at(105).read_by(2, 50_300);
    t.holds(HoldReason::AwaitCompletion, None);
    let _ = (close, far);
}

/// A new process of the default priority has a raised weight of 30 × 40, and preempts a queue of weight 80.
#[test]
fn a_newcomer_preempts_and_is_waited_for_longer() {
    let mut t = privileged();
    let old = t.insert(of(1, PriorityClass::BestEffort, 0, 1_000));
    let more = t.insert(of(1, PriorityClass::BestEffort, 0, 9_000));
    t.sends(old, Reason::NewBudget);
    let newcomer = t.at(2).read_by(2, FAR);
    t.sends(newcomer, Reason::NewBudget);
    t.holds(HoldReason::AwaitCompletion, None);
    t.at(4).complete(old);
    t.at(10).complete(newcomer);
    t.holds(HoldReason::AwaitSliceOwner, Some(at_ms(30)));
    let again = t.at(29).read_by(2, FAR + 8);
    t.sends(again, Reason::Anticipated);
    t.at(31).complete(again);
    t.at(51).sends(more, Reason::NewBudget);
}

#[test]
fn without_low_latency_a_new_process_waits_for_its_turn() {
    let mut t = table();
    let old = t.insert(of(1, PriorityClass::BestEffort, 0, 1_000));
    let more = t.insert(of(1, PriorityClass::BestEffort, 0, 9_000));
    t.sends(old, Reason::NewBudget);
    t.at(2).read_by(2, FAR);
    t.sends(more, Reason::Budget);
    t.holds(HoldReason::AwaitCompletion, None);
}

/// Eight queues within 180 ms of each other are a large burst: from the eighth on, weights are not raised.
#[test]
fn weights_of_a_large_burst_are_not_raised() {
    for (apart, privileged) in [(10, 7), (200, 12)] {
        let mut bfq = Bfq::new(true, 256);
        let mut requests = Requests::default();
        let raised = (1..=12).filter(|&n| {
            let id = requests.add(of(n, PriorityClass::BestEffort, 4, FAR * u64::from(n)));
            bfq.insert(at_ms(apart * u64::from(n)), &requests[id]);
            let context = bfq.contexts.find(Some(Process::single(n))).unwrap();
            bfq.service.get(bfq.queue_of(context, true).unwrap()).raising > 1
        });
        assert_eq!(raised.count(), privileged, "{apart} ms apart");
    }
}

#[test]
fn higher_classes_go_first_and_preempt() {
    let mut t = table();
    let best_effort = t.insert(of(1, PriorityClass::BestEffort, 0, 1_000));
    let more = t.insert(of(1, PriorityClass::BestEffort, 0, 9_000));
    t.sends(best_effort, Reason::NewBudget);
    let real_time = t.at(1).insert(of(2, PriorityClass::RealTime, 7, FAR));
    t.sends(real_time, Reason::NewBudget);
    t.at(2).complete(best_effort);
    t.at(3).complete(real_time);
    t.holds(HoldReason::AwaitSliceOwner, Some(at_ms(11)));
    t.at(11).sends(more, Reason::NewBudget);
}

/// While the device waits for a process, the process's own asynchronous writes are dispatched.
#[test]
fn a_process_is_injected_its_own_writes() {
    let mut t = table();
    let read = t.read_by(1, 1_000);
    t.sends(read, Reason::NewBudget);
    t.at(2).insert(write_of(2, FAR));
    t.holds(HoldReason::AwaitCompletion, None);
    let own = t.at(3).insert(write_of(1, 50_000));
    t.at(4).complete(read);
    // The other process's write is nearer to its deadline, but both share a queue, whose next request is the nearest one.
    t.sends(own, Reason::Injected);
}

/// The device does not wait for a queue whose processes have ended.
#[test]
fn the_device_does_not_wait_for_ended_processes() {
    let mut t = table();
    let first = t.read_by(1, 1_000);
    let other = t.read_by(2, FAR);
    t.sends(first, Reason::NewBudget);
    t.scheduler.exited(Time::ZERO, Process::single(1));
    t.sends(other, Reason::NewBudget);
}

/// Without process information all requests are in one queue, so that waiting has no purpose.
#[test]
fn unknown_processes_share_one_queue() {
    let mut t = table();
    let (far, near) = (t.read(FAR), t.read(16));
    t.sends(near, Reason::NewBudget);
    t.sends(far, Reason::Budget);
    t.idles();
}

/// Budgets of the maximum size, used up by time many times.
#[test]
fn the_charge_of_a_slow_queue_does_not_overflow() {
    let mut t = privileged();
    t.scheduler.tune("max_budget", Value::Sectors(1 << 31)).unwrap();
    // Not the default level, so that no weight is raised: raised queues are not charged for time.
    for n in 0..24 {
        for process in [1, 2] {
            let start = u64::from(process) * FAR + n * 1_000_000;
            t.insert(of(process, PriorityClass::BestEffort, 3, start));
        }
    }
    let mut ms = 0;
    let mut served = 0;
    while served < 48 {
        ms += 200;
        if let Decision::Dispatch { id, .. } = t.at(ms).next() {
            t.at(ms + 199).complete(id);
            served += 1;
        }
    }
    t.at(ms + 500).idles();
}

/// A request that grows at its front keeps its place in the order, unless it passed the request before it.
#[test]
fn growth_towards_the_head_is_not_compared_again() {
    let mut t = table();
    let first = t.read_by(1, 2_492);
    t.sends(first, Reason::NewBudget);
    let [behind, ahead] = [2_400, 2_800].map(|start| t.read_by(1, start));
    // The head is at 2500: the costs are 200 (100 back), 300 (300 ahead), and after the growth 150.
    let was = t.requests[ahead];
    let grown = t.requests.get_mut(ahead);
    grown.start = Sector(2_650);
    grown.sectors = Sectors(158);
    let growth = Growth { was_start: was.start, was_sectors: was.sectors, absorbed: None };
    t.scheduler.merged(t.now, &t.requests[ahead], growth);
    t.sends(behind, Reason::Budget);
    t.sends(ahead, Reason::Budget);
}

#[test]
fn a_request_that_grew_past_the_one_before_it_is_compared_again() {
    let mut t = table();
    let first = t.read_by(1, 2_492);
    t.sends(first, Reason::NewBudget);
    let [behind, between, ahead] = [2_400, 2_700, 2_800].map(|start| t.read_by(1, start));
    // The head is at 2500: the costs are 200 (100 back), and after the growth 120.
    let was = t.requests[ahead];
    let grown = t.requests.get_mut(ahead);
    grown.start = Sector(2_620);
    grown.sectors = Sectors(188);
    let growth = Growth { was_start: was.start, was_sectors: was.sectors, absorbed: None };
    t.scheduler.merged(t.now, &t.requests[ahead], growth);
    for request in [ahead, between, behind] {
        t.sends(request, Reason::Budget);
    }
}

/// A request keeps its own age if it absorbs a younger one, and takes over that of an older one.
#[test]
fn a_merged_request_is_due_with_the_older_part() {
    for absorbs_older in [false, true] {
        let mut t = table();
        let old = t.read_by(1, 500_000_000);
        let head = t.read_by(1, 10_000);
        let young = t.at(120).read_by(1, if absorbs_older { 499_999_992 } else { 500_000_008 });
        let (id, absorbed) = if absorbs_older { (young, old) } else { (old, young) };
        let (was, absorbed) = (t.requests[id], t.requests.remove(absorbed));
        t.requests.get_mut(id).sectors = Sectors(16);
        let growth = Growth { was_start: was.start, was_sectors: was.sectors, absorbed: Some(&absorbed) };
        t.scheduler.merged(t.now, &t.requests[id], growth);
        let near = t.at(126).read_by(1, 10_100);
        t.sends(head, Reason::NewBudget);
        t.sends(id, Reason::Expired);
        t.sends(near, Reason::Budget);
    }
}

/// Linux merges a submission only with requests of its own queue at the front. At the insertion of a request, it is merged behind any adjacent
/// request, whatever its queue.
#[test]
fn any_process_may_merge_at_the_back_and_only_the_own_queue_at_the_front() {
    let mut t = table();
    let own = t.read_by(1, 1_000);
    let other = t.read_by(2, FAR);
    let addition = |process, start| Request { process: Some(Process::single(process)), ..request(start, 8) };
    let may = |process, start, side| t.scheduler.may_merge(&t.requests[own], &addition(process, start), side);
    assert!(may(1, 1_008, Side::Back) && may(1, 992, Side::Front));
    assert!(may(2, 1_008, Side::Back) && !may(2, 992, Side::Front));
    // Requests that have become adjacent are merged if they belong to one queue.
    let third = t.read_by(1, 1_032);
    let absorbs = |id, side| t.scheduler.may_merge(&t.requests[own], &t.requests[id], side);
    assert!(!absorbs(other, Side::Back) && absorbs(third, Side::Back));
}

/// Processes come and go: each has a queue of its own, whose memory another one gets later.
#[test]
fn queues_of_processes_that_have_ended_are_freed() {
    let (mut bfq, mut requests) = (Bfq::new(true, 256), Requests::default());
    for process in 0..300 {
        let now = at_ms(u64::from(process) * 40);
        let id = requests.add(Request {
            arrived: now,
            ..of(process, PriorityClass::BestEffort, 4, u64::from(process) * FAR)
        });
        bfq.insert(now, &requests[id]);
        let device = Device { depth: 1, in_flight: 0, last_dispatched: None, positioning: None };
        let mut at = now;
        while let Decision::Hold(hold) = bfq.next(at, &View { requests: &requests, device }) {
            at = hold.until.expect("nothing is in flight");
        }
        let done = requests.remove(id);
        bfq.completed(at, &done, Outcome::Done);
        bfq.exited(at, Process::single(process));
    }
    let (slots, used) =
        (bfq.queues.ids().count(), bfq.queues.ids().filter(|&id| bfq.queues.is_in_use(id)).count());
    assert!(slots <= 8 && used <= 8, "{used} of {slots} queues are in use");
}
