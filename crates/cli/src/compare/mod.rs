//! `dwell compare`.

mod columns;
mod explain;
#[cfg(test)]
mod golden;
mod machine;
mod output;
mod report;
mod run;
mod spool;
mod table;
mod why;

use std::collections::BTreeMap;

use elevator::queue::{Identity, Limits, Options};
use elevator::{Span, Value};
use schedulers::Spec;
use schedulers::registry::Catalogue;
use serde_json::json;

pub(crate) use explain::{Explainer, Explaining};
pub(crate) use machine::processes as machine_processes;
pub(crate) use run::{Plan, Run, Shared, run as run_plan};
pub(crate) use spool::Spool;
pub(crate) use table::{members, results};

use crate::arguments::{self, CompareArguments};
use crate::device::Device;
use crate::error::Error;
use crate::format::object;
use crate::quantity::span;
use crate::{interrupt, named, workload};

/// A comparison, beside its runs.
pub(crate) struct Comparison {
    /// The workload, in a line.
    pub(crate) workload: String,
    /// The drive, in a line.
    pub(crate) drive: String,
    /// The queue, in a line.
    pub(crate) queue: String,
    /// What the reader must know.
    pub(crate) said: Vec<String>,
    /// What of the workload is not in the results: whoever wants no notes must know it as well.
    pub(crate) missing: Vec<String>,
}

impl Comparison {
    /// What there is to say, and what is missing.
    pub(crate) fn remarks(&self) -> impl Iterator<Item = &String> {
        self.said.iter().chain(&self.missing)
    }

    /// Everything that stands above the results.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = vec![format!("drive: {}", self.drive), format!("queue: {}", self.queue)];
        notes.extend(self.remarks().cloned());
        notes
    }
}

pub(crate) fn run(arguments: &CompareArguments, catalogue: Catalogue) -> Result<(), Error> {
    arguments.output.check()?;
    let device = device(arguments)?;
    let host = if device.array().is_some() { Host::Array } else { Host::Disk };
    let specs = specs(catalogue, &arguments.schedulers, host)?;
    let at_most = arguments.at_most.as_deref().map(at_most).transpose()?;
    // Last, as a recording may take minutes to read.
    let workload =
        workload::open(&arguments.workload, &arguments.reading, arguments.open, device.capacity())?;
    let options = options(arguments, &device);
    let comparison = Comparison {
        workload: workload.workload.describe(),
        drive: device.describe(),
        queue: describe(&options),
        said: ticks(&specs).into_iter().chain([&workload.said, device.notes()].concat()).collect(),
        missing: workload.missing,
    };
    arguments.output.say(&comparison);
    let plan = Plan {
        workload: &*workload.workload,
        device: &device,
        schedulers: &specs,
        options,
        at_most,
        picture: arguments.output.picture(),
        explain: arguments.output.explaining(),
    };
    let runs = with_progress(arguments, &plan)?;
    print(arguments, &comparison, &runs)?;
    ended(&arguments.workload, &runs)
}

/// What there is to say when the results are out: somebody stopped the runs, or none came to its end.
pub(crate) fn ended(workload: &str, runs: &[Run]) -> Result<(), Error> {
    if interrupt::requested() {
        return Err(Error::Interrupted);
    }
    if runs.iter().all(|run| run.failure.is_some()) {
        return Err(Error::Failed(format!("{workload}: no run came to its end")));
    }
    Ok(())
}

fn device(arguments: &CompareArguments) -> Result<Device, Error> {
    let drive = Device::open(&arguments.drive)?.profiled(arguments.profile.as_deref())?;
    match &arguments.array {
        Some(array) => drive.in_array(array),
        None => Ok(drive),
    }
}

fn at_most(text: &str) -> Result<Span, Error> {
    span("--at-most", text).map(|time| Span::from_nanos(time.as_nanos() as u64))
}

/// What schedulers are to run on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    /// Requests of one device.
    Disk,
    /// Requests of an array.
    Array,
    /// A whole machine, with system calls and a page cache.
    Machine,
}

