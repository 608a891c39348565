//! Options that several commands share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::report::SortKey;

/// Options for reading a recording.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct Reading {
    /// Format of the recording; default: detected
    #[arg(long, value_name = "NAME")]
    pub(crate) format: Option<String>,
    /// The device to read from a recording of several; 'all' merges them
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Unit of the recording's time stamps (s, ms, us, 100ns, ns), if the format does not define it
    #[arg(long, value_name = "UNIT")]
    pub(crate) unit: Option<String>,
    /// Reject a recording with unreadable lines instead of skipping them
    #[arg(long)]
    pub(crate) strict: bool,
}

impl Reading {
    pub(crate) fn options(&self) -> evaluation::input::Reading {
        let Self { format, device, unit, strict } = self.clone();
        evaluation::input::Reading { format, device, unit, strict }
    }
}

/// Options for the results of several schedulers.
#[derive(Args, Debug)]
pub(crate) struct Output {
    /// Write a report: one HTML file that opens offline
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write every decision with its reason to a file ('-' for standard output, which sends tables to standard error)
    #[arg(long, value_name = "FILE")]
    pub(crate) explain: Option<PathBuf>,
    /// Format of the decision log
    #[arg(long, value_enum, default_value_t = ExplainFormatName::Text, requires = "explain")]
    pub(crate) explain_format: ExplainFormatName,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the table of schedulers as CSV, with all columns and digits; --json also has processes and members
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Print tables as Markdown
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub(crate) markdown: bool,
    /// Print all columns, however wide the table becomes. Default: those that fit the terminal, or 80 columns. Other formats always have all columns
    #[arg(long, conflicts_with_all = ["json", "csv", "markdown"])]
    pub(crate) wide: bool,
    /// Rank schedulers by this metric. Default: throughput ('run': time); for a replay by time stamps, mean latency; for a workload of given duration, work per second
    #[arg(long, value_name = "KEY", value_enum, ignore_case = true)]
    pub(crate) sort: Option<SortKey>,
    /// Run every scheduler, including the historical ones
    #[arg(long, conflicts_with = "schedulers")]
    pub(crate) all: bool,
    /// Print no progress and no notes, except for skipped parts of a recording
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// The format of a decision log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ExplainFormatName {
    /// One line of text per decision
    Text,
    /// One JSON object per line
    Jsonl,
}

/// A scale: the factor for data, operations and memory.
///
/// # Errors
/// Anything but a number above 0 and at most 1.
pub(crate) fn scale(text: &str) -> Result<f64, String> {
    let scale: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    if scale > 0.0 && scale <= 1.0 { Ok(scale) } else { Err("a scale is above 0 and at most 1".to_owned()) }
}
