//! The columns of the results. The macro keeps a column's name, type, description and value together.

use machine::{Latency, ProcessMeasured};
use serde::{Deserialize, Serialize};

use crate::description::Run;
use crate::windows::Window;

/// The type of a column. All are optional.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// UTF-8.
    Text,
    /// A signed 64-bit integer.
    Whole,
    /// A 64-bit floating-point number.
    Number,
    /// True or false.
    Flag,
}

/// A column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its name; a name with a unit ends in the unit.
    pub name: &'static str,
    pub kind: Type,
    /// What it contains.
    pub about: &'static str,
}

/// A value.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// True or false.
    Flag(bool),
    /// An integer.
    Whole(i64),
    Number(f64),
    Text(String),
    /// No value.
    Nothing,
}

impl From<bool> for Cell {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Whole(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Self {
        Self::Whole(number.into())
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        if number.is_finite() { Self::Number(number) } else { Self::Nothing }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nothing, Into::into)
    }
}

macro_rules! table {
    ($(#[$doc:meta])* $fields:ident, $row:ident($($name:ident: $of:ty),+) { $($column:literal $kind:ident $value:expr, $about:literal;)+ }) => {
        $(#[$doc])*
        pub const $fields: &[Field] = &[$(Field { name: $column, kind: Type::$kind, about: $about }),+];

        pub(crate) fn $row($($name: $of),+) -> Vec<Cell> {
            vec![$(Cell::from($value)),+]
        }
    };
}

/// A run with its result, or the reason why it has none.
pub(crate) struct Made<'a> {
    pub(crate) run: &'a Run,
    pub(crate) drive: &'a str,
    pub(crate) depth: Option<u32>,
    pub(crate) result: Option<&'a evaluation::runs::Run>,
    pub(crate) failure: Option<&'a str>,
    pub(crate) by_time: bool,
    /// What is left out of a recording.
    pub(crate) omitted: Option<&'a Omitted>,
}

/// What is left out of a recording.
pub(crate) struct Omitted {
    /// Number of requests.
    pub(crate) requests: u64,
    /// Reasons with numbers.
    pub(crate) lines: Vec<String>,
}

impl Omitted {
    pub(crate) fn of(skips: &traces::Skips) -> Self {
        let is_listed = |oddity: traces::Oddity| oddity.is_omission() || oddity.is_fault();
        let omissions = skips.iter().filter(|(oddity, _)| oddity.is_omission());
        let lines = skips.lines().filter(|(oddity, _)| is_listed(*oddity)).map(|(_, line)| line);
        Self { requests: omissions.map(|(_, tally)| tally.count).sum(), lines: lines.collect() }
    }
}

impl Made<'_> {
    fn measured(&self) -> Option<&machine::Measured> {
        self.result.map(|result| &result.measured)
    }

    fn of<T>(&self, value: impl Fn(&machine::Measured) -> T) -> Option<T> {
        self.measured().map(value)
    }

    /// A part of the latency of some requests, if there were any.
    fn latency(
        &self,
        of: impl Fn(&machine::Measured) -> Latency,
        part: impl Fn(&Latency) -> u64,
    ) -> Option<u64> {
        self.measured().and_then(|measured| some(&of(measured), part))
    }

    fn transactions(&self) -> Option<u64> {
        let all = &self.result?.outcome.as_ref()?.transactions;
        (!all.is_empty()).then(|| all.values().map(|all| all.count).sum())
    }
}

fn some(latency: &Latency, part: impl Fn(&Latency) -> u64) -> Option<u64> {
    (latency.count > 0).then(|| part(latency))
}

