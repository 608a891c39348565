//! The decisions of the default decider in fixed worlds, in a golden file: each switch with its reason, and a digest of all decisions and of
//! what was learned.
//!
//! `DWELL_BLESS=1 cargo test -p dwell-tuner --test kinds_log` writes the file anew; the commit must explain each changed line.

mod golden;
mod world;

use std::fmt::Write as _;

use elevator::{Op, Sector, Sectors, Span, Time};
use tuner::throughput::{Curve, CurveClass, Table};
use tuner::{
    Access, Analyser, Better, DeciderName, Decision, Fact, Measured, Metric, Observed, Performance, Random,
    SchedulerId, Window,
};
use world::{T, few_points, names, window};

/// The value of a window: by its load, its scheduler, its number, and the number of windows in a row under the scheduler.
type Given = fn(usize, usize, u64, u64) -> f64;

/// A world in which a decider works.
struct Fixed {
    name: &'static str,
    analyser: Analyser,
    windows: u64,
    /// The load of a window by its number.
    load: fn(u64) -> usize,
    /// The window of a load under a scheduler.
    window: fn(usize, usize, u64) -> Window,
    given: Given,
    /// Whether lost trials end early.
    early: bool,
    /// A scheduler that the device rejects.
    rejects: Option<usize>,
}

fn analyser(metric: Metric) -> Analyser {
    Analyser::new(names(), metric, few_points(), Random::new(1)).unwrap()
}

fn plain(name: &'static str, given: Given) -> Fixed {
    Fixed {
        name,
        analyser: analyser(Metric::Bandwidth),
        windows: 300,
        load: |number| (number / 30 % 3) as usize,
        window: |load, _, number| window(load, number),
        given,
        early: false,
        rejects: None,
    }
}

/// Reads whose order and number depend on the scheduler; load 1 has writes at random.
fn of_scheduler(load: usize, scheduler: usize, number: u64) -> Window {
    let start = Time::ZERO + T * number;
    let (count, turn) = if scheduler >= 2 { (400, 40) } else { (120, 1) };
    let place = |n: u64| match (load, scheduler) {
        (0, 1) => Random::new(number << 20 | n).below(1 << 31),
        (0, _) => (n / turn % 4) * 300_000_000 + (n / (4 * turn) * turn + n % turn) * 8,
        _ => Random::new(number << 21 | n).below(1 << 30),
    };
    let access = |n: u64| Access {
        time: start + Span::from_nanos(n * T.as_nanos() / count),
        position: Sector(place(n)),
        op: if load == 1 && n.is_multiple_of(3) { Op::Write } else { Op::Read },
        size: Sectors(8 << load),
    };
    Window { start, length: T, accesses: (0..count).map(access).collect() }
}

