//! What a device measures of itself while it serves.

use std::collections::BTreeMap;

use ::control::protocol::{ProcessAccount, TimesSummary};
use elevator::queue::{Event, Fault, Finished, Observer, SwitchReport};
use elevator::{Op, Outcome, Process, Sector, Span, Time};
use hdrhistogram::Histogram;

use crate::log::DecisionLog;

/// Latencies beyond this are counted as this: nobody waits longer for a disk and still hopes.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// Processes that are told apart; those beyond share one account, so that a hostile client cannot grow the table.
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
    /// One more.
    pub fn record(&mut self, time: Span) {
        self.0.saturating_record(time.as_nanos());
    }

    /// In a few numbers.
    #[must_use]
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

    /// The sum of all, in nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        (self.0.mean() * self.0.len() as f64) as u64
    }

    /// Pairs of an upper bound in nanoseconds and how many were not above it: powers of two from 1 µs to 8 s.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        (0..24).map(|n| 1_000u64 << n).map(|bound| (bound, self.0.count_between(0, bound)))
    }
}

/// One kind of operation's account.
#[derive(Clone, Default)]
pub struct Account {
    /// Operations done.
    pub done: u64,
    /// Operations failed.
    pub failed: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// From submission to the answer, also that it failed.
    pub latency: Times,
    /// From submission to dispatch: what the scheduler and the queue took.
    pub wait: Times,
}

/// A device's accounts since it started.
#[derive(Clone, Default)]
pub struct Statistics {
    operations: [Account; 4],
    processes: BTreeMap<u32, ProcessAccount>,
    /// How late answers were, where something says when they should have come.
    pub lateness: Times,
    /// Requests dispatched; merging makes it fewer than operations.
    pub dispatched: u64,
    /// Where the latest of them ended.
    pub head: Sector,
    /// Deliberate waits begun.
    pub holds: u64,
    /// Switches of schedulers, and what the latest cost.
    pub switches: (u64, Option<SwitchReport>),
    /// Requests found broken as a whole and sent again in parts.
    pub salvaged: u64,
    /// Faults of schedulers, from each of which the queue recovered.
    pub faults: u64,
    /// Requests that the back end did not return within the time allowed.
    pub timed_out: u64,
}

impl Statistics {
    /// The account of one kind of operation.
    #[must_use]
    pub const fn account(&self, op: Op) -> &Account {
        &self.operations[op as usize]
    }

    /// Every process's account, by its number.
    #[must_use]
    pub const fn processes(&self) -> &BTreeMap<u32, ProcessAccount> {
        &self.processes
    }

    /// Operations failed, of any kind.
    #[must_use]
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

    /// A process is gone, and its account with it.
    pub fn exited(&mut self, process: Process) {
        self.processes.remove(&process.group);
    }
}

/// Hears a queue's events: counts them, and passes them on to the decision log and to whoever else listens.
pub struct Watch {
    /// The accounts.
    pub statistics: Statistics,
    /// The decision log, while it is on.
    pub log: Option<DecisionLog>,
    /// Another observer: a checker in tests.
    pub observer: Option<Box<dyn Observer + Send>>,
    /// The latest fault that has not been taken, and how many requests were queued then.
    pub(crate) fault: Option<(Fault, u32)>,
}

impl Watch {
    /// A watch that begins to count now, and passes events on to `observer`.
    #[must_use]
    pub fn new(observer: Option<Box<dyn Observer + Send>>) -> Self {
        Self { statistics: Statistics::default(), log: None, observer, fault: None }
    }

    /// Ends the decision log if its time is over, whether anything happens then or not: its file may be on what somebody wants to
    /// unmount. When that will be, if it is on.
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
    fn what_failed_was_neither_read_nor_written_by_anybody() {
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
