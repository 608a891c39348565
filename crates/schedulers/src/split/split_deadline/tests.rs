//! Decision table.

use elevator::split::{Account, Action, CallId, CallKind, File, Split, SystemCall, Terms, Verdict};
use elevator::{
    CauseSet, Decision, Flags, HoldReason, Op, Reason, Request, RequestId, Scheduler, Side, Span,
};

use super::super::testing::Host;
use super::*;
use crate::testing::{at_ms, request};

/// Account 0 has an fsync deadline of 100 ms; account 1 has none.
fn host() -> Host {
    let urgent = Terms { fsync_deadline: Some(Span::from_millis(100)), ..Terms::default() };
    Host::new(SplitDeadline::default()).accounts(&[urgent, Terms::default()])
}

fn sync_write(t: &mut Host, account: u32, start: u64) -> RequestId {
    let flags = Flags { sync: true, ..Flags::default() };
    let causes = Some(CauseSet(account));
    t.table.insert(Request { op: Op::Write, flags, causes, ..request(start, 8) })
}

/// A write of metadata to its home location.
fn home(t: &mut Host, account: u32, start: u64) -> RequestId {
    let flags = Flags { meta: true, ..Flags::default() };
    let causes = Some(CauseSet(account));
    t.table.insert(Request { op: Op::Write, flags, causes, ..request(start, 8) })
}

/// The device is slower than its cache: 100 pages take 10 ms, and 20 ms of the fsync.
#[test]
fn the_time_of_the_flush_of_an_fsync_counts_as_time_of_the_writes() {
    for with_fsync in [true, false] {
        let mut policy = SplitDeadline::default();
        let now = at_ms(0);
        let fsync_deadline = Some(Span::from_millis(100));
        policy.account(now, Account(0), Terms { fsync_deadline, ..Terms::default() });
        policy.causes(CauseSet(1), &[Account(1)]);
        let write = Request { op: Op::Write, ..request(0, 800) };
        policy.background.served(now, &write, true, Span::from_millis(10));
        (0..500).for_each(|_| policy.background.dirtied(CauseSet(1)));
        let kind = CallKind::Fsync { file: File(1) };
        let call = SystemCall { id: CallId(0), account: Account(u32::from(!with_fsync)), kind };
        assert_eq!(policy.entered(at_ms(10), &call), Verdict::Proceed);
        policy.returned(at_ms(10), &SystemCall { id: CallId(1), account: Account(1), kind });
        policy.returned(at_ms(30), &call);
        let takes_100_ms = policy.background.pressure(at_ms(1_000), Span::from_millis(100), 0, 0)
            != background::Pressure::Low;
        assert_eq!(takes_100_ms, with_fsync);
    }
}

/// Each has 100 dirty background pages at its beginning, and so many sectors of these or of its own account are written while it runs.
#[test]
fn fsyncs_have_waited_for_dirty_pages_if_most_of_these_are_written_meanwhile() {
    for (account, sectors, waits) in [(1, 800, true), (1, 399, false), (0, 800, false)] {
        let mut policy = SplitDeadline::default();
        let fsync_deadline = Some(Span::from_millis(100));
        policy.account(at_ms(0), Account(0), Terms { fsync_deadline, ..Terms::default() });
        (0..2).for_each(|n| policy.causes(CauseSet(n), &[Account(n)]));
        (0..100).for_each(|_| policy.background.dirtied(CauseSet(1)));
        for n in 0..2 {
            let kind = CallKind::Fsync { file: File(1) };
            let call = SystemCall { id: CallId(n), account: Account(0), kind };
            assert_eq!(policy.entered(at_ms(0), &call), Verdict::Proceed);
            let flags = Flags { sync: true, ..Flags::default() };
            let causes = Some(CauseSet(account));
            let id = RequestId(n);
            policy.insert(at_ms(0), &Request { id, op: Op::Write, flags, causes, ..request(0, sectors) });
            policy.returned(at_ms(1), &call);
        }
        assert_eq!(policy.transactions.wait(), waits, "{sectors} sectors of account {account}");
    }
}

/// `may_merge` rejects such a merge.
#[test]
fn no_request_is_lost_if_a_host_merges_an_urgent_one_with_another() {
    for urgent_is_absorbed in [true, false] {
        let mut t = host();
        let other = t.caused(1, Op::Write, 8, 8);
        let urgent = sync_write(&mut t, 0, 16);
        let (request, absorbed) = if urgent_is_absorbed { (other, urgent) } else { (urgent, other) };
        t.table.absorb(request, absorbed);
        let last = t.caused(1, Op::Write, 900, 8);
        for id in [request, last] {
            assert_eq!(t.table.dispatches(), id);
            t.table.complete(id);
        }
        t.table.idles();
    }
}

