//! fio job files, as far as a model of requests or of system calls can apply them.
//!
//! Every option is applied, accepted without effect (with a note), or rejected with the reason; [`OPTIONS`] lists them. A job that
//! uses the page cache (`direct=0`, fio's default) needs the modelled kernel,
//! [`Scenario::of_jobs`](crate::scenario::Scenario::of_jobs); at the level of requests it runs as direct I/O.

mod distribution;
mod draft;
mod job;
mod options;
mod parse;
mod program;
mod random_map;
mod run;
mod sections;
mod sequence;
mod turns;
mod values;

use std::rc::Rc;

use elevator::{Priority, Process, Sector, Span};
use machine::{Next, Program, Submitter};

pub use job::{Batch, BlockSizes, Distribution, Ends, Job, Pattern, Region, Sequencer, Service, ThinkTime};
pub use options::{OPTIONS, Support};
pub use parse::JobFileError;
pub(crate) use run::{NAP, Run, Start};
pub(crate) use sequence::{Access, Sequence, Sync};

use crate::steps::program_of;
use crate::workload::{Processes, Workload};

/// Names that a message lists before it counts the others.
const LISTED: usize = 8;

fn listed(all: &[String], separator: &str) -> String {
    let first = all[..all.len().min(LISTED)].join(separator);
    match all.len().saturating_sub(LISTED) {
        0 => first,
        more => format!("{first}{separator}and {more} more"),
    }
}

/// The jobs of a job file.
#[derive(Clone, Debug)]
pub struct JobFile {
    name: String,
    jobs: Vec<Job>,
    /// Options without effect, one note each.
    pub notes: Vec<String>,
}

impl JobFile {
    /// Whether a file whose first bytes are `head` is a job file.
    #[must_use]
    pub fn begins(head: &[u8]) -> bool {
        parse::begins_with_section(head)
    }

    /// Reads a job file's text. `name` appears in errors and notes.
    ///
    /// # Errors
    /// With the line and the option, if an option is unsupported, malformed or out of range.
    pub fn parse(name: &str, text: &str) -> Result<Self, JobFileError> {
        Self::read(name, text, None)
    }

    /// The same for jobs on a device of `bytes` bytes, which jobs without a size cover, and of which percentages are.
    ///
    /// # Errors
    /// As [`JobFile::parse`].
    pub fn parse_on_device(name: &str, text: &str, bytes: u64) -> Result<Self, JobFileError> {
        Self::read(name, text, Some(bytes))
    }

    fn read(name: &str, text: &str, device_bytes: Option<u64>) -> Result<Self, JobFileError> {
        let sections = parse::sections(name, text)?;
        let mut notes = Vec::new();
        let jobs = sections::jobs(name, &sections, device_bytes, &mut notes)?;
        Ok(Self { name: name.to_owned(), jobs, notes })
    }

    /// A note on jobs that use the page cache, for a caller that runs them as requests.
    #[must_use]
    pub fn buffered(&self) -> Option<String> {
        self.note_on(
            |job| !job.direct,
            "buffered (no direct=1): runs as direct I/O at the level of requests; the modelled kernel runs it through its page cache",
        )
    }

    /// A note on jobs with a queue depth, for a caller that runs them as system calls.
    #[must_use]
    pub fn one_by_one(&self) -> Option<String> {
        self.note_on(
            |job| job.direct && job.iodepth > 1,
            "iodepth above 1: system calls wait for each other, so the depth is 1 here; at the level of requests it is applied",
        )
    }

    /// A note on a file whose jobs all discard.
    #[must_use]
    pub fn only_discards(&self) -> Option<String> {
        self.jobs.iter().all(|job| job.trims && job.reads_percent == 0 && !job.writes_trimmed).then(|| {
            format!(
                "{}: every job discards: a discard moves no data, so that MB/s is 0; a modelled hard disk takes no time for it, a solid-state drive does (ssd-sata)",
                self.name
            )
        })
    }

    fn note_on(&self, of: impl Fn(&Job) -> bool, what: &str) -> Option<String> {
        let names: Vec<String> =
            self.jobs.iter().filter(|job| of(job)).map(|job| format!("[{}]", job.name)).collect();
        (!names.is_empty()).then(|| format!("{}: {}: {what}", self.name, listed(&names, ", ")))
    }

