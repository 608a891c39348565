//! The papers' experiments as scripts on the modelled machine, compared with the published values.

mod figure;
mod judge;
mod print;
mod published;
mod report;

use schedulers::Spec;
use workloads::scenario::{Paper, Scenario, papers};

use super::tasks::{Kept, Task, Work};
use super::{Selection, costs};
use crate::error::Error;
use crate::run_setup::{Overrides, RunSetup};
use figure::Runs;
use judge::{Row, Shape};
pub(super) use print::{entry, json, text, verdicts};
pub(super) use report::html;

/// An experiment, before it is run.
pub(super) struct Experiment {
    script: &'static str,
    text: &'static str,
    /// The name of the drive, if the experiment runs on another one than the script's.
    on: Option<String>,
    setup: RunSetup,
    paper: Paper,
}

impl Experiment {
    fn name(&self) -> String {
        named(self.script, self.on.as_deref())
    }
}

/// The name of a script on its own drive or on another.
fn named(script: &str, on: Option<&str>) -> String {
    on.map_or_else(|| script.to_owned(), |on| format!("{script}, {on}"))
}

/// An experiment that ran, completely or in part.
pub(super) struct Done {
    about: String,
    on: Option<String>,
    scale: f64,
    paper: Paper,
    machine: String,
    drive: String,
    runs: Runs,
    rows: Vec<Row>,
    shapes: Vec<Shape>,
}

impl Done {
    /// Whether each scheduler has a result: an interruption leaves some out.
    pub(super) fn is_complete(&self) -> bool {
        self.runs.len() == self.paper.schedulers.len()
    }

    /// The experiment, and the drive if it is not the script's.
    fn title(&self) -> String {
        named(&self.paper.experiment, self.on.as_deref())
    }
}

/// The selected experiments; empty if no name matches.
pub(super) fn experiments(selection: &Selection) -> Result<Vec<Experiment>, Error> {
    let mut experiments = Vec::new();
    for (script, text) in scripts(selection) {
        let open = |scale| Scenario::parse(script, text, scale).map_err(|e| Error::Failed(e.to_string()));
        let scenario = open(selection.scale.unwrap_or(1.0))?;
        let Some(paper) = scenario.script.paper else { continue };
        let scale = selection.scale.unwrap_or_else(|| paper.scale.min(1.0));
        let others = paper.on.iter().map(|(word, drive)| (Some(word.as_str()), Some(drive.as_str())));
        for (on, drive) in std::iter::once((None, None)).chain(others) {
            if selection.wants(&named(script, on)) {
                let setup = RunSetup::open(open(scale)?, Overrides { drive, ..Overrides::default() })?;
                let (on, paper) = (on.map(str::to_owned), paper.clone());
                experiments.push(Experiment { script, text, on, setup, paper });
            }
        }
    }
    Ok(experiments)
}

/// The names of all experiments of the paper.
pub(super) fn names(selection: &Selection) -> impl Iterator<Item = &'static str> {
    scripts(selection).map(|(name, _)| name)
}

fn scripts(selection: &Selection) -> impl Iterator<Item = (&'static str, &'static str)> {
    let wanted = match selection.paper {
        super::Paper::Cooperative => Some("cooperative"),
        super::Paper::Stream => Some("stream"),
        super::Paper::Split => Some("split"),
        super::Paper::Benchmarks2003 => Some("benchmarks-2003"),
        super::Paper::Ioanalyzer => Some("ioanalyzer"),
        super::Paper::All => None,
    };
    let of = move |name: &str| wanted.is_none_or(|wanted| name.split('/').next() == Some(wanted));
    papers::SCRIPTS.iter().copied().filter(move |(name, _)| of(name))
}

/// A task for each experiment and scheduler.
pub(super) fn tasks(experiments: &[Experiment]) -> Result<Vec<Task<'_>>, Error> {
    let mut tasks = Vec::new();
    for experiment in experiments {
        let (name, Experiment { text, setup, paper, .. }) = (experiment.name(), experiment);
        for scheduler in paper.schedulers.values() {
            let spec = Spec::parse(scheduler).map_err(|e| Error::Failed(e.to_string()))?;
            let scale = setup.scenario.scale;
            let machine = &setup.machine;
            tasks.push(Task {
                name: format!("{name} under {spec}"),
                settings: format!("{text}\n{machine:?}\n{}\n{scheduler}\n{scale}", setup.device.describe()),
                cost: costs::expected(&name, scheduler, scale / paper.scale),
                work: Work::Script { setup, spec },
            });
        }
    }
    Ok(tasks)
}

/// The judged results; `results` are in the order of the tasks.
pub(super) fn judged(
    experiments: &[Experiment],
    results: &mut impl Iterator<Item = Option<Kept>>,
) -> Vec<Done> {
    let done = experiments.iter().map(|experiment| {
        let words = experiment.paper.schedulers.keys();
        let outcome = |(word, kept): (&String, Option<Kept>)| match kept {
            Some(Kept::Outcome(outcome)) => Some((word.clone(), *outcome)),
            _ => None,
        };
        let runs: Runs = words.zip(results.by_ref()).filter_map(outcome).collect();
        let (rows, shapes) = judge::judge(&experiment.paper, experiment.on.as_deref(), &runs);
        Done {
            about: experiment.setup.scenario.script.about.clone(),
            on: experiment.on.clone(),
            scale: experiment.setup.scenario.scale,
            paper: experiment.paper.clone(),
            machine: experiment.setup.machine.name.clone(),
            drive: experiment.setup.device.describe(),
            runs,
            rows,
            shapes,
        }
    });
    done.collect()
}
