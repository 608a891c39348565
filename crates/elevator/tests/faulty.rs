//! Faulty schedulers: the queue detects each kind of fault while it runs, transfers every
//! queued request to its own policy in order of arrival, and loses none.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::Fifo;
use common::faulty::{Faulty, Shared, Wrong, silence_panics};
use dwell_elevator::check::Checker;
use dwell_elevator::model::{self, Config};
use dwell_elevator::queue::{
    Event, Fault, Limits, Notice, Observer, Options, Plugging, Queue, Step, Submission, Supervision,
    SwitchMode, Ticket, Token,
};
use dwell_elevator::{
    Capabilities, Decision, Growth, Hold, HoldReason, Load, Op, Outcome, Priority, PriorityClass, Reason,
    Request, RequestId, Scheduler, Sector, Sectors, Span, Time, Value, View, Wake,
};

fn contain(call: &mut dyn FnMut()) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_ok()
}

const WRONG: [Wrong; 12] = [
    Wrong::Forgets,
    Wrong::Idle,
    Wrong::HoldsWithoutEnd,
    Wrong::AwaitsNoCompletion,
    Wrong::HoldsInThePast,
    Wrong::HoldsAgainAndAgain,
    Wrong::HoldsForAYear,
    Wrong::AwaitsAWordFromOutside,
    Wrong::UnknownId,
    Wrong::DispatchedId,
    Wrong::AnyIdInView,
    Wrong::IdsFromBeforeASwitch,
];

/// Methods that the model of operations calls.
const METHODS: [&str; 11] = [
    "insert",
    "merged",
    "next",
    "completed",
    "exited",
    "may_queue",
    "may_merge",
    "selected",
    "directed",
    "report",
    "drop",
];

fn supervision() -> Supervision {
    Supervision { longest_hold: Some(Span::from_secs(2)), oldest: Some(Span::from_secs(2)), overtaken: 500 }
}

/// Runs a faulty scheduler through the model; returns the number of detected faults.
fn detected(wrong: Wrong, after: u64, switches: bool) -> u64 {
    let limits = Limits { nr_requests: 24, ..Limits::default() };
    let options = Options { depth: 3, limits, supervision: supervision(), ..Options::default() };
    let config = Config {
        seed: after,
        operations: 10_000 + 3 * after.min(10_000),
        options,
        switches,
        directs: true,
        tolerates_faults: true,
        contain: Some(contain),
        ..Config::default()
    };
    let shared = Shared::default();
    let report = model::run(&config, &mut |_| Faulty::new(wrong, after, &shared));
    report.unwrap_or_else(|found| panic!("{wrong:?} after {after}: {found}")).faults
}

#[test]
fn every_kind_of_fault_is_detected_and_loses_nothing() {
    silence_panics();
    for wrong in WRONG.into_iter().chain(METHODS.map(Wrong::Panics)) {
        for after in [0, 1, 10_000] {
            let switches = matches!(wrong, Wrong::IdsFromBeforeASwitch | Wrong::Panics("drop"));
            // No scheduler of a test with switches receives 10,000 requests.
            let after = if switches { after.min(50) } else { after };
            let (faults, dropped) = (detected(wrong, after, switches), wrong == Wrong::Panics("drop"));
            // A panic in the drop of a scheduler is contained and is no fault of its successor.
            assert_eq!(faults > 0, !dropped, "{wrong:?} after {after} requests: {faults} faults");
        }
    }
}

#[test]
fn a_healthy_scheduler_is_not_reported_as_faulty() {
    assert_eq!(detected(Wrong::Forgets, u64::MAX, true), 0);
}

/// Faults and switches, in order.
#[derive(Default)]
struct Seen(Vec<Fault>, u32);

impl Observer for Seen {
    fn event(&mut self, _now: Time, event: &Event<'_>) {
        match event {
            Event::Faulted { fault, .. } => self.0.push(*fault),
            Event::Switched(_) => self.1 += 1,
            _ => {}
        }
    }
}

