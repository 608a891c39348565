//! Small parts of the interface between queue, policies and hosts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use dwell_elevator::array::MemberEvent;
use dwell_elevator::queue::{Accepted, Event, Observer, Options, Queue, Step, Submission, Token};
use dwell_elevator::{
    Angles, Candidate, Capabilities, Decision, Fact, Flags, Growth, Item, Op, Outcome, Positioning, Priority,
    Reason, Request, RequestId, Scheduler, Sector, Sectors, Span, Time, TuneError, Value, View,
    WorkConserving, tunables, tuned_by,
};

fn request(op: Op) -> Request {
    Request {
        id: RequestId(7),
        serial: 7,
        op,
        start: Sector(64),
        sectors: Sectors(8),
        flags: Flags::default(),
        priority: Priority::default(),
        process: None,
        causes: None,
        arrived: Time::ZERO,
    }
}

#[test]
fn a_coordinator_receives_the_events_of_requests_with_data() {
    let (read, flush) = (request(Op::Read), request(Op::Flush));
    let completed = |request, outcome| Event::Completed { request, outcome, dispatched: Time::ZERO };
    let dispatched =
        |request| Event::Dispatched { request, reason: Reason::FirstCome, queued: 0, in_flight: 1 };
    let cases = [
        (Event::Carried(Token(3), &read), Some(MemberEvent::Carried(Token(3), read.id))),
        (Event::Inserted(&read), Some(MemberEvent::Inserted(read))),
        (dispatched(&read), Some(MemberEvent::Dispatched(read))),
        (dispatched(&flush), None),
        (completed(&read, Outcome::Done), Some(MemberEvent::Completed(read))),
        (completed(&read, Outcome::Failed), Some(MemberEvent::Completed(read))),
        // It will be dispatched again.
        (completed(&read, Outcome::GivenBack), None),
        (completed(&flush, Outcome::Done), None),
        (Event::Slept(Token(3)), None),
        (Event::Idle { queued: 0 }, None),
    ];
    for (event, expected) in cases {
        assert_eq!(MemberEvent::of(&event), expected, "{event:?}");
    }
}

tunables! {
    /// Tunables of a test.
    pub struct Tunables {
        /// A number.
        batch: Count = 4, 1, 10;
    }
}

#[derive(Default)]
struct Tuned {
    tunables: Tunables,
}

impl Capabilities for Tuned {
    tuned_by!(tunables);
}

struct Untuned;

impl Capabilities for Untuned {}

#[test]
fn tunables_are_read_and_set_by_name() {
    let mut policy = Tuned::default();
    assert_eq!(policy.tunables().len(), 1);
    assert_eq!((policy.tunable("batch"), policy.tunable("other")), (Some(Value::Count(4)), None));
    assert_eq!(policy.tune("batch", Value::Count(10)), Ok(()));
    assert_eq!(policy.tunable("batch"), Some(Value::Count(10)));
    assert!(
        policy.tune("batch", Value::Count(11)).is_err() && policy.tune("batch", Value::Count(0)).is_err()
    );
    assert_eq!(policy.tune("other", Value::Count(1)), Err(TuneError::unknown("other")));
    assert_eq!(policy.tunable("batch"), Some(Value::Count(10)));
    assert_eq!(policy.tune("batch", Value::Count(1)), Ok(()));
    assert!(Untuned.tunables().is_empty() && Untuned.tunable("batch").is_none());
    assert_eq!(Untuned.tune("batch", Value::Count(1)), Err(TuneError::unknown("batch")));
}

#[test]
fn a_fact_is_found_by_its_name() {
    let item = Item::new("stream", 1).with("length", Fact::Count(4)).with("is_served", Fact::Flag(true));
    assert_eq!(item.fact("is_served"), Some(Fact::Flag(true)));
    assert_eq!((item.fact("length"), item.fact("position")), (Some(Fact::Count(4)), None));
}

/// Counts events.
struct Count(Arc<AtomicU32>);

