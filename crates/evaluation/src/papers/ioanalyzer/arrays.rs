//! The paper's benchmarks on several drives that a controller combines into one device: "DISK 1 is an 8 HDD RAID-0" (figure 1), and "a LSI
//! 9260-16i with 16 SDD in RAID-0 to run 4 Virtual Machines" (IV-D).

use workloads::builtin::Tariffs;

use super::DRIVE;
use super::evaluation::{DEVIATION, count, failed, phase_row, settings, strided};
use super::phase::{FIXED, Lab, Phase};
use super::training::{Benchmark, Tuning, measure};
use super::variants::{IOANALYZER, variant_rows};
use crate::error::Error;
use crate::papers::{Row, verdict};

/// The paper states eight disks in RAID 0 only; 64 KB is the default stripe unit of such controllers.
const EIGHT: &str = "raid0:8x64k";
/// Commands in the controller at once: those of eight drives with 31 tags each.
const CARD_DEPTH: u32 = 248;

const PHASES: [(&str, u64, u64); 4] =
    [("8S, 4 processes", 8, 4), ("512S, 4", 512, 4), ("8S, 8", 8, 8), ("512S, 8", 512, 8)];

/// 8S and 512S with 4 and 8 processes.
pub(super) fn stripe(scale: f64) -> Result<Vec<Row>, Error> {
    let name = "a stripe of eight";
    let benchmark: &Benchmark =
        &move |_| PHASES.iter().map(|&(_, kib, processes)| strided(kib, processes, scale)).collect();
    let lab = Lab::striped(DRIVE, EIGHT, CARD_DEPTH)?;
    let tuning = Tuning::scaled(12, scale);
    let outcome = measure(&lab, benchmark, tuning)?;
    let mut rows = Vec::new();
    for (phase, (what, ..)) in PHASES.iter().enumerate() {
        let of: Vec<f64> = outcome.fixed.iter().map(|phases| phases[phase]).collect();
        let best = (0..4).min_by(|&a, &b| of[a].total_cmp(&of[b])).unwrap_or_default();
        for (scheduler, seconds) in FIXED.iter().zip(&of) {
            let figure = format!("{what}: {scheduler} over the best fixed ({})", FIXED[best]);
            rows.push(Row::reported(name, figure, "figure 1", seconds / of[best], "x"));
        }
        rows.push(phase_row(name, &outcome, phase, what, best));
    }
    let best = outcome.best_seconds();
    let over = outcome.trained_seconds() / best;
    rows.push(Row::within(
        name,
        "tuner, trained: all four, time over the best fixed".to_owned(),
        "near the best",
        over,
        "x",
        0.0..=1.03,
    ));
    rows.extend(variant_rows(name, &lab, benchmark, tuning, best, IOANALYZER)?);
    Ok(rows)
}

const SIXTEEN: &str = "raid0:16x64k";

/// Share of the requested scale: solid-state drives complete as much in a second as disks in minutes.
const GUESTS: f64 = 0.04;

/// Four virtual machines on sixteen solid-state drives.
pub(super) fn virtual_machines(scale: f64) -> Result<Vec<Row>, Error> {
    let scale = scale * GUESTS;
    let mut rows = Vec::new();
    let lab = Lab::striped("ssd-sata", SIXTEEN, CARD_DEPTH)?;
    let mut best = [0.0; 2];
    for (n, (format, copy_on_write)) in [("RAW", "off"), ("QCOW2", "on")].into_iter().enumerate() {
        let name = &format!("four guests, {format}");
        let benchmark: &Benchmark = &move |run| {
            let of = [
                ("reports", count(4_000_000.0, scale, 1000.0)),
                ("copy_on_write", copy_on_write.to_owned()),
                ("seed", run.to_string()),
            ];
            Ok(vec![Tariffs::new(&settings(&of)).map(Phase::of).map_err(failed)?])
        };
        let tuning = Tuning { fixed_runs: 2, ..Tuning::scaled(6, scale) };
        let outcome = measure(&lab, benchmark, tuning)?;
        let seconds = outcome.fixed_seconds();
        best[n] = seconds[outcome.best()];
        for (scheduler, of) in FIXED.iter().zip(&seconds) {
            let figure = format!("{scheduler}: reports a second over the best fixed's");
            rows.push(Row::reported(name, figure, "figure 4d", best[n] / of, "x"));
        }
        let over = outcome.trained_seconds() / best[n];
        let figure = "tuner, trained: time over the best fixed".to_owned();
        let row = Row::within(name, figure, "the best, or near it", over, "x", 0.0..=1.03);
        rows.push(row.noting(format!("{name}: {} windows", outcome.windows())));
        rows.extend(variant_rows(name, &lab, benchmark, tuning, best[n], IOANALYZER)?);
    }
    let figure = "RAW: reports a second over QCOW2's".to_owned();
    let twice = best[1] / best[0];
    let row = Row::reported("four guests", figure, "twice", twice, "x");
    rows.push(row.counting_as("ioanalyzer/guests, RAW over QCOW2", verdict::ratio(2.0, twice, DEVIATION)));
    Ok(rows)
}
