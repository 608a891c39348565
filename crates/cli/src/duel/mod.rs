//! `dwell duel`: the kernel's schedulers against ours, for real, and beside each what the model said.

mod comparison;
mod predict;
mod report;
mod table;

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Write};
use std::sync::Arc;

use ::duel::{
    Benchmark, Duel, DuelError, HelperCommand, Kind, Priorities, Scheduler, Settings, Size, TestbedOptions,
    Way, scratch,
};
use elevator::queue::Limits;
use indicatif::ProgressBar;
use schedulers::registry::Catalogue;
use serde_json::json;

use comparison::Comparison;
use elevator::text::did_you_mean;
use predict::Model;

use crate::arguments::{DuelArguments, Sight};
use crate::device::{Device, tell};
use crate::error::{Error, can_be_written};
use crate::format::object;
use crate::quantity::some_time;
use crate::serve::{nature, schedulers};
use crate::{interrupt, named, text_file};

/// Schedulers of `--quick`.
const QUICK: [&str; 6] =
    ["kernel:mq-deadline", "kernel:bfq", "kernel:bfq{low_latency=0}", "noop", "deadline", "stream(deadline)"];

pub(crate) fn run(arguments: &DuelArguments, catalogue: Catalogue) -> Result<(), Error> {
    let device = Arc::new(Device::open(&arguments.drive)?);
    tell(device.notes());
    let plan = Plan::new(arguments, catalogue, &device)?;
    arguments.report.as_deref().map_or(Ok(()), can_be_written)?;
    let mut duel = prepare(arguments, catalogue, &device, plan.size)?;
    duel.try_out(&plan.schedulers).map_err(told)?;
    let model = Model { device: &device, catalogue, size: plan.size, level: arguments.level };
    let comparisons = plan.run(&mut duel, &model, arguments.quiet);
    drop(duel);
    let (comparisons, ended) = comparisons;
    print(arguments, &device, &comparisons)?;
    ended
}

/// What is to be run.
struct Plan {
    schedulers: Vec<Scheduler>,
    benchmarks: Vec<Benchmark>,
    depths: Vec<u32>,
    hidden: Vec<bool>,
    size: Size,
    repeat: u32,
}

impl Plan {
    fn new(arguments: &DuelArguments, catalogue: Catalogue, device: &Device) -> Result<Self, Error> {
        let size = size(arguments)?;
        let schedulers = compared(arguments, catalogue)?;
        let mut benchmarks = benchmarks(arguments)?;
        for job in &arguments.jobs {
            // Its turn may come hours from now.
            text_file::read(job, "job file")?;
        }
        // What cannot be run here is said, and the rest is run.
        benchmarks.retain(|benchmark| match benchmark.available() {
            Ok(()) => true,
            Err(missing) => {
                say!("SKIPPED {missing}");
                false
            }
        });
        let capacity = device.capacity().bytes();
        if let Some(large) = benchmarks.iter().find(|benchmark| benchmark.end_bytes(&size) > capacity) {
            return Err(Error::Usage(format!(
                "{} needs {} bytes, but the drive has {capacity}; choose a larger drive",
                large.name(),
                large.end_bytes(&size)
            )));
        }
        let depths =
            if arguments.depths.is_empty() { vec![device.depth().min(31)] } else { arguments.depths.clone() };
        if let Some(depth) =
            depths.iter().find(|&&depth| depth == 0 || depth > device.depth() || matches!(depth, 2 | 3))
        {
            return Err(Error::Usage(format!(
                "--depth {depth}: a loop device can be made to have 1 request under way, or 4 and more, and this drive queues {}",
                device.depth()
            )));
        }
        let hidden = match arguments.programs {
            Sight::Shown => vec![false],
            Sight::Hidden => vec![true],
            Sight::Both => vec![false, true],
        };
        Ok(Self { schedulers, benchmarks, depths, hidden, size, repeat: arguments.repeat })
    }