table! {
    /// Columns of the runs: one row for each.
    RUNS, run_row(of: &Made<'_>) {
        "run" Text &of.run.id, "identifier: hash of version, inputs and settings";
        "version" Text crate::VERSION, "version of dwell, with a hash of the sources that determine results";
        "workload" Text &of.run.workload.name, "file, or built-in workload";
        "workload_sha256" Text of.run.workload.sha256.as_ref(), "hash of the workload's file; null if it is built in";
        "kind" Text kind(of.run), "recording, job, built-in or script";
        "scheduler" Text &of.run.scheduler, "scheduler with version and tunables";
        "drive" Text of.drive, "drive with overrides";
        "drive_sha256" Text of.run.drive.as_ref().and_then(|drive| drive.sha256.as_ref()), "hash of the drive's file; null if it is built in";
        "array" Text of.run.array.as_ref(), "array of such drives; null for one drive";
        "machine" Text of.run.machine.as_ref().map(|machine| &machine.name), "machine of scripts, if the study sets one";
        "depth" Whole of.depth, "commands in the drive at once";
        "identity" Text of.run.identity.name(), "process identity that schedulers receive: shown, hidden or same";
        "nr_requests" Whole of.run.nr_requests, "limit of queued requests per direction; null for scripts";
        "seed" Whole of.run.seed, "draw of the random numbers; 1 is the workload as written";
        "scale" Number of.run.scale, "size of a script's data, operations and memory; null for other workloads";
        "at_most_ns" Whole of.run.at_most_ns, "virtual time after which the run stops; null for none";
        "by_time" Flag of.by_time, "the requests arrive at given times, so the throughput is the recording's; or programs or jobs run for a given time";
        "left_out" Whole of.omitted.map(|omitted| omitted.requests), "requests of the recording that are not replayed because they are malformed or impossible; null for other workloads";
        "omissions" Text of.omitted.filter(|omitted| !omitted.lines.is_empty()).map(|omitted| omitted.lines.join("; ")), "what the recording lacks, with reasons; null if nothing";
        "failure" Text of.failure, "why there is no complete result; null if there is one";
        "cut" Flag of.result.map(|result| result.cut), "the run was stopped at at_most_ns: rates are valid, totals are not";
        "elapsed_ns" Whole of.of(|m| m.elapsed_ns), "virtual time from the start to the last completion, or to the end of a script's measured processes";
        "bytes" Whole of.of(|m| m.bytes), "bytes that the device read and wrote";
        "mb_per_s" Number of.of(machine::Measured::megabytes_per_second), "10^6 bytes per second that the device moved";
        "requests" Whole of.of(|m| m.requests.max(m.latency.count)), "finished requests with flushes; for scripts: reads and writes of their programs";
        "failed" Whole of.of(|m| m.failed), "failed requests";
        "dispatched" Whole of.of(|m| m.dispatched), "requests dispatched to the device, after merging";
        "mean_ns" Whole of.latency(|m| m.latency, |l| l.mean_ns), "mean latency of all requests but flushes";
        "p50_ns" Whole of.latency(|m| m.latency, |l| l.p50_ns), "median latency";
        "p99_ns" Whole of.latency(|m| m.latency, |l| l.p99_ns), "99th percentile of latency";
        "max_ns" Whole of.latency(|m| m.latency, |l| l.max_ns), "greatest latency";
        "read_mean_ns" Whole of.latency(|m| m.reads, |l| l.mean_ns), "mean latency of reads";
        "read_p50_ns" Whole of.latency(|m| m.reads, |l| l.p50_ns), "median latency of reads";
        "read_p99_ns" Whole of.latency(|m| m.reads, |l| l.p99_ns), "99th percentile of reads";
        "read_max_ns" Whole of.latency(|m| m.reads, |l| l.max_ns), "greatest latency of reads";
        "write_mean_ns" Whole of.latency(|m| m.writes, |l| l.mean_ns), "mean latency of writes and discards";
        "write_p50_ns" Whole of.latency(|m| m.writes, |l| l.p50_ns), "median latency of writes and discards";
        "write_p99_ns" Whole of.latency(|m| m.writes, |l| l.p99_ns), "99th percentile of writes and discards";
        "write_max_ns" Whole of.latency(|m| m.writes, |l| l.max_ns), "greatest latency of writes and discards";
        "fsync_p50_ns" Whole of.latency(|m| m.fsyncs, |l| l.p50_ns), "median of fsync and fdatasync (scripts)";
        "fsync_p99_ns" Whole of.latency(|m| m.fsyncs, |l| l.p99_ns), "99th percentile of fsync and fdatasync (scripts)";
        "fsync_max_ns" Whole of.latency(|m| m.fsyncs, |l| l.max_ns), "greatest latency of fsync and fdatasync (scripts)";
        "work_bytes" Whole of.result.and_then(|result| result.work_bytes), "bytes that the measured programs read and wrote (scripts, and jobs that end at their runtime)";
        "transactions" Whole of.transactions(), "transactions of programs that count them (scripts)";
        "head_travel_bytes" Whole of.result.filter(|result| result.has_head).map(|result| result.measured.head_travel_sectors.saturating_mul(512)), "distance of head movement in address space";
        "seeks" Whole of.of(|m| m.seeks), "accesses that did not continue the previous one";
        "waited_ns" Whole of.of(|m| m.waits.total_ns), "time in which the device waited on purpose with requests queued";
        "fairness" Number of.result.and_then(|result| result.fairness), "Jain's index over the slowdown of each process (not scripts)";
        "of_limit" Number of.result.and_then(evaluation::runs::Run::of_limit), "part of the physical limit that the run reached, 0 to 1 (not scripts)";
    }
}