#[test]
fn urgent_requests_and_others_are_not_merged_nor_direct_ones_with_others() {
    let mut t = host();
    let write = |account, sync, direct, start| Request {
        op: Op::Write,
        flags: Flags { sync, direct, ..Flags::default() },
        causes: Some(CauseSet(account)),
        ..request(start, 8)
    };
    for (own, other, merges) in [
        (write(1, false, false, 8), write(1, false, false, 16), true),
        (write(0, true, false, 8), write(0, true, false, 16), true),
        (write(1, true, true, 8), write(1, true, true, 16), true),
        (write(1, false, false, 8), write(0, true, false, 16), false),
        (write(0, true, false, 8), write(1, false, false, 16), false),
        (write(1, false, false, 8), write(1, true, true, 16), false),
        (write(0, true, true, 8), write(0, true, false, 16), false),
    ] {
        let id = t.table.insert(own);
        let own = t.table.requests[id];
        assert_eq!(t.table.scheduler.may_merge(&own, &other, Side::Back), merges, "{own:?} and {other:?}");
        assert_eq!(t.table.dispatches(), id);
        t.table.complete(id);
    }
}

#[test]
fn data_that_is_queued_when_an_fsync_begins_may_be_in_its_transaction() {
    let mut t = host();
    let meta = home(&mut t, 1, 100);
    let data = t.caused(1, Op::Write, 900_000, 8);
    assert_eq!(t.fsync(0, 1).1, Verdict::Proceed);
    t.table.serves(data, Reason::Urgent);
    t.table.serves(meta, Reason::NewSweep);
    t.table.idles();
}

#[test]
fn reads_of_a_running_fsync_go_before_data_that_may_be_in_its_transaction() {
    let mut t = host();
    let data = t.caused(1, Op::Write, 900_000, 8);
    assert_eq!(t.fsync(0, 1).1, Verdict::Proceed);
    let (other, bitmap) = (t.caused(1, Op::Read, 100, 8), t.caused(0, Op::Read, 500_000, 8));
    t.table.serves(bitmap, Reason::Urgent);
    t.table.serves(data, Reason::Urgent);
    t.table.serves(other, Reason::NewSweep);
}

#[test]
fn a_large_fsync_without_a_deadline_is_held_while_its_file_is_written_back() {
    let mut t = host();
    t.dirty(1, 7, 0, 250);
    let (call, verdict) = t.fsync(1, 7);
    assert_eq!(verdict, Verdict::Hold);
    let bleed = Action::WriteBack { file: File(7), pages: 100 };
    assert_eq!(t.acts(), [bleed, bleed], "the device has work while the second hundred is on its way");
    assert_eq!(t.alarm_ms(), Some(10));
    t.submit(1, 7, 0, 100);
    let queued = t.caused(1, Op::Write, 0, 808);
    assert_eq!(t.acts(), [], "100 pages are ordered, and 101 are queued");
    t.table.serves(queued, Reason::NewSweep);
    assert_eq!(t.acts(), [bleed]);
    t.submit(1, 7, 100, 100);
    assert_eq!(t.acts(), [Action::Admit(call)], "50 pages are left");
    assert_eq!(t.alarm_ms(), None);
}

#[test]
fn fsyncs_with_a_deadline_and_small_ones_proceed_at_once() {
    let mut t = host();
    t.dirty(0, 1, 0, 5000);
    t.dirty(1, 2, 0, 99);
    assert_eq!(t.fsync(0, 1).1, Verdict::Proceed);
    assert_eq!(t.write(0, 1).1, Verdict::Proceed);
    assert_eq!(t.fsync(1, 2).1, Verdict::Proceed);
}

#[test]
fn a_background_writer_is_held_while_its_file_has_too_many_dirty_pages() {
    let mut t = host();
    t.dirty(1, 7, 0, 1000);
    let (call, verdict) = t.write(1, 7);
    assert_eq!(verdict, Verdict::Hold);
    assert_eq!(t.acts().len(), 2);
    t.free(1, 7, 0, 1);
    assert_eq!(t.acts(), [Action::Admit(call)]);
}

