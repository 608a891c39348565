//! The steps of openings, and of the significance test behind them, in a golden file: one load of each class, with values of several devices.
//!
//! `DWELL_BLESS=1 cargo test -p dwell-tuner --test opening_log` writes the file anew; the commit must explain each changed line.

mod golden;

use std::fmt::Write as _;

use elevator::{Op, Sector, Sectors, Span, Time};
use tuner::{
    Access, LatencyClass, LatencyStatistic, Load, Measured, Metric, Opening, Random, SignificanceTest,
    Verdict, Window,
};

const NAMES: [&str; 7] = ["none", "mq-deadline", "kyber", "bfq", "bfq{low_latency=0}", "cfq-2.6.32", "dwell"];

fn window(accesses: u64, of: impl Fn(u64, &mut Random) -> (Op, u64, u32)) -> Window {
    let mut random = Random::new(accesses);
    let access = |n: u64| {
        let (op, position, sectors) = of(n, &mut random);
        let time = Time::ZERO + Span::from_millis(n * 5_000 / accesses);
        Access { time, position: Sector(position), op, size: Sectors(sectors) }
    };
    Window { start: Time::ZERO, length: Span::from_secs(5), accesses: (0..accesses).map(access).collect() }
}

/// A window of each class of loads.
fn loads() -> Vec<(&'static str, Window)> {
    let far = 1 << 28;
    let reader = move |n: u64| n % 4 * far + n / 4 * 8;
    vec![
        ("streams", window(600, move |n, _| (Op::Read, reader(n), 8))),
        (
            "streams and writes",
            window(600, move |n, random| match n % 3 {
                0 => (Op::Write, random.below(far), 16),
                _ => (Op::Read, reader(n), 8),
            }),
        ),
        ("one stream", window(600, |n, _| (Op::Read, n * 256, 256))),
        ("random reads", window(500, move |_, random| (Op::Read, random.below(4 * far), 8))),
        (
            "random mix",
            window(500, move |n, random| {
                (if n % 2 == 0 { Op::Read } else { Op::Write }, random.below(4 * far), 8)
            }),
        ),
        (
            "writes",
            window(500, move |n, random| {
                (if n % 20 == 0 { Op::Read } else { Op::Write }, random.below(far), 8)
            }),
        ),
        ("fast", window(20_000, move |_, random| (Op::Read, random.below(far), 8))),
    ]
}

/// Values by scheduler and window; the part of the window in which the device is busy.
type Device = (&'static str, fn(usize, u64) -> f64, f64);

const DEVICES: [Device; 6] = [
    ("waiting pays", |arm, _| [1.0, 1.2, 1.0, 8.0, 36.0, 30.0, 34.0][arm], 1.0),
    (
        "sorting pays a little",
        |arm, n| [10.0, 11.5, 10.1, 9.0, 8.0, 4.0, 11.0][arm] + (n % 3) as f64 / 50.0,
        1.0,
    ),
    ("nothing pays", |arm, n| [100.0, 99.0, 98.0, 60.0, 50.0, 45.0, 97.0][arm] + (n % 5) as f64 / 10.0, 0.7),
    (
        "a program starts",
        |arm, n| if n == 0 { 3.0 } else { [10.0, 10.2, 9.9, 12.0, 9.0, 8.0, 15.0][arm] },
        1.0,
    ),
    (
        "cold",
        |arm, n| [10.0, 10.0, 9.0, 14.0, 18.0, 13.0, 16.0][arm] * if n % 2 == 0 { 0.6 } else { 1.0 },
        0.9,
    ),
    ("lucky trials", |arm, n| if n > 5 { 4.0 } else { [5.0, 6.0, 5.0, 20.0, 30.0, 18.0, 25.0][arm] }, 1.0),
];

/// The opening, then the test until it has a verdict.
fn log(metric: Metric, load: &str, window: &Window, (device, value, busy): Device) -> String {
    let names = NAMES.map(str::to_owned);
    let (mut opening, mut arm) = (Opening::new(&names, metric), 0);
    let mut text = format!("{load}, {device}, {metric:?}\n");
    let measured = |arm: usize, n: u64| {
        let value = value(arm, n);
        match metric {
            Metric::Latency(..) => Measured::throughout(1.0 / value),
            _ => Measured::rate(value, busy),
        }
    };
    let mut n = 0;
    while !opening.is_over() {
        if let Some(end) = opening.early_end() {
            let due = end.is_due(&measured(arm, n), 0.6);
            let _ = writeln!(
                text,
                "  ends early if {} loses {:.2} of {:.4}: {due}",
                end.scheduler, end.limit, end.reference.value
            );
        }
        let step = opening.window(arm, measured(arm, n), (window, true), None);
        if !step.why.starts_with("stay with") {
            let _ = writeln!(text, "  {n}: {}", step.why);
        }
        arm = step.scheduler.unwrap_or(arm);
        n += 1;
    }
    let opened = opening.results();
    let _ =
        writeln!(text, "  best {:?}, clear {}, hopeless {:?}", opened.best, opened.clear, opened.hopeless);
    let mut test = SignificanceTest::new(&names, metric.better()).unwrap();
    test.opened(&opened);
    let (load, mut order) = (Load::of(window), Vec::new());
    while let Verdict::Measure(arm) = test.verdict() {
        let (place, of) = test.progress();
        order.push(format!("{arm}({place}/{of})"));
        test.learn(arm, measured(arm, n), &load);
        n += 1;
    }
    let _ = writeln!(text, "  measured {}: {:?}", order.join(" "), test.verdict());
    text
}

#[test]
fn steps_equal_the_golden_file() {
    let latency = Metric::Latency(LatencyStatistic::P99, LatencyClass::Reads);
    let mut all = String::new();
    for (load, window) in loads() {
        for device in DEVICES {
            for metric in [Metric::Bandwidth, latency] {
                all += &log(metric, load, &window, device);
            }
        }
    }
    golden::compare("opening.txt", &all);
}
