//! Decision tables: the effects of groups, and the rules that are unchanged from 2.6.9.

use elevator::{
    Admission, Decision, Direction, Fact, HoldReason, Process, Reason, RequestId, Sector, Span, Value,
};

use super::new;
use crate::testing::Table;
use HoldReason::{AwaitGroup, AwaitProcess};
use Reason::{Anticipated, CloseEnough, SectorOrder, WaitOver, WaitUseless};

/// A distant position.
const FAR: u64 = 1 << 30;

fn cas() -> Table {
    Table::new(new())
}

fn exits(t: &mut Table, process: u32) {
    t.scheduler.exited(t.now, Process::single(process));
}

fn later(t: &mut Table, ms: u64) {
    t.now += Span::from_millis(ms);
}

/// A file read by a process of its own, which then ends.
#[track_caller]
fn file(t: &mut Table, process: u32, sector: u64, reason: Reason) {
    let id = t.read_by(process, sector);
    t.serves(id, reason);
    exits(t, process);
}

/// Serves a request after the scheduler's wait; returns the reason of the dispatch.
fn serve(t: &mut Table, id: RequestId) -> Reason {
    loop {
        match t.next() {
            Decision::Dispatch { id: sent, reason } => {
                assert_eq!(sent, id);
                t.complete(id);
                return reason;
            }
            Decision::Hold(hold) => t.now = hold.until.expect("an end of the wait"),
            Decision::Idle => panic!("something is queued"),
        }
    }
}

/// A new process reads near by and does not end.
fn joins(t: &mut Table, process: u32, sector: u64) {
    let id = t.read_by(process, sector);
    serve(t, id);
}

#[test]
fn the_device_waits_for_the_group_of_an_ended_member_until_a_near_request() {
    let mut t = cas();
    file(&mut t, 1, 100_000, SectorOrder);
    let other = t.read_by(50, FAR);
    for n in 2..20 {
        t.holds(AwaitGroup, Some(t.now + Span::from_millis(6)));
        later(&mut t, 2);
        file(&mut t, n, 100_000 + 1_000 * u64::from(n), CloseEnough);
    }
    later(&mut t, 6);
    t.serves(other, WaitOver);
}

#[test]
fn the_device_waits_for_a_new_process_because_of_its_group() {
    let mut t = cas();
    // New processes end without continuation, so that LAS and mainline would not wait for any …
    // (Repeated after the groups have expired, because the product of two probabilities must exceed one half.)
    processes_end_without_continuation(&mut t);
    later(&mut t, 1_100);
    processes_end_without_continuation(&mut t);
    joins(&mut t, 120, 800_000_000);
    let other = t.read_by(51, 10);
    t.serves(other, WaitUseless);
    // … but the device waits for a group with short think times, also after a new process in it.
    for n in 0..3 {
        joins(&mut t, 300 + n, 500_000 + 500 * u64::from(n));
        later(&mut t, 1);
    }
    let other = t.read_by(52, FAR);
    t.holds(AwaitGroup, Some(t.now + Span::from_millis(5)));
    let _ = other;
}

/// Eight processes read at distant positions and end; no process continues there.
fn processes_end_without_continuation(t: &mut Table) {
    for n in 0..8 {
        for process in [100 + n, 200 + n] {
            let id = t.read_by(process, 20_000_000 * u64::from(process));
            serve(t, id);
            exits(t, process);
        }
        later(t, 10);
    }
}

#[test]
fn a_group_without_continuations_is_not_waited_for_until_one_occurs() {
    let mut t = cas();
    processes_end_without_continuation(&mut t);
    file(&mut t, 1, 100_000, WaitOver);
    let other = t.read_by(50, FAR);
    t.serves(other, WaitUseless); // no process has continued for ended ones so far
    let ended = t.items().last().and_then(|group| group.fact("nobody_goes_on"));
    assert!(matches!(ended, Some(Fact::Percent(50..=100))), "{ended:?}");
    // Processes continue although the device does not wait: the group learns from each continuation.
    for n in 2..6 {
        later(&mut t, 2);
        joins(&mut t, n, 100_000 + 1_000 * u64::from(n));
        exits(&mut t, n);
    }
    t.read_by(51, FAR);
    t.holds(AwaitGroup, Some(t.now + Span::from_millis(6)));
}

#[test]
fn members_that_read_while_the_others_run_do_not_continue_for_them() {
    for (others_end, waits) in [(true, true), (false, false)] {
        let mut t = cas();
        processes_end_without_continuation(&mut t);
        for n in 1..6 {
            joins(&mut t, n, 100_000 + 1_000 * u64::from(n));
            if others_end || n == 5 {
                exits(&mut t, n);
            }
            later(&mut t, 2);
        }
        t.read_by(51, FAR);
        assert_eq!(matches!(t.next(), Decision::Hold(_)), waits, "others end: {others_end}");
    }
}

#[test]
fn two_groups_keep_apart() {
    let mut t = cas();
    file(&mut t, 1, 100_000, SectorOrder);
    let far = t.read_by(2, FAR);
    t.holds(AwaitGroup, Some(t.now + Span::from_millis(6)));
    // A request near the distant one does not end the wait for the near group.
    let far_too = t.read_by(3, FAR + 500);
    t.holds(AwaitGroup, Some(t.now + Span::from_millis(6)));
    later(&mut t, 6);
    t.serves(far, WaitOver);
    exits(&mut t, 2);
    t.serves(far_too, CloseEnough); // of the same group
}