    /// Runs everything; what was measured until then, and how it ended.
    fn run(&self, duel: &mut Duel, model: &Model<'_>, quiet: bool) -> (Vec<Comparison>, Result<(), Error>) {
        let entries = |benchmark: &Benchmark| self.schedulers.len() + usize::from(benchmark.has_yardstick());
        let entries: usize = self.benchmarks.iter().map(entries).sum();
        let runs = entries * self.depths.len() * self.hidden.len() * self.repeat as usize;
        let bar = match !quiet && std::io::stderr().is_terminal() {
            true => ProgressBar::new(runs as u64),
            false => ProgressBar::hidden(),
        };
        let mut comparisons = Vec::new();
        for benchmark in &self.benchmarks {
            for &depth in &self.depths {
                for &hidden in &self.hidden {
                    let mut comparison =
                        Comparison::new(benchmark, &self.size, depth, hidden, &self.schedulers);
                    let compared = self.comparison(duel, model, &mut comparison, &bar);
                    if comparison.has_begun() {
                        comparisons.push(comparison);
                    }
                    if let Err(error) = compared {
                        bar.finish_and_clear();
                        return (comparisons, Err(told(error)));
                    }
                }
            }
        }
        bar.finish_and_clear();
        (comparisons, Ok(()))
    }

    fn comparison(
        &self,
        duel: &mut Duel,
        model: &Model<'_>,
        comparison: &mut Comparison,
        bar: &ProgressBar,
    ) -> Result<(), DuelError> {
        duel.set(comparison.depth, comparison.hidden);
        let kinds = model.kinds(&comparison.benchmark);
        let mut ways: BTreeMap<(bool, Kind), Way> = BTreeMap::new();
        for round in 0..self.repeat as usize {
            // Everybody in turn, and each time another one first: what the machine does beside this meets all of them.
            for n in 0..comparison.entries.len() {
                bar.set_message(comparison.title());
                let n = (n + round) % comparison.entries.len();
                let entry = &mut comparison.entries[n];
                let outcome = duel.run(&comparison.benchmark, &entry.scheduler, entry.alone)?;
                entry.outcomes.push(outcome);
                bar.inc(1);
            }
            // In every round, as a machine's wake-ups take half as long again a minute later.
            for kernel in [false, true] {
                let mut entries = comparison.entries.iter();
                let Some(entry) = entries.find(|entry| entry.scheduler.is_kernel() == kernel) else {
                    continue;
                };
                for &kind in &kinds {
                    let way = duel.way(&entry.scheduler, kind)?;
                    match ways.entry((kernel, kind)) {
                        Slot::Occupied(mut known) => known.get_mut().join(&way),
                        Slot::Vacant(unknown) => drop(unknown.insert(way)),
                    }
                }
            }
        }
        for entry in &mut comparison.entries {
            let kernel = entry.scheduler.is_kernel();
            let known = kinds.iter().filter_map(|&kind| Some((kind, ways.get(&(kernel, kind))?.clone())));
            entry.ways = known.collect();
            let (benchmark, depth, hidden) = (&comparison.benchmark, comparison.depth, comparison.hidden);
            match model.predict(benchmark, entry, depth, hidden) {
                Ok(predicted) => entry.predicted = Some(predicted),
                Err(why) => entry.unpredicted = why,
            }
        }
        Ok(())
    }
}

fn size(arguments: &DuelArguments) -> Result<Size, Error> {
    let (time, patience, tree_files, transactions) =
        if arguments.quick { ("3s", "20s", 250, 200) } else { ("9s", "180s", 2000, 500) };
    Ok(Size {
        time: some_time("--time", arguments.time.as_deref().unwrap_or(time))?,
        patience: some_time("--patience", arguments.patience.as_deref().unwrap_or(patience))?,
        tree_files: arguments.tree_files.unwrap_or(tree_files),
        transactions: arguments.transactions.unwrap_or(transactions),
    })
}

fn compared(arguments: &DuelArguments, catalogue: Catalogue) -> Result<Vec<Scheduler>, Error> {
    let parse = |name: &str| name.parse::<Scheduler>().map_err(|error| Error::Usage(error.to_string()));
    let schedulers = match (arguments.schedulers.is_empty(), arguments.quick) {
        (false, _) => arguments.schedulers.iter().map(|name| parse(name)).collect::<Result<Vec<_>, _>>()?,
        (true, true) => QUICK.iter().map(|name| parse(name)).collect::<Result<_, _>>()?,
        (true, false) => Scheduler::usual(),
    };
    for scheduler in &schedulers {
        if let Scheduler::Dwell { scheduler } = scheduler {
            named::of_one_device(catalogue, scheduler).map_err(|error| {
                Error::Usage(format!("{error}; an elevator of the kernel is written kernel:{scheduler}"))
            })?;
        }
    }
    Ok(schedulers)
}

