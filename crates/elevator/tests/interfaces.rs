//! Small parts of the interface between queue, policies and hosts.

use dwell_elevator::array::MemberEvent;
use dwell_elevator::queue::{Event, Token};
use dwell_elevator::{
    Capabilities, Fact, Flags, Item, Op, Outcome, Priority, Reason, Request, RequestId, Sector, Sectors,
    Time, TuneError, Value, tunables, tuned_by,
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
    assert!(policy.tune("batch", Value::Count(11)).is_err());
    assert_eq!(policy.tune("other", Value::Count(1)), Err(TuneError::unknown("other")));
    assert_eq!(policy.tunable("batch"), Some(Value::Count(10)));
    assert!(Untuned.tunables().is_empty() && Untuned.tunable("batch").is_none());
    assert_eq!(Untuned.tune("batch", Value::Count(1)), Err(TuneError::unknown("batch")));
}

#[test]
fn a_fact_is_found_by_its_name() {
    let item = Item::new("stream", 1).with("length", Fact::Count(4)).with("is_served", Fact::Flag(true));
    assert_eq!(item.fact("is_served"), Some(Fact::Flag(true)));
    assert_eq!((item.fact("length"), item.fact("position")), (Some(Fact::Count(4)), None));
}