#[test]
fn a_members_request_ends_the_wait_also_far_from_the_head() {
    let mut t = cas();
    t.scheduler.tune("group_window", Value::Sectors(1 << 20)).unwrap();
    t.scheduler.tune("close_window", Value::Sectors(1)).unwrap();
    file(&mut t, 1, 100_000, SectorOrder);
    t.read_by(2, FAR);
    t.holds(AwaitGroup, Some(t.now + Span::from_millis(6)));
    let member = t.read_by(3, 1_000_000);
    t.serves(member, CloseEnough);
}

#[test]
fn a_group_expires_after_its_lifetime() {
    let mut t = cas();
    processes_end_without_continuation(&mut t);
    for n in 1..6 {
        later(&mut t, 2);
        joins(&mut t, n, 100_000 + 1_000 * u64::from(n));
        exits(&mut t, n);
    }
    later(&mut t, 1_001);
    // The group's history has expired, the device's probability has not: above 139/256 for no continuation, then five continuations.
    joins(&mut t, 10, 106_000);
    exits(&mut t, 10);
    t.read_by(50, FAR);
    t.holds(AwaitGroup, Some(t.now + Span::from_millis(6)));
}

#[test]
fn the_limit_on_groups_holds_from_its_change_on() {
    let mut t = cas();
    (1..=4).for_each(|n| joins(&mut t, n, FAR * u64::from(n)));
    assert_eq!(t.items().len(), 4);
    for (limit, then) in [(2, 2), (3, 3)] {
        t.scheduler.tune("groups_max", Value::Count(limit)).unwrap();
        assert!(t.items().len() as u64 <= limit);
        (5..=9).for_each(|n| joins(&mut t, n, FAR * u64::from(n)));
        assert_eq!(t.items().len(), then);
    }
}

#[test]
fn a_group_with_a_queued_request_does_not_expire() {
    for is_queued in [true, false] {
        let mut t = cas();
        let first = t.read_by(1, 100_000);
        if !is_queued {
            serve(&mut t, first);
        }
        later(&mut t, 1_500);
        t.read_by(2, 100_008);
        assert_eq!(t.items().len(), if is_queued { 1 } else { 2 });
    }
}

/// A member that continues at the same position after a long pause forms a new group.
#[test]
fn members_of_an_expired_group_form_a_new_one() {
    let mut t = cas();
    let groups = |t: &Table| t.items().len();
    for n in 0..3 {
        later(&mut t, 900);
        joins(&mut t, 1, 100_000 + 8 * n);
        assert_eq!(groups(&t), 1);
    }
    later(&mut t, 1_001);
    joins(&mut t, 1, 100_024);
    assert_eq!(groups(&t), 2);
}

#[test]
fn a_single_process_is_treated_as_in_2_6_9() {
    let mut t = cas();
    for n in 0..4 {
        let id = t.read_by(1, 1_000 + 8 * n);
        t.serves(id, if n == 0 { SectorOrder } else { Anticipated });
        later(&mut t, 1);
    }
    let other = t.read_by(2, FAR);
    t.holds(AwaitProcess, Some(t.now + Span::from_millis(5)));
    later(&mut t, 5);
    t.serves(other, WaitOver);
}

#[test]
fn the_device_waits_for_a_slow_process_only_if_its_group_is_quick() {
    // Process 1 reads every 20 ms; alone, it is too slow for a wait.
    let mut alone = cas();
    for n in 0..4 {
        joins(&mut alone, 1, 1_000 + 8 * n);
        later(&mut alone, 20);
    }
    joins(&mut alone, 1, 1_032);
    let other = alone.read_by(2, FAR);
    alone.serves(other, WaitUseless);
    // With other processes that read in between, the device waits.
    let mut among = cas();
    for n in 0..12 {
        let process = if n % 4 == 0 { 1 } else { 10 + n as u32 };
        joins(&mut among, process, 1_000 + 8 * n);
        later(&mut among, 2);
    }
    joins(&mut among, 1, 1_096);
    among.read_by(2, FAR);
    among.holds(AwaitProcess, Some(among.now + Span::from_millis(6)));
}

#[test]
fn any_member_of_the_awaited_group_may_exceed_the_limit() {
    let mut t = cas();
    joins(&mut t, 2, 99_000);
    joins(&mut t, 1, 100_000);
    t.read_by(3, FAR);
    t.holds(AwaitGroup, Some(t.now + Span::from_millis(6)));
    let leave = |n| t.scheduler.may_queue(t.now, Some(Process::single(n)), Direction::Read, true);
    assert_eq!([leave(1), leave(2), leave(3)], [Admission::Must, Admission::Must, Admission::ByLimit]);
}

#[test]
fn unknown_processes_form_no_group() {
    let mut t = cas();
    let a = t.read(1_000);
    t.serves(a, SectorOrder);
    let other = t.read(FAR);
    t.serves(other, SectorOrder);
}

#[test]
fn inspection_shows_the_groups_and_the_awaited_one() {
    let mut t = cas();
    file(&mut t, 1, 100_000, SectorOrder);
    t.read_by(50, FAR);
    t.holds(AwaitGroup, Some(t.now + Span::from_millis(6)));
    let groups = t.items();
    let told = |n: usize, name| groups[n].fact(name).unwrap();
    assert_eq!(groups.len(), 2);
    assert_eq!((told(0, "position"), told(0, "awaited")), (Fact::Sector(Sector(100_008)), Fact::Flag(true)));
    assert_eq!((told(1, "awaited"), told(1, "queued")), (Fact::Flag(false), Fact::Count(1)));
    assert_eq!((told(0, "cooperating"), told(0, "think_time")), (Fact::Flag(false), Fact::None));
}
