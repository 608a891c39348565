//! A closed loop: processes that issue a request after the completion of the last one, the real queue, and a disk whose service times are
//! a function of the position. It shows the effect of a policy on processes; it models no particular drive.

#![allow(dead_code, reason = "each test file uses its part")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dwell_schedulers::{Environment, Spec};
use elevator::Random;
use elevator::queue::{Event, Notice, Observer, Options, Queue, Step, Submission, Ticket, Token};
use elevator::{
    Flags, Hold, Op, Outcome, Priority, PriorityClass, Process, Reason, Request, Scheduler, Sector, Sectors,
    Span, Time,
};

/// Sectors in 50 GB.
pub const FAR: u64 = 50_000_000_000 / 512;
/// Sectors of the disk of [`takes`]: 100 GB.
pub const CAPACITY: u64 = 200_000_000;

/// 64 KiB take 1.3 ms. A seek takes 2 to 15 ms by its distance, a short one half a millisecond.
pub fn takes(head: Sector, request: &Request) -> Span {
    let seek = match head.0.abs_diff(request.start.0) {
        0 => Span::ZERO,
        1..2048 => Span::from_micros(500),
        distance => Span::from_micros(2_000 + distance * 13_000 / CAPACITY),
    };
    seek + Span::from_micros(10) * u64::from(request.sectors.0)
}

/// The positions of a process's requests.
#[derive(Clone, Copy)]
pub enum Path {
    /// The given number of sectors behind the end of the last one.
    Ahead(u64),
    /// Random within the given number of sectors.
    Within(u64),
    /// Files of `requests` requests, `gap` sectors apart. Each is read by a process of its own, which takes `spawn` to
    /// start (`find -exec cat`).
    Files { requests: u64, gap: u64, spawn: Span },
}

/// After each `every` requests the load waits until another load has completed the same number.
#[derive(Clone, Copy)]
pub struct Partner {
    pub load: usize,
    pub every: u64,
}

/// A process that keeps `depth` requests outstanding.
#[derive(Clone, Copy)]
pub struct Load {
    pub process: u32,
    pub op: Op,
    /// Whether writes are synchronous.
    pub sync: bool,
    pub sectors: u32,
    /// The first sector.
    pub at: u64,
    pub path: Path,
    pub depth: u32,
    /// From a completion to the next request.
    pub think: Span,
    pub priority: Priority,
    /// When it starts.
    pub start: Span,
    pub partner: Option<Partner>,
    /// The number of requests after which the run need not wait for this load.
    pub enough: u64,
}

/// Sequential reads of 4 KiB in a region of its own, without think time.
pub fn reader(process: u32) -> Load {
    Load {
        process,
        op: Op::Read,
        sync: true,
        sectors: 8,
        at: u64::from(process) * FAR,
        path: Path::Ahead(0),
        depth: 1,
        think: Span::ZERO,
        priority: Priority::default(),
        start: Span::ZERO,
        partner: None,
        enough: u64::MAX,
    }
}

/// The result of a load.
#[derive(Clone, Debug, Default)]
pub struct Served {
    pub sectors: u64,
    /// Submission time and latency of each request, in order of completion.
    pub latencies: Vec<(Time, Span)>,
    /// When it completed `enough` requests.
    pub finished: Option<Time>,
}

impl Served {
    pub fn requests(&self) -> u64 {
        self.latencies.len() as u64
    }

    pub fn longest(&self) -> Span {
        self.latencies.iter().map(|&(_, latency)| latency).max().unwrap_or_default()
    }

    /// Mean latency of the first `n`.
    pub fn mean_of_first(&self, n: usize) -> Span {
        let first = &self.latencies[..n.min(self.latencies.len())];
        first.iter().map(|&(_, latency)| latency).sum::<Span>() / (first.len() as u64).max(1)
    }
}

/// Time, position and reason of each dispatch; time and reason of each wait, and its end.
#[derive(Default)]
pub struct Log(pub Vec<(Time, Sector, Reason)>, pub Vec<(Time, Hold)>);

impl Observer for Log {
    fn event(&mut self, now: Time, event: &Event<'_>) {
        match event {
            Event::Dispatched { request, reason, .. } => self.0.push((now, request.start, *reason)),
            Event::Held { hold, .. } => self.1.push((now, *hold)),
            Event::Faulted { fault, .. } => panic!("{now}: {fault}"),
            _ => {}
        }
    }
}

/// The result of a run.
pub struct Outcomes {
    pub served: Vec<Served>,
    pub elapsed: Span,
    pub log: Log,
}

/// The service time of a request with the head at a sector.
type Takes = dyn Fn(Sector, &Request) -> Span;

/// A disk that serves one request at a time.
pub struct Disk {
    takes: Box<Takes>,
    /// Serves the nearest first, as a drive with a queue; half of a command's waiting time is subtracted, so that none
    /// waits for ever. Otherwise in order of arrival.
    nearest_first: bool,
    waiting: Vec<(Time, Ticket)>,
    serving: Option<(Time, Ticket)>,
    head: Sector,
}

impl Disk {
    pub fn in_order(takes: impl Fn(Sector, &Request) -> Span + 'static) -> Self {
        let takes = Box::new(takes);
        Self { takes, nearest_first: false, waiting: Vec::new(), serving: None, head: Sector(0) }
    }

    pub fn nearest_first(takes: impl Fn(Sector, &Request) -> Span + 'static) -> Self {
        Self { nearest_first: true, ..Self::in_order(takes) }
    }

