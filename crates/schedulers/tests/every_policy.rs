//! Every policy, bare and wrapped, through the model of operations, in every setting of the queue.
//!
//! `DWELL_OPERATIONS` sets how many operations a policy gets (the check script: ten million), `DWELL_SEED` where the seeds
//! start. A failure prints the policy, the setting and the seed that repeat it.

mod endurance;

use dwell_schedulers::{Environment, Spec, registry};
use elevator::Span;
use elevator::model::{Config, run};
use elevator::queue::{Barriers, Cache, Identity, Limits, Options, Plugging};
use endurance::{about, each, from_environment};

/// Settings far from the defaults, where rules meet that usually do not.
const EXTREMES: [&str; 6] = [
    "stream(deadline){pending_in_device=off}",
    "stream(deadline){stream_time_slice=0s}",
    "stream(mq-deadline){stream_time_slice=3ms, stream_threshold=1, early_child=100%}",
    "stream(look){stream_time_slice=5s, second_chance=1000%}",
    "deadline-2.6.9{fifo_batch=1, writes_starved=0}",
    "sptf{ageing=50%, window=3}",
];

/// Every policy by its full name, every wrapper around everything that it can wrap, and some extremes.
fn policies() -> Vec<String> {
    let mut names: Vec<String> = EXTREMES.map(str::to_owned).to_vec();
    for listing in registry::all() {
        if !listing.is_wrapper() {
            names.push(listing.full_name());
            continue;
        }
        let inside = registry::all().filter(|inside| inside.is_work_conserving());
        names.extend(inside.map(|inside| format!("{}({})", listing.full_name(), inside.full_name())));
    }
    names
}

/// (settings of the queue, faults, switches), each with its part of the operations.
fn settings() -> Vec<(Options, bool, bool)> {
    let few = Limits { nr_requests: 4, batch_requests: 2, batch_time: Span::from_millis(20) };
    let itself = Plugging::Queue { threshold: 4, delay: Span::from_millis(3) };
    let base = Options::default();
    vec![
        (Options { depth: 1, ..base }, false, false),
        (Options { depth: 31, ..base }, false, false),
        (Options { depth: 4, plugging: Plugging::None, barriers: Barriers::Alone, ..base }, true, false),
        (Options { depth: 1, identity: Identity::Same, ..base }, true, true),
        (Options { depth: 4, limits: few, plugging: itself, identity: Identity::Hidden, ..base }, true, true),
        (
            Options { depth: 2, barriers: Barriers::Drain, cache: Cache::WriteBack { fua: false }, ..base },
            true,
            true,
        ),
        (Options { depth: 31, limits: few, cache: Cache::WriteThrough, ..base }, false, true),
        (Options { depth: 4, barriers: Barriers::Serial, ..base }, true, true),
    ]
}

/// Runs one policy in every setting; what was wrong, if anything was.
fn torture(name: &str, operations: u64, first_seed: u64) -> Result<(), String> {
    let spec = Spec::parse(name).map_err(|e| e.to_string())?;
    let environment = Environment::default();
    let settings = settings();
    for (index, (options, faults, switches)) in settings.iter().copied().enumerate() {
        let config = Config {
            seed: first_seed + index as u64,
            operations: operations / settings.len() as u64,
            options,
            faults,
            switches,
            directs: index % 2 == 1,
            most: [64, 6, 200][index % 3],
            ..Config::default()
        };
        let mut make = |_| -> Box<dyn elevator::Scheduler> { spec.build(&environment).expect("it parsed") };
        let what = format_args!("{name} with {options:?}, faults {faults}, switches {switches}");
        about(what, || run(&config, &mut make))?;
    }
    Ok(())
}

/// The same seed twice, on the first setting.
fn repeats(name: &str) -> Result<(), String> {
    let spec = Spec::parse(name).map_err(|e| e.to_string())?;
    let environment = Environment::default();
    let config = Config { operations: 5_000, ..Config::default() };
    let mut make = |_| -> Box<dyn elevator::Scheduler> { spec.build(&environment).expect("it parsed") };
    let (first, second) = (run(&config, &mut make)?, run(&config, &mut make)?);
    if first.digest == second.digest {
        Ok(())
    } else {
        Err(format!("{name} decides differently on the same input"))
    }
}

#[test]
fn every_policy_keeps_the_contract() {
    let operations = from_environment("DWELL_OPERATIONS", 140_000);
    let seed = from_environment("DWELL_SEED", 1);
    let names = policies();
    each(&names, |name| torture(name, operations, seed).and_then(|()| repeats(name)));
    eprintln!("{} policies, {operations} operations each, seeds from {seed}", names.len());
}
