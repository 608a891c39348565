//! The command line of `run`.

use clap::Args;

use super::shared::{Output, scale};

/// What to run, on what, and how to say it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell run scripts/mail-and-backup.toml
  dwell run script.toml --machine pc-2003 --drive ide-2003 --scheduler deadline-2.6.9 --report out.html
  dwell run buffered.fio --scheduler noop --scheduler bfq
  dwell run cooperative/chunk-read-2                 a paper's experiment; 'dwell run --show NAME' prints it")]
pub(crate) struct RunArguments {
    /// A script (*.toml), a fio job file, or an experiment of a paper
    pub(crate) script: String,
    /// The machine: built in (pc-2003, pc-2004, pc-2010, pc-2012, pc-2012-xfs, linux-6) or a file. Default: the script's, or linux-6
    #[arg(long)]
    pub(crate) machine: Option<String>,
    /// The drive: built in, or a file; see 'dwell drives'. Default: the script's, or wd5000aaks
    #[arg(long)]
    pub(crate) drive: Option<String>,
    /// Drives of this kind as an array, as 'dwell compare' has it; read-ahead then covers two full stripes. Default: the script's, if it names one
    #[arg(long, value_name = "ARRAY")]
    pub(crate) array: Option<String>,
    /// A scheduler, with tunables in braces, or a page of TOML (scheduler = "...", tunables below); may be given several times. Default: an experiment's own, or all of them
    #[arg(long = "scheduler", short = 's', value_name = "NAME")]
    pub(crate) schedulers: Vec<String>,
    /// Size of data, operations and memory; 1 is as written
    #[arg(long, default_value_t = 1.0, value_parser = scale)]
    pub(crate) scale: f64,
    /// Print the script instead of running it
    #[arg(long)]
    pub(crate) show: bool,
    /// Print what each member of an array did, under each scheduler
    #[arg(long)]
    pub(crate) members: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}
