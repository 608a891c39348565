//! Programs with direct I/O: the same requests at the same times, each with its path latency.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::duel::{Benchmark, Blocks, Fio, Order, PARKED, Task};
use elevator::Random;
use elevator::queue::Options;
use elevator::{Flags, Op, Priority, PriorityClass, Sector, Sectors, Span, Time};
use machine::{Await, Io, Next, Program, Submitter};
use workloads::Workload;
use workloads::fio::{JobFile, JobFileError};
use workloads::program_of;

use super::{LONGEST, Model, Query};
use crate::duel::comparison::Predicted;
use crate::duel::parked_tags::{COMING, ParkedTags, SPACE};
use crate::duel::path_latency::{LatencySamples, SizeClass};
use crate::runs::{Plan, run as run_plan};
use crate::text_file;

/// The programs of a benchmark, as the model runs them.
struct Modelled {
    what: String,
    programs: Source,
    /// Start of each program, after the first.
    starts: Vec<Span>,
    /// The part of the path latency above the scheduler.
    above: Vec<SizeClass>,
    priority: Priority,
    /// Start of the parking area, if tags are parked.
    parking: Option<Sector>,
}

/// Process name of the parked reads.
const PARKED_NAME: &str = "parked";

/// Time between parked reads, and between the last of them and the first program.
const TO_PARK: Span = Span::from_millis(2);

/// The programs.
pub(super) enum Source {
    Blocks(Vec<(String, Blocks)>),
    Jobs(JobFile),
}

impl Source {
    /// The programs and the names of the foreground programs (empty: all). `None` if they use a page cache.
    pub(super) fn of(
        model: &Model<'_>,
        benchmark: &Benchmark,
    ) -> Result<Option<(Self, Vec<String>)>, String> {
        let words = |error: &dyn std::fmt::Display| error.to_string();
        if let Benchmark::Fio(job) = benchmark {
            let text = text_file::read(job, "job file").map_err(|e| words(&e))?;
            let bytes = model.device.capacity().bytes();
            let jobs = jobs(&job.display().to_string(), &text, bytes).map_err(|e| words(&e))?;
            return Ok(Some((Self::Jobs(jobs), Vec::new())));
        }
        let nowhere = Path::new("");
        let programs = benchmark.programs(&model.size, nowhere, nowhere, nowhere).map_err(|e| words(&e))?;
        let foreground = programs.iter().filter(|it| !it.background).map(|it| it.name.clone()).collect();
        let blocks = programs.into_iter().map(|it| match it.task {
            Task::Blocks(blocks) if blocks.direct => Some((it.name, blocks)),
            _ => None,
        });
        Ok(blocks.collect::<Option<_>>().map(|blocks| (Self::Blocks(blocks), foreground)))
    }

    /// Most programs that run at the same time.
    fn count(&self) -> usize {
        match self {
            Self::Blocks(all) => all.len(),
            Self::Jobs(jobs) => jobs.groups().iter().map(|group| group.len()).max().unwrap_or(0),
        }
    }
}

/// The jobs of a file as the duel runs them: all on the one device, whatever files they name.
fn jobs(file: &str, text: &str, device_bytes: u64) -> Result<JobFile, JobFileError> {
    let Fio { text, .. } = Fio::on(text, Path::new("device"), PathBuf::new());
    JobFile::parse_on_device(file, &text, device_bytes).map_err(|error| {
        let line = error.line.saturating_sub(Fio::LINES_BEFORE);
        JobFileError { line, ..error }
    })
}