/// A queue with one scheduler.
struct Host {
    queue: Queue<(Checker, Seen)>,
    now: Time,
    tokens: u64,
}

impl Host {
    fn new(scheduler: Box<dyn Scheduler>, depth: u32) -> Self {
        let options =
            Options { depth, plugging: Plugging::None, supervision: supervision(), ..Options::default() };
        let mut checker = Checker::new(&options);
        checker.tolerate_faults();
        let mut queue = Queue::observed(options, scheduler, (checker, Seen::default()));
        queue.contain_panics(contain);
        Self { queue, now: Time::ZERO, tokens: 0 }
    }

    fn faulty(wrong: Wrong, after: u64) -> Self {
        Self::new(Faulty::new(wrong, after, &Shared::default()), 1)
    }

    /// Submits distant reads, so that none is merged.
    fn read(&mut self) {
        self.read_of(PriorityClass::BestEffort);
    }

    fn read_of(&mut self, class: PriorityClass) {
        let mut read = Submission::new(Token(self.tokens), Op::Read, Sector(self.tokens * 100), Sectors(8));
        read.priority = Priority { class, level: 4 };
        self.tokens += 1;
        let _ = self.queue.submit(self.now, read);
    }

    fn next(&mut self) -> Step {
        self.queue.next(self.now, None)
    }

    fn dispatch(&mut self) -> Ticket {
        match self.next() {
            Step::Dispatch(ticket) => ticket,
            other => panic!("expected a dispatch, got {other:?}"),
        }
    }

    /// Serves everything; first sectors in order.
    fn serve_all(&mut self) -> Vec<u64> {
        let mut served = Vec::new();
        while let Step::Dispatch(ticket) = self.next() {
            served.push(self.queue.request(&ticket).start.0 / 100);
            self.queue.complete(self.now, ticket, Outcome::Done);
        }
        served
    }

    fn faults(&mut self) -> Vec<Fault> {
        self.queue.observer().1.0.clone()
    }

    /// Every submission has finished once, and the checker found nothing.
    fn finish(mut self) {
        self.serve_all();
        let finished = std::iter::from_fn(|| self.queue.notice());
        let finished = finished.filter(|notice| matches!(notice, Notice::Finished(_))).count();
        assert_eq!(finished as u64, self.tokens);
        let checker = &mut self.queue.observer().0;
        checker.finish();
        assert_eq!(checker.violations(), [] as [String; 0]);
    }
}

#[test]
fn queued_requests_are_served_in_order_of_arrival() {
    let mut host = Host::faulty(Wrong::UnknownId, 3);
    (0..3).for_each(|_| host.read());
    let first = host.dispatch();
    host.queue.complete(host.now, first, Outcome::Done);
    (0..3).for_each(|_| host.read());
    assert!(!host.queue.has_fallen_back());
    assert_eq!(host.serve_all(), [1, 2, 3, 4, 5]);
    assert!(host.queue.has_fallen_back());
    assert_eq!(host.faults(), [Fault::NotQueued(RequestId(1 << 30))]);
    assert_eq!(host.faults()[0].to_string(), "dispatched #1073741824, which names no queued request");
    host.queue.switch(host.now, Box::<Fifo>::default(), SwitchMode::Transfer).expect("at once");
    assert!(!host.queue.has_fallen_back());
    host.finish();
}

#[test]
fn the_queue_s_own_policy_takes_part_in_merges() {
    let mut host = Host::faulty(Wrong::UnknownId, 0);
    host.read();
    assert_eq!(host.serve_all(), [0]);
    for (token, start) in [(1, 800), (2, 816), (3, 808)] {
        let read = Submission::new(Token(token), Op::Read, Sector(start), Sectors(8));
        let _ = host.queue.submit(host.now, read);
    }
    host.tokens = 4;
    // The third read connects the two others.
    assert_eq!(host.serve_all(), [8]);
    assert_eq!(host.faults(), [Fault::NotQueued(RequestId(1 << 30))]);
    host.finish();
}

