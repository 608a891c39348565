//! The command line of `run`.

use clap::Args;

use crate::input::shared_args::{Output, scale};

/// Options of `dwell run`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell run scripts/mail-and-backup.toml
  dwell run script.toml --machine pc-2003 --drive ide-2003 --scheduler deadline-2.6.9 --report out.html
  dwell run buffered.fio --scheduler noop --scheduler bfq
  dwell run cooperative/chunk-read-2                 a paper's experiment; 'dwell run --show NAME' prints it")]
pub(crate) struct RunArguments {
    /// A script (*.toml), a fio job file, or the name of a paper's experiment
    pub(crate) script: String,
    /// The machine: built in (linux-6, pc-2003, pc-2004, pc-2010, pc-2012, pc-2012-xfs) or a file. Default: the script's, or linux-6
    #[arg(long)]
    pub(crate) machine: Option<String>,
    /// The drive: built in, or a file; see 'dwell drives'. Default: the script's, or wd5000aaks
    #[arg(long)]
    pub(crate) drive: Option<String>,
    /// An array of such drives, as in 'dwell compare'; read-ahead then covers two full stripes. Default: the script's, if it has one
    #[arg(long, value_name = "ARRAY")]
    pub(crate) array: Option<String>,
    /// A scheduler with tunables in braces, or a TOML file (scheduler = "...", one tunable per line); repeatable. Default: the experiment's own, or as in 'dwell compare'
    #[arg(long = "scheduler", short = 's', value_name = "NAME")]
    pub(crate) schedulers: Vec<String>,
    /// Factor for data, operations and memory; 1 is the script's size
    #[arg(long, default_value_t = 1.0, value_parser = scale)]
    pub(crate) scale: f64,
    /// Print the script instead of running it
    #[arg(long)]
    pub(crate) show: bool,
    /// Print the results of each member of an array, under each scheduler; --json always has them
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub(crate) members: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}
