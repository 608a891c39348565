//! The columns of the results, for people: the same in the terminal and in the report.

use machine::Latency;

use super::run::Run;
use crate::format::{number, percent, time};

/// What stands above them.
pub(crate) const HEADS: [&str; 16] = [
    "scheduler",
    "MB/s",
    "time",
    "read mean",
    "p50",
    "p99",
    "longest",
    "write mean",
    "p50",
    "p99",
    "longest",
    "head travel",
    "waited",
    "fairness",
    "of best",
    "of limit",
];

/// One run's cells; `best` is the highest rate, in MB/s.
pub(crate) fn cells(run: &Run, best: f64) -> Vec<String> {
    let measured = &run.measured;
    let rate = measured.megabytes_per_second();
    let mut cells = vec![name(run), number(rate), time(measured.elapsed_ns)];
    cells.extend(latency(&measured.reads));
    cells.extend(latency(&measured.writes));
    cells.extend([
        run.travel(measured.head_travel_sectors),
        time(measured.waits.total_ns),
        run.fairness.map_or_else(String::new, |fairness| format!("{fairness:.2}")),
        share(rate, best),
        run.of_limit().map_or_else(String::new, percent),
    ]);
    cells
}

/// The physical limit's cells, from any run of the comparison, where it is known.
pub(crate) fn limit(run: &Run, best: f64) -> Option<Vec<String>> {
    let elapsed = run.limit.as_ref()?.elapsed_ns;
    let rate = if elapsed == 0 { 0.0 } else { run.measured.bytes as f64 * 1e3 / elapsed as f64 };
    let mut cells = vec!["physical limit".to_owned(), number(rate), time(elapsed)];
    cells.extend(std::iter::repeat_n(String::new(), HEADS.len() - 5));
    cells.extend([share(rate, best), percent(1.0)]);
    Some(cells)
}

/// The highest rate of those that did not fail, in MB/s.
pub(crate) fn best(runs: &[&Run]) -> f64 {
    let sound = runs.iter().filter(|run| run.failure.is_none());
    sound.map(|run| run.measured.megabytes_per_second()).fold(0.0, f64::max)
}

fn share(rate: f64, best: f64) -> String {
    percent(if best > 0.0 { rate / best } else { 0.0 })
}

/// Cells of a latency (mean, median, 99th percentile, longest), empty where there was nothing of that kind.
pub(super) fn latency(latency: &Latency) -> [String; 4] {
    let numbers = [latency.mean_ns, latency.p50_ns, latency.p99_ns, latency.max_ns];
    numbers.map(|ns| if latency.count == 0 { String::new() } else { time(ns) })
}

fn name(run: &Run) -> String {
    match (&run.failure, run.cut) {
        (Some(_), _) => format!("{} (failed)", run.scheduler),
        (None, true) => format!("{} (cut)", run.scheduler),
        (None, false) => run.scheduler.clone(),
    }
}