#[test]
fn holds_that_nothing_ends_are_detected_at_once() {
    for wrong in [Wrong::HoldsWithoutEnd, Wrong::AwaitsNoCompletion, Wrong::HoldsInThePast] {
        let mut host = Host::faulty(wrong, 0);
        host.read();
        assert_eq!(host.serve_all(), [0], "{wrong:?}");
        let expected = |fault: &Fault| match wrong {
            Wrong::HoldsInThePast => matches!(fault, Fault::HoldInThePast(_)),
            _ => matches!(fault, Fault::HoldWithoutEnd(_)),
        };
        assert!(host.faults().iter().all(expected) && host.faults().len() == 1, "{:?}", host.faults());
        host.finish();
    }
}

#[test]
fn a_switch_restarts_the_limit_of_holds() {
    let holding = || Faulty::new(Wrong::HoldsAgainAndAgain, 0, &Shared::default());
    let mut host = Host::new(holding(), 1);
    host.read();
    let wait = |host: &mut Host, until: Span| {
        while host.now.since(Time::ZERO) < until {
            let Step::Wait(hold) = host.next() else { panic!("no hold after {}", host.now) };
            host.now = hold.until.expect("the queue has an end for every hold");
        }
    };
    wait(&mut host, Span::from_millis(1500));
    host.queue.switch(host.now, holding(), SwitchMode::Transfer).expect("at once");
    wait(&mut host, Span::from_millis(3000));
    assert_eq!(host.faults(), []);
    host.now += Span::from_secs(1);
    assert_eq!(host.serve_all(), [0]);
    assert!(matches!(host.faults()[..], [Fault::HeldTooLong { .. }]), "{:?}", host.faults());
    host.finish();
}

#[test]
fn the_slowest_service_is_known_after_a_switch() {
    let starving = Starving { fifo: Fifo::default(), first: None, bound: None };
    let mut host = Host::new(Box::<Fifo>::default(), 1);
    host.read();
    let ticket = host.dispatch();
    host.now += Span::from_secs(100);
    host.queue.complete(host.now, ticket, Outcome::Done);
    host.queue.switch(host.now, Box::new(starving), SwitchMode::Transfer).expect("at once");
    host.read();
    // The first request waits for 60 s, ten times the greatest age three times, while 60 others are served. The device may need
    // 100 s for each request.
    for _ in 0..60 {
        host.read();
        let ticket = host.dispatch();
        host.now += Span::from_secs(1);
        host.queue.complete(host.now, ticket, Outcome::Done);
    }
    assert_eq!(host.faults(), []);
    host.finish();
}

#[test]
fn an_idle_device_is_held_for_no_longer_than_the_limit() {
    for wrong in [Wrong::HoldsAgainAndAgain, Wrong::HoldsForAYear, Wrong::AwaitsAWordFromOutside] {
        let mut host = Host::faulty(wrong, 0);
        host.now = Time::ZERO + Span::from_secs(100);
        host.read();
        let begun = host.now;
        while let Step::Wait(hold) = host.next() {
            let until = hold.until.expect("the queue has an end for every hold");
            assert!(until > host.now && until.since(begun) <= Span::from_secs(2), "{wrong:?}: {hold:?}");
            // Arrivals do not restart the limit: the device is still idle.
            host.now = until;
            host.read();
        }
        assert_eq!(host.now.since(begun), Span::from_secs(2), "{wrong:?}");
        assert!(matches!(host.faults()[..], [Fault::HeldTooLong { .. }]), "{:?}", host.faults());
        // The last step was a dispatch whose ticket is dropped, so the queue cannot be finished here.
    }
}

/// Holds while the device has a request.
struct OneByOne(Fifo);

impl Capabilities for OneByOne {}

