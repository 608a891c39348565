//! How much a tuner loses by its trials, without history and with that of a first run: the live tuner in virtual time, in front of a modelled disk, against each fixed
//! scheduler with the same programs.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use elevator::queue::{Limits, Options, SwitchMode};
use elevator::{Flags, Op, Sector, Sectors, Span, Time};
use evaluation::device::Device;
use evaluation::watch::Watch;
use machine::{Await, Io, Machine, Next, Program, Setup, Stop, Submitter};
use schedulers::Spec;
use tuner::{Analyser, Metric, Parameters, Random, State};
use tuner_live::arms::Arms;
use tuner_live::{Error, LiveTuner, Seen, Settings};
use workloads::program_of;

/// The schedulers of a current kernel, and the policies of the model that they are.
const ARMS: [(&str, &str); 5] = [
    ("none", "noop"),
    ("mq-deadline", "mq-deadline"),
    ("kyber", "kyber"),
    ("bfq", "bfq"),
    ("bfq{low_latency=0, strict_guarantees=1}", "bfq{low_latency=0, strict_guarantees=on}"),
];
const WINDOW: Span = Span::from_secs(5);
const WINDOWS: u64 = 20;
/// A trial may end after each of these.
const STEP: Span = Span::from_millis(250);
/// Windows after which the tuner is expected to use the best scheduler, or an equal one.
const SETTLED: u64 = 6;

/// Arms that only note which one is in use.
struct Noted(Vec<String>, Rc<RefCell<usize>>);

impl Arms for Noted {
    fn names(&self) -> &[String] {
        &self.0
    }

    fn current(&mut self) -> Result<String, Error> {
        Ok(self.0[*self.1.borrow()].clone())
    }

    fn switch(&mut self, arm: usize) -> Result<Duration, Error> {
        *self.1.borrow_mut() = arm;
        Ok(Duration::ZERO)
    }

    fn by_hand(&self, _: &str) -> (String, Option<String>) {
        (String::new(), None)
    }
}

type Programs = fn() -> Vec<Box<dyn Program>>;

/// Submits one request after the other, each when fewer than `depth` are unfinished.
fn program(depth: u32, delay: Span, requests: impl Iterator<Item = Io> + 'static) -> Box<dyn Program> {
    let begin = std::iter::once(Next::Think(delay));
    program_of(begin.chain(requests.flat_map(move |io| [Next::Submit(io), Next::Await(Await::Fewer(depth))])))
}

fn write(start: Sector, sectors: Sectors) -> Io {
    Io { op: Op::Write, start, sectors, flags: Flags::default() }
}

/// The distance of two files: eight of them fit the disk of 500 GB.
const FAR: u64 = 50 << 21;
const PAGE: Sectors = Sectors(8);

/// A reader of one file, 4 KiB after 4 KiB, as `dd iflag=direct`.
fn reader(n: u64) -> Box<dyn Program> {
    let reads = (0..).map(move |i| Io::read(Sector(n * FAR + i * 8), PAGE));
    program(1, Span::from_millis(70 * n), reads)
}

/// Requests at random positions.
fn at_random(seed: u64, depth: u32, reads: f64) -> Box<dyn Program> {
    let mut random = Random::new(seed);
    let io = move |_| {
        let place = Sector(random.below(8 * FAR) / 8 * 8);
        if random.unit() < reads { Io::read(place, PAGE) } else { write(place, PAGE) }
    };
    program(depth, Span::ZERO, (0_u64..).map(io))
}

/// A writer of one file in large requests, as writeback submits them.
fn writer(n: u64) -> Box<dyn Program> {
    let size = Sectors(1024);
    program(16, Span::ZERO, (0..).map(move |i| write(Sector(n * FAR + i * 1024), size)))
}

/// A reader of many small files of a tree, one after the other, with a page cache that reads ahead.
fn grep(n: u64) -> Box<dyn Program> {
    let (mut random, mut at) = (Random::new(n), n * FAR);
    let file = move |_: u64| {
        at += 64 + random.below(256) / 8 * 8;
        let (first, pages) = (at, 1 + random.below(8));
        at += pages * 8;
        (0..pages.div_ceil(4))
            .map(move |i| Io::read(Sector(first + i * 32), Sectors(((pages - i * 4).min(4) * 8) as u32)))
    };
    program(1, Span::from_millis(30 * n), (0_u64..).flat_map(file))
}

/// A reader of one file in large requests, as a backup.
fn backup(n: u64) -> Box<dyn Program> {
    program(1, Span::ZERO, (0..).map(move |i| Io::read(Sector(n * FAR + i * 128), Sectors(128))))
}

const LOADS: [(&str, Programs); 7] = [
    ("four direct readers", || (0..4).map(reader).collect()),
    ("reads beside writes", || vec![reader(0), reader(3), writer(6)]),
    ("greps", || (0..3).map(|n| grep(n * 2)).collect()),
    ("random reads", || (0..8).map(|n| at_random(n, 1, 1.0)).collect()),
    ("a backup beside random reads", || vec![backup(0), at_random(1, 4, 1.0)]),
    ("random reads and writes", || (0..8).map(|n| at_random(n, 2, 0.7)).collect()),
    ("mixed", || vec![reader(0), reader(2), grep(4), at_random(1, 2, 0.8)]),
];

struct Run {
    machine: Machine,
    watch: Watch,
    device: Device,
    now: Time,
}

impl Run {
    fn new(programs: Programs, arm: usize) -> Self {
        let device = Device::open("wd5000aaks").expect("built in");
        let watch = Watch::default();
        let mut machine = Machine::new(Setup {
            options: Options::default(),
            scheduler: scheduler(&device, arm),
            drive: device.build(),
            observer: Some(Box::new(watch.clone())),
        });
        for (n, program) in programs().into_iter().enumerate() {
            machine.start(Submitter::process(n as u32 + 1, format!("program-{n}")), program);
        }
        Self { machine, watch, device, now: Time::ZERO }
    }