#[test]
fn an_order_of_writeback_that_found_nothing_is_forgotten_at_the_next_check() {
    let mut t = host();
    t.dirty(1, 7, 0, 1000);
    assert_eq!(t.write(1, 7).1, Verdict::Hold);
    assert_eq!(t.acts().len(), 2);
    t.table.at(9);
    assert_eq!(t.acts(), []);
    t.table.at(10);
    assert_eq!(t.acts().len(), 2);
}

#[test]
fn writes_that_an_fsync_with_a_deadline_waits_for_go_first() {
    let mut t = host();
    let read = t.caused(1, Op::Read, 100, 8);
    t.table.at(1);
    assert_eq!(t.fsync(0, 1).1, Verdict::Proceed);
    let late = sync_write(&mut t, 0, 900_000);
    let background = t.caused(1, Op::Write, 500, 8);
    t.table.serves(late, Reason::Urgent);
    t.table.serves(background, Reason::Urgent);
    t.table.serves(read, Reason::NewSweep);
    t.table.idles();
}

#[test]
fn synchronous_writes_may_be_in_a_transaction_with_a_deadline() {
    let mut t = host();
    let before = sync_write(&mut t, 1, 500);
    t.table.at(50);
    assert_eq!(t.fsync(0, 1).1, Verdict::Proceed);
    let ordered = sync_write(&mut t, 1, 900_000);
    t.table.serves(before, Reason::Urgent);
    t.table.serves(ordered, Reason::Urgent);
}

#[test]
fn during_an_fsync_with_a_deadline_other_requests_go_one_by_one_without_writeback() {
    let mut t = host();
    t.dirty(1, 7, 0, 1000);
    t.table.depth = 4;
    let (call, _) = t.fsync(0, 1);
    let (held, verdict) = t.fsync(1, 7);
    assert_eq!((verdict, t.acts()), (Verdict::Hold, Vec::new()));
    let first = home(&mut t, 1, 500);
    let second = home(&mut t, 1, 600);
    t.table.sends(first, Reason::NewSweep);
    t.table.holds(HoldReason::ClassWaits, None);
    let journal = sync_write(&mut t, 0, 900_000);
    t.table.sends(journal, Reason::Urgent);
    t.table.complete(first);
    t.table.complete(journal);
    t.returns(call);
    t.table.at(10);
    assert_eq!(t.acts(), [Action::WriteBack { file: File(7), pages: 100 }]);
    t.table.serves(second, Reason::Batch);
    t.free(1, 7, 0, 1000);
    assert_eq!(t.acts(), [Action::Admit(held)]);
}

#[test]
fn an_asynchronous_write_is_not_urgent() {
    let mut t = host();
    let read = t.caused(0, Op::Read, 100, 8);
    let write = t.caused(0, Op::Write, 500, 8);
    t.table.serves(read, Reason::NewSweep);
    t.table.serves(write, Reason::NewSweep);
}

#[test]
fn the_log_precedes_data_that_a_transaction_may_wait_for() {
    let mut t = host();
    assert_eq!(t.fsync(0, 1).1, Verdict::Proceed);
    let aged = t.caused(1, Op::Write, 500, 8);
    let theirs = sync_write(&mut t, 1, 700);
    let log = sync_write(&mut t, 0, 900_000);
    t.table.serves(log, Reason::Urgent);
    t.table.serves(aged, Reason::Urgent);
    t.table.serves(theirs, Reason::Urgent);
}

#[test]
fn the_log_is_urgent_for_all_even_without_known_causes() {
    let mut t = host();
    assert_eq!(t.fsync(0, 1).1, Verdict::Proceed);
    let aged = t.caused(1, Op::Write, 500, 8);
    let flags = Flags { sync: true, meta: true, ..Flags::default() };
    let superblock = t.table.insert(Request { op: Op::Write, flags, ..request(900_000, 8) });
    t.table.serves(superblock, Reason::Urgent);
    t.table.serves(aged, Reason::Urgent);
}

#[test]
fn an_overdue_request_in_the_drive_blocks_urgent_dispatches() {
    let mut t = host();
    t.table.depth = 4;
    let kept = t.caused(1, Op::Write, 500, 8);
    t.table.sends(kept, Reason::NewSweep);
    assert_eq!(t.fsync(0, 1).1, Verdict::Proceed);
    let first = sync_write(&mut t, 0, 900_000);
    t.table.sends(first, Reason::Urgent);
    t.table.at(24);
    t.table.complete(first);
    let second = sync_write(&mut t, 0, 900_008);
    t.table.at(25);
    t.table.holds(HoldReason::ClassWaits, None);
    t.table.complete(kept);
    t.table.sends(second, Reason::Urgent);
}