impl Scheduler for OneByOne {
    fn insert(&mut self, now: Time, request: &Request) {
        self.0.insert(now, request);
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        self.0.merged(now, request, growth);
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        if view.device.in_flight > 0 && view.requests.len() > view.device.in_flight as usize {
            let reason = HoldReason::DepthLimit;
            return Decision::Hold(Hold { until: None, wake: Wake::Completion, reason });
        }
        self.0.next(now, view)
    }
}

#[test]
fn a_slow_device_makes_no_scheduler_faulty() {
    let mut host = Host::new(Box::new(OneByOne(Fifo::default())), 4);
    (0..100).for_each(|_| host.read());
    for _ in 0..100 {
        let ticket = host.dispatch();
        for _ in 0..20 {
            assert!(matches!(host.next(), Step::Wait(_) | Step::Idle));
            host.now += Span::from_secs(3);
        }
        host.queue.complete(host.now, ticket, Outcome::Done);
    }
    assert_eq!(host.faults(), [], "the last request waited for {}", host.now.since(Time::ZERO));
    host.finish();
}

#[test]
fn submissions_behind_a_barrier_make_no_scheduler_faulty() {
    let mut host = Host::new(Box::<Fifo>::default(), 1);
    host.read();
    let ticket = host.dispatch();
    assert_eq!(host.queue.switch(host.now, Box::<Fifo>::default(), SwitchMode::Drain), None);
    host.read();
    host.now += Span::from_secs(1000);
    assert!(matches!(host.next(), Step::Full));
    host.queue.complete(host.now, ticket, Outcome::Done);
    assert_eq!(host.serve_all(), [1]);
    assert_eq!(host.faults(), []);
    host.finish();
}

/// Serves the first request last.
struct Starving {
    fifo: Fifo,
    first: Option<RequestId>,
    bound: Option<Span>,
}

impl Capabilities for Starving {}

impl Scheduler for Starving {
    fn insert(&mut self, now: Time, request: &Request) {
        if self.first.is_none() {
            self.first = Some(request.id);
        } else {
            self.fifo.insert(now, request);
        }
    }

    fn merged(&mut self, _now: Time, _request: &Request, _growth: Growth<'_>) {}

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        match (self.fifo.next(now, view), self.first) {
            (Decision::Idle, Some(id)) if view.requests.len() == 1 => {
                Decision::Dispatch { id, reason: Reason::FirstCome }
            }
            (decision, _) => decision,
        }
    }

    fn longest_wait(&self, _load: Load) -> Option<Span> {
        self.bound
    }
}

/// Starves a request of this class while others are served, each within `pace`; returns the faults and the time.
fn starve(class: PriorityClass, pace: Span, bound: Option<Span>) -> (Vec<Fault>, Time) {
    let scheduler = Starving { fifo: Fifo::default(), first: None, bound };
    let mut host = Host::new(Box::new(scheduler), 1);
    host.read_of(class);
    host.read();
    for _ in 0..3_000 {
        host.read();
        let ticket = host.dispatch();
        host.now += pace;
        host.queue.complete(host.now, ticket, Outcome::Done);
        if host.queue.has_fallen_back() {
            break;
        }
    }
    let (faults, now) = (host.faults(), host.now);
    host.finish();
    (faults, now)
}

