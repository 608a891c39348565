//! What the paper's way and each option beyond it make of a benchmark, beside the tuner as preset.

use tuner::{DeciderName, Parameters};

use super::phase::Lab;
use super::training::{Benchmark, Outcome, Tuning, train, trained};
use crate::error::Error;
use crate::papers::Row;
use crate::parallel::in_parallel;

/// An option in words, and what it changes.
pub(super) struct Way {
    what: &'static str,
    set: fn(Tuning) -> Tuning,
}

impl Way {
    const fn of(what: &'static str, set: fn(Tuning) -> Tuning) -> Self {
        Self { what, set }
    }
}

/// IOAnalyzer decides, and more is changed.
fn by_clusters(tuning: Tuning, set: impl FnOnce(&mut Parameters)) -> Tuning {
    let mut parameters = tuning.parameters;
    set(&mut parameters);
    Tuning { decider: DeciderName::IoAnalyzer, parameters, ..tuning }
}

/// What the paper does, and its way at its best.
pub(super) const WAYS: &[Way] = &[
    Way::of("the paper's way", |tuning| by_clusters(tuning, |p| (p.bandit_best, p.bandit_second) = (80, 10))),
    Way::of("clusters, with a bandit at 95 and 3%", |tuning| by_clusters(tuning, |_| {})),
];

/// The tuner as preset, by kinds of load: for a tuning that an experiment's own rows do not have.
pub(super) const PRESET: &[Way] = &[Way::of("as preset", |tuning| tuning)];

/// What the ways make of it with `tuning`, whose metric, window and runs all of them share, over `best` seconds.
pub(super) fn beside(
    name: &str,
    lab: &Lab,
    benchmark: &Benchmark,
    tuning: Tuning,
    best: f64,
    ways: &[Way],
) -> Result<Vec<Row>, Error> {
    let outcomes = in_parallel(ways.len(), |n| trained(lab, benchmark, (ways[n].set)(tuning)))
        .into_iter()
        .collect::<Result<Vec<_>, Error>>()?;
    let mut rows = Vec::new();
    for (way, outcome) in ways.iter().zip(&outcomes) {
        for (when, seconds) in [("trained", outcome.trained_seconds()), ("all runs", outcome.mean_seconds())]
        {
            let figure = format!("{}: {when}, over the best fixed", way.what);
            rows.push(Row::reported(name, figure, "not in it", seconds / best, "x"));
        }
    }
    Ok(rows)
}

/// `preset` is what the tuner as preset made of it with `tuning`. Also what a switch costs, and what another machine's clusters bring.
pub(super) fn beyond(
    name: &str,
    lab: &Lab,
    benchmark: &Benchmark,
    tuning: Tuning,
    preset: &Outcome,
    ways: &[Way],
) -> Result<Vec<Row>, Error> {
    let figure = "a switch stops the device for".to_owned();
    let mut rows = vec![Row::reported(name, figure, "", preset.drain() * 1e3, "ms")];
    let best = preset.best_seconds();
    rows.extend(beside(name, lab, benchmark, tuning, best, ways)?);
    rows.push(transfer(name, lab, benchmark, tuning, preset)?);
    Ok(rows)
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
