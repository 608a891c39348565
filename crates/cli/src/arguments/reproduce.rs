//! The command line of `reproduce`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::shared::scale;

/// Which experiments, and how large.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell reproduce all --report papers.html           every experiment, at the papers' size
  dwell reproduce benchmarks-2003 --scale 0.1        a tenth of data, operations and memory
  dwell reproduce cooperative --only chunk-read      experiments whose names contain this
  dwell reproduce stream --single-disk               the stream paper at the level of requests")]
pub(crate) struct ReproduceArguments {
    /// The paper
    #[arg(value_enum)]
    pub(crate) paper: Paper,
    /// Of the stream paper, only what needs one disk and no page cache: the level of requests
    #[arg(long)]
    pub(crate) single_disk: bool,
    /// Of the stream paper, only the disk arrays, and beyond the paper
    #[arg(long, conflicts_with = "single_disk")]
    pub(crate) arrays: bool,
    /// Only experiments whose names contain this
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Size of the experiments; 1 is the papers'. Default: 1, but less where the tables say so
    #[arg(long, value_parser = scale)]
    pub(crate) scale: Option<f64>,
    /// Keep each run's result here, and go on from what is there. '' keeps nothing
    #[arg(long, value_name = "DIRECTORY", default_value = "dwell-results", value_parser = results)]
    pub(crate) results: Results,
    /// Threads; results are the same for any number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Write a report: one HTML file that opens offline
    #[arg(long, value_name = "FILE", conflicts_with = "single_disk")]
    pub(crate) report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A directory for results, or none.
pub(crate) type Results = Option<PathBuf>;

fn results(text: &str) -> Result<Results, std::convert::Infallible> {
    Ok((!text.is_empty()).then(|| PathBuf::from(text)))
}

impl ReproduceArguments {
    /// Whether an experiment of this name was asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| name.contains(only))
    }

    /// Threads to run on.
    pub(crate) fn threads(&self) -> usize {
        self.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
    }
}

/// Papers whose experiments can be run again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Paper {
    /// Cooperative anticipatory scheduling (OLS 2005)
    Cooperative,
    /// Stream scheduling (FAST 2011)
    Stream,
    /// Automatic I/O scheduler selection (MASCOTS 2012): the tuner
    Ioanalyzer,
    /// Split-level scheduling (SOSP 2015)
    Split,
    /// The benchmarks of the anticipatory scheduler (February 2003)
    #[value(name = "benchmarks-2003")]
    Benchmarks2003,
    /// All of them
    All,
}
