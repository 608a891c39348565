//! `dwell regret`: how much longer each workload takes under a scheduler than under the best one.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use elevator::Sector;
use evaluation::interrupt;
use evaluation::regret::cells::{Selection, Set, cells, drawn_drives};
use evaluation::regret::{run as run_cells, table};
use schedulers::registry::Catalogue;

use crate::error::Error;
use crate::input::scheduler_arg::{Host, specs};
use crate::output_file::{self, check_distinct, check_writable};
use evaluation::input::{self as workload, Reading, Replaying};

/// Options of `dwell regret`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell regret --sample 40                           a table in minutes: 40 cells, drawn evenly
  dwell regret recordings/pgbench.ftrace.gz --csv regret.csv
  dwell regret -s 'stream(deadline)' -s bfq --only sqlite --worst 10
  dwell regret --drive 'wd5000aaks{queue.order=sstf}' --depth 4
  dwell regret --set queues --only 'sqlite|postgresql' --by-drive")]
pub(crate) struct RegretArguments {
    /// Recordings and fio job files in addition to the project's own workloads
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A scheduler with tunables in braces; repeatable. Default: the kernel's schedulers, those of the papers and Dwell's own
    #[arg(long = "scheduler", short = 's', value_name = "NAME")]
    schedulers: Vec<String>,
    /// Workloads and drives for tuning a policy, those held out for its evaluation, or drives that differ in queue, cache and depth
    #[arg(long, value_enum, default_value_t = SetName::Tuning)]
    set: SetName,
    /// A drive instead of those of the set; repeatable
    #[arg(long = "drive", value_name = "DRIVE")]
    drives: Vec<String>,
    /// A depth instead of those of the set; repeatable
    #[arg(long = "depth", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    depths: Vec<u32>,
    /// Only cells whose names contain this ('workload on drive depth N shown'); '|' separates alternatives; repeatable, all must match
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Run at most this many cells, drawn evenly
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Seed of the randomly drawn drives, and of the held-out set's fio jobs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one line per drive and depth, with the gains and losses of the first scheduler
    #[arg(long, conflicts_with = "json")]
    by_drive: bool,
    /// Print the worst cells of each scheduler
    #[arg(long, value_name = "N", default_value_t = 0)]
    worst: usize,
    /// Write every cell and scheduler as comma-separated values
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print no progress
    #[arg(long, short)]
    quiet: bool,
}

/// A set of workloads and drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum SetName {
    /// Workloads and drives on which policies are developed
    Tuning,
    /// Workloads and drives on which a finished policy is evaluated
    HeldOut,
    /// Benchmarks of the duel, fio jobs and short scripts on drives with other internal queues, with and without write cache, at depths 1, 4 and 31
    Queues,
}

impl From<SetName> for Set {
    fn from(name: SetName) -> Self {
        match name {
            SetName::Tuning => Self::Tuning,
            SetName::HeldOut => Self::HeldOut,
            SetName::Queues => Self::Queues,
        }
    }
}

/// Schedulers that are compared by default: what a kernel offers, with `bfq` at both settings, and the papers' schedulers.
const DEFAULT: [&str; 12] = [
    "dwell",
    "noop",
    "mq-deadline",
    "kyber",
    "bfq",
    "bfq{low_latency=0}",
    "deadline",
    "stream(deadline)",
    "anticipatory",
    "cooperative",
    "cfq",
    "stream(mq-deadline)",
];

pub(crate) fn run(arguments: &RegretArguments, catalogue: Catalogue) -> Result<(), Error> {
    if let Some(path) = &arguments.csv {
        let models = arguments.drives.iter().chain(&arguments.schedulers).map(Path::new);
        let inputs: Vec<&Path> = arguments.files.iter().map(PathBuf::as_path).chain(models).collect();
        check_distinct(&[("--csv", path)], &inputs)?;
        check_writable(path)?;
    }
    let named = match arguments.schedulers.is_empty() {
        true => DEFAULT.map(str::to_owned).to_vec(),
        false => arguments.schedulers.clone(),
    };
    let specs = specs(catalogue, &named, Host::Disk, true)?;
    let files = arguments.files.iter().map(|file| {
        let name = file.display().to_string();
        let opened = workload::open(&name, &Reading::default(), Replaying::default(), Sector(u64::MAX))?;
        Ok((name, Arc::from(opened.workload)))
    });
    let selection = Selection {
        set: arguments.set.into(),
        drives: &arguments.drives,
        depths: &arguments.depths,
        files: files.collect::<Result<_, Error>>()?,
        only: &arguments.only,
        sample: arguments.sample,
        seed: arguments.seed,
    };
    let cells = cells(&selection)?;
    if cells.is_empty() {
        return Err(Error::Usage(
            "no cell to run: no name matches --only, or every workload is larger than its drive".to_owned(),
        ));
    }
    if !arguments.quiet && arguments.drives.is_empty() {
        for (drive, _) in drawn_drives(selection.set, arguments.seed) {
            say!("drive drawn with --seed {}: {drive}", arguments.seed);
        }
    }
    let bar = if arguments.quiet {
        indicatif::ProgressBar::hidden()
    } else {
        indicatif::ProgressBar::new((cells.len() * specs.len()) as u64)
    };
    let rows = run_cells(&cells, &specs, catalogue, &|_, _| bar.inc(1));
    bar.finish_and_clear();
    let names: Vec<String> = specs.iter().map(ToString::to_string).collect();
    let summaries = table::summaries(&names, &rows);
    if let Some(path) = &arguments.csv {
        output_file::write(path, table::csv(&names, &rows).as_bytes())?;
    }
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let of = serde_json::json!({ "cells": rows.len(), "seed": arguments.seed, "schedulers": summaries });
        writeln!(out, "{}", evaluation::report::format::object(&of)?)?;
    } else {
        writeln!(out, "{}", table::text(&summaries))?;
        if arguments.by_drive {
            writeln!(out, "{}", table::by_drive(&names, &rows))?;
        }
        for summary in summaries.iter().filter(|_| arguments.worst > 0) {
            writeln!(out, "{}", table::worst(summary, arguments.worst))?;
        }
    }
    if interrupt::requested() { Err(Error::Interrupted) } else { Ok(()) }
}
