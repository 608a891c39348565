//! What the modelled machine says of a comparison before, or beside, reality: the same programs on the same drive, with the same
//! priorities and starting times.
//!
//! The model knows no way between a program and a drive; each request is given one of the times that it was measured to take in
//! this kernel, on this machine with whatever else runs on it, as time that its program thinks. Programs that go through the page cache or a file system need a model of those; until the
//! machine has one, nothing is said of them.

use std::path::Path;

use ::duel::{Benchmark, Blocks, Order, Outcome, Scheduler, Size, Task};
use elevator::model::Random;
use elevator::queue::{Identity, Options};
use elevator::{Flags, Op, Priority, PriorityClass, Sector, Sectors, Span, Time};
use machine::{Await, Io, Next, Program, Who};
use schedulers::Spec;
use schedulers::registry::Catalogue;
use workloads::Workload;
use workloads::fio::JobFile;
use workloads::script;

use super::comparison::{Entry, Predicted};
use crate::compare::{Plan, run_plan};
use crate::device::Device;

/// Everything about a duel that the model must know.
pub(crate) struct Model<'a> {
    pub(crate) device: &'a Device,
    pub(crate) catalogue: Catalogue,
    pub(crate) size: Size,
    pub(crate) level: u8,
}

/// The largest request of a loop device as the testbed sets it up; the kernel splits what is longer.
const LONGEST: Sectors = Sectors(1024);

/// The programs of a benchmark, as the model runs them.
struct Modelled {
    what: String,
    programs: Source,
    /// When each began after the first.
    starts: Vec<Span>,
    /// What the way of each one's requests takes beside the drive; the last is also that of those behind it.
    ways: Vec<Vec<Span>>,
    priority: Priority,
}

enum Source {
    Blocks(Vec<(String, Blocks)>),
    Jobs(JobFile),
}

impl Model<'_> {
    /// What the model says, or why it cannot.
    pub(crate) fn predict(
        &self,
        benchmark: &Benchmark,
        entry: &Entry,
        depth: u32,
        hidden: bool,
    ) -> Result<Predicted, String> {
        let (programs, foreground) = self.programs(benchmark)?;
        let workload = Modelled {
            what: benchmark.describe(&self.size),
            programs,
            starts: starts(entry.outcomes.first()),
            ways: entry.ways.iter().map(|way| way.iter().map(span).collect()).collect(),
            priority: Priority { class: PriorityClass::BestEffort, level: self.level },
        };
        let name = entry.scheduler.in_the_model();
        let spec =
            Spec::parse_in(self.catalogue, &name).map_err(|error| format!("{}: {error}", entry.scheduler))?;
        let plan = Plan {
            workload: &workload,
            device: self.device,
            schedulers: &[spec],
            options: Options {
                depth,
                identity: identity(&entry.scheduler, hidden),
                max_sectors: LONGEST,
                ..Options::default()
            },
            at_most: Some(Span::from_nanos(benchmark.at_most(&self.size).as_nanos() as u64)),
            picture: 0,
            explain: None,
        };
        let run = run_plan(&plan, &|_| ())?.pop().ok_or("interrupted")?;
        if let Some(failure) = run.failure {
            return Err(failure);
        }
        let counts = |name: &String| foreground.is_empty() || foreground.contains(name);
        let of: Vec<_> = run.measured.processes.iter().filter(|process| counts(&process.name)).collect();
        let requests: u64 = of.iter().map(|process| process.latency.count).sum();
        Ok(Predicted {
            megabytes_per_second: run.measured.megabytes_per_second(),
            operations_per_second: requests as f64 * 1e9 / run.measured.elapsed_ns.max(1) as f64,
            longest_wait_ns: of.iter().map(|process| process.latency.max_ns).max().unwrap_or(0),
        })
    }

    /// The kinds of requests (bytes, whether they write) of a benchmark's programs that the model can run, one a program.
    pub(crate) fn requests(&self, benchmark: &Benchmark) -> Vec<(u64, bool)> {
        match self.programs(benchmark) {
            Ok((Source::Blocks(all), _)) => {
                all.iter().map(|(_, blocks)| (blocks.block_bytes, blocks.writes)).collect()
            }
            Ok((Source::Jobs(_), _)) => vec![(4096, false)],
            Err(_) => Vec::new(),
        }
    }

    /// The programs, and the names of those in the foreground (none: all).
    fn programs(&self, benchmark: &Benchmark) -> Result<(Source, Vec<String>), String> {
        let told = |error: &dyn std::fmt::Display| error.to_string();
        if let Benchmark::Fio(job) = benchmark {
            let text = std::fs::read_to_string(job).map_err(|e| told(&e))?;
            let jobs = JobFile::parse(&job.display().to_string(), &text).map_err(|e| told(&e))?;
            return Ok((Source::Jobs(jobs), Vec::new()));
        }
        let nowhere = Path::new("");
        let programs = benchmark.programs(&self.size, nowhere, nowhere, nowhere).map_err(|e| told(&e))?;
        let foreground = programs.iter().filter(|it| !it.background).map(|it| it.name.clone()).collect();
        let blocks = programs.into_iter().map(|it| match it.task {
            Task::Blocks(blocks) if blocks.direct => Ok((it.name, blocks)),
            _ => Err(format!(
                "{}: its programs go through the page cache, which is not modelled here yet",
                benchmark.name()
            )),
        });
        Ok((Source::Blocks(blocks.collect::<Result<_, _>>()?), foreground))
    }
}

