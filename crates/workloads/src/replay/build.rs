//! From records to chains.

use std::collections::BTreeMap;
use std::sync::Arc;

use elevator::{Op, Priority, Process, Sector, Time};
use machine::Who;
use traces::{Pid, Record};

use super::{After, Chain, Kind, Replay, Step};

/// Names of the recorded processes.
type Names<'a> = &'a dyn Fn(Pid) -> Option<String>;

/// Gathers records into chains that wait for completions.
#[derive(Default)]
pub struct Closed {
    waiting: BTreeMap<Option<Pid>, Waiting>,
    writeback: BTreeMap<Option<Pid>, Vec<Step>>,
    order: Order,
    end: Sector,
}

/// Gathers records into chains that go by the clock.
#[derive(Default)]
pub struct Open {
    chains: BTreeMap<Option<Pid>, Vec<Step>>,
    order: Order,
    end: Sector,
}

/// Processes in order of first appearance, with their priorities.
#[derive(Default)]
struct Order(Vec<(Option<Pid>, Priority)>);

impl Order {
    fn note(&mut self, record: &Record) {
        if self.0.iter().all(|(pid, _)| *pid != record.process) {
            self.0.push((record.process, record.priority.unwrap_or_default()));
        }
    }

    fn whos(&self, names: Names<'_>) -> Vec<(Option<Pid>, Who)> {
        self.0.iter().map(|&(pid, priority)| (pid, who(pid, priority, names))).collect()
    }
}

fn who(pid: Option<Pid>, priority: Priority, names: Names<'_>) -> Who {
    let name = match pid {
        Some(pid) => names(pid).map_or_else(|| format!("process {pid}"), |name| format!("{name}-{pid}")),
        None => "unknown".to_owned(),
    };
    Who { process: pid.map(|Pid(pid)| Process::single(pid)), priority, name }
}

/// A chain that grows, with what its process had seen complete.
#[derive(Default)]
struct Waiting {
    steps: Vec<Step>,
    /// Completions not yet passed by an issue: (when, the request's number), unordered.
    ahead: Vec<(Time, u32)>,
    /// The latest completion passed, if it has not been depended on yet.
    latest: Option<(Time, u32)>,
}

impl Waiting {
    fn push(&mut self, record: &Record) {
        let passed = self.ahead.extract_if(.., |(at, _)| *at <= record.at).max();
        self.latest = self.latest.max(passed);
        let after = match self.latest.take() {
            Some((at, number)) => After::Completion(number, record.at.since(at).as_nanos()),
            None if self.steps.is_empty() => After::At(record.at.as_nanos()),
            None => After::Together,
        };
        if let Some(completed) = record.completed {
            self.ahead.push((completed, self.steps.len() as u32));
        }
        self.steps.push(step(record, after));
    }
}

fn step(record: &Record, after: After) -> Step {
    let (start, sectors) = match record.op {
        Op::Flush => (Sector(0), elevator::Sectors::ZERO),
        _ => (record.start(), record.sectors()),
    };
    Step { after, start: start.0, sectors: sectors.0, kind: Kind::pack(record.op, record.flags) }
}

fn end_of(record: &Record) -> Sector {
    if record.op == Op::Flush { Sector(0) } else { record.start() + record.sectors() }
}

impl Closed {
    /// Adds the next record. Records come in order of issue.
    pub fn push(&mut self, record: &Record) {
        self.order.note(record);
        self.end = self.end.max(end_of(record));
        let nobody_waits = matches!(record.op, Op::Write | Op::Discard) && !record.flags.sync;
        if nobody_waits {
            let after = After::At(record.at.as_nanos());
            self.writeback.entry(record.process).or_default().push(step(record, after));
        } else {
            self.waiting.entry(record.process).or_default().push(record);
        }
    }

    /// The workload.
    #[must_use]
    pub fn finish(mut self, name: &str, names: Names<'_>) -> Replay {
        let mut chains = Vec::new();
        for (pid, who) in self.order.whos(names) {
            let waiting = self.waiting.remove(&pid).map(|waiting| waiting.steps);
            for steps in [waiting, self.writeback.remove(&pid)].into_iter().flatten() {
                chains.push(Chain { who: who.clone(), steps: Arc::new(steps) });
            }
        }
        Replay { name: name.to_owned(), chains, end: self.end, open: false }
    }
}

impl Open {
    /// Adds the next record. Records come in order of issue.
    pub fn push(&mut self, record: &Record) {
        self.order.note(record);
        self.end = self.end.max(end_of(record));
        let after = After::At(record.at.as_nanos());
        self.chains.entry(record.process).or_default().push(step(record, after));
    }

    /// The workload.
    #[must_use]
    pub fn finish(mut self, name: &str, names: Names<'_>) -> Replay {
        let chains = self
            .order
            .whos(names)
            .into_iter()
            .filter_map(|(pid, who)| Some(Chain { who, steps: Arc::new(self.chains.remove(&pid)?) }))
            .collect();
        Replay { name: name.to_owned(), chains, end: self.end, open: true }
    }
}

#[cfg(test)]
mod tests {
    use elevator::Flags;
    use traces::DeviceId;

    use super::*;

    const MS: u64 = 1_000_000;

    fn read(at_ms: u64, completed_ms: u64, sector: u64) -> Record {
        let mut record = Record::new(Time::from_nanos(at_ms * MS), DeviceId(0), Op::Read, sector * 512, 4096);
        record.completed = Some(Time::from_nanos(completed_ms * MS));
        record.process = Some(Pid(7));
        record
    }

    fn closed(records: &[Record]) -> Vec<Vec<After>> {
        let mut closed = Closed::default();
        for record in records {
            closed.push(record);
        }
        let replay = closed.finish("test", &|_| None);
        replay.chains.iter().map(|chain| chain.steps.iter().map(|step| step.after).collect()).collect()
    }

    #[test]
    fn a_request_waits_for_the_latest_completion_its_process_had_seen() {
        use After::{At, Completion, Together};
        assert_eq!(
            closed(&[read(5, 8, 0), read(10, 20, 8), read(11, 15, 16), read(22, 30, 24), read(40, 41, 32)]),
            [[At(5 * MS), Completion(0, 2 * MS), Together, Completion(1, 2 * MS), Completion(3, 10 * MS)]]
        );
    }

    #[test]
    fn a_completion_that_no_issue_followed_at_once_is_not_forgotten() {
        use After::{At, Completion, Together};
        // The second goes out before anything completes, the third after the first completed.
        assert_eq!(
            closed(&[read(0, 5, 0), read(1, 9, 8), read(6, 7, 16)]),
            [[At(0), Together, Completion(0, MS)]]
        );
    }

    #[test]
    fn asynchronous_writes_keep_their_times_and_synchronous_ones_wait() {
        let mut writeback = read(3, 9, 100);
        writeback.op = Op::Write;
        let mut sync = writeback;
        sync.at = Time::from_nanos(10 * MS);
        sync.flags = Flags { sync: true, ..Flags::default() };
        let chains = closed(&[read(0, 2, 0), writeback, sync]);
        assert_eq!(chains, [vec![After::At(0), After::Completion(0, 8 * MS)], vec![After::At(3 * MS)]]);
    }

    #[test]
    fn an_open_replay_knows_times_only() {
        let mut open = Open::default();
        open.push(&read(0, 1, 0));
        open.push(&read(2, 3, 8));
        let replay = open.finish("test", &|_| Some("cat".to_owned()));
        assert_eq!(replay.names().collect::<Vec<_>>(), [(7, "cat-7")]);
        assert_eq!(replay.chains[0].steps[1].after, After::At(2 * MS));
    }
}
