//! The results of every policy in fixed scenarios, in a golden file: requests, longest latency and deliberate waits of each run, and a digest
//! of all decisions with their times and reasons.
//!
//! `DWELL_BLESS=1 cargo test -p dwell-schedulers --test results` writes the file anew; the commit must explain each changed line. The
//! golden file of `dwell-cli` does the same over recordings; this one has priorities, processes that end, cooperating processes, and every
//! tunable at the ends of its range.

mod closed_loop;

use std::fmt::Write as _;
use std::path::Path as FilePath;

use closed_loop::{CAPACITY, Disk, Load, Log, Outcomes, Partner, Path, Served, level, reader, takes};
use dwell_schedulers::{Environment, Listing, Spec, registry};
use elevator::queue::{Identity, Options, Plugging};
use elevator::{Op, Priority, PriorityClass, Random, Request, Sector, Span, Value};

/// Scenarios that are drawn.
const DRAWN: u64 = 48;
/// The same for policies with many rules.
const MANY: u64 = 320;

/// A sequential reader in a tenth of the disk.
fn stream(tenth: u32) -> Load {
    let at = u64::from(tenth) * CAPACITY / 10;
    Load { at, sectors: 64, think: Span::from_micros(20), ..reader(tenth + 1) }
}

/// Random reads within a tenth of the disk.
fn random(tenth: u32) -> Load {
    Load { path: Path::Within(CAPACITY / 10), sectors: 8, ..stream(tenth) }
}

fn thinking(load: Load, millis: u64) -> Load {
    Load { think: Span::from_millis(millis), ..load }
}

fn from(load: Load, millis: u64) -> Load {
    Load { start: Span::from_millis(millis), ..load }
}

fn writing(load: Load, sync: bool, depth: u32) -> Load {
    Load { op: Op::Write, sync, depth, ..load }
}

fn of_class(load: Load, class: PriorityClass, level: u8) -> Load {
    Load { priority: Priority { class, level }, ..load }
}

/// A commit each five milliseconds, a copy, look-ups and background writes.
fn mix() -> Vec<Load> {
    vec![
        stream(0),
        Load { path: Path::Ahead(192), ..thinking(stream(2), 1) },
        thinking(random(4), 3),
        writing(stream(5), false, 16),
        writing(random(7), false, 4),
        thinking(writing(Load { sectors: 8, ..stream(8) }, true, 1), 5),
    ]
}

/// A load for each scenario, by its name.
fn scenarios() -> Vec<(&'static str, Options, Vec<Load>)> {
    let plain = Options { depth: 1, plugging: Plugging::None, ..Options::default() };
    let deep = Options { depth: 31, ..Options::default() };
    let hidden = Options { identity: Identity::Hidden, ..plain };
    let shallow = Options { depth: 4, ..deep };
    let files = |tenth: u32, spawn: u64| {
        let path = Path::Files { requests: 3, gap: 256, spawn: Span::from_micros(spawn) };
        Load { path, sectors: 32, ..stream(tenth) }
    };
    let part = |n: u32| Load { at: u64::from(n) * 64, path: Path::Ahead(192), ..stream(n) };
    vec![
        ("streams", plain, vec![stream(0), stream(3), stream(6), stream(9)]),
        ("hidden", hidden, vec![stream(1), stream(4), thinking(stream(7), 1), thinking(random(9), 2)]),
        ("mix", plain, mix()),
        ("mix-deep", deep, mix()),
        (
            "classes",
            plain,
            vec![
                thinking(of_class(random(0), PriorityClass::RealTime, 4), 20),
                of_class(stream(2), PriorityClass::BestEffort, 0),
                Load { priority: level(7), ..stream(4) },
                thinking(of_class(stream(5), PriorityClass::BestEffort, 4), 2),
                of_class(stream(6), PriorityClass::Idle, 7),
                of_class(writing(random(8), false, 4), PriorityClass::BestEffort, 4),
            ],
        ),
        (
            "files",
            plain,
            vec![files(1, 1_500), Load { process: 100, ..files(6, 400) }, thinking(random(9), 8)],
        ),
        (
            "partners",
            plain,
            vec![
                Load { partner: Some(Partner { load: 1, every: 4 }), ..stream(1) },
                Load {
                    partner: Some(Partner { load: 0, every: 4 }),
                    at: stream(1).at + 100_000,
                    ..stream(2)
                },
                stream(7),
            ],
        ),
        ("pieces", shallow, vec![part(0), part(1), part(2), part(3), stream(8)]),
        (
            "thinking",
            plain,
            vec![
                stream(0),
                thinking(stream(2), 3),
                thinking(stream(4), 7),
                thinking(stream(6), 14),
                random(8),
            ],
        ),
        (
            "burst",
            shallow,
            (0..10)
                .map(|n| Load { enough: 20, ..from(if n % 3 == 0 { random(n) } else { stream(n) }, 300) })
                .chain([writing(stream(3), false, 32)])
                .collect(),
        ),
        (
            "late",
            plain,
            vec![stream(0), from(thinking(random(5), 1), 400), from(writing(stream(8), true, 2), 900)],
        ),
        (
            "deep-random",
            deep,
            vec![Load { depth: 8, ..random(0) }, Load { depth: 8, ..random(9) }, stream(4)],
        ),
    ]
}

