//! Every policy through the model of operations with its tunables at the ends of their ranges, with tunables that change during the run,
//! and with switches to other policies.
//!
//! `DWELL_OPERATIONS` sets the number of operations per policy in `every_policy.rs` (here a fifth of it), `DWELL_SEED` the first
//! seed. A failure prints the policy, the setting and the seed that reproduce it.

mod endurance;

use dwell_schedulers::{Environment, Spec, registry};
use elevator::Random;
use elevator::model::{Config, run};
use elevator::queue::{Identity, Limits, Options, Plugging};
use elevator::{
    Admission, Capabilities, Decision, Direction, Growth, Load, Outcome, Process, Request, Scheduler, Side,
    Span, Time, Tunable, TuneError, Tuning, Value, View, tuned_by_itself,
};
use endurance::{about, each, from_environment};

/// A policy whose tunables change occasionally.
struct Retuned {
    inner: Box<dyn Scheduler>,
    random: Random,
    /// The mean number of events between two changes; 0: no changes.
    often: u64,
}

impl Retuned {
    fn meddle(&mut self) {
        if self.often > 0 && self.random.once_in(self.often) {
            self.turn_one();
        }
    }

    fn turn_one(&mut self) {
        let tunables = self.inner.tunables();
        if tunables.is_empty() {
            return;
        }
        let tunable = tunables[self.random.below(tunables.len() as u64) as usize];
        let value = random_value(&mut self.random, &tunable);
        self.inner.tune(tunable.name, value).unwrap();
        assert!(self.inner.tunable(tunable.name).is_some());
    }
}

fn amount(value: Value) -> u64 {
    match value {
        Value::Span(span) => span.as_nanos(),
        Value::Count(n) | Value::Sectors(n) | Value::Percent(n) => n,
        Value::Flag(on) => u64::from(on),
    }
}

fn like(value: Value, amount: u64) -> Value {
    match value {
        Value::Span(_) => Value::Span(Span::from_nanos(amount)),
        Value::Count(_) => Value::Count(amount),
        Value::Sectors(_) => Value::Sectors(amount),
        Value::Percent(_) => Value::Percent(amount),
        Value::Flag(_) => Value::Flag(amount != 0),
    }
}

/// An end of the range, the default, or a value between, on a logarithmic scale.
fn random_value(random: &mut Random, tunable: &Tunable) -> Value {
    let (min, max) = (amount(tunable.min), amount(tunable.max));
    match random.below(8) {
        0 | 1 => tunable.min,
        2 | 3 => tunable.max,
        4 => tunable.default,
        5 => like(tunable.default, (min + 1).min(max)),
        _ => {
            let bits = 64 - (max - min).leading_zeros();
            let most = u64::MAX >> (64 - random.below(u64::from(bits) + 1).max(1));
            like(tunable.default, min + random.below(most).min(max - min))
        }
    }
}

impl Scheduler for Retuned {
    fn insert(&mut self, now: Time, request: &Request) {
        self.meddle();
        self.inner.insert(now, request);
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        self.meddle();
        self.inner.merged(now, request, growth);
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        self.meddle();
        self.inner.next(now, view)
    }

    fn completed(&mut self, now: Time, request: &Request, outcome: Outcome) {
        self.meddle();
        self.inner.completed(now, request, outcome);
    }

    fn exited(&mut self, now: Time, process: Process) {
        self.meddle();
        self.inner.exited(now, process);
    }

    fn may_queue(&self, now: Time, process: Option<Process>, direction: Direction, sync: bool) -> Admission {
        self.inner.may_queue(now, process, direction, sync)
    }

    fn may_merge(&self, request: &Request, addition: &Request, side: Side) -> bool {
        self.inner.may_merge(request, addition, side)
    }

    fn longest_wait(&self, load: Load) -> Option<Span> {
        if self.often == 0 { self.inner.longest_wait(load) } else { None }
    }
}

impl Capabilities for Retuned {
    tuned_by_itself!();
}

impl Tuning for Retuned {
    fn table(&self) -> &[Tunable] {
        self.inner.tunables()
    }

    fn value(&self, name: &str) -> Option<Value> {
        self.inner.tunable(name)
    }

    fn set_value(&mut self, name: &str, value: Value) -> Result<(), TuneError> {
        self.inner.tune(name, value)
    }
}

/// Every policy, every wrapper around its default.
fn policies() -> Vec<Spec> {
    registry::all().map(Spec::of).collect()
}

/// The tunables of a policy before and during a run.
#[derive(Clone, Copy, Debug)]
enum Setting {
    /// This tunable at its minimum or maximum.
    One(usize, bool),
    /// Each at a random value.
    All,
    /// The same, and one changes every given number of events.
    Changing(u64),
}

fn build(spec: &Spec, environment: &Environment, setting: Setting, seed: u64) -> Box<dyn Scheduler> {
    let mut inner: Box<dyn Scheduler> = spec.build(environment).unwrap();
    let mut random = Random::new(seed);
    let tunables = inner.tunables().to_vec();
    let mut often = 0;
    match setting {
        Setting::One(n, greatest) => {
            let tunable = &tunables[n];
            inner.tune(tunable.name, if greatest { tunable.max } else { tunable.min }).unwrap();
        }
        Setting::All | Setting::Changing(_) => {
            for tunable in &tunables {
                inner.tune(tunable.name, random_value(&mut random, tunable)).unwrap();
            }
            if let Setting::Changing(every) = setting {
                often = every;
            }
        }
    }
    Box::new(Retuned { inner, random, often })
}

