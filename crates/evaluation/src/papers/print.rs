//! Results as text and JSON.

use std::io::{self, Write};

use comfy_table::{Table, presets};
use serde_json::json;

use super::scripts::{self, Done};
use super::verdict::Tally;
use super::{Row, SuiteExperiment};

/// The experiments of each suite.
pub(super) fn suites(
    all: &[(SuiteExperiment, Vec<Row>)],
) -> impl Iterator<Item = &[(SuiteExperiment, Vec<Row>)]> {
    all.chunk_by(|(a, _), (b, _)| a.suite == b.suite)
}

/// The counts of each paper, in the order of the results.
pub(super) fn tallies<'a>(
    scripts: &'a [Done],
    wholes: &'a [(SuiteExperiment, Vec<Row>)],
) -> Vec<(&'a str, Tally)> {
    let rows = wholes.iter().flat_map(|(_, rows)| rows);
    let own = rows.filter_map(|row| {
        let value = row.counts_as.as_deref()?;
        Some((value.split('/').next()?, value, row.verdict?))
    });
    let verdicts: Vec<_> = scripts::verdicts(scripts).chain(own).collect();
    let mut papers: Vec<&str> = verdicts.iter().map(|(paper, ..)| *paper).collect();
    papers.sort_unstable();
    papers.dedup();
    let of = |paper: &str| {
        let own = verdicts.iter().filter(|(of, ..)| *of == paper);
        Tally::of(own.map(|(_, value, verdict)| (*value, *verdict)))
    };
    papers.into_iter().map(|paper| (paper, of(paper))).collect()
}

/// Everything as one JSON object.
pub(super) fn object(scripts: &[Done], wholes: &[(SuiteExperiment, Vec<Row>)]) -> serde_json::Value {
    let version = env!("CARGO_PKG_VERSION");
    let (rows, shapes) = scripts::json(scripts);
    let counts = tallies(scripts, wholes).into_iter().map(|(paper, tally)| (paper.to_owned(), json!(tally)));
    let counts: serde_json::Map<_, _> = counts.collect();
    let wholes = wholes
        .iter()
        .map(|(whole, rows)| json!({ "experiment": whole.name(), "scale": whole.scale, "rows": rows }));
    json!({
        "schema_version": 3, "dwell": version, "counts": counts, "rows": rows, "shapes": shapes,
        "whole": wholes.collect::<Vec<_>>(),
    })
}

/// Column headings.
pub(super) const HEADS: [&str; 6] = ["experiment", "figure", "published", "ours", "expected", "holds"];

/// One row's cells.
pub(super) fn cells(row: &Row) -> [String; 6] {
    let holds = match (row.verdict, row.holds) {
        (Some(verdict), _) => verdict.cell(),
        (None, Some(true)) => "yes",
        (None, Some(false)) => "NO",
        (None, None) => "",
    };
    // A ratio of times is judged to a hundredth, so it needs three decimals.
    let ours = match &*row.unit {
        "x" if row.ours < 10.0 => format!("{:.3} x", row.ours),
        unit => format!("{} {unit}", crate::report::format::number(row.ours)),
    };
    [
        row.experiment.clone(),
        row.figure.clone(),
        row.published.clone(),
        ours.trim().to_owned(),
        row.expected.clone(),
        holds.to_owned(),
    ]
}

/// The explanations, each once.
pub(super) fn notes(suite: &[(SuiteExperiment, Vec<Row>)]) -> Vec<&str> {
    let rows = suite.iter().flat_map(|(_, rows)| rows);
    let mut notes: Vec<&str> = rows.map(|row| row.note.as_str()).filter(|note| !note.is_empty()).collect();
    notes.dedup();
    notes
}

/// One suite's table.
pub(super) fn text(suite: &[(SuiteExperiment, Vec<Row>)], out: &mut impl Write) -> io::Result<()> {
    let rows: Vec<&Row> = suite.iter().flat_map(|(_, rows)| rows).collect();
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(HEADS);
    table.add_rows(rows.iter().map(|row| cells(row)));
    if let Some((whole, _)) = suite.first() {
        writeln!(out, "\n{}, scale {}", whole.suite, whole.scale)?;
    }
    writeln!(out, "{table}")?;
    for note in notes(suite) {
        writeln!(out, "- {note}")?;
    }
    let checks: Vec<bool> =
        rows.iter().filter(|row| row.verdict.is_none()).filter_map(|row| row.holds).collect();
    let held = checks.iter().filter(|&&holds| holds).count();
    writeln!(out, "{held} of {} checks with bounds of our own hold", checks.len())
}
