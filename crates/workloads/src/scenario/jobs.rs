//! fio job files as scripts: buffered jobs run through the modelled page cache.

use std::collections::BTreeMap;

use toml::Spanned;

use super::Scenario;
use super::page::{Page, Process};
use super::place::Source;
use super::step::Step;
use crate::contents::Contents;
use crate::fio::{Job, JobFile};
use crate::programs::fio::FioJob;
use crate::programs::units::Delay;

impl Scenario {
    /// A job file's jobs. The files that they name, or have for themselves, are on the disk already, as fio lays them out
    /// before it begins.
    #[must_use]
    pub fn of_jobs(jobs: &JobFile) -> Self {
        let mut lengths: BTreeMap<String, u64> = BTreeMap::new();
        for job in jobs.jobs() {
            let length = lengths.entry(file(job)).or_default();
            *length = (*length).max(job.file_offset.saturating_add(job.region_bytes));
        }
        let mut contents = Contents::default();
        for (name, length) in &lengths {
            contents.file(name, *length);
        }
        let process = |(number, job): (usize, &Job)| {
            let step =
                Step::Fio(Box::new(FioJob { job: job.clone(), file: file(job), number: number as u64 }));
            let process = Process {
                name: job.name.clone(),
                copies: 1,
                beside: false,
                after: Delay(job.start_delay),
                priority: Some(job.priority.level),
                class: job.priority.class,
                guest: None,
                rate: None,
                fsync_deadline: None,
                steps: vec![Spanned::new(0..0, step)],
            };
            Spanned::new(0..0, process)
        };
        let page = Page {
            about: crate::Workload::describe(jobs),
            process: jobs.jobs().iter().enumerate().map(process).collect(),
            ..Page::default()
        };
        Self { page, contents, scale: 1.0, source: Source::default() }
    }
}

/// The file that a job works on.
fn file(job: &Job) -> String {
    let name = job.filename.as_deref().unwrap_or(&job.name);
    format!("/{}", name.trim_start_matches('/'))
}
