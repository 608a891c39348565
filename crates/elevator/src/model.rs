//! A model of operations that drives any scheduler: submit, merge, complete, fail, give back, exit, switch, and the passing of
//! time, all determined by one seed, with a [`Checker`] as observer.
//!
//! A test of a scheduler calls [`run`] with a few million operations. A failure prints its seed, and
//! the same seed reproduces it.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::array::Directive;
use crate::check::Checker;
use crate::queue::{
    Accepted, Contain, Notice, Options, Plugging, Queue, Step, Submission, SwitchMode, Ticket, Token,
};
use crate::random::Random;
use crate::request::{Flags, Op, Outcome, Priority, PriorityClass, Process};
use crate::scheduler::{Load, Scheduler};
use crate::sector::{Sector, Sectors};
use crate::time::{Span, Time};

/// The configuration of a run.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Determines all random choices.
    pub seed: u64,
    /// Operations before the queue is drained.
    pub operations: u64,
    /// The queue.
    pub options: Options,
    /// Maximum number of unfinished submissions; a further one waits until one has finished.
    pub most: u32,
    /// Longest service time of the modelled device; the shortest is a tenth.
    pub service: Span,
    /// Whether the device fails requests and gives some back.
    pub faults: bool,
    /// Whether the scheduler is replaced by another one occasionally.
    pub switches: bool,
    /// Whether the scheduler receives random directives, as from an array's coordinator.
    pub directs: bool,
    /// Whether the schedulers are known to be faulty: the queue must recover from each fault, which is then no violation.
    pub tolerates_faults: bool,
    /// Contains the schedulers' panics; see [`Queue::contain_panics`].
    pub contain: Option<Contain>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 1,
            operations: 100_000,
            options: Options::default(),
            most: 64,
            service: Span::from_millis(10),
            faults: true,
            switches: false,
            directs: false,
            tolerates_faults: false,
            contain: None,
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// A digest of every event: equal seeds give equal digests.
    pub digest: u64,
    /// The longest time that a request stayed in the scheduler.
    pub longest_wait: Span,
    /// Submissions finished.
    pub finished: u64,
    /// Virtual time that passed.
    pub elapsed: Span,
    /// Faults of schedulers from which the queue recovered.
    pub faults: u64,
}

/// A run violated the contract.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The seed of the run, which repeats it.
    pub seed: u64,
    /// The number of violations.
    pub violations: u64,
    /// The first violations, as text.
    pub first: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {} violations\n  {}", self.seed, self.violations, self.first.join("\n  "))
    }
}

impl core::error::Error for Failure {}

/// Runs `config.operations` operations against schedulers that `make` builds (called once, and at every switch with
/// the number of the switch).
///
/// # Errors
/// The checker's findings, with the seed.
pub fn run(config: &Config, make: &mut dyn FnMut(u64) -> Box<dyn Scheduler>) -> Result<Report, Failure> {
    let mut model = Model::new(config, make);
    for _ in 0..config.operations {
        model.operate();
        model.pump();
    }
    model.drain();
    model.report()
}

/// Processes that submit.
const PROCESSES: usize = 8;
/// The limit of waits while draining, when no further submission arrives: twice the maximum of every tunable.
const DRAIN_MAX: Span = Span::from_secs(7_200);
/// Sectors of the modelled device: 64 GiB.
const CAPACITY: u64 = 1 << 27;

struct Model<'a> {
    config: &'a Config,
    make: &'a mut dyn FnMut(u64) -> Box<dyn Scheduler>,
    random: Random,
    queue: Queue<Checker>,
    now: Time,
    /// Requests in the device, in order of completion.
    device: VecDeque<(Time, Ticket)>,
    /// When the queue must be called again.
    wake: Option<Time>,
    /// The next sequential position of each process.
    positions: [u64; PROCESSES],
    tokens: u64,
    finished: u64,
    switches: u64,
}

