//! The waiting policies under the model of operations: every kind of queue, faults, switches, hidden and equal identities.

use elevator::model::{Config, run};
use elevator::queue::{Barriers, Cache, Identity, Limits, Options, Plugging};
use elevator::{Scheduler, Span};
use schedulers::{Environment, Spec};

const POLICIES: &[&str] = &[
    "anticipatory-2.6.9",
    "anticipatory-2.6.32",
    "anticipatory-2.6.32{hz=1000}",
    "anticipatory-2.6.9{antic_expire=0, hz=100}",
    "cooperative",
    "cooperative{groups_max=2, group_lifetime=5ms, exit_threshold=0}",
    "cfq-2003",
    "cfq-2.6.9{quantum=1}",
    "cfq-2.6.32",
    "cfq-2.6.32{hz=1000, slice_sync=5ms, slice_async=3ms, slice_idle=2ms, quantum=1}",
    "cfq-2.6.32{low_latency=off, slice_idle=0}",
];

fn make(policy: &str) -> Box<dyn Scheduler> {
    Spec::parse(policy).unwrap().build(&Environment::default()).unwrap()
}

fn settings() -> [Options; 6] {
    let small = Limits { nr_requests: 4, batch_requests: 2, batch_time: Span::from_millis(20) };
    let itself = Plugging::Queue { threshold: 4, delay: Span::from_millis(3) };
    let plain = Options::default();
    [
        Options { depth: 1, ..plain },
        Options { depth: 31, ..plain },
        Options { depth: 1, plugging: Plugging::None, cache: Cache::WriteThrough, ..plain },
        Options { depth: 4, limits: small, plugging: itself, identity: Identity::Hidden, ..plain },
        Options { depth: 2, barriers: Barriers::Drain, cache: Cache::WriteBack { fua: false }, ..plain },
        Options { depth: 31, limits: small, identity: Identity::Same, ..plain },
    ]
}

#[test]
fn every_waiting_policy_keeps_the_contract_in_every_queue() {
    for policy in POLICIES {
        for (n, options) in settings().into_iter().enumerate() {
            for (faults, switches) in [(false, false), (true, true)] {
                let config = Config {
                    seed: 31 * n as u64 + 1,
                    operations: 200_000,
                    service: Span::from_millis([2, 10, 30][n % 3]),
                    options,
                    faults,
                    switches,
                    ..Config::default()
                };
                let report = run(&config, &mut |_| make(policy)).unwrap_or_else(|e| {
                    panic!("{policy}, {options:?}, faults {faults}, switches {switches}: {e}")
                });
                assert!(report.finished > 20_000, "{policy}: {report:?}");
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_events() {
    for policy in POLICIES {
        let config = Config { operations: 50_000, seed: 9, ..Config::default() };
        let digest = || run(&config, &mut |_| make(policy)).unwrap().digest;
        assert_eq!(digest(), digest(), "{policy}");
    }
}

/// Switching from one of them to another, each taking over what the last had queued.
#[test]
fn any_of_them_takes_over_from_any_other() {
    let config = Config { operations: 400_000, seed: 77, switches: true, ..Config::default() };
    let mut next = |n: u64| make(POLICIES[(n as usize * 7 + n as usize / 5) % POLICIES.len()]);
    run(&config, &mut next).unwrap();
}
