//! What was measured in one run.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use server::TimesSummary;

/// How long system calls took, as the program that made them saw it, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Waits {
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean_ns: u64,
    /// Median, to two digits.
    pub p50_ns: u64,
    /// 99th percentile, to two digits.
    pub p99_ns: u64,
    /// The longest, exactly.
    pub max_ns: u64,
}

/// Collects them.
pub(crate) struct Stopwatch {
    histogram: Histogram<u64>,
    max_ns: u64,
}

impl Default for Stopwatch {
    fn default() -> Self {
        Self { histogram: Histogram::new(2).expect("two digits are allowed"), max_ns: 0 }
    }
}

impl Stopwatch {
    pub(crate) fn record(&mut self, took: Duration) {
        let ns = took.as_nanos() as u64;
        self.histogram.record(ns.max(1)).expect("a histogram that grows");
        self.max_ns = self.max_ns.max(ns);
    }

    /// So many values, each as likely as any other, in order.
    pub(crate) fn quantiles(&self, count: u32) -> Vec<u64> {
        (0..count).map(|n| self.at((f64::from(n) + 0.5) / f64::from(count))).collect()
    }

    /// The histogram knows the upper end of a value's bucket, which may lie above the longest.
    fn at(&self, quantile: f64) -> u64 {
        self.histogram.value_at_quantile(quantile).min(self.max_ns)
    }

    pub(crate) fn waits(&self) -> Waits {
        Waits {
            count: self.histogram.len(),
            mean_ns: self.histogram.mean() as u64,
            p50_ns: self.at(0.5),
            p99_ns: self.at(0.99),
            max_ns: self.max_ns,
        }
    }
}

/// What one program did. Times are of the monotonic clock, which all of them share.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskOutcome {
    /// Its name.
    pub name: String,
    /// It only makes work for the others: its waits are not looked at.
    pub background: bool,
    /// When it began, in nanoseconds.
    pub began_ns: u64,
    /// When it ended, in nanoseconds.
    pub ended_ns: u64,
    /// Bytes that it read and wrote.
    pub bytes: u64,
    /// What it counts: requests, files, transactions, commits.
    pub operations: u64,
    /// Its time was over before its work was.
    pub cut: bool,
    /// How long it waited for what.
    pub waits: Waits,
    /// The same in full, if that was asked for: values each as likely as any other, in nanoseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles_ns: Vec<u64>,
}

/// What one scheduler's run measured.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The programs.
    pub tasks: Vec<TaskOutcome>,
    /// How late the emulated drive's answers were.
    pub lateness: TimesSummary,
    /// How long reads waited in Dwell's queue before they went to the drive: hardly at all where the kernel schedules.
    pub reads_queued: TimesSummary,
}

/// An answer in a hundred may be so late, in nanoseconds, before a run says more about the machine than about a scheduler:
/// a small part of a seek.
const LATE_NS: u64 = 2_000_000;

impl Outcome {
    /// From the first program's beginning to the last one's end, in nanoseconds.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        let began = self.tasks.iter().map(|task| task.began_ns).min().unwrap_or(0);
        self.tasks.iter().map(|task| task.ended_ns).max().unwrap_or(0).saturating_sub(began)
    }

    /// 10^6 bytes a second, of all programs together.
    #[must_use]
    pub fn megabytes_per_second(&self) -> f64 {
        per_second(self.tasks.iter().map(|task| task.bytes).sum(), self.elapsed_ns()) / 1e6
    }

    /// Operations a second of those in the foreground.
    #[must_use]
    pub fn operations_per_second(&self) -> f64 {
        per_second(self.foreground().map(|task| task.operations).sum(), self.elapsed_ns())
    }

    /// The longest that anybody in the foreground waited for one system call, in nanoseconds.
    #[must_use]
    pub fn longest_wait_ns(&self) -> u64 {
        self.foreground().map(|task| task.waits.max_ns).max().unwrap_or(0)
    }

    /// The longest wait of a hundred in the foreground, of the program that had it worst, in nanoseconds.
    #[must_use]
    pub fn p99_ns(&self) -> u64 {
        self.foreground().map(|task| task.waits.p99_ns).max().unwrap_or(0)
    }

    /// Whether somebody's time was over before the work was.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.tasks.iter().any(|task| task.cut)
    }

    /// Whether the drive answered so late that the machine, not the scheduler, was measured.
    #[must_use]
    pub const fn is_late(&self) -> bool {
        self.lateness.p99_ns > LATE_NS
    }

    fn foreground(&self) -> impl Iterator<Item = &TaskOutcome> {
        self.tasks.iter().filter(|task| !task.background)
    }
}

fn per_second(amount: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { amount as f64 * 1e9 / ns as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_waited_longer_than_the_longest() {
        let mut stopwatch = Stopwatch::default();
        stopwatch.record(Duration::from_nanos(100_001));
        let waits = stopwatch.waits();
        assert_eq!((waits.p50_ns, waits.p99_ns, waits.max_ns), (100_001, 100_001, 100_001));
        assert_eq!(stopwatch.quantiles(2), [100_001; 2]);
    }
}