/// The policy's bound plus the time that the queue may add: a plug, and a flush in the device at the time of the dispatch. A
/// directed member of an array has no bound, because the coordinator is outside the policy's control.
fn bound(config: &Config, scheduler: &mut dyn Scheduler) -> Option<Span> {
    if config.tolerates_faults || (config.directs && scheduler.array_member().is_some()) {
        return None;
    }
    let load = Load { requests: config.most, depth: config.options.depth, service: config.service };
    let plug = match config.options.plugging {
        Plugging::Queue { delay, .. } => delay,
        Plugging::None | Plugging::Task { .. } => Span::ZERO,
    };
    scheduler.longest_wait(load).map(|bound| bound + plug + config.service)
}

impl<'a> Model<'a> {
    fn new(config: &'a Config, make: &'a mut dyn FnMut(u64) -> Box<dyn Scheduler>) -> Self {
        let mut scheduler = make(0);
        let mut checker = Checker::new(&config.options);
        checker.set_bound(bound(config, &mut *scheduler));
        if config.tolerates_faults {
            checker.tolerate_faults();
        }
        let mut queue = Queue::observed(config.options, scheduler, checker);
        if let Some(contain) = config.contain {
            queue.contain_panics(contain);
        }
        let mut random = Random::new(config.seed);
        let positions = core::array::from_fn(|_| random.below(CAPACITY));
        Self {
            config,
            make,
            random,
            queue,
            now: Time::ZERO,
            device: VecDeque::new(),
            wake: None,
            positions,
            tokens: 0,
            finished: 0,
            switches: 0,
        }
    }

    fn operate(&mut self) {
        match self.random.below(100) {
            0..60 => self.submit(),
            60..64 => self.burst(),
            64..67 if self.config.directs => self.direct(),
            67 if self.random.once_in(20) => self.drain(),
            64..98 => self.pass(),
            98 => self.exit(),
            _ => self.switch(),
        }
    }

    fn submit(&mut self) {
        if self.queue.unfinished() >= self.config.most as usize {
            return self.pass();
        }
        let submission = self.draw();
        let accepted = self.queue.submit(self.now, submission);
        debug_assert!(matches!(accepted, Accepted::Queued | Accepted::Asleep));
    }

    /// A few submissions behind a plug.
    fn burst(&mut self) {
        self.queue.plug();
        for _ in 0..self.random.below(12) {
            if self.queue.unfinished() < self.config.most as usize {
                let submission = self.draw();
                let _ = self.queue.submit(self.now, submission);
            }
        }
        self.queue.unplug(self.now);
    }

    fn draw(&mut self) -> Submission {
        let process = self.random.below(PROCESSES as u64);
        let token = Token(self.tokens);
        self.tokens += 1;
        if self.random.once_in(200) {
            return Submission::new(token, Op::Flush, Sector(0), Sectors::ZERO);
        }
        let op = match self.random.below(20) {
            0..12 => Op::Read,
            12..19 => Op::Write,
            _ => Op::Discard,
        };
        let (start, sectors) = self.place(process as usize);
        let mut submission = Submission::new(token, op, start, sectors);
        submission.flags = self.flags(op);
        submission.process =
            (!self.random.once_in(16)).then(|| Process::thread(process as u32 + 1, process as u32 / 2 + 1));
        submission.priority = self.priority(process);
        submission
    }

    /// A position: mostly where the process stopped, sometimes just before (for front merges), sometimes random.
    fn place(&mut self, process: usize) -> (Sector, Sectors) {
        let sectors = 8 << self.random.below(5);
        let at = self.positions[process];
        let start = match self.random.below(10) {
            0..6 => at,
            6 => at.saturating_sub(3 * sectors),
            7 => at.saturating_sub(sectors),
            8 => at.saturating_add(self.random.below(4096)),
            _ => self.random.below(CAPACITY),
        }
        .min(CAPACITY - sectors);
        self.positions[process] = start + sectors;
        (Sector(start), Sectors(sectors as u32))
    }

    fn flags(&mut self, op: Op) -> Flags {
        let write = op == Op::Write;
        Flags {
            sync: write && self.random.once_in(3),
            meta: self.random.once_in(20),
            ahead: op == Op::Read && self.random.once_in(5),
            fua: write && self.random.once_in(50),
            preflush: write && self.random.once_in(50),
            direct: write && self.random.once_in(5),
        }
    }

