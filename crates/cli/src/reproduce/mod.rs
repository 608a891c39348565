//! `dwell reproduce`: the papers' experiments, run again, published value beside ours.

mod arrays;
mod ioanalyzer;
mod papers;
mod stream;

use std::io::{IsTerminal, Write};

use comfy_table::{Table, presets};
use elevator::Span;
use elevator::queue::{Identity, Options};
use indicatif::{ProgressBar, ProgressStyle};
use schedulers::Spec;
use serde::Serialize;
use serde_json::json;
use workloads::builtin::Builtin;
use workloads::{Settings, Workload};

use crate::arguments::{Paper, ReproduceArguments};
use crate::compare::{Plan, Run, run_plan};
use crate::device::Device;
use crate::error::Error;
use crate::interrupt;

/// One figure of a paper and ours.
#[derive(Serialize)]
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
    pub(crate) unit: &'static str,
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
        let expected = match (*bounds.start(), *bounds.end()) {
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
            unit,
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
            unit,
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

pub(crate) fn run(arguments: &ReproduceArguments) -> Result<(), Error> {
    let all = match arguments.paper {
        Paper::Ioanalyzer => ioanalyzer::EXPERIMENTS,
        Paper::Stream if arguments.single_disk => stream::EXPERIMENTS,
        Paper::Stream if arguments.arrays => arrays::EXPERIMENTS,
        _ if arguments.single_disk || arguments.arrays => {
            return Err(Error::Usage(
                "--single-disk and --arrays are the stream paper's: dwell reproduce stream --arrays"
                    .to_owned(),
            ));
        }
        _ => return papers::run(arguments),
    };
    let wanted = |name: &str| arguments.only.as_deref().is_none_or(|only| name.contains(only));
    let names: Vec<&str> = all.iter().map(|experiment| experiment.name).collect();
    let experiments: Vec<&Experiment> = all.iter().filter(|experiment| wanted(experiment.name)).collect();
    if experiments.is_empty() {
        return Err(Error::Usage(format!(
            "--only: no experiment has that in its name; there are {}",
            names.join(", ")
        )));
    }
    let scale = arguments.scale();
    let shown = std::io::stderr().is_terminal();
    let bar = if shown { ProgressBar::new(experiments.len() as u64) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} (about {eta} left)") {
        bar.set_style(style);
    }
    let mut rows = Vec::new();
    let mut interrupted = false;
    for experiment in experiments {
        bar.set_message(experiment.name);
        match (experiment.run)(scale) {
            Ok(new) => rows.extend(new),
            Err(Error::Interrupted) => {
                interrupted = true;
                break;
            }
            Err(error) => return Err(error),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    print(arguments, scale, &rows)?;
    if interrupted { Err(Error::Interrupted) } else { Ok(()) }
}

fn print(arguments: &ReproduceArguments, scale: f64, rows: &[Row]) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(
            out,
            "{}",
            json!({"schema_version": 1, "dwell": env!("CARGO_PKG_VERSION"), "scale": scale, "rows": rows})
        )?;
        return Ok(());
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header([
        "experiment",
        "figure",
        "published",
        "ours",
        "expected",
        "holds",
    ]);
    for row in rows {
        let holds = match row.holds {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };
        let ours = format!("{} {}", crate::format::number(row.ours), row.unit);
        table.add_row([
            row.experiment.as_str(),
            &row.figure,
            &row.published,
            ours.trim(),
            &row.expected,
            holds,
        ]);
    }
    writeln!(out, "{table}")?;
    let mut notes: Vec<&str> =
        rows.iter().map(|row| row.note.as_str()).filter(|note| !note.is_empty()).collect();
    notes.dedup();
    for note in notes {
        writeln!(out, "- {note}")?;
    }
    let (held, asked) = (
        rows.iter().filter(|r| r.holds == Some(true)).count(),
        rows.iter().filter(|r| r.holds.is_some()).count(),
    );
    writeln!(out, "{held} of {asked} shapes hold")?;
    Ok(())
}
