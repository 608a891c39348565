//! Measurements of each process: bytes, latencies, elapsed time.

use std::collections::BTreeMap;

use elevator::{Direction, Op, Outcome, Time};

use super::device::DeviceStats;
use super::{Measured, MemberMeasured, ProcessMeasured, Waits};
use crate::kernel::{Call, Returned};
use crate::latencies::Latencies;
use crate::program::Io;

/// The collected measurements of a line of results.
struct Line {
    name: String,
    started: Time,
    last: Time,
    bytes: u64,
    by_direction: [Latencies; 2],
    by_call: BTreeMap<&'static str, Latencies>,
    /// Processes of the line that have not ended. `rounds` counts how often a process began when there were none.
    live: u32,
    rounds: u32,
}

/// The line of a process.
#[derive(Clone, Copy)]
struct Slot {
    line: u32,
    /// Processes of one line and round ran at the same time; those of the next round ran later.
    round: u32,
}

/// The direction of a call that transfers data.
fn direction_of(call: &str) -> Option<Direction> {
    match call {
        "read" | "pread" => Some(Direction::Read),
        "write" | "pwrite" => Some(Direction::Write),
        _ => None,
    }
}

/// Measurements of all processes.
#[derive(Default)]
pub(crate) struct ProcessStats {
    lines: Vec<Line>,
    by_name: BTreeMap<String, usize>,
    /// The slot of each process.
    slots: Vec<Slot>,
    last: Time,
    requests: u64,
    calls: u64,
    failed: u64,
}

impl ProcessStats {
    pub(crate) fn started(&mut self, process: usize, name: &str, now: Time) {
        debug_assert_eq!(process, self.slots.len(), "processes are numbered in order");
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
        self.slots.push(Slot { line: line as u32, round: known.rounds });
    }

    /// The name of the process's line.
    pub(crate) fn name(&self, process: usize) -> &str {
        &self.lines[self.slots[process].line as usize].name
    }

    pub(crate) fn ended(&mut self, process: usize, now: Time) {
        let line = &mut self.lines[self.slots[process].line as usize];
        line.last = line.last.max(now);
        line.live -= 1;
    }

    #[inline]
    pub(crate) fn finished(&mut self, process: usize, io: &Io, outcome: Outcome, since: Time, now: Time) {
        let line = &mut self.lines[self.slots[process].line as usize];
        line.last = line.last.max(now);
        self.last = self.last.max(now);
        self.requests += 1;
        self.failed += u64::from(outcome == Outcome::Failed);
        if io.op == Op::Flush {
            return;
        }
        let moved = io.op != Op::Discard && outcome != Outcome::Failed;
        line.bytes += if moved { io.sectors.bytes() } else { 0 };
        line.by_direction[io.op.direction() as usize].record(now.since(since));
    }

    /// Records a system call that returned.
    pub(crate) fn called(
        &mut self,
        process: usize,
        call: &Call,
        returned: &Returned,
        since: Time,
        now: Time,
    ) {
        let line = &mut self.lines[self.slots[process].line as usize];
        line.last = line.last.max(now);
        self.last = self.last.max(now);
        self.calls += 1;
        let name = call.name();
        if let (Some(_), Returned::Bytes(bytes)) = (direction_of(name), returned) {
            line.bytes += bytes;
        }
        line.by_call.entry(name).or_default().record(now.since(since));
    }

    pub(crate) fn report(&self, now: Time, meters: &[&DeviceStats]) -> Measured {
        let mut totals = [Latencies::default(), Latencies::default()];
        for line in &self.lines {
            for direction in Direction::BOTH {
                line.add_direction(direction, &mut totals[direction as usize]);
            }
        }
        let [reads, writes] = &totals;
        let mut all = reads.clone();
        all.add(writes);
        let mut fsyncs = Latencies::default();
        for call in ["fsync", "fdatasync"] {
            self.lines.iter().filter_map(|line| line.by_call.get(call)).for_each(|call| fsyncs.add(call));
        }
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
            fsyncs: fsyncs.summary(),
            head_travel_sectors: members.iter().map(|member| member.head_travel_sectors).sum(),
            seeks: members.iter().map(|member| member.seeks).sum(),
            waits: members.iter().fold(Waits::default(), |total, member| total.with(&member.waits)),
            members: if members.len() > 1 { members } else { Vec::new() },
            processes: self.lines.iter().map(|line| line.report(now)).collect(),
        }
    }

    /// The least time of each line, from the least times of its processes. Processes of one round take as long as the longest
    /// of them; rounds add up.
    pub(crate) fn by_line(&self, by_process: &[u64]) -> Vec<u64> {
        let mut lines = vec![(0, 0, 0); self.lines.len()];
        for (&Slot { line, round }, &alone) in self.slots.iter().zip(by_process) {
            let (before, present, longest) = &mut lines[line as usize];
            if *present != round {
                *before += std::mem::take(longest);
                *present = round;
            }
            *longest = alone.max(*longest);
        }
        lines.into_iter().map(|(before, _, longest)| before + longest).collect()
    }

    /// Points of the latency distributions of reads and of writes.
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
    /// Adds latencies of requests and of calls of a direction.
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

#[cfg(test)]
mod tests {
    use elevator::{Sector, Sectors};

    use super::*;

    #[test]
    fn a_process_stopped_with_the_run_lasts_until_the_stop() {
        let ms = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut book = ProcessStats::default();
        for (process, name) in ["ended", "served", "starved"].into_iter().enumerate() {
            book.started(process, name, ms(1));
        }
        let io = Io::read(Sector(0), Sectors(8));
        for process in [0, 1] {
            book.finished(process, &io, Outcome::Done, ms(1), ms(3));
        }
        book.ended(0, ms(4));
        let elapsed: Vec<u64> =
            book.report(ms(9), &[]).processes.iter().map(|process| process.elapsed_ns / 1_000_000).collect();
        assert_eq!(elapsed, [3, 8, 8]);
    }

    #[test]
    fn failed_requests_transfer_no_bytes() {
        let mut book = ProcessStats::default();
        book.started(0, "a", Time::ZERO);
        let io = Io::read(Sector(0), Sectors(8));
        for outcome in [Outcome::Done, Outcome::Failed] {
            book.finished(0, &io, outcome, Time::ZERO, Time::from_nanos(1));
        }
        let measured = book.report(Time::from_nanos(1), &[]);
        assert_eq!((measured.bytes, measured.requests, measured.failed), (4096, 2, 1));
        assert_eq!(measured.latency.count, 2);
    }
}
