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
use machine::{Program, Who};

pub use job::{Job, Pattern};
pub use parse::JobFileError;
pub(crate) use sequence::Sequence;

use crate::workload::Workload;

/// The jobs of a job file.
#[derive(Clone, Debug)]
pub struct JobFile {
    name: String,
    jobs: Vec<Job>,
    /// What was read but makes no difference, or is taken differently, in words.
    pub notes: Vec<String>,
}

impl JobFile {
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

    /// A word about each job that goes through the page cache, for whoever runs it without one.
    #[must_use]
    pub fn buffered(&self) -> Vec<String> {
        let buffered = self.jobs.iter().filter(|job| !job.direct);
        buffered
            .map(|job| {
                format!(
                    "{}: [{}] is buffered (no direct=1); at the level of requests it runs as if direct, on the modelled machine (dwell run) through a page cache",
                    self.name, job.name
                )
            })
            .collect()
    }

    /// The jobs, clones counted apart.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }
}

impl Workload for JobFile {
    fn describe(&self) -> String {
        let jobs: Vec<String> = self.jobs.iter().map(Job::describe).collect();
        format!("fio {}: {}", self.name, jobs.join("; "))
    }

    fn end(&self) -> Sector {
        self.jobs.iter().map(Job::end).max().unwrap_or_default()
    }

    fn processes(&self) -> Vec<(Who, Box<dyn Program>)> {
        let jobs = self.jobs.iter().enumerate();
        jobs.map(|(n, job)| {
            let priority: Priority = job.priority;
            let process = Some(Process::single(n as u32 + 1));
            (Who { process, priority, name: job.name.clone() }, program::program(job, n as u64))
        })
        .collect()
    }
}
