//! What the checker notices: for each of its properties a queue's story that breaks it, and nothing else.

use dwell_elevator::check::{Checker, LONGEST_HOLD};
use dwell_elevator::queue::{Barriers, Cache, Event, Limits, Observer, Options, SwitchReport, Token};
use dwell_elevator::{
    Flags, Hold, HoldReason, Op, Outcome, Priority, Reason, Request, RequestId, Sector, Sectors, Side, Span,
    Time, Wake,
};

/// Tells a checker a story, one event a line; a millisecond passes between them.
struct Story {
    checker: Checker,
    now: Time,
    queued: u32,
    in_flight: u32,
}

const READ: Flags = Flags { sync: false, meta: false, ahead: false, fua: false, preflush: false };
const FUA: Flags = Flags { fua: true, ..READ };
const PREFLUSH: Flags = Flags { preflush: true, ..READ };

/// The request of that name, as long as that, whose place is its name's.
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

impl Story {
    fn of(options: Options) -> Self {
        Self { checker: Checker::new(&options), now: Time::ZERO, queued: 0, in_flight: 0 }
    }

    fn tell(&mut self, event: &Event<'_>) -> &mut Self {
        self.now += Span::from_millis(1);
        self.checker.event(self.now, event);
        self
    }

    /// Submission and request have the same number and place.
    fn submit(&mut self, r: &Request, flags: Flags) -> &mut Self {
        let (token, op, start, sectors) = (Token(u64::from(r.id.0)), r.op, r.start, r.sectors);
        self.tell(&Event::Submitted { token, op, start, sectors, flags, process: None })
    }

    fn carry(&mut self, r: &Request) -> &mut Self {
        self.tell(&Event::Carried(Token(u64::from(r.id.0)), r))
    }

    fn insert(&mut self, r: &Request) -> &mut Self {
        self.queued += 1;
        self.tell(&Event::Inserted(r))
    }

    fn come(&mut self, r: &Request) -> &mut Self {
        self.submit(r, r.flags).carry(r).insert(r)
    }

    fn send(&mut self, r: &Request, reason: Reason) -> &mut Self {
        self.queued = self.queued.saturating_sub(u32::from(reason != Reason::GivenBack && r.op != Op::Flush));
        self.in_flight += 1;
        let (queued, in_flight) = (self.queued, self.in_flight);
        self.tell(&Event::Dispatched { request: r, reason, queued, in_flight })
    }

    fn end(&mut self, r: &Request, outcome: Outcome) -> &mut Self {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.tell(&Event::Completed { request: r, outcome, dispatched: self.now })
    }

    fn finish(&mut self, r: &Request, outcome: Outcome) -> &mut Self {
        self.tell(&Event::Finished(Token(u64::from(r.id.0)), outcome))
    }

    fn serve(&mut self, r: &Request) -> &mut Self {
        self.send(r, Reason::FirstCome).end(r, Outcome::Done).finish(r, Outcome::Done)
    }

    fn merge(&mut self, r: &Request, into: &Request, side: Side) -> &mut Self {
        self.submit(r, r.flags).tell(&Event::Merged(Token(u64::from(r.id.0)), into, side))
    }

    fn held(&mut self, hold: Hold) -> &mut Self {
        let (queued, in_flight) = (self.queued, self.in_flight);
        self.tell(&Event::Held { hold, queued, in_flight })
    }
}

/// For stories of one line.
fn done(_: &mut Story) {}

/// Tells the story to a checker of such a queue, to its end; what it found first.
fn found(options: Options, story: impl FnOnce(&mut Story)) -> Option<String> {
    let mut told = Story::of(options);
    story(&mut told);
    told.checker.finish();
    told.checker.violations().first().cloned()
}

#[track_caller]
fn notices_of(options: Options, words: &str, story: impl FnOnce(&mut Story)) {
    let found = found(options, story);
    assert!(found.as_ref().is_some_and(|found| found.contains(words)), "expected '{words}', found {found:?}");
}

#[track_caller]
fn notices(words: &str, story: impl FnOnce(&mut Story)) {
    notices_of(Options::default(), words, story);
}

#[test]
fn a_story_without_fault_is_not_doubted() {
    let (a, b, c) = (request(0, 8), request(1, 8), request(2, 8));
    let (two, three) = (request(0, 16), request(0, 24));
    let found = found(Options::default(), |s| {
        s.come(&a).come(&c).merge(&b, &two, Side::Back);
        s.queued -= 1;
        s.tell(&Event::Absorbed(&three, &c)).held(hold(Some(Span::from_millis(20)), Wake::Timer));
        s.send(&three, Reason::FirstCome).end(&three, Outcome::GivenBack);
        s.send(&three, Reason::GivenBack).end(&three, Outcome::Failed);
        s.finish(&a, Outcome::Failed).finish(&b, Outcome::Failed).finish(&c, Outcome::Failed);
        s.submit(&flush(), READ).send(&flush(), Reason::Flush).end(&flush(), Outcome::Done);
        s.finish(&flush(), Outcome::Done).tell(&Event::Idle { queued: 0 });
    });
    assert_eq!(found, None);
}

