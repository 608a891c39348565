//! Measurements of a device while it serves.

use std::collections::BTreeMap;

use ::control::protocol::{ProcessAccount, TimesSummary};
use elevator::array::MemberEvent;
use elevator::queue::{Event, Fault, Finished, Observer, SwitchReport};
use elevator::{Op, Outcome, Process, Sector, Span, Time};
use hdrhistogram::Histogram;

use crate::log::DecisionLog;

/// The longest recorded latency; longer ones are counted as this one.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// Processes with an account of their own. Further ones share an account, so that a hostile client cannot grow the table.
const PROCESSES: usize = 64;

/// A distribution of times.
#[derive(Clone)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_NS, 2).expect("bounds that hdrhistogram takes"))
    }
}

impl Times {
    /// Adds a time.
    pub fn record(&mut self, time: Span) {
        self.0.saturating_record(time.as_nanos());
    }

    pub fn summary(&self) -> TimesSummary {
        let at = |quantile| self.0.value_at_quantile(quantile);
        TimesSummary {
            count: self.0.len(),
            mean_ns: self.0.mean() as u64,
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.0.max(),
        }
    }

    /// The sum of all times in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        (self.0.mean() * self.0.len() as f64) as u64
    }

    /// Upper bounds in nanoseconds (powers of two from 1 µs to 8 s) with the number of times at or below.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        (0..24).map(|n| 1_000u64 << n).map(|bound| (bound, self.0.count_between(0, bound)))
    }
}

/// Measurements of one kind of operation.
#[derive(Clone, Default)]
pub struct Account {
    /// Successful operations.
    pub done: u64,
    /// Failed operations.
    pub failed: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// From submission to the result, failures included.
    pub latency: Times,
    /// From submission to dispatch: the time in the queue.
    pub wait: Times,
}

/// Measurements of a device since its start.
#[derive(Clone, Default)]
pub struct Statistics {
    operations: [Account; 4],
    processes: BTreeMap<u32, ProcessAccount>,
    /// Lateness of results, if the back end completes jobs at given times.
    pub lateness: Times,
    /// Dispatched requests; fewer than operations because of merging.
    pub dispatched: u64,
    /// The end of the latest one.
    pub head: Sector,
    /// Deliberate waits begun.
    pub holds: u64,
    /// Number of scheduler switches, and the report of the latest one.
    pub switches: (u64, Option<SwitchReport>),
    /// Failed requests that were repeated piece by piece.
    pub salvaged: u64,
    /// Faults of schedulers, from each of which the queue recovered.
    pub faults: u64,
    /// Requests that the back end did not return within the time allowed.
    pub timed_out: u64,
}

impl Statistics {
    /// The measurements of one kind of operation.
    pub const fn account(&self, op: Op) -> &Account {
        &self.operations[op as usize]
    }

    /// The measurements of each process, by its number.
    pub const fn processes(&self) -> &BTreeMap<u32, ProcessAccount> {
        &self.processes
    }

    /// Failed operations of all kinds.
    pub fn failed(&self) -> u64 {
        self.operations.iter().map(|account| account.failed).sum()
    }

    /// An operation ended.
    pub fn finished(&mut self, now: Time, op: Op, bytes: u64, process: Option<Process>, finished: &Finished) {
        let account = &mut self.operations[op as usize];
        let is_done = finished.outcome == Outcome::Done;
        let bytes = if is_done { bytes } else { 0 };
        account.done += u64::from(is_done);
        account.failed += u64::from(!is_done);
        account.bytes += bytes;
        account.latency.record(now.since(finished.submitted));
        account.wait.record(finished.dispatched.since(finished.submitted));
        if let Some(process) = process {
            self.charge(process, op, bytes);
        }
    }

    fn charge(&mut self, process: Process, op: Op, bytes: u64) {
        let known = self.processes.len() < PROCESSES || self.processes.contains_key(&process.group);
        let account = self.processes.entry(if known { process.group } else { u32::MAX }).or_default();
        account.operations += 1;
        match op {
            Op::Read => account.read_bytes += bytes,
            Op::Write => account.written_bytes += bytes,
            Op::Discard | Op::Flush => {}
        }
    }

    /// A process has ended: removes its account.
    pub fn exited(&mut self, process: Process) {
        self.processes.remove(&process.group);
    }
}

/// Observes a queue: counts its events, and passes them to the decision log and to another observer.
pub struct Watch {
    /// The measurements.
    pub statistics: Statistics,
    /// The decision log, while it is on.
    pub log: Option<DecisionLog>,
    /// Another observer: a checker in tests.
    pub observer: Option<Box<dyn Observer + Send>>,
    /// The latest fault that has not been taken, and how many requests were queued then.
    pub(crate) fault: Option<(Fault, u32)>,
    /// Events for the coordinator, if the device is a member of an array.
    pub(crate) members: Option<Vec<MemberEvent>>,
}

impl Watch {
    /// A watch that begins to count now, and passes events on to `observer`.
    pub fn new(observer: Option<Box<dyn Observer + Send>>) -> Self {
        Self { statistics: Statistics::default(), log: None, observer, fault: None, members: None }
    }

    /// Ends the decision log at its time, also without events, because its file may be on a file system that is to be unmounted. Returns
    /// the time of the end, if a log is on.
    pub(crate) fn log_until(&mut self, now: Time) -> Option<Time> {
        self.log.take_if(|log| log.until() <= now);
        self.log.as_ref().map(DecisionLog::until)
    }
}

impl Observer for Watch {
    fn event(&mut self, now: Time, event: &Event<'_>) {
        match event {
            Event::Dispatched { request, .. } => {
                self.statistics.dispatched += 1;
                if request.op != Op::Flush {
                    self.statistics.head = request.end();
                }
            }
            Event::Held { .. } => self.statistics.holds += 1,
            Event::Switched(report) => {
                self.statistics.switches = (self.statistics.switches.0 + 1, Some(*report));
            }
            Event::Faulted { fault, queued } => {
                self.statistics.faults += 1;
                self.fault = Some((*fault, *queued));
            }
            _ => {}
        }
        if let Some(members) = &mut self.members {
            members.extend(MemberEvent::of(event));
        }
        if let Some(log) = &mut self.log {
            log.event(now, event);
        }
        if let Some(observer) = &mut self.observer {
            observer.event(now, event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elevator::queue::Token;

    #[test]
    fn bytes_of_failed_operations_are_not_counted() {
        let mut statistics = Statistics::default();
        let (at, process) = (Time::ZERO, Process::single(7));
        for outcome in [Outcome::Done, Outcome::Failed] {
            let finished = Finished { token: Token(0), outcome, submitted: at, dispatched: at };
            for op in [Op::Read, Op::Write] {
                statistics.finished(at, op, 4096, Some(process), &finished);
            }
        }
        let account = ProcessAccount { operations: 4, read_bytes: 4096, written_bytes: 4096 };
        assert_eq!(statistics.processes()[&7], account);
    }
}
