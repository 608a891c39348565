//! `dwell reproduce`: the papers' experiments, run again, published value beside ours.

mod arrays;
mod costs;
mod ioanalyzer;
mod papers;
mod print;
mod progress;
mod store;
mod stream;
mod tasks;

use std::borrow::Cow;

use elevator::Span;
use elevator::queue::{Identity, Options};
use schedulers::Spec;
use serde::{Deserialize, Serialize};
use workloads::builtin::Builtin;
use workloads::{Settings, Workload};

use crate::arguments::{Paper, ReproduceArguments};
use crate::compare::{Plan, Run, run_plan};
use crate::device::Device;
use crate::error::{Error, can_be_written};
use crate::interrupt;
use store::Store;
use tasks::{Kept, Task, Work};

/// One figure of a paper and ours.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    /// The experiment.
    pub(crate) experiment: String,
    /// What is compared.
    pub(crate) figure: String,
    /// What was published, or what the paper's text asks for.
    pub(crate) published: String,
    /// What came out here.
    pub(crate) ours: f64,
    /// The unit of `ours`.
    pub(crate) unit: Cow<'static, str>,
    /// What must hold.
    pub(crate) expected: String,
    /// Whether it does; `None` where the figure is only reported.
    pub(crate) holds: Option<bool>,
    /// What there is to explain.
    pub(crate) note: String,
}

impl Row {
    /// A figure that must lie within bounds.
    pub(crate) fn within(
        experiment: &str,
        figure: String,
        published: &str,
        ours: f64,
        unit: &'static str,
        bounds: std::ops::RangeInclusive<f64>,
    ) -> Self {
        let shown = |bound: f64| if bound.is_finite() { (bound * 1e3).round() / 1e3 } else { bound };
        let expected = match (shown(*bounds.start()), shown(*bounds.end())) {
            (low, f64::INFINITY) => format!("at least {low}"),
            (f64::NEG_INFINITY, high) => format!("at most {high}"),
            (low, high) => format!("{low} to {high}"),
        };
        let holds = Some(bounds.contains(&ours));
        Self {
            experiment: experiment.to_owned(),
            figure,
            published: published.to_owned(),
            ours,
            unit: unit.into(),
            expected,
            holds,
            note: String::new(),
        }
    }

    /// A figure that is only reported.
    pub(crate) fn reported(
        experiment: &str,
        figure: String,
        published: &str,
        ours: f64,
        unit: &'static str,
    ) -> Self {
        let (experiment, published) = (experiment.to_owned(), published.to_owned());
        Self {
            experiment,
            figure,
            published,
            ours,
            unit: unit.into(),
            expected: "reported".to_owned(),
            holds: None,
            note: String::new(),
        }
    }

    /// The same with a word of explanation.
    pub(crate) fn noting(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

/// What an experiment runs: a workload under schedulers, on a drive, with the queue in some way.
pub(crate) struct Bench<'a> {
    pub(crate) device: &'a Device,
    pub(crate) identity: Identity,
    pub(crate) depth: u32,
    pub(crate) at_most: Option<Span>,
}

impl Bench<'_> {
    /// Runs a workload under each scheduler; the runs stand in the order of the names.
    pub(crate) fn run(&self, workload: &dyn Workload, names: &[&str]) -> Result<Vec<Run>, Error> {
        let specs = names.iter().map(|name| Spec::parse(name).map_err(|e| Error::Failed(e.to_string())));
        let specs = specs.collect::<Result<Vec<_>, _>>()?;
        let options = Options { identity: self.identity, depth: self.depth, ..Options::default() };
        let plan = Plan {
            workload,
            device: self.device,
            schedulers: &specs,
            options,
            at_most: self.at_most,
            picture: 0,
            explain: None,
        };
        let runs = run_plan(&plan, &|_| {}).map_err(Error::Failed)?;
        match runs.iter().find_map(|run| run.failure.as_ref().map(|failure| (&run.scheduler, failure))) {
            Some((scheduler, failure)) => Err(Error::Failed(format!("{scheduler}: {failure}"))),
            None if interrupt::requested() => Err(Error::Interrupted),
            None => Ok(runs),
        }
    }
}

/// A built-in workload with settings.
fn workload(name: &str, settings: &[(&str, String)]) -> Result<Box<dyn Workload>, Error> {
    let settings: Settings = settings.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    let builtin = Builtin::named(name).ok_or_else(|| Error::Failed(format!("no workload '{name}'")))?;
    builtin.build(&settings).map_err(|e| Error::Failed(e.to_string()))
}