#[test]
fn whatever_is_lost_or_there_twice_is_noticed() {
    let (a, b) = (request(0, 8), request(5, 8));
    notices("never finished", |s| done(s.come(&a)));
    notices("submitted while in use", |s| done(s.submit(&a, READ).submit(&a, READ)));
    notices("carried twice", |s| done(s.come(&a).carry(&a)));
    notices("was not submitted", |s| done(s.carry(&a)));
    notices("used again while alive", |s| {
        s.come(&a).submit(&b, READ).tell(&Event::Carried(Token(5), &Request { id: a.id, ..b }));
    });
    notices("inserted twice", |s| done(s.come(&a).tell(&Event::Inserted(&a))));
    notices("inserted twice", |s| done(s.tell(&Event::Inserted(&a))));
    notices("dispatched twice", |s| done(s.come(&a).send(&a, Reason::FirstCome).send(&a, Reason::FirstCome)));
    notices("dispatched twice", |s| done(s.come(&a).send(&a, Reason::FirstCome).send(&a, Reason::GivenBack)));
    notices("before its insertion", |s| done(s.submit(&a, READ).carry(&a).send(&a, Reason::FirstCome)));
    notices("does not live", |s| done(s.send(&a, Reason::FirstCome)));
    notices("not in the device", |s| done(s.come(&a).end(&a, Outcome::Done)));
    notices("not in the device", |s| done(s.come(&a).end(&a, Outcome::GivenBack)));
    notices("finished twice", |s| done(s.come(&a).serve(&a).finish(&a, Outcome::Done)));
    notices("without being served", |s| done(s.come(&a).finish(&a, Outcome::Done)));
}

#[test]
fn a_request_that_differs_from_its_submission_is_detected() {
    let (a, b, far) = (request(0, 8), request(1, 8), request(9, 8));
    let both = request(0, 16);
    notices("does not carry what", |s| done(s.submit(&a, READ).carry(&request(0, 16))));
    notices("does not carry what", |s| done(s.submit(&a, FUA).carry(&a)));
    notices("exactly its parts", |s| done(s.come(&a).send(&both, Reason::FirstCome)));
    notices("may not be merged", |s| done(s.come(&a).merge(&far, &both, Side::Back)));
    notices("may not be merged", |s| done(s.come(&a).merge(&b, &both, Side::Front)));
    notices("may not be merged", |s| {
        done(s.come(&a).send(&a, Reason::FirstCome).merge(&b, &both, Side::Back))
    });
    let read = Request { op: Op::Read, ..b };
    notices("may not be merged", |s| done(s.come(&a).merge(&read, &both, Side::Back)));
    notices("may not absorb", |s| done(s.come(&a).come(&far).tell(&Event::Absorbed(&both, &far))));
    notices("may not absorb", |s| {
        s.come(&a).submit(&b, READ).carry(&b).tell(&Event::Absorbed(&both, &b));
    });
    notices("may not absorb", |s| {
        s.come(&a).send(&a, Reason::FirstCome).come(&b).tell(&Event::Absorbed(&both, &b));
    });
    notices("does not live", |s| done(s.come(&a).tell(&Event::Absorbed(&both, &b))));
    notices("does not live", |s| done(s.come(&b).tell(&Event::Absorbed(&both, &b))));
    notices("does not live", |s| done(s.merge(&b, &both, Side::Back)));
}

#[test]
fn growth_beyond_the_limits_or_of_ordered_requests_is_detected() {
    let (a, b, both) = (request(0, 8), request(1, 8), request(0, 16));
    let grows = |s: &mut Story| done(s.come(&a).merge(&b, &both, Side::Back));
    notices_of(Options { max_sectors: Sectors(15), ..Options::default() }, "may not have grown", grows);
    notices_of(Options { merges: false, ..Options::default() }, "may not have grown", grows);
    for flags in [FUA, PREFLUSH] {
        let ordered = Request { flags, ..b };
        notices("may not have grown", |s| done(s.come(&a).merge(&ordered, &both, Side::Back)));
    }
    let options = Options { max_sectors: Sectors(15), ..Options::default() };
    notices_of(options, "may not have grown", |s| {
        done(s.come(&a).come(&b).tell(&Event::Absorbed(&both, &b)))
    });
}

#[test]
fn more_than_there_is_room_for_is_noticed() {
    let requests = [0, 2, 4, 6].map(|id| request(id, 8));
    let limits = Limits { nr_requests: 2, batch_requests: 0, batch_time: Span::ZERO };
    notices_of(Options { limits, ..Options::default() }, "with room for 3", |s| {
        requests.iter().for_each(|r| done(s.come(r)));
    });
    notices_of(Options { depth: 1, ..Options::default() }, "in a device that takes 1", |s| {
        requests.iter().for_each(|r| done(s.come(r).send(r, Reason::FirstCome)));
    });
    notices("2 queued and 1 in flight, of 0 and 1", |s| {
        s.come(&requests[0]);
        s.queued += 2;
        s.send(&requests[0], Reason::FirstCome);
    });
    notices("0 queued and 0 in flight, of 1 and 0", |s| {
        done(s.come(&requests[0]).tell(&Event::Idle { queued: 0 }))
    });
}

