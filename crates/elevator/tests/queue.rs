//! Tables of submissions and the expected requests of the queue.

mod common;

use common::{Fifo, Host};
use dwell_elevator::queue::{
    Accepted, Barriers, Cache, Limits, Notice, Options, Plugging, Queue, Step, Submission, SwitchMode, Token,
};
use dwell_elevator::{
    Capabilities, Decision, Flags, Growth, Load, Op, Outcome, Priority, PriorityClass, Reason, Request,
    RequestId, Scheduler, Sector, Sectors, Span, Time, View,
};

fn plain() -> Options {
    Options { depth: 1, plugging: Plugging::None, ..Options::default() }
}

#[test]
fn a_queue_may_move_to_another_thread() {
    fn is_send<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    is_send::<Queue>();
    is_shared::<std::sync::Mutex<Queue>>();
}

#[test]
#[should_panic(expected = "depth 0")]
fn a_queue_without_tags_is_refused() {
    let _ = Queue::new(Options { depth: 0, ..Options::default() }, Box::<Fifo>::default());
}

#[test]
#[should_panic(expected = "Token(7): Read of")]
#[cfg(debug_assertions)]
fn a_read_of_nothing_is_refused() {
    let _ = Host::new(plain()).submit(7, Op::Read, 0, 0);
}

/// Submits (op, start, sectors); returns the dispatched requests.
fn merged(options: Options, submissions: &[(Op, u64, u32)]) -> Vec<(Op, u64, u32)> {
    let mut host = Host::new(options);
    for (token, &(op, start, sectors)) in submissions.iter().enumerate() {
        assert_eq!(host.submit(token as u64, op, start, sectors), Accepted::Queued);
    }
    let served = host.serve_all();
    assert_eq!(host.finished().len(), submissions.len(), "every submission finishes exactly once");
    served
}

#[test]
fn adjacent_requests_become_one() {
    use Op::{Read, Write};
    assert_eq!(merged(plain(), &[(Read, 0, 8), (Read, 8, 8)]), [(Read, 0, 16)], "back merge");
    assert_eq!(merged(plain(), &[(Read, 8, 8), (Read, 0, 8)]), [(Read, 0, 16)], "front merge");
    let bridge = [(Read, 0, 8), (Read, 16, 8), (Read, 8, 8)];
    assert_eq!(merged(plain(), &bridge), [(Read, 0, 24)], "the one in the middle joins its neighbours");
    let back_bridge = [(Write, 16, 8), (Write, 0, 8), (Write, 8, 8)];
    assert_eq!(merged(plain(), &back_bridge), [(Write, 0, 24)]);
    assert_eq!(merged(plain(), &[(Read, 0, 8), (Write, 8, 8)]).len(), 2, "directions do not mix");
    assert_eq!(merged(plain(), &[(Read, 0, 8), (Read, 9, 8)]).len(), 2, "a gap");
    assert_eq!(merged(Options { merges: false, ..plain() }, &[(Read, 0, 8), (Read, 8, 8)]).len(), 2);
}

#[test]
fn a_request_grows_to_its_limits_and_no_further() {
    let most = Options { max_sectors: Sectors(16), ..plain() };
    assert_eq!(merged(most, &[(Op::Read, 0, 8), (Op::Read, 8, 8), (Op::Read, 16, 8)]).len(), 2);
    let segments = Options { max_segments: 2, ..plain() };
    assert_eq!(merged(segments, &[(Op::Read, 0, 8), (Op::Read, 8, 8), (Op::Read, 16, 8)]).len(), 2);
    assert_eq!(merged(segments, &[(Op::Read, 0, 128), (Op::Read, 128, 8)]).len(), 1);
    assert_eq!(
        merged(segments, &[(Op::Read, 0, 129), (Op::Read, 129, 8)]).len(),
        2,
        "more than 64 KiB need two segments"
    );
}

#[test]
fn requests_of_another_priority_or_with_forced_unit_access_stay_apart() {
    let mut host = Host::new(plain());
    let mut urgent = Submission::new(Token(1), Op::Write, Sector(8), Sectors(8));
    urgent.priority = Priority { class: PriorityClass::RealTime, level: 0 };
    let mut durable = Submission::new(Token(2), Op::Write, Sector(16), Sectors(8));
    durable.flags = Flags { fua: true, ..Flags::default() };
    let _ = host.submit(0, Op::Write, 0, 8);
    let _ = host.queue.submit(host.now, urgent);
    let _ = host.queue.submit(host.now, durable);
    assert_eq!(host.serve_all().len(), 3);
}