fn benchmarks(arguments: &DuelArguments) -> Result<Vec<Benchmark>, Error> {
    let named = |name: &String| {
        Benchmark::named(name).ok_or_else(|| {
            let names: Vec<String> = Benchmark::ALL.iter().map(Benchmark::name).collect();
            let hint = did_you_mean(name, names.iter().map(String::as_str));
            Error::Usage(format!("'{name}' is no benchmark; there are {}{hint}", names.join(", ")))
        })
    };
    let mut benchmarks = arguments.benchmarks.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    benchmarks.extend(arguments.jobs.iter().cloned().map(Benchmark::Fio));
    Ok(match (benchmarks.is_empty(), arguments.quick) {
        (false, _) => benchmarks,
        (true, true) => {
            vec![Benchmark::ParRead { direct: true }, Benchmark::ParRead { direct: false }, Benchmark::Greps]
        }
        (true, false) => Benchmark::ALL.to_vec(),
    })
}

fn prepare(
    arguments: &DuelArguments,
    catalogue: Catalogue,
    device: &Arc<Device>,
    size: Size,
) -> Result<Duel, Error> {
    let program = std::env::current_exe().map_err(|e| Error::Failed(format!("finding this program: {e}")))?;
    let drive = Arc::clone(device);
    let options = TestbedOptions {
        drive: Arc::new(move || drive.build()),
        nature: nature(device),
        depth: 1,
        hidden: false,
        schedulers: schedulers(catalogue, device.environment(&Limits::default())),
        helpers: HelperCommand { program, arguments: vec!["duel-helper".to_owned()] },
        scratch: scratch(),
    };
    let priorities = Priorities { nice: arguments.nice, level: arguments.level };
    let settings = Settings { options, priorities, size, asked: interrupt::requested };
    Duel::prepare(settings).map_err(told)
}

fn told(error: DuelError) -> Error {
    match error {
        DuelError::Interrupted => Error::Interrupted,
        DuelError::Missing(_) => Error::Kernel(error.to_string()),
        DuelError::Usage(_) => Error::Usage(error.to_string()),
        DuelError::Io { ref source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            Error::Permission(format!("{error}; a duel needs root"))
        }
        _ => Error::Failed(error.to_string()),
    }
}

fn print(arguments: &DuelArguments, device: &Device, comparisons: &[Comparison]) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let of = json!({
            "dwell": env!("CARGO_PKG_VERSION"), "drive": device.describe(),
            "kernel": kernel(), "nice": arguments.nice, "level": arguments.level, "comparisons": comparisons,
        });
        writeln!(out, "{}", object(&of)?)?;
    } else {
        for comparison in comparisons {
            writeln!(out, "{}\n{}\n", comparison.title(), table::table(comparison))?;
        }
    }
    if !arguments.quiet {
        let unpredicted =
            comparisons.iter().flat_map(|comparison| &comparison.entries).map(|entry| &entry.unpredicted);
        let words: BTreeSet<&String> = unpredicted.filter(|why| !why.is_empty()).collect();
        words.iter().for_each(|why| say!("not predicted: {why}"));
    }
    if let Some(path) = &arguments.report {
        std::fs::write(path, report::html(&device.describe(), &kernel(), comparisons))
            .map_err(|e| Error::written(path.display(), &e))?;
    }
    Ok(())
}

/// The kernel whose schedulers were compared.
fn kernel() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}", text.trim())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        duel: DuelArguments,
    }

    #[test]
    fn what_is_said_beside_quick_is_done() {
        let of = |line: &[&str]| size(&Line::parse_from([&["duel"], line].concat()).duel);
        let quick = of(&["--quick", "--time", "1s", "--tree-files", "9"]).unwrap();
        assert_eq!((quick.time, quick.tree_files), (Duration::from_secs(1), 9));
        assert_eq!(quick.transactions, of(&["--quick"]).unwrap().transactions);
        assert!(of(&["--quick", "--patience", "soon"]).is_err());
    }
}
