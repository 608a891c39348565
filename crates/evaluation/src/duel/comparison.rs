//! One comparison: a benchmark at one depth, with programs hidden or visible, and the result of each scheduler.

use std::time::Duration;

use crate::duel::{Benchmark, Outcome, PathLatency, RequestKind, Scheduler, Score, Size};
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

/// A comparison with its entries.
pub struct Comparison {
    pub benchmark: Benchmark,
    /// The benchmark in one line.
    pub what: String,
    /// Commands in the drive at once.
    pub depth: u32,
    /// Whether one more loop device hides the programs.
    pub hidden: bool,
    /// One for each scheduler, and one for a single program if the benchmark has that reference.
    pub entries: Vec<Entry>,
}

/// The runs of a scheduler, and the prediction.
pub struct Entry {
    pub scheduler: Scheduler,
    /// One per run.
    pub outcomes: Vec<Outcome>,
    /// Only one of the programs ran: an upper bound for the throughput of all programs.
    pub alone: bool,
    /// Path latency of each kind of request in this kernel, without the drive.
    pub latencies: Vec<(RequestKind, PathLatency)>,
    /// The prediction of the model.
    pub predicted: Option<Predicted>,
    /// Why there is no prediction; empty if there is one.
    pub unpredicted: String,
}

/// A prediction.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Predicted {
    /// Throughput in 10^6 bytes per second.
    pub megabytes_per_second: f64,
    /// Requests, transactions or commits per second.
    pub operations_per_second: f64,
    /// The longest wait of a foreground program.
    pub longest_wait_ns: u64,
}

/// A median with the minimum and maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    /// The minimum.
    pub least: f64,
    /// The maximum.
    pub greatest: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let (Some(&least), Some(&greatest)) = (values.first(), values.last()) else { return Self::default() };
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Self { median: f64::midpoint(low, high), least, greatest }
    }
}

impl Comparison {
    /// A comparison without results.
    pub fn new(
        benchmark: &Benchmark,
        size: &Size,
        depth: u32,
        hidden: bool,
        schedulers: &[Scheduler],
    ) -> Self {
        let entry = |scheduler: Scheduler, alone| Entry {
            scheduler,
            outcomes: Vec::new(),
            alone,
            latencies: Vec::new(),
            predicted: None,
            unpredicted: String::new(),
        };
        let mut entries: Vec<Entry> =
            schedulers.iter().map(|scheduler| entry(scheduler.clone(), false)).collect();
        if benchmark.has_yardstick() {
            entries.push(entry(Scheduler::Dwell { scheduler: "noop".to_owned() }, true));
        }
        Self { benchmark: benchmark.clone(), what: benchmark.describe(size), depth, hidden, entries }
    }

    /// Whether any run has finished.
    pub fn has_begun(&self) -> bool {
        self.entries.iter().any(|entry| !entry.outcomes.is_empty())
    }

    /// The comparison in one line.
    pub fn title(&self) -> String {
        let visibility = if self.hidden { "programs hidden" } else { "programs visible" };
        format!("{}; depth {}, {visibility}", self.what, self.depth)
    }

    /// Entries with results, best first.
    pub fn ranked(&self) -> Vec<&Entry> {
        let mut ranked: Vec<&Entry> =
            self.entries.iter().filter(|entry| !entry.outcomes.is_empty()).collect();
        ranked.sort_by(|a, b| self.score(b).median.total_cmp(&self.score(a).median));
        ranked
    }

    /// Whether operations per second are the score, not bytes.
    pub fn counts_operations(&self) -> bool {
        self.benchmark.score() == Score::Operations
    }

    /// Unit of the score.
    pub fn unit(&self) -> &'static str {
        match self.benchmark.score() {
            Score::Megabytes => "MB/s",
            Score::Operations => "per second",
        }
    }

    pub fn score(&self, entry: &Entry) -> Spread {
        match self.benchmark.score() {
            Score::Megabytes => entry.spread(Outcome::megabytes_per_second),
            Score::Operations => entry.spread(Outcome::operations_per_second),
        }
    }

    pub fn predicted_score(&self, entry: &Entry) -> Option<f64> {
        let predicted = entry.predicted?;
        Some(match self.benchmark.score() {
            Score::Megabytes => predicted.megabytes_per_second,
            Score::Operations => predicted.operations_per_second,
        })
    }
}