#[test]
fn a_dispatched_request_takes_no_more() {
    let mut host = Host::new(plain());
    let _ = host.submit(0, Op::Read, 0, 8);
    let ticket = host.dispatch();
    let _ = host.submit(1, Op::Read, 8, 8);
    host.queue.complete(host.now, ticket, Outcome::Done);
    assert_eq!(host.finished(), [0]);
    assert_eq!(host.serve_all(), [(Op::Read, 8, 8)]);
}

#[test]
fn beyond_the_limit_submitters_sleep_and_wake_in_order() {
    let limits = Limits { nr_requests: 2, batch_requests: 0, batch_time: Span::ZERO };
    let mut host = Host::new(Options { limits, ..plain() });
    let accepted: Vec<Accepted> = (0..4).map(|n| host.submit(n, Op::Read, n * 100, 8)).collect();
    assert_eq!(accepted, [Accepted::Queued, Accepted::Queued, Accepted::Asleep, Accepted::Asleep]);
    assert_eq!(
        host.submit(9, Op::Write, 900, 8),
        Accepted::Queued,
        "the other direction has its own account"
    );
    assert_eq!(host.submit(10, Op::Read, 8, 8), Accepted::Queued, "a merge needs no request");
    let ticket = host.dispatch();
    assert_eq!(host.queue.notice(), None, "a dispatched request still counts");
    host.queue.complete(host.now, ticket, Outcome::Done);
    let notices: Vec<Notice> = std::iter::from_fn(|| host.queue.notice()).collect();
    assert!(
        notices.contains(&Notice::Woken(Token(2))) && !notices.contains(&Notice::Woken(Token(3))),
        "{notices:?}"
    );
}

#[test]
fn a_plug_gathers_until_it_is_unplugged_or_full() {
    let mut host = Host::new(Options { plugging: Plugging::Task { most: 3 }, ..plain() });
    host.queue.plug();
    let _ = host.submit(0, Op::Read, 0, 8);
    let _ = host.submit(1, Op::Read, 8, 8);
    let _ = host.submit(2, Op::Read, 100, 8);
    assert_eq!(host.queue.next(host.now, None), Step::Idle, "the scheduler has not received them");
    let _ = host.submit(3, Op::Read, 200, 8);
    assert_eq!(host.queue.queued(), 3, "three requests fill the plug");
    let _ = host.submit(4, Op::Read, 300, 8);
    host.queue.unplug(host.now);
    assert_eq!(host.serve_all().len(), 4);
    assert_eq!(host.finished(), [0, 1, 2, 3, 4]);
}

#[test]
fn a_queue_that_plugs_itself_waits_for_four_requests_or_three_milliseconds() {
    let plugging = Plugging::Queue { threshold: 4, delay: Span::from_millis(3) };
    let mut host = Host::new(Options { plugging, ..plain() });
    let _ = host.submit(0, Op::Read, 0, 8);
    let Step::Wait(hold) = host.queue.next(host.now, None) else { panic!("plugged") };
    assert_eq!(hold.until, Some(Time::from_nanos(3_000_000)));
    host.now = Time::from_nanos(3_000_000);
    assert_eq!(host.serve_all().len(), 1);
    for n in 1..4 {
        let _ = host.submit(n, Op::Read, n * 100, 8);
        assert!(matches!(host.queue.next(host.now, None), Step::Wait(_)));
    }
    let _ = host.submit(4, Op::Read, 400, 8);
    assert_eq!(host.serve_all().len(), 4);
    let _ = host.submit(5, Op::Read, 500, 8);
    assert!(matches!(host.queue.next(host.now, None), Step::Wait(_)));
    host.queue.unplug(host.now);
    assert_eq!(host.serve_all().len(), 1, "or for a submitter that sleeps until the completion");
}

#[test]
fn a_flush_covers_what_had_completed_and_later_ones_share_the_next() {
    let mut host = Host::new(plain());
    let _ = host.submit(0, Op::Flush, 0, 0);
    let first = host.dispatch();
    assert_eq!(host.queue.request(&first).op, Op::Flush);
    let _ = host.submit(1, Op::Flush, 0, 0);
    let _ = host.submit(2, Op::Flush, 0, 0);
    host.queue.complete(host.now, first, Outcome::Done);
    assert_eq!(host.finished(), [0], "the running flush may not cover later writes");
    assert_eq!(host.serve_all(), [(Op::Flush, 0, 0)]);
    assert_eq!(host.finished(), [1, 2]);
}

