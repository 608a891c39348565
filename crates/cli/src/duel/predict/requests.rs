//! Programs that ask the device directly: the same requests at the same times, each with a way to go.

use std::path::{Path, PathBuf};

use ::duel::{Benchmark, Blocks, Fio, Order, PARKED, Task};
use elevator::Random;
use elevator::queue::Options;
use elevator::{Flags, Op, Priority, PriorityClass, Sector, Sectors, Span, Time};
use machine::{Await, Io, Next, Program, Submitter};
use workloads::Workload;
use workloads::fio::{JobFile, JobFileError};
use workloads::script;

use super::{Asked, LONGEST, Model};
use crate::compare::{Plan, run_plan};
use crate::device::parking::{COMING, SPACE};
use crate::device::way::{Leg, Times};
use crate::duel::comparison::Predicted;
use crate::text_file;

/// The programs of a benchmark, as the model runs them.
struct Modelled {
    what: String,
    programs: Source,
    /// When each began after the first.
    starts: Vec<Span>,
    /// The part of requests' way that is above whoever schedules.
    above: Vec<Leg>,
    priority: Priority,
    /// Where requests that are parked lie, if there are any.
    parking: Option<Sector>,
}

/// The line of those who are parked.
const PARKED_THERE: &str = "parked";

/// From one of them to the next, and from the last to the first of the programs: they come one after the other.
const TO_PARK: Span = Span::from_millis(2);

/// The programs.
pub(super) enum Source {
    Blocks(Vec<(String, Blocks)>),
    Jobs(JobFile),
}

impl Source {
    /// The programs, and the names of those in the foreground (none: all); nothing if they go through a page cache.
    pub(super) fn of(
        model: &Model<'_>,
        benchmark: &Benchmark,
    ) -> Result<Option<(Self, Vec<String>)>, String> {
        let told = |error: &dyn std::fmt::Display| error.to_string();
        if let Benchmark::Fio(job) = benchmark {
            let text = text_file::read(job, "job file").map_err(|e| told(&e))?;
            let jobs = jobs(&job.display().to_string(), &text).map_err(|e| told(&e))?;
            return Ok(Some((Self::Jobs(jobs), Vec::new())));
        }
        let nowhere = Path::new("");
        let programs = benchmark.programs(&model.size, nowhere, nowhere, nowhere).map_err(|e| told(&e))?;
        let foreground = programs.iter().filter(|it| !it.background).map(|it| it.name.clone()).collect();
        let blocks = programs.into_iter().map(|it| match it.task {
            Task::Blocks(blocks) if blocks.direct => Some((it.name, blocks)),
            _ => None,
        });
        Ok(blocks.collect::<Option<_>>().map(|blocks| (Self::Blocks(blocks), foreground)))
    }

    /// How many programs there are at the same time.
    fn count(&self) -> usize {
        match self {
            Self::Blocks(all) => all.len(),
            Self::Jobs(jobs) => jobs.groups().iter().map(|group| group.len()).max().unwrap_or(0),
        }
    }
}

/// The jobs of a file as they really run: all of them on the one device, whatever files they name or do not name.
fn jobs(file: &str, text: &str) -> Result<JobFile, JobFileError> {
    let Fio { text, .. } = Fio::on(text, Path::new("device"), PathBuf::new());
    JobFile::parse(file, &text).map_err(|error| {
        let line = error.line.saturating_sub(Fio::LINES_BEFORE);
        JobFileError { line, ..error }
    })
}

