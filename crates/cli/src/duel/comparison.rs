//! One comparison: a benchmark at one depth, with programs hidden or not, and what each scheduler made of it.

use std::time::Duration;

use ::duel::{Benchmark, Kind, Outcome, Scheduler, Score, Size, Way};
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

/// A comparison with its entries.
pub(crate) struct Comparison {
    pub(crate) benchmark: Benchmark,
    pub(crate) what: String,
    pub(crate) depth: u32,
    pub(crate) hidden: bool,
    pub(crate) entries: Vec<Entry>,
}

/// A scheduler's runs, and what the model said.
pub(crate) struct Entry {
    pub(crate) scheduler: Scheduler,
    pub(crate) outcomes: Vec<Outcome>,
    /// Only one of the programs ran, and nobody had to be scheduled: the most that all together could have.
    pub(crate) alone: bool,
    /// What the way of each kind of request takes in this kernel, beside the drive.
    pub(crate) ways: Vec<(Kind, Way)>,
    pub(crate) predicted: Option<Predicted>,
    /// Why nothing was predicted.
    pub(crate) unpredicted: String,
}

/// What the model said.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Predicted {
    pub(crate) megabytes_per_second: f64,
    pub(crate) operations_per_second: f64,
    /// The longest wait of a program in the foreground.
    pub(crate) longest_wait_ns: u64,
}

/// A median with its least and its greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
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
    pub(crate) fn new(
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
            ways: Vec::new(),
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

    pub(crate) fn has_begun(&self) -> bool {
        self.entries.iter().any(|entry| !entry.outcomes.is_empty())
    }

    /// In a line.
    pub(crate) fn title(&self) -> String {
        let sight = if self.hidden { "programs hidden" } else { "programs shown" };
        format!("{}; depth {}, {sight}", self.what, self.depth)
    }

    /// The best first.
    pub(crate) fn ranked(&self) -> Vec<&Entry> {
        let mut ranked: Vec<&Entry> =
            self.entries.iter().filter(|entry| !entry.outcomes.is_empty()).collect();
        ranked.sort_by(|a, b| self.score(b).median.total_cmp(&self.score(a).median));
        ranked
    }

    pub(crate) fn counts_operations(&self) -> bool {
        self.benchmark.score() == Score::Operations
    }

    pub(crate) fn unit(&self) -> &'static str {
        match self.benchmark.score() {
            Score::Megabytes => "MB/s",
            Score::Operations => "per second",
        }
    }

    /// What an entry is judged by.
    pub(crate) fn score(&self, entry: &Entry) -> Spread {
        match self.benchmark.score() {
            Score::Megabytes => entry.spread(Outcome::megabytes_per_second),
            Score::Operations => entry.spread(Outcome::operations_per_second),
        }
    }

    /// The same as the model said it.
    pub(crate) fn predicted_score(&self, entry: &Entry) -> Option<f64> {
        let predicted = entry.predicted?;
        Some(match self.benchmark.score() {
            Score::Megabytes => predicted.megabytes_per_second,
            Score::Operations => predicted.operations_per_second,
        })
    }
}

impl Entry {
    /// Over the runs in which the drive answered in time, if there were any.
    pub(crate) fn spread(&self, figure: impl Fn(&Outcome) -> f64) -> Spread {
        let punctual: Vec<f64> = self.outcomes.iter().filter(|o| !o.is_late()).map(&figure).collect();
        Spread::of(if punctual.is_empty() { self.outcomes.iter().map(&figure).collect() } else { punctual })
    }

    /// Runs in which the drive answered late.
    pub(crate) fn late(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.is_late()).count()
    }

    /// The longest wait of all runs: one that is bad once is what users remember.
    pub(crate) fn longest_wait_ns(&self) -> u64 {
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

/// An entry as its comparison judges it.
struct Judged<'a> {
    comparison: &'a Comparison,
    entry: &'a Entry,
}

/// What a way took, as JSON tells it.
#[derive(Serialize)]
struct MedianWay {
    bytes: u64,
    writes: bool,
    /// What the drive took with which it was measured.
    service_ns: u64,
    median_ns: u64,
    /// The share of it beneath the scheduler.
    below: f64,
    /// The median of what a drive of depth 1 waits for the next of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_ns: Option<u64>,
}

impl MedianWay {
    fn new(Kind { bytes, writes, service }: Kind, way: &Way) -> Self {
        let median = |times: &[Duration]| times.get(times.len() / 2).map(|time| time.as_nanos() as u64);
        Self {
            bytes,
            writes,
            service_ns: service.as_nanos() as u64,
            median_ns: median(&way.times).unwrap_or(0),
            below: way.below,
            turn_ns: median(&way.turns),
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
        let ways: Vec<_> = entry.ways.iter().map(|(kind, way)| MedianWay::new(*kind, way)).collect();
        object.serialize_field("ways", &ways)?;
        object.serialize_field("model", &entry.predicted)?;
        object.serialize_field("runs", &entry.outcomes)?;
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 9.0]), Spread { median: 3.0, least: 1.0, greatest: 9.0 });
        assert_eq!(Spread::of(vec![5.0]), Spread { median: 5.0, least: 5.0, greatest: 5.0 });
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }
}
