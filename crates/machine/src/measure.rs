//! What is measured: latencies as submitters saw them, and what the device did meanwhile.

use std::collections::BTreeMap;

use disks::{Completion, Travel};
use elevator::queue::{Event, Fault, Finished, Observer};
use elevator::{Direction, Op, Outcome, Request, Span, Time};
use serde::Serialize;

use crate::kernel::{Call, Returned};
use crate::latencies::Latencies;
use crate::program::Io;
use crate::waits::{WaitClock, Waited};

/// What a run measured. Times and sizes are those of the modelled machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// From the start to the last completion, in nanoseconds.
    pub elapsed_ns: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Submissions finished.
    pub requests: u64,
    /// Of those, how many the device failed.
    pub failed: u64,
    /// Requests that went to the device after merging.
    pub dispatched: u64,
    /// From submission to completion, of everything but flushes.
    pub latency: Latency,
    /// The same of reads.
    pub reads: Latency,
    /// The same of writes and discards.
    pub writes: Latency,
    /// How far the head travelled, in sectors of address space, reading ahead and writing what had been buffered included; 0
    /// where there is none.
    pub head_travel_sectors: u64,
    /// Times that it went to a place that did not follow the last one.
    pub seeks: u64,
    /// Time that the device sat idle in a deliberate wait, with something queued.
    pub waits: Waits,
    /// By member of an array; nothing for a single disk.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberMeasured>,
    /// By process (or group of processes with one name), in order of first start.
    pub processes: Vec<ProcessMeasured>,
}

impl Measured {
    /// Bytes a second over the whole run, in 10^6 bytes a second.
    #[must_use]
    pub fn megabytes_per_second(&self) -> f64 {
        per_second(self.bytes, self.elapsed_ns) / 1e6
    }
}

fn per_second(amount: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { amount as f64 * 1e9 / ns as f64 }
}

/// A distribution of latencies, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_ns: u64,
    /// Median, to three digits.
    pub p50_ns: u64,
    /// 99th percentile, to three digits.
    pub p99_ns: u64,
    /// The longest, exactly.
    pub max_ns: u64,
}

/// Deliberate waits of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// How many.
    pub count: u64,
    /// All of them, in nanoseconds.
    pub total_ns: u64,
    /// By reason.
    pub by_reason: BTreeMap<&'static str, u64>,
}

impl Waits {
    fn with(mut self, other: &Self) -> Self {
        self.count += other.count;
        self.total_ns += other.total_ns;
        for (reason, ns) in &other.by_reason {
            *self.by_reason.entry(reason).or_default() += ns;
        }
        self
    }
}

/// What one member of an array did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemberMeasured {
    /// Requests that went to it after merging.
    pub dispatched: u64,
    /// Bytes that it read and wrote, parity and what was read for it included.
    pub bytes: u64,
    /// How far its head travelled, in sectors.
    pub head_travel_sectors: u64,
    /// Times that its head went to a place that did not follow the last one.
    pub seeks: u64,
    /// Time with something in the device, in nanoseconds.
    pub busy_ns: u64,
    /// Time that it sat idle in a deliberate wait, with something queued.
    pub waits: Waits,
}

/// What one process (or group of processes with one name) saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessMeasured {
    /// Its name.
    pub name: String,
    /// From its start to its end, or to its last completion if that came later, in nanoseconds; to the end of the run if that
    /// was stopped before.
    pub elapsed_ns: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Latency of all its requests.
    pub latency: Latency,
    /// Of its reads.
    pub reads: Latency,
    /// Of its writes.
    pub writes: Latency,
    /// Of its system calls, by name; those that read and write count above as well.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<&'static str, Latency>,
}

/// One line of the results being filled.
struct Line {
    name: String,
    started: Time,
    last: Time,
    bytes: u64,
    by_direction: [Latencies; 2],
    by_call: BTreeMap<&'static str, Latencies>,
    /// Its processes that have not ended, and how often the first of such began when there were none.
    live: u32,
    rounds: u32,
}

/// Where a process belongs.
#[derive(Clone, Copy)]
struct Place {
    line: usize,
    /// Processes of one line and one round ran at the same time, those of the next round after them.
    round: u32,
}

/// Which direction a call counts in, if any.
fn direction_of(call: &str) -> Option<Direction> {
    match call {
        "read" | "pread" => Some(Direction::Read),
        "write" | "pwrite" => Some(Direction::Write),
        _ => None,
    }
}

/// What submitters saw.
#[derive(Default)]
pub(crate) struct Book {
    lines: Vec<Line>,
    by_name: BTreeMap<String, usize>,
    /// The place of each process.
    places: Vec<Place>,
    last: Time,
    requests: u64,
    calls: u64,
    failed: u64,
}

