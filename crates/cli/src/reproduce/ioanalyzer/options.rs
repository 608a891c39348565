//! What the paper's way and each option beyond it make of a benchmark, beside the tuner as preset, over several seeds.

use tuner::Parameters;

use super::phase::Lab;
use super::training::{Benchmark, Outcome, Restrain, Tuning, in_parallel, train, trained};
use crate::error::Error;
use crate::reproduce::Row;

/// Arms that stand for searched settings.
const OPEN: usize = 2;
/// Of the tuner's generator: what one of them makes of a benchmark differs by some hundredths from what another does.
pub(super) const SEEDS: &[u64] = &[1, 2, 3];

/// An option in words, and what it changes.
pub(super) type Way = (&'static str, fn(Tuning) -> Tuning);

fn with(tuning: Tuning, set: impl FnOnce(&mut Parameters)) -> Tuning {
    let mut parameters = tuning.parameters;
    set(&mut parameters);
    Tuning { parameters, ..tuning }
}

pub(super) const WAYS: &[Way] = &[
    ("the paper's way", |tuning| with(tuning, |p| (p.bandit_best, p.bandit_second) = (80, 10))),
    ("as preset", |tuning| tuning),
    ("kinds of load", |tuning| with(tuning, |p| p.kinds = true)),
    ("choices credited", |tuning| with(tuning, |p| p.credit_choices = true)),
    ("random windows known by their distribution", |tuning| with(tuning, |p| p.distribution = true)),
    ("both", |tuning| with(tuning, |p| (p.credit_choices, p.distribution) = (true, true))),
    ("the bound on regret", |tuning| Tuning { restrain: Restrain::Regret, ..tuning }),
    ("hysteresis", |tuning| Tuning { restrain: Restrain::Hysteresis, ..tuning }),
    ("switches counted with their cost", |tuning| Tuning { restrain: Restrain::SwitchCost, ..tuning }),
    ("choices credited, and settings searched", |tuning| {
        with(Tuning { search: OPEN, ..tuning }, |p| p.credit_choices = true)
    }),
];

/// For experiments that take long: what is preset, what the paper does, and what did best elsewhere.
pub(super) const FEW: &[Way] = WAYS.split_at(3).0;

/// `preset` is what the tuner as preset made of it with `tuning`, whose metric, window and runs all of them share.
pub(super) fn beyond(
    name: &str,
    lab: &Lab,
    benchmark: &Benchmark,
    tuning: Tuning,
    preset: &Outcome,
    (ways, seeds): (&[Way], &[u64]),
) -> Result<Vec<Row>, Error> {
    let best = preset.fixed_seconds()[preset.best()];
    let outcomes = in_parallel(ways.len() * seeds.len(), |index| {
        let (way, seed) = (index / seeds.len(), seeds[index % seeds.len()]);
        trained(lab, benchmark, ways[way].1(Tuning { seed, ..tuning }))
    })?;
    let mut rows = Vec::new();
    rows.push(Row::reported(
        name,
        "a switch stops the device for".to_owned(),
        "",
        preset.drain() * 1e3,
        "ms",
    ));
    for ((what, _), outcomes) in ways.iter().zip(outcomes.chunks(seeds.len())) {
        rows.push(over_seeds(name, what, "trained", outcomes, best, Outcome::trained_seconds));
        rows.push(over_seeds(name, what, "all runs", outcomes, best, Outcome::mean_seconds));
    }
    rows.push(transfer(name, lab, benchmark, tuning, preset)?);
    Ok(rows)
}

/// The mean over the seeds; the least and the most are noted.
fn over_seeds(
    name: &str,
    what: &str,
    when: &str,
    outcomes: &[Outcome],
    best: f64,
    seconds: fn(&Outcome) -> f64,
) -> Row {
    let of: Vec<f64> = outcomes.iter().map(|outcome| seconds(outcome) / best).collect();
    let mean = of.iter().sum::<f64>() / of.len() as f64;
    let (least, most) = of.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &x| (low.min(x), high.max(x)));
    let figure = format!("{what}: {when}, over the best fixed");
    let seeds = of.len();
    Row::reported(name, figure, "not in it", mean, "x")
        .noting(format!("{what}, {when}: {least:.3} to {most:.3} with {seeds} seeds"))
}

/// Clusters of another machine with the same drive: its tuner was trained on other runs of the benchmark.
fn transfer(
    name: &str,
    lab: &Lab,
    benchmark: &Benchmark,
    tuning: Tuning,
    preset: &Outcome,
) -> Result<Row, Error> {
    let there = Tuning { seed: 2, from: tuning.runs, ..tuning };
    let (_, learned) = train(lab, benchmark, there, None)?;
    let (here, _) = train(lab, benchmark, Tuning { runs: 1, ..tuning }, Some(learned))?;
    let (first, untrained) = (here.tuned_seconds(0), preset.tuned_seconds(0));
    let figure = "the first run with another machine's clusters, over the first run without".to_owned();
    Ok(Row::reported(name, figure, "not in it", first / untrained, "x"))
}