/// What the model says of such programs.
pub(super) fn predict(
    model: &Model<'_>,
    asked: &Asked<'_>,
    (mut programs, foreground): (Source, Vec<String>),
) -> Result<Predicted, String> {
    if let (Source::Blocks(all), true) = (&mut programs, asked.alone) {
        all.truncate(1);
    }
    let running = programs.count();
    if asked.races && running > asked.depth as usize {
        let (programs, tags) = (running, asked.depth);
        return Err(format!(
            "{programs} programs race for {tags} tags under `none`, by microseconds that the model does not know"
        ));
    }
    if asked.workers && running > 1 {
        return Err(format!(
            "two of the kernel's workers, of which the model knows one, hand requests on by turns, and {} idles for each",
            asked.spec.name()
        ));
    }
    let workload = Modelled {
        what: asked.benchmark.describe(&model.size),
        programs,
        starts: asked.starts.clone(),
        above: asked.legs(|way| 1.0 - way.below),
        priority: asked.priority,
        parking: asked.parks.then(|| asked.drive.capacity()),
    };
    // Of a call that is one request the kernel makes no plug. Policies that do not ask have no such tunable.
    let unplugged = asked.spec.clone().with_tunable("plugged", "off");
    let spec = unplugged.unwrap_or_else(|_| asked.spec.clone());
    let device = asked.device(|way| way.below);
    let (device, depth) =
        if asked.parks { (device.with_parking(), 1 + PARKED) } else { (device, asked.depth) };
    let plan = Plan {
        workload: &workload,
        device: &device,
        schedulers: std::slice::from_ref(&spec),
        options: Options { depth, identity: asked.identity, max_sectors: LONGEST, ..Options::default() },
        at_most: Some(asked.at_most),
        picture: 0,
        explain: None,
    };
    let run = run_plan(&plan, &|_| ())?.pop().ok_or("interrupted")?;
    if let Some(failure) = run.failure {
        return Err(failure);
    }
    let counts = |name: &String| {
        if foreground.is_empty() { name != PARKED_THERE } else { foreground.contains(name) }
    };
    let of: Vec<_> = run.measured.processes.iter().filter(|process| counts(&process.name)).collect();
    let requests: u64 = of.iter().map(|process| process.latency.count).sum();
    Ok(Predicted {
        megabytes_per_second: run.measured.megabytes_per_second(),
        operations_per_second: requests as f64 * 1e9 / run.measured.elapsed_ns.max(1) as f64,
        longest_wait_ns: of.iter().map(|process| process.latency.max_ns).max().unwrap_or(0),
    })
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

    fn processes(&self) -> Vec<(Submitter, Box<dyn Program>)> {
        let processes: Vec<(Submitter, Box<dyn Program>)> = match &self.programs {
            Source::Jobs(jobs) => jobs.processes(),
            Source::Blocks(all) => all
                .iter()
                .enumerate()
                .map(|(n, (name, blocks))| {
                    let who = Submitter {
                        priority: self.priority,
                        ..Submitter::process(n as u32 + 1, name.clone())
                    };
                    (who, program(blocks.clone()))
                })
                .collect(),
        };
        let first = self.parking.map_or(Span::ZERO, |_| parks_at(COMING));
        let start = |n: usize| first + self.starts.get(n).copied().unwrap_or(Span::ZERO);
        let above = |n: usize| {
            let bytes = match &self.programs {
                Source::Blocks(all) => all.get(n).map_or(0, |(_, blocks)| blocks.block_bytes),
                Source::Jobs(_) => 0,
            };
            Leg::of(&self.above, Sectors::from_bytes(bytes)).to_vec()
        };
        let copied_there = |n: usize| match &self.programs {
            Source::Blocks(all) => all.get(n).is_some_and(|(_, blocks)| blocks.writes),
            Source::Jobs(_) => false,
        };
        let on_the_way = |(n, (who, program))| {
            let program = OnTheWay::new(program, start(n), above(n), copied_there(n), n);
            (who, Box::new(program) as Box<dyn Program>)
        };
        let parked = (0..COMING).filter_map(|n| Some(parked(n, self.parking?)));
        parked.chain(processes.into_iter().enumerate().map(on_the_way)).collect()
    }
}

/// Who keeps a tag busy for ever.
fn parked(n: u32, begins: Sector) -> (Submitter, Box<dyn Program>) {
    let priority = Priority { class: PriorityClass::Idle, ..Priority::default() };
    let who = Submitter { priority, ..Submitter::process(u32::MAX - n, PARKED_THERE) };
    let read = Io::read(begins + Sectors(n * SPACE), Sectors(SPACE / 2));
    (who, script([Next::Think(parks_at(n)), Next::Submit(read), Next::Await(Await::All)]))
}

