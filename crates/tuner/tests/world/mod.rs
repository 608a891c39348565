//! A made-up machine for tests: a few patterns of access, and how well each scheduler serves each of them.
#![allow(dead_code, unreachable_pub)]

use elevator::{Op, Sector, Sectors, Span, Time};
use tuner::{
    Access, Analyser, DeciderName, Decision, Metric, Observed, Parameters, Performance, Random, SchedulerId,
    Window,
};

pub const T: Span = Span::from_secs(5);
const STRIDE: u64 = 300_000_000;
pub const NAMES: [&str; 4] = ["noop", "deadline", "cfq", "as"];

/// Bandwidth of each pattern under each scheduler; each has another best one.
pub const BANDWIDTH: [[f64; 4]; 3] =
    [[60e6, 80e6, 100e6, 70e6], [30e6, 20e6, 10e6, 15e6], [50e6, 55e6, 60e6, 90e6]];

pub fn names() -> Vec<String> {
    NAMES.map(str::to_string).to_vec()
}

/// Fewer points make the paper's algorithm faster.
pub fn few_points() -> Parameters {
    Parameters { x: 100, ..Parameters::default() }
}

pub fn analyser(parameters: Parameters, seed: u64) -> Analyser {
    Analyser::new(names(), Metric::Bandwidth, parameters, Random::new(seed)).unwrap()
}

/// The same by IOAnalyzer.
pub fn paper(parameters: Parameters, seed: u64) -> Analyser {
    analyser(parameters, seed).with_decider(DeciderName::IoAnalyzer)
}

/// Ten windows of one kind are alike but not equal: other places, other moments.
pub fn window(pattern: usize, number: u64) -> Window {
    let start = Time::ZERO + T * number;
    let mut chance = Random::new(number * 31 + pattern as u64);
    let offset = chance.below(1 << 20) * 8;
    let count = 1000 + chance.below(40);
    let place = |i: u64| match pattern {
        // One stream.
        0 => i * 8,
        // A stride over a large array, forwards or backwards: as far from the stream as random places are.
        1 => i * STRIDE,
        2 => 2000 * STRIDE - i * STRIDE,
        // Anywhere, never the same again.
        _ => Random::new(number << 20 | i).below(900_000_000),
    };
    let access = |i: u64| Access {
        time: start + Span::from_nanos(i * T.as_nanos() / count),
        position: Sector(offset + place(i)),
        op: if i.is_multiple_of(7) { Op::Write } else { Op::Read },
        size: Sectors(8),
    };
    Window { start, length: T, accesses: (0..count).map(access).collect() }
}

/// A machine that applies the settings and measures itself with some noise.
pub struct World {
    pub analyser: Analyser,
    pub scheduler: SchedulerId,
    pub noise: Random,
    pub number: u64,
    pub bandwidth: fn(usize, usize, u64) -> f64,
}

impl World {
    pub fn new(analyser: Analyser) -> Self {
        let bandwidth = |pattern: usize, scheduler: usize, _| BANDWIDTH[pattern % 3][scheduler];
        Self { analyser, scheduler: SchedulerId(0), noise: Random::new(99), number: 0, bandwidth }
    }

    /// One window of `pattern`; returns what was given and the decision taken after it, which is in force.
    pub fn step(&mut self, pattern: usize) -> (f64, Decision) {
        let usual = (self.bandwidth)(pattern, self.scheduler.0, self.number);
        let bandwidth = usual * (0.98 + 0.04 * self.noise.unit());
        let observed = Observed {
            scheduler: Some(self.scheduler),
            performance: Performance { bandwidth, ..Performance::default() },
        };
        let decision = self.analyser.window(&window(pattern, self.number), &observed);
        self.number += 1;
        self.scheduler = decision.scheduler.unwrap_or(self.scheduler);
        (bandwidth, decision)
    }
}

/// The best scheduler of a pattern.
pub fn best(pattern: usize) -> SchedulerId {
    let row = BANDWIDTH[pattern % 3];
    SchedulerId((0..4).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap())
}
