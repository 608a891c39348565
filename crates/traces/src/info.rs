//! Summary of a recording.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use elevator::{Op, Span, Time};
use serde::Serialize;

use crate::devices::DeviceEntry;
use crate::error::Error;
use crate::interpretation::Interpretation;
use crate::record::{DeviceId, Pid, Record};
use crate::recording::Recording;
use crate::skips::Skips;

/// Upper bounds for processes and requests in flight that are counted separately.
const PROCESSES_MAX: usize = 65_536;
const IN_FLIGHT_MAX: usize = 1 << 20;

/// Number and size of requests of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Amount {
    /// Number of requests.
    pub requests: u64,
    /// Sum of their sizes in bytes.
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, record: &Record) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(record.bytes);
    }
}

/// Requests whose size is at most a power of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SizeRow {
    /// Largest size in bytes, a power of two, and twice that of the previous row.
    pub up_to_bytes: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
}

/// Requests of one process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ProcessRow {
    /// The process.
    pub pid: Pid,
    /// Its name, if recorded.
    pub name: Option<String>,
    /// All requests.
    pub total: Amount,
    /// Reads.
    pub reads: Amount,
    /// Reads and writes that begin where the process's previous request on the device ended.
    pub sequential: u64,
}

/// Latencies, from issue to completion.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Latency {
    /// Number of requests with a recorded completion.
    pub requests: u64,
    /// Mean, in nanoseconds.
    pub mean_ns: f64,
    /// Median in nanoseconds, up to 6% too high, like all percentiles.
    pub p50_ns: u64,
    /// 90th percentile in nanoseconds.
    pub p90_ns: u64,
    /// 99th percentile in nanoseconds.
    pub p99_ns: u64,
    /// 99.9th percentile in nanoseconds.
    pub p999_ns: u64,
    /// Maximum in nanoseconds.
    pub max_ns: u64,
    /// Mean number of requests in flight between the first issue and the last completion.
    pub depth_mean: f64,
    /// Maximum number of requests in flight (at most 1,048,576 are counted).
    pub depth_max: u64,
}

/// Statistics of a recording. Shares are numbers from 0 to 1.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Info {
    /// How the recording was read, with its duration and number of requests.
    pub interpretation: Interpretation,
    /// Requests per second.
    pub iops: f64,
    /// Reads.
    pub reads: Amount,
    /// Writes.
    pub writes: Amount,
    /// Discards.
    pub discards: Amount,
    /// Flushes without data.
    pub flushes: u64,
    /// Writes before which the device flushes its cache (preflush), as a journal's commit does.
    pub preflush_writes: u64,
    /// Writes that bypass the device's cache (forced unit access).
    pub fua_writes: u64,
    /// Sizes of reads and writes.
    pub sizes: Vec<SizeRow>,
    /// Share of reads and writes that begin where the previous one on the same device ended.
    pub sequential: f64,
    /// The same with respect to the previous one of the same process; `None` without processes.
    pub sequential_per_process: Option<f64>,
    /// Share of reads with the read-ahead flag.
    pub read_ahead: f64,
    /// Share of writes with the sync flag.
    pub sync_writes: f64,
    /// The byte behind the last accessed byte.
    pub end_bytes: u64,
    /// Latencies, if any completion is recorded.
    pub latency: Option<Latency>,
    /// Of reads.
    pub read_latency: Option<Latency>,
    /// Of writes.
    pub write_latency: Option<Latency>,
    /// Of flushes.
    pub flush_latency: Option<Latency>,
    /// Of writes with a preflush, which are among the writes, too.
    pub preflush_latency: Option<Latency>,
    /// Processes, busiest first.
    pub processes: Vec<ProcessRow>,
    /// Devices, including those not chosen.
    pub devices: Vec<DeviceEntry>,
    /// Anomalies.
    pub skips: Skips,
}

impl Info {
    /// Reads `recording` to its end.
    ///
    /// # Errors
    /// As the iterator of [`Recording`].
    pub fn of(recording: &mut Recording) -> Result<Self, Error> {
        let mut gatherer = Gatherer::default();
        for record in recording.by_ref() {
            gatherer.add(&record?);
        }
        Ok(gatherer.finish(recording))
    }

    /// An empty gatherer, for callers that read the records themselves.
    #[must_use]
    pub fn gatherer() -> Gatherer {
        Gatherer::default()
    }
}

#[derive(Clone, Copy, Default)]
struct ProcessCount {
    total: Amount,
    reads: Amount,
    sequential: u64,
}

