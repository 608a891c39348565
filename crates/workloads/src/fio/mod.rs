//! fio job files, as far as they say what a request-level model can honour.
//!
//! Every option is either honoured, or known to make no difference here (said once, as a note), or refused with the
//! reason. A job that leaves the page cache on (`direct=0`, fio's default) needs the modelled machine above the block
//! layer, [`Scenario::of_jobs`](crate::scenario::Scenario::of_jobs); at the level of requests it is taken as if direct, and
//! that is said.

mod job;
mod parse;
mod program;
mod sequence;

use elevator::{Priority, Process, Sector};
use machine::{Next, Program, Who};

pub use job::{Job, Pattern};
pub use parse::JobFileError;
pub(crate) use sequence::Sequence;

use crate::script::script;
use crate::workload::Workload;

/// What is listed; of the others it is said how many they are.
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
    /// What was read but makes no difference, or is taken differently, in words.
    pub notes: Vec<String>,
}

impl JobFile {
    /// Whether a file that begins so is a job file.
    #[must_use]
    pub fn begins(head: &[u8]) -> bool {
        parse::begins_with_section(head)
    }

    /// Reads a job file's text. `name` stands in errors.
    ///
    /// # Errors
    /// With the line and the option, if an option cannot be honoured, is malformed, or asks for the impossible.
    pub fn parse(name: &str, text: &str) -> Result<Self, JobFileError> {
        let sections = parse::sections(name, text)?;
        let mut notes = Vec::new();
        let jobs = job::jobs(name, &sections, &mut notes)?;
        Ok(Self { name: name.to_owned(), jobs, notes })
    }

    /// A word about the jobs that go through the page cache, for whoever runs them without one.
    #[must_use]
    pub fn buffered(&self) -> Option<String> {
        self.said_of(
            |job| !job.direct,
            "buffered (no direct=1): at the level of requests as if direct, on the modelled machine (dwell run) through a page cache",
        )
    }

    /// A word about the jobs whose depth only requests can have, for whoever runs them as system calls, which wait.
    #[must_use]
    pub fn one_by_one(&self) -> Option<String> {
        self.said_of(
            |job| job.direct && job.iodepth > 1,
            "iodepth above 1: system calls wait for each other, so that it is 1 here; at the level of requests (dwell compare) it is as asked",
        )
    }

    fn said_of(&self, of: impl Fn(&Job) -> bool, what: &str) -> Option<String> {
        let names: Vec<String> =
            self.jobs.iter().filter(|job| of(job)).map(|job| format!("[{}]", job.name)).collect();
        (!names.is_empty()).then(|| format!("{}: {}: {what}", self.name, listed(&names, ", ")))
    }

    /// The jobs, clones counted apart.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// The jobs that run at the same time, one group after the other.
    #[must_use]
    pub fn groups(&self) -> Vec<&[Job]> {
        self.jobs.chunk_by(|_, next| !next.stonewall).collect()
    }

    fn job(&self, n: usize) -> (Who, Box<dyn Program>) {
        let job = &self.jobs[n];
        let (process, priority): (_, Priority) = (Some(Process::single(n as u32 + 1)), job.priority);
        (Who { process, priority, name: job.name.clone() }, program::program(job, n as u64))
    }
}

/// fio itself, which starts a group of jobs when the one before has ended.
fn starter(groups: Vec<Vec<(Who, Box<dyn Program>)>>) -> (Who, Box<dyn Program>) {
    let steps = groups.into_iter().flat_map(|group| {
        let spawn = |(who, program)| Next::Spawn(who, program);
        group.into_iter().map(spawn).chain([Next::AwaitChildren])
    });
    (Who { process: None, priority: Priority::default(), name: "fio".to_owned() }, script(steps))
}

impl Workload for JobFile {
    fn describe(&self) -> String {
        let jobs: Vec<String> = self.jobs.iter().map(Job::describe).collect();
        format!("fio {}: {}", self.name, listed(&jobs, "; "))
    }

    fn end(&self) -> Sector {
        self.jobs.iter().map(Job::end).max().unwrap_or_default()
    }

    fn processes(&self) -> Vec<(Who, Box<dyn Program>)> {
        let mut jobs = (0..self.jobs.len()).map(|n| self.job(n));
        match &self.groups()[..] {
            [] | [_] => jobs.collect(),
            groups => {
                let groups = groups.iter().map(|group| jobs.by_ref().take(group.len()).collect()).collect();
                vec![starter(groups)]
            }
        }
    }
}
