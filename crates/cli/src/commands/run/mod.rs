//! `dwell run`: processes of a script on a modelled machine, under many schedulers.

pub(crate) mod args;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use elevator::queue::Observer;
use elevator::text::did_you_mean;
use machine::Timeline;
use schedulers::Spec;
use schedulers::registry::Catalogue;
use serde_json::json;
use workloads::fio::JobFile;
use workloads::scenario::{Scenario, papers};

use self::args::RunArguments;
use crate::error::Error;
use crate::input::scheduler_arg::{Host, specs, ticks};
use crate::input::workload::{is_job_file, no_script};
use crate::interrupt;
use crate::report::{Comparison, Ranking, SortKey, describe, ended, machine_processes, members};
use evaluation::explain::Explainer;
use evaluation::report::format::object;
use evaluation::run_setup::{Overrides, Ran, RunSetup};
use evaluation::runs::{Run, Shared};
use evaluation::spool::Spool;
use evaluation::text_file;

pub(crate) fn run(arguments: &RunArguments, catalogue: Catalogue) -> Result<(), Error> {
    if arguments.show {
        let text = text(&arguments.script)?;
        write!(std::io::stdout().lock(), "{text}")?;
        return Ok(());
    }
    arguments.output.check()?;
    let opened = open(&arguments.script, arguments.scale);
    let (scenario, notes) = opened.map_err(|error| no_script(&arguments.script).unwrap_or(error))?;
    let setup = RunSetup::open(scenario, chosen(arguments))?;
    let specs = schedulers(arguments, &setup, catalogue)?;
    let comparison = comparison(&setup, &specs, notes);
    arguments.output.say(&comparison);
    let runs = all(arguments, &setup, &specs, arguments.output.picture())?;
    let is_cut = runs.iter().all(|run| run.cut);
    print(arguments, &comparison, &runs, is_cut || setup.scenario.lasts_fixed_time())?;
    ended(&arguments.script, &runs)
}

fn chosen(arguments: &RunArguments) -> Overrides<'_> {
    Overrides {
        machine: arguments.machine.as_deref(),
        drive: arguments.drive.as_deref(),
        array: arguments.array.as_deref(),
    }
}

fn scripts() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    papers::SCRIPTS.iter().chain(papers::IOANALYZER)
}

/// A script's text: a file's, or an experiment's.
fn text(name: &str) -> Result<String, Error> {
    if let Some((_, text)) = scripts().find(|(known, _)| *known == name) {
        return Ok((*text).to_owned());
    }
    if !Path::new(name).exists() && !name.ends_with(".toml") && !name.ends_with(".fio") {
        let known: Vec<&str> = scripts().map(|(known, _)| *known).collect();
        let hint = did_you_mean(name, known.iter().copied());
        return Err(Error::Usage(format!(
            "'{name}' is neither a file nor an experiment; experiments are {}{hint}",
            known.join(", ")
        )));
    }
    Ok(text_file::read(name, "script")?)
}

fn open(name: &str, scale: f64) -> Result<(Scenario, Vec<String>), Error> {
    let text = text(name)?;
    if name.ends_with(".toml") || !is_job_file(name, text.as_bytes()) {
        let scenario = Scenario::parse(name, &text, scale).map_err(|e| Error::Input(e.to_string()))?;
        return Ok((scenario, Vec::new()));
    }
    let jobs = JobFile::parse(name, &text).map_err(|e| Error::Input(e.to_string()))?;
    if let Some(job) = jobs.jobs().iter().find(|job| job.trims) {
        let problem = "discards sectors, and the modelled kernel has no system call for that; 'dwell compare' runs the job on the device";
        return Err(Error::Input(format!("{name}: [{}] {problem}", job.name)));
    }
    if scale < 1.0 {
        return Err(Error::Usage("--scale is for scripts; set size= in a job file".to_owned()));
    }
    let notes = jobs.notes.iter().cloned().chain(jobs.one_by_one()).collect();
    Ok((Scenario::of_jobs(&jobs), notes))
}

fn schedulers(arguments: &RunArguments, setup: &RunSetup, catalogue: Catalogue) -> Result<Vec<Spec>, Error> {
    let host = if setup.device.array().is_some() { Host::Array } else { Host::Machine };
    match &setup.scenario.page.paper {
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
    notes.extend(ticks(specs));
    Comparison {
        workload: setup.scenario.page.about.clone(),
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
    picture: usize,
) -> Result<Vec<Run>, Error> {
    let bar = arguments.output.bar(specs.len());
    let next = AtomicUsize::new(0);
    let slots: Vec<Mutex<Option<Result<Run, Error>>>> = specs.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(spec) = specs.get(index).filter(|_| !interrupt::requested()) else { break };
            let run = one(arguments, setup, spec, picture);
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

fn one(arguments: &RunArguments, setup: &RunSetup, spec: &Spec, picture: usize) -> Result<Run, Error> {
    let (recorder, timeline) = Timeline::recorder(picture);
    let explaining = arguments.output.explaining();
    let explanation = explaining.as_ref().map(|how| Spool::new(&how.folder)).unwrap_or_default();
    let explanation = Rc::new(RefCell::new(explanation));
    let mut recorder = (picture > 0).then_some(recorder);
    // The picture shows one head: that of an array's first member.
    let mut observer = |member: Option<u32>| -> Option<Box<dyn Observer>> {
        let explainer = explaining
            .as_ref()
            .map(|how| Explainer::new(spec.to_string(), member, how.format, Shared(Rc::clone(&explanation))));
        Some(Box::new((recorder.take(), explainer)))
    };
    let Ran { outcome, mut measured, distributions, names } = setup.run(spec, &mut observer)?;
    // The result is the time until the measured processes have ended, and the bytes that the device has moved by then.
    let beside = setup.scenario.beside();
    let is_beside = |name: &str| {
        beside.iter().any(|process| {
            name.strip_prefix(process.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    if let Some((_, to)) = outcome.window(|name| !is_beside(name)) {
        measured.elapsed_ns = to;
        measured.bytes = outcome.vmstat.bytes(to);
    }
    let work = outcome.seen.iter().filter(|(name, _)| !is_beside(name)).map(|(_, seen)| seen);
    let work_bytes = Some(work.map(|seen| seen.read_bytes + seen.written_bytes).sum());
    let timeline = timeline.take();
    Ok(Run {
        scheduler: spec.to_string(),
        measured,
        fairness: None,
        cut: outcome.cut,
        failure: outcome.failure.clone(),
        outcome: Some(outcome),
        work_bytes,
        limit: None,
        has_head: setup.device.rotational(),
        distributions,
        names,
        timeline,
        explanation: explanation.take(),
    })
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
    if output.json {
        let of = json!({
            "dwell": env!("CARGO_PKG_VERSION"), "workload": comparison.workload,
            "drive": comparison.drive, "queue": comparison.queue, "notes": comparison.notices, "runs": runs,
        });
        output.print(&object(&of)?)?;
    } else {
        let style = output.style();
        let mut more = Vec::new();
        for run in ranking.runs() {
            more.push(machine_processes(run, style));
            if arguments.members && !run.measured.members.is_empty() {
                more.push(members(run, style));
            }
        }
        output.results(&ranking, &more)?;
    }
    output.write(comparison, runs, &ranking)
}
