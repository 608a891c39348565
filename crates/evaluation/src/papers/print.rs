//! Results as text and JSON.

use std::io::{self, Write};

use comfy_table::{Table, presets};
use serde_json::json;

use super::scripts::{self, Done};
use super::{Row, SuiteExperiment};

/// The experiments of each suite.
pub(super) fn suites(
    all: &[(SuiteExperiment, Vec<Row>)],
) -> impl Iterator<Item = &[(SuiteExperiment, Vec<Row>)]> {
    all.chunk_by(|(a, _), (b, _)| a.suite == b.suite)
}

/// Everything as one JSON object.
pub(super) fn object(scripts: &[Done], wholes: &[(SuiteExperiment, Vec<Row>)]) -> serde_json::Value {
    let version = env!("CARGO_PKG_VERSION");
    let own: Vec<&Row> = wholes.iter().flat_map(|(_, rows)| rows).collect();
    if scripts.is_empty() {
        let scale = wholes.first().map(|(whole, _)| whole.scale);
        return json!({ "schema_version": 1, "dwell": version, "scale": scale, "rows": own });
    }
    let (rows, shapes) = scripts::json(scripts);
    let wholes = wholes
        .iter()
        .map(|(whole, rows)| json!({ "experiment": whole.name(), "scale": whole.scale, "rows": rows }));
    json!({
        "schema_version": 2, "dwell": version, "rows": rows, "shapes": shapes, "whole": wholes.collect::<Vec<_>>(),
    })
}

/// Column headings.
pub(super) const HEADS: [&str; 6] = ["experiment", "figure", "published", "ours", "expected", "holds"];

/// One row's cells.
pub(super) fn cells(row: &Row) -> [String; 6] {
    let holds = match row.holds {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "",
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
    let held = rows.iter().filter(|row| row.holds == Some(true)).count();
    let asked = rows.iter().filter(|row| row.holds.is_some()).count();
    writeln!(out, "{held} of {asked} shapes hold")?;
    Ok(())
}