    /// One window, which ends early as soon as its beginning is lost, or with the run.
    fn window(&mut self, is_lost: impl Fn(&Seen, f64) -> bool) -> Seen {
        let (start, end) = (self.now, (self.now + WINDOW).min(Time::ZERO + WINDOW * WINDOWS));
        let seen = |(window, performance), early| Seen {
            window,
            performance,
            busy: 1.0,
            missed: 0,
            tasks: std::collections::BTreeSet::new(),
            torn: false,
            early,
        };
        let mut early = false;
        while self.now < end && !early {
            self.now = (self.now + STEP).min(end);
            self.machine.run(Stop { at: self.now, asked: || false }).expect("no policy fails");
            let length = self.now.since(start);
            let part = length.as_secs_f64() / WINDOW.as_secs_f64();
            early = self.now < end && is_lost(&seen(self.watch.so_far(self.now, length), false), part);
        }
        let (window, performance, _) = self.watch.take(self.now, self.now.since(start));
        seen((window, performance), early)
    }

    fn is_over(&self) -> bool {
        self.now >= Time::ZERO + WINDOW * WINDOWS
    }

    fn switch(&mut self, arm: usize) {
        self.machine.switch(self.now, scheduler(&self.device, arm), SwitchMode::Drain);
    }
}

fn scheduler(device: &Device, arm: usize) -> Box<dyn elevator::Scheduler> {
    let spec = Spec::parse(ARMS[arm].1).expect("one of ours");
    spec.build(&device.environment(&Limits::default())).expect("it fits the device")
}

/// A window's start, seconds and bytes.
type Work = (Time, f64, f64);

fn work(seen: &Seen) -> Work {
    let seconds = seen.window.length.as_secs_f64();
    (seen.window.start, seconds, seen.performance.bandwidth * seconds)
}

/// The mean bandwidth of the windows that begin after so many full ones.
fn after(windows: u64, work: &[Work]) -> f64 {
    let later = || work.iter().filter(|(start, ..)| *start >= Time::ZERO + WINDOW * windows);
    later().map(|(.., bytes)| bytes).sum::<f64>() / later().map(|(_, seconds, _)| seconds).sum::<f64>()
}

/// The work of each window under one scheduler.
fn fixed(programs: Programs, arm: usize) -> Vec<Work> {
    let mut run = Run::new(programs, arm);
    let mut all = Vec::new();
    while !run.is_over() {
        let seen = run.window(|_, _| false);
        all.push(work(&seen));
    }
    all
}

/// The same under a tuner that starts with `none` in use, with what an earlier one has learned; also returns the tuner's lines, and what it learned.
fn tuned(programs: Programs, history: Option<State>) -> (Vec<Work>, Vec<String>, State) {
    let names: Vec<String> = ARMS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let current = Rc::new(RefCell::new(0));
    let arms = Box::new(Noted(names.clone(), Rc::clone(&current)));
    let metric = Metric::Bandwidth;
    let mut analyser = Analyser::new(names, metric, Parameters::default(), Random::new(1)).expect("valid");
    history.into_iter().for_each(|state| analyser.restore(state).expect("of the same tuner"));
    let settings = Settings { dry_run: false, command: None };
    let mut tuner = LiveTuner::new("disk", analyser, arms, metric, settings).expect("it starts");
    let mut run = Run::new(programs, 0);
    let (mut all, mut lines) = (Vec::new(), Vec::new());
    while !run.is_over() {
        let before = *current.borrow();
        let seen = run.window(|so_far, part| tuner.is_lost(so_far, part));
        let bandwidth = seen.performance.bandwidth;
        all.push(work(&seen));
        let outcome = tuner.window(seen).expect("no arm fails");
        let now = *current.borrow();
        if now != before {
            run.switch(now);
        }
        lines.push(format!("{} {:.2} MB/s: {}", ARMS[before].0, bandwidth / 1e6, outcome.line));
    }
    (all, lines, tuner.state())
}

#[test]
fn the_best_scheduler_is_found_in_six_windows() {
    let results: Vec<_> = std::thread::scope(|scope| {
        let run = |(load, programs): (&'static str, Programs)| {
            scope.spawn(move || {
                let all: Vec<Vec<Work>> = (0..ARMS.len()).map(|arm| fixed(programs, arm)).collect();
                let (work, lines, state) = tuned(programs, None);
                let (with_history, more, _) = tuned(programs, Some(state));
                (load, all, [("without history", work, lines), ("with history", with_history, more)])
            })
        };
        let runs: Vec<_> = LOADS.into_iter().map(run).collect();
        runs.into_iter().map(|run| run.join().expect("it ends")).collect()
    });
    let mut failed = Vec::new();
    let runs = results.into_iter().flat_map(|(load, fixed, runs)| runs.map(|run| (load, fixed.clone(), run)));
    for (load, fixed, (history, tuned, lines)) in runs {
        let best = |from: u64| fixed.iter().map(|of| after(from, of)).fold(0.0, f64::max);
        let [work, settled] = [0, SETTLED].map(|from| after(from, &tuned) / best(from));
        let each: Vec<String> = (ARMS.iter().zip(&fixed))
            .map(|((name, _), of)| format!("{name} {:.2}", after(0, of) / 1e6))
            .collect();
        println!(
            "{load} {history}: {work:.2} of the best one's work in {WINDOWS} windows, {settled:.2} after {SETTLED}; MB/s: {}",
            each.join(", ")
        );
        lines.iter().for_each(|line| println!("    {line}"));
        if work < 0.8 || settled < 0.95 {
            failed.push((load, history));
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
