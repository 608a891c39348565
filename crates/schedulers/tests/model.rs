//! Every policy of the registry, bare and wrapped, under the model of operations with its checkers. `OPERATIONS` and `SEED`
//! in the environment make it longer and repeat a failure.

use elevator::model::{Config, run};
use elevator::queue::{Identity, Limits, Options, Plugging};
use elevator::{Scheduler, Span};
use schedulers::{Environment, Spec, registry};

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a whole number"))
}

fn make(spec: &str) -> Box<dyn Scheduler> {
    Spec::parse(spec).unwrap().build(&Environment::default()).unwrap()
}

/// Every policy bare, and `stream` around every one that can be wrapped.
fn specs() -> Vec<String> {
    let bare = registry::all().filter(|l| !l.is_wrapper()).map(|l| l.full_name());
    let wrapped =
        registry::all().filter(|l| l.is_work_conserving()).map(|l| format!("stream({})", l.full_name()));
    let variants = [
        "stream(deadline){pending_in_device=off}",
        "stream(deadline){stream_time_slice=0s}",
        "stream(mq-deadline){stream_time_slice=3ms, stream_threshold=1, early_child=100%}",
        "stream(look){stream_time_slice=5s, second_chance=1000%}",
        "deadline-2.6.9{fifo_batch=1, writes_starved=0}",
        "sptf{ageing=50%, window=3}",
    ];
    bare.chain(wrapped).chain(variants.map(String::from)).collect()
}

fn settings() -> [Options; 3] {
    let small = Limits { nr_requests: 4, batch_requests: 2, batch_time: Span::from_millis(20) };
    [
        Options { depth: 1, ..Options::default() },
        Options { depth: 31, identity: Identity::Hidden, plugging: Plugging::None, ..Options::default() },
        Options { depth: 4, limits: small, identity: Identity::Same, ..Options::default() },
    ]
}

#[test]
fn every_policy_keeps_the_contract() {
    let operations = from_environment("OPERATIONS", 60_000);
    let seed = from_environment("SEED", 1);
    for spec in specs() {
        for (n, options) in settings().into_iter().enumerate() {
            for most in [6, 200] {
                let config = Config { seed: seed + n as u64, operations, options, most, ..Config::default() };
                let once = || {
                    run(&config, &mut |_| make(&spec)).unwrap_or_else(|e| panic!("{spec}, {options:?}: {e}"))
                };
                let report = once();
                assert!(report.finished > operations / 20, "{spec}: {report:?}");
                assert_eq!(report.digest, once().digest, "{spec}: same seed, same events");
            }
        }
    }
}

/// Switching between all of them, in every order that the seed draws.
#[test]
fn policies_take_over_from_each_other() {
    let specs = specs();
    for (n, options) in settings().into_iter().enumerate() {
        let operations = from_environment("OPERATIONS", 200_000);
        let seed = from_environment("SEED", 1) + n as u64;
        let config = Config { seed, operations, options, switches: true, ..Config::default() };
        let mut next = |n: u64| make(&specs[(n as usize * 7 + 3) % specs.len()]);
        run(&config, &mut next).unwrap_or_else(|e| panic!("{options:?}: {e}"));
    }
}