#[test]
fn a_request_that_is_passed_over_for_too_long_is_detected() {
    let (ms, sec, best) = (Span::from_millis, Span::from_secs, PriorityClass::BestEffort);
    // 500 others take 5 s at 10 ms each, more than the age limit of 2 s.
    let (faults, now) = starve(best, ms(10), None);
    let [Fault::NeverDispatched { serial: 0, overtaken, .. }] = faults[..] else { panic!("{faults:?}") };
    assert!((500..540).contains(&overtaken), "{overtaken}");
    assert!((5..=6).contains(&(now.since(Time::ZERO).as_nanos() / 1_000_000_000)), "{now:?}");
    // 500 others take 0.5 s at 1 ms each: the age limit of 2 s applies, plus up to an eighth of it until the next scan.
    let (faults, now) = starve(best, ms(1), None);
    assert!(matches!(faults[..], [Fault::NeverDispatched { serial: 0, .. }]), "{faults:?}");
    assert!((2_000..=2_300).contains(&(now.since(Time::ZERO).as_nanos() / 1_000_000)), "{now:?}");
    // Twice the stated bound is allowed.
    let (faults, now) = starve(best, ms(10), Some(sec(6)));
    assert!(matches!(faults[..], [Fault::NeverDispatched { .. }]), "{faults:?}");
    assert!((12..=13).contains(&(now.since(Time::ZERO).as_nanos() / 1_000_000_000)), "{now:?}");
    // The idle class waits for all others.
    assert_eq!(starve(PriorityClass::Idle, ms(10), None).0, []);
}

/// A scheduler that serves one other request in ten seconds passes 10,000 over only in a day.
#[test]
fn a_request_that_is_passed_over_slowly_is_detected_by_its_age() {
    let (sec, best) = (Span::from_secs, PriorityClass::BestEffort);
    let seconds = |now: Time| now.since(Time::ZERO).as_nanos() / 1_000_000_000;
    // Ten times the age limit of 2 s, plus up to an eighth of it until the next scan. Two requests of 1 s each: twice that is shorter.
    let (faults, now) = starve(best, sec(1), None);
    assert!(matches!(faults[..], [Fault::NeverDispatched { overtaken: 19..=22, .. }]), "{faults:?}");
    assert!((20..=22).contains(&seconds(now)), "{now:?}");
    // Twice the stated bound is allowed.
    let (faults, now) = starve(best, sec(1), Some(sec(30)));
    assert!(matches!(faults[..], [Fault::NeverDispatched { .. }]), "{faults:?}");
    assert!((60..=62).contains(&seconds(now)), "{now:?}");
    // A device that takes longer than the limit for each request counts as one that hangs, until 500 others have passed.
    let (faults, now) = starve(best, sec(4), None);
    assert!(matches!(faults[..], [Fault::NeverDispatched { overtaken: 500.., .. }]), "{faults:?}");
    assert!(seconds(now) >= 2_000, "{now:?}");
    assert_eq!(starve(PriorityClass::Idle, sec(1), None).0, []);
}

#[test]
fn panics_of_calls_that_only_hosts_make_are_contained() {
    for method in ["inspect", "tunables", "tune"] {
        let mut host = Host::faulty(Wrong::Panics(method), 0);
        host.read();
        let answer = match method {
            "inspect" => (!host.queue.inspect(host.now).is_empty()).then_some(()),
            "tunables" => host.queue.with_chosen(host.now, method, |s| assert!(s.tunables().is_empty())),
            _ => host.queue.with_chosen(host.now, method, |s| assert!(s.tune("x", Value::Count(1)).is_err())),
        };
        assert_eq!(answer, None);
        assert_eq!(host.faults(), [Fault::Panicked { method }]);
        host.finish();
    }
}

#[test]
fn a_scheduler_that_panics_before_it_takes_over_never_does() {
    let mut host = Host::new(Box::<Fifo>::default(), 1);
    host.read();
    let next = Faulty::new(Wrong::Panics("tune"), 0, &Shared::default());
    let mut next = next;
    next.inserted = 1;
    assert_eq!(host.queue.switch(host.now, next, SwitchMode::Drain), None);
    host.read();
    assert_eq!(host.queue.with_chosen(host.now, "tune", |s| s.tune("x", Value::Count(1)).is_ok()), None);
    assert_eq!(host.faults(), [Fault::Panicked { method: "tune" }]);
    assert_eq!(host.serve_all(), [0, 1]);
    assert_eq!(host.queue.observer().1.1, 1, "one switch: to the queue's own policy");
    host.finish();
}