fn worlds() -> Vec<Fixed> {
    const BEST: [[f64; 4]; 3] =
        [[60.0, 80.0, 100.0, 70.0], [30.0, 20.0, 10.0, 15.0], [50.0, 55.0, 60.0, 90.0]];
    let steady: Given =
        |load, scheduler, number, _| BEST[load][scheduler] * (0.97 + 0.06 * Random::new(number).unit());
    // Cold caches after a switch, and a phase in which little is requested.
    let phases: Given = |load, scheduler, number, row| {
        let phase = if number % 70 < 20 { 0.2 } else { 1.0 };
        BEST[load][scheduler] * phase * if row == 1 { 0.6 } else { 1.0 }
    };
    let near: Given = |load, scheduler, number, _| {
        let noise = 0.9 + 0.2 * Random::new(number * 3).unit();
        noise * [[10.0, 10.4, 9.8, 10.1], [5.0, 5.2, 4.9, 6.0], [8.0, 8.0, 8.0, 8.0]][load][scheduler]
    };
    // A scheduler keeps its readers together only if it serves them for long.
    let lasting: Given = |_, scheduler, number, row| match scheduler {
        2 if row > 10 => 20.0,
        2 => 11.0,
        _ => 10.0 + (number % 5) as f64 / 10.0,
    };
    let latency: Given = |load, scheduler, number, _| {
        1000.0 / BEST[load][scheduler] * (0.97 + 0.06 * Random::new(number).unit())
    };
    let of_both = |load: usize, scheduler: usize, number: u64| of_scheduler(load % 2, scheduler, number);
    let curve = |t: f64| vec![Curve { kind: CurveClass::MIXED, points: vec![(4096.0, t)] }];
    let table = Table { curves: [5e6, 9e6, 7e6, 8e6].map(curve).to_vec() };
    let lower = Metric::External(Better::Lower);
    vec![
        plain("steady", steady),
        Fixed { load: |_| 0, windows: 700, ..plain("one load", steady) },
        Fixed { windows: 500, ..plain("phases", phases) },
        Fixed { windows: 900, ..plain("near", near) },
        Fixed { load: |_| 0, windows: 800, ..plain("lasting", lasting) },
        Fixed { analyser: analyser(lower), ..plain("lower is better", latency) },
        Fixed {
            window: of_both,
            windows: 600,
            load: |number| (number / 40 % 2) as usize,
            ..plain("shapes", steady)
        },
        Fixed { early: true, ..plain("early ends", steady) },
        Fixed { rejects: Some(2), ..plain("rejected", steady) },
        Fixed { analyser: analyser(Metric::Bandwidth).with_a_priori(table), ..plain("table", steady) },
        Fixed {
            analyser: analyser(Metric::Bandwidth).with_decider(DeciderName::Bandit),
            windows: 200,
            ..plain("bandit", steady)
        },
        Fixed {
            analyser: analyser(Metric::Bandwidth).with_decider(DeciderName::IoAnalyzer),
            ..plain("ioanalyzer", steady)
        },
    ]
}

fn digest(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The world's log: a line for each switch, and the digests.
fn log(mut world: Fixed) -> String {
    let (mut scheduler, mut row) = (SchedulerId(0), 0);
    let (mut text, mut all) = (format!("{}\n", world.name), String::new());
    for number in 0..world.windows {
        row += 1;
        let load = (world.load)(number);
        let given = (world.given)(load, scheduler.0, number, row);
        let end = world.analyser.early_end().filter(|end| world.early && end.scheduler == scheduler.0);
        if end.is_some_and(|end| end.is_due(&Measured::throughout(given), 0.7)) {
            world.analyser.learn(Fact::EndedEarly);
        }
        let performance = Performance { bandwidth: given, external: Some(given), ..Performance::default() };
        let observed = Observed { scheduler: Some(scheduler), performance };
        let seen = (world.window)(load, scheduler.0, number);
        let decision = world.analyser.window(&seen, &observed);
        let _ = writeln!(all, "{decision:?}");
        if decision.change {
            let _ = writeln!(text, "{number:4} {}", decision.line(world.analyser.schedulers()));
        }
        follow(&mut world, &decision, &mut scheduler, &mut row);
    }
    let kinds = world.analyser.state().kinds;
    let _ =
        writeln!(text, "decisions {:016x}, knowledge {:016x}", digest(&all), digest(&format!("{kinds:?}")));
    for kind in kinds.loads() {
        let _ = writeln!(text, "kind {kind}: {:?}", kinds.expected(kind, Better::Higher));
    }
    text
}

/// The next window runs under the chosen scheduler, if the device accepts it.
fn follow(world: &mut Fixed, decision: &Decision, scheduler: &mut SchedulerId, row: &mut u64) {
    let Some(chosen) = decision.scheduler.filter(|chosen| chosen != scheduler) else { return };
    if world.rejects == Some(chosen.0) {
        return world.analyser.learn(Fact::Rejected(chosen));
    }
    (*scheduler, *row) = (chosen, 0);
}

#[test]
fn decisions_equal_the_golden_file() {
    let log: String = worlds().into_iter().map(log).collect();
    golden::compare("kinds.txt", &log);
}
