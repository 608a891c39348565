//! fio job files as scripts, for the modelled kernel.

use std::collections::BTreeMap;

use elevator::{Priority, Span};
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
    /// The jobs of a job file. Their files exist with full length, as fio creates them before it starts.
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
        let fio = |(number, job): (usize, &Job)| FioJob {
            job: job.clone(),
            file: file(job),
            number: number as u64,
        };
        let mut all = jobs.jobs().iter().enumerate().map(fio);
        let process = match &jobs.groups()[..] {
            [] | [_] => all.map(alone).collect(),
            groups => {
                let groups = groups.iter().map(|group| Step::Jobs(all.by_ref().take(group.len()).collect()));
                vec![process("fio", Priority::default(), Span::ZERO, groups.collect())]
            }
        };
        let page = Page { about: crate::Workload::describe(jobs), process, ..Page::default() };
        Self { page, contents, scale: 1.0, source: Source::default() }
    }
}

/// A process for a job that waits for no other job.
fn alone(fio: FioJob) -> Spanned<Process> {
    let Job { name, priority, start_delay, .. } = fio.job.clone();
    process(&name, priority, start_delay, vec![Step::Fio(Box::new(fio))])
}

fn process(name: &str, priority: Priority, after: Span, steps: Vec<Step>) -> Spanned<Process> {
    let process = Process {
        name: name.to_owned(),
        copies: 1,
        beside: false,
        after: Delay(after),
        priority: Some(priority.level),
        class: priority.class,
        guest: None,
        rate: None,
        fsync_deadline: None,
        steps: steps.into_iter().map(|step| Spanned::new(0..0, step)).collect(),
    };
    Spanned::new(0..0, process)
}

/// The path of a job's file.
fn file(job: &Job) -> String {
    format!("/{}", job.filename.trim_start_matches('/'))
}
