//! The command lines of `advise`, `tune` and `patterns`.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::device_capture::Reached;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};

/// Options of both `advise` and `tune`.
#[derive(Args, Debug)]
pub(crate) struct Watching {
    /// The metric to improve
    #[arg(long, value_enum, default_value_t = MetricName::Bandwidth)]
    pub(crate) metric: MetricName,
    /// A command that prints the number to improve, once per window; instead of --metric
    #[arg(long, value_name = "COMMAND", conflicts_with = "metric")]
    pub(crate) command: Option<String>,
    /// Lower numbers of the command are better
    #[arg(long, requires = "command", conflicts_with = "metric")]
    pub(crate) less_is_better: bool,
    /// A scheduler to choose from, with optional settings in braces: bfq{slice_idle=0}; repeatable. Default: all that the queue offers
    #[arg(long = "arm", value_name = "NAME")]
    pub(crate) arms: Vec<String>,
    /// A profile of this device by 'dwell profile', which orders the first trials for loads without history
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Length of a window, in which the load is observed
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(crate) window: String,
    /// The algorithm that compares schedulers
    #[arg(long, value_enum, default_value_t = DeciderArgument::Kinds)]
    pub(crate) decider: DeciderArgument,
    /// A parameter of the decider 'ioanalyzer' or 'bandit', such as similarity=90%; repeatable. docs/tuner.md lists them
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) settings: Vec<String>,
    /// The directory in which the tuner stores what it learned
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/dwell/tuner")]
    pub(crate) database: PathBuf,
    /// Directory for the status of running tuners
    #[arg(long, value_name = "DIRECTORY", default_value = "/run/dwell")]
    pub(crate) runtime: PathBuf,
    #[command(flatten)]
    pub(crate) reached: Reached,
    /// Choose among Dwell's own policies on a device or array that 'dwell serve' serves: its control socket
    #[arg(long, value_name = "SOCKET")]
    pub(crate) control: Option<PathBuf>,
}

/// The metric to improve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum MetricName {
    /// Bytes per second of the device
    Bandwidth,
    /// Requests per second of the device
    Iops,
    MeanReadLatency,
    P99ReadLatency,
    MeanWriteLatency,
    P99WriteLatency,
    MeanSyncLatency,
    P99SyncLatency,
    /// Equal shares for processes (Jain's index)
    Fairness,
    /// Equal shares for control groups; writeback by the kernel counts for the root group
    CgroupFairness,
    /// Bytes that programs read and write by system calls
    UserBandwidth,
    /// The same minus the bytes of the device: page cache hits
    UserMinusSystem,
}

/// What chooses the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum DeciderArgument {
    /// Kinds of load, regardless of the order of requests
    Kinds,
    /// The algorithm of the IOAnalyzer paper: recurring patterns, and a bandit for the rest
    Ioanalyzer,
    /// The paper's armed bandit alone, without patterns
    Bandit,
}

/// Options of `dwell advise`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell advise /dev/sda
  dwell advise /var/lib/postgresql
  dwell advise /dev/sda --windows 12 --metric p99-read-latency --json")]
pub(crate) struct AdviseArguments {
    /// The device, an array, or a mount point, directory or file on it
    pub(crate) device: PathBuf,
    #[command(flatten)]
    pub(crate) watching: Watching,
    /// Windows to watch
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) windows: u32,
    /// Do not read the device to measure its service times; then nothing is replayed on a model
    #[arg(long)]
    pub(crate) no_probe: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `dwell tune`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell tune /dev/sda --dry-run
  dwell tune /dev/sda --metric p99-sync-latency
  dwell tune /dev/md0
  dwell tune /dev/sda --status
  dwell tune /dev/sda --switch-to 'bfq{low_latency=0}'
  dwell tune /dev/loop0 --control /run/dwell/disk.ctl --arm cfq --arm 'stream(deadline)' --arm noop")]
