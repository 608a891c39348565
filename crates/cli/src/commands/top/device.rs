//! Any block device: the processes that use it and that caused its writes, latencies, depth, seeks and flushes, from the block layer's tracepoints.

mod print;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use capture::causes::{Caused, Causes, CausesOptions, CausesReport};
use capture::topology::{Reach, Stack};
use capture::{Arrival, Batch, Capture, Options, Source};
use elevator::{Op, Sector, Time};
use evaluation::report::format::object;
use serde::Serialize;
use tuner_live::{Counters, Traffic};

use self::print::text;
use super::{SAMPLE, draw_texts};
use crate::device_capture::{observed, scheduler_of};
use crate::error::Error;
use crate::identities::Cgroups;
use crate::interrupt;

/// Latencies are of this many past intervals.
const INTERVALS: usize = 10;
/// What happened in an interval, or in several.
#[derive(Serialize, Clone, Default)]
struct Direction {
    requests_per_second: f64,
    bytes_per_second: f64,
    /// Of the past intervals, as the fields below.
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

/// A task that submitted requests.
#[derive(Serialize, Clone, Default)]
struct Submitter {
    name: String,
    id: Option<u32>,
    cgroup: String,
    reads_per_second: f64,
    read_bytes_per_second: f64,
    writes_per_second: f64,
    written_bytes_per_second: f64,
    flushes_per_second: f64,
    mean_ns: u64,
}

/// A process that caused writes, or a kernel thread whose writes have no known cause.
#[derive(Serialize, Clone, Default)]
struct Cause {
    name: String,
    id: Option<u64>,
    cgroup: String,
    dirtied_bytes_per_second: f64,
    data_bytes_per_second: f64,
    metadata_bytes_per_second: f64,
    journal_bytes_per_second: f64,
}

impl Submitter {
    fn requests(&self) -> f64 {
        self.reads_per_second + self.writes_per_second + self.flushes_per_second
    }
}

impl Cause {
    fn written(&self) -> f64 {
        self.data_bytes_per_second + self.metadata_bytes_per_second + self.journal_bytes_per_second
    }
}

/// A thread that wrote for others, with the share of each.
#[derive(Serialize, Clone, Default)]
struct Delegation {
    submitter: String,
    bytes_per_second: f64,
    causes: Vec<(String, f64)>,
}

/// A device in the latest interval.
#[derive(Serialize, Default)]
struct Snapshot {
    device: String,
    stack: String,
    seconds: f64,
    /// Requests in flight now, and on average.
    in_flight: usize,
    depth: f64,
    reads: Direction,
    writes: Direction,
    flushes: Direction,
    /// Requests that did not begin where the one before ended.
    seeks_per_second: f64,
    sequential: f64,
    submitters: Vec<Submitter>,
    causes: Vec<Cause>,
    delegated: Vec<Delegation>,
    /// Requests that were not reported: their processes are unknown.
    missed: u64,
    not_reported_per_second: f64,
    notes: Vec<String>,
}

/// Latencies of an interval: of reads, of writes, of flushes.
type Latencies = [Vec<u64>; 3];

const fn class(op: Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Write | Op::Discard => 1,
        Op::Flush => 2,
    }
}

/// The events of an interval.
#[derive(Default)]
struct Interval {
    tasks: BTreeMap<(Option<u32>, String), Counts>,
    counts: [u64; 3],
    bytes: [u64; 3],
    seeks: u64,
    arrivals: u64,
    latencies: Latencies,
    /// Time in flight of all completed requests, within the interval.
    in_flight_ns: u128,
}

#[derive(Default, Clone)]
struct Counts {
    requests: [u64; 3],
    bytes: [u64; 3],
    completed: u64,
    latency_ns: u128,
}

