//! The checker detects violations: for each of its properties a sequence of events that violates only this property.

use dwell_elevator::check::{Checker, LONGEST_HOLD};
use dwell_elevator::queue::{Barriers, Cache, Event, Limits, Observer, Options, SwitchReport, Token};
use dwell_elevator::{
    CauseSet, Flags, Hold, HoldReason, Op, Outcome, Priority, PriorityClass, Reason, Request, RequestId,
    Sector, Sectors, Side, Span, Time, Wake,
};

/// Passes a sequence of events to a checker, one per line, a millisecond apart.
struct Events {
    checker: Checker,
    now: Time,
    queued: u32,
    in_flight: u32,
}

const READ: Flags =
    Flags { sync: false, meta: false, ahead: false, fua: false, preflush: false, direct: false };
const FUA: Flags = Flags { fua: true, ..READ };
const PREFLUSH: Flags = Flags { preflush: true, ..READ };

/// A request with this id and length, whose position is derived from its id.
fn request(id: u32, sectors: u32) -> Request {
    Request {
        id: RequestId(id),
        serial: u64::from(id),
        op: Op::Write,
        start: Sector(u64::from(id) * 8),
        sectors: Sectors(sectors),
        flags: READ,
        priority: Priority::default(),
        process: None,
        causes: None,
        arrived: Time::ZERO,
    }
}

fn flush() -> Request {
    Request { op: Op::Flush, start: Sector(0), ..request(900, 0) }
}

fn hold(until: Option<Span>, wake: Wake) -> Hold {
    Hold { until: until.map(|until| Time::ZERO + until), wake, reason: HoldReason::AwaitProcess }
}

impl Events {
    fn of(options: Options) -> Self {
        Self { checker: Checker::new(&options), now: Time::ZERO, queued: 0, in_flight: 0 }
    }

    fn event(&mut self, event: &Event<'_>) -> &mut Self {
        self.now += Span::from_millis(1);
        self.checker.event(self.now, event);
        self
    }

    /// Submits with the number and position of the request.
    fn submit(&mut self, r: &Request, flags: Flags) -> &mut Self {
        let &Request { op, start, sectors, priority, process, causes, .. } = r;
        let token = Token(u64::from(r.id.0));
        self.event(&Event::Submitted { token, op, start, sectors, flags, priority, process, causes })
    }

    fn carry(&mut self, r: &Request) -> &mut Self {
        self.event(&Event::Carried(Token(u64::from(r.id.0)), r))
    }

    fn insert(&mut self, r: &Request) -> &mut Self {
        self.queued += 1;
        self.event(&Event::Inserted(r))
    }

    fn come(&mut self, r: &Request) -> &mut Self {
        self.submit(r, r.flags).carry(r).insert(r)
    }

    fn send(&mut self, r: &Request, reason: Reason) -> &mut Self {
        self.queued = self.queued.saturating_sub(u32::from(reason != Reason::GivenBack && r.op != Op::Flush));
        self.in_flight += 1;
        let (queued, in_flight) = (self.queued, self.in_flight);
        self.event(&Event::Dispatched { request: r, reason, queued, in_flight })
    }

    fn end(&mut self, r: &Request, outcome: Outcome) -> &mut Self {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.event(&Event::Completed { request: r, outcome, dispatched: self.now })
    }

    fn finish(&mut self, r: &Request, outcome: Outcome) -> &mut Self {
        self.event(&Event::Finished(Token(u64::from(r.id.0)), outcome))
    }

    fn serve(&mut self, r: &Request) -> &mut Self {
        self.send(r, Reason::FirstCome).end(r, Outcome::Done).finish(r, Outcome::Done)
    }

    fn merge(&mut self, r: &Request, into: &Request, side: Side) -> &mut Self {
        self.submit(r, r.flags).event(&Event::Merged(Token(u64::from(r.id.0)), into, side))
    }

    fn held(&mut self, hold: Hold) -> &mut Self {
        let (queued, in_flight) = (self.queued, self.in_flight);
        self.event(&Event::Held { hold, queued, in_flight })
    }
}

