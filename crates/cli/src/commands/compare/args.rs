//! The command line of `compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::input::shared_args::{Output, Reading};
use crate::report::SortKey;

/// Options of `dwell compare`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell compare io.ftrace.gz                         the schedulers of current kernels and ours, on a WD5000AAKS
  dwell compare job.fio --scheduler deadline --scheduler 'stream(deadline){stream_time_slice=50ms}'
  dwell compare 'par-read{think=200us}' --identity hidden --drive 'wd5000aaks{depth=1}'
  dwell compare io.ftrace.gz --array raid0:5x64k -s 'stream(deadline)' -s 'array-stream(deadline)'
  dwell compare job.fio --array 'raid5:8x256k{failed=2, slow=3, slowness=200, link=400}'
  dwell compare io.ftrace.gz -s deadline --sweep fifo_batch=1,4,16 --sweep read_expire=100ms..500ms+200ms
  dwell compare io.ftrace.gz -s bfq --optimise p99-read --trials 40
  dwell compare io.ftrace.gz --scheduler cfq --explain decisions.txt")]
pub(crate) struct CompareArguments {
    /// A recording ('-' for standard input), a fio job file, or a built-in workload (par-read, ahead-read, multi-threads, chunk-reads, strided, kernel-read, tpc-e, tpc-h, tariffs) with settings in braces
    pub(crate) workload: String,
    /// The drive: built in, or a file (.toml, .diskspecs, .parv); see 'dwell drives'
    #[arg(long, default_value = "wd5000aaks", env = "DWELL_DRIVE")]
    pub(crate) drive: String,
    /// Give schedulers the service times of this profile ('dwell profile') instead of the drive model's
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// An array of such drives: level, members, stripe unit; in braces failed (a member), slow (a member) and slowness (its service times in percent of the others'), link (MB/s of the controller), stripe_cache (stripes that RAID 5 keeps while a member is missing)
    #[arg(long, value_name = "ARRAY")]
    pub(crate) array: Option<String>,
    /// A scheduler with tunables in braces, or a TOML file (scheduler = "...", one tunable per line); repeatable. Default: the schedulers of current kernels ('none' is called noop), cooperative, stream and dwell; --all selects every scheduler. On an array, each member has its own instance
    #[arg(long = "scheduler", short = 's', value_name = "NAME")]
    pub(crate) schedulers: Vec<String>,
    /// Run each scheduler that has this tunable with each of these values: 1,4,16, or a range 1..4, 100ms..500ms+200ms (step), 1..64*4 (factor); repeatable, for each combination
    #[arg(long = "sweep", value_name = "TUNABLE=VALUES")]
    pub(crate) sweeps: Vec<String>,
    /// Search the tunables for the best value of this, with TPE, and compare the best settings with the given ones: all tunables, or the values of --sweep
    #[arg(long, value_name = "KEY", value_enum, ignore_case = true)]
    pub(crate) optimise: Option<SortKey>,
    /// Settings that --optimise tries, for each scheduler
    #[arg(long, value_name = "N", default_value_t = 32, requires = "optimise", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) trials: u32,
    /// The process identity that schedulers receive with each request
    #[arg(long, value_enum, default_value_t = Identity::Shown)]
    pub(crate) identity: Identity,
    /// Commands in the drive at once; at most the drive's own depth, which is the default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) depth: Option<u32>,
    /// Limit of queued requests per direction
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) nr_requests: u32,
    /// Replay a recording by its time stamps instead of in closed loops
    #[arg(long)]
    pub(crate) open: bool,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Stop each run after this virtual time, e.g. 30s
    #[arg(long, value_name = "TIME")]
    pub(crate) at_most: Option<String>,
    /// Print the results of each process, under each scheduler; --json always has them
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub(crate) processes: bool,
    /// Print the results of each member of an array, under each scheduler; --json always has them
    #[arg(long, requires = "array", conflicts_with_all = ["json", "csv"])]
    pub(crate) members: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// The process identity that schedulers receive with each request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Identity {
    /// The processes of the recording or workload
    Shown,
    /// None, as behind a VM, an NBD server or a stacked device
    Hidden,
    /// The same process for all requests, as in the stream paper
    Same,
}