impl Interval {
    /// Counts events. Those before `since`, the begin of the interval, were taken late, or while the programs that observe causes were loaded.
    fn count(&mut self, batch: &mut Batch, since: Time, position: &mut Sector, under_way: &mut usize) {
        for arrival in &batch.arrivals {
            *under_way += 1;
            if arrival.at < since {
                continue;
            }
            let task = self.tasks.entry(submitter(arrival)).or_default();
            let (at, bytes) = (class(arrival.op), arrival.sectors.bytes());
            task.requests[at] += 1;
            task.bytes[at] += bytes;
            self.counts[at] += 1;
            self.bytes[at] += bytes;
            // A write with its own flush waits for it as fsync does.
            if arrival.flags.preflush && arrival.op != Op::Flush {
                task.requests[2] += 1;
                self.counts[2] += 1;
            }
            if arrival.op != Op::Flush {
                self.arrivals += 1;
                self.seeks += u64::from(arrival.start != *position);
                *position = Sector(arrival.start.0 + u64::from(arrival.sectors.0));
            }
        }
        for completed in &batch.completed {
            *under_way = under_way.saturating_sub(1);
            if completed.at < since {
                continue;
            }
            let (arrival, latency) = (&completed.arrival, completed.latency().as_nanos());
            self.in_flight_ns += u128::from(latency.min(completed.at.since(since).as_nanos()));
            self.latencies[class(arrival.op)].push(latency);
            if arrival.flags.preflush && arrival.op != Op::Flush {
                self.latencies[2].push(latency);
            }
            let task = self.tasks.entry(submitter(arrival)).or_default();
            task.completed += 1;
            task.latency_ns += u128::from(latency);
        }
        batch.clear();
    }
}

/// What is watched.
struct Watched {
    device: String,
    stack: String,
    capture: Capture,
    causes: Option<Causes>,
    notes: Vec<String>,
    batch: Batch,
    interval: Interval,
    /// The end of the latest request.
    position: Sector,
    under_way: usize,
    before: CausesReport,
    past: VecDeque<Latencies>,
    cgroups: Cgroups,
    missed: u64,
    /// `None` if the queue does not count, or for a partition.
    counters: Option<Counters>,
    /// The begin of the interval.
    since: Time,
}

pub(super) fn run(
    device: &Path,
    every: Duration,
    (once, json): (bool, bool),
    width: Option<usize>,
) -> Result<(), Error> {
    let mut watched = Watched::new(device)?;
    if once || json || !io::stdout().is_terminal() {
        let begun = Instant::now();
        while begun.elapsed() < every && !interrupt::requested() {
            let left = every.saturating_sub(begun.elapsed());
            watched.take(left.min(SAMPLE).max(Duration::from_millis(1)))?;
        }
        let snapshot = watched.snapshot()?;
        let mut out = io::stdout().lock();
        match json {
            true => writeln!(out, "{}", object(&snapshot)?)?,
            false => out.write_all(text(&snapshot, width).as_bytes())?,
        }
        return Ok(());
    }
    let mut shown = "waiting for the first interval".to_owned();
    // Taking the events waits for them.
    draw_texts(Duration::ZERO, || {
        watched.take(SAMPLE)?;
        if capture::now().since(watched.since).as_nanos() >= every.as_nanos() as u64 {
            shown = text(&watched.snapshot()?, width);
        }
        Ok(shown.clone())
    })
}

impl Watched {
    fn new(device: &Path) -> Result<Self, Error> {
        let scheduling = observed(device, Reach::default())?;
        let layer = &scheduling.above;
        let options = Options { completions: true, ring_bytes: 16 << 20, ..Options::default() };
        let capture = Capture::open(&layer.node(), &options)?;
        let mut notes = capture.notes().to_vec();
        let mut before = CausesReport::default();
        let causes = match Causes::open(&layer.node(), &CausesOptions::default()) {
            Ok(mut causes) => {
                notes.extend(causes.notes().iter().cloned());
                before = causes.report()?;
                Some(causes)
            }
            Err(error) => {
                notes.push(format!("no causes: {error}"));
                None
            }
        };
        let mut counters = Counters::within(Path::new("/sys/block"), &layer.name);
        // The first reading is where the interval begins.
        traffic(counters.as_mut());
        Ok(Self {
            device: device.display().to_string(),
            stack: Stack::of(device)?.describe_with(&scheduler_of),
            capture,
            causes,
            notes,
            batch: Batch::default(),
            interval: Interval::default(),
            position: Sector(0),
            under_way: 0,
            before,
            past: VecDeque::new(),
            cgroups: Cgroups::default(),
            missed: 0,
            counters,
            since: capture::now(),
        })
    }

    /// Counts what happens within `patience`.
    fn take(&mut self, patience: Duration) -> Result<(), Error> {
        // An idle device reports nothing and does not wait.
        let begun = Instant::now();
        self.capture.take(&mut self.batch, patience)?;
        self.interval.count(&mut self.batch, self.since, &mut self.position, &mut self.under_way);
        std::thread::sleep(patience.saturating_sub(begun.elapsed()));
        Ok(())
    }

