//! A comparison as a table. The report has the same columns.

use crate::duel::Outcome;
use comfy_table::{CellAlignment, Table, presets};

use crate::duel::comparison::{Comparison, Entry};
use crate::report::format::{number, percent, time};

/// Column headings. The second column is the score; if operations are the score, a further column has the throughput.
pub fn heads(comparison: &Comparison) -> Vec<String> {
    let unit = comparison.unit();
    let model = format!("model, {unit}");
    let moved = comparison.counts_operations().then_some("MB/s");
    let scores = ["scheduler", unit, "from", "to"].into_iter().chain(moved);
    let others = ["time", "p99", "longest wait", "of best", &model, "model off by"];
    scores.chain(others).map(str::to_owned).collect()
}

/// The cells of one entry; `best` is the highest score of all entries.
pub fn cells(comparison: &Comparison, entry: &Entry, best: f64) -> Vec<String> {
    let score = comparison.score(entry);
    let model = comparison.predicted_score(entry);
    let off = model.filter(|_| score.median > 0.0).map(|model| model / score.median - 1.0);
    let median = |figure: fn(&Outcome) -> f64| entry.spread(figure).median;
    let moved = comparison.counts_operations().then(|| number(median(Outcome::megabytes_per_second)));
    let scores = [name(comparison, entry), number(score.median), number(score.least), number(score.greatest)];
    let others = [
        time(median(|outcome| outcome.elapsed_ns() as f64) as u64),
        time(median(|outcome| outcome.p99_ns() as f64) as u64),
        time(entry.longest_wait_ns()),
        percent(if best > 0.0 { score.median / best } else { 0.0 }),
        model.map(number).unwrap_or_default(),
        off.map(|off| format!("{:+}%", (off * 100.0).round() as i64)).unwrap_or_default(),
    ];
    scores.into_iter().chain(moved).chain(others).collect()
}

/// The highest score.
pub fn best(comparison: &Comparison) -> f64 {
    comparison.entries.iter().map(|entry| comparison.score(entry).median).fold(0.0, f64::max)
}

/// The whole table.
pub fn table(comparison: &Comparison) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(heads(comparison));
    let best = best(comparison);
    table.add_rows(comparison.ranked().into_iter().map(|entry| cells(comparison, entry, best)));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

pub fn name(comparison: &Comparison, entry: &Entry) -> String {
    let mut name = match entry.alone {
        true => "one program alone".to_owned(),
        false => entry.scheduler.to_string(),
    };
    if comparison.benchmark.ends_by_itself() && entry.outcomes.iter().any(Outcome::is_cut) {
        name += " (cut)";
    }
    match entry.late() {
        0 => name,
        late => format!("{name} ({late} of {} runs late)", entry.outcomes.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::duel::{Benchmark, Size};

    use super::*;

    #[test]
    fn column_headings_are_distinct() {
        let second = Duration::from_secs(1);
        let size = Size { time: second, patience: second, tree_files: 1, transactions: 2 };
        let noop = ["kernel:none".parse().unwrap()];
        for benchmark in Benchmark::ALL {
            let comparison = Comparison::new(&benchmark, &size, 31, false, &noop);
            let mut heads = heads(&comparison);
            assert_eq!(heads.len(), cells(&comparison, &comparison.entries[0], 1.0).len());
            heads.sort_unstable();
            assert!(heads.windows(2).all(|pair| pair[0] != pair[1]), "{heads:?}");
        }
    }
}
