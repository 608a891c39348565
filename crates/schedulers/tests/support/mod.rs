//! A tiny closed world: processes that ask for the next thing when the last one has come, a queue, and a disk whose
//! service time is a straight line over distance. Enough to tell whether waiting pays; no model of any real drive.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use elevator::queue::{Identity, Notice, Options, Plugging, Queue, Step, Submission, Ticket, Token};
use elevator::{Op, Outcome, Process, Sector, Sectors, Span, Time};
use schedulers::{Environment, Spec};

/// Sectors of the disk: 100 GB.
pub const CAPACITY: u64 = 200_000_000;
/// Sectors in a request: 64 KiB.
const SECTORS: u64 = 128;

/// What a process does.
#[derive(Clone, Debug)]
pub enum Program {
    /// Reads on and on, with a pause after each read.
    Stream { at: u64, think: Span },
    /// Reads small files that lie one behind the other with gaps, each by a process of its own (`find -exec cat`).
    Chunks { at: u64, reads_per_file: u64, gap: u64, think: Span, spawn: Span },
    /// Keeps that many writes queued, each behind the other.
    Write { at: u64, window: u64 },
    /// Reads here and there.
    Random { think: Span, seed: u64 },
}

struct Running {
    program: Program,
    pid: u32,
    /// Reads, or writes, until it stops counting; it goes on until all have.
    left: u64,
    finished: Option<Time>,
    done: u64,
    longest: Span,
}

/// How a world ended.
pub struct Outcomes {
    /// When each process had done what it was to do; none if it did not in an hour.
    pub finished: Vec<Option<Time>>,
    /// Requests done by each.
    pub done: Vec<u64>,
    /// The longest that each waited for one request.
    pub longest: Vec<Span>,
    pub elapsed: Span,
}

impl Outcomes {
    /// Requests per second, all together.
    pub fn rate(&self) -> f64 {
        self.done.iter().sum::<u64>() as f64 / self.elapsed.as_secs_f64()
    }

    /// Seconds until that process was done.
    pub fn seconds(&self, n: usize) -> f64 {
        self.finished[n].unwrap_or(Time::from_nanos(3_600_000_000_000)).as_secs_f64()
    }
}

pub struct World {
    queue: Queue,
    now: Time,
    head: u64,
    /// In the device, with the time when each is done.
    device: Vec<(Time, Ticket)>,
    wake: Option<Time>,
    /// Who submits next, and when.
    alarms: BinaryHeap<Reverse<(Time, usize)>>,
    processes: Vec<Running>,
    pids: u32,
}

impl World {
    /// Runs `programs` until each has had its number of requests, or an hour has passed.
    pub fn run(scheduler: &str, identity: Identity, depth: u32, programs: &[(Program, u64)]) -> Outcomes {
        let made = Spec::parse(scheduler).unwrap().build(&Environment::default()).unwrap();
        let options =
            Options { depth, identity, plugging: Plugging::None, merges: false, ..Options::default() };
        let mut world = Self {
            queue: Queue::new(options, made),
            now: Time::ZERO,
            head: 0,
            device: Vec::new(),
            wake: None,
            alarms: BinaryHeap::new(),
            processes: Vec::new(),
            pids: 0,
        };
        programs.iter().for_each(|(program, left)| world.start(program.clone(), *left));
        world.live();
        Outcomes {
            finished: world.processes.iter().map(|p| p.finished).collect(),
            done: world.processes.iter().map(|p| p.done).collect(),
            longest: world.processes.iter().map(|p| p.longest).collect(),
            elapsed: world.now.since(Time::ZERO),
        }
    }

    fn start(&mut self, program: Program, left: u64) {
        self.pids += 1;
        let n = self.processes.len();
        let copies = if let Program::Write { window, .. } = program { window } else { 1 };
        let (pid, finished, done, longest) = (self.pids, None, 0, Span::ZERO);
        self.processes.push(Running { program, pid, left, finished, done, longest });
        for _ in 0..copies {
            self.alarms.push(Reverse((Time::from_nanos(n as u64 * 1_000), n)));
        }
    }