/// Accumulates statistics of records.
#[derive(Default)]
pub struct Gatherer {
    reads: Amount,
    writes: Amount,
    discards: Amount,
    flushes: u64,
    preflush_writes: u64,
    fua_writes: u64,
    ahead: u64,
    sync_writes: u64,
    sizes: Vec<SizeRow>,
    sequential: u64,
    sequential_per_process: u64,
    with_process: u64,
    end_bytes: u64,
    device_ends: Vec<u64>,
    process_ends: HashMap<(Pid, DeviceId), u64>,
    processes: HashMap<Pid, ProcessCount>,
    /// The first and the latest request.
    times: Option<(Time, Time)>,
    latency: LatencyGatherer,
    read_latency: LatencyGatherer,
    write_latency: LatencyGatherer,
    flush_latency: LatencyGatherer,
    preflush_latency: LatencyGatherer,
}

impl Gatherer {
    /// Adds a record; in time order.
    pub fn add(&mut self, record: &Record) {
        let (first, latest) = self.times.unwrap_or((record.at, record.at));
        self.times = Some((first, latest.max(record.at)));
        match record.op {
            Op::Read => {
                self.reads.add(record);
                self.ahead += u64::from(record.flags.ahead);
            }
            Op::Write => {
                self.writes.add(record);
                self.sync_writes += u64::from(record.flags.sync);
                self.preflush_writes += u64::from(record.flags.preflush);
                self.fua_writes += u64::from(record.flags.fua);
            }
            Op::Discard => self.discards.add(record),
            Op::Flush => self.flushes += 1,
        }
        let follows = matches!(record.op, Op::Read | Op::Write) && self.add_transfer(record);
        self.add_process(record, follows);
        self.latency.add(record);
        match record.op {
            Op::Read => self.read_latency.add(record),
            Op::Write => self.write_latency.add(record),
            Op::Flush => self.flush_latency.add(record),
            Op::Discard => {}
        }
        if record.op == Op::Write && record.flags.preflush {
            self.preflush_latency.add(record);
        }
    }

    /// Adds a read or a write. Returns whether it continues its process's previous request.
    fn add_transfer(&mut self, record: &Record) -> bool {
        self.end_bytes = self.end_bytes.max(record.end());
        self.add_size(record);
        let device = record.device.0 as usize;
        if self.device_ends.len() <= device {
            self.device_ends.resize(device + 1, u64::MAX);
        }
        self.sequential += u64::from(self.device_ends[device] == record.offset);
        self.device_ends[device] = record.end();
        let Some(pid) = record.process else { return false };
        self.with_process += 1;
        let key = (pid, record.device);
        if self.process_ends.len() >= PROCESSES_MAX && !self.process_ends.contains_key(&key) {
            return false;
        }
        let follows = self.process_ends.insert(key, record.end()) == Some(record.offset);
        self.sequential_per_process += u64::from(follows);
        follows
    }

    fn add_size(&mut self, record: &Record) {
        let row = record.bytes.max(1).checked_next_power_of_two().map_or(64, u64::trailing_zeros) as usize;
        if self.sizes.len() <= row {
            self.sizes.resize(row + 1, SizeRow::default());
        }
        match record.op {
            Op::Read => self.sizes[row].reads += 1,
            _ => self.sizes[row].writes += 1,
        }
    }

    fn add_process(&mut self, record: &Record, follows: bool) {
        let Some(pid) = record.process else { return };
        if self.processes.len() >= PROCESSES_MAX && !self.processes.contains_key(&pid) {
            return;
        }
        let count = self.processes.entry(pid).or_default();
        count.total.add(record);
        count.sequential += u64::from(follows);
        if record.op == Op::Read {
            count.reads.add(record);
        }
    }

    /// The statistics of one device's requests, if only those were added: as [`finish`](Self::finish) on a recording of that device alone.
    #[must_use]
    pub fn finish_device(self, recording: &Recording) -> Info {
        let requests = self.reads.requests + self.writes.requests + self.discards.requests + self.flushes;
        let span = self.times.map_or(Span::ZERO, |(first, latest)| latest.since(first));
        let processes = self.processes.len();
        let mut info = self.finish(recording);
        let interpretation = &mut info.interpretation;
        (interpretation.requests, interpretation.span) = (requests, span);
        interpretation.processes = processes;
        info.iops = info.interpretation.iops();
        info
    }