table! {
    /// Columns of the processes: one row for each process, or group of processes with one name, of a run.
    PROCESSES, process_row(run: &Run, of: &ProcessMeasured) {
        "run" Text &run.id, "identifier of the run";
        "process" Text &of.name, "name of the process";
        "elapsed_ns" Whole of.elapsed_ns, "virtual time from its start to its end";
        "bytes" Whole of.bytes, "bytes read and written";
        "requests" Whole of.latency.count, "finished requests, without flushes";
        "mean_ns" Whole some(&of.latency, |l| l.mean_ns), "mean latency";
        "p99_ns" Whole some(&of.latency, |l| l.p99_ns), "99th percentile of latency";
        "max_ns" Whole some(&of.latency, |l| l.max_ns), "greatest latency";
        "read_mean_ns" Whole some(&of.reads, |l| l.mean_ns), "mean latency of reads";
        "read_p99_ns" Whole some(&of.reads, |l| l.p99_ns), "99th percentile of reads";
        "read_max_ns" Whole some(&of.reads, |l| l.max_ns), "greatest latency of reads";
        "write_mean_ns" Whole some(&of.writes, |l| l.mean_ns), "mean latency of writes";
        "write_p99_ns" Whole some(&of.writes, |l| l.p99_ns), "99th percentile of writes";
        "write_max_ns" Whole some(&of.writes, |l| l.max_ns), "greatest latency of writes";
    }
}

table! {
    /// Columns of the windows: one row for each window of a run in which a request finished.
    WINDOWS, window_row(run: &Run, of: &Window) {
        "run" Text &run.id, "identifier of the run";
        "start_ns" Whole of.start_ns, "start of the window in virtual time";
        "length_ns" Whole run.window_ns, "length of the window";
        "bytes" Whole of.bytes, "bytes of the requests that finished in the window";
        "reads" Whole of.reads.count(), "reads that finished";
        "read_mean_ns" Whole of.reads.mean(), "mean latency of reads";
        "read_p99_ns" Whole of.reads.p99(), "99th percentile of reads";
        "read_max_ns" Whole of.reads.max(), "greatest latency of reads";
        "writes" Whole of.writes.count(), "writes and discards that finished";
        "write_mean_ns" Whole of.writes.mean(), "mean latency of writes";
        "write_p99_ns" Whole of.writes.p99(), "99th percentile of writes";
        "write_max_ns" Whole of.writes.max(), "greatest latency of writes";
    }
}

fn kind(run: &Run) -> &'static str {
    use crate::description::Kind;
    match run.kind {
        Kind::Recording => "recording",
        Kind::Job => "job",
        Kind::BuiltIn => "built-in",
        Kind::Script => "script",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_serialisation() {
        let row = vec![
            Cell::from("a"),
            Cell::from(3_u64),
            Cell::from(3.0),
            Cell::from(true),
            Cell::from(f64::NAN),
            Cell::from(u64::MAX),
        ];
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(text, r#"["a",3,3.0,true,null,9223372036854775807]"#);
        assert_eq!(serde_json::from_str::<Vec<Cell>>(&text).unwrap(), row);
    }

    #[test]
    fn names_are_unique_and_have_units() {
        for fields in [RUNS, PROCESSES, WINDOWS] {
            for (n, field) in fields.iter().enumerate() {
                assert!(fields[..n].iter().all(|other| other.name != field.name), "{}", field.name);
                assert!(!field.about.is_empty());
            }
        }
    }
}