impl Entry {
    /// Statistics over the runs in which the emulated drive kept its times, or over all runs if it never did.
    pub fn spread(&self, figure: impl Fn(&Outcome) -> f64) -> Spread {
        let punctual: Vec<f64> = self.outcomes.iter().filter(|o| !o.is_late()).map(&figure).collect();
        Spread::of(if punctual.is_empty() { self.outcomes.iter().map(&figure).collect() } else { punctual })
    }

    /// Number of runs in which the emulated drive completed requests late.
    pub fn late(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.is_late()).count()
    }

    /// The longest wait of all runs, not the median: users remember the worst case.
    pub fn longest_wait_ns(&self) -> u64 {
        self.outcomes.iter().map(Outcome::longest_wait_ns).max().unwrap_or(0)
    }
}

impl Serialize for Comparison {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("comparison", 6)?;
        object.serialize_field("benchmark", &self.benchmark.name())?;
        object.serialize_field("what", &self.what)?;
        object.serialize_field("depth", &self.depth)?;
        object.serialize_field("hidden", &self.hidden)?;
        object.serialize_field("unit", self.unit())?;
        let entries: Vec<_> =
            self.ranked().into_iter().map(|entry| Judged { comparison: self, entry }).collect();
        object.serialize_field("entries", &entries)?;
        object.end()
    }
}

/// An entry with the comparison that scores it.
struct Judged<'a> {
    comparison: &'a Comparison,
    entry: &'a Entry,
}

/// A path latency in JSON.
#[derive(Serialize)]
struct MedianLatency {
    bytes: u64,
    writes: bool,
    /// Service time of the drive in that measurement.
    service_ns: u64,
    median_ns: u64,
    /// The share below the scheduler.
    below: f64,
    /// Median time that a drive of depth 1 is idle between a completion and the next command of another program.
    #[serde(skip_serializing_if = "Option::is_none")]
    gap_ns: Option<u64>,
}

impl MedianLatency {
    fn new(RequestKind { bytes, writes, service }: RequestKind, latency: &PathLatency) -> Self {
        let median = |times: &[Duration]| times.get(times.len() / 2).map(|time| time.as_nanos() as u64);
        Self {
            bytes,
            writes,
            service_ns: service.as_nanos() as u64,
            median_ns: median(&latency.times).unwrap_or(0),
            below: latency.below,
            gap_ns: median(&latency.gaps),
        }
    }
}

impl Serialize for Judged<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { comparison, entry } = self;
        let mut object = serializer.serialize_struct("entry", 11)?;
        object.serialize_field("scheduler", &entry.scheduler.to_string())?;
        object.serialize_field("kernel", &entry.scheduler.is_kernel())?;
        object.serialize_field("alone", &entry.alone)?;
        object.serialize_field("score", &comparison.score(entry))?;
        object.serialize_field("megabytes_per_second", &entry.spread(Outcome::megabytes_per_second))?;
        object.serialize_field("operations_per_second", &entry.spread(Outcome::operations_per_second))?;
        object.serialize_field("longest_wait_ns", &entry.longest_wait_ns())?;
        object.serialize_field("late_runs", &entry.late())?;
        let latencies: Vec<_> =
            entry.latencies.iter().map(|(kind, latency)| MedianLatency::new(*kind, latency)).collect();
        object.serialize_field("path_latency", &latencies)?;
        object.serialize_field("model", &entry.predicted)?;
        object.serialize_field("runs", &entry.outcomes)?;
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 9.0]), Spread { median: 3.0, least: 1.0, greatest: 9.0 });
        assert_eq!(Spread::of(vec![5.0]), Spread { median: 5.0, least: 5.0, greatest: 5.0 });
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }
}