    fn live(&mut self) {
        let hour = Time::from_nanos(3_600_000_000_000);
        while self.processes.iter().any(|p| p.finished.is_none()) && self.now < hour {
            let alarm = self.alarms.peek().map(|Reverse((at, _))| *at);
            let done = self.device.first().map(|(at, _)| *at);
            self.now = [alarm, done, self.wake].into_iter().flatten().min().expect("the world stands still");
            if alarm == Some(self.now) {
                let Reverse((_, n)) = self.alarms.pop().unwrap();
                self.submit(n);
            } else if done == Some(self.now) {
                let (_, ticket) = self.device.remove(0);
                self.queue.complete(self.now, ticket, Outcome::Done);
            }
            self.pump();
        }
    }

    fn submit(&mut self, n: usize) {
        let running = &mut self.processes[n];
        let (op, at) = match &mut running.program {
            Program::Stream { at, .. } => (Op::Read, at),
            Program::Chunks { at, .. } => (Op::Read, at),
            Program::Write { at, .. } => (Op::Write, at),
            Program::Random { seed, .. } => {
                *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (Op::Read, &mut { *seed >> 20 })
            }
        };
        let start = Sector(*at % (CAPACITY - SECTORS) / SECTORS * SECTORS);
        *at += SECTORS;
        let mut submission = Submission::new(Token(n as u64), op, start, Sectors(SECTORS as u32));
        if op == Op::Write {
            submission.token = Token(n as u64 | running.done << 16 | running.left << 40);
        }
        submission.process = Some(Process::single(running.pid));
        let _ = self.queue.submit(self.now, submission);
    }

    fn pump(&mut self) {
        self.wake = None;
        loop {
            match self.queue.next(self.now, None) {
                Step::Dispatch(ticket) => self.serve(ticket),
                Step::Wait(hold) => {
                    self.wake = hold.until;
                    break;
                }
                Step::Full | Step::Idle => break,
            }
        }
        while let Some(notice) = self.queue.notice() {
            if let Notice::Finished(finished) = notice {
                self.finished((finished.token.0 & 0xffff) as usize, self.now.since(finished.submitted));
            }
        }
    }

    /// 64 KiB take 1.3 ms; a seek takes 2 ms and 13 ms more over the whole disk, a short one half a millisecond.
    fn serve(&mut self, ticket: Ticket) {
        let request = self.queue.request(&ticket);
        let distance = self.head.abs_diff(request.start.0);
        let seek = match distance {
            0 => Span::ZERO,
            1..2048 => Span::from_micros(500),
            _ => Span::from_micros(2_000 + distance * 13_000 / CAPACITY),
        };
        let transfer = Span::from_micros(u64::from(request.sectors.0) * 10);
        self.head = request.end().0;
        let free = self.device.last().map_or(self.now, |(at, _)| *at).max(self.now);
        self.device.push((free + seek + transfer, ticket));
    }

    fn finished(&mut self, n: usize, waited: Span) {
        let fresh = self.pids + 1;
        let running = &mut self.processes[n];
        running.done += 1;
        running.longest = running.longest.max(waited);
        if running.done == running.left {
            running.finished = Some(self.now);
        }
        let pause = match &mut running.program {
            Program::Stream { think, .. } | Program::Random { think, .. } => *think,
            Program::Write { .. } => Span::ZERO,
            Program::Chunks { at, reads_per_file, gap, think, spawn } => {
                if running.done.is_multiple_of(*reads_per_file) {
                    *at += *gap;
                    let was = std::mem::replace(&mut running.pid, fresh);
                    self.pids = fresh;
                    self.queue.exited(self.now, Process::single(was));
                    *spawn
                } else {
                    *think
                }
            }
        };
        self.alarms.push(Reverse((self.now + pause, n)));
    }
}