    /// The statistics, with names, devices and anomalies of `recording`.
    #[must_use]
    pub fn finish(self, recording: &Recording) -> Info {
        let interpretation = recording.interpretation();
        let transfers = self.reads.requests + self.writes.requests;
        let mut rows: Vec<_> = self.sizes.into_iter().enumerate().collect();
        rows.retain(|(_, row)| row.reads + row.writes > 0);
        let up_to = |power: usize| 1_u64.checked_shl(power as u32).unwrap_or(u64::MAX);
        Info {
            iops: interpretation.iops(),
            reads: self.reads,
            writes: self.writes,
            discards: self.discards,
            flushes: self.flushes,
            preflush_writes: self.preflush_writes,
            fua_writes: self.fua_writes,
            sizes: rows
                .into_iter()
                .map(|(power, row)| SizeRow { up_to_bytes: up_to(power), ..row })
                .collect(),
            sequential: share(self.sequential, transfers),
            sequential_per_process: (self.with_process > 0)
                .then(|| share(self.sequential_per_process, self.with_process)),
            read_ahead: share(self.ahead, self.reads.requests),
            sync_writes: share(self.sync_writes, self.writes.requests),
            end_bytes: self.end_bytes,
            latency: self.latency.finish(),
            read_latency: self.read_latency.finish(),
            write_latency: self.write_latency.finish(),
            flush_latency: self.flush_latency.finish(),
            preflush_latency: self.preflush_latency.finish(),
            processes: process_rows(self.processes, recording),
            devices: recording.devices().to_vec(),
            skips: recording.skips().clone(),
            interpretation,
        }
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn process_rows(counts: HashMap<Pid, ProcessCount>, recording: &Recording) -> Vec<ProcessRow> {
    let mut rows: Vec<_> = counts
        .into_iter()
        .map(|(pid, count)| ProcessRow {
            pid,
            name: recording.process_name(pid),
            total: count.total,
            reads: count.reads,
            sequential: count.sequential,
        })
        .collect();
    rows.sort_by_key(|row| (Reverse(row.total.requests), row.pid));
    rows
}

/// Buckets per octave: the upper bound of a bucket is at most 1/16 above any of its values.
const BUCKETS_PER_OCTAVE: u32 = 16;

#[derive(Default)]
struct LatencyGatherer {
    buckets: Vec<u64>,
    requests: u64,
    sum: u128,
    max: u64,
    in_flight: BinaryHeap<Reverse<Time>>,
    depth_max: usize,
    /// The first issue and the last completion.
    began: Option<Time>,
    ended: Time,
}

impl LatencyGatherer {
    fn add(&mut self, record: &Record) {
        let (Some(completed), Some(latency)) = (record.completed, record.latency()) else { return };
        self.began.get_or_insert(record.at);
        self.ended = self.ended.max(completed);
        let latency = latency.as_nanos();
        let bucket = bucket_of(latency);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.requests += 1;
        self.sum += u128::from(latency);
        self.max = self.max.max(latency);
        while self.in_flight.peek().is_some_and(|Reverse(end)| *end <= record.at) {
            self.in_flight.pop();
        }
        if self.in_flight.len() < IN_FLIGHT_MAX {
            self.in_flight.push(Reverse(completed));
        }
        self.depth_max = self.depth_max.max(self.in_flight.len());
    }

    fn finish(self) -> Option<Latency> {
        let requests = (self.requests > 0).then_some(self.requests)?;
        let span = self.ended.since(self.began?).as_nanos();
        let at_share = |permille: u128| self.at_rank((u128::from(requests) * permille).div_ceil(1000) as u64);
        Some(Latency {
            requests,
            mean_ns: self.sum as f64 / requests as f64,
            p50_ns: at_share(500),
            p90_ns: at_share(900),
            p99_ns: at_share(990),
            p999_ns: at_share(999),
            max_ns: self.max,
            depth_mean: if span == 0 { 0.0 } else { self.sum as f64 / span as f64 },
            depth_max: self.depth_max as u64,
        })
    }

    fn at_rank(&self, rank: u64) -> u64 {
        let mut below = 0;
        let bucket = self.buckets.iter().position(|count| {
            below += count;
            below >= rank
        });
        bucket.map_or(self.max, |bucket| upper_edge(bucket).min(self.max))
    }
}

/// Values below 16 have a bucket each; larger ones 16 per octave.
fn bucket_of(value: u64) -> usize {
    let octave = value.max(1).ilog2();
    match octave.checked_sub(BUCKETS_PER_OCTAVE.ilog2()) {
        None => value as usize,
        Some(shift) => ((shift + 1) * BUCKETS_PER_OCTAVE) as usize + (value >> shift & 15) as usize,
    }
}

fn upper_edge(bucket: usize) -> u64 {
    let (row, column) = (bucket as u32 / BUCKETS_PER_OCTAVE, bucket as u64 % u64::from(BUCKETS_PER_OCTAVE));
    match row.checked_sub(1) {
        None => column,
        Some(shift) => ((16 + column) << shift) + ((1 << shift) - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        for value in (0..64).flat_map(|n| [1_u64 << n, (1_u64 << n).wrapping_mul(3), (1 << n) - 1]) {
            let edge = upper_edge(bucket_of(value));
            assert!(edge >= value && edge - value <= value / 16, "{value} {edge}");
        }
        for bucket in 0..900 {
            assert_eq!(bucket_of(upper_edge(bucket)), bucket);
        }
    }
}
