//! A tiny virtual disk and processes that wait for their answers: enough to see what a policy does to them.

#![allow(dead_code, reason = "each test file uses its part")]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use elevator::model::Random;
use elevator::queue::{
    Barriers, Cache, Event, Identity, Limits, Notice, Observer, Options, Plugging, Queue, Step, Submission,
    Ticket, Token,
};
use elevator::{
    Flags, Op, Outcome, Priority, PriorityClass, Process, Reason, Scheduler, Sector, Sectors, Span, Time,
};

/// Sectors between the regions of two processes: 50 GB.
pub const FAR: u64 = 50_000_000_000 / 512;

/// A process that keeps `depth` requests outstanding.
#[derive(Clone, Copy)]
pub struct Load {
    pub process: u32,
    pub op: Op,
    /// Of writes: whether somebody waits for them.
    pub sync: bool,
    pub sectors: u32,
    /// Anywhere in its region, or one after the other.
    pub random: bool,
    pub depth: u32,
    /// From a completion to the next request.
    pub think: Span,
    pub priority: Priority,
    /// When it starts.
    pub start: Span,
}

/// Reads 4 KiB one after the other, and thinks as long as a system call takes. With the command overhead of the disk that
/// makes the 5,800 requests a second of one direct reader on the emulated disk that BFQ was measured on.
pub fn reader(process: u32) -> Load {
    Load {
        process,
        op: Op::Read,
        sync: true,
        sectors: 8,
        random: false,
        depth: 1,
        think: Span::from_micros(15),
        priority: Priority::default(),
        start: Span::ZERO,
    }
}

pub fn level(level: u8) -> Priority {
    Priority { class: PriorityClass::BestEffort, level }
}

/// What became of a process.
#[derive(Clone, Debug, Default)]
pub struct Served {
    pub sectors: u64,
    /// Of each request, in order of completion: when it was submitted and how long it took.
    pub latencies: Vec<(Time, Span)>,
}

impl Served {
    pub fn longest(&self) -> Span {
        self.latencies.iter().map(|&(_, latency)| latency).max().unwrap_or_default()
    }

    /// Mean latency of the first `n`.
    pub fn mean_of_first(&self, n: usize) -> Span {
        let first = &self.latencies[..n.min(self.latencies.len())];
        first.iter().map(|&(_, latency)| latency).sum::<Span>() / (first.len() as u64).max(1)
    }
}

/// 100 MB/s and a command's overhead where the last one ended, and else as long as a seek and half a turn take. It serves in order of arrival.
#[derive(Default)]
struct Disk {
    waiting: VecDeque<Ticket>,
    serving: Option<(Time, Ticket)>,
    head: u64,
}

const SEEK: Span = Span::from_millis(12);
const COMMAND: Span = Span::from_micros(115);
const SECTOR: Span = Span::from_nanos(5_120);

impl Disk {
    fn turn_to_next(&mut self, now: Time, queue: &Queue<Log>) {
        if self.serving.is_none()
            && let Some(ticket) = self.waiting.pop_front()
        {
            let request = queue.request(&ticket);
            let seek = if request.start.0 == self.head { Span::ZERO } else { SEEK };
            self.head = request.end().0;
            let done = now + COMMAND + seek + SECTOR * u64::from(request.sectors.0);
            self.serving = Some((done, ticket));
        }
    }
}

/// Why which place was served when.
#[derive(Default)]
pub struct Log(pub Vec<(Time, Sector, Reason)>);

impl Observer for Log {
    fn event(&mut self, now: Time, event: &Event<'_>) {
        if let Event::Dispatched { request, reason, .. } = event {
            self.0.push((now, request.start, *reason));
        }
    }
}

struct Machine<'a> {
    loads: &'a [Load],
    queue: Queue<Log>,
    disk: Disk,
    now: Time,
    /// When which process submits its next request.
    due: BinaryHeap<Reverse<(Time, usize)>>,
    wake: Option<Time>,
    positions: Vec<u64>,
    random: Random,
    served: Vec<Served>,
}

/// Runs `loads` for so long.
pub fn run(scheduler: Box<dyn Scheduler>, options: Options, loads: &[Load], time: Span) -> Vec<Served> {
    run_logged(scheduler, options, loads, time).0
}

/// The same, with its dispatches in order.
pub fn run_logged(
    scheduler: Box<dyn Scheduler>,
    options: Options,
    loads: &[Load],
    time: Span,
) -> (Vec<Served>, Log) {
    let mut due = BinaryHeap::new();
    for (n, load) in loads.iter().enumerate() {
        for _ in 0..load.depth {
            due.push(Reverse((Time::ZERO + load.start, n)));
        }
    }
    let mut machine = Machine {
        loads,
        queue: Queue::observed(options, scheduler, Log::default()),
        disk: Disk::default(),
        now: Time::ZERO,
        due,
        wake: None,
        positions: (1..=loads.len() as u64).map(|n| n * FAR).collect(),
        random: Random::new(7),
        served: vec![Served::default(); loads.len()],
    };
    machine.run(Time::ZERO + time);
    (machine.served, std::mem::take(machine.queue.observer()))
}

