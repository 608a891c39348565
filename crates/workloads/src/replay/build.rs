//! Builds chains from records.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::binary_heap::{BinaryHeap, PeekMut};
use std::sync::Arc;

use elevator::text::counted;
use elevator::{Op, Priority, Sector, Sectors, Time};
use traces::{Pid, Record};

use super::steps::Steps;
use super::{After, Chain, Chains, Kind, NAMED, Replay, Spill, Step, Who};

/// Names of the recorded processes.
type Names<'a> = &'a dyn Fn(Pid) -> Option<String>;

/// Collects records into chains that wait for completions.
#[derive(Default)]
pub struct Closed {
    order: Order,
    /// By process, in the order of `order`.
    waiting: Vec<Waiting>,
    writeback: Vec<Steps>,
    end: Sector,
    memory: Memory,
}

/// Collects records into chains of recorded times.
#[derive(Default)]
pub struct Open {
    order: Order,
    /// By process, in the order of `order`.
    chains: Vec<Steps>,
    end: Sector,
    memory: Memory,
}

/// Steps in memory, and the file for more.
#[derive(Default)]
struct Memory {
    /// At most.
    steps_max: usize,
    steps: usize,
    spill: Option<Arc<dyn Spill>>,
    is_spilled: bool,
    /// The file takes no more.
    failed: bool,
}

/// Steps in memory: 24 MiB.
const STEPS_MAX: usize = 2 << 20;

impl Memory {
    fn new(spill: Option<Arc<dyn Spill>>) -> Self {
        Self { steps_max: STEPS_MAX, spill, ..Self::default() }
    }

    /// Counts a step; whether there are too many.
    #[inline]
    fn is_full(&mut self) -> bool {
        self.steps += 1;
        self.steps >= self.steps_max && self.spill.is_some() && !self.failed
    }

    /// Moves the longest chains to the file, until half of the memory is free.
    fn free<'a>(&mut self, chains: impl Iterator<Item = &'a mut Steps>) {
        let mut chains: Vec<&mut Steps> = chains.collect();
        chains.sort_by_key(|steps| Reverse(steps.in_memory()));
        for steps in chains {
            let (Some(spill), true) = (&self.spill, self.steps > self.steps_max / 2) else { return };
            let moved = steps.in_memory();
            // What a full disk does not take stays in memory.
            if steps.spill(&**spill).is_err() {
                self.failed = true;
                return;
            }
            (self.steps, self.is_spilled) = (self.steps - moved, true);
        }
    }

    /// Builds the workload from the chains in the order of their start, each with the index of its process.
    fn finish(
        mut self,
        (name, open, end): (&str, bool, Sector),
        order: Order,
        mut chains: Vec<(u32, Steps)>,
        names: Names<'_>,
    ) -> Replay {
        // The runs need the memory: if some steps are in the file, all are.
        if self.is_spilled {
            self.steps_max = 0;
            self.free(chains.iter_mut().map(|(_, steps)| steps));
        }
        let mut requests = vec![0; order.processes.len()];
        chains.iter().for_each(|(process, steps)| requests[*process as usize] += steps.len());
        let (who, names) = named(&order.processes, &requests, names);
        let chain = |(who, steps): (u32, Steps)| Chain { who, steps: steps.finish() };
        let chains = Chains {
            chains: chains.into_iter().map(chain).collect(),
            has_group: names.len() > NAMED,
            who,
            names,
            spill: self.spill,
            open,
        };
        Replay { name: name.to_owned(), chains: Arc::new(chains), end }
    }
}

/// Processes in the order of their first record, with priorities.
#[derive(Default)]
struct Order {
    /// Time of the first request: the run starts with it, whatever the recording's clock is.
    began: Option<Time>,
    processes: Vec<(Option<Pid>, Priority)>,
    numbers: BTreeMap<Option<Pid>, usize>,
    /// The process of the last record.
    latest: usize,
}

impl Order {
    /// The number of a record's process, and whether the process is new.
    #[inline]
    fn number(&mut self, record: &Record) -> (usize, bool) {
        match self.processes.get(self.latest) {
            Some((pid, _)) if *pid == record.process => (self.latest, false),
            _ => self.find(record),
        }
    }

    #[inline(never)]
    fn find(&mut self, record: &Record) -> (usize, bool) {
        let count = self.processes.len();
        self.latest = *self.numbers.entry(record.process).or_insert(count);
        let new = self.latest == count;
        if new {
            self.processes.push((record.process, record.priority.unwrap_or_default()));
        }
        (self.latest, new)
    }

    /// The time of a record's request since the start of the run.
    fn at(&mut self, record: &Record) -> u64 {
        record.at.since(*self.began.get_or_insert(record.at)).as_nanos()
    }
}

fn process_name(pid: Option<Pid>, names: Names<'_>) -> String {
    match pid {
        Some(pid) => names(pid).map_or_else(|| format!("process {pid}"), |name| format!("{name}-{pid}")),
        None => "unknown".to_owned(),
    }
}

