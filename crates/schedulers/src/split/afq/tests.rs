//! Decision table.

use alloc::vec::Vec;

use elevator::split::{Account, Action, Terms, Verdict};
use elevator::{Fact, HoldReason, Op, Priority, Reason, Value};

use super::super::testing::Host;
use super::*;
use crate::testing::at_ms;

fn priority(level: u8) -> Terms {
    Terms { priority: Priority { level, ..Priority::default() }, ..Terms::default() }
}

/// A host with accounts 0, 1, … of these priority levels.
fn host(levels: &[u8]) -> Host {
    let terms: Vec<_> = levels.iter().map(|&level| priority(level)).collect();
    Host::new(Afq::default()).accounts(&terms)
}

#[test]
fn a_writer_ahead_of_the_least_served_one_is_held_until_that_one_catches_up() {
    let mut t = host(&[0, 7]);
    t.dirty(0, 1, 0, 1); // both active
    t.dirty(1, 2, 0, 1000); // 1000 pages × 840 / 1 is more than 204,800 ahead
    let busy = t.caused(0, Op::Read, 0, 8);
    let (held, verdict) = t.write(1, 2);
    assert_eq!(verdict, Verdict::Hold);
    let fact = |item: usize, name| t.table.items()[item].fact(name);
    assert_eq!([fact(0, "share"), fact(1, "share")], [88, 11].map(|percent| Some(Fact::Percent(percent))));
    assert!(matches!(fact(1, "ahead"), Some(Fact::Percent(400..))));
    assert_eq!(fact(1, "held"), Some(Fact::Count(1)));
    assert_eq!(t.acts(), []);
    let (_, verdict) = t.write(0, 1);
    assert_eq!(verdict, Verdict::Proceed, "the least served account proceeds");
    t.dirty(0, 1, 1, 7000); // 7000 × 840 / 8: within 204,800 of the other
    assert_eq!(t.acts(), [Action::Admit(held)]);
    t.table.sends(busy, Reason::Share);
}

#[test]
fn discarded_pages_are_charged_to_no_account() {
    let mut t = host(&[0, 7]);
    t.dirty(0, 1, 0, 1);
    t.dirty(1, 2, 0, 1000);
    t.free(1, 2, 0, 1000);
    assert_eq!(t.write(1, 2).1, Verdict::Proceed);
}

/// The device has the write of 1000 pages of account 1. Account 0 has dirtied a page.
fn host_with_a_write() -> Host {
    let mut t = host(&[0, 7]);
    t.dirty(0, 1, 0, 1);
    t.dirty(1, 2, 0, 1000);
    t.submit(1, 2, 0, 1000);
    let write = t.caused(1, Op::Write, 0, 8 * 1000);
    t.table.serves(write, Reason::SectorOrder);
    t
}

/// Its request is charged instead.
#[test]
fn pages_that_are_written_stay_charged() {
    let mut t = host_with_a_write();
    assert_eq!(t.write(1, 2).1, Verdict::Hold);
}

/// Another account of its number begins with the service of the least served one.
#[test]
fn a_forgotten_account_owes_nothing() {
    let mut t = host_with_a_write();
    t.split().forget(at_ms(0), Account(1));
    assert_eq!(t.write(1, 2).1, Verdict::Proceed);
}

#[test]
fn a_held_write_does_not_proceed_while_the_device_has_or_gets_requests() {
    for is_dispatched in [false, true] {
        let mut t = host(&[0, 7]);
        t.dirty(0, 1, 0, 1);
        t.dirty(1, 2, 0, 1000);
        let (write, _) = t.write(1, 2);
        let read = t.caused(0, Op::Read, 0, 8);
        if is_dispatched {
            t.table.sends(read, Reason::Share);
        }
        t.table.at(100);
        assert_eq!((t.acts(), t.alarm_ms()), (Vec::new(), None));
        if !is_dispatched {
            t.table.sends(read, Reason::Share);
        }
        t.table.complete(read);
        assert_eq!((t.acts(), t.alarm_ms()), (Vec::new(), Some(140)));
        t.table.at(140);
        assert_eq!(t.acts(), [Action::Admit(write)]);
    }
}

#[test]
fn after_idle_time_held_calls_proceed_and_unused_service_is_not_saved() {
    let mut t = host(&[0, 7, 7]);
    t.dirty(0, 1, 0, 1); // then overwrites this page: active, and never charged again
    t.dirty(1, 2, 0, 1000);
    t.dirty(2, 3, 0, 1000);
    let (first, _) = t.write(1, 2);
    let (second, _) = t.write(2, 3);
    assert_eq!((t.acts(), t.alarm_ms()), (Vec::new(), Some(40)));
    t.table.at(40);
    assert_eq!(t.acts(), [Action::Admit(first), Action::Admit(second)]);
    t.returns(first);
    t.dirty(1, 2, 1000, 1);
    let (third, verdict) = t.write(1, 2);
    assert_eq!(verdict, Verdict::Hold, "one page more than an idle device gives");
    assert_eq!(t.acts(), [Action::Admit(third)]);
}

