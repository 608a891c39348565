//! `dwell duel`: the kernel's schedulers and ours with real programs on an emulated drive, and the model's prediction.

mod device;

use clap::{Args, ValueEnum};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use elevator::queue::Limits;
use evaluation::device::Device;
use evaluation::duel::comparison::Comparison;
use evaluation::duel::model::Model;
use evaluation::duel::plan::Plan;
use evaluation::duel::{
    Benchmark, Duel, DuelError, HelperCommand, Priorities, Scheduler, Settings, Size, TestbedOptions, report,
    scratch, table,
};
use evaluation::report::format::object;
use evaluation::{interrupt, text_file};
use schedulers::registry::Catalogue;
use serde_json::json;

use elevator::text::did_you_mean;

use super::serve::{nature, schedulers};
use crate::device_capture::Reached;
use crate::error::Error;
use crate::input::quantity::some_time;
use crate::input::scheduler_arg;
use crate::output_file::{self, Generated, check_generated};

/// Options of `dwell duel`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell duel --quick                                 the main results in seven to nine minutes
  dwell duel --benchmark par-read -s kernel:bfq -s 'kernel:bfq{low_latency=0}' -s 'stream(deadline)'
  dwell duel --job mine.fio --depth 4 --depth 31 --report duel.html
  dwell duel /dev/sdb                                the kernel's schedulers on a device, which is only read")]
pub(crate) struct DuelArguments {
    /// Compare the kernel's schedulers on this device instead of an emulated drive. It is only read, and must not be mounted or in use
    #[arg(value_name = "DEVICE")]
    pub(crate) target: Option<PathBuf>,
    /// On a device: run benchmarks and jobs that write as well, which destroys its data
    #[arg(long, requires = "target")]
    pub(crate) allow_writes: bool,
    /// On a device: switch schedulers even if it is mounted or in use; reads only
    #[arg(long, requires = "target", conflicts_with = "allow_writes")]
    pub(crate) even_if_used: bool,
    #[command(flatten)]
    pub(crate) reached: Reached,
    /// The emulated drive: built in, or a file; see 'dwell drives' [default: wd5000aaks]. On a device: the modelled drive of a prediction
    #[arg(long, env = "DWELL_DRIVE")]
    pub(crate) drive: Option<String>,
    /// A scheduler: kernel:NAME or one of Dwell's, with tunables in braces; repeatable
    #[arg(long = "scheduler", short = 's', value_name = "NAME")]
    pub(crate) schedulers: Vec<String>,
    /// A benchmark (par-read, par-read-buffered, greps, postmark, write-beside-reads, sqlite, postgresql; on a device par-read, random-reads,
    /// reads-beside-stream, write-beside-reads; for a program on a device, such as a database, record it and use 'dwell replay'); repeatable.
    /// Default: all
    #[arg(long = "benchmark", short = 'b', value_name = "NAME")]
    pub(crate) benchmarks: Vec<String>,
    /// A fio job file to run on the bare device; repeatable
    #[arg(long = "job", value_name = "FILE")]
    pub(crate) jobs: Vec<PathBuf>,
    /// Commands in the drive at once: 1, or 4 and more; repeatable. Default: 31
    #[arg(long = "depth", value_name = "N")]
    pub(crate) depths: Vec<u32>,
    /// Whether schedulers receive the submitting processes; a second loop device hides them [default: both]
    #[arg(long, value_enum)]
    pub(crate) programs: Option<Visibility>,
    /// Runs of each scheduler on each benchmark
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeat: u32,
    /// Duration of programs that do not end by themselves [default: 9s, on a device 5s]
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) during: Option<String>,
    /// Stop programs that should end by themselves after this time [default: 180s; on a device 10s longer than --for or a job's runtime, else 60s]
    #[arg(long, value_name = "TIME")]
    pub(crate) patience: Option<String>,
    /// Files in each of the two source trees [default: 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=200_000))]
    pub(crate) tree_files: Option<u64>,
    /// Transactions of each PostMark [default: 500]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    pub(crate) transactions: Option<u64>,
    /// Nice value of the programs, -20 to 19 [default: 0]
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-20..=19))]
    pub(crate) nice: Option<i32>,
    /// I/O priority of the programs: level of the best-effort class [default: 4]
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub(crate) level: Option<u8>,
    /// Run small versions of the main benchmarks (direct and buffered par-read, greps) under the main schedulers; other options override
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write a report: one HTML file that opens offline
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress and no notes
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Whether schedulers receive the submitting processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Visibility {
    /// Schedulers receive the submitting processes
    Shown,
    /// Schedulers receive one kernel worker, as behind a VM, an NBD server or a stacked device
    Hidden,
    /// Both, in two comparisons
    Both,
}