#[test]
fn submissions_that_share_a_flush_continue_in_their_order() {
    let mut host = Host::new(plain());
    let write = |host: &mut Host, token: u64| {
        let mut write = Submission::new(Token(token), Op::Write, Sector(token * 100), Sectors(8));
        write.flags = Flags { preflush: true, ..Flags::default() };
        let _ = host.queue.submit(host.now, write);
    };
    for token in [1, 2] {
        write(&mut host, token);
    }
    let flush = host.dispatch();
    write(&mut host, 3);
    host.queue.complete(host.now, flush, Outcome::GivenBack);
    let (flush, data) = ((Op::Flush, 0, 0), |token: u64| (Op::Write, token * 100, 8));
    assert_eq!(host.serve_all(), [flush, data(1), data(2), data(3)]);
    assert_eq!(host.finished(), [1, 2, 3]);
}

#[test]
fn a_failed_flush_fails_every_submission_that_waits_for_it() {
    let mut host = Host::new(plain());
    let mut write = Submission::new(Token(0), Op::Write, Sector(0), Sectors(8));
    write.flags = Flags { preflush: true, ..Flags::default() };
    let _ = host.queue.submit(host.now, write);
    let flush = host.dispatch();
    host.queue.complete(host.now, flush, Outcome::Failed);
    let Some(Notice::Finished(finished)) = host.queue.notice() else { panic!("finished") };
    assert_eq!(finished.outcome, Outcome::Failed);
    assert_eq!(host.queue.next(host.now, None), Step::Idle, "its data is not written");
}

#[test]
fn forced_unit_access_becomes_a_flush_behind_where_the_device_lacks_it() {
    let mut write = Submission::new(Token(0), Op::Write, Sector(0), Sectors(8));
    write.flags = Flags { fua: true, preflush: true, ..Flags::default() };
    let (flush, data) = ((Op::Flush, 0, 0), (Op::Write, 0, 8));
    for (cache, expected) in [
        (Cache::WriteBack { fua: false }, vec![flush, data, flush]),
        (Cache::WriteBack { fua: true }, vec![flush, data]),
        (Cache::WriteThrough, vec![data]),
    ] {
        let mut host = Host::new(Options { cache, ..plain() });
        let _ = host.queue.submit(host.now, write);
        assert_eq!(host.serve_all(), expected, "{cache:?}");
        assert_eq!(host.finished(), [0]);
    }
}

#[test]
fn a_draining_flush_lets_nothing_cross() {
    let mut host = Host::new(Options { barriers: Barriers::Drain, depth: 4, ..plain() });
    let _ = host.submit(0, Op::Write, 0, 8);
    let _ = host.submit(1, Op::Flush, 0, 0);
    let _ = host.submit(2, Op::Write, 100, 8);
    let _ = host.submit(3, Op::Flush, 0, 0);
    let before = host.dispatch();
    assert_eq!(
        host.queue.next(host.now, None),
        Step::Idle,
        "neither the flush nor later requests may be dispatched yet"
    );
    host.queue.complete(host.now, before, Outcome::Done);
    let flush = host.dispatch();
    assert_eq!(host.queue.next(host.now, None), Step::Idle, "later requests wait for the flush");
    host.queue.complete(host.now, flush, Outcome::Done);
    assert_eq!(host.serve_all(), [(Op::Write, 100, 8), (Op::Flush, 0, 0)]);
    assert_eq!(host.finished(), [0, 1, 2, 3]);
}

#[test]
fn a_draining_barrier_on_an_idle_queue_goes_at_once() {
    let fua = Flags { fua: true, ..Flags::default() };
    for (op, sectors, flags) in [(Op::Flush, 0, Flags::default()), (Op::Write, 8, fua)] {
        let mut host = Host::new(Options { barriers: Barriers::Drain, ..plain() });
        let mut ordered = Submission::new(Token(0), op, Sector(0), Sectors(sectors));
        ordered.flags = flags;
        let _ = host.queue.submit(host.now, ordered);
        let _ = host.submit(1, Op::Read, 0, 8);
        assert_eq!(host.serve_all(), [(op, 0, sectors), (Op::Read, 0, 8)]);
    }
}

