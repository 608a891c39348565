//! What the paper's way and each option beyond it make of a benchmark, beside the tuner as preset.

use tuner::{DeciderName, Parameters};

use super::phase::Lab;
use super::training::{Benchmark, Outcome, Tuning, train, trained};
use crate::error::Error;
use crate::papers::Row;
use crate::parallel::in_parallel;

/// Arms that stand for searched settings.
const OPEN: usize = 2;
/// Of the tuner's generator: what one of them makes of a benchmark differs by some hundredths from what another does.
const SEEDS: &[u64] = &[1, 2, 3];
/// For what draws nothing, and for what is far from the best anyway.
const ONE: &[u64] = &[1];

/// An option in words, what it changes, and the seeds that it is measured with.
pub(super) struct Way {
    what: &'static str,
    set: fn(Tuning) -> Tuning,
    seeds: &'static [u64],
}

impl Way {
    const fn of(what: &'static str, seeds: &'static [u64], set: fn(Tuning) -> Tuning) -> Self {
        Self { what, set, seeds }
    }
}

/// IOAnalyzer decides, and more is changed.
fn by_clusters(tuning: Tuning, set: impl FnOnce(&mut Parameters)) -> Tuning {
    let mut parameters = tuning.parameters;
    set(&mut parameters);
    Tuning { decider: DeciderName::IoAnalyzer, parameters, ..tuning }
}

pub(super) const WAYS: &[Way] = &[
    Way::of("the paper's way", SEEDS, |tuning| {
        by_clusters(tuning, |p| (p.bandit_best, p.bandit_second) = (80, 10))
    }),
    Way::of("clusters, with a bandit at 95 and 3%", SEEDS, |tuning| by_clusters(tuning, |_| {})),
    Way::of("the bound on regret", ONE, |tuning| by_clusters(Tuning { regret: true, ..tuning }, |_| {})),
    Way::of("settings searched", ONE, |tuning| by_clusters(Tuning { search: OPEN, ..tuning }, |_| {})),
];

/// For experiments that take long: what the paper does, and its way at its best.
pub(super) const FEW: &[Way] = WAYS.split_at(2).0;
/// The tuner as preset, by kinds of load, which draw nothing: for a tuning that an experiment's own rows do not have.
pub(super) const PRESET: &[Way] = &[Way::of("as preset", ONE, |tuning| tuning)];

/// What the ways make of it with `tuning`, whose metric, window and runs all of them share, over `best` seconds. With `one_seed`, each is
/// run once.
pub(super) fn beside(
    name: &str,
    lab: &Lab,
    benchmark: &Benchmark,
    tuning: Tuning,
    best: f64,
    (ways, one_seed): (&[Way], bool),
) -> Result<Vec<Row>, Error> {
    let seeds = |way: &Way| if one_seed { ONE } else { way.seeds };
    let each: Vec<(usize, u64)> =
        (0..ways.len()).flat_map(|way| seeds(&ways[way]).iter().map(move |&seed| (way, seed))).collect();
    let outcomes = in_parallel(each.len(), |index| {
        let (way, seed) = each[index];
        Ok((way, trained(lab, benchmark, (ways[way].set)(Tuning { seed, ..tuning }))?))
    })
    .into_iter()
    .collect::<Result<Vec<_>, Error>>()?;
    let mut rows = Vec::new();
    for (n, way) in ways.iter().enumerate() {
        let of: Vec<&Outcome> = outcomes.iter().filter(|of| of.0 == n).map(|of| &of.1).collect();
        rows.push(over_seeds(name, way.what, "trained", &of, best, Outcome::trained_seconds));
        rows.push(over_seeds(name, way.what, "all runs", &of, best, Outcome::mean_seconds));
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
    (ways, one_seed): (&[Way], bool),
) -> Result<Vec<Row>, Error> {
    let figure = "a switch stops the device for".to_owned();
    let mut rows = vec![Row::reported(name, figure, "", preset.drain() * 1e3, "ms")];
    let best = preset.best_seconds();
    rows.extend(beside(name, lab, benchmark, tuning, best, (ways, one_seed))?);
    rows.push(transfer(name, lab, benchmark, tuning, preset)?);
    Ok(rows)
}

/// The mean over the seeds; the least and the most are noted.
fn over_seeds(
    name: &str,
    what: &str,
    when: &str,
    outcomes: &[&Outcome],
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