/// The prediction for such programs.
pub(super) fn predict(
    model: &Model<'_>,
    query: &Query<'_>,
    (mut programs, foreground): (Source, Vec<String>),
) -> Result<Predicted, String> {
    if let (Source::Blocks(all), true) = (&mut programs, query.alone) {
        all.truncate(1);
    }
    let running = programs.count();
    if query.races && running > query.depth as usize {
        let (programs, tags) = (running, query.depth);
        return Err(format!(
            "{programs} programs compete for {tags} tags under 'none'; microseconds, which the model does not have, decide who gets one"
        ));
    }
    if query.workers && running > 1 {
        return Err(format!(
            "two kernel workers submit in turn and {} idles for each; the model has one worker",
            query.spec.name()
        ));
    }
    let workload = Modelled {
        what: query.benchmark.describe(&model.size),
        programs,
        starts: query.starts.clone(),
        above: query.size_classes(|latency| 1.0 - latency.below),
        priority: query.priority,
        parking: query.parks.then(|| query.drive.capacity()),
    };
    // The kernel makes no plug for a call of one request. Policies without that tunable ignore plugs.
    let unplugged = query.spec.clone().with_tunable("plugged", "off");
    let spec = unplugged.unwrap_or_else(|_| query.spec.clone());
    let device = query.device(|latency| latency.below);
    let (device, depth) = match query.parks {
        // Parked reads never complete before a flush, so the queue must not wait for them.
        true => (device.wrapped(Arc::new(|drive| Box::new(ParkedTags::new(drive))), Some(true)), 1 + PARKED),
        false => (device, query.depth),
    };
    let plan = Plan {
        workload: &workload,
        device: &device,
        schedulers: std::slice::from_ref(&spec),
        options: Options {
            depth,
            identity: query.identity,
            max_sectors: LONGEST,
            sync_writes: query.sync_writes,
            ..Options::default()
        },
        before: Span::ZERO,
        at_most: Some(query.at_most),
        chart_requests: 0,
        explain: None,
    };
    let run = run_plan(&plan, &|_| ())?.pop().ok_or("interrupted")?;
    if let Some(failure) = run.failure {
        return Err(failure);
    }
    let counts = |name: &String| {
        if foreground.is_empty() { name != PARKED_NAME } else { foreground.contains(name) }
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
            SizeClass::of(&self.above, Sectors::from_bytes(bytes)).to_vec()
        };
        let copied_on_submit = |n: usize| match &self.programs {
            Source::Blocks(all) => all.get(n).is_some_and(|(_, blocks)| blocks.writes),
            Source::Jobs(_) => false,
        };
        let delayed = |(n, (who, program))| {
            let program = DelayedProgram::new(program, start(n), above(n), copied_on_submit(n), n);
            (who, Box::new(program) as Box<dyn Program>)
        };
        let parked = (0..COMING).filter_map(|n| Some(parked(n, self.parking?)));
        parked.chain(processes.into_iter().enumerate().map(delayed)).collect()
    }
}

/// A process that keeps a tag busy for ever.
fn parked(n: u32, begins: Sector) -> (Submitter, Box<dyn Program>) {
    let priority = Priority { class: PriorityClass::Idle, ..Priority::default() };
    let who = Submitter { priority, ..Submitter::process(u32::MAX - n, PARKED_NAME) };
    let read = Io::read(begins + Sectors(n * SPACE), Sectors(SPACE / 2));
    (who, program_of([Next::Think(parks_at(n)), Next::Submit(read), Next::Await(Await::All)]))
}

fn parks_at(n: u32) -> Span {
    Span::from_nanos(TO_PARK.as_nanos() * u64::from(n))
}

/// A program with the same requests as the real one.
fn program(blocks: Blocks) -> Box<dyn Program> {
    let count = blocks.bytes / blocks.block_bytes;
    let mut random = Random::new(if let Order::Random(seed) = blocks.order { seed } else { 0 });
    let think = Span::from_nanos(blocks.think.as_nanos() as u64);
    program_of((0..count).flat_map(move |n| {
        let block = if matches!(blocks.order, Order::Random(_)) { random.below(count) } else { n };
        let start = blocks.start_bytes + block * blocks.block_bytes;
        let think = (think > Span::ZERO).then_some(Next::Think(think));
        requests(start, blocks.block_bytes, blocks.writes).chain([Next::Await(Await::All)]).chain(think)
    }))
}

/// The requests of one system call.
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