#[test]
fn a_device_without_forced_unit_access_gets_a_flush_instead() {
    for (fua, told) in [(true, true), (false, false)] {
        let mut host = Host::new(Options { cache: Cache::WriteBack { fua }, ..plain() });
        let mut write = Submission::new(Token(0), Op::Write, Sector(0), Sectors(8));
        write.flags.fua = true;
        let _ = host.queue.submit(host.now, write);
        let ticket = host.dispatch();
        assert_eq!(host.queue.is_forced(&ticket), told);
    }
}

#[test]
fn a_lone_flush_shares_the_device_with_nothing() {
    let mut host = Host::new(Options { barriers: Barriers::Alone, depth: 4, ..plain() });
    let _ = host.submit(0, Op::Write, 0, 8);
    let before = host.dispatch();
    let _ = host.submit(1, Op::Flush, 0, 0);
    let _ = host.submit(2, Op::Read, 100, 8);
    assert_eq!(host.queue.next(host.now, None), Step::Full, "the flush waits for the write");
    host.queue.complete(host.now, before, Outcome::Done);
    let flush = host.dispatch();
    assert_eq!(host.queue.request(&flush).op, Op::Flush);
    assert_eq!(host.queue.next(host.now, None), Step::Full, "the read waits for the flush");
    host.queue.complete(host.now, flush, Outcome::Done);
    assert_eq!(host.serve_all(), [(Op::Read, 100, 8)]);
    assert_eq!(host.finished(), [0, 1, 2]);
}

#[test]
fn submissions_behind_a_serial_flush_wait_until_it_is_over() {
    let mut host = Host::new(Options { barriers: Barriers::Serial, depth: 4, ..plain() });
    let _ = host.submit(0, Op::Read, 0, 8);
    let _ = host.submit(1, Op::Flush, 0, 0);
    let _ = host.submit(2, Op::Read, 100, 8);
    let _ = host.submit(3, Op::Flush, 0, 0);
    let _ = host.submit(4, Op::Read, 200, 8);
    assert_eq!(host.queue.queued(), 1, "the submission before the flush");
    let first = host.dispatch();
    host.queue.complete(host.now, first, Outcome::Done);
    assert_eq!(host.queue.queued(), 2, "and the one before the second flush");
    let second = host.dispatch();
    host.queue.complete(host.now, second, Outcome::Done);
    assert_eq!(host.serve_all(), [(Op::Read, 0, 8), (Op::Read, 100, 8), (Op::Read, 200, 8)]);
    assert_eq!(host.finished(), [1, 3, 0, 2, 4]);
}

#[test]
fn given_back_requests_are_dispatched_first() {
    let mut host = Host::new(plain());
    let _ = host.submit(0, Op::Read, 0, 8);
    let _ = host.submit(1, Op::Read, 100, 8);
    let ticket = host.dispatch();
    host.queue.complete(host.now, ticket, Outcome::GivenBack);
    assert_eq!(host.serve_all(), [(Op::Read, 0, 8), (Op::Read, 100, 8)]);
    assert_eq!(host.finished(), [0, 1]);
}

#[test]
fn a_switch_loses_nothing_and_reports_the_moved_requests() {
    let mut host = Host::new(plain());
    for n in 0..4 {
        let _ = host.submit(n, Op::Read, n * 100, 8);
    }
    let ticket = host.dispatch();
    let report = host.queue.switch(host.now, Box::<Fifo>::default(), SwitchMode::Transfer).unwrap();
    assert_eq!((report.moved, report.in_flight), (3, 1));
    host.queue.complete(host.now, ticket, Outcome::Done);
    assert_eq!(host.serve_all().len(), 3);
    assert_eq!(host.finished(), [0, 1, 2, 3]);
}

#[test]
fn a_switch_that_drains_holds_new_submissions_until_it_is_done() {
    let mut host = Host::new(plain());
    let _ = host.submit(0, Op::Read, 0, 8);
    assert_eq!(host.queue.switch(host.now, Box::<Fifo>::default(), SwitchMode::Drain), None);
    let _ = host.submit(1, Op::Read, 100, 8);
    let ticket = host.dispatch();
    assert_eq!(host.queue.draining_for(Time::from_nanos(5)), Some(Span::from_nanos(5)));
    host.queue.complete(host.now, ticket, Outcome::Done);
    assert_eq!(host.queue.draining_for(host.now), None);
    assert_eq!(host.serve_all(), [(Op::Read, 100, 8)]);
}

