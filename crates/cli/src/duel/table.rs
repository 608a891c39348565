//! A contest for people, as a table; the columns are also the report's.

use comfy_table::{CellAlignment, Table, presets};

use super::contest::{Contest, Entry};
use crate::format::{number, percent, time};

/// What stands above the columns. The second says what counts.
pub(crate) fn heads(contest: &Contest) -> [String; 11] {
    let unit = contest.unit();
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
pub(crate) fn cells(contest: &Contest, entry: &Entry, best: f64) -> Vec<String> {
    let score = contest.score(entry);
    let model = contest.predicted_score(entry);
    let off = model.filter(|_| score.median > 0.0).map(|model| model / score.median - 1.0);
    vec![
        name(contest, entry),
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
pub(crate) fn best(contest: &Contest) -> f64 {
    contest.entries.iter().map(|entry| contest.score(entry).median).fold(0.0, f64::max)
}

pub(crate) fn table(contest: &Contest) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(heads(contest));
    let best = best(contest);
    table.add_rows(contest.ranked().into_iter().map(|entry| cells(contest, entry, best)));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn name(contest: &Contest, entry: &Entry) -> String {
    let mut name = entry.contestant.to_string();
    if contest.discipline.ends_by_itself() && entry.outcomes.iter().any(duel::Outcome::is_cut) {
        name += " (cut)";
    }
    match entry.late() {
        0 => name,
        late => format!("{name} ({late} of {} runs late)", entry.outcomes.len()),
    }
}
