//! The columns of the results, the same in the terminal and in the report.

use machine::Latency;

use evaluation::report::format::{bytes, number, percent, time};
use evaluation::runs::Run;

/// Column headings.
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

/// The columns of each table if one table is too wide.
pub(crate) const PARTS: [&[usize]; 3] = [&[0, 1, 2, 11, 12, 13, 14, 15], &[0, 3, 4, 5, 6], &[0, 7, 8, 9, 10]];

/// The meaning of the columns.
pub(crate) const MEANING: &str = "The physical limit is the time of the same requests with perfect locality: transfer times and the \
    fewest possible seeks, each process in its own order. Head travel is the distance over the disk. Waited is the time in which \
    the scheduler kept the device idle although requests were queued. Fairness is Jain's index over the slowdown of each process \
    relative to running alone at the limit; 1 means equal slowdown. Of best is the throughput relative to the highest one; for \
    programs on a machine, the shortest time relative to the row's time.";

/// Column headings of the table of processes.
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

/// The columns of each table of processes if one table is too wide.
pub(crate) const PROCESS_PARTS: [&[usize]; 3] = [&[0, 1, 2, 3, 4], &[0, 5, 6, 7, 8], &[0, 9, 10, 11, 12]];

/// The results of the first `most` processes under one scheduler, and the number of further processes.
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

/// The best result, to which others are compared.
#[derive(Clone, Copy)]
pub(crate) enum Best {
    /// The highest rate, in MB/s.
    Rate(f64),
    /// The shortest time in nanoseconds. Used for programs on a machine, where the page cache also decides how many bytes move.
    Time(u64),
}

/// The cells of one run.
pub(crate) fn cells(run: &Run, best: Best) -> Vec<String> {
    let measured = &run.measured;
    let rate = measured.megabytes_per_second();
    let mut cells = vec![name(run), number(rate), time(measured.elapsed_ns)];
    cells.extend(latency(&measured.reads));
    cells.extend(latency(&measured.writes));
    cells.extend([
        run.travel(measured.head_travel_sectors),
        time(measured.waits.total_ns),
        run.fairness.map_or_else(String::new, |fairness| format!("{fairness:.2}")),
        best.share(rate, Some(measured.elapsed_ns).filter(|_| !run.cut && run.failure.is_none())),
        run.of_limit().map_or_else(String::new, percent),
    ]);
    cells
}

/// The cells of the physical limit, from any run of the comparison, if it is known.
pub(crate) fn limit(run: &Run, best: Best) -> Option<Vec<String>> {
    let elapsed = run.limit.as_ref()?.elapsed_ns;
    let rate = if elapsed == 0 { 0.0 } else { run.measured.bytes as f64 * 1e3 / elapsed as f64 };
    let mut cells = vec!["physical limit".to_owned(), number(rate), time(elapsed)];
    cells.extend(std::iter::repeat_n(String::new(), HEADS.len() - 5));
    cells.extend([best.share(rate, Some(elapsed)), percent(1.0)]);
    Some(cells)
}

/// The best of the runs that did not fail.
pub(crate) fn best(runs: &[&Run]) -> Best {
    let sound = || runs.iter().filter(|run| run.failure.is_none());
    if sound().any(|run| run.outcome.is_some()) {
        return Best::Time(
            sound().filter(|run| !run.cut).map(|run| run.measured.elapsed_ns).min().unwrap_or(0),
        );
    }
    Best::Rate(sound().map(|run| run.measured.megabytes_per_second()).fold(0.0, f64::max))
}

impl Best {
    /// The share of the best that a rate, or the time of a completed run, reaches.
    fn share(self, rate: f64, elapsed: Option<u64>) -> String {
        let share = match (self, elapsed) {
            (Self::Rate(best), _) => {
                if best > 0.0 {
                    rate / best
                } else {
                    0.0
                }
            }
            (Self::Time(best), Some(elapsed)) if elapsed > 0 => best as f64 / elapsed as f64,
            (Self::Time(_), _) => return String::new(),
        };
        // A run that was stopped early can have a share far above 1.
        if share >= 10.0 { format!("{share:.0}x") } else { percent(share) }
    }
}

/// The cells of a latency (mean, median, 99th percentile, maximum); empty without requests.
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

#[cfg(test)]
mod tests {
    use super::Best;

    #[test]
    fn programs_are_compared_by_time_and_requests_by_rate() {
        let slow = [Best::Time(100), Best::Rate(10.0)].map(|best| best.share(8.0, Some(200)));
        assert_eq!(slow, ["50%", "80%"]);
        assert_eq!(Best::Time(100).share(8.0, None), "", "the run did not complete");
        assert_eq!(Best::Rate(10.0).share(2384.0, None), "238x");
        assert_eq!([Best::Time(0), Best::Rate(0.0)].map(|best| best.share(0.0, Some(0))), ["", "0.0%"]);
    }
}