/// Ends a sequence of one line.
fn done(_: &mut Events) {}

/// Passes a sequence to a checker of a queue with these options; returns the first violation.
fn found(options: Options, events: impl FnOnce(&mut Events)) -> Option<String> {
    let mut outcome = Events::of(options);
    events(&mut outcome);
    outcome.checker.finish();
    outcome.checker.violations().first().cloned()
}

#[track_caller]
fn detects_with(options: Options, words: &str, events: impl FnOnce(&mut Events)) {
    let found = found(options, events);
    assert!(found.as_ref().is_some_and(|found| found.contains(words)), "expected '{words}', found {found:?}");
}

#[track_caller]
fn detects(words: &str, events: impl FnOnce(&mut Events)) {
    detects_with(Options::default(), words, events);
}

#[test]
fn a_valid_sequence_has_no_violation() {
    let (a, b, c) = (request(0, 8), request(1, 8), request(2, 8));
    let (two, three) = (request(0, 16), request(0, 24));
    let found = found(Options::default(), |s| {
        s.come(&a).come(&c).merge(&b, &two, Side::Back);
        s.queued -= 1;
        s.event(&Event::Absorbed(&three, &c)).held(hold(Some(Span::from_millis(20)), Wake::Timer));
        s.send(&three, Reason::FirstCome).end(&three, Outcome::GivenBack);
        s.send(&three, Reason::GivenBack).end(&three, Outcome::Failed);
        s.finish(&a, Outcome::Failed).finish(&b, Outcome::Failed).finish(&c, Outcome::Failed);
        s.submit(&flush(), READ).send(&flush(), Reason::Flush).end(&flush(), Outcome::Done);
        s.finish(&flush(), Outcome::Done).event(&Event::Idle { queued: 0 });
    });
    assert_eq!(found, None);
}

#[test]
fn lost_and_duplicate_submissions_are_detected() {
    let (a, b) = (request(0, 8), request(5, 8));
    detects("never finished", |s| done(s.come(&a)));
    detects("submitted while in use", |s| done(s.submit(&a, READ).submit(&a, READ)));
    detects("carried twice", |s| done(s.come(&a).carry(&a)));
    detects("was not submitted", |s| done(s.carry(&a)));
    detects("used again while alive", |s| {
        s.come(&a).submit(&b, READ).event(&Event::Carried(Token(5), &Request { id: a.id, ..b }));
    });
    detects("inserted twice", |s| done(s.come(&a).event(&Event::Inserted(&a))));
    detects("inserted twice", |s| done(s.event(&Event::Inserted(&a))));
    detects("dispatched twice", |s| done(s.come(&a).send(&a, Reason::FirstCome).send(&a, Reason::FirstCome)));
    detects("dispatched twice", |s| done(s.come(&a).send(&a, Reason::FirstCome).send(&a, Reason::GivenBack)));
    detects("before its insertion", |s| done(s.submit(&a, READ).carry(&a).send(&a, Reason::FirstCome)));
    detects("does not live", |s| done(s.send(&a, Reason::FirstCome)));
    detects("not in the device", |s| done(s.come(&a).end(&a, Outcome::Done)));
    detects("not in the device", |s| done(s.come(&a).end(&a, Outcome::GivenBack)));
    detects("finished twice", |s| done(s.come(&a).serve(&a).finish(&a, Outcome::Done)));
    detects("without being served", |s| done(s.come(&a).finish(&a, Outcome::Done)));
}