#[test]
fn fsyncs_proceed_in_batches_the_least_served_first() {
    let mut t = host(&[7, 0, 4]);
    t.table.scheduler.tune("batch_least", Value::Count(2)).unwrap();
    for account in 0..3 {
        t.dirty(account, u64::from(account), 0, 1); // all begin at the same time
    }
    for account in 0..3 {
        t.dirty(account, u64::from(account), 1, 99);
    }
    let calls = [0, 1, 2].map(|account| t.fsync(account, u64::from(account)));
    assert!(calls.iter().all(|&(_, verdict)| verdict == Verdict::Hold));
    let [least, middle, most] = [calls[1].0, calls[2].0, calls[0].0];
    assert_eq!(t.acts(), [Action::Admit(least), Action::Admit(middle)]);
    t.returns(least);
    let (again, _) = t.fsync(1, 1);
    assert_eq!(t.acts(), [], "the batch is not over");
    t.returns(middle);
    assert_eq!(t.acts(), [Action::Admit(again), Action::Admit(most)]);
}

#[test]
fn after_a_long_batch_the_next_begins_if_the_device_has_little_to_do() {
    let mut t = host(&[4, 4]);
    let (first, _) = t.fsync(0, 0);
    assert_eq!(t.acts(), [Action::Admit(first)]);
    let (second, _) = t.fsync(1, 1);
    assert_eq!((t.acts(), t.alarm_ms()), (Vec::new(), Some(200)));
    t.table.at(200);
    assert_eq!(t.acts(), [Action::Admit(second)]);
}

/// The device had little to do when no fsync waited.
#[test]
fn the_next_batch_does_not_begin_while_the_device_has_much_to_do() {
    let mut t = host(&[4, 4]);
    t.table.scheduler.tune("in_flight_least", Value::Count(1)).unwrap();
    let (first, _) = t.fsync(0, 0);
    assert_eq!(t.acts(), [Action::Admit(first)]);
    t.table.at(200);
    assert_eq!(t.acts(), []);
    let write = t.caused(0, Op::Write, 0, 8);
    t.table.sends(write, Reason::SectorOrder);
    let (second, _) = t.fsync(1, 1);
    assert_eq!(t.acts(), [], "the first fsync and a write are running");
    t.table.complete(write);
    assert_eq!(t.acts(), [Action::Admit(second)]);
}

#[test]
fn an_fsync_waits_for_a_reader_that_has_had_less() {
    let mut t = host(&[4, 4]);
    t.dirty(0, 0, 0, 1);
    t.dirty(1, 1, 0, 1);
    t.dirty(1, 1, 1, 100);
    let read = t.caused(0, Op::Read, 0, 8);
    let (call, _) = t.fsync(1, 1);
    assert_eq!(t.acts(), []);
    assert_eq!(t.table.dispatches(), read);
    assert_eq!(t.acts(), [], "the read is still in the device");
    t.table.complete(read);
    assert_eq!(t.acts(), [Action::Admit(call)]);
}

#[test]
fn a_held_write_does_not_proceed_because_of_idleness_during_an_fsync() {
    let mut t = host(&[0, 7]);
    t.dirty(0, 1, 0, 1);
    t.dirty(1, 2, 0, 1000);
    let (fsync, _) = t.fsync(0, 1);
    assert_eq!(t.acts(), [Action::Admit(fsync)]);
    let (write, _) = t.write(1, 2);
    t.table.at(100);
    assert_eq!(t.acts(), [], "the device is idle, but an fsync is running");
    t.returns(fsync);
    assert_eq!(t.acts(), [], "the idle time begins at the return of the fsync");
    t.table.at(140);
    assert_eq!(t.acts(), [Action::Admit(write)]);
}

#[test]
fn writes_are_dispatched_at_once_whatever_their_causes() {
    let mut t = host(&[0, 7]);
    let read = t.caused(0, Op::Read, 100, 8);
    let write = t.caused(1, Op::Write, 900, 8);
    t.table.serves(write, Reason::SectorOrder);
    t.table.serves(read, Reason::Share);
}

#[test]
fn reads_are_served_in_proportion_to_their_shares() {
    let mut t = host(&[0, 6]); // shares 8 and 2
    t.table.scheduler.tune("batch", Value::Count(1)).unwrap();
    let mut served = [0, 0];
    for n in 0..100 {
        t.caused(0, Op::Read, n * 100_000, 8); // long seeks between all of them, so that all cost the same
        t.caused(1, Op::Read, n * 100_000 + 50_000, 8);
    }
    for _ in 0..100 {
        let id = t.table.dispatches();
        let account = t.table.requests[id].causes.unwrap().0;
        served[account as usize] += 1;
        t.table.complete(id);
    }
    assert!((78..=82).contains(&served[0]), "{served:?}");
}

#[test]
fn the_device_waits_for_a_sequential_reader_for_a_limited_time() {
    let mut t = host(&[4, 4]);
    for n in 0..13 {
        let id = t.caused(0, Op::Read, n * 8, 8);
        assert_eq!(t.table.dispatches(), id);
        t.table.complete(id);
    }
    let other = t.caused(1, Op::Read, 1_000_000, 8);
    t.table.holds(HoldReason::AwaitSliceOwner, Some(at_ms(20)));
    t.table.at(21).serves(other, Reason::Share);
}

#[test]
fn one_write_at_a_time_while_the_reader_in_turn_has_none_queued() {
    let mut t = host(&[4, 4]);
    t.table.depth = 4;
    for n in 0..13 {
        let read = t.caused(0, Op::Read, n * 8, 8);
        t.table.serves(read, if n == 0 { Reason::Share } else { Reason::SliceOwner });
    }
    let other = t.caused(1, Op::Read, 900_000, 8);
    let write = t.caused(1, Op::Write, 500_000, 8);
    t.table.sends(write, Reason::SectorOrder);
    t.table.holds(HoldReason::AwaitSliceOwner, Some(at_ms(20)));
    t.table.complete(write);
    t.table.at(20);
    t.table.serves(other, Reason::Share);
}