    fn priority(&mut self, process: u64) -> Priority {
        let class = match process {
            6 if self.random.once_in(4) => PriorityClass::RealTime,
            7 => PriorityClass::Idle,
            _ => PriorityClass::BestEffort,
        };
        Priority { class, level: (process % 8) as u8 }
    }

    fn exit(&mut self) {
        let process = self.random.below(PROCESSES as u64) as u32;
        self.queue.exited(self.now, Process::thread(process + 1, process / 2 + 1));
    }

    fn switch(&mut self) {
        if self.config.switches && self.random.once_in(8) {
            self.switches += 1;
            let mut scheduler = (self.make)(self.switches);
            self.queue.observer().set_bound_after_switch(bound(self.config, &mut *scheduler));
            let mode = if self.random.once_in(2) { SwitchMode::Transfer } else { SwitchMode::Drain };
            let _ = self.queue.switch(self.now, scheduler, mode);
        }
    }

    /// Sends a random directive, and collects reports.
    fn direct(&mut self) {
        let selected = self.queue.selected(self.now, None);
        let slice = Directive::Slice(self.now + Span::from_nanos(self.random.below(200_000_000)));
        let directive = match (self.random.below(5), selected) {
            (0, Some(id)) => Directive::Urgent(id),
            (4, Some(id)) => Directive::Pass(id),
            (1 | 2, Some(id)) => Directive::Adopt(id),
            _ if self.random.once_in(4) => Directive::Slice(self.now),
            _ => slice,
        };
        self.queue.direct(self.now, directive);
        while self.queue.report().is_some() {}
    }

    /// Advances the time, at most to the next event that a host must handle.
    fn pass(&mut self) {
        let scale = [1_000, 100_000, 5_000_000, 50_000_000][self.random.below(4) as usize];
        let until = self.now + Span::from_nanos(self.random.below(scale));
        while let Some(at) = self.next_event().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.complete_due();
            self.pump();
        }
        self.now = until;
    }

    fn next_event(&self) -> Option<Time> {
        let done = self.device.front().map(|(at, _)| *at);
        [done, self.wake].into_iter().flatten().min()
    }

    fn complete_due(&mut self) {
        while self.device.front().is_some_and(|(at, _)| *at <= self.now) {
            let Some((_, ticket)) = self.device.pop_front() else { break };
            let outcome = match self.random.below(200) {
                0 if self.config.faults => Outcome::Failed,
                1 if self.config.faults => Outcome::GivenBack,
                _ => Outcome::Done,
            };
            self.queue.complete(self.now, ticket, outcome);
        }
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
            if matches!(notice, Notice::Finished(_)) {
                self.finished += 1;
            }
        }
    }

    fn serve(&mut self, ticket: Ticket) {
        let longest = self.config.service.as_nanos();
        let service = Span::from_nanos(longest / 10 + self.random.below(longest - longest / 10));
        let free = self.device.back().map_or(self.now, |(at, _)| *at);
        self.device.push_back((free.max(self.now) + service, ticket));
    }

    /// Waits until all submissions have finished, so that the device is idle afterwards. Detects a scheduler that never dispatches a request:
    /// no event is pending, or waiting has no effect.
    fn drain(&mut self) {
        self.queue.unplug(self.now);
        self.pump();
        let (mut since, mut unfinished) = (self.now, self.queue.unfinished());
        while let Some(at) = self.next_event().filter(|&at| at.since(since) <= DRAIN_MAX) {
            self.now = self.now.max(at);
            self.complete_due();
            self.pump();
            if self.queue.unfinished() != unfinished {
                (since, unfinished) = (self.now, self.queue.unfinished());
            }
        }
    }

    fn report(mut self) -> Result<Report, Failure> {
        let (seed, finished, elapsed) = (self.config.seed, self.finished, self.now.since(Time::ZERO));
        let checker = self.queue.observer();
        checker.finish();
        if checker.count() > 0 {
            let first = checker.violations().to_vec();
            return Err(Failure { seed, violations: checker.count(), first });
        }
        Ok(Report {
            digest: checker.digest(),
            longest_wait: checker.longest_wait(),
            finished,
            elapsed,
            faults: checker.faults(),
        })
    }
}
