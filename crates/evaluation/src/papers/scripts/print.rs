//! The rows as text and as JSON.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;

use super::Done;
use super::figure;
use super::judge::Row;
use crate::papers::verdict::Verdict;
use crate::report::format::{number, time};
use crate::run_setup::Outcome;

/// The longest read and the longest pause that a figure's processes saw.
pub(super) struct Worst {
    pub(super) read_ns: u64,
    pub(super) pause_ns: u64,
    /// Whether the run was cut before they had ended.
    pub(super) cut: bool,
}

/// The worst cases of the processes of a row.
pub(super) fn worst(done: &Done, row: &Row) -> Option<Worst> {
    let run: &Outcome = done.runs.get(&row.scheduler)?;
    let names = figure::processes(done.paper.figures.get(&row.figure)?);
    let reads =
        run.seen.iter().filter(|(name, _)| name.starts_with(names)).map(|(_, seen)| seen.worst_read_ns);
    let (from, to) = figure::window(run, names)?;
    Some(Worst {
        read_ns: reads.max().unwrap_or_default(),
        pause_ns: run.vmstat.longest_without_reads(from, to),
        cut: run.cut,
    })
}

/// Rows and shapes for programs.
pub(in crate::papers) fn json(done: &[Done]) -> (Vec<serde_json::Value>, Vec<serde_json::Value>) {
    let rows = done.iter().flat_map(|done| done.rows.iter().map(|row| full(done, row)));
    (rows.collect(), done.iter().flat_map(|done| &done.shapes).map(|shape| json!(shape)).collect())
}

/// Verdicts by paper and published value.
pub(in crate::papers) fn verdicts(done: &[Done]) -> impl Iterator<Item = (&str, &str, Verdict)> {
    let rows = done.iter().flat_map(|done| &done.rows);
    rows.filter_map(|row| Some((row.paper.as_str(), row.counts_as.as_deref()?, row.verdict?)))
}

/// Tables for people.
pub(in crate::papers) fn text(done: &[Done], out: &mut impl Write) -> io::Result<()> {
    for done in done {
        writeln!(out, "\n{}/{}: {}", done.paper.name, done.title(), done.about)?;
        if done.on.is_some() {
            writeln!(out, "drive: {}", done.drive)?;
        }
        if done.scale < 1.0 {
            let scale = done.scale;
            writeln!(out, "scale {scale}: data, operations and memory are {scale} of the papers'")?;
        }
        writeln!(out, "{}", table(done))?;
        for shape in done.shapes.iter().filter(|shape| !shape.holds) {
            writeln!(out, "{}: {}", shape.figure, shape.misses.join("; "))?;
        }
        for note in &done.paper.notes {
            writeln!(out, "- {note}")?;
        }
    }
    let shapes: Vec<bool> = done
        .iter()
        .flat_map(|done| &done.shapes)
        .filter(|shape| shape.on.is_none())
        .map(|shape| shape.holds)
        .collect();
    let whole = shapes.iter().filter(|&&holds| holds).count();
    writeln!(out, "\n{whole} of {} shapes hold whole", shapes.len())
}

/// An experiment's rows for the documentation.
pub(in crate::papers) fn entry(done: &Done) -> serde_json::Value {
    let rows: Vec<_> = done.rows.iter().map(|row| full(done, row)).collect();
    let (paper, experiment) = (&done.paper.name, &done.paper.experiment);
    json!({ "paper": paper, "experiment": experiment, "on": done.on, "drive": done.drive, "scale": done.scale, "rows": rows })
}

fn full(done: &Done, row: &Row) -> serde_json::Value {
    let worst = worst(done, row);
    let mut value = json!(row);
    value["worst_read_ns"] = json!(worst.as_ref().map(|worst| worst.read_ns));
    value["longest_pause_ns"] = json!(worst.as_ref().map(|worst| worst.pause_ns));
    value["scale"] = json!(done.scale);
    value["cut"] = json!(worst.as_ref().map(|worst| worst.cut));
    value
}

/// Head of the columns.
pub(super) const HEADS: [&str; 8] =
    ["figure", "scheduler", "as", "published", "ours", "holds", "worst read", "longest pause"];

/// One row's cells.
pub(super) fn cells(done: &Done, row: &Row) -> [String; 8] {
    let value = |value: Option<f64>| {
        value.map_or_else(String::new, |value| format!("{} {}", number(value), row.unit))
    };
    let worst = worst(done, row);
    let cut = worst.as_ref().is_some_and(|worst| worst.cut);
    [
        row.figure.clone(),
        row.scheduler.clone(),
        row.as_scheduler.clone(),
        value(row.published),
        if cut { format!("more than {}", value(row.ours)) } else { value(row.ours) },
        row.verdict.map_or_else(String::new, |verdict| verdict.cell().to_owned()),
        worst.as_ref().map_or_else(String::new, |worst| time(worst.read_ns)),
        worst.map_or_else(String::new, |worst| time(worst.pause_ns)),
    ]
}

fn table(done: &Done) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(HEADS);
    table.add_rows(done.rows.iter().map(|row| cells(done, row)));
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
