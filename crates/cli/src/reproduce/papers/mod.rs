//! The papers' experiments on the modelled machine: every published value beside ours.

mod figure;
mod judge;
mod print;
mod published;
mod report;
mod tasks;

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};
use schedulers::Spec;
use workloads::scenario::{Paper, Scenario, papers};

use crate::arguments::{self, ReproduceArguments};
use crate::error::Error;
use crate::interrupt;
use crate::scene::Scene;
use figure::Runs;
use judge::{Row, Shape};
use tasks::{Store, Task};

/// An experiment, before it is run.
struct Experiment {
    name: &'static str,
    text: &'static str,
    scene: Scene,
    paper: Paper,
}

/// An experiment that was run, wholly or in part.
struct Done {
    about: String,
    paper: Paper,
    machine: String,
    drive: String,
    runs: Runs,
    rows: Vec<Row>,
    shapes: Vec<Shape>,
}

pub(super) fn run(arguments: &ReproduceArguments) -> Result<(), Error> {
    let experiments = experiments(arguments)?;
    let tasks = tasks(&experiments, arguments)?;
    let store = match &arguments.results {
        Some(directory) => Some(Store::open(directory)?),
        None => None,
    };
    let bar = bar(tasks.len() as u64);
    let results = tasks::run(&tasks, arguments.threads(), store.as_ref(), &|task| {
        bar.set_message(format!("{} under {}", task.name, task.spec));
        bar.inc(1);
    });
    bar.finish_and_clear();
    let mut results = results?.into_iter();
    let done: Vec<Done> = experiments
        .iter()
        .map(|experiment| {
            let words = experiment.paper.schedulers.keys();
            let runs: Runs =
                words.zip(results.by_ref()).filter_map(|(word, run)| Some((word.clone(), run?))).collect();
            let (rows, shapes) = judge::judge(&experiment.paper, &runs);
            Done {
                about: experiment.scene.scenario.page.about.clone(),
                paper: experiment.paper.clone(),
                machine: experiment.scene.machine.name.clone(),
                drive: experiment.scene.device.describe(),
                runs,
                rows,
                shapes,
            }
        })
        .collect();
    print::print(arguments, &done)?;
    if let Some(path) = &arguments.report {
        std::fs::write(path, report::html(arguments.scale(), &done))
            .map_err(|e| Error::file(path.display(), &e))?;
    }
    if interrupt::requested() { Err(Error::Interrupted) } else { Ok(()) }
}

/// The experiments that were asked for.
fn experiments(arguments: &ReproduceArguments) -> Result<Vec<Experiment>, Error> {
    let wanted = match arguments.paper {
        arguments::Paper::Cooperative => Some("cooperative"),
        arguments::Paper::Stream => Some("stream"),
        arguments::Paper::Split => Some("split"),
        arguments::Paper::Benchmarks2003 => Some("benchmarks-2003"),
        // The tuner's paper has experiments of its own kind; `all` is the papers that are scripts.
        arguments::Paper::Ioanalyzer => return Ok(Vec::new()),
        arguments::Paper::All => None,
    };
    let mut experiments = Vec::new();
    for &(name, text) in papers::SCRIPTS {
        let only = arguments.only.as_deref().is_none_or(|only| name.contains(only));
        if !only || wanted.is_some_and(|wanted| name.split('/').next() != Some(wanted)) {
            continue;
        }
        let scenario =
            Scenario::parse(name, text, arguments.scale()).map_err(|e| Error::Failed(e.to_string()))?;
        let Some(paper) = scenario.page.paper.clone() else { continue };
        let scene = Scene::open(scenario, None, None)?;
        experiments.push(Experiment { name, text, scene, paper });
    }
    if experiments.is_empty() {
        let known: Vec<&str> = papers::SCRIPTS.iter().map(|(name, _)| *name).collect();
        return Err(Error::Usage(format!(
            "no experiment of that paper has such a name; there are {}",
            known.join(", ")
        )));
    }
    Ok(experiments)
}

fn tasks<'a>(experiments: &'a [Experiment], arguments: &ReproduceArguments) -> Result<Vec<Task<'a>>, Error> {
    let mut tasks = Vec::new();
    for Experiment { name, text, scene, paper } in experiments {
        for scheduler in paper.schedulers.values() {
            let spec = Spec::parse(scheduler).map_err(|e| Error::Failed(e.to_string()))?;
            let settings = format!(
                "{text}\n{:?}\n{}\n{scheduler}\n{}",
                scene.machine,
                scene.device.describe(),
                arguments.scale()
            );
            tasks.push(Task { scene, name, spec, settings });
        }
    }
    Ok(tasks)
}

fn bar(tasks: u64) -> ProgressBar {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(tasks) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} (about {eta} left)") {
        bar.set_style(style);
    }
    bar
}
