//! The model of operations with a simple scheduler in every setting of the queue, and with faulty schedulers, which it detects.

mod common;

use common::Fifo;
use dwell_elevator::check_policy::check_policy;
use dwell_elevator::model::{Config, run};
use dwell_elevator::queue::{Barriers, Cache, Identity, Limits, Options, Plugging};
use dwell_elevator::{
    Capabilities, Decision, Growth, Hold, HoldReason, Reason, Request, RequestId, Scheduler, Span, Time,
    View, Wake,
};

fn settings() -> Vec<Options> {
    let small = Limits { nr_requests: 4, batch_requests: 2, batch_time: Span::from_millis(20) };
    let itself = Plugging::Queue { threshold: 4, delay: Span::from_millis(3) };
    vec![
        Options { depth: 1, ..Options::default() },
        Options { depth: 31, barriers: Barriers::Serial, ..Options::default() },
        Options {
            depth: 4,
            limits: small,
            plugging: itself,
            identity: Identity::Hidden,
            barriers: Barriers::Alone,
            ..Options::default()
        },
        Options {
            depth: 2,
            barriers: Barriers::Drain,
            cache: Cache::WriteBack { fua: false },
            ..Options::default()
        },
        Options {
            depth: 2,
            limits: small,
            cache: Cache::WriteThrough,
            identity: Identity::Same,
            ..Options::default()
        },
    ]
}

#[test]
fn every_setting_keeps_the_contract() {
    for (n, options) in settings().into_iter().enumerate() {
        for (faults, switches) in [(false, false), (true, false), (true, true)] {
            let config = Config { seed: n as u64, options, faults, switches, ..Config::default() };
            let first =
                run(&config, &mut |_| Box::<Fifo>::default()).unwrap_or_else(|e| panic!("{options:?}: {e}"));
            assert!(first.finished > 10_000, "{first:?}");
            let second = run(&config, &mut |_| Box::<Fifo>::default()).unwrap();
            assert_eq!(first.digest, second.digest, "same seed, same events");
        }
    }
}

/// A scheduler with one fault.
struct Faulty {
    fifo: Fifo,
    fault: Fault,
    count: u64,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Forgets every thousandth request.
    Forgets,
    /// Returns idle every thousandth time with requests queued.
    Lazy,
    /// Holds without end.
    HoldsForever,
    /// From its thousandth event on, holds for another second at each call.
    HoldsAgain,
    /// Holds until a time that has passed.
    HoldsInThePast,
    /// Holds for a minute.
    HoldsForLong,
    /// Waits for a completion with nothing in flight.
    WaitsForNothing,
    /// Serves the youngest first, so that the oldest waits without bound.
    Starves,
}

impl Scheduler for Faulty {
    fn insert(&mut self, now: Time, request: &Request) {
        self.count += 1;
        if !matches!(self.fault, Fault::Forgets) || !self.count.is_multiple_of(1000) {
            self.fifo.insert(now, request);
        }
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        self.fifo.merged(now, request, growth);
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        self.count += 1;
        match self.fault {
            Fault::Lazy if self.count.is_multiple_of(1000) => Decision::Idle,
            Fault::HoldsForever if self.count.is_multiple_of(1000) => hold(None, Wake::Timer),
            Fault::HoldsInThePast if self.count.is_multiple_of(1000) => hold(Some(now), Wake::Timer),
            Fault::HoldsForLong if self.count.is_multiple_of(1000) => {
                hold(Some(now + Span::from_secs(60)), Wake::Timer)
            }
            Fault::WaitsForNothing if view.device.in_flight == 0 => hold(None, Wake::Completion),
            Fault::HoldsAgain if self.count > 1000 && !view.requests.is_empty() => {
                hold(Some(now + Span::from_secs(1)), Wake::Timer)
            }
            Fault::Starves => last(view).map_or(Decision::Idle, |id| {
                self.fifo.next(now, view);
                Decision::Dispatch { id, reason: Reason::FirstCome }
            }),
            _ => self.fifo.next(now, view),
        }
    }

    fn longest_wait(&self, load: dwell_elevator::Load) -> Option<Span> {
        self.fifo.longest_wait(load)
    }
}

impl Capabilities for Faulty {}

fn hold(until: Option<Time>, wake: Wake) -> Decision {
    Decision::Hold(Hold { until, wake, reason: HoldReason::AwaitChild })
}

/// The youngest live request; with a depth of one and nothing in flight all of them are queued.
fn last(view: &View<'_>) -> Option<RequestId> {
    view.requests.iter().max_by_key(|request| request.serial).map(|request| request.id)
}

#[test]
fn a_faulty_scheduler_is_detected() {
    let options = Options { depth: 1, plugging: Plugging::None, ..Options::default() };
    let config = Config { seed: 4321, options, faults: false, operations: 20_000, ..Config::default() };
    for (fault, words) in [
        (Fault::Forgets, "returned idle with"),
        (Fault::Lazy, "returned idle with"),
        (Fault::HoldsForever, "returned a hold without end"),
        (Fault::HoldsAgain, "held back every request of an idle device for 30"),
        (Fault::HoldsInThePast, "a time that has passed"),
        (Fault::HoldsForLong, "waits for 60 s"),
        (Fault::WaitsForNothing, "with nothing in flight"),
        (Fault::Starves, "longer than the policy's bound"),
    ] {
        let find = || run(&config, &mut |_| Box::new(Faulty { fifo: Fifo::default(), fault, count: 0 }));
        let found = find().expect_err("a fault").to_string();
        assert!(found.contains(words), "{fault:?} was not detected: {found}");
        assert!(found.starts_with("seed 4321: "), "{found}");
        assert_eq!(find().expect_err("the same fault").to_string(), found, "the seed repeats it");
    }
}

#[test]
fn a_wait_beyond_the_bound_is_detected_in_every_setting() {
    let options = Options { depth: 1, plugging: Plugging::None, ..Options::default() };
    for (faults, switches) in [(false, false), (true, false), (false, true), (true, true)] {
        let config = Config { seed: 5, options, faults, switches, operations: 20_000, ..Config::default() };
        let fault = Fault::Starves;
        let found = run(&config, &mut |_| Box::new(Faulty { fifo: Fifo::default(), fault, count: 0 }));
        let found = found.expect_err("the oldest request waits longest").to_string();
        assert!(found.contains("longer than the policy's bound"), "{faults} {switches}: {found}");
    }
}

#[test]
fn check_policy_accepts_a_correct_policy_and_reports_a_faulty_one() {
    let reports = check_policy(80_000, 1, &mut || Box::<Fifo>::default()).unwrap();
    assert_eq!(reports.len(), 8, "one report per configuration");
    assert!(reports.iter().all(|report| report.finished > 1_000), "{reports:?}");
    let mut faulty =
        || -> Box<dyn Scheduler> { Box::new(Faulty { fifo: Fifo::default(), fault: Fault::Lazy, count: 0 }) };
    let failure = check_policy(80_000, 1, &mut faulty).unwrap_err();
    let again = run(&failure.config, &mut |_| faulty()).unwrap_err();
    assert_eq!(again, failure.failure, "the stated configuration repeats the failure");
}
