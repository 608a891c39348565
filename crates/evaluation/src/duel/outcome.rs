//! The measurements of one run.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use server::TimesSummary;

/// Durations of system calls, measured in the calling program, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Waits {
    /// Their number.
    pub count: u64,
    pub mean_ns: u64,
    /// Median, to two digits.
    pub p50_ns: u64,
    /// 99th percentile, to two digits.
    pub p99_ns: u64,
    /// The longest, exactly.
    pub max_ns: u64,
}

/// Collects durations.
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

    /// `count` equally likely values, in ascending order.
    pub(crate) fn quantiles(&self, count: u32) -> Vec<u64> {
        (0..count).map(|n| self.at((f64::from(n) + 0.5) / f64::from(count))).collect()
    }

    /// The value at a quantile. The histogram returns the upper end of a bucket, which may exceed the longest duration.
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

/// The measurements of one program. Times are of the monotonic clock, common to all programs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskOutcome {
    pub name: String,
    /// It is load for the others; its waits do not count.
    pub background: bool,
    /// When it began, in nanoseconds.
    pub began_ns: u64,
    /// When it ended, in nanoseconds.
    pub ended_ns: u64,
    /// Bytes that it read and wrote.
    pub bytes: u64,
    /// Its operations: requests, files, transactions or commits.
    pub operations: u64,
    /// It was stopped before the end of its work.
    pub cut: bool,
    pub waits: Waits,
    /// The distribution of its waits, if requested: equally likely values in nanoseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles_ns: Vec<u64>,
}

/// The measurements of one scheduler's run.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The programs.
    pub tasks: Vec<TaskOutcome>,
    /// Lateness of the emulated drive's completions.
    pub lateness: TimesSummary,
    /// Waits of reads in Dwell's queue before their dispatch; almost zero if the kernel schedules.
    pub reads_queued: TimesSummary,
}

/// Limit for the 99th percentile of lateness in nanoseconds, a small part of a seek: later runs measure the machine more than the
/// scheduler.
const LATE_NS: u64 = 2_000_000;

impl Outcome {
    /// From the start of the first program to the end of the last one, in nanoseconds.
    pub fn elapsed_ns(&self) -> u64 {
        let began = self.tasks.iter().map(|task| task.began_ns).min().unwrap_or(0);
        self.tasks.iter().map(|task| task.ended_ns).max().unwrap_or(0).saturating_sub(began)
    }

    /// 10^6 bytes per second of all programs.
    pub fn megabytes_per_second(&self) -> f64 {
        per_second(self.tasks.iter().map(|task| task.bytes).sum(), self.elapsed_ns()) / 1e6
    }

    /// Operations per second of the foreground programs.
    pub fn operations_per_second(&self) -> f64 {
        per_second(self.foreground().map(|task| task.operations).sum(), self.elapsed_ns())
    }

    /// The longest system call of a foreground program, in nanoseconds.
    pub fn longest_wait_ns(&self) -> u64 {
        self.foreground().map(|task| task.waits.max_ns).max().unwrap_or(0)
    }

    /// The highest 99th percentile of waits of a foreground program, in nanoseconds.
    pub fn p99_ns(&self) -> u64 {
        self.foreground().map(|task| task.waits.p99_ns).max().unwrap_or(0)
    }

    /// Whether a program was stopped before the end of its work.
    pub fn is_cut(&self) -> bool {
        self.tasks.iter().any(|task| task.cut)
    }

    /// Whether the drive was so late that the run measures the machine, not the scheduler.
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
    fn no_quantile_exceeds_the_longest_wait() {
        let mut stopwatch = Stopwatch::default();
        stopwatch.record(Duration::from_nanos(100_001));
        let waits = stopwatch.waits();
        assert_eq!((waits.p50_ns, waits.p99_ns, waits.max_ns), (100_001, 100_001, 100_001));
        assert_eq!(stopwatch.quantiles(2), [100_001; 2]);
    }
}
