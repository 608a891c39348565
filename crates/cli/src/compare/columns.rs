//! The columns of the results, for people: the same in the terminal and in the report.

use machine::Latency;

use super::run::Run;
use crate::format::{bytes, number, percent, time};

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

/// The columns of the tables that they are in where one has no room.
pub(crate) const PARTS: [&[usize]; 3] = [&[0, 1, 2, 11, 12, 13, 14, 15], &[0, 3, 4, 5, 6], &[0, 7, 8, 9, 10]];

/// What the less obvious ones mean.
pub(crate) const MEANING: &str = "The physical limit is the same requests with perfect locality: transfer times and the \
    fewest possible seeks, each process in its own sequence. Head travel is the way over the disk, waited the time for which \
    the device sat idle on purpose with something queued. Fairness is Jain's index over how fast each process got on, beside how \
    fast it would be alone at the limit: 1 if all were slowed down alike.";

/// What stands above what processes saw.
pub(crate) const PROCESS_HEADS: [&str; 13] = [
    "process",
    "bytes",
    "time",
    "of its limit",
    "requests",
    "read mean",
    "p50",
    "p99",
    "longest",
    "write mean",
    "p50",
    "p99",
    "longest",
];

/// The same of what processes saw.
pub(crate) const PROCESS_PARTS: [&[usize]; 3] = [&[0, 1, 2, 3, 4], &[0, 5, 6, 7, 8], &[0, 9, 10, 11, 12]];

/// What each process saw under one scheduler, of the first `most`, and how many that leaves out.
pub(crate) fn processes(run: &Run, most: usize) -> (Vec<Vec<String>>, usize) {
    let alone = run.limit.iter().flat_map(|limit| &limit.processes_ns).copied().chain(std::iter::repeat(0));
    let row = |(process, alone): (&machine::ProcessMeasured, u64)| {
        let share = if process.elapsed_ns == 0 { 0.0 } else { alone as f64 / process.elapsed_ns as f64 };
        let mut cells = vec![
            process.name.clone(),
            bytes(process.bytes),
            time(process.elapsed_ns),
            percent(share),
            process.latency.count.to_string(),
        ];
        cells.extend(latency(&process.reads));
        cells.extend(latency(&process.writes));
        cells
    };
    let processes = &run.measured.processes;
    let rows = processes.iter().zip(alone).take(most).map(row).collect();
    (rows, processes.len().saturating_sub(most))
}

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
fn latency(latency: &Latency) -> [String; 4] {
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