fn parks_at(n: u32) -> Span {
    Span::from_nanos(TO_PARK.as_nanos() * u64::from(n))
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

/// A program that begins later, and whose requests have a way to go: what is written is copied on the way there, one request of a
/// call behind the other, and what is read on the way back.
struct OnTheWay {
    program: Box<dyn Program>,
    start: Option<Span>,
    /// What that way takes for a request.
    ways: Vec<Times>,
    /// Requests are copied on the way there, not on the way back.
    copied_there: bool,
    random: Random,
    /// When it began to wait for what it waits for.
    awaited: Option<Time>,
    copied: Option<Next>,
}

impl OnTheWay {
    fn new(
        program: Box<dyn Program>,
        start: Span,
        ways: Vec<Times>,
        copied_there: bool,
        number: usize,
    ) -> Self {
        let random = Random::new(number as u64 + 1);
        Self { program, start: Some(start), ways, copied_there, random, awaited: None, copied: None }
    }

    fn of_child(&mut self, program: Box<dyn Program>) -> Self {
        let number = self.random.below(u64::from(u32::MAX)) as usize;
        Self::new(program, Span::ZERO, self.ways.clone(), self.copied_there, number)
    }

    /// What a request's way takes after such a wait, if that was measured.
    fn way(&mut self, waited: Span) -> Option<Span> {
        Times::draw(&self.ways, waited, &mut self.random)
    }
}

impl Program for OnTheWay {
    fn next(&mut self, now: Time) -> Next {
        if let Some(start) = self.start.take() {
            return Next::Think(start);
        }
        if let Some(copied) = self.copied.take() {
            return copied;
        }
        if let Some(since) = self.awaited.take()
            && !self.copied_there
            && let Some(back) = self.way(now.since(since))
        {
            return Next::Think(back);
        }
        let next = match self.program.next(now) {
            // Whom it starts has the same way to go.
            Next::Spawn(who, program) => Next::Spawn(who, Box::new(self.of_child(program))),
            next => next,
        };
        self.awaited = matches!(next, Next::Await(_)).then_some(now);
        if matches!(next, Next::Submit(_))
            && self.copied_there
            && let Some(there) = self.way(Span::ZERO)
        {
            self.copied = Some(next);
            return Next::Think(there);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of their own, they would lie one behind the other.
    #[test]
    fn jobs_that_name_no_file_or_others_are_all_on_the_one_device() {
        let text = "[global]\nrw=read\nsize=1m\ndirectory=/srv\n[a]\nnumjobs=2\n[b]\nfilename=/dev/sda\n[c]\nfilename=/dev/sdb\n";
        let parsed = jobs("mine.fio", text).unwrap();
        assert_eq!((parsed.processes().len(), parsed.end()), (4, Sector(2048)));
        let wrong = jobs("mine.fio", "[a]\ndirectory=/srv\nrw=sideways\n").unwrap_err();
        assert_eq!(wrong.line, 3);
    }

    fn after(way: Span) -> Times {
        Times { waited: Span::from_micros(100), times: vec![way], turns: Vec::new() }
    }

    #[test]
    fn every_await_is_followed_by_the_way_and_nothing_else_is() {
        let io = || Next::Submit(Io::read(Sector(0), Sectors(8)));
        let inner = script([io(), Next::Await(Await::All), io()]);
        let (start, way) = (Span::from_millis(3), Span::from_micros(60));
        let mut program = OnTheWay::new(inner, start, vec![after(way)], false, 0);
        let mut next = || program.next(Time::ZERO);
        assert!(matches!(next(), Next::Think(span) if span == start));
        assert!(matches!(next(), Next::Submit(_)));
        assert!(matches!(next(), Next::Await(_)));
        assert!(matches!(next(), Next::Think(span) if span == way));
        assert!(matches!(next(), Next::Submit(_)));
        assert!(matches!(next(), Next::Exit));
    }

    #[test]
    fn what_is_written_arrives_one_copy_after_the_other() {
        let inner = script(requests(0, 1 << 20, true).chain([Next::Await(Await::All)]));
        let mut program = OnTheWay::new(inner, Span::ZERO, vec![after(Span::from_micros(300))], true, 0);
        let mut next = || program.next(Time::ZERO);
        assert!(matches!(next(), Next::Think(Span::ZERO)));
        for _ in 0..2 {
            assert!(matches!(next(), Next::Think(span) if span == Span::from_micros(300)));
            assert!(matches!(next(), Next::Submit(_)));
        }
        assert!(matches!(next(), Next::Await(_)));
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
}