impl Machine<'_> {
    fn run(&mut self, end: Time) {
        while let Some(at) = self.next_event().filter(|&at| at < end) {
            self.now = self.now.max(at);
            self.complete();
            self.submit();
            self.pump();
        }
    }

    fn next_event(&self) -> Option<Time> {
        let done = self.disk.serving.as_ref().map(|(at, _)| *at);
        let due = self.due.peek().map(|Reverse((at, _))| *at);
        [done, due, self.wake].into_iter().flatten().min()
    }

    fn complete(&mut self) {
        if self.disk.serving.as_ref().is_some_and(|(at, _)| *at <= self.now)
            && let Some((_, ticket)) = self.disk.serving.take()
        {
            self.queue.complete(self.now, ticket, Outcome::Done);
        }
    }

    fn submit(&mut self) {
        while let Some(&Reverse((at, n))) = self.due.peek()
            && at <= self.now
        {
            self.due.pop();
            let submission = self.submission(n);
            let _ = self.queue.submit(self.now, submission);
        }
    }

    fn submission(&mut self, n: usize) -> Submission {
        let load = self.loads[n];
        if load.random {
            self.positions[n] = (n as u64 + 1) * FAR + self.random.below(FAR / 16) * 8;
        }
        let start = self.positions[n];
        self.positions[n] += u64::from(load.sectors);
        let mut submission = Submission::new(Token(n as u64), load.op, Sector(start), Sectors(load.sectors));
        submission.process = Some(Process::single(load.process));
        submission.priority = load.priority;
        submission.flags = Flags { sync: load.sync, ..Flags::default() };
        submission
    }

    fn pump(&mut self) {
        self.wake = None;
        loop {
            match self.queue.next(self.now, None) {
                Step::Dispatch(ticket) => self.disk.waiting.push_back(ticket),
                Step::Wait(hold) => {
                    self.wake = hold.until;
                    break;
                }
                Step::Full | Step::Idle => break,
            }
        }
        self.disk.turn_to_next(self.now, &self.queue);
        while let Some(notice) = self.queue.notice() {
            if let Notice::Finished(finished) = notice {
                let n = finished.token.0 as usize;
                let load = self.loads[n];
                self.served[n].sectors += u64::from(load.sectors);
                self.served[n].latencies.push((finished.submitted, self.now.since(finished.submitted)));
                self.due.push(Reverse((self.now + load.think, n)));
            }
        }
    }
}

/// Every setting of the queue in which the model of operations drives a policy.
pub fn settings() -> Vec<Options> {
    let small = Limits { nr_requests: 4, batch_requests: 2, batch_time: Span::from_millis(20) };
    let itself = Plugging::Queue { threshold: 4, delay: Span::from_millis(3) };
    vec![
        Options { depth: 1, ..Options::default() },
        Options { depth: 31, ..Options::default() },
        Options { depth: 4, identity: Identity::Hidden, ..Options::default() },
        Options { depth: 31, identity: Identity::Same, ..Options::default() },
        Options { depth: 4, limits: small, plugging: itself, ..Options::default() },
        Options {
            depth: 2,
            barriers: Barriers::Drain,
            cache: Cache::WriteBack { fua: false },
            ..Options::default()
        },
        Options {
            depth: 2,
            limits: small,
            merges: false,
            plugging: Plugging::None,
            cache: Cache::WriteThrough,
            ..Options::default()
        },
    ]
}

/// Drives a policy with operations drawn at random, in every setting; the same seed must give the same events.
pub fn model(operations: u64, make: fn() -> Box<dyn Scheduler>) {
    use elevator::model::{Config, run};
    for (n, options) in settings().into_iter().enumerate() {
        for (faults, switches) in [(false, false), (true, false), (true, true)] {
            let config =
                Config { seed: n as u64 + 1, operations, options, faults, switches, ..Config::default() };
            let first = run(&config, &mut |_| make()).unwrap_or_else(|e| panic!("{options:?}: {e}"));
            assert!(first.finished > operations / 10, "{first:?}");
            let shorter = Config { operations: operations / 10, ..config };
            let (a, b) = (run(&shorter, &mut |_| make()), run(&shorter, &mut |_| make()));
            assert_eq!(a.unwrap().digest, b.unwrap().digest, "same seed, same events");
        }
    }
}