#[test]
fn more_uncertain_writes_pass_if_fsyncs_have_time_to_spare() {
    let mut t = host();
    let (call, _) = t.fsync(0, 1);
    let one = t.caused(1, Op::Write, 500, 8);
    t.table.serves(one, Reason::Urgent);
    t.returns(call);
    assert_eq!(t.fsync(0, 1).1, Verdict::Proceed);
    let aged = [600, 700, 800].map(|start| t.caused(1, Op::Write, start, 8));
    t.table.serves(aged[0], Reason::Urgent);
    let log = sync_write(&mut t, 0, 900_000);
    t.table.serves(aged[1], Reason::Urgent);
    t.table.serves(log, Reason::Urgent);
    t.table.serves(aged[2], Reason::Urgent);
}

#[test]
fn the_writeback_for_several_held_calls_equals_that_for_one() {
    let mut t = host();
    for file in 1..=4 {
        t.dirty(1, file, 0, 40);
    }
    t.dirty(1, 5, 0, 1000);
    t.table.scheduler.tune("big_write", elevator::Value::Count(40)).unwrap();
    for file in 1..=5 {
        assert_eq!(t.write(1, file).1, Verdict::Hold);
    }
    let written = |files: &[u64]| -> Vec<Action> {
        files.iter().map(|&file| Action::WriteBack { file: File(file), pages: 100 }).collect()
    };
    assert_eq!(
        t.acts(),
        written(&[1, 2, 3]),
        "40 pages each: the ordered pages have not reached the queue yet"
    );
    t.table.at(10);
    assert_eq!(t.acts(), written(&[1, 2, 3]), "nothing was written, so the writeback is ordered again");
}

#[test]
fn without_a_deadline_nothing_is_held_or_written_early() {
    let mut t = Host::new(SplitDeadline::default()).accounts(&[Terms::default(), Terms::default()]);
    t.dirty(1, 7, 0, 5000);
    assert_eq!((t.write(1, 7).1, t.fsync(1, 7).1), (Verdict::Proceed, Verdict::Proceed));
    assert_eq!((t.acts(), t.alarm_ms()), (Vec::new(), None));
}

#[test]
fn held_calls_continue_when_the_account_with_a_deadline_is_idle() {
    let mut t = host();
    t.dirty(1, 7, 0, 5000);
    let (write, verdict) = t.write(1, 7);
    let (fsync, _) = t.fsync(1, 7);
    assert_eq!((verdict, t.acts().len()), (Verdict::Hold, 2));
    t.table.at(999);
    assert_eq!(t.acts().len(), 2, "the account has just got its deadline");
    t.table.at(1000);
    assert_eq!(t.acts(), [Action::Admit(write), Action::Admit(fsync)]);
    assert_eq!(t.write(1, 7).1, Verdict::Proceed);
    let (urgent, _) = t.fsync(0, 1);
    assert_eq!(t.write(1, 7).1, Verdict::Hold, "it calls fsync");
    t.returns(urgent);
    t.table.at(1999);
    assert_eq!(t.write(1, 7).1, Verdict::Hold);
    t.table.at(2000);
    assert_eq!(t.write(1, 7).1, Verdict::Proceed);
}

/// Account 1 rewrites 1500 pages of file 7 that were written; two fsyncs have not waited for them.
fn rewriting() -> Host {
    let mut t = host();
    t.dirty(1, 7, 0, 1500);
    t.submit(1, 7, 0, 1500);
    t.dirty(1, 7, 0, 1500);
    for _ in 0..2 {
        assert_eq!(t.write(1, 7).1, Verdict::Hold);
        t.acts();
        let (call, _) = t.fsync(0, 1);
        t.returns(call);
    }
    t
}

#[test]
fn pages_that_are_rewritten_are_not_written_early_if_transactions_do_not_wait_for_them() {
    let mut t = rewriting();
    assert_eq!(t.acts(), [Action::Admit(CallId(0)), Action::Admit(CallId(2))]);
    assert_eq!(t.write(1, 7).1, Verdict::Proceed);
    t.dirty(1, 7, 1500, 1501);
    assert_eq!(t.write(1, 7).1, Verdict::Hold, "more of its pages are new");
    t.submit(1, 7, 1500, 1);
    assert_eq!(t.write(1, 7).1, Verdict::Proceed);
    assert_eq!(t.fsync(1, 7).1, Verdict::Hold);
    assert_eq!(t.write(1, 7).1, Verdict::Hold, "the fsync would not end");
}

