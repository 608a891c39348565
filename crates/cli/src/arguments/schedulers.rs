//! The command line of `schedulers`.

use clap::Args;

/// Schedulers.
#[derive(Args, Debug)]
pub(crate) struct SchedulersArguments {
    /// Show this one with its tunables; of stream(deadline), both
    pub(crate) name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
