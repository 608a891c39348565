//! The host of programs in real time: one thread runs all state machines, the workers of [`super::workers`] execute their requests.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use elevator::{Op, SECTOR_BYTES, Span, Time};
use machine::{Await, Barrier, Io, Latencies, Next, Program, Submitter};

use super::workers::{Completion, Request, Workers};
use super::{Replayed, Target};
use crate::error::Error;

/// How often `stop` is asked.
const ROUND: Duration = Duration::from_millis(100);

/// How long the requests of a stopped run may take until they count as starved.
const PATIENCE: Duration = Duration::from_secs(1);

/// Steps that a program may take without waiting, submitting or sleeping: more is an endless loop.
const STEPS_MAX: u32 = 1_000_000;

/// What a process waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Runnable,
    /// Until its entry among the timers.
    Sleeping,
    Requests(Await),
    Barrier(u32),
    Children,
    Ended,
}

struct Running {
    program: Box<dyn Program>,
    parent: Option<usize>,
    children: usize,
    state: State,
    /// When it could continue.
    since: Instant,
    submitted: u64,
    unfinished: BTreeSet<u64>,
}

impl Running {
    fn new(program: Box<dyn Program>, parent: Option<usize>, since: Instant) -> Self {
        let unfinished = BTreeSet::new();
        Self { program, parent, children: 0, state: State::Runnable, since, submitted: 0, unfinished }
    }

    fn is_fulfilled(&self, what: Await) -> bool {
        match what {
            Await::All => self.unfinished.is_empty(),
            Await::Io(number) => !self.unfinished.contains(&number),
            Await::Fewer(count) => self.unfinished.len() < count.max(1) as usize,
        }
    }
}

/// All processes of a run.
pub(super) struct Host<'a> {
    target: &'a Target,
    processes: Vec<Running>,
    timers: BinaryHeap<Reverse<(Instant, usize)>>,
    /// Arrived members by barrier.
    barriers: BTreeMap<u32, Vec<usize>>,
    stats: Stats,
}

impl<'a> Host<'a> {
    pub(super) fn new(programs: Vec<(Submitter, Box<dyn Program>)>, target: &'a Target) -> Self {
        let now = Instant::now();
        let processes = programs.into_iter().map(|(_, program)| Running::new(program, None, now)).collect();
        Self {
            target,
            processes,
            timers: BinaryHeap::new(),
            barriers: BTreeMap::new(),
            stats: Stats::new(now),
        }
    }

    pub(super) fn run(
        mut self,
        stop: &dyn Fn() -> bool,
        starved: &mut dyn FnMut(),
    ) -> Result<Replayed, Error> {
        let (sender, completions) = channel();
        let ended = std::thread::scope(|scope| {
            let mut workers: Vec<Workers<'_, '_>> = Vec::new();
            self.stats.began = Instant::now();
            self.processes.iter_mut().for_each(|process| process.since = self.stats.began);
            loop {
                for index in 0.. {
                    if index >= self.processes.len() {
                        break;
                    }
                    while workers.len() <= index {
                        workers.push(Workers::new(scope, self.target, sender.clone()));
                    }
                    if self.processes[index].state == State::Runnable {
                        self.advance(index, &mut workers[index])?;
                    }
                }
                // Also of a program that never waits.
                if self.processes.iter().any(|process| process.state == State::Runnable) {
                    if stop() {
                        break;
                    }
                    continue;
                }
                if self.is_over() {
                    return Ok(false);
                }
                if stop() {
                    break;
                }
                self.check_deadlock()?;
                self.wait(&completions)?;
            }
            // No thread of this process submits another request.
            drop(workers);
            drop(sender);
            if self.drain(&completions) {
                starved();
            }
            Ok(true)
        });
        ended.map(|cut| self.stats.report(cut))
    }

