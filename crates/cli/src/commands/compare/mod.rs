//! `dwell compare`: one workload under many schedulers on a modelled drive.

pub(crate) mod args;
#[cfg(test)]
mod golden;
mod settings;

use elevator::Span;
use elevator::queue::{Identity, Limits, Options};
use elevator::text::counted;
use evaluation::device::Device;
use evaluation::report::format::object;
use evaluation::runs::{Plan, Run, run as run_plan};
use schedulers::registry::Catalogue;
use serde_json::json;

use self::args::CompareArguments;
use super::profile;
use crate::error::Error;
use crate::input::quantity::some_time;
use crate::input::scheduler_arg::{Host, specs, ticks};
use crate::report::{Comparison, Ranking, SortKey, can_rank, describe, ended, has_key, members, processes};
use evaluation::input::{self as workload, Replaying};

/// Why jobs that ended at their runtime have no rank by time.
const RUNTIME: &str = "jobs end at their runtime, whatever the scheduler does";

pub(crate) fn run(arguments: &CompareArguments, catalogue: Catalogue) -> Result<(), Error> {
    let profile = arguments.profile.as_ref().and_then(|path| path.to_str());
    let inputs = [&*arguments.workload, &*arguments.drive].into_iter().chain(profile);
    arguments.output.check(inputs.chain(arguments.schedulers.iter().map(String::as_str)))?;
    let device = device(arguments)?;
    let host = if device.array().is_some() { Host::Array } else { Host::Disk };
    let specs = specs(catalogue, &arguments.schedulers, host, arguments.output.all)?;
    let sweeps = settings::sweeps(&arguments.sweeps, &specs)?;
    let replaced = settings::replaced(&specs, &sweeps);
    let specs = if arguments.optimise.is_some() { specs } else { settings::swept(&specs, &sweeps)? };
    let at_most = arguments.at_most.as_deref().map(at_most).transpose()?;
    for (option, key) in [("--sort", arguments.output.sort), ("--optimise", arguments.optimise)] {
        if let Some(key) = key.filter(|key| matches!(key, SortKey::Work | SortKey::Fsync)) {
            let problem = "the workloads of 'compare' make no system calls; use 'dwell run' or another key";
            return Err(Error::Usage(format!("{option} {}: {problem}", key.name())));
        }
    }
    let options = options(arguments, &device)?;
    // Last, because a recording may take minutes to read.
    let how = Replaying { open: arguments.open.then_some("--open"), ..Replaying::default() };
    let workload = workload::open(&arguments.workload, &arguments.reading.options(), how, device.capacity())?;
    if workload.by_time {
        let why = "the requests arrive at given times, so that a faster scheduler ends no earlier";
        can_rank("--sort", arguments.output.sort, why)?;
        can_rank("--optimise", arguments.optimise, why)?;
    }
    let plan = |specs| Plan {
        workload: &*workload.workload,
        device: &device,
        schedulers: specs,
        options,
        before: Span::ZERO,
        at_most,
        chart_requests: 0,
        explain: None,
    };
    let (specs, notes) = match arguments.optimise {
        Some(key) => {
            let goal = settings::Goal {
                key,
                trials: arguments.trials,
                by_time: workload.by_time,
                runtimes: &workload.runtimes,
            };
            settings::optimised(&plan(&[]), &specs, &sweeps, goal, &arguments.output)?
        }
        None => (specs, replaced),
    };
    let comparison = Comparison {
        workload: workload.workload.describe(),
        drive: device.describe(),
        queue: describe(&options),
        notices: ticks(&specs)
            .into_iter()
            .chain([&workload.notes, device.notes()].concat())
            .chain(notes)
            .collect(),
        missing: workload.missing,
    };
    arguments.output.say(&comparison);
    let (chart_requests, explain) = (arguments.output.chart_requests(), arguments.output.explaining());
    let plan = Plan { chart_requests, explain, ..plan(&specs) };
    let mut runs = with_progress(arguments, &plan)?;
    if workload.by_time {
        // The limit of all requests that arrived, of which a stopped run completed an unknown part.
        runs.iter_mut().filter(|run| run.cut).for_each(|run| (run.limit, run.fairness) = (None, None));
    }
    let is_timed = runs.iter().any(|run| workload.runtimes.bound(run));
    if is_timed {
        runs.iter_mut().for_each(|run| run.limit = None);
        can_rank("--sort", arguments.output.sort, RUNTIME)?;
    }
    has_key(&runs, arguments.output.sort)?;
    print(arguments, &comparison, &runs, (workload.by_time, is_timed))?;
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
    some_time("--at-most", text).map(|time| Span::from_nanos(time.as_nanos() as u64))
}

