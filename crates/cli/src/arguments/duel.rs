//! The command line of `duel`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Which schedulers run which benchmarks, and how often.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell duel --quick                                 the main results in seven to nine minutes
  dwell duel --benchmark par-read -s kernel:bfq -s 'kernel:bfq{low_latency=0}' -s 'stream(deadline)'
  dwell duel --job mine.fio --depth 4 --depth 31 --report duel.html")]
pub(crate) struct DuelArguments {
    /// The drive that is emulated: built in, or a file; see 'dwell drives'
    #[arg(long, default_value = "wd5000aaks", env = "DWELL_DRIVE")]
    pub(crate) drive: String,
    /// A scheduler to compare: kernel:NAME or one of Dwell's, with tunables in braces; may be given several times
    #[arg(long = "scheduler", short = 's', value_name = "NAME")]
    pub(crate) schedulers: Vec<String>,
    /// What is run (par-read, par-read-buffered, greps, postmark, write-beside-reads, sqlite, postgresql); may be given several times. Default: all
    #[arg(long = "benchmark", short = 'b', value_name = "NAME")]
    pub(crate) benchmarks: Vec<String>,
    /// A fio job file, which is run on the bare device; may be given several times
    #[arg(long = "job", value_name = "FILE")]
    pub(crate) jobs: Vec<PathBuf>,
    /// Requests that the drive is given at once: 1, or 4 and more; may be given several times. Default: 31
    #[arg(long = "depth", value_name = "N")]
    pub(crate) depths: Vec<u32>,
    /// Whether schedulers see the programs, or one more loop device hides them
    #[arg(long, value_enum, default_value_t = Sight::Both)]
    pub(crate) programs: Sight,
    /// How often each scheduler runs each benchmark
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeat: u32,
    /// How long those programs run that do not end by themselves [default: 9s]
    #[arg(long, value_name = "TIME")]
    pub(crate) time: Option<String>,
    /// After so long, programs are stopped that should end by themselves [default: 180s]
    #[arg(long, value_name = "TIME")]
    pub(crate) patience: Option<String>,
    /// Files in each of the two source trees [default: 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=200_000))]
    pub(crate) tree_files: Option<u64>,
    /// Transactions of each PostMark [default: 500]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    pub(crate) transactions: Option<u64>,
    /// Processor priority of the programs, -20 to 19
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-20..=19))]
    pub(crate) nice: i32,
    /// I/O priority of the programs: level of the best-effort class
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub(crate) level: u8,
    /// Only the main results, small, where nothing else is said: direct and buffered par-read, and the greps, for the main schedulers
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write a report: one HTML file that opens offline
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress, no notes
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Whether schedulers see the programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Sight {
    /// The kernel's elevators see who asks
    Shown,
    /// They see one kernel worker, as behind a VM, an NBD server or a stacked device
    Hidden,
    /// Once so and once so
    Both,
}