#[test]
fn a_request_that_differs_from_its_submission_is_detected() {
    let (a, b, far) = (request(0, 8), request(1, 8), request(9, 8));
    let both = request(0, 16);
    detects("does not carry the operation", |s| done(s.submit(&a, READ).carry(&request(0, 16))));
    detects("does not carry the operation", |s| done(s.submit(&a, FUA).carry(&a)));
    detects("exactly its parts", |s| done(s.come(&a).send(&both, Reason::FirstCome)));
    detects("may not be merged", |s| done(s.come(&a).merge(&far, &both, Side::Back)));
    detects("may not be merged", |s| done(s.come(&a).merge(&b, &both, Side::Front)));
    detects("may not be merged", |s| {
        done(s.come(&a).send(&a, Reason::FirstCome).merge(&b, &both, Side::Back))
    });
    let read = Request { op: Op::Read, ..b };
    detects("may not be merged", |s| done(s.come(&a).merge(&read, &both, Side::Back)));
    detects("may not absorb", |s| done(s.come(&a).come(&far).event(&Event::Absorbed(&both, &far))));
    detects("may not absorb", |s| {
        s.come(&a).submit(&b, READ).carry(&b).event(&Event::Absorbed(&both, &b));
    });
    detects("may not absorb", |s| {
        s.come(&a).send(&a, Reason::FirstCome).come(&b).event(&Event::Absorbed(&both, &b));
    });
    detects("does not live", |s| done(s.come(&a).event(&Event::Absorbed(&both, &b))));
    detects("does not live", |s| done(s.come(&b).event(&Event::Absorbed(&both, &b))));
    detects("does not live", |s| done(s.merge(&b, &both, Side::Back)));
}

#[test]
fn growth_beyond_the_limits_or_of_ordered_requests_is_detected() {
    let (a, b, both) = (request(0, 8), request(1, 8), request(0, 16));
    let grows = |s: &mut Events| done(s.come(&a).merge(&b, &both, Side::Back));
    detects_with(Options { max_sectors: Sectors(15), ..Options::default() }, "may not have grown", grows);
    detects_with(Options { merges: false, ..Options::default() }, "may not have grown", grows);
    for flags in [FUA, PREFLUSH] {
        let ordered = Request { flags, ..b };
        detects("may not have grown", |s| done(s.come(&a).merge(&ordered, &both, Side::Back)));
    }
    let options = Options { max_sectors: Sectors(15), ..Options::default() };
    detects_with(options, "may not have grown", |s| {
        done(s.come(&a).come(&b).event(&Event::Absorbed(&both, &b)))
    });
}

#[test]
fn growth_across_priorities_or_causes_or_beyond_the_segments_is_detected() {
    let (a, b, both) = (request(0, 8), request(1, 8), request(0, 16));
    let real_time = Priority { class: PriorityClass::RealTime, ..Priority::default() };
    for other in [Request { priority: real_time, ..b }, Request { causes: Some(CauseSet(1)), ..b }] {
        detects("may not have grown", |s| done(s.come(&a).merge(&other, &both, Side::Back)));
        detects("may not have grown", |s| {
            done(s.come(&a).come(&other).event(&Event::Absorbed(&both, &other)))
        });
        detects("does not carry", |s| done(s.submit(&b, READ).event(&Event::Carried(Token(1), &other))));
    }
    let one = Options { max_segments: 1, ..Options::default() };
    detects_with(one, "may not have grown", |s| done(s.come(&a).merge(&b, &both, Side::Back)));
}

#[test]
fn exceeded_limits_are_detected() {
    let requests = [0, 2, 4, 6].map(|id| request(id, 8));
    let limits = Limits { nr_requests: 2, batch_requests: 0, batch_time: Span::ZERO };
    detects_with(Options { limits, ..Options::default() }, "with room for 3", |s| {
        requests.iter().for_each(|r| done(s.come(r)));
    });
    detects_with(Options { depth: 1, ..Options::default() }, "in a device that takes 1", |s| {
        requests.iter().for_each(|r| done(s.come(r).send(r, Reason::FirstCome)));
    });
    detects("2 queued and 1 in flight, of 0 and 1", |s| {
        s.come(&requests[0]);
        s.queued += 2;
        s.send(&requests[0], Reason::FirstCome);
    });
    detects("0 queued and 0 in flight, of 1 and 0", |s| {
        done(s.come(&requests[0]).event(&Event::Idle { queued: 0 }))
    });
}

