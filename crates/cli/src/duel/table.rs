//! A comparison for people, as a table; the columns are also the report's.

use comfy_table::{CellAlignment, Table, presets};

use super::comparison::{Comparison, Entry};
use crate::format::{number, percent, time};

/// What stands above the columns. The second says what counts.
pub(crate) fn heads(comparison: &Comparison) -> [String; 11] {
    let unit = comparison.unit();
    [
        "scheduler",
        unit,
        "from",
        "to",
        "MB/s",
        "time",
        "p99",
        "longest wait",
        "of best",
        &format!("model, {unit}"),
        "model off by",
    ]
    .map(str::to_owned)
}

/// One entry's cells; `best` is the highest score of all.
pub(crate) fn cells(comparison: &Comparison, entry: &Entry, best: f64) -> Vec<String> {
    let score = comparison.score(entry);
    let model = comparison.predicted_score(entry);
    let off = model.filter(|_| score.median > 0.0).map(|model| model / score.median - 1.0);
    vec![
        name(comparison, entry),
        number(score.median),
        number(score.least),
        number(score.greatest),
        number(entry.spread(duel::Outcome::megabytes_per_second).median),
        time(entry.spread(|outcome| outcome.elapsed_ns() as f64).median as u64),
        time(entry.spread(|outcome| outcome.p99_ns() as f64).median as u64),
        time(entry.longest_wait_ns()),
        percent(if best > 0.0 { score.median / best } else { 0.0 }),
        model.map(number).unwrap_or_default(),
        off.map(|off| format!("{:+.0}%", off * 100.0)).unwrap_or_default(),
    ]
}

/// The highest score.
pub(crate) fn best(comparison: &Comparison) -> f64 {
    comparison.entries.iter().map(|entry| comparison.score(entry).median).fold(0.0, f64::max)
}

pub(crate) fn table(comparison: &Comparison) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(heads(comparison));
    let best = best(comparison);
    table.add_rows(comparison.ranked().into_iter().map(|entry| cells(comparison, entry, best)));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// What an entry is called.
pub(crate) fn name(comparison: &Comparison, entry: &Entry) -> String {
    let mut name = match entry.alone {
        true => "one program alone".to_owned(),
        false => entry.scheduler.to_string(),
    };
    if comparison.benchmark.ends_by_itself() && entry.outcomes.iter().any(duel::Outcome::is_cut) {
        name += " (cut)";
    }
    match entry.late() {
        0 => name,
        late => format!("{name} ({late} of {} runs late)", entry.outcomes.len()),
    }
}