impl Book {
    pub(crate) fn started(&mut self, process: usize, name: &str, now: Time) {
        debug_assert_eq!(process, self.places.len(), "processes are numbered in order");
        let line = match self.by_name.get(name) {
            Some(&line) => line,
            None => {
                self.lines.push(Line {
                    name: name.to_owned(),
                    started: now,
                    last: now,
                    bytes: 0,
                    by_direction: [Latencies::default(), Latencies::default()],
                    by_call: BTreeMap::new(),
                    live: 0,
                    rounds: 0,
                });
                self.by_name.insert(name.to_owned(), self.lines.len() - 1);
                self.lines.len() - 1
            }
        };
        let known = &mut self.lines[line];
        known.rounds += u32::from(known.live == 0);
        known.live += 1;
        self.places.push(Place { line, round: known.rounds });
    }

    pub(crate) fn ended(&mut self, process: usize, now: Time) {
        let line = &mut self.lines[self.places[process].line];
        line.last = line.last.max(now);
        line.live -= 1;
    }

    #[inline]
    pub(crate) fn finished(&mut self, process: usize, io: &Io, finished: &Finished, now: Time) {
        let line = &mut self.lines[self.places[process].line];
        line.last = line.last.max(now);
        self.last = self.last.max(now);
        self.requests += 1;
        self.failed += u64::from(finished.outcome == Outcome::Failed);
        if io.op == Op::Flush {
            return;
        }
        let moved = io.op != Op::Discard && finished.outcome != Outcome::Failed;
        line.bytes += if moved { io.sectors.bytes() } else { 0 };
        line.by_direction[io.op.direction() as usize].record(now.since(finished.submitted));
    }

    /// A system call returned.
    pub(crate) fn called(
        &mut self,
        process: usize,
        call: &Call,
        returned: &Returned,
        since: Time,
        now: Time,
    ) {
        let line = &mut self.lines[self.places[process].line];
        line.last = line.last.max(now);
        self.last = self.last.max(now);
        self.calls += 1;
        let name = call.name();
        if let (Some(_), Returned::Bytes(bytes)) = (direction_of(name), returned) {
            line.bytes += bytes;
        }
        line.by_call.entry(name).or_default().record(now.since(since));
    }

    pub(crate) fn report(&self, now: Time, meters: &[&Meter]) -> Measured {
        let mut totals = [Latencies::default(), Latencies::default()];
        for line in &self.lines {
            for direction in Direction::BOTH {
                line.add_direction(direction, &mut totals[direction as usize]);
            }
        }
        let [reads, writes] = &totals;
        let mut all = reads.clone();
        all.add(writes);
        let end = if self.requests + self.calls == 0 { now } else { self.last };
        let members: Vec<MemberMeasured> = meters.iter().map(|meter| meter.report(now)).collect();
        Measured {
            elapsed_ns: end.as_nanos(),
            bytes: self.lines.iter().map(|line| line.bytes).sum(),
            requests: self.requests,
            failed: self.failed,
            dispatched: members.iter().map(|member| member.dispatched).sum(),
            latency: all.summary(),
            reads: reads.summary(),
            writes: writes.summary(),
            head_travel_sectors: members.iter().map(|member| member.head_travel_sectors).sum(),
            seeks: members.iter().map(|member| member.seeks).sum(),
            waits: members.iter().fold(Waits::default(), |total, member| total.with(&member.waits)),
            members: if members.len() > 1 { members } else { Vec::new() },
            processes: self.lines.iter().map(|line| line.report(now)).collect(),
        }
    }

    /// How long each line takes at least, if each of its processes takes so long: those that run at the same time take no longer
    /// than the longest of them, those that follow each other as long as all of them.
    pub(crate) fn by_line(&self, by_process: &[u64]) -> Vec<u64> {
        let mut lines = vec![(0, 0, 0); self.lines.len()];
        for (&Place { line, round }, &alone) in self.places.iter().zip(by_process) {
            let (before, present, longest) = &mut lines[line];
            if *present != round {
                *before += std::mem::take(longest);
                *present = round;
            }
            *longest = alone.max(*longest);
        }
        lines.into_iter().map(|(before, _, longest)| before + longest).collect()
    }

    /// The distributions of reads and of writes, for pictures.
    pub(crate) fn distributions(&self) -> [Vec<(u64, f64)>; 2] {
        Direction::BOTH.map(|direction| {
            let mut total = Latencies::default();
            for line in &self.lines {
                line.add_direction(direction, &mut total);
            }
            total.distribution()
        })
    }
}

impl Line {
    /// Adds what went in this direction, by requests and by calls.
    fn add_direction(&self, direction: Direction, to: &mut Latencies) {
        to.add(&self.by_direction[direction as usize]);
        let calls = self.by_call.iter().filter(|(name, _)| direction_of(name) == Some(direction));
        calls.for_each(|(_, latencies)| to.add(latencies));
    }