#[test]
fn rewritten_pages_are_written_early_if_an_fsync_waited_for_them() {
    let mut t = rewriting();
    let (call, _) = t.fsync(0, 1);
    t.submit(1, 7, 0, 1500);
    sync_write(&mut t, 1, 0);
    t.returns(call);
    t.dirty(1, 7, 0, 1500);
    assert_eq!(t.write(1, 7).1, Verdict::Proceed, "few of them");
    for (sync, verdict) in [(true, Verdict::Hold), (false, Verdict::Proceed)] {
        let mut t = rewriting();
        let (call, _) = t.fsync(0, 1);
        t.submit(1, 7, 0, 1500);
        let flags = Flags { sync, ..Flags::default() };
        let causes = Some(CauseSet(1));
        let written = t.table.insert(Request { op: Op::Write, flags, causes, ..request(0, 8 * 1500) });
        t.table.dispatches();
        t.table.complete(written);
        t.returns(call);
        t.dirty(1, 7, 0, 1500);
        assert_eq!(t.write(1, 7).1, verdict, "without `sync` it is the kernel's periodic writeback");
    }
}

#[test]
fn what_the_kernel_writes_is_not_urgent_if_transactions_do_not_wait_for_dirty_pages() {
    let mut t = rewriting();
    let before = t.caused(1, Op::Write, 800_000, 8);
    let own = t.caused(0, Op::Write, 900_000, 8);
    assert_eq!(t.fsync(0, 1).1, Verdict::Proceed);
    let during = t.caused(1, Op::Write, 700_000, 8);
    t.table.serves(own, Reason::Urgent);
    t.table.sends(before, Reason::NewSweep);
    t.table.holds(HoldReason::ClassWaits, None); // one at a time
    t.table.complete(before);
    let ordered = sync_write(&mut t, 1, 100);
    t.table.serves(ordered, Reason::Urgent);
    assert_eq!(t.table.dispatches(), during);
}

/// Regression: it was in no list, so that it was lost.
#[test]
fn data_that_arrived_when_transactions_waited_is_served_when_they_do_not() {
    let mut t = host();
    let data = t.caused(1, Op::Write, 800_000, 8);
    t.dirty(1, 7, 0, 1500);
    for _ in 0..2 {
        // The fsync ends before the scheduler is asked for a request.
        let (call, _) = t.fsync(0, 1);
        t.returns(call);
    }
    assert_eq!(t.fsync(0, 1).1, Verdict::Proceed);
    assert_eq!(t.table.dispatches(), data);
}

#[test]
fn the_drives_cache_gets_a_quarter_of_the_background_data_while_an_fsync_runs() {
    for (is_running, until_us) in [(false, 47_000), (true, 71_750)] {
        let mut t = rewriting();
        let first = t.caused(1, Op::Write, 0, 8 * 400);
        t.table.sends(first, Reason::NewSweep);
        t.table.at(40);
        t.table.complete(first);
        if is_running {
            assert_eq!(t.fsync(0, 1).1, Verdict::Proceed);
        }
        t.caused(1, Op::Write, 8 * 400, 8 * 400);
        t.table.holds(HoldReason::DepthLimit, Some(Time::from_nanos(until_us * 1000)));
    }
}

#[test]
fn a_writer_of_small_files_is_not_held_if_transactions_do_not_wait_for_dirty_pages() {
    for waits in [false, true] {
        let mut t = if waits { host() } else { rewriting() };
        let done = t.caused(1, Op::Write, 0, 800);
        t.table.sends(done, Reason::NewSweep);
        t.table.at(10);
        t.table.complete(done); // 100 pages in 10 ms
        t.caused(1, Op::Write, 5000, 8 * 400);
        let verdict = if waits { Verdict::Hold } else { Verdict::Proceed };
        assert_eq!(t.write(1, 8).1, verdict);
        t.dirty(1, 8, 0, 100);
        assert_eq!(t.write(1, 8).1, verdict);
        t.dirty(1, 8, 100, 1);
        assert_eq!(t.write(1, 8).1, Verdict::Hold);
        t.submit(1, 8, 0, 101);
        assert_eq!(t.write(1, 8).1, Verdict::Hold, "a large file without dirty pages");
    }
}