fn span(duration: &std::time::Duration) -> Span {
    Span::from_nanos(duration.as_nanos() as u64)
}

/// When programs began after the first of them.
fn starts(outcome: Option<&Outcome>) -> Vec<Span> {
    let began: Vec<u64> =
        outcome.into_iter().flat_map(|outcome| &outcome.tasks).map(|task| task.began_ns).collect();
    let first = began.iter().copied().min().unwrap_or(0);
    began.into_iter().map(|began| Span::from_nanos(began - first)).collect()
}

/// Who a scheduler takes for the issuer. A loop device submits what it gets by one worker, which the kernel's elevators take for
/// a process; Dwell's schedulers, behind FUSE, are told of nobody.
fn identity(scheduler: &Scheduler, hidden: bool) -> Identity {
    match (scheduler.is_kernel(), hidden) {
        (false, _) => Identity::Hidden,
        (true, true) => Identity::Same,
        (true, false) => Identity::Shown,
    }
}

impl Workload for Modelled {
    fn describe(&self) -> String {
        self.what.clone()
    }

    fn end(&self) -> Sector {
        match &self.programs {
            Source::Jobs(jobs) => jobs.end(),
            Source::Blocks(all) => {
                let ends = all.iter().map(|(_, blocks)| blocks.start_bytes + blocks.bytes);
                Sector(ends.max().unwrap_or(0) / 512)
            }
        }
    }

    fn processes(&self) -> Vec<(Who, Box<dyn Program>)> {
        let processes: Vec<(Who, Box<dyn Program>)> = match &self.programs {
            Source::Jobs(jobs) => jobs.processes(),
            Source::Blocks(all) => all
                .iter()
                .enumerate()
                .map(|(n, (name, blocks))| {
                    let who = Who { priority: self.priority, ..Who::process(n as u32 + 1, name.clone()) };
                    (who, program(blocks.clone()))
                })
                .collect(),
        };
        let start = |n: usize| self.starts.get(n).copied().unwrap_or(Span::ZERO);
        let ways = |n: usize| self.ways.get(n).or(self.ways.last()).cloned().unwrap_or_default();
        let on_the_way = |(n, (who, program))| {
            (who, Box::new(OnTheWay::new(program, start(n), ways(n), n)) as Box<dyn Program>)
        };
        processes.into_iter().enumerate().map(on_the_way).collect()
    }
}