    /// Ends the interval.
    fn snapshot(&mut self) -> Result<Snapshot, Error> {
        let now = capture::now();
        let seconds = now.since(std::mem::replace(&mut self.since, now)).as_secs_f64().max(1e-3);
        let Interval { tasks, counts, bytes, seeks, arrivals, latencies, in_flight_ns } =
            std::mem::take(&mut self.interval);
        self.past.push_back(latencies);
        if self.past.len() > INTERVALS {
            self.past.pop_front();
        }
        let per_second = |count: u64| count as f64 / seconds;
        let direction = |at: usize| {
            let mut all: Vec<u64> = self.past.iter().flat_map(|of| of[at].iter().copied()).collect();
            all.sort_unstable();
            let quantile = |share: f64| {
                let rank = (share * all.len() as f64).ceil() as usize;
                all.get(rank.saturating_sub(1)).copied().unwrap_or(0)
            };
            Direction {
                requests_per_second: per_second(counts[at]),
                bytes_per_second: per_second(bytes[at]),
                p50_ns: quantile(0.5),
                p90_ns: quantile(0.9),
                p99_ns: quantile(0.99),
                max_ns: all.last().copied().unwrap_or(0),
            }
        };
        let [mut reads, mut writes, flushes] = [0, 1, 2].map(direction);
        let mut depth = in_flight_ns as f64 / 1e9 / seconds;
        let row = |((id, name), of): (&(Option<u32>, String), &Counts)| Submitter {
            name: name.clone(),
            id: *id,
            cgroup: id.map_or_else(String::new, |id| self.cgroups.of(u64::from(id))),
            reads_per_second: per_second(of.requests[0]),
            read_bytes_per_second: per_second(of.bytes[0]),
            writes_per_second: per_second(of.requests[1]),
            written_bytes_per_second: per_second(of.bytes[1]),
            flushes_per_second: per_second(of.requests[2]),
            mean_ns: of.latency_ns.checked_div(u128::from(of.completed)).unwrap_or(0) as u64,
        };
        let mut submitters: Vec<Submitter> = tasks.iter().map(row).collect();
        let amount = |of: &Submitter| of.read_bytes_per_second + of.written_bytes_per_second;
        submitters.sort_by(|a, b| amount(b).total_cmp(&amount(a)));
        let report = self.causes.as_mut().map(Causes::report).transpose()?.unwrap_or_default();
        let mut causes = caused_since(&self.before, &report, seconds);
        for cause in &mut causes {
            cause.cgroup = cause.id.map_or_else(String::new, |id| self.cgroups.of(id));
        }
        let delegated = delegated_since(&self.before, &report, seconds);
        self.before = report;
        let counts = self.capture.counts()?;
        let missed = counts.skipped + counts.lost;
        let new = missed - std::mem::replace(&mut self.missed, missed);
        let traffic = traffic(self.counters.as_mut());
        let mut not_reported_per_second = per_second(new);
        if new > 0 {
            // A lost completion would stay in flight for ever.
            self.under_way = 0;
            // The kernel counted all requests, the capture reported some.
            if let Some(traffic) = traffic {
                depth = traffic.in_flight;
                // The capture's number has those before the interval, while the programs that observe causes were loaded.
                let reported = reads.requests_per_second + writes.requests_per_second;
                not_reported_per_second = (traffic.requests_per_second - reported).max(0.0);
                (reads, writes) = totals((reads, writes), &traffic);
            }
        }
        Ok(Snapshot {
            device: self.device.clone(),
            stack: self.stack.clone(),
            seconds,
            in_flight: self.under_way,
            depth,
            reads,
            writes,
            flushes,
            seeks_per_second: per_second(seeks),
            sequential: if arrivals == 0 { 0.0 } else { 1.0 - seeks as f64 / arrivals as f64 },
            submitters,
            causes,
            delegated,
            missed,
            not_reported_per_second,
            notes: self.notes.clone(),
        })
    }
}

/// The kernel's counters since their latest reading.
fn traffic(counters: Option<&mut Counters>) -> Option<Traffic> {
    counters?.traffic(Instant::now()).ok().filter(|traffic| traffic.requests_per_second > 0.0)
}

/// Reads and writes with the rates of the kernel's counters.
fn totals((reads, writes): (Direction, Direction), traffic: &Traffic) -> (Direction, Direction) {
    let read_bytes = traffic.bytes_per_second * traffic.read_share;
    let of = |direction, requests_per_second, bytes_per_second| Direction {
        requests_per_second,
        bytes_per_second,
        ..direction
    };
    let others = traffic.requests_per_second - traffic.reads_per_second;
    let reads = of(reads, traffic.reads_per_second, read_bytes);
    (reads, of(writes, others, traffic.bytes_per_second - read_bytes))
}