/// The processes with their names: of too many, those with the most requests have their own, in the order of the recording, and the others share the last one.
fn named(
    processes: &[(Option<Pid>, Priority)],
    requests: &[usize],
    names: Names<'_>,
) -> (Vec<Who>, Vec<String>) {
    let mut by_requests: Vec<usize> = (0..processes.len()).collect();
    by_requests.sort_by_key(|&process| Reverse(requests[process]));
    let mut is_named = vec![false; processes.len()];
    by_requests.iter().take(NAMED).for_each(|&process| is_named[process] = true);
    let group = processes.len().min(NAMED);
    let mut texts = Vec::new();
    let mut who = Vec::with_capacity(processes.len());
    for (&(pid, priority), is_named) in processes.iter().zip(is_named) {
        let name = if is_named { texts.len() } else { group } as u16;
        texts.extend(is_named.then(|| process_name(pid, names)));
        who.push(Who { pid, priority, name });
    }
    if processes.len() > NAMED {
        let others = (processes.len() - NAMED) as u64;
        texts.push(counted(others, "other process"));
    }
    (who, texts)
}

/// A growing chain and the completions of its process.
#[derive(Default)]
struct Waiting {
    steps: Steps,
    /// Completions not followed by a request yet: (time, request number), the earliest first.
    ahead: BinaryHeap<Reverse<(Time, u32)>>,
}

impl Waiting {
    /// The dependency of the next request; `at`: its time since the start of the run.
    fn after(&mut self, record: &Record, at: u64) -> After {
        let mut passed = None;
        while let Some(first) = self.ahead.peek_mut()
            && first.0.0 <= record.at
        {
            passed = Some(PeekMut::pop(first).0);
        }
        if let Some(completed) = record.completed {
            self.ahead.push(Reverse((completed, self.steps.len() as u32)));
        }
        match passed {
            Some((seen, number)) => After::Completion(number, record.at.since(seen).as_nanos()),
            None if self.steps.is_empty() => After::At(at),
            None => After::Together,
        }
    }
}

impl Step {
    fn of(record: &Record, after: After) -> Self {
        let (start, sectors) = match record.op {
            Op::Flush => (Sector(0), Sectors::ZERO),
            _ => (record.start(), record.sectors()),
        };
        Self { after, start: start.0, sectors: sectors.0, kind: Kind::pack(record.op, record.flags) }
    }

    /// The sector after its end.
    fn end(&self) -> Sector {
        Sector(self.start) + Sectors(self.sectors)
    }
}

impl Closed {
    /// Chains whose steps go to `spill` if they are too many for memory.
    pub fn spilling_to(spill: Arc<dyn Spill>) -> Self {
        Self { memory: Memory::new(Some(spill)), ..Self::default() }
    }

    /// Adds a record, in the order of issue.
    pub fn push(&mut self, record: &Record) {
        let (number, new) = self.order.number(record);
        let at = self.order.at(record);
        if new {
            self.waiting.push(Waiting::default());
            self.writeback.push(Steps::default());
        }
        let nobody_waits = matches!(record.op, Op::Write | Op::Discard) && !record.flags.sync;
        let (after, steps) = if nobody_waits {
            (After::At(at), &mut self.writeback[number])
        } else {
            let waiting = &mut self.waiting[number];
            (waiting.after(record, at), &mut waiting.steps)
        };
        let step = Step::of(record, after);
        self.end = self.end.max(step.end());
        steps.push(step);
        if self.memory.is_full() {
            let waiting = self.waiting.iter_mut().map(|waiting| &mut waiting.steps);
            self.memory.free(waiting.chain(&mut self.writeback));
        }
    }

    /// Builds the workload.
    pub fn finish(self, name: &str, names: Names<'_>) -> Replay {
        let mut chains = Vec::new();
        for (process, (waiting, writeback)) in self.waiting.into_iter().zip(self.writeback).enumerate() {
            let steps = [waiting.steps, writeback].into_iter().filter(|steps| !steps.is_empty());
            chains.extend(steps.map(|steps| (process as u32, steps)));
        }
        self.memory.finish((name, false, self.end), self.order, chains, names)
    }
}

impl Open {
    /// Chains whose steps go to `spill` if they are too many for memory.
    pub fn spilling_to(spill: Arc<dyn Spill>) -> Self {
        Self { memory: Memory::new(Some(spill)), ..Self::default() }
    }

    /// Adds a record, in the order of issue.
    pub fn push(&mut self, record: &Record) {
        let (number, new) = self.order.number(record);
        if new {
            self.chains.push(Steps::default());
        }
        let step = Step::of(record, After::At(self.order.at(record)));
        self.end = self.end.max(step.end());
        self.chains[number].push(step);
        if self.memory.is_full() {
            self.memory.free(self.chains.iter_mut());
        }
    }