/// Without a request to wait for, the switch is complete at once and returns its report.
#[test]
fn a_switch_that_drains_nothing_is_done_at_once() {
    let mut host = Host::new(plain());
    let report = host.queue.switch(host.now, Box::<Fifo>::default(), SwitchMode::Drain).expect("at once");
    assert_eq!((report.moved, report.in_flight, report.drained_for), (0, 0, Span::ZERO));
    let _ = host.submit(0, Op::Read, 0, 8);
    assert_eq!(host.serve_all(), [(Op::Read, 0, 8)]);
}

#[test]
fn a_ticket_lists_its_submissions_in_sector_order() {
    let mut host = Host::new(plain());
    for (token, start) in [(1, 16), (2, 0), (3, 8), (4, 24)] {
        let _ = host.submit(token, Op::Write, start, 8);
    }
    let ticket = host.dispatch();
    let carried: Vec<(u64, u64)> =
        host.queue.submissions(&ticket).map(|part| (part.token.0, part.start.0)).collect();
    assert_eq!(carried, [(2, 0), (3, 8), (1, 16), (4, 24)]);
    host.queue.complete(host.now, ticket, Outcome::Done);
}

#[test]
fn only_submitters_that_sleep_are_woken() {
    let limits = Limits { nr_requests: 2, batch_requests: 0, batch_time: Span::ZERO };
    let mut host = Host::new(Options { limits, ..plain() });
    let _ = host.submit(0, Op::Read, 0, 8);
    assert_eq!(host.queue.switch(host.now, Box::<Fifo>::default(), SwitchMode::Drain), None);
    let behind: Vec<Accepted> = (1..5).map(|n| host.submit(n, Op::Read, n * 100, 8)).collect();
    assert_eq!(behind, [Accepted::Queued; 4], "behind the switch no submitter has to sleep");
    let mut served = 0;
    while let Step::Dispatch(ticket) = host.queue.next(host.now, None) {
        host.queue.complete(host.now, ticket, Outcome::Done);
        served += 1;
    }
    let notices: Vec<Notice> = std::iter::from_fn(|| host.queue.notice()).collect();
    assert!(notices.iter().all(|notice| matches!(notice, Notice::Finished(_))), "{notices:?}");
    assert_eq!((served, notices.len()), (5, 5));
}

/// Last come, first served.
#[derive(Default)]
struct Lifo(Vec<RequestId>);

impl Scheduler for Lifo {
    fn insert(&mut self, _now: Time, request: &Request) {
        self.0.push(request.id);
    }

    fn merged(&mut self, _now: Time, _request: &Request, _growth: Growth<'_>) {}

    fn next(&mut self, _now: Time, _view: &View<'_>) -> Decision {
        self.0.pop().map_or(Decision::Idle, |id| Decision::Dispatch { id, reason: Reason::FirstCome })
    }

    fn longest_wait(&self, _load: Load) -> Option<Span> {
        None
    }
}

impl Capabilities for Lifo {}

#[test]
fn the_last_requested_switch_prevails() {
    let mut host = Host::new(plain());
    let _ = host.submit(0, Op::Read, 0, 8);
    let ticket = host.dispatch();
    assert_eq!(host.queue.switch(host.now, Box::<Fifo>::default(), SwitchMode::Drain), None);
    let _ = host.submit(1, Op::Read, 100, 8);
    host.queue.switch(host.now, Box::<Lifo>::default(), SwitchMode::Transfer).expect("at once");
    let _ = host.submit(2, Op::Read, 200, 8);
    host.queue.complete(host.now, ticket, Outcome::Done);
    assert_eq!(host.serve_all(), [(Op::Read, 200, 8), (Op::Read, 100, 8)], "last come, first served");
}

#[test]
fn a_queue_that_drains_for_flushes_does_not_drain_for_other_requests() {
    let mut host = Host::new(Options { depth: 4, barriers: Barriers::Drain, ..Options::default() });
    assert_eq!(host.submit(1, Op::Read, 0, 8), Accepted::Queued);
    assert_eq!(host.submit(2, Op::Write, 1000, 8), Accepted::Queued);
    let tickets = [host.dispatch(), host.dispatch()];
    for ticket in tickets {
        host.queue.complete(host.now, ticket, Outcome::Done);
    }
}