impl Observer for Count {
    fn event(&mut self, _now: Time, _event: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn composed_observers_receive_each_event_once() {
    let count = Arc::<AtomicU32>::default();
    let observer = || Count(Arc::clone(&count));
    let boxed: Box<dyn Observer> = Box::new(observer());
    let mut all = ((observer(), boxed), (Some(observer()), None::<Count>));
    all.event(Time::ZERO, &Event::Idle { queued: 0 });
    assert_eq!(count.load(Ordering::Relaxed), 3);
}

/// A drive of which only the positioning time is known.
struct Drive;

impl Positioning for Drive {
    fn positioning_time(&self, _now: Time, _request: &Request) -> Span {
        Span::from_millis(1)
    }
}

#[test]
fn a_drive_without_further_knowledge_excludes_no_request() {
    let (drive, within) = (Drive, Span::from_nanos(1));
    assert_eq!((drive.angle(Sector(9)), drive.buffered(0)), (0, None));
    for angles in [
        drive.reached_at_or_above(Time::ZERO, Sector(0), within),
        drive.reached_at_or_below(Time::ZERO, Sector(0), within),
    ] {
        assert!(angles.is_some_and(|angles| angles.contains(0) && angles.contains(u32::MAX)));
    }
    let wraps = Angles { first: u32::MAX - 1, length: 2 };
    let contained = [u32::MAX - 2, u32::MAX - 1, u32::MAX, 0, 1].map(|angle| wraps.contains(angle));
    assert_eq!(contained, [false, true, true, true, false]);
}

/// Dispatches the latest request first.
#[derive(Default)]
struct Latest(Vec<RequestId>);

impl Capabilities for Latest {}

impl Scheduler for Latest {
    fn insert(&mut self, _now: Time, request: &Request) {
        self.0.push(request.id);
    }

    fn merged(&mut self, _now: Time, _request: &Request, _growth: Growth<'_>) {}

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        self.dispatch_candidate(now, view).unwrap_or(Decision::Idle)
    }
}

impl WorkConserving for Latest {
    fn candidate(&mut self, _now: Time, _view: &View<'_>) -> Option<Candidate> {
        let id = *self.0.last()?;
        Some(Candidate { id, urgent: false, reason: Reason::Expired })
    }

    fn take(&mut self, _now: Time, request: &Request) {
        self.0.retain(|&id| id != request.id);
    }
}

#[test]
fn a_work_conserving_policy_dispatches_its_candidates() {
    let mut queue: Queue = Queue::new(Options::default(), Box::<Latest>::default());
    for (token, start) in [(0, 0), (1, 1000)] {
        let read = Submission::new(Token(token), Op::Read, Sector(start), Sectors(8));
        assert_eq!(queue.submit(Time::ZERO, read), Accepted::Queued);
    }
    for start in [1000, 0] {
        let Step::Dispatch(ticket) = queue.next(Time::ZERO, None) else { panic!("expected a dispatch") };
        assert_eq!(queue.request(&ticket).start, Sector(start));
        queue.complete(Time::ZERO, ticket, Outcome::Done);
    }
    assert!(matches!(queue.next(Time::ZERO, None), Step::Idle));
}

#[test]
fn arithmetic_of_times_saturates() {
    let (long, short) = (Span::from_millis(7), Span::from_micros(2_000));
    assert_eq!((long - short, short - long), (Span::from_millis(5), Span::ZERO));
    assert_eq!((long / 2, long * 3), (Span::from_micros(3_500), Span::from_millis(21)));
    assert_eq!((Span::MAX + long, Span::MAX * 2, Time::MAX + long), (Span::MAX, Span::MAX, Time::MAX));
    assert_eq!(Time::ZERO - long, Time::ZERO);
    assert_eq!(
        (Span::from_secs(2).percent(150), Span::MAX.percent(50).as_nanos()),
        (Span::from_secs(3), u64::MAX / 2)
    );
    assert_eq!([long, short].into_iter().sum::<Span>(), Span::from_millis(9));
    let (mut span, mut time) = (long, Time::ZERO);
    span -= short;
    span += short * 2;
    time += span;
    assert_eq!(time.since(Time::ZERO), Span::from_millis(9));
    assert_eq!(Time::ZERO.since(time), Span::ZERO);
    assert_eq!(time - Span::from_millis(1), Time::from_nanos(8_000_000));
}

#[test]
fn times_and_lengths_have_readable_forms() {
    let time = Time::from_nanos(12_034_567_891);
    assert_eq!((format!("{time}"), format!("{time:?}")), ("12.034567 s".into(), "12.034567891s".into()));
    assert!((time.as_secs_f64() - 12.034_567_891).abs() < 1e-9);
    let span = Span::from_micros(2_500);
    assert!((span.as_millis_f64() - 2.5).abs() < 1e-9 && (span.as_secs_f64() - 0.0025).abs() < 1e-9);
    let forms = [0, 7, 7_000, 62_500, 124_000_000, 3_000_000_000].map(|ns| Span::from_nanos(ns).to_string());
    assert_eq!(forms, ["0 ns", "7 ns", "7 us", "62500 ns", "124 ms", "3 s"]);
    assert_eq!(format!("{} {:?} {} {:?}", Sector(5), Sector(5), Sectors(8), Sectors(8)), "5 5 8 +8");
}

#[test]
fn only_the_file_system_s_own_blocks_are_metadata() {
    use dwell_elevator::split::File;
    assert_eq!([File::METADATA, File(0), File(7)].map(File::is_metadata), [true, false, false]);
}
