//! Every policy, bare and wrapped, through the model of operations, in every setting of the queue.
//!
//! `DWELL_OPERATIONS` sets the number of operations per policy (the check script: ten million), `DWELL_SEED` the first
//! seed. A failure prints the policy, the setting and the seed that reproduce it.

mod endurance;

use dwell_schedulers::{Environment, Spec, registry};
use elevator::Scheduler;
use elevator::check_policy::check_policy;
use endurance::{about, each, from_environment};

/// Settings far from the defaults, which trigger unusual combinations of rules.
const EXTREMES: [&str; 6] = [
    "stream(deadline){pending_in_device=off}",
    "stream(deadline){stream_time_slice=0s}",
    "stream(mq-deadline){stream_time_slice=3ms, stream_threshold=1, early_child=100%}",
    "stream(look){stream_time_slice=5s, second_chance=1000%}",
    "deadline-2.6.9{fifo_batch=1, writes_starved=0}",
    "sptf{ageing=50%, window=3}",
];

/// Every policy by its full name, every wrapper around every policy that it accepts, and some extreme settings.
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

/// A host does not look up processes for these, and passes single requests to the device at once.
#[test]
fn policies_that_need_no_processes_declare_it_and_simple_ones_their_short_path() {
    for (name, ignores_processes, has_short_path) in [
        ("noop", true, true),
        ("deadline-2.6.9", true, true),
        ("deadline-2.6.32", true, true),
        ("stream(noop)", true, false),
        ("stream(mq-deadline)", false, false),
        ("anticipatory", false, false),
        ("cfq", false, false),
        ("bfq", false, false),
    ] {
        let mut policy = Spec::parse(name).unwrap().build(&Environment::default()).unwrap();
        assert_eq!(policy.ignores_processes(), ignores_processes, "{name}");
        assert_eq!(policy.short_path().is_some(), has_short_path, "{name}");
    }
}

/// Runs one policy in every setting, and one setting twice.
fn torture(name: &str, operations: u64, first_seed: u64) -> Result<(), String> {
    let spec = Spec::parse(name).map_err(|error| error.to_string())?;
    let environment = Environment::default();
    let mut make = || -> Box<dyn Scheduler> { spec.build(&environment).expect("it parsed") };
    let check = || check_policy(operations, first_seed, &mut make).map_err(|failure| failure.to_string());
    about(name, check).map(drop)
}

#[test]
fn all_policies_keep_the_contract() {
    let operations = from_environment("DWELL_OPERATIONS", 140_000);
    let seed = from_environment("DWELL_SEED", 1);
    let names = policies();
    each(&names, |name| torture(name, operations, seed));
    eprintln!("{} policies, {operations} operations each, seeds from {seed}", names.len());
}
