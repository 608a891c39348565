//! "Running different workloads in a row" (IV-E): 8S and 512S with 4 processes, TPC-H, 8S and 512S with 8, without stopping the
//! tuner.
//!
//! At the level of requests AS is within 1% of the best in every phase, so a tuner has nothing to gain over AS. With all five as
//! programs on the modelled machine, deadline is best in TPC-H and AS or CFQ in the others, as in the paper's figure 5.

use tuner::Metric;

use super::evaluation::{common, phase_row, queries, steady_row, strided, trained_row};
use super::phase::{FIXED, Lab, Phase};
use super::training::{Benchmark, Outcome, Tuning, measure, trained};
use super::variants::{IOANALYZER, KINDS, further_rows, variant_rows};
use super::{DEPTH, DRIVE};
use crate::error::Error;
use crate::papers::Row;

const PHASES: [&str; 5] = ["8S, 4 processes", "512S, 4", "TPC-H", "8S, 8", "512S, 8"];
const RUNS: u64 = 12;

fn of_requests(scale: f64) -> Result<Vec<Phase>, Error> {
    Ok(vec![
        strided(8, 4, scale)?,
        strided(512, 4, scale)?,
        Phase::Cached(queries(scale, 1)?),
        strided(8, 8, scale)?,
        strided(512, 8, scale)?,
    ])
}

const SCRIPTS: [&str; 5] =
    ["ioanalyzer/8s-4", "ioanalyzer/512s-4", "ioanalyzer/tpc-h", "ioanalyzer/8s-8", "ioanalyzer/512s-8"];

/// Share of the requested scale: the model takes far longer for a run of programs than for one of requests.
const PROGRAMS: f64 = 0.2;

fn of_programs(scale: f64) -> Result<Vec<Phase>, Error> {
    SCRIPTS.iter().map(|name| Phase::script(name, scale)).collect()
}

pub(super) fn in_a_row(scale: f64) -> Result<Vec<Row>, Error> {
    in_a_row_at(scale, DEPTH)
}

/// With native command queueing, as with a firmware for which Linux enables it.
pub(super) fn in_a_row_queued(scale: f64) -> Result<Vec<Row>, Error> {
    in_a_row_at(scale, 31)
}

fn in_a_row_at(scale: f64, depth: u32) -> Result<Vec<Row>, Error> {
    let name = &format!("one after the other, depth {depth}");
    let benchmark: &Benchmark = &move |_| of_requests(scale);
    let lab = Lab::new(DRIVE, depth)?;
    let tuning = Tuning { metric: Metric::UserBandwidth, ..Tuning::scaled(RUNS, scale) };
    let outcome = measure(&lab, benchmark, tuning)?;
    let mut rows = judged(name, &outcome);
    if depth == DEPTH {
        rows.extend(further_rows(name, &lab, benchmark, tuning, &outcome, &[])?);
        let name = &format!("{name}, by bandwidth at the device, windows of 5 s");
        let (tuning, best) = (Tuning::of(RUNS), outcome.best_seconds());
        for variants in [KINDS, IOANALYZER] {
            rows.extend(variant_rows(name, &lab, benchmark, tuning, best, variants)?);
        }
    }
    Ok(rows)
}

/// As programs, by user bandwidth. Bandwidth at the device misleads in TPC-H, which reads from the cache; user minus system bandwidth
/// misleads in the other phases.
pub(super) fn in_a_row_on_the_machine(scale: f64) -> Result<Vec<Row>, Error> {
    let name = "one after the other on the machine, a fifth of the scale";
    let scale = scale * PROGRAMS;
    let benchmark: &Benchmark = &move |_| of_programs(scale);
    let lab = Lab::new(DRIVE, DEPTH)?;
    let tuning = Tuning { metric: Metric::UserBandwidth, ..Tuning::scaled(RUNS, scale) };
    let outcome = measure(&lab, benchmark, tuning)?;
    let mut rows = judged(name, &outcome);
    for (metric, what) in [
        (Metric::Bandwidth, "bandwidth at the device"),
        (Metric::UserMinusSystem, "user minus system bandwidth"),
    ] {
        let other = trained(&lab, benchmark, Tuning { metric, ..tuning })?;
        let over = other.trained_seconds() / outcome.best_seconds();
        let figure = format!("tuner, trained, by {what}: time over the best fixed");
        rows.push(Row::reported(name, figure, "better than every fixed one", over, "x"));
    }
    rows.extend(further_rows(name, &lab, benchmark, tuning, &outcome, IOANALYZER)?);
    Ok(rows)
}

fn judged(name: &str, outcome: &Outcome) -> Vec<Row> {
    let mut rows = common(name, outcome, "AS or CFQ best, except in TPC-H");
    let mut ideal = 0.0;
    for (phase, what) in PHASES.iter().enumerate() {
        let of = |i: usize| outcome.fixed[i][phase];
        let best = (0..FIXED.len()).min_by(|&a, &b| of(a).total_cmp(&of(b))).unwrap_or_default();
        ideal += of(best);
        rows.push(phase_row(name, outcome, phase, what, best));
    }
    let best = outcome.best_seconds();
    let figure = "the best of each phase: time over the best fixed (minimum possible)".to_owned();
    rows.push(Row::reported(name, figure, "", ideal / best, "x"));
    rows.push(trained_row(name, outcome, "better than every fixed one", 1.0));
    rows.push(steady_row(name, outcome, 5));
    rows
}