    /// Waits for the requests in the device, which do not count any more; whether one did not complete in time.
    fn drain(&self, completions: &Receiver<Completion>) -> bool {
        let end = Instant::now() + PATIENCE;
        loop {
            match completions.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return true,
                // All threads have ended.
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Whether all processes but those in the background have ended, and no request is unfinished.
    fn is_over(&self) -> bool {
        let has_ended = |process: &Running| process.state == State::Ended || process.program.is_background();
        self.processes.iter().all(has_ended) && !self.has_requests()
    }

    fn has_requests(&self) -> bool {
        self.processes.iter().any(|process| !process.unfinished.is_empty())
    }

    fn check_deadlock(&self) -> Result<(), Error> {
        if self.timers.is_empty() && !self.has_requests() {
            return Err(Error::Failed("all processes of the workload wait for each other".to_owned()));
        }
        Ok(())
    }

    /// Runs a process until it waits.
    fn advance(&mut self, index: usize, workers: &mut Workers<'_, '_>) -> Result<(), Error> {
        let mut steps = 0;
        while self.processes[index].state == State::Runnable {
            steps += 1;
            if steps > STEPS_MAX {
                return Ok(());
            }
            let now = Instant::now();
            let next = self.processes[index].program.next(self.stats.virtual_time(now));
            match next {
                Next::Submit(io) => self.submit(index, io, Instant::now(), workers)?,
                Next::Arrive(io, at) => {
                    let at = self.stats.began + Duration::from_nanos(at.as_nanos());
                    self.submit(index, io, at.min(Instant::now()), workers)?;
                }
                Next::Await(what) => {
                    if !self.processes[index].is_fulfilled(what) {
                        self.processes[index].state = State::Requests(what);
                    }
                }
                Next::Think(span) => {
                    let since = self.processes[index].since.max(self.stats.began);
                    self.sleep(index, since + Duration::from_nanos(span.as_nanos()));
                }
                Next::Until(at) => self.sleep(index, self.stats.began + Duration::from_nanos(at.as_nanos())),
                Next::Barrier(barrier) => self.arrive(index, barrier),
                Next::Spawn(_, program) => {
                    self.processes[index].children += 1;
                    self.processes.push(Running::new(program, Some(index), now));
                }
                Next::AwaitChildren => {
                    if self.processes[index].children > 0 {
                        self.processes[index].state = State::Children;
                    }
                }
                Next::Exit => self.exit(index),
                Next::Call(_) | Next::ClusterBarrier(_) => {
                    return Err(Error::Usage(
                        "the workload makes system calls, which 'dwell run' models; a device executes requests".to_owned(),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Submits a request of which the latency begins at `since`.
    fn submit(
        &mut self,
        index: usize,
        io: Io,
        since: Instant,
        workers: &mut Workers<'_, '_>,
    ) -> Result<(), Error> {
        if io.op != Op::Read && io.op != Op::Flush && !self.target.writes {
            return Err(Error::Usage(
                "the workload writes; --allow-writes permits that, and destroys the data on the device"
                    .to_owned(),
            ));
        }
        let process = &mut self.processes[index];
        let number = process.submitted;
        process.submitted += 1;
        if io.op == Op::Discard || (io.op == Op::Flush && !self.target.writes) {
            self.stats.left_out += 1;
            return Ok(());
        }
        let block = self.target.block_bytes;
        let from = io.start.bytes() / block * block;
        let to = (io.start.bytes() + io.sectors.bytes()).next_multiple_of(block);
        let submitted = Instant::now();
        let request = Request {
            process: index,
            number,
            op: io.op,
            flags: io.flags,
            offset: from,
            bytes: (to - from) as usize,
            submitted: since,
        };
        process.unfinished.insert(number);
        self.stats.submitted(submitted.saturating_duration_since(process.since), io.sectors.bytes(), io.op);
        workers.submit(request).map_err(|error| Error::Failed(format!("starting a thread: {error}")))
    }

    fn sleep(&mut self, index: usize, until: Instant) {
        let process = &mut self.processes[index];
        process.since = process.since.max(until);
        if until > Instant::now() {
            process.state = State::Sleeping;
            self.timers.push(Reverse((until, index)));
        }
    }

    fn arrive(&mut self, index: usize, Barrier { name, members }: Barrier) {
        let arrived = self.barriers.entry(name).or_default();
        arrived.push(index);
        self.processes[index].state = State::Barrier(name);
        if arrived.len() >= members as usize {
            for member in self.barriers.remove(&name).unwrap_or_default() {
                self.wake(member, Instant::now());
            }
        }
    }

    fn exit(&mut self, index: usize) {
        self.processes[index].state = State::Ended;
        let Some(parent) = self.processes[index].parent else { return };
        self.processes[parent].children -= 1;
        if self.processes[parent].children == 0 && self.processes[parent].state == State::Children {
            self.wake(parent, Instant::now());
        }
    }

    fn wake(&mut self, index: usize, now: Instant) {
        self.processes[index].state = State::Runnable;
        self.processes[index].since = now;
    }

    /// Waits for a completion or a timer.
    fn wait(&mut self, completions: &Receiver<Completion>) -> Result<(), Error> {
        let now = Instant::now();
        let due = self.timers.peek().map_or(ROUND, |Reverse((at, _))| at.saturating_duration_since(now));
        match completions.recv_timeout(due.min(ROUND)) {
            Ok(completion) => self.completed(completion)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::Failed("the threads that execute requests ended".to_owned()));
            }
        }
        while let Ok(completion) = completions.try_recv() {
            self.completed(completion)?;
        }
        let now = Instant::now();
        while let Some(&Reverse((at, index))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            // It was ready when it was due; the delay since is counted as lateness.
            self.wake(index, at);
        }
        Ok(())
    }

    fn completed(&mut self, Completion { request, ended, flushed, result }: Completion) -> Result<(), Error> {
        result.map_err(|error| {
            let (verb, sector) = (verb(request.op), request.offset / SECTOR_BYTES);
            Error::Failed(format!("{verb} {} bytes at sector {sector}: {error}", request.bytes))
        })?;
        self.stats.completed(&request, ended);
        if let Some(flushed) = flushed {
            self.stats.flushes.record(Span::from_nanos(flushed.as_nanos() as u64));
        }
        let process = &mut self.processes[request.process];
        process.unfinished.remove(&request.number);
        if let State::Requests(what) = process.state
            && process.is_fulfilled(what)
        {
            self.wake(request.process, ended);
        }
        Ok(())
    }
}

const fn verb(op: Op) -> &'static str {
    match op {
        Op::Read => "reading",
        Op::Write => "writing",
        Op::Flush => "flushing",
        Op::Discard => "discarding",
    }
}

/// The measurements.
struct Stats {
    began: Instant,
    last: Instant,
    bytes: u64,
    requests: u64,
    left_out: u64,
    submissions: u64,
    late: Duration,
    reads: Latencies,
    writes: Latencies,
    flushes: Latencies,
}

impl Stats {
    fn new(now: Instant) -> Self {
        let (reads, writes, flushes) = Default::default();
        let (bytes, requests, left_out, submissions, late) = (0, 0, 0, 0, Duration::ZERO);
        Self { began: now, last: now, bytes, requests, left_out, submissions, late, reads, writes, flushes }
    }

    fn virtual_time(&self, now: Instant) -> Time {
        Time::from_nanos(now.saturating_duration_since(self.began).as_nanos() as u64)
    }

    fn submitted(&mut self, late: Duration, bytes: u64, op: Op) {
        self.submissions += 1;
        self.late += late;
        self.bytes += if op == Op::Flush { 0 } else { bytes };
    }

    fn completed(&mut self, request: &Request, ended: Instant) {
        self.requests += 1;
        self.last = self.last.max(ended);
        let latencies = match request.op {
            Op::Read => &mut self.reads,
            Op::Write | Op::Discard => &mut self.writes,
            Op::Flush => &mut self.flushes,
        };
        let latency = ended.saturating_duration_since(request.submitted);
        latencies.record(Span::from_nanos(latency.as_nanos() as u64));
    }

    fn report(&self, cut: bool) -> Replayed {
        let mut all = self.reads.clone();
        all.add(&self.writes);
        let [latency, reads, writes, flushes] =
            [&all, &self.reads, &self.writes, &self.flushes].map(Latencies::summary);
        Replayed {
            elapsed_ns: self.last.saturating_duration_since(self.began).as_nanos() as u64,
            bytes: self.bytes,
            requests: self.requests,
            left_out: self.left_out,
            latency,
            reads,
            writes,
            flushes,
            late_mean_ns: (self.late.as_nanos() / u128::from(self.submissions.max(1))) as u64,
            cut,
        }
    }
}