/// Options of the queue, and the maximum number of simultaneous submissions.
fn queues() -> [(Options, u32); 5] {
    let base = Options::default();
    let few = Limits { nr_requests: 4, batch_requests: 2, batch_time: Span::from_millis(20) };
    [
        (Options { depth: 1, ..base }, 64),
        (Options { depth: 32, plugging: Plugging::None, ..base }, 200),
        (Options { depth: 32, identity: Identity::Hidden, ..base }, 64),
        (Options { depth: 1, identity: Identity::Same, ..base }, 6),
        (Options { depth: 2, limits: few, identity: Identity::Hidden, ..base }, 64),
    ]
}

fn torture(spec: &Spec, operations: u64, first_seed: u64) -> Result<(), String> {
    let count = spec.build(&Environment::default()).unwrap().tunables().len();
    let ends = (0..count).flat_map(|n| [Setting::One(n, false), Setting::One(n, true)]);
    let settings: Vec<Setting> =
        ends.chain([Setting::All; 8]).chain([1_000, 50, 3].map(Setting::Changing)).collect();
    for (index, setting) in settings.iter().copied().enumerate() {
        for (at, (options, most)) in queues().into_iter().enumerate() {
            let seed = first_seed + (index * queues().len() + at) as u64;
            let environment = Environment {
                rotational: !seed.is_multiple_of(3),
                nr_requests: [256, 2, 8_192][at % 3],
                ..Environment::default()
            };
            let config = Config {
                seed,
                operations: operations / (settings.len() * queues().len()) as u64,
                options,
                faults: index % 2 == 1,
                most,
                directs: index % 4 == 3,
                service: [Span::from_millis(10), Span::from_micros(100), Span::from_millis(300)]
                    [seed as usize % 3],
                ..Config::default()
            };
            let mut make = |_| build(spec, &environment, setting, seed);
            let what = format_args!("{spec} {setting:?} {environment:?} on {options:?}");
            about(what, || run(&config, &mut make).map_err(|failure| failure.to_string()))?;
        }
    }
    Ok(())
}

#[test]
fn every_policy_keeps_the_contract_with_any_tunables() {
    let operations = from_environment("DWELL_OPERATIONS", 1_000_000) / 5;
    let seed = from_environment("DWELL_SEED", 1);
    each(&policies(), |spec| torture(spec, operations, seed));
}

/// Switches from each policy to each other and back, with requests in flight.
#[test]
fn every_policy_takes_over_from_every_other() {
    let operations = from_environment("DWELL_OPERATIONS", 1_000_000) / 50;
    let first_seed = from_environment("DWELL_SEED", 1);
    let policies = policies();
    each(&policies, |one| {
        for (n, other) in policies.iter().enumerate() {
            let (options, most) = queues()[n % queues().len()];
            let seed = first_seed + n as u64;
            let config = Config {
                seed,
                operations: operations / 10,
                options,
                most,
                switches: true,
                ..Config::default()
            };
            let environment = Environment::default();
            let mut make = |switch| {
                let spec = if switch % 2 == 0 { one } else { other };
                build(spec, &environment, Setting::Changing(100), seed + switch)
            };
            let what = format_args!("{one} and {other} by turns on {options:?}");
            about(what, || run(&config, &mut make).map_err(|failure| failure.to_string()))?;
        }
        Ok(())
    });
}

/// A digest of a run with one tunable at one end of its range.
fn digest(spec: &Spec, setting: Setting, options: Options, most: u32, seed: u64) -> u64 {
    let service = [Span::from_millis(10), Span::from_millis(300)][seed as usize % 2];
    let config =
        Config { seed, operations: 4_000, options, most, service, faults: false, ..Config::default() };
    let environment = Environment::default();
    run(&config, &mut |_| build(spec, &environment, setting, seed)).unwrap().digest
}

/// Every tunable has an effect: its minimum and maximum lead to different decisions in some run. Excludes policies that need information
/// that the model lacks: an oracle of positioning times, system calls, a page cache. `late_child` has an effect on an array's member only, while the
/// coordinator's stream is the only one with requests, which random directives do not cause; `stream/directed_tests.rs` tests it.
#[test]
fn every_tunable_makes_a_difference() {
    let heard: Vec<Spec> =
        policies().into_iter().filter(|spec| !spec.is_split() && spec.name() != "sptf").collect();
    each(&heard, |spec| {
        let made = spec.build(&Environment::default()).unwrap();
        for (n, tunable) in
            made.tunables().iter().enumerate().filter(|(_, tunable)| tunable.name != "late_child")
        {
            let differs = (1..=8).any(|seed| {
                queues().into_iter().any(|(options, most)| {
                    let [least, greatest] =
                        [false, true].map(|end| digest(spec, Setting::One(n, end), options, most, seed));
                    least != greatest
                })
            });
            if !differs {
                return Err(format!("{spec}: '{}' changes nothing", tunable.name));
            }
        }
        Ok(())
    });
}