#[test]
fn the_drives_cache_gets_no_more_background_data_than_an_fsync_can_wait_for() {
    let mut t = host();
    let first = t.caused(1, Op::Write, 0, 8 * 400);
    t.table.sends(first, Reason::NewSweep);
    t.table.at(40);
    t.table.complete(first);
    let second = t.caused(1, Op::Write, 8 * 400, 8 * 400);
    t.table.holds(HoldReason::DepthLimit, Some(at_ms(47))); // 400 pages take 40 ms, of which 33 are allowed
    t.table.at(47).sends(second, Reason::NewSweep);
    t.table.at(87);
    t.table.complete(second);
    let third = t.caused(1, Op::Write, 8 * 800, 8 * 400);
    t.table.holds(HoldReason::DepthLimit, Some(at_ms(94)));
    let urgent = sync_write(&mut t, 0, 900_000);
    t.table.serves(urgent, Reason::Urgent);
    let read = t.caused(1, Op::Read, 100, 8);
    t.table.serves(read, Reason::NewSweep);
    assert!(matches!(t.table.next(), Decision::Hold(_)));
    let (call, _) = t.fsync(0, 1);
    t.returns(call);
    t.table.sends(third, Reason::NewSweep); // the cache is empty
    t.table.at(127);
    t.table.complete(third);
    t.table.at(2000);
    let (fourth, fifth) =
        (t.caused(1, Op::Write, 8 * 1200, 8 * 400), t.caused(1, Op::Write, 8 * 2000, 8 * 400));
    t.table.sends(fourth, Reason::NewSweep); // no account with a deadline is active
    let (call, _) = t.fsync(0, 1);
    t.returns(call);
    assert!(matches!(t.table.next(), Decision::Hold(_)), "the device has 400 pages");
    t.table.at(2040);
    t.table.complete(fourth);
    t.table.at(2060).sends(fifth, Reason::Batch);
}

#[test]
fn only_background_data_is_kept_out_of_the_drives_cache() {
    for (account, is_held) in [(0, false), (1, true)] {
        let mut t = host();
        let first = t.caused(1, Op::Write, 0, 8 * 400);
        t.table.sends(first, Reason::NewSweep);
        t.table.at(40);
        t.table.complete(first);
        t.caused(account, Op::Write, 8 * 400, 8 * 400);
        assert_eq!(matches!(t.table.next(), Decision::Hold(_)), is_held, "account {account}");
    }
}

/// A drive that orders its own queue would serve nearer requests first.
#[test]
fn a_drive_that_keeps_a_request_gets_no_others_while_an_account_has_a_deadline() {
    for (has_deadline, ms, is_held) in [(true, 25, true), (true, 24, false), (false, 25, false)] {
        let deadline = has_deadline.then(|| Span::from_millis(100));
        let terms = Terms { fsync_deadline: deadline, ..Terms::default() };
        let mut t = Host::new(SplitDeadline::default()).accounts(&[terms, Terms::default()]);
        t.table.depth = 4;
        let kept = t.caused(1, Op::Read, 500_000, 8);
        t.table.sends(kept, Reason::NewSweep);
        t.table.at(ms);
        t.caused(1, Op::Read, 100, 8);
        assert_eq!(matches!(t.table.next(), Decision::Hold(_)), is_held, "{has_deadline}, {ms} ms");
    }
}

/// Reads wait for it.
#[test]
fn a_write_whose_turn_it_is_beside_reads_is_not_delayed_for_the_drives_cache() {
    let mut t = host();
    for name in ["fifo_batch", "writes_starved"] {
        t.table.scheduler.tune(name, elevator::Value::Count(1)).unwrap();
    }
    let first = t.caused(1, Op::Write, 0, 8 * 400);
    t.table.sends(first, Reason::NewSweep);
    t.table.at(40);
    t.table.complete(first);
    let second = t.caused(1, Op::Write, 8 * 400, 8 * 400);
    t.table.holds(HoldReason::DepthLimit, Some(at_ms(47)));
    let read = t.caused(1, Op::Read, 900_000, 8);
    t.caused(1, Op::Read, 500_000, 8);
    assert_eq!(t.table.dispatches(), read);
    t.table.complete(read);
    assert_eq!(t.table.dispatches(), second);
}

