//! fio job files as scripts, for the modelled kernel.

use std::collections::BTreeMap;

use elevator::{Priority, Span};
use toml::Spanned;

use super::Scenario;
use super::place::Source;
use super::script::{Process, Script};
use super::step::Step;
use crate::contents::Contents;
use crate::fio::{Job, JobFile, Region, Start};
use crate::programs::fio::FioJob;
use crate::programs::units::Delay;

impl Scenario {
    /// The jobs of a job file. Their files exist with full length, as fio creates them before it starts.
    pub fn of_jobs(jobs: &JobFile) -> Self {
        let mut lengths: BTreeMap<String, u64> = BTreeMap::new();
        for region in jobs.jobs().iter().flat_map(|job| &job.regions) {
            let length = lengths.entry(file(region)).or_default();
            *length = (*length).max(region.file_offset.saturating_add(region.bytes));
        }
        let mut contents = Contents::default();
        for (name, length) in &lengths {
            contents.file(name, *length);
        }
        let stages = jobs.stages();
        let process = match &stages[..] {
            [starts] if starts.iter().all(|start| start.then.is_empty()) => {
                starts.iter().flat_map(|start| fio(jobs, start, 0)).map(alone).collect()
            }
            stages => {
                let steps =
                    stages.iter().enumerate().flat_map(|(number, starts)| stage(jobs, starts, number));
                vec![process("fio", Priority::default(), steps.collect())]
            }
        };
        let script = Script { about: crate::Workload::describe(jobs), process, ..Script::default() };
        Self { script, contents, scale: 1.0, source: Source::default() }
    }
}

/// The jobs that start together.
fn fio(jobs: &JobFile, start: &Start, stage: usize) -> Vec<FioJob> {
    let of = |number: usize| {
        let job: Job = jobs.jobs()[number].clone();
        FioJob { files: job.regions.iter().map(file).collect(), job, number: number as u64, stage }
    };
    start.jobs.clone().map(of).collect()
}

/// Starts jobs and waits until they, and those that wait for them, have ended.
fn stage(jobs: &JobFile, starts: &[Start], number: usize) -> Vec<Step> {
    let (alone, waited): (Vec<&Start>, Vec<&Start>) = starts.iter().partition(|start| start.then.is_empty());
    let chain = |start: &&Start| {
        let first = Step::Jobs(fio(jobs, start, number));
        Step::Fork([first].into_iter().chain(stage(jobs, &start.then, number)).collect())
    };
    let alone: Vec<FioJob> = alone.into_iter().flat_map(|start| fio(jobs, start, number)).collect();
    // `Step::Jobs` waits for all children, also for the forked ones.
    waited.iter().map(chain).chain([Step::Jobs(alone)]).collect()
}

/// A process for a job that waits for no other job.
fn alone(fio: FioJob) -> Spanned<Process> {
    let Job { name, priority, .. } = fio.job.clone();
    process(&name, priority, vec![Step::Fio(Box::new(fio))])
}

fn process(name: &str, priority: Priority, steps: Vec<Step>) -> Spanned<Process> {
    let process = Process {
        name: name.to_owned(),
        copies: 1,
        beside: false,
        after: Delay(Span::ZERO),
        priority: Some(priority.level),
        class: priority.class,
        guest: None,
        rate: None,
        fsync_deadline: None,
        steps: steps.into_iter().map(|step| Spanned::new(0..0, step)).collect(),
    };
    Spanned::new(0..0, process)
}

/// The path of a region's file.
fn file(region: &Region) -> String {
    format!("/{}", region.file.trim_start_matches('/'))
}