/// The same requests as the real program's.
fn program(blocks: Blocks) -> Box<dyn Program> {
    let count = blocks.bytes / blocks.block_bytes;
    let mut random = Random::new(if let Order::Random(seed) = blocks.order { seed } else { 0 });
    let think = Span::from_nanos(blocks.think.as_nanos() as u64);
    script((0..count).flat_map(move |n| {
        let block = if matches!(blocks.order, Order::Random(_)) { random.below(count) } else { n };
        let start = blocks.start_bytes + block * blocks.block_bytes;
        let think = (think > Span::ZERO).then_some(Next::Think(think));
        requests(start, blocks.block_bytes, blocks.writes).chain([Next::Await(Await::All)]).chain(think)
    }))
}

/// One system call's requests.
fn requests(start: u64, bytes: u64, writes: bool) -> impl Iterator<Item = Next> {
    let (op, flags) = match writes {
        true => (Op::Write, Flags { sync: true, ..Flags::default() }),
        false => (Op::Read, Flags::default()),
    };
    (0..bytes).step_by(LONGEST.bytes() as usize).map(move |from| {
        let sectors = Sectors::from_bytes((bytes - from).min(LONGEST.bytes()));
        Next::Submit(Io { op, start: Sector((start + from) / 512), sectors, flags })
    })
}

/// A program that begins later, and whose requests have a way to go.
struct OnTheWay {
    program: Box<dyn Program>,
    start: Option<Span>,
    /// Times of that way, each as likely as any other.
    ways: Vec<Span>,
    random: Random,
    awaited: bool,
}

impl OnTheWay {
    fn new(program: Box<dyn Program>, start: Span, ways: Vec<Span>, number: usize) -> Self {
        let random = Random::new(number as u64 + 1);
        Self { program, start: Some(start), ways, random, awaited: false }
    }
}

impl Program for OnTheWay {
    fn next(&mut self, now: Time) -> Next {
        if let Some(start) = self.start.take() {
            return Next::Think(start);
        }
        if std::mem::take(&mut self.awaited) && !self.ways.is_empty() {
            return Next::Think(self.ways[self.random.below(self.ways.len() as u64) as usize]);
        }
        let next = self.program.next(now);
        self.awaited = matches!(next, Next::Await(_));
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_await_is_followed_by_the_way_and_nothing_else_is() {
        let io = || Next::Submit(Io::read(Sector(0), Sectors(8)));
        let inner = script([io(), Next::Await(Await::All), io()]);
        let (start, way) = (Span::from_millis(3), Span::from_micros(60));
        let mut program = OnTheWay::new(inner, start, vec![way], 0);
        let mut next = || program.next(Time::ZERO);
        assert!(matches!(next(), Next::Think(span) if span == start));
        assert!(matches!(next(), Next::Submit(_)));
        assert!(matches!(next(), Next::Await(_)));
        assert!(matches!(next(), Next::Think(span) if span == way));
        assert!(matches!(next(), Next::Submit(_)));
        assert!(matches!(next(), Next::Exit));
    }

    #[test]
    fn what_is_longer_than_a_request_is_split_as_the_kernel_does() {
        let split: Vec<(u64, u32)> = requests(4096, 1 << 20, true)
            .map(|next| match next {
                Next::Submit(io) => (io.start.0, io.sectors.0),
                _ => unreachable!("requests only"),
            })
            .collect();
        assert_eq!(split, [(8, 1024), (1032, 1024)]);
        assert_eq!(requests(0, 4096, false).count(), 1);
    }

    #[test]
    fn who_is_seen_is_what_a_loop_device_shows() {
        let (kernel, ours) = ("kernel:bfq".parse().unwrap(), "stream(deadline)".parse().unwrap());
        assert_eq!(identity(&kernel, false), Identity::Shown);
        assert_eq!(identity(&kernel, true), Identity::Same);
        assert_eq!(identity(&ours, false), Identity::Hidden);
    }
}
