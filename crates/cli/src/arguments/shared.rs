//! What several command lines share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// How to read a recording.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct Reading {
    /// A recording's format, if it should not be detected
    #[arg(long, value_name = "NAME")]
    pub(crate) format: Option<String>,
    /// Which device of a recording that holds several; 'all' for all of them together
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Unit of a recording's time stamps (s, ms, us, 100ns, ns), where it cannot be told
    #[arg(long, value_name = "UNIT")]
    pub(crate) unit: Option<String>,
    /// Refuse a recording with lines that must be left out
    #[arg(long)]
    pub(crate) strict: bool,
}

impl Reading {
    /// The first of these options that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        [
            ("--format", self.format.is_some()),
            ("--device", self.device.is_some()),
            ("--unit", self.unit.is_some()),
            ("--strict", self.strict),
        ]
        .into_iter()
        .find_map(|(option, given)| given.then_some(option))
    }
}

/// How the runs of several schedulers are told.
#[derive(Args, Debug)]
pub(crate) struct Output {
    /// Write a report: one HTML file that opens offline
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write every decision with its reason to a file ('-' for standard output; tables go to standard error then)
    #[arg(long, value_name = "FILE")]
    pub(crate) explain: Option<PathBuf>,
    /// How decisions are written
    #[arg(long, value_enum, default_value_t = ExplainFormat::Text, requires = "explain")]
    pub(crate) explain_format: ExplainFormat,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress, no notes; what of a recording had to be left out is still said
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// How decisions are written down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ExplainFormat {
    /// One line of words each.
    Text,
    /// One JSON object a line.
    Jsonl,
}

/// A scale: data, operations and memory are shrunk by it.
///
/// # Errors
///
/// Anything but a number above 0 and at most 1.
pub(super) fn scale(text: &str) -> Result<f64, String> {
    let scale: f64 = text.parse().map_err(|_| format!("'{text}' is no number"))?;
    if scale > 0.0 && scale <= 1.0 { Ok(scale) } else { Err("a scale is above 0 and at most 1".to_owned()) }
}
