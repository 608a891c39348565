//! The papers' experiments (`dwell reproduce`): each result beside the published value.
//!
//! | modules | experiments |
//! |---|---|
//! | `scripts` | programs with system calls on the modelled machine (scripts in `workloads/experiments`) |
//! | `stream`, `arrays` | the stream paper at the level of requests: one disk, disk arrays |
//! | `ioanalyzer` | the tuner's paper |
//! | `docs` | the tables of docs/reproduction, made from a file of results |
//! | `tasks`, `store`, `costs`, `progress` | parallel runs, stored results, expected times |
//! | `verdict`, `judge` in `scripts`, [`Row`] | which results agree with the paper, and how they count |

mod arrays;
mod costs;
mod docs;
mod ioanalyzer;
mod print;
mod progress;
mod scripts;
mod store;
mod stream;
mod tasks;
mod verdict;

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use elevator::Span;
use elevator::queue::{Identity, Options};
use schedulers::Spec;
use serde::{Deserialize, Serialize};
use workloads::builtin::Builtin;
use workloads::{Settings, Workload};

use crate::device::Device;
use crate::error::Error;
use crate::interrupt;
use crate::runs::{Plan, Run, run as run_plan};
use store::Store;
use tasks::{Kept, Task, Work};
use verdict::Verdict;

/// A result with the published value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub experiment: String,
    /// The compared quantity.
    pub figure: String,
    /// The published value, or the statement of the paper's text.
    pub published: String,
    /// Our result.
    pub ours: f64,
    /// The unit of `ours`.
    pub unit: Cow<'static, str>,
    /// The range that agrees with the paper.
    pub expected: String,
    /// Whether `ours` is in the range; `None` if the figure is only reported.
    pub holds: Option<bool>,
    /// The verdict on a published value; `None` for a check with bounds of our own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<Verdict>,
    /// The name under which the published value counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) counts_as: Option<String>,
    /// An explanation.
    pub note: String,
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
            verdict: None,
            counts_as: None,
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
            verdict: None,
            counts_as: None,
            note: String::new(),
        }
    }

    /// Judges `ours` as a published value of that paper, which counts once under that name.
    pub(crate) fn counting_as(mut self, value: &str, (verdict, expected): (Verdict, String)) -> Self {
        self.holds = Some(verdict == Verdict::Holds);
        (self.verdict, self.expected) = (Some(verdict), expected);
        self.counts_as = Some(value.to_owned());
        self
    }

    /// Adds an explanation.
    pub(crate) fn noting(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

/// The device and queue on which an experiment compares schedulers.
pub(crate) struct Bench<'a> {
    pub device: &'a Device,
    pub identity: Identity,
    pub depth: u32,
    pub at_most: Option<Span>,
}

impl Bench<'_> {
    /// Runs a workload under each scheduler; the runs are in the order of the names.
    pub fn run(&self, workload: &dyn Workload, names: &[&str]) -> Result<Vec<Run>, Error> {
        let specs = names.iter().map(|name| Spec::parse(name).map_err(|e| Error::Failed(e.to_string())));
        let specs = specs.collect::<Result<Vec<_>, _>>()?;
        let options = Options { identity: self.identity, depth: self.depth, ..Options::default() };
        let plan = Plan {
            workload,
            device: self.device,
            schedulers: &specs,
            options,
            before: Span::ZERO,
            at_most: self.at_most,
            chart_requests: 0,
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

/// Throughput of `of` over that of `over`.
fn ratio(of: &Run, over: &Run) -> f64 {
    of.measured.megabytes_per_second() / over.measured.megabytes_per_second().max(f64::MIN_POSITIVE)
}

/// An experiment: a name and a function that returns its rows.
pub(crate) struct Experiment {
    pub name: &'static str,
    pub run: fn(scale: f64) -> Result<Vec<Row>, Error>,
}

/// Experiments that compare schedulers in code, not as scripts.
struct Suite {
    name: &'static str,
    experiments: &'static [Experiment],
    /// The default.
    scale: f64,
}

const REQUESTS: Suite = Suite { name: "stream, requests", experiments: stream::EXPERIMENTS, scale: 0.0625 };
const ARRAYS: Suite = Suite { name: "stream, arrays", experiments: arrays::EXPERIMENTS, scale: 0.0625 };
const IOANALYZER: Suite = Suite { name: "ioanalyzer", experiments: ioanalyzer::EXPERIMENTS, scale: 0.1 };

struct SuiteExperiment {
    suite: &'static str,
    experiment: &'static Experiment,
    scale: f64,
}

impl SuiteExperiment {
    fn name(&self) -> String {
        format!("{}/{}", self.suite, self.experiment.name)
    }

    fn task(&self, default_scale: f64) -> Task<'static> {
        let name = self.name();
        Task {
            work: Work::Suite { run: self.experiment.run, scale: self.scale },
            settings: format!("{name}\n{}", self.scale),
            cost: costs::expected(&name, "", self.scale / default_scale),
            name,
        }
    }
}

/// Papers whose experiments can be run again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paper {
    /// Cooperative anticipatory scheduling (OLS 2005).
    Cooperative,
    /// Stream scheduling (FAST 2011).
    Stream,
    /// Automatic I/O scheduler selection (MASCOTS 2012).
    Ioanalyzer,
    /// Split-level scheduling (SOSP 2015).
    Split,
    /// The benchmarks of the anticipatory scheduler (February 2003).
    Benchmarks2003,
    /// All of them.
    All,
}