/// Throughput of one run over another's.
fn ratio(of: &Run, over: &Run) -> f64 {
    of.measured.megabytes_per_second() / over.measured.megabytes_per_second().max(f64::MIN_POSITIVE)
}

/// An experiment: a name and what it measures.
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    pub(crate) run: fn(scale: f64) -> Result<Vec<Row>, Error>,
}

/// Experiments that compare schedulers themselves, not as scripts.
struct Kind {
    name: &'static str,
    experiments: &'static [Experiment],
    /// Unless another is asked for.
    scale: f64,
}

const REQUESTS: Kind = Kind { name: "stream, requests", experiments: stream::EXPERIMENTS, scale: 0.0625 };
const ARRAYS: Kind = Kind { name: "stream, arrays", experiments: arrays::EXPERIMENTS, scale: 0.0625 };
const IOANALYZER: Kind = Kind { name: "ioanalyzer", experiments: ioanalyzer::EXPERIMENTS, scale: 0.25 };

/// An experiment of a [`Kind`].
struct Whole {
    kind: &'static str,
    experiment: &'static Experiment,
    scale: f64,
}

impl Whole {
    fn name(&self) -> String {
        format!("{}/{}", self.kind, self.experiment.name)
    }

    fn task(&self, default_scale: f64) -> Task<'static> {
        let name = self.name();
        Task {
            work: Work::Whole { run: self.experiment.run, scale: self.scale },
            settings: format!("{name}\n{}", self.scale),
            cost: costs::expected(&name, "", self.scale / default_scale),
            name,
        }
    }
}

pub(crate) fn run(arguments: &ReproduceArguments) -> Result<(), Error> {
    let kinds: &[Kind] = match arguments.paper {
        Paper::Stream if arguments.single_disk => &[REQUESTS],
        Paper::Stream if arguments.arrays => &[ARRAYS],
        _ if arguments.single_disk || arguments.arrays => {
            return Err(Error::Usage(
                "--single-disk and --arrays are the stream paper's: dwell reproduce stream --arrays"
                    .to_owned(),
            ));
        }
        Paper::Ioanalyzer => &[IOANALYZER],
        Paper::All => &[REQUESTS, ARRAYS, IOANALYZER],
        _ => &[],
    };
    let level_of_requests = arguments.single_disk || arguments.arrays;
    let scripts = if level_of_requests { Vec::new() } else { papers::experiments(arguments)? };
    let all = kinds.iter().flat_map(|kind| kind.experiments.iter().map(move |experiment| (kind, experiment)));
    let all = all.map(|(kind, experiment)| {
        let scale = arguments.scale.unwrap_or(kind.scale);
        (kind.scale, Whole { kind: kind.name, experiment, scale })
    });
    let once = |whole: &Whole| arguments.paper != Paper::All || whole.experiment.name != arrays::SCRIPTED;
    let wholes: Vec<(f64, Whole)> =
        all.filter(|(_, whole)| once(whole) && arguments.wants(&whole.name())).collect();
    if scripts.is_empty() && wholes.is_empty() {
        let known = kinds.iter().flat_map(|kind| kind.experiments.iter().map(|experiment| experiment.name));
        let known: Vec<&str> = papers::names(arguments).chain(known).collect();
        return Err(Error::Usage(format!(
            "--only: no experiment of that paper has that in its name; there are {}",
            known.join(", ")
        )));
    }
    let mut tasks = papers::tasks(&scripts)?;
    tasks.extend(wholes.iter().map(|(default, whole)| whole.task(*default)));
    arguments.report.as_deref().map_or(Ok(()), can_be_written)?;
    let store = arguments.results.as_deref().map(Store::open).transpose()?;
    let mut kept = tasks::run(&tasks, arguments.threads(), store.as_ref())?.into_iter();
    let done = papers::judged(&scripts, &mut kept);
    let rows: Vec<(Whole, Vec<Row>)> = wholes
        .into_iter()
        .zip(kept)
        .filter_map(|((_, whole), kept)| match kept {
            Some(Kept::Rows(rows)) => Some((whole, rows)),
            _ => None,
        })
        .collect();
    print::print(arguments, &done, &rows)?;
    if let Some(path) = &arguments.report {
        std::fs::write(path, papers::html(&done, &rows)).map_err(|e| Error::written(path.display(), &e))?;
    }
    if interrupt::requested() { Err(Error::Interrupted) } else { Ok(()) }
}