/// The schedulers of these names; if there are none, all that fit and need no terms to be agreed.
pub(crate) fn specs(catalogue: Catalogue, names: &[String], host: Host) -> Result<Vec<Spec>, Error> {
    let on_array = host == Host::Array;
    if names.is_empty() {
        let fits = catalogue.all().filter(|listing| !listing.split && (on_array || !listing.needs_array()));
        return Ok(fits.map(Spec::of).collect());
    }
    let spec = |name| {
        let spec = named::spec(catalogue, name)?;
        let spec = if host == Host::Disk { named::without_split_hooks(spec)? } else { spec };
        if on_array && spec.is_split() {
            return Err(Error::Usage(format!(
                "{spec} also schedules system calls and the page cache, in front of one queue, and an array has a queue \
                 for each member; leave --array out, or choose one that works at the block alone"
            )));
        }
        if spec.listing().needs_array() && !on_array {
            return Err(Error::Usage(format!(
                "{spec} directs the members of an array; give one with --array, or use stream(...)"
            )));
        }
        Ok(spec)
    };
    names.iter().map(|name: &String| spec(name)).collect()
}

fn options(arguments: &CompareArguments, device: &Device) -> Options {
    let depth = arguments.depth.unwrap_or_else(|| device.depth()).min(device.depth());
    let identity = match arguments.identity {
        arguments::Identity::Shown => Identity::Shown,
        arguments::Identity::Hidden => Identity::Hidden,
        arguments::Identity::Same => Identity::Same,
    };
    let limits = Limits { nr_requests: arguments.nr_requests, ..Limits::default() };
    Options { depth, identity, limits, ..Options::default() }
}

/// A queue, in a line.
pub(crate) fn describe(options: &Options) -> String {
    let identity = match options.identity {
        Identity::Shown => "processes shown",
        Identity::Hidden => "processes hidden",
        Identity::Same => "everybody one process",
    };
    format!(
        "depth {}, {} requests a direction, merges up to {} KiB, {identity}",
        options.depth,
        options.limits.nr_requests,
        options.max_sectors.bytes() >> 10
    )
}

/// How many ticks a second the kernels had whose schedulers count time in them, in a line.
pub(crate) fn ticks(specs: &[Spec]) -> Option<String> {
    let mut by_rate: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for spec in specs {
        if let Some(Value::Count(hz)) = spec.listing().tunable("hz").map(|hz| spec.value(hz)) {
            by_rate.entry(hz).or_default().push(spec.to_string());
        }
    }
    let rates = by_rate.into_iter().map(|(hz, names)| format!("{hz} for {}", names.join(", ")));
    let rates = rates.collect::<Vec<_>>().join("; ");
    (!rates.is_empty()).then(|| format!("ticks a second (HZ): {rates}"))
}

fn with_progress(arguments: &CompareArguments, plan: &Plan<'_>) -> Result<Vec<Run>, Error> {
    let bar = arguments.output.bar(plan.schedulers.len());
    let runs = run_plan(plan, &|run| {
        bar.set_message(run.scheduler.clone());
        bar.inc(1);
    });
    bar.finish_and_clear();
    runs.map_err(Error::Failed)
}

fn print(arguments: &CompareArguments, comparison: &Comparison, runs: &[Run]) -> Result<(), Error> {
    let mut ranked: Vec<&Run> = runs.iter().collect();
    ranked.sort_by(|a, b| b.measured.megabytes_per_second().total_cmp(&a.measured.megabytes_per_second()));
    ranked.sort_by_key(|run| run.failure.is_some());
    let output = &arguments.output;
    if output.json {
        let of = json!({
            "dwell": env!("CARGO_PKG_VERSION"), "workload": comparison.workload,
            "drive": comparison.drive, "queue": comparison.queue, "notes": comparison.remarks().collect::<Vec<_>>(),
            "limit": ranked.first().and_then(|run| run.limit.as_ref()), "runs": runs,
        });
        output.print(&object(&of)?)?;
    } else {
        output.print(&results(&ranked, output.width()))?;
        if arguments.processes {
            for run in &ranked {
                output.print(&format!("\n{}", table::processes(run, 32, output.width())))?;
            }
        }
        if arguments.members {
            for run in ranked.iter().filter(|run| !run.measured.members.is_empty()) {
                output.print(&format!("\n{}", members(run)))?;
            }
        }
    }
    output.write(comparison, runs, &ranked)
}
