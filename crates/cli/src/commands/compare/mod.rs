//! `dwell compare`: one workload under many schedulers on a modelled drive.

pub(crate) mod args;
#[cfg(test)]
mod golden;

use elevator::Span;
use elevator::queue::{Identity, Limits, Options};
use evaluation::device::Device;
use evaluation::report::format::object;
use evaluation::runs::{Plan, Run, run as run_plan};
use schedulers::registry::Catalogue;
use serde_json::json;

use self::args::CompareArguments;
use super::profile;
use crate::error::Error;
use crate::input::quantity::span;
use crate::input::scheduler_arg::{Host, specs, ticks};
use crate::input::workload;
use crate::report::{Comparison, describe, ended, members, processes, results};

pub(crate) fn run(arguments: &CompareArguments, catalogue: Catalogue) -> Result<(), Error> {
    arguments.output.check()?;
    let device = device(arguments)?;
    let host = if device.array().is_some() { Host::Array } else { Host::Disk };
    let specs = specs(catalogue, &arguments.schedulers, host)?;
    let at_most = arguments.at_most.as_deref().map(at_most).transpose()?;
    // Last, because a recording may take minutes to read.
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

fn device(arguments: &CompareArguments) -> Result<Device, Error> {
    let mut device = Device::open(&arguments.drive)?;
    if let Some(path) = &arguments.profile {
        device = device.with_service_times(profile::read(path)?.service_curve());
    }
    match &arguments.array {
        Some(array) => Ok(device.in_array(array)?),
        None => Ok(device),
    }
}

fn at_most(text: &str) -> Result<Span, Error> {
    span("--at-most", text).map(|time| Span::from_nanos(time.as_nanos() as u64))
}

fn options(arguments: &CompareArguments, device: &Device) -> Options {
    let depth = arguments.depth.unwrap_or_else(|| device.depth()).min(device.depth());
    let identity = match arguments.identity {
        args::Identity::Shown => Identity::Shown,
        args::Identity::Hidden => Identity::Hidden,
        args::Identity::Same => Identity::Same,
    };
    let limits = Limits { nr_requests: arguments.nr_requests, ..Limits::default() };
    Options { depth, identity, limits, ..Options::default() }
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
                output.print(&format!("\n{}", processes(run, 32, output.width())))?;
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