    fn turn_to_next(&mut self, now: Time, queue: &Queue<Log>) {
        if self.serving.is_some() || self.waiting.is_empty() {
            return;
        }
        let takes = |ticket: &Ticket| (self.takes)(self.head, queue.request(ticket));
        let aged = |(since, ticket): &(Time, Ticket)| {
            takes(ticket).as_nanos() as i64 - now.since(*since).as_nanos() as i64 / 2
        };
        let nearest = if self.nearest_first {
            (0..self.waiting.len()).min_by_key(|&n| aged(&self.waiting[n])).unwrap_or_default()
        } else {
            0
        };
        let done = now + takes(&self.waiting[nearest].1);
        let (_, ticket) = self.waiting.remove(nearest);
        self.head = queue.request(&ticket).end();
        self.serving = Some((done, ticket));
    }
}

pub fn level(level: u8) -> Priority {
    Priority { class: PriorityClass::BestEffort, level }
}

/// The policy of that name.
pub fn build(name: &str) -> Box<dyn Scheduler> {
    Spec::parse(name).unwrap().build(&Environment::default()).unwrap()
}

struct World<'a> {
    loads: &'a [Load],
    queue: Queue<Log>,
    disk: Disk,
    now: Time,
    /// The times at which loads submit their next requests.
    due: BinaryHeap<Reverse<(Time, usize)>>,
    wake: Option<Time>,
    positions: Vec<u64>,
    /// The current process of each load, and the process that was started last.
    processes: Vec<u32>,
    youngest: u32,
    random: Random,
    served: Vec<Served>,
}

/// Runs `loads` for the given time, or until all have completed `enough` requests.
pub fn run(
    scheduler: Box<dyn Scheduler>,
    options: Options,
    disk: Disk,
    loads: &[Load],
    most: Span,
) -> Outcomes {
    let each = loads.iter().enumerate();
    let starts =
        each.flat_map(|(n, load)| (0..load.depth).map(move |_| Reverse((Time::ZERO + load.start, n))));
    let mut world = World {
        loads,
        queue: Queue::observed(options, scheduler, Log::default()),
        disk,
        now: Time::ZERO,
        due: starts.collect(),
        wake: None,
        positions: loads.iter().map(|load| load.at).collect(),
        processes: loads.iter().map(|load| load.process).collect(),
        youngest: loads.iter().map(|load| load.process).max().unwrap_or_default(),
        random: Random::new(7),
        served: vec![Served::default(); loads.len()],
    };
    world.live(Time::ZERO + most);
    let log = std::mem::take(world.queue.observer());
    Outcomes { served: world.served, elapsed: world.now.since(Time::ZERO), log }
}

impl World<'_> {
    fn live(&mut self, end: Time) {
        while self.served.iter().any(|served| served.finished.is_none())
            && let Some(at) = self.next_event().filter(|&at| at < end)
        {
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
        if let Some((_, ticket)) = self.disk.serving.take_if(|(at, _)| *at <= self.now) {
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
        let start = match load.path {
            Path::Within(sectors) => load.at + self.random.below(sectors / 8) * 8,
            Path::Ahead(_) | Path::Files { .. } => self.positions[n],
        };
        let gap = if let Path::Ahead(gap) = load.path { gap } else { 0 };
        self.positions[n] += u64::from(load.sectors) + gap;
        let mut submission = Submission::new(Token(n as u64), load.op, Sector(start), Sectors(load.sectors));
        submission.process = Some(Process::single(self.processes[n]));
        submission.priority = load.priority;
        submission.flags = Flags { sync: load.sync, ..Flags::default() };
        submission
    }

    fn pump(&mut self) {
        self.wake = None;
        loop {
            match self.queue.next(self.now, None) {
                Step::Dispatch(ticket) => {
                    self.disk.waiting.push((self.now, ticket));
                    self.disk.turn_to_next(self.now, &self.queue);
                }
                Step::Wait(hold) => {
                    assert!(hold.until.is_none_or(|until| until > self.now), "a wait that is over");
                    self.wake = hold.until;
                    break;
                }
                Step::Full | Step::Idle => break,
            }
        }
        self.disk.turn_to_next(self.now, &self.queue);
        while let Some(notice) = self.queue.notice() {
            if let Notice::Finished(finished) = notice {
                self.returned(finished.token.0 as usize, finished.submitted);
            }
        }
    }

    fn returned(&mut self, n: usize, submitted: Time) {
        let load = &self.loads[n];
        let served = &mut self.served[n];
        served.sectors += u64::from(load.sectors);
        served.latencies.push((submitted, self.now.since(submitted)));
        let done = served.requests();
        if done == load.enough {
            served.finished = Some(self.now);
        }
        let again = self.now + self.pause(n, done);
        match load.partner {
            Some(Partner { load: other, every }) if done.is_multiple_of(every) => {
                let others = self.served[other].requests();
                if others >= done {
                    self.due.push(Reverse((again, n)));
                }
                if others == done {
                    self.due.push(Reverse((again, other)));
                }
            }
            _ => self.due.push(Reverse((again, n))),
        }
    }

    /// From a load's completion to its next request.
    fn pause(&mut self, n: usize, done: u64) -> Span {
        match self.loads[n].path {
            Path::Files { requests, gap, spawn } if done.is_multiple_of(requests) => {
                self.positions[n] += gap;
                self.youngest += 1;
                let was = std::mem::replace(&mut self.processes[n], self.youngest);
                self.queue.exited(self.now, Process::single(was));
                spawn
            }
            _ => self.loads[n].think,
        }
    }
}