/// Schedulers of `--quick`.
const QUICK: [&str; 6] =
    ["kernel:mq-deadline", "kernel:bfq", "kernel:bfq{low_latency=0}", "noop", "deadline", "stream(deadline)"];

/// The drive, unless another one is named.
const DRIVE: &str = "wd5000aaks";
/// Best-effort level of the programs, unless another one is given: the kernel's default.
const LEVEL: u8 = 4;

pub(crate) fn run(arguments: &DuelArguments, catalogue: Catalogue) -> Result<(), Error> {
    if let Some(target) = &arguments.target {
        return device::run(arguments, target, catalogue);
    }
    let device = Arc::new(Device::open(arguments.drive.as_deref().unwrap_or(DRIVE))?);
    device.notes().iter().for_each(|note| say!("{note}"));
    let plan = plan(arguments, catalogue, &device)?;
    arguments.report.as_deref().map_or(Ok(()), |path| check_generated(path, Generated::Report))?;
    let mut duel = prepare(arguments, catalogue, &device, plan.size)?;
    duel.try_out(&plan.schedulers).map_err(failed)?;
    let model =
        Model { device: &device, catalogue, size: plan.size, level: arguments.level.unwrap_or(LEVEL) };
    let comparisons = plan.run(&mut duel, &model, arguments.quiet);
    drop(duel);
    let (comparisons, ended) = comparisons;
    print(arguments, &device, &comparisons)?;
    ended.map_err(failed)
}

fn plan(arguments: &DuelArguments, catalogue: Catalogue, device: &Device) -> Result<Plan, Error> {
    let size = size(arguments)?;
    let schedulers = compared(arguments, catalogue)?;
    let mut benchmarks = benchmarks(arguments)?;
    for job in &arguments.jobs {
        // Read now, because the job may run hours later.
        text_file::read(job, "job file")?;
    }
    // A benchmark whose program is missing is skipped.
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
            "--depth {depth}: choose 1, or 4 to {} (the drive's own queue); a loop device has at least 4 tags, and Dwell can park all but one",
            device.depth()
        )));
    }
    let hidden = match arguments.programs.unwrap_or(Visibility::Both) {
        Visibility::Shown => vec![false],
        Visibility::Hidden => vec![true],
        Visibility::Both => vec![false, true],
    };
    Ok(Plan { schedulers, benchmarks, depths, hidden, size, repeat: arguments.repeat })
}

fn size(arguments: &DuelArguments) -> Result<Size, Error> {
    let (time, patience, tree_files, transactions) =
        if arguments.quick { ("3s", "20s", 250, 200) } else { ("9s", "180s", 2000, 500) };
    Ok(Size {
        time: some_time("--for", arguments.during.as_deref().unwrap_or(time))?,
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
            scheduler_arg::for_one_device(catalogue, scheduler).map_err(|error| {
                Error::Usage(format!("{error}; write a scheduler of the kernel as kernel:{scheduler}"))
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
            Error::Usage(format!("'{name}' is not a benchmark; benchmarks are {}{hint}", names.join(", ")))
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
        schedulers: schedulers(
            catalogue,
            device.environment(&Limits::default()),
            scheduler_arg::for_one_device,
        ),
        helpers: HelperCommand { program, arguments: vec!["duel-helper".to_owned()] },
        scratch: scratch(),
    };
    let priorities =
        Priorities { nice: arguments.nice.unwrap_or(0), level: arguments.level.unwrap_or(LEVEL) };
    let settings = Settings { options, priorities, size, is_stopped: interrupt::requested };
    Duel::prepare(settings).map_err(failed)
}

fn failed(error: DuelError) -> Error {
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
            "kernel": kernel(), "nice": arguments.nice.unwrap_or(0), "level": arguments.level.unwrap_or(LEVEL), "comparisons": comparisons,
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
        output_file::write(path, report::html(&device.describe(), &kernel(), comparisons).as_bytes())?;
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
    fn options_override_those_of_quick() {
        let of = |line: &[&str]| size(&Line::parse_from([&["duel"], line].concat()).duel);
        let quick = of(&["--quick", "--for", "1s", "--tree-files", "9"]).unwrap();
        assert_eq!((quick.time, quick.tree_files), (Duration::from_secs(1), 9));
        assert_eq!(quick.transactions, of(&["--quick"]).unwrap().transactions);
        assert!(of(&["--quick", "--patience", "soon"]).is_err());
    }
}