#[test]
fn rewritten_pages_do_not_count_before_other_writers() {
    let mut t = rewriting();
    let done = t.caused(1, Op::Write, 0, 800);
    t.table.at(0);
    t.table.sends(done, Reason::NewSweep);
    t.table.at(10);
    t.table.complete(done); // 100 pages in 10 ms; in the drive's cache for the next 10
    t.table.at(20);
    assert_eq!(t.write(1, 8).1, Verdict::Proceed, "1500 pages would take 150 ms");
    t.dirty(1, 8, 0, 331);
    assert_eq!(t.write(1, 8).1, Verdict::Hold);
}

#[test]
fn a_file_without_dirty_pages_is_not_held_because_of_those_of_others() {
    let mut t = host();
    let done = t.caused(1, Op::Write, 0, 800);
    t.table.sends(done, Reason::NewSweep);
    t.table.at(10);
    t.table.complete(done);
    t.table.at(20);
    t.dirty(1, 7, 0, 900);
    assert_eq!(t.write(1, 7).1, Verdict::Hold);
    assert_eq!(t.write(1, 8).1, Verdict::Proceed, "its own writeback would not end the wait");
    t.dirty(1, 8, 0, 1);
    assert_eq!(t.write(1, 8).1, Verdict::Hold);
    t.caused(1, Op::Write, 5000, 8 * 331);
    assert_eq!(t.write(1, 9).1, Verdict::Hold, "what is queued ends by itself");
}

#[test]
fn data_of_an_account_that_gets_or_loses_its_deadline_counts_by_what_it_has_now() {
    let mut t = host();
    let done = t.caused(1, Op::Write, 0, 800);
    t.table.sends(done, Reason::NewSweep);
    t.table.at(10);
    t.table.complete(done); // 100 pages in 10 ms
    t.table.at(20);
    let now = t.table.now;
    let other = t.caused(1, Op::Write, 5000, 8 * 400);
    t.dirty(1, 7, 0, 400);
    assert_eq!(t.write(1, 9).1, Verdict::Hold);
    let deadline = Terms { fsync_deadline: Some(Span::from_millis(100)), ..Terms::default() };
    t.split().account(now, Account(1), deadline);
    t.split().account(now, Account(2), Terms::default());
    t.split().causes(CauseSet(2), &[Account(2)]);
    t.dirty(2, 9, 0, 1);
    assert_eq!(t.write(2, 9).1, Verdict::Proceed, "no data of account 1 counts");
    t.table.sends(other, Reason::NewSweep);
    t.table.at(30);
    t.table.complete(other);
    t.submit(1, 7, 0, 400);
    t.split().account(now, Account(1), Terms::default());
    assert_eq!(t.write(1, 9).1, Verdict::Proceed, "all of it is written");
}

#[test]
fn direct_writes_without_a_deadline_are_not_part_of_a_transaction_and_few_of_them_are_in_the_device() {
    let mut t = host();
    let first = t.writes_directly(1, 0);
    t.table.sends(first, Reason::NewSweep);
    t.table.at(20);
    t.table.complete(first); // 8 sectors in 20 ms
    t.table.at(40);
    let (second, third) = (t.writes_directly(1, 500_000), t.writes_directly(1, 900_000));
    t.table.sends(second, Reason::NewSweep);
    let (call, _) = t.fsync(0, 1);
    let data = t.caused(1, Op::Write, 700_000, 8);
    t.table.sends(data, Reason::Urgent); // data of the page cache may be in the transaction
    assert!(matches!(t.table.next(), Decision::Hold(_)));
    t.table.at(60);
    t.table.complete(data);
    t.table.complete(second);
    t.returns(call);
    t.table.sends(third, Reason::Batch);
    let more = [t.writes_directly(1, 100_000), t.writes_directly(1, 200_000)];
    more.into_iter()
        .for_each(|id| t.table.sends(id, if id == more[0] { Reason::NewSweep } else { Reason::Batch }));
    let last = t.writes_directly(1, 300_000);
    assert!(matches!(t.table.next(), Decision::Hold(_)), "24 sectors take 40 ms, of which 33 are allowed");
    let own = t.writes_directly(0, 400_000);
    t.table.sends(own, Reason::Urgent);
    t.table.at(80);
    [own, third, more[0], more[1]].into_iter().for_each(|id| t.table.complete(id));
    t.table.at(120).sends(last, Reason::NewSweep);
}
