//! The command line of `top`.

use std::path::PathBuf;

use clap::Args;

/// Which device, and how often.
#[derive(Args, Debug)]
#[command(after_help = "Keys: q or Ctrl-C ends it.")]
pub(crate) struct TopArguments {
    /// The control socket of 'dwell serve --control'
    pub(crate) socket: PathBuf,
    /// Time between two pictures
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) every: String,
    /// Print one picture and end, for scripts and where there is no terminal
    #[arg(long)]
    pub(crate) once: bool,
}