    /// Builds the workload.
    pub fn finish(self, name: &str, names: Names<'_>) -> Replay {
        let chains = self.chains.into_iter().enumerate().map(|(process, steps)| (process as u32, steps));
        self.memory.finish((name, true, self.end), self.order, chains.collect(), names)
    }
}

#[cfg(test)]
mod tests {
    use elevator::Flags;
    use traces::DeviceId;

    use super::super::steps::Reader;
    use super::super::steps::in_memory::InMemory;
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
        (0..replay.chains.chains.len()).map(|chain| afters(&replay, chain)).collect()
    }

    fn steps(replay: &Replay, chain: usize) -> Vec<Step> {
        let mut steps = Reader::new(Arc::clone(&replay.chains), chain);
        std::iter::from_fn(|| steps.next()).collect()
    }

    fn afters(replay: &Replay, chain: usize) -> Vec<After> {
        steps(replay, chain).iter().map(|step| step.after).collect()
    }

    #[test]
    fn a_request_depends_on_the_latest_completion_before_it() {
        use After::{At, Completion, Together};
        assert_eq!(
            closed(&[read(5, 8, 0), read(10, 20, 8), read(11, 15, 16), read(22, 30, 24), read(40, 41, 32)]),
            [[At(0), Completion(0, 2 * MS), Together, Completion(1, 2 * MS), Completion(3, 10 * MS)]]
        );
    }

    #[test]
    fn later_requests_depend_on_earlier_completions() {
        use After::{At, Completion, Together};
        // The second request is issued before any completion, the third after the first completion.
        assert_eq!(
            closed(&[read(0, 5, 0), read(1, 9, 8), read(6, 7, 16)]),
            [[At(0), Together, Completion(0, MS)]]
        );
    }

    #[test]
    fn asynchronous_writes_keep_recorded_times() {
        let mut writeback = read(3, 9, 100);
        writeback.op = Op::Write;
        let mut sync = writeback;
        sync.at = Time::from_nanos(10 * MS);
        sync.flags = Flags { sync: true, ..Flags::default() };
        let chains = closed(&[read(0, 2, 0), writeback, sync]);
        assert_eq!(chains, [vec![After::At(0), After::Completion(0, 8 * MS)], vec![After::At(3 * MS)]]);
    }

    #[test]
    fn a_run_begins_with_the_first_request() {
        let hour = 3_600_000;
        let mut other = read(hour + 9, hour + 10, 8);
        other.process = Some(Pid(8));
        let records = [read(hour, hour + 1, 0), other];
        assert_eq!(closed(&records), [[After::At(0)], [After::At(9 * MS)]]);
        let mut open = Open::default();
        records.iter().for_each(|record| open.push(record));
        assert_eq!(afters(&open.finish("test", &|_| None), 1), [After::At(9 * MS)]);
    }

    #[test]
    fn an_open_replay_uses_recorded_times() {
        let mut open = Open::default();
        open.push(&read(0, 1, 0));
        open.push(&read(2, 3, 8));
        let replay = open.finish("test", &|_| Some("cat".to_owned()));
        assert_eq!(replay.chains.names, ["cat-7"]);
        assert_eq!(afters(&replay, 0)[1], After::At(2 * MS));
    }

    #[test]
    fn a_spilled_recording_is_the_same() {
        let record = |n: u64| {
            let mut record = read(n, n + 1 + n % 7, n * 8);
            record.process = (!n.is_multiple_of(5)).then_some(Pid((n * n % 13) as u32));
            record.op = if n.is_multiple_of(3) { Op::Write } else { Op::Read };
            record
        };
        let records: Vec<Record> = (0..5_000).map(record).collect();
        let spill = || -> Option<Arc<dyn Spill>> { Some(Arc::new(InMemory::default())) };
        let chains = |replay: &Replay| -> Vec<Vec<Step>> {
            (0..replay.chains.chains.len()).map(|chain| steps(replay, chain)).collect()
        };
        let few = || Memory { steps_max: 200, spill: spill(), ..Memory::default() };
        let (mut closed, mut open) = (Closed::default(), Open::default());
        let mut spilled =
            (Closed { memory: few(), ..Closed::default() }, Open { memory: few(), ..Open::default() });
        for record in &records {
            closed.push(record);
            open.push(record);
            spilled.0.push(record);
            spilled.1.push(record);
        }
        for (all, spilled) in [
            (closed.finish("test", &|_| None), spilled.0.finish("test", &|_| None)),
            (open.finish("test", &|_| None), spilled.1.finish("test", &|_| None)),
        ] {
            assert_eq!((spilled.in_memory(), all.in_memory()), (0, 5_000));
            assert_eq!((spilled.requests(), spilled.end), (all.requests(), all.end));
            assert_eq!(chains(&spilled), chains(&all));
        }
    }
}