fn run(spec: &Spec, options: Options, loads: &[Load], most: Span) -> Outcomes {
    let disk = if options.depth > 1 { Disk::nearest_first(takes) } else { Disk::in_order(takes) };
    run_on(disk, &Environment::default(), spec, options, loads, most)
}

fn run_on(
    disk: Disk,
    environment: &Environment,
    spec: &Spec,
    options: Options,
    loads: &[Load],
    most: Span,
) -> Outcomes {
    let scheduler = spec.build(environment).unwrap();
    closed_loop::run(scheduler, options, disk, loads, most)
}

/// The digest of all decisions, with FNV-1a.
fn digest(log: &Log) -> u64 {
    let mut text = String::new();
    for (at, start, reason) in &log.0 {
        let _ = write!(text, "{at} {start} {reason};");
    }
    for (at, hold) in &log.1 {
        let _ = write!(text, "{at} {hold:?};");
    }
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn line(name: &str, scenario: &str, outcomes: &Outcomes) -> String {
    let requests: Vec<String> = outcomes.served.iter().map(|served| served.requests().to_string()).collect();
    let longest = outcomes.served.iter().map(Served::longest).max().unwrap_or_default();
    let (waits, digest) = (outcomes.log.1.len(), digest(&outcomes.log));
    format!("{name} | {scenario} | {} | {longest} | {waits} | {digest:016x}\n", requests.join(" "))
}

/// Every policy that works on one disk, by its full name, and wrappers around those that they accept.
fn policies() -> Vec<String> {
    // `dwell` changes with each evaluation of its regret, and split policies do little without their hooks above the block layer.
    let fits = |listing: &&Listing| !listing.needs_array() && !listing.split && listing.name != "dwell";
    let disks = registry::all().filter(fits);
    let names = disks.flat_map(|listing| {
        let name = listing.full_name();
        if !listing.is_wrapper() {
            return vec![name];
        }
        let inside = registry::all().filter(|inside| inside.is_work_conserving());
        inside.map(|inside| format!("{name}({})", inside.full_name())).collect()
    });
    names.collect()
}

/// Each tunable of each policy at the ends of its range.
fn extremes() -> Vec<Spec> {
    let plain = policies().into_iter().map(|name| Spec::parse(&name).unwrap());
    let at = |spec: Spec| {
        let tunables = spec.listing().tunables;
        let set = move |(tunable, value): (&'static elevator::Tunable, Value)| {
            spec.clone().with_tunable(tunable.name, value.to_string().trim_end_matches(" sectors")).unwrap()
        };
        tunables.iter().flat_map(|tunable| [(tunable, tunable.min), (tunable, tunable.max)]).map(set)
    };
    plain.flat_map(at).collect()
}

/// A load with drawn properties. Some share a process, a priority or a region with another one.
fn drawn_load(random: &mut Random, n: u32) -> Load {
    let process = if random.once_in(5) { 1 } else { n + 1 };
    let at = random.below(10) * CAPACITY / 10 + random.below(3) * 4_096;
    let path = match random.below(8) {
        0..4 => Path::Ahead([0, 0, 64, 8_000][random.below(4) as usize]),
        4 => Path::Within(4_096),
        5 | 6 => Path::Within(CAPACITY / 10),
        _ => {
            let spawn = Span::from_micros(100 + random.below(3_000));
            Path::Files { requests: 1 + random.below(6), gap: 64 << random.below(5), spawn }
        }
    };
    let is_write = random.once_in(3);
    let class = match random.below(8) {
        0 => PriorityClass::RealTime,
        1 => PriorityClass::Idle,
        _ => PriorityClass::BestEffort,
    };
    let level = if random.once_in(2) { 4 } else { random.below(8) as u8 };
    Load {
        process,
        op: if is_write { Op::Write } else { Op::Read },
        sync: !is_write || random.once_in(3),
        sectors: 8 << random.below(6),
        at,
        path,
        depth: if random.once_in(3) { 1 + random.below(24) as u32 } else { 1 },
        think: Span::from_micros([0, 30, 700, 2_500, 9_000, 30_000][random.below(6) as usize]),
        priority: Priority { class, level },
        start: Span::from_millis([0, 0, 0, 150, 600][random.below(5) as usize]),
        partner: None,
        enough: u64::MAX,
    }
}

/// A scenario from a seed: two to nine loads in front of a queue with drawn options.
fn drawn(seed: u64) -> (Options, Vec<Load>) {
    let mut random = Random::new(seed);
    let loads = 2 + random.below(8) as u32;
    let mut loads: Vec<Load> = (0..loads).map(|n| drawn_load(&mut random, n)).collect();
    if random.once_in(3) {
        // Two processes that wait for each other.
        let every = 1 + random.below(8);
        loads[0] = Load { partner: Some(Partner { load: 1, every }), depth: 1, ..loads[0] };
        loads[1] = Load { partner: Some(Partner { load: 0, every }), depth: 1, ..loads[1] };
    }
    let options = Options {
        depth: [1, 1, 2, 8, 31][random.below(5) as usize],
        plugging: if random.once_in(2) { Plugging::None } else { Options::default().plugging },
        identity: if random.once_in(4) { Identity::Hidden } else { Identity::Shown },
        merges: !random.once_in(4),
        ..Options::default()
    };
    (options, loads)
}

/// A policy with drawn tunables: half of the seeds have the default ones.
fn tuned(name: &str, seed: u64) -> Spec {
    let mut spec = Spec::parse(name).unwrap();
    let mut random = Random::new(seed * 7_919);
    if seed.is_multiple_of(2) {
        return spec;
    }
    for tunable in spec.listing().tunables {
        let text = match (tunable.default, random.below(5)) {
            (Value::Span(of), 0) => (of / 4).to_string(),
            (Value::Span(of), 1) => (of * 3).min(Span::from_secs(3)).to_string(),
            (Value::Count(of), 0) => (of / 2).to_string(),
            (Value::Count(of), 1) => (of * 3).to_string(),
            (Value::Percent(of), 0) => format!("{}%", of / 2),
            (Value::Percent(of), 1) => format!("{}%", of + of / 3),
            (Value::Flag(of), 0) => Value::Flag(!of).to_string(),
            _ => continue,
        };
        // A value out of range leaves the default.
        spec = spec.clone().with_tunable(tunable.name, &text).unwrap_or(spec);
    }
    spec
}

/// Runs a policy in a drawn scenario; of four devices one is solid-state.
fn run_drawn(name: &str, seed: u64) -> Outcomes {
    let (options, loads) = drawn(seed);
    if !seed.is_multiple_of(4) {
        return run(&tuned(name, seed), options, &loads, Span::from_secs(2));
    }
    let environment = Environment { rotational: false, nr_requests: 64, ..Environment::default() };
    let fast = |head: Sector, request: &Request| {
        let jump = if head == request.start { Span::ZERO } else { Span::from_micros(150) };
        jump + Span::from_micros(3) * u64::from(request.sectors.0)
    };
    run_on(Disk::in_order(fast), &environment, &tuned(name, seed), options, &loads, Span::from_millis(700))
}

/// Compares results with a golden file.
fn compare(file: &str, text: &str) {
    let path = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("tests/results").join(file);
    if std::env::var_os("DWELL_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    let changed: Vec<&str> = text.lines().filter(|line| !golden.lines().any(|was| was == *line)).collect();
    assert!(
        changed.is_empty() && golden.lines().count() == text.lines().count(),
        "{} of {} results are new or differ from tests/results/{file}, which has {} lines:\n{}\n\
         If the change is intended, write the file anew with DWELL_BLESS=1 cargo test -p dwell-schedulers --test results, and \
         explain the changed lines in the commit.",
        changed.len(),
        text.lines().count(),
        golden.lines().count(),
        changed.join("\n")
    );
}

#[test]
fn results_with_default_settings_equal_the_golden_file() {
    let mut text = String::new();
    for name in policies() {
        for (scenario, options, loads) in scenarios() {
            let spec = Spec::parse(&name).unwrap();
            text += &line(&name, scenario, &run(&spec, options, &loads, Span::from_secs(2)));
        }
    }
    compare("results.golden", &text);
}

/// In the two scenarios with the most kinds of loads.
#[test]
fn results_at_the_ends_of_tunables_equal_the_golden_file() {
    let mut text = String::new();
    for spec in extremes() {
        for (scenario, options, loads) in
            scenarios().into_iter().filter(|of| ["mix", "classes"].contains(&of.0))
        {
            text += &line(&spec.to_string(), scenario, &run(&spec, options, &loads, Span::from_secs(1)));
        }
    }
    compare("extremes.golden", &text);
}

/// Drawn loads, options and tunables. A line has the results of one policy: its requests in all scenarios, and one digest.
#[test]
fn results_of_drawn_scenarios_equal_the_golden_file() {
    let mut text = String::new();
    for name in policies() {
        let (mut requests, mut digests) = (0, String::new());
        for seed in 1..=DRAWN {
            let outcomes = run_drawn(&name, seed);
            requests += outcomes.served.iter().map(Served::requests).sum::<u64>();
            let _ = write!(digests, " {:04x}", digest(&outcomes.log) & 0xffff);
        }
        let _ = writeln!(text, "{name} | {requests} |{digests}");
    }
    compare("drawn.golden", &text);
}

/// A policy with many rules in many drawn scenarios: the requests of each sixteen, and their digest.
fn many(name: &str) {
    let mut text = String::new();
    for first in (1..=MANY).step_by(16) {
        let outcomes: Vec<Outcomes> = (first..first + 16).map(|seed| run_drawn(name, 1_000 + seed)).collect();
        let served = outcomes.iter().flat_map(|outcomes| &outcomes.served);
        let digest = outcomes.iter().fold(0, |all: u64, outcomes| all.rotate_left(7) ^ digest(&outcomes.log));
        let _ = writeln!(
            text,
            "{name} | {first} | {} | {digest:016x}",
            served.map(Served::requests).sum::<u64>()
        );
    }
    compare(&format!("many-{}.golden", name.split('(').next().unwrap_or(name)), &text);
}

macro_rules! many {
    ($($test:ident: $name:literal),+ $(,)?) => {
        $(#[test]
        fn $test() {
            many($name);
        })+
    };
}

many! {
    bfq_in_many_scenarios: "bfq",
    cfq_in_many_scenarios: "cfq-2.6.32",
    old_anticipatory_in_many_scenarios: "anticipatory-2.6.9",
    anticipatory_in_many_scenarios: "anticipatory-2.6.32",
    cooperative_in_many_scenarios: "cooperative",
    kyber_in_many_scenarios: "kyber",
    stream_in_many_scenarios: "stream(deadline)",
}