pub(crate) struct TuneArguments {
    /// The device, or an array
    pub(crate) device: PathBuf,
    #[command(flatten)]
    pub(crate) watching: Watching,
    /// Report decisions without changing the device; the learned state is saved
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Show the status of the tuner that runs on this device
    #[arg(long)]
    pub(crate) status: bool,
    /// With --status: print one JSON object
    #[arg(long, requires = "status")]
    pub(crate) json: bool,
    /// Restore the settings that a killed tuner left, and end
    #[arg(long, conflicts_with = "status")]
    pub(crate) restore: bool,
    /// Set this scheduler once, also for programs that run, and end; it stays until the next start. With --dry-run: print the change only
    #[arg(long, value_name = "NAME", conflicts_with_all = ["status", "restore", "during", "transfer", "metrics_addr", "arms", "profile", "command", "control"])]
    pub(crate) switch_to: Option<String>,
    /// End after this time; default: run until interrupted
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) during: Option<String>,
    /// Start with what another machine's tuner learned about a drive of the same model and size: a file of its database, or the directory
    #[arg(long, value_name = "PATH")]
    pub(crate) transfer: Option<PathBuf>,
    /// Serve Prometheus metrics at this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics_addr: Option<SocketAddr>,
    /// Seed of the tuner's random numbers; default: random
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

/// Show and change what the tuner has learned.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell patterns list
  dwell patterns --drive sda show --kind 0")]
pub(crate) struct PatternsArguments {
    /// The directory in which the tuner stores what it learned
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/dwell/tuner", global = true)]
    pub(crate) database: PathBuf,
    /// The drive, or a part of its name; required if the database has several
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) drive: Option<String>,
    /// The metric, as for 'dwell tune --metric', or 'command'; required if the database has several
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) metric: Option<String>,
    #[command(subcommand)]
    pub(crate) command: PatternsCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum PatternsCommand {
    /// List drives and metrics; for a single one its kinds of load, and its clusters with charts
    #[command(after_help = "Examples:
  dwell patterns list
  dwell patterns --drive sda --metric throughput list --json")]
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show a kind of load (its requests, the expected value of each scheduler) or a cluster (its chart, its values, its successors)
    #[command(group = ArgGroup::new("of").required(true), after_help = "Examples:
  dwell patterns --drive sda show --kind 0
  dwell patterns --drive sda show 3 --html cluster.html")]
    Show {
        /// A cluster's number
        #[arg(group = "of")]
        cluster: Option<u64>,
        /// A kind's number
        #[arg(long, value_name = "N", group = "of")]
        kind: Option<usize>,
        /// Also draw the cluster into a self-contained HTML file
        #[arg(long, value_name = "FILE", conflicts_with = "kind")]
        html: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Merge a cluster, or a kind of load, into another; or exported files into one; of two exports of one host, the one with more windows is kept
    #[command(after_help = "Examples:
  dwell patterns --drive sda merge 3 7
  dwell patterns merge fleet.parquet host-17.parquet host-18.parquet")]
    Merge {
        /// The numbers are kinds of load
        #[arg(long)]
        kinds: bool,
        /// The number that stays; or the file to write, which may be one of the others
        into: PathBuf,
        /// The number that is removed; or exported or merged files
        #[arg(required = true, value_name = "OTHER")]
        others: Vec<PathBuf>,
    },
    /// Forget a cluster, what was learned about a kind of load, or a whole drive
    #[command(group = ArgGroup::new("what").required(true), after_help = "Examples:
  dwell patterns --drive sda forget 3
  dwell patterns --drive sda forget --all")]
    Forget {
        /// A cluster's number
        #[arg(group = "what")]
        cluster: Option<u64>,
        /// A kind's number
        #[arg(long, value_name = "N", group = "what")]
        kind: Option<usize>,
        /// Everything about the drive, for all metrics unless --metric names one
        #[arg(long, group = "what")]
        all: bool,
    },
    /// Write the ratings of schedulers for each kind of load, with counts, for other hosts
    #[command(after_help = "Examples:
  dwell patterns export host-17.parquet")]
    Export {
        /// The file: one JSON object per line, or a table if it ends in .parquet ('-' for standard output)
        file: PathBuf,
        /// The name of this host in the file. Default: its host name
        #[arg(long, value_name = "NAME")]
        host: Option<String>,
    },
    /// Add kinds of load that other hosts have learned and this host has not, by type of device
    #[command(after_help = "Examples:
  dwell patterns import fleet.parquet")]
    Import {
        /// Exported or merged files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}