#[test]
fn invalid_waits_are_detected() {
    let a = request(0, 8);
    let soon = Some(Span::from_millis(30));
    detects("returned idle", |s| done(s.come(&a).event(&Event::Idle { queued: 1 })));
    detects("with nothing queued", |s| done(s.held(hold(soon, Wake::Timer))));
    detects("without end", |s| done(s.come(&a).held(hold(None, Wake::Timer))));
    detects("a time that has passed", |s| done(s.come(&a).held(hold(Some(Span::ZERO), Wake::Timer))));
    detects("waits for 10", |s| {
        done(s.come(&a).held(hold(Some(LONGEST_HOLD + Span::from_secs(1)), Wake::External)))
    });
    detects("nothing in flight", |s| done(s.come(&a).held(hold(None, Wake::Completion))));
    detects("longer than the policy's bound", |s| {
        s.checker.set_bound(Some(Span::from_micros(999)));
        s.come(&a).send(&a, Reason::FirstCome);
    });
    detects("time ran backwards", |s| {
        s.come(&a);
        s.now = Time::ZERO;
        s.send(&a, Reason::FirstCome);
    });
}

#[test]
fn a_wait_of_the_greatest_length_is_valid() {
    let a = request(0, 8);
    let until = |until| move |s: &mut Events| done(s.come(&a).held(hold(Some(until), Wake::Timer)).serve(&a));
    // The hold is decided 4 ms after the start.
    let longest = LONGEST_HOLD + Span::from_millis(4);
    assert_eq!(found(Options::default(), until(longest)), None);
    detects("waits for 10", until(longest + Span::from_nanos(1)));
}

#[test]
fn the_time_of_flushes_and_of_requests_given_back_does_not_count_as_waiting() {
    let (a, b) = (request(0, 8), request(5, 8));
    let bounded = |bound, events: &dyn Fn(&mut Events)| {
        found(Options::default(), |s| {
            s.checker.set_bound(Some(Span::from_millis(bound)));
            events(s);
        })
    };
    // Inserted at 3 ms, dispatched at 6 ms, a flush of 1 ms in between.
    let behind_flush = |s: &mut Events| {
        done(s.come(&a).send(&flush(), Reason::Flush).end(&flush(), Outcome::Done).serve(&a));
    };
    assert_eq!(bounded(2, &behind_flush), None);
    assert!(bounded(1, &behind_flush).is_some_and(|found| found.contains("waited 2 ms")));
    // Inserted at 6 ms, dispatched at 12 ms, 1 ms of the other request's device time in between.
    let behind_given_back = |s: &mut Events| {
        s.come(&a).come(&b).send(&a, Reason::FirstCome).end(&a, Outcome::GivenBack);
        s.send(&a, Reason::GivenBack).end(&a, Outcome::Done).finish(&a, Outcome::Done).serve(&b);
    };
    assert_eq!(bounded(5, &behind_given_back), None);
    assert!(bounded(4, &behind_given_back).is_some_and(|found| found.contains("waited 5 ms")));
}

#[test]
fn all_violations_are_counted_and_the_first_twenty_kept() {
    let mut events = Events::of(Options::default());
    (0..25).for_each(|id| done(events.carry(&request(id, 8))));
    assert_eq!((events.checker.count(), events.checker.violations().len()), (25, 20));
    assert!(events.checker.violations()[19].contains("Token(19)"), "{:?}", events.checker.violations());
}

#[test]
fn the_digest_depends_on_time_kind_and_subject_of_each_event() {
    let digest = |events: &dyn Fn(&mut Events)| {
        let mut outcome = Events::of(Options::default());
        events(&mut outcome);
        outcome.checker.digest()
    };
    let (a, b) = (request(0, 8), request(5, 8));
    let digests = [
        digest(&|_| {}),
        digest(&|s| done(s.come(&a))),
        digest(&|s| done(s.come(&b))),
        digest(&|s| done(s.come(&a).send(&a, Reason::FirstCome))),
        digest(&|s| done(s.come(&a).send(&a, Reason::Expired))),
        digest(&|s| done(s.come(&a).held(hold(Some(Span::from_millis(9)), Wake::Timer)))),
        digest(&|s| done(s.come(&a).held(hold(Some(Span::from_millis(8)), Wake::Timer)))),
        digest(&|s| {
            s.now += Span::from_nanos(1);
            s.come(&a);
        }),
    ];
    let distinct: std::collections::HashSet<u64> = digests.into_iter().collect();
    assert_eq!(distinct.len(), digests.len(), "{digests:?}");
    assert_eq!(digest(&|s| done(s.come(&a))), digests[1]);
}

