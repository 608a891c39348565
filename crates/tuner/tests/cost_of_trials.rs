//! What the trials of the default decider cost in the worst hour, on a device where one scheduler is good and the others are dreadful.

mod world;

use std::collections::VecDeque;

use tuner::{Analyser, DeciderName, Facts, Measured, Metric, Performance, Random, Tuner};
use world::{few_points, names, window};

/// The load of a window by its number.
type Load = fn(u64) -> usize;

/// Windows of an hour.
const HOUR: usize = 720;

/// The bandwidth of a window under a scheduler, if that one is the good one.
fn bandwidth(scheduler: usize, good: usize) -> f64 {
    if scheduler == good { 100e6 } else { 5e6 }
}

/// The greatest part of an hour's bytes that the good scheduler would have given in addition, over `hours` that begin under scheduler 0.
fn worst_hour(decider: DeciderName, good: usize, hours: usize, load: Load) -> f64 {
    let analyser = Analyser::new(names(), Metric::Bandwidth, few_points(), Random::new(1)).unwrap();
    let mut tuner = Tuner::new(analyser.with_decider(decider), &names()[0], true);
    let (mut noise, mut scheduler, mut worst) = (Random::new(5), 0, f64::MIN);
    let mut hour: VecDeque<(f64, f64)> = VecDeque::new();
    for number in 0..(hours * HOUR) as u64 {
        let value = bandwidth(scheduler, good) * (0.98 + 0.04 * noise.unit());
        let measured = Measured::rate(value, 1.0);
        // The part of the window after which it ends.
        let end = tuner.early_end().filter(|end| end.scheduler == scheduler);
        let due = |end: tuner::EarlyEnd| {
            (1..10).map(|tenths| f64::from(tenths) / 10.0).find(|&part| end.is_due(&measured, part))
        };
        let ended = end.and_then(due);
        let part = ended.unwrap_or(1.0);
        hour.push_back((value * part, bandwidth(good, good) * part));
        if hour.len() > HOUR {
            hour.pop_front();
        }
        if hour.len() == HOUR {
            let sum = |of: fn(&(f64, f64)) -> f64| hour.iter().map(of).sum::<f64>();
            worst = f64::max(worst, 1.0 - sum(|of| of.0) / sum(|of| of.1));
        }
        let decision = tuner.window(&Facts {
            window: &window(load(number), number),
            scheduler: &names()[scheduler],
            performance: Performance { bandwidth: value, ..Performance::default() },
            measured: Some(measured),
            early: ended.is_some(),
            failed: false,
        });
        scheduler = decision.scheduler.map_or(scheduler, |to| to.0);
    }
    worst
}

#[test]
fn trials_cost_little_in_the_worst_hour() {
    let loads: [(&str, Load); 3] = [
        ("changes every 200 s", |number| (number / 40 % 3) as usize),
        ("alternates", |number| (number % 4) as usize),
        ("random reads", |_| 3),
    ];
    for (name, load) in loads {
        for good in [0, 2] {
            let worst = worst_hour(DeciderName::Kinds, good, 2, load);
            println!("{name}, {} is good: {:.1}%", names()[good], worst * 100.0);
            assert!(worst < 0.03, "{name}, {good}: {worst}");
        }
    }
}