/// The process that submitted a request, by number and name; the kernel's workers are together.
fn submitter(arrival: &Arrival) -> (Option<u32>, String) {
    let name = arrival.name.to_string();
    match name.starts_with("kworker/") {
        true => (None, "kworker".to_owned()),
        false => (arrival.process.map(|process| process.group), name),
    }
}

/// What was caused between two reports, the most first.
fn caused_since(before: &CausesReport, now: &CausesReport, seconds: f64) -> Vec<Cause> {
    let all = |report: &CausesReport| -> Vec<Caused> {
        report.accounts.iter().chain(&report.kernel_threads).cloned().collect()
    };
    let old: HashMap<(String, Option<u64>), Caused> =
        all(before).into_iter().map(|of| ((of.name.clone(), of.id), of)).collect();
    let zero = Caused::default();
    let mut causes: Vec<Cause> = all(now)
        .into_iter()
        .map(|of| {
            let then = old.get(&(of.name.clone(), of.id)).unwrap_or(&zero);
            let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
            Cause {
                dirtied_bytes_per_second: rate(of.dirtied, then.dirtied),
                data_bytes_per_second: rate(of.data.bytes, then.data.bytes),
                metadata_bytes_per_second: rate(of.metadata.bytes, then.metadata.bytes),
                journal_bytes_per_second: rate(of.journal.bytes, then.journal.bytes),
                name: of.name,
                id: of.id,
                cgroup: String::new(),
            }
        })
        .collect();
    causes.retain(|of| of.written() + of.dirtied_bytes_per_second > 0.0);
    causes.sort_by(|a, b| {
        b.written()
            .total_cmp(&a.written())
            .then(b.dirtied_bytes_per_second.total_cmp(&a.dirtied_bytes_per_second))
    });
    causes
}

/// What threads wrote for others between two reports.
fn delegated_since(before: &CausesReport, now: &CausesReport, seconds: f64) -> Vec<Delegation> {
    let sum = |causes: &[(String, u64)]| {
        let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
        causes.iter().for_each(|(name, bytes)| *by_name.entry(name.clone()).or_default() += bytes);
        by_name
    };
    let since = |delegated: &capture::causes::Delegated| {
        let then = before.delegated.iter().find(|of| of.submitter == delegated.submitter);
        let then = then.map(|of| sum(&of.causes)).unwrap_or_default();
        let grown = |(name, bytes): (String, u64)| {
            let grown = bytes.saturating_sub(then.get(&name).copied().unwrap_or(0));
            (grown > 0).then_some((name, grown))
        };
        let mut grown: Vec<(String, u64)> = sum(&delegated.causes).into_iter().filter_map(grown).collect();
        grown.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let all: u64 = grown.iter().map(|(_, bytes)| bytes).sum();
        (all > 0).then(|| Delegation {
            submitter: delegated.submitter.clone(),
            bytes_per_second: all as f64 / seconds,
            causes: grown.into_iter().map(|(name, bytes)| (name, bytes as f64 / all as f64)).collect(),
        })
    };
    now.delegated.iter().filter_map(since).collect()
}

#[cfg(test)]
mod tests {
    use capture::causes::{Amount, Delegated};
    use capture::{Completed, Name};
    use elevator::{Flags, Sectors};

    use super::*;

    fn report(data: u64, journal: u64) -> CausesReport {
        let amount = |bytes| Amount { bytes, requests: 1 };
        let writer =
            Caused { name: "writer".to_owned(), id: Some(42), data: amount(data), ..Caused::default() };
        let causes = vec![("writer".to_owned(), journal), ("other".to_owned(), 1000)];
        let jbd2 = Delegated { submitter: "jbd2/sda1-8".to_owned(), bytes: journal + 1000, causes };
        CausesReport { accounts: vec![writer], delegated: vec![jbd2], ..CausesReport::default() }
    }