/// A program that starts late and whose requests take the path latency above the scheduler. Written data is copied before submission,
/// one request of a call after the other; read data is copied after completion.
struct DelayedProgram {
    program: Box<dyn Program>,
    start: Option<Span>,
    latencies: Vec<LatencySamples>,
    /// The latency comes before submission, not after completion.
    copied_on_submit: bool,
    random: Random,
    /// Start of the current wait.
    awaited: Option<Time>,
    copied: Option<Next>,
}

impl DelayedProgram {
    fn new(
        program: Box<dyn Program>,
        start: Span,
        latencies: Vec<LatencySamples>,
        copied_on_submit: bool,
        number: usize,
    ) -> Self {
        let random = Random::new(number as u64 + 1);
        Self { program, start: Some(start), latencies, copied_on_submit, random, awaited: None, copied: None }
    }

    fn of_child(&mut self, program: Box<dyn Program>) -> Self {
        let number = self.random.below(u64::from(u32::MAX)) as usize;
        Self::new(program, Span::ZERO, self.latencies.clone(), self.copied_on_submit, number)
    }

    /// Latency of a request after such a wait, if measured.
    fn latency(&mut self, waited: Span) -> Option<Span> {
        LatencySamples::draw(&self.latencies, waited, &mut self.random)
    }
}

impl Program for DelayedProgram {
    fn next(&mut self, now: Time) -> Next {
        if let Some(start) = self.start.take() {
            return Next::Think(start);
        }
        if let Some(copied) = self.copied.take() {
            return copied;
        }
        if let Some(since) = self.awaited.take()
            && !self.copied_on_submit
            && let Some(back) = self.latency(now.since(since))
        {
            return Next::Think(back);
        }
        let next = match self.program.next(now) {
            // A child has the same path.
            Next::Spawn(who, program) => Next::Spawn(who, Box::new(self.of_child(program))),
            next => next,
        };
        self.awaited = matches!(next, Next::Await(_)).then_some(now);
        if matches!(next, Next::Submit(_))
            && self.copied_on_submit
            && let Some(there) = self.latency(Span::ZERO)
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

    /// With files of their own the jobs would be laid out one after the other.
    #[test]
    fn all_jobs_run_on_the_one_device_whatever_files_they_name() {
        let text = "[global]\nrw=read\nsize=1m\ndirectory=/srv\n[a]\nnumjobs=2\n[b]\nfilename=/dev/sda\n[c]\nfilename=/dev/sdb\n";
        let parsed = jobs("mine.fio", text, 1 << 30).unwrap();
        assert_eq!((parsed.processes().len(), parsed.end()), (4, Sector(2048)));
        let wrong = jobs("mine.fio", "[a]\ndirectory=/srv\nrw=sideways\n", 1 << 30).unwrap_err();
        assert_eq!(wrong.line, 3);
    }

    fn after(latency: Span) -> LatencySamples {
        LatencySamples { waited: Span::from_micros(100), times: vec![latency], gaps: Vec::new() }
    }

    #[test]
    fn the_latency_follows_each_wait_and_nothing_else() {
        let io = || Next::Submit(Io::read(Sector(0), Sectors(8)));
        let inner = program_of([io(), Next::Await(Await::All), io()]);
        let (start, latency) = (Span::from_millis(3), Span::from_micros(60));
        let mut program = DelayedProgram::new(inner, start, vec![after(latency)], false, 0);
        let mut next = || program.next(Time::ZERO);
        assert!(matches!(next(), Next::Think(span) if span == start));
        assert!(matches!(next(), Next::Submit(_)));
        assert!(matches!(next(), Next::Await(_)));
        assert!(matches!(next(), Next::Think(span) if span == latency));
        assert!(matches!(next(), Next::Submit(_)));
        assert!(matches!(next(), Next::Exit));
    }

    #[test]
    fn the_requests_of_a_write_are_copied_one_after_the_other() {
        let inner = program_of(requests(0, 1 << 20, true).chain([Next::Await(Await::All)]));
        let mut program =
            DelayedProgram::new(inner, Span::ZERO, vec![after(Span::from_micros(300))], true, 0);
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
    fn calls_longer_than_a_request_are_split_as_in_the_kernel() {
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
