//! `dwell reproduce`: the papers' experiments, with the published value beside each result.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use evaluation::interrupt;
use evaluation::papers::{self, Experiments, RequestLevel, Selection};

use crate::error::Error;
use crate::input::shared_args::scale;
use crate::output_file::{self, Generated, check_generated};

/// Options of `dwell reproduce`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell reproduce all --report papers.html           every experiment, at the papers' size
  dwell reproduce benchmarks-2003 --scale 0.1        a tenth of data, operations and memory
  dwell reproduce cooperative --only chunk-read      experiments whose names contain this
  dwell reproduce stream --single-disk               the stream paper at the level of requests")]
pub(crate) struct ReproduceArguments {
    /// The paper
    #[arg(value_enum)]
    paper: Paper,
    /// Stream paper: only the experiments at the level of requests, on one disk and without page cache
    #[arg(long)]
    single_disk: bool,
    /// Stream paper: only the disk arrays, and experiments beyond the paper
    #[arg(long, conflicts_with = "single_disk")]
    arrays: bool,
    /// Only experiments whose names contain this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Size of the experiments; 1 is the papers' size. Default: 1, or the smaller size that a table states
    #[arg(long, value_parser = scale)]
    scale: Option<f64>,
    /// Store each run's result here and skip runs that are already there. '' stores nothing
    #[arg(long, value_name = "DIRECTORY", default_value = "dwell-results", value_parser = results)]
    results: Results,
    /// Threads; the results do not depend on the number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Write a report: one HTML file that opens offline
    #[arg(long, value_name = "FILE", conflicts_with = "single_disk")]
    report: Option<PathBuf>,
    /// Write the results and the tables made from them into this directory of pages (docs/reproduction). Not with --scale,
    /// which changes the results
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "scale")]
    write_docs: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A directory for results, or none.
type Results = Option<PathBuf>;

fn results(text: &str) -> Result<Results, std::convert::Infallible> {
    Ok((!text.is_empty()).then(|| PathBuf::from(text)))
}

/// Papers whose experiments can be reproduced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Paper {
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

impl From<Paper> for papers::Paper {
    fn from(paper: Paper) -> Self {
        match paper {
            Paper::Cooperative => Self::Cooperative,
            Paper::Stream => Self::Stream,
            Paper::Ioanalyzer => Self::Ioanalyzer,
            Paper::Split => Self::Split,
            Paper::Benchmarks2003 => Self::Benchmarks2003,
            Paper::All => Self::All,
        }
    }
}

fn selection(arguments: &ReproduceArguments) -> Selection {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let request_level = match (arguments.single_disk, arguments.arrays) {
        (true, _) => Some(RequestLevel::SingleDisk),
        (_, true) => Some(RequestLevel::Arrays),
        _ => None,
    };
    Selection {
        paper: arguments.paper.into(),
        request_level,
        only: arguments.only.clone(),
        scale: arguments.scale,
        results: arguments.results.clone(),
        threads: arguments.threads.map_or_else(cores, usize::from),
    }
}

pub(crate) fn run(arguments: &ReproduceArguments) -> Result<(), Error> {
    let selection = selection(arguments);
    let experiments = Experiments::select(&selection)?;
    arguments.report.as_deref().map_or(Ok(()), |path| check_generated(path, Generated::Report))?;
    let results = experiments.run(&selection)?;
    let mut out = std::io::stdout().lock();
    match arguments.json {
        true => writeln!(out, "{}", results.json())?,
        false => results.text(&mut out)?,
    }
    if let Some(directory) = &arguments.write_docs {
        results.write_docs(directory)?;
    }
    if let Some(path) = &arguments.report {
        output_file::write(path, results.html().as_bytes())?;
    }
    if interrupt::requested() { Err(Error::Interrupted) } else { Ok(()) }
}
