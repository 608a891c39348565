//! Results of a benchmark under variants of the tuner: the default decider `kinds`, and the paper's `ioanalyzer` with two bandits.

use tuner::{DeciderName, Parameters};

use super::phase::Lab;
use super::training::{Benchmark, Outcome, Tuning, train, trained};
use crate::error::Error;
use crate::papers::Row;
use crate::parallel::in_parallel;

/// A variant of the tuner: its name in figures, and its difference to a given tuning.
pub(super) struct Variant {
    name: &'static str,
    set: fn(Tuning) -> Tuning,
}

impl Variant {
    const fn of(name: &'static str, set: fn(Tuning) -> Tuning) -> Self {
        Self { name, set }
    }
}

/// The decider `ioanalyzer` with changed parameters.
fn ioanalyzer(tuning: Tuning, set: impl FnOnce(&mut Parameters)) -> Tuning {
    let mut parameters = tuning.parameters;
    set(&mut parameters);
    Tuning { decider: DeciderName::IoAnalyzer, parameters, ..tuning }
}

/// The paper's algorithm with the bandit of its example, and with the bandit that is Dwell's default.
pub(super) const IOANALYZER: &[Variant] = &[
    Variant::of("decider ioanalyzer, bandit at 80 and 10%", |tuning| {
        ioanalyzer(tuning, |p| (p.bandit_best, p.bandit_second) = (80, 10))
    }),
    Variant::of("decider ioanalyzer, bandit at 95 and 3%", |tuning| ioanalyzer(tuning, |_| {})),
];

/// The default decider: for a tuning that differs from that of the experiment's own rows.
pub(super) const KINDS: &[Variant] = &[Variant::of("decider kinds", |tuning| tuning)];

/// The time of the benchmark under each variant, as a ratio to `best` seconds. All variants have the metric, window and runs of `tuning`.
pub(super) fn variant_rows(
    name: &str,
    lab: &Lab,
    benchmark: &Benchmark,
    tuning: Tuning,
    best: f64,
    variants: &[Variant],
) -> Result<Vec<Row>, Error> {
    let outcomes = in_parallel(variants.len(), |n| trained(lab, benchmark, (variants[n].set)(tuning)))
        .into_iter()
        .collect::<Result<Vec<_>, Error>>()?;
    let mut rows = Vec::new();
    for (variant, outcome) in variants.iter().zip(&outcomes) {
        for (when, seconds) in [("trained", outcome.trained_seconds()), ("all runs", outcome.mean_seconds())]
        {
            let figure = format!("{}: {when}, time over the best fixed", variant.name);
            rows.push(Row::reported(name, figure, "not published", seconds / best, "x"));
        }
    }
    Ok(rows)
}

/// The duration of a switch, the variants, and a start with the state of another machine. `kinds` is the outcome of the decider `kinds` with
/// `tuning`.
pub(super) fn further_rows(
    name: &str,
    lab: &Lab,
    benchmark: &Benchmark,
    tuning: Tuning,
    kinds: &Outcome,
    variants: &[Variant],
) -> Result<Vec<Row>, Error> {
    let figure = "time for which a switch stops the device".to_owned();
    let mut rows = vec![Row::reported(name, figure, "", kinds.drain() * 1e3, "ms")];
    let best = kinds.best_seconds();
    rows.extend(variant_rows(name, lab, benchmark, tuning, best, variants)?);
    rows.push(transfer(name, lab, benchmark, tuning, kinds)?);
    Ok(rows)
}

/// The first run with the learned state of another machine with the same drive, whose tuner was trained on other runs of the benchmark.
fn transfer(
    name: &str,
    lab: &Lab,
    benchmark: &Benchmark,
    tuning: Tuning,
    kinds: &Outcome,
) -> Result<Row, Error> {
    let there = Tuning { seed: 2, from: tuning.runs, ..tuning };
    let (_, learned) = train(lab, benchmark, there, None)?;
    let (here, _) = train(lab, benchmark, Tuning { runs: 1, ..tuning }, Some(learned))?;
    let (first, untrained) = (here.tuned_seconds(0), kinds.tuned_seconds(0));
    let figure = "first run with another machine's learned state, over the first run without".to_owned();
    Ok(Row::reported(name, figure, "not published", first / untrained, "x"))
}