    /// Gives all jobs other random numbers: another set for each `number`; 0 leaves them unchanged.
    pub fn reseed(&mut self, number: u64) {
        for job in &mut self.jobs {
            job.seed = job.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17));
        }
    }

    /// The jobs, each clone by itself.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// How long the jobs last if each has a runtime and nothing else ends them.
    #[must_use]
    pub fn runtime(&self) -> Option<Span> {
        let of_group = |group: &[Job]| {
            let mut each = group.iter().map(|job| Some(job.runtime? + job.start_delay));
            each.try_fold(Span::ZERO, |longest, own| Some(longest.max(own?)))
        };
        // A chain of jobs that wait for each other lasts at most as long as all of them together.
        if self.jobs.iter().any(|job| job.waits_for.is_some()) {
            return self.jobs.chunks(1).map(of_group).try_fold(Span::ZERO, |sum, own| Some(sum + own?));
        }
        self.groups().into_iter().map(of_group).try_fold(Span::ZERO, |sum, own| Some(sum + own?))
    }

    /// The name of each job with a runtime, and the time after its start at which the runtime ends it. A start delay counts from the start of the
    /// first jobs, so that it is not part of the time of later ones.
    #[must_use]
    pub fn runtimes(&self) -> Vec<(String, Span)> {
        let first = self.groups().first().map_or(0, |group| group.len());
        let of = |(n, job): (usize, &Job)| {
            let is_first = n < first && job.waits_for.is_none();
            let delay = if is_first { job.start_delay } else { Span::ZERO };
            Some((job.name.clone(), job.runtime? + delay))
        };
        self.jobs.iter().enumerate().filter_map(of).collect()
    }

    /// Groups of jobs that run at the same time; one group starts when the one before has ended.
    #[must_use]
    pub fn groups(&self) -> Vec<&[Job]> {
        self.jobs.chunk_by(|_, next| !next.stonewall).collect()
    }

    /// The same groups, each with the order in which its jobs start.
    pub(crate) fn stages(&self) -> Vec<Vec<Start>> {
        let mut first = 0;
        let stage = |group: &[Job]| {
            let from = first;
            first += group.len();
            Start::all(group, from)
        };
        self.groups().into_iter().map(stage).collect()
    }

    fn job(&self, n: usize, stage: usize, run: &Rc<Run>) -> (Submitter, Box<dyn Program>) {
        let job = &self.jobs[n];
        let (process, priority): (_, Priority) = (Some(Process::single(n as u32 + 1)), job.priority);
        let program = program::program(job, n as u64, stage, Rc::clone(run));
        (Submitter { process, priority, name: job.name.clone() }, program)
    }

    /// The jobs that start together, and starters for those for which others wait.
    fn start(&self, start: &Start, stage: usize, run: &Rc<Run>) -> Processes {
        let jobs = start.jobs.clone().map(|n| self.job(n, stage, run));
        if start.then.is_empty() {
            return jobs.collect();
        }
        let then = start.then.iter().flat_map(|start| self.start(start, stage, run));
        vec![starter([jobs.collect(), then.collect()])]
    }
}

/// A process that starts groups of processes, each when the one before has ended.
fn starter(groups: impl IntoIterator<Item = Processes>) -> (Submitter, Box<dyn Program>) {
    let steps = groups.into_iter().flat_map(|group| {
        let spawn = |(who, program)| Next::Spawn(who, program);
        group.into_iter().map(spawn).chain([Next::AwaitChildren])
    });
    let steps: Vec<Next> = steps.collect();
    (Submitter { process: None, priority: Priority::default(), name: "fio".to_owned() }, program_of(steps))
}

impl Workload for JobFile {
    fn describe(&self) -> String {
        let jobs: Vec<String> = self.jobs.iter().map(Job::describe).collect();
        format!("fio {}: {}", self.name, listed(&jobs, "; "))
    }

    fn end(&self) -> Sector {
        self.jobs.iter().map(Job::end).max().unwrap_or_default()
    }

    fn processes(&self) -> Processes {
        let run = Rc::default();
        let stage = |(number, starts): (usize, Vec<Start>)| -> Processes {
            starts.iter().flat_map(|start| self.start(start, number, &run)).collect()
        };
        let mut stages: Vec<Processes> = self.stages().into_iter().enumerate().map(stage).collect();
        match stages.len() {
            0 | 1 => stages.pop().unwrap_or_default(),
            _ => vec![starter(stages)],
        }
    }
}