    fn report(&self, now: Time) -> ProcessMeasured {
        let [reads, writes] = Direction::BOTH.map(|direction| {
            let mut all = Latencies::default();
            self.add_direction(direction, &mut all);
            all
        });
        let mut all = reads.clone();
        all.add(&writes);
        ProcessMeasured {
            name: self.name.clone(),
            elapsed_ns: if self.live == 0 { self.last } else { now }.since(self.started).as_nanos(),
            bytes: self.bytes,
            latency: all.summary(),
            reads: reads.summary(),
            writes: writes.summary(),
            calls: self.by_call.iter().map(|(&name, latencies)| (name, latencies.summary())).collect(),
        }
    }
}

/// What the device did.
#[derive(Default)]
pub(crate) struct Meter {
    dispatched: u64,
    bytes: u64,
    pub(crate) travel: Travel,
    waits: Waits,
    wait_clock: WaitClock,
    in_flight: u32,
    busy: Span,
    busy_since: Time,
    /// The first fault of the scheduler: from then on another policy decides.
    pub(crate) fault: Option<Fault>,
}

impl Meter {
    /// The device finished something.
    pub(crate) fn served(&mut self, request: &Request, completion: &Completion) {
        if matches!(request.op, Op::Flush | Op::Discard) || completion.outcome == Outcome::Failed {
            return;
        }
        self.bytes += request.sectors.bytes();
    }

    fn report(&self, now: Time) -> MemberMeasured {
        let busy_now = if self.in_flight == 0 { Span::ZERO } else { now.since(self.busy_since) };
        MemberMeasured {
            dispatched: self.dispatched,
            bytes: self.bytes,
            head_travel_sectors: self.travel.sectors,
            seeks: self.travel.seeks,
            busy_ns: (self.busy + busy_now).as_nanos(),
            waits: self.waits.clone(),
        }
    }

    fn waited(&mut self, waited: &Waited) {
        let ns = waited.to.since(waited.from).as_nanos();
        self.waits.count += 1;
        self.waits.total_ns += ns;
        *self.waits.by_reason.entry(waited.reason.as_str()).or_default() += ns;
    }

    fn began(&mut self, now: Time) {
        if self.in_flight == 0 {
            self.busy_since = now;
        }
        self.in_flight += 1;
        self.dispatched += 1;
    }

    fn ended(&mut self, now: Time) {
        self.in_flight -= 1;
        if self.in_flight == 0 {
            self.busy += now.since(self.busy_since);
        }
    }
}

impl Observer for Meter {
    #[inline(always)]
    fn event(&mut self, now: Time, event: &Event<'_>) {
        match event {
            Event::Dispatched { .. } => self.began(now),
            Event::Completed { .. } => self.ended(now),
            Event::Faulted { fault, .. } => {
                self.fault.get_or_insert(*fault);
            }
            _ => {}
        }
        if let Some(waited) = self.wait_clock.event(now, event) {
            self.waited(&waited);
        }
    }
}

#[cfg(test)]
mod tests {
    use elevator::queue::Token;
    use elevator::{Sector, Sectors};

    use super::*;

    #[test]
    fn who_is_kept_waiting_when_the_run_is_stopped_has_waited_until_then() {
        let ms = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut book = Book::default();
        for (process, name) in ["ended", "served", "starved"].into_iter().enumerate() {
            book.started(process, name, ms(1));
        }
        let io = Io::read(Sector(0), Sectors(8));
        for process in [0, 1] {
            let (token, submitted, dispatched) = (Token(0), ms(1), ms(2));
            let finished = Finished { token, submitted, dispatched, outcome: Outcome::Done };
            book.finished(process, &io, &finished, ms(3));
        }
        book.ended(0, ms(4));
        let elapsed: Vec<u64> =
            book.report(ms(9), &[]).processes.iter().map(|process| process.elapsed_ns / 1_000_000).collect();
        assert_eq!(elapsed, [3, 8, 8]);
    }

    #[test]
    fn what_failed_moved_nothing() {
        let mut book = Book::default();
        book.started(0, "a", Time::ZERO);
        let io = Io::read(Sector(0), Sectors(8));
        for outcome in [Outcome::Done, Outcome::Failed] {
            let (token, submitted, dispatched) = (Token(0), Time::ZERO, Time::ZERO);
            book.finished(0, &io, &Finished { token, submitted, dispatched, outcome }, Time::from_nanos(1));
        }
        let measured = book.report(Time::from_nanos(1), &[]);
        assert_eq!((measured.bytes, measured.requests, measured.failed), (4096, 2, 1));
        assert_eq!(measured.latency.count, 2);
    }
}