#[test]
fn an_idle_device_without_a_reason_is_noticed() {
    let a = request(0, 8);
    let soon = Some(Span::from_millis(30));
    notices("says idle", |s| done(s.come(&a).tell(&Event::Idle { queued: 1 })));
    notices("with nothing queued", |s| done(s.held(hold(soon, Wake::Timer))));
    notices("without end", |s| done(s.come(&a).held(hold(None, Wake::Timer))));
    notices("a time that has passed", |s| done(s.come(&a).held(hold(Some(Span::ZERO), Wake::Timer))));
    notices("waits for 10", |s| {
        done(s.come(&a).held(hold(Some(LONGEST_HOLD + Span::from_secs(1)), Wake::External)))
    });
    notices("nothing in flight", |s| done(s.come(&a).held(hold(None, Wake::Completion))));
    notices("longer than the policy's bound", |s| {
        s.checker.set_bound(Some(Span::from_micros(999)));
        s.come(&a).send(&a, Reason::FirstCome);
    });
    notices("time ran backwards", |s| {
        s.come(&a);
        s.now = Time::ZERO;
        s.send(&a, Reason::FirstCome);
    });
}

#[test]
fn a_lie_about_the_device_is_noticed() {
    let a = request(0, 8);
    let told = |device, told| {
        move |s: &mut Story| done(s.come(&a).send(&a, Reason::FirstCome).end(&a, device).finish(&a, told))
    };
    notices("the device failed it", told(Outcome::Failed, Outcome::Done));
    notices("which it was not", told(Outcome::Done, Outcome::Failed));
    notices("which it was not", told(Outcome::Done, Outcome::GivenBack));
    let moved = |moved, in_flight| SwitchReport { moved, in_flight, drained_for: Span::ZERO };
    for wrong in [moved(0, 0), moved(1, 1)] {
        notices("queued requests and 0 in flight", |s| done(s.come(&a).tell(&Event::Switched(wrong))));
    }
}

#[test]
fn durability_that_is_none_is_noticed() {
    let flush = flush();
    let fua = Request { flags: FUA, ..request(0, 8) };
    let preflush = Request { flags: PREFLUSH, ..request(0, 8) };
    let no_fua = Options { cache: Cache::WriteBack { fua: false }, ..Options::default() };
    let flushed = |s: &mut Story| done(s.send(&flush, Reason::Flush).end(&flush, Outcome::Done));
    notices("without a flush behind it", |s| done(s.submit(&flush, READ).finish(&flush, Outcome::Done)));
    notices("without a flush behind it", |s| {
        s.send(&flush, Reason::Flush)
            .submit(&flush, READ)
            .end(&flush, Outcome::Done)
            .finish(&flush, Outcome::Done);
    });
    notices("without a flush behind it", |s| {
        s.submit(&flush, READ)
            .send(&flush, Reason::Flush)
            .end(&flush, Outcome::Failed)
            .finish(&flush, Outcome::Done);
    });
    notices_of(no_fua, "without a flush behind it", |s| {
        s.come(&fua);
        flushed(s);
        s.serve(&fua);
    });
    notices("overtook the flush", |s| {
        flushed(s);
        s.come(&preflush).serve(&preflush);
    });
    notices("while another one runs", |s| done(s.send(&flush, Reason::Flush).send(&flush, Reason::Flush)));
    notices("none was sent", |s| {
        s.in_flight = 1;
        s.end(&flush, Outcome::Done);
    });
}

#[test]
fn crossing_a_barrier_is_noticed() {
    let (a, b) = (request(0, 8), request(5, 8));
    let fua = Request { flags: FUA, ..request(7, 8) };
    let drain = Options { barriers: Barriers::Drain, ..Options::default() };
    notices_of(drain, "passed", |s| done(s.come(&a).come(&fua)));
    notices_of(drain, "passed", |s| done(s.submit(&fua, FUA).come(&a)));
    notices_of(drain, "passed", |s| done(s.submit(&flush(), READ).come(&a)));
    notices_of(drain, "requests alive", |s| done(s.come(&a).send(&flush(), Reason::Flush)));
    assert_eq!(found(drain, |s| done(s.come(&a).come(&b).serve(&a).serve(&b).come(&fua).serve(&fua))), None);
    let alone = Options { barriers: Barriers::Alone, ..Options::default() };
    notices_of(alone, "shares the device", |s| {
        s.come(&a).send(&a, Reason::FirstCome).send(&flush(), Reason::Flush);
    });
    notices_of(alone, "shares the device", |s| {
        s.send(&flush(), Reason::Flush).come(&a).send(&a, Reason::FirstCome);
    });
}