/// The part of the stream paper that runs at the level of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestLevel {
    /// The experiments on one disk.
    SingleDisk,
    /// The experiments on disk arrays, and beyond the paper.
    Arrays,
}

/// The experiments to run, and their options.
#[derive(Clone, Debug)]
pub struct Selection {
    pub paper: Paper,
    /// Only this part of the stream paper.
    pub request_level: Option<RequestLevel>,
    /// Only experiments whose names contain this text.
    pub only: Option<String>,
    /// Size of data, operations and memory, 1 being the paper's; `None`: each experiment's default.
    pub scale: Option<f64>,
    /// Directory of stored results.
    pub results: Option<PathBuf>,
    /// Threads; results do not depend on the number.
    pub threads: usize,
}

impl Selection {
    fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| name.contains(only))
    }

    fn suites(&self) -> Result<&'static [Suite], Error> {
        Ok(match (self.paper, self.request_level) {
            (Paper::Stream, Some(RequestLevel::SingleDisk)) => &[REQUESTS],
            (Paper::Stream, Some(RequestLevel::Arrays)) => &[ARRAYS],
            (_, Some(_)) => {
                return Err(Error::Usage(
                    "--single-disk and --arrays belong to the stream paper: dwell reproduce stream --arrays"
                        .to_owned(),
                ));
            }
            (Paper::Ioanalyzer, None) => &[IOANALYZER],
            (Paper::All, None) => &[REQUESTS, ARRAYS, IOANALYZER],
            _ => &[],
        })
    }
}

/// Experiments that are ready to run.
pub struct Experiments {
    scripts: Vec<scripts::Experiment>,
    /// With the default scale of each.
    suites: Vec<(f64, SuiteExperiment)>,
}

/// The results, finished or not.
pub struct Results {
    scripts: Vec<scripts::Done>,
    suites: Vec<(SuiteExperiment, Vec<Row>)>,
}

impl Experiments {
    /// The selected experiments.
    ///
    /// # Errors
    /// No experiment matches ([`Error::Usage`]).
    pub fn select(selection: &Selection) -> Result<Self, Error> {
        let known = selection.suites()?;
        let scripts =
            if selection.request_level.is_some() { Vec::new() } else { scripts::experiments(selection)? };
        let experiment = |suite: &Suite, experiment: &'static Experiment| {
            let scale = selection.scale.unwrap_or(suite.scale);
            (suite.scale, SuiteExperiment { suite: suite.name, experiment, scale })
        };
        let all =
            known.iter().flat_map(|suite| suite.experiments.iter().map(move |of| experiment(suite, of)));
        // The scripts contain that experiment, too.
        let once =
            |of: &SuiteExperiment| selection.paper != Paper::All || of.experiment.name != arrays::SCRIPTED;
        let suites: Vec<_> = all.filter(|(_, of)| once(of) && selection.wants(&of.name())).collect();
        if scripts.is_empty() && suites.is_empty() {
            let known = known.iter().flat_map(|suite| suite.experiments.iter().map(|of| of.name));
            let known: Vec<&str> = scripts::names(selection).chain(known).collect();
            return Err(Error::Usage(format!(
                "--only: no experiment of that paper has that in its name; there are {}",
                known.join(", ")
            )));
        }
        Ok(Self { scripts, suites })
    }

    /// Runs them in parallel. After an interruption, the results hold what was finished.
    ///
    /// # Errors
    /// An experiment failed, or results could not be stored.
    pub fn run(self, selection: &Selection) -> Result<Results, Error> {
        let mut tasks = scripts::tasks(&self.scripts)?;
        tasks.extend(self.suites.iter().map(|(default, of)| of.task(*default)));
        let store = selection.results.as_deref().map(Store::open).transpose()?;
        let mut kept = tasks::run(&tasks, selection.threads, store.as_ref())?.into_iter();
        let scripts = scripts::judged(&self.scripts, &mut kept);
        let suites = self.suites.into_iter().zip(kept).filter_map(|((_, of), kept)| match kept {
            Some(Kept::Rows(rows)) => Some((of, rows)),
            _ => None,
        });
        Ok(Results { scripts, suites: suites.collect() })
    }
}

impl Results {
    /// Tables as text.
    pub fn text(&self, out: &mut impl Write) -> io::Result<()> {
        if !self.scripts.is_empty() {
            scripts::text(&self.scripts, out)?;
        }
        print::suites(&self.suites).try_for_each(|suite| print::text(suite, out))?;
        let tallies = print::tallies(&self.scripts, &self.suites);
        if !tallies.is_empty() {
            writeln!(out)?;
        }
        tallies.iter().try_for_each(|(paper, tally)| writeln!(out, "{paper}: {tally}"))
    }

    /// One JSON object.
    pub fn json(&self) -> serde_json::Value {
        print::object(&self.scripts, &self.suites)
    }

    /// Writes the results and the tables of the documentation in that directory. Experiments that did not run keep theirs.
    ///
    /// # Errors
    /// A file cannot be read or written, or a page has an unknown block.
    pub fn write_docs(&self, directory: &Path) -> Result<(), Error> {
        docs::write(directory, &self.scripts, &self.suites)
    }

    /// One HTML file.
    pub fn html(&self) -> String {
        scripts::html(&self.scripts, &self.suites)
    }
}
