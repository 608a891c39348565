//! What came of everything, for people and for programs.

use std::io::Write;

use comfy_table::{Table, presets};
use serde_json::json;

use super::papers::{self, Done};
use super::{Row, Whole};
use crate::arguments::ReproduceArguments;
use crate::error::Error;

pub(super) fn print(
    arguments: &ReproduceArguments,
    scripts: &[Done],
    wholes: &[(Whole, Vec<Row>)],
) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", object(scripts, wholes))?;
        return Ok(());
    }
    if !scripts.is_empty() {
        papers::text(scripts, &mut out)?;
    }
    for kind in kinds(wholes) {
        text(kind, &mut out)?;
    }
    Ok(())
}

/// The experiments of each kind.
pub(super) fn kinds(wholes: &[(Whole, Vec<Row>)]) -> impl Iterator<Item = &[(Whole, Vec<Row>)]> {
    wholes.chunk_by(|(a, _), (b, _)| a.kind == b.kind)
}

fn object(scripts: &[Done], wholes: &[(Whole, Vec<Row>)]) -> serde_json::Value {
    let version = env!("CARGO_PKG_VERSION");
    let own: Vec<&Row> = wholes.iter().flat_map(|(_, rows)| rows).collect();
    if scripts.is_empty() {
        let scale = wholes.first().map(|(whole, _)| whole.scale);
        return json!({ "schema_version": 1, "dwell": version, "scale": scale, "rows": own });
    }
    let (rows, shapes) = papers::json(scripts);
    let wholes = wholes
        .iter()
        .map(|(whole, rows)| json!({ "experiment": whole.name(), "scale": whole.scale, "rows": rows }));
    json!({
        "schema_version": 2, "dwell": version, "rows": rows, "shapes": shapes, "whole": wholes.collect::<Vec<_>>(),
    })
}

/// Heads of the columns.
pub(super) const HEADS: [&str; 6] = ["experiment", "figure", "published", "ours", "expected", "holds"];

/// One row's cells.
pub(super) fn cells(row: &Row) -> [String; 6] {
    let holds = match row.holds {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "",
    };
    // Times over times are judged by hundredths.
    let ours = match &*row.unit {
        "x" if row.ours < 10.0 => format!("{:.3} x", row.ours),
        unit => format!("{} {unit}", crate::format::number(row.ours)),
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

/// What there is to explain, each once.
pub(super) fn notes(kind: &[(Whole, Vec<Row>)]) -> Vec<&str> {
    let rows = kind.iter().flat_map(|(_, rows)| rows);
    let mut notes: Vec<&str> = rows.map(|row| row.note.as_str()).filter(|note| !note.is_empty()).collect();
    notes.dedup();
    notes
}

fn text(kind: &[(Whole, Vec<Row>)], out: &mut impl Write) -> Result<(), Error> {
    let rows: Vec<&Row> = kind.iter().flat_map(|(_, rows)| rows).collect();
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(HEADS);
    table.add_rows(rows.iter().map(|row| cells(row)));
    if let Some((whole, _)) = kind.first() {
        writeln!(out, "\n{}, scale {}", whole.kind, whole.scale)?;
    }
    writeln!(out, "{table}")?;
    for note in notes(kind) {
        writeln!(out, "- {note}")?;
    }
    let held = rows.iter().filter(|row| row.holds == Some(true)).count();
    let asked = rows.iter().filter(|row| row.holds.is_some()).count();
    writeln!(out, "{held} of {asked} shapes hold")?;
    Ok(())
}