    #[test]
    fn causes_are_those_of_the_interval() {
        let causes = caused_since(&report(1000, 0), &report(5000, 300), 2.0);
        assert_eq!(causes.len(), 1);
        assert_eq!((causes[0].data_bytes_per_second, causes[0].id), (2000.0, Some(42)));
        let delegated = delegated_since(&report(1000, 0), &report(5000, 300), 2.0);
        assert_eq!(delegated[0].causes, [("writer".to_owned(), 1.0)], "the other wrote before");
        assert_eq!(delegated[0].bytes_per_second, 150.0);
        assert!(caused_since(&report(1, 1), &report(1, 1), 1.0).is_empty());
        assert!(delegated_since(&report(1, 1), &report(1, 1), 1.0).is_empty());
    }

    #[test]
    fn requests_before_the_interval_are_in_flight_and_not_counted() {
        let arrival = |at| Arrival {
            at: Time::from_nanos(at),
            op: Op::Read,
            start: Sector(8 * at),
            sectors: Sectors(8),
            flags: Flags::default(),
            priority: None,
            process: None,
            name: Name::default(),
        };
        let completed =
            |arrived, at| Completed { arrival: arrival(arrived), at: Time::from_nanos(at), failed: false };
        let mut batch = Batch {
            arrivals: [10, 20, 101].map(arrival).into(),
            completed: [completed(10, 90), completed(20, 150), completed(101, 121)].into(),
            ..Batch::default()
        };
        let (mut interval, mut under_way) = (Interval::default(), 0);
        interval.count(&mut batch, Time::from_nanos(100), &mut Sector(0), &mut under_way);
        assert_eq!((interval.counts, interval.bytes, under_way), ([1, 0, 0], [4096, 0, 0], 0));
        assert_eq!(interval.latencies[0], [130, 20], "whole latencies");
        assert_eq!(interval.in_flight_ns, 50 + 20);
    }

    /// Regression: a busy device had half of its rate, without its requests that were not reported.
    #[test]
    fn unreported_requests_are_in_the_totals_and_in_the_header() {
        let traffic = Traffic {
            requests_per_second: 42_000.0,
            reads_per_second: 40_000.0,
            bytes_per_second: 172_032_000.0,
            read_share: 40.0 / 42.0,
            ..Traffic::default()
        };
        let seen = |rate| Direction { requests_per_second: rate, p99_ns: 77_000, ..Direction::default() };
        let (reads, writes) = totals((seen(23_067.0), seen(9.0)), &traffic);
        assert_eq!((reads.requests_per_second, writes.requests_per_second), (40_000.0, 2_000.0));
        assert!(
            (reads.bytes_per_second - 163.84e6).abs() < 1.0
                && (writes.bytes_per_second - 8.192e6).abs() < 1.0
        );
        assert_eq!(reads.p99_ns, 77_000);
        let snapshot =
            Snapshot { reads, not_reported_per_second: 19_337.0, missed: 77_350, ..Snapshot::default() };
        let text = text(&snapshot, None);
        let header = text.lines().nth(2).unwrap_or_default();
        assert!(header.starts_with("19337 requests/s have no process"), "{text}");
    }

    #[test]
    fn a_snapshot_has_submitters_causes_and_latencies() {
        let direction = Direction { requests_per_second: 12.0, p99_ns: 9_000_000, ..Direction::default() };
        let submitter = Submitter {
            name: "jbd2/sda1-8".to_owned(),
            writes_per_second: 3.0,
            cgroup: "/".to_owned(),
            ..Submitter::default()
        };
        let amount = Amount { bytes: 900, requests: 1 };
        let worker = Caused { name: "kworker".to_owned(), data: amount, ..Caused::default() };
        let caused = CausesReport { kernel_threads: vec![worker], ..report(5000, 300) };
        let snapshot = Snapshot {
            device: "/dev/sda1".to_owned(),
            stack: "sda1 > sda (bfq)".to_owned(),
            seconds: 1.0,
            reads: direction,
            submitters: vec![submitter],
            causes: caused_since(&CausesReport::default(), &caused, 1.0),
            delegated: delegated_since(&CausesReport::default(), &report(5000, 300), 1.0),
            missed: 3,
            ..Snapshot::default()
        };
        // Without the alignment of the columns.
        let text = text(&snapshot, None);
        let text: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let text = text.join("\n");
        for part in [
            "/dev/sda1: sda1 > sda (bfq)\n",
            "9.00 ms",
            "jbd2/sda1-8 kernel",
            "writer 42",
            "5.00 kB/s",
            "jbd2/sda1-8 wrote 1.30 kB/s for others: other 77%, writer 23%",
            "3 requests not reported",
            "900 B/s unattributed, written by kworker",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains("kworker kernel"), "it caused nothing\n{text}");
    }
}
