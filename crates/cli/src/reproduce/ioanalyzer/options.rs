//! What each option beyond the paper makes of a benchmark, beside the paper's way. Each is off by default.

use tuner::Parameters;

use super::phase::Lab;
use super::training::{Benchmark, Outcome, Restrain, Tuning, train, trained};
use crate::error::Error;
use crate::reproduce::Row;

/// Arms that stand for searched settings.
const OPEN: usize = 2;

/// `paper` is what the paper's way made of it, over as many runs.
pub(super) fn beyond(
    name: &str,
    lab: &Lab,
    benchmark: &Benchmark,
    paper: &Outcome,
) -> Result<Vec<Row>, Error> {
    let runs = paper.tuned.len() as u64;
    let credited = Tuning {
        parameters: Parameters { credit_choices: true, ..Parameters::default() },
        ..Tuning::of(runs)
    };
    let alike = Parameters { distribution: true, ..credited.parameters };
    let sure = Parameters { bandit_best: 95, bandit_second: 3, ..Parameters::default() };
    let alone = |restrain| Tuning { restrain, ..Tuning::of(runs) };
    let of = [
        (credited, "choices credited"),
        (
            Tuning { parameters: alike, ..credited },
            "choices credited, random windows known by their distribution",
        ),
        (Tuning { parameters: sure, ..credited }, "a bandit at 95, 3, 1 and 1%"),
        (alone(Restrain::Regret), "the bound on regret"),
        (alone(Restrain::Hysteresis), "hysteresis"),
        (alone(Restrain::SwitchCost), "switches counted with their cost"),
        (Tuning { restrain: Restrain::Regret, ..credited }, "choices credited, and the bound on regret"),
        (Tuning { search: OPEN, ..credited }, "choices credited, and settings searched"),
    ];
    let mut rows = both(name, "the paper's way", paper, paper);
    rows.push(Row::reported(name, "a switch stops the device for".to_owned(), "", paper.drain() * 1e3, "ms"));
    for (tuning, what) in of {
        rows.extend(both(name, what, &trained(lab, benchmark, tuning)?, paper));
    }
    rows.push(transfer(name, lab, benchmark, paper)?);
    Ok(rows)
}

/// Trained, and from the first run on.
fn both(name: &str, what: &str, outcome: &Outcome, paper: &Outcome) -> Vec<Row> {
    let best = paper.fixed_seconds()[paper.best()];
    let row = |when: &str, seconds: f64| {
        let figure = format!("{what}: {when}, over the best fixed");
        Row::reported(name, figure, "not in it", seconds / best, "x")
    };
    vec![row("trained", outcome.trained_seconds()), row("all runs", outcome.mean_seconds())]
}

/// Clusters of another machine with the same drive: its tuner was trained on other runs of the benchmark.
fn transfer(name: &str, lab: &Lab, benchmark: &Benchmark, paper: &Outcome) -> Result<Row, Error> {
    let runs = paper.tuned.len() as u64;
    let there = Tuning { seed: 2, from: runs, ..Tuning::of(runs) };
    let (_, learned) = train(lab, benchmark, there, None)?;
    let (here, _) = train(lab, benchmark, Tuning::of(1), Some(learned))?;
    let (first, untrained) = (here.tuned_seconds(0), paper.tuned_seconds(0));
    let figure = "the first run with another machine's clusters, over the first run without".to_owned();
    Ok(Row::reported(name, figure, "not in it", first / untrained, "x"))
}