fn options(arguments: &CompareArguments, device: &Device) -> Result<Options, Error> {
    let depth = arguments.depth.unwrap_or_else(|| device.depth());
    if depth > device.depth() {
        return Err(Error::Usage(format!(
            "--depth {depth}: {} queues at most {}; choose a lower depth or another drive",
            device.name(),
            counted(u64::from(device.depth()), "command")
        )));
    }
    let identity = match arguments.identity {
        args::Identity::Shown => Identity::Shown,
        args::Identity::Hidden => Identity::Hidden,
        args::Identity::Same => Identity::Same,
    };
    let limits = Limits { nr_requests: arguments.nr_requests, ..Limits::default() };
    Ok(Options { depth, identity, limits, ..Options::default() })
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

fn print(
    arguments: &CompareArguments,
    comparison: &Comparison,
    runs: &[Run],
    (by_time, is_timed): (bool, bool),
) -> Result<(), Error> {
    let output = &arguments.output;
    // Discards move no data.
    let moves_data = runs.iter().any(|run| run.measured.bytes > 0 || run.failure.is_some());
    let default = match by_time {
        true => SortKey::Mean,
        false if moves_data => SortKey::Rate,
        false if is_timed => SortKey::Mean,
        false => SortKey::Time,
    };
    let key = output.sort.or(arguments.optimise).unwrap_or(default);
    let mut ranking = Ranking::of(runs, key, by_time);
    ranking.is_timed = is_timed;
    let printed = if output.json {
        let best = ranking.rows.first().map(|row| row.run);
        let of = json!({
            "dwell": env!("CARGO_PKG_VERSION"), "workload": comparison.workload,
            "drive": comparison.drive, "queue": comparison.queue, "notes": comparison.remarks().collect::<Vec<_>>(),
            "limit": best.and_then(|run| run.limit.as_ref()), "runs": runs,
        });
        output.print(&object(&of)?)
    } else {
        let style = output.style();
        let processes =
            ranking.rows.iter().filter(|_| arguments.processes).map(|row| processes(row.run, 32, style));
        let with_members =
            ranking.rows.iter().filter(|row| arguments.members && !row.run.measured.members.is_empty());
        let members = with_members.map(|row| members(row.run, style));
        output.results(&ranking, &processes.chain(members).collect::<Vec<_>>())
    };
    // The files are written even if no one reads the table.
    output.write(comparison, runs, &ranking).and(printed)
}

#[cfg(test)]
mod tests {
    use schedulers::Spec;

    use super::*;

    #[test]
    fn sizes_count_all_requests() {
        let device = Device::open("wd5000aaks").unwrap();
        let opened = workload::open(
            "par-read{processes=2}",
            &Default::default(),
            Replaying::default(),
            device.capacity(),
        );
        let plan = Plan {
            workload: &*opened.unwrap().workload,
            device: &device,
            schedulers: &[Spec::parse("noop").unwrap()],
            options: Options::default(),
            before: Span::ZERO,
            at_most: Some(Span::from_millis(300)),
            chart_requests: 5,
            explain: None,
        };
        let runs = run_plan(&plan, &|_| ()).unwrap();
        let [reads, writes] = &runs[0].timeline.sizes;
        assert_eq!((runs[0].timeline.points.len(), writes.len()), (5, 0));
        let in_the_drive = runs[0].measured.dispatched - reads.values().sum::<u64>();
        assert!(in_the_drive <= 2, "each process waits for its request");
    }
}