#[test]
fn a_wrong_outcome_is_detected() {
    let a = request(0, 8);
    let outcome = |device, outcome| {
        move |s: &mut Events| done(s.come(&a).send(&a, Reason::FirstCome).end(&a, device).finish(&a, outcome))
    };
    detects("the device failed it", outcome(Outcome::Failed, Outcome::Done));
    detects("which is not its outcome", outcome(Outcome::Done, Outcome::Failed));
    detects("which is not its outcome", outcome(Outcome::Done, Outcome::GivenBack));
    let moved = |moved, in_flight| SwitchReport { moved, in_flight, drained_for: Span::ZERO };
    for wrong in [moved(0, 0), moved(1, 1)] {
        detects("queued requests and 0 in flight", |s| done(s.come(&a).event(&Event::Switched(wrong))));
    }
}

#[test]
fn missing_durability_is_detected() {
    let flush = flush();
    let fua = Request { flags: FUA, ..request(0, 8) };
    let preflush = Request { flags: PREFLUSH, ..request(0, 8) };
    let no_fua = Options { cache: Cache::WriteBack { fua: false }, ..Options::default() };
    let flushed = |s: &mut Events| done(s.send(&flush, Reason::Flush).end(&flush, Outcome::Done));
    detects("without a flush behind it", |s| done(s.submit(&flush, READ).finish(&flush, Outcome::Done)));
    detects("without a flush behind it", |s| {
        s.send(&flush, Reason::Flush)
            .submit(&flush, READ)
            .end(&flush, Outcome::Done)
            .finish(&flush, Outcome::Done);
    });
    detects("without a flush behind it", |s| {
        s.submit(&flush, READ)
            .send(&flush, Reason::Flush)
            .end(&flush, Outcome::Failed)
            .finish(&flush, Outcome::Done);
    });
    detects_with(no_fua, "without a flush behind it", |s| {
        s.come(&fua);
        flushed(s);
        s.serve(&fua);
    });
    detects("overtook the flush", |s| {
        flushed(s);
        s.come(&preflush).serve(&preflush);
    });
    detects("while another one runs", |s| done(s.send(&flush, Reason::Flush).send(&flush, Reason::Flush)));
    detects("none was sent", |s| {
        s.in_flight = 1;
        s.end(&flush, Outcome::Done);
    });
}

#[test]
fn crossing_a_barrier_is_detected() {
    let (a, b) = (request(0, 8), request(5, 8));
    let fua = Request { flags: FUA, ..request(7, 8) };
    let drain = Options { barriers: Barriers::Drain, ..Options::default() };
    detects_with(drain, "passed", |s| done(s.come(&a).come(&fua)));
    detects_with(drain, "passed", |s| done(s.submit(&fua, FUA).come(&a)));
    detects_with(drain, "passed", |s| done(s.submit(&flush(), READ).come(&a)));
    detects_with(drain, "requests alive", |s| done(s.come(&a).send(&flush(), Reason::Flush)));
    assert_eq!(found(drain, |s| done(s.come(&a).come(&b).serve(&a).serve(&b).come(&fua).serve(&fua))), None);
    let alone = Options { barriers: Barriers::Alone, ..Options::default() };
    detects_with(alone, "shares the device", |s| {
        s.come(&a).send(&a, Reason::FirstCome).send(&flush(), Reason::Flush);
    });
    detects_with(alone, "shares the device", |s| {
        s.send(&flush(), Reason::Flush).come(&a).send(&a, Reason::FirstCome);
    });
}
