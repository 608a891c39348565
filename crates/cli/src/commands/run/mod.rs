//! `dwell run`: processes of a script on a modelled machine, under many schedulers.

pub(crate) mod args;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use evaluation::input::{no_script, open_script, script_text};
use evaluation::report::format::object;
use evaluation::run_setup::{Overrides, RunSetup};
use evaluation::runs::{self, Run};
use schedulers::Spec;
use schedulers::registry::Catalogue;
use serde_json::json;

use self::args::RunArguments;
use crate::error::Error;
use crate::input::scheduler_arg::{Host, specs, ticks};
use crate::interrupt;
use crate::report::{
    Comparison, Ranking, SortKey, can_rank, describe, ended, has_key, machine_processes, members,
};

pub(crate) fn run(arguments: &RunArguments, catalogue: Catalogue) -> Result<(), Error> {
    if arguments.show {
        let text = script_text(&arguments.script)?;
        write!(std::io::stdout().lock(), "{text}")?;
        return Ok(());
    }
    let models = [&arguments.machine, &arguments.drive].into_iter().flatten();
    let inputs = [&arguments.script].into_iter().chain(models).chain(&arguments.schedulers);
    arguments.output.check(inputs.map(String::as_str))?;
    let opened = open_script(&arguments.script, arguments.scale);
    let (scenario, notes) = opened.map_err(|error| no_script(&arguments.script).unwrap_or(error))?;
    let setup = RunSetup::open(scenario, chosen(arguments))?;
    let can_rank = || {
        let why = "programs run for a given time, whatever the scheduler does";
        can_rank("--sort", arguments.output.sort, why)
    };
    // Before the runs if no run decides it.
    if setup.scenario.lasts_fixed_time() {
        can_rank()?;
    }
    let specs = schedulers(arguments, &setup, catalogue)?;
    let comparison = comparison(&setup, &specs, notes);
    arguments.output.say(&comparison);
    let runs = all(arguments, &setup, &specs, arguments.output.chart_requests())?;
    let mut outcomes = runs.iter().filter_map(|run| run.outcome.as_ref());
    let is_timed = outcomes.any(|outcome| setup.scenario.lasted_fixed_time(&outcome.seen));
    if is_timed {
        can_rank()?;
    }
    has_key(&runs, arguments.output.sort)?;
    let is_cut = runs.iter().all(|run| run.cut);
    print(arguments, &comparison, &runs, is_cut || is_timed)?;
    ended(&arguments.script, &runs)
}

fn chosen(arguments: &RunArguments) -> Overrides<'_> {
    Overrides {
        machine: arguments.machine.as_deref(),
        drive: arguments.drive.as_deref(),
        array: arguments.array.as_deref(),
    }
}

fn schedulers(arguments: &RunArguments, setup: &RunSetup, catalogue: Catalogue) -> Result<Vec<Spec>, Error> {
    let host = if setup.device.array().is_some() { Host::Array } else { Host::Machine };
    match &setup.scenario.script.paper {
        Some(paper) if arguments.schedulers.is_empty() && !arguments.output.all => {
            specs(catalogue, &paper.schedulers.values().cloned().collect::<Vec<_>>(), host, false)
        }
        _ => specs(catalogue, &arguments.schedulers, host, arguments.output.all),
    }
}

fn comparison(setup: &RunSetup, specs: &[Spec], mut notes: Vec<String>) -> Comparison {
    let contents = &setup.scenario.contents;
    notes.insert(0, format!("machine: {}, {}", setup.machine.name, setup.machine.about));
    notes.insert(
        1,
        format!(
            "on the disk: {} files, {}",
            contents.files(),
            evaluation::report::format::bytes(contents.bytes())
        ),
    );
    if setup.scenario.scale < 1.0 {
        notes.push(format!("scale {}: data, operations and memory", setup.scenario.scale));
    }
    notes.extend_from_slice(setup.device.notes());
    notes.extend(setup.scenario.script.change.depth.and_then(|depth| setup.device.depth_note(depth)));
    notes.extend(ticks(specs));
    Comparison {
        workload: setup.scenario.script.about.clone(),
        drive: setup.device.describe(),
        queue: describe(&setup.options()),
        notices: notes,
        missing: Vec::new(),
    }
}

/// Runs under each scheduler, on as many threads as there are cores; in the order of the schedulers.
fn all(
    arguments: &RunArguments,
    setup: &RunSetup,
    specs: &[Spec],
    chart_requests: usize,
) -> Result<Vec<Run>, Error> {
    let bar = arguments.output.bar(specs.len());
    let explaining = arguments.output.explaining();
    let next = AtomicUsize::new(0);
    let slots: Vec<Mutex<Option<Result<Run, Error>>>> = specs.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(spec) = specs.get(index).filter(|_| !interrupt::requested()) else { break };
            let run = runs::script(setup, spec, chart_requests, explaining.as_ref(), &mut |_| None)
                .map_err(Error::from);
            bar.set_message(spec.to_string());
            bar.inc(1);
            if let Ok(mut slot) = slots[index].lock() {
                *slot = Some(run);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(specs.len());
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    bar.finish_and_clear();
    slots.into_iter().filter_map(|slot| slot.into_inner().ok().flatten()).collect()
}

fn print(
    arguments: &RunArguments,
    comparison: &Comparison,
    runs: &[Run],
    lasts_fixed_time: bool,
) -> Result<(), Error> {
    let output = &arguments.output;
    let default = if lasts_fixed_time { SortKey::Work } else { SortKey::Time };
    let ranking = Ranking::new(runs, output.sort.unwrap_or(default));
    let printed = if output.json {
        let of = json!({
            "dwell": env!("CARGO_PKG_VERSION"), "workload": comparison.workload,
            "drive": comparison.drive, "queue": comparison.queue, "notes": comparison.notices, "runs": runs,
        });
        output.print(&object(&of)?)
    } else {
        let style = output.style();
        let mut more = Vec::new();
        let ranked = ranking.runs();
        for (run, processes) in ranked.iter().zip(machine_processes(&ranked, style)) {
            more.push(processes);
            if arguments.members && !run.measured.members.is_empty() {
                more.push(members(run, style));
            }
        }
        output.results(&ranking, &more)
    };
    // The files are written even if no one reads the table.
    output.write(comparison, runs, &ranking).and(printed)
}
