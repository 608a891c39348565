//! The command lines of `advise`, `tune` and `patterns`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

/// What is common to watching and tuning.
#[derive(Args, Debug)]
pub(crate) struct Watching {
    /// What to improve
    #[arg(long, value_enum, default_value_t = MetricName::Bandwidth)]
    pub(crate) metric: MetricName,
    /// A command that prints the number to improve, once a window; instead of --metric
    #[arg(long, value_name = "COMMAND", conflicts_with = "metric")]
    pub(crate) command: Option<String>,
    /// Less of the command's number is better
    #[arg(long, requires = "command")]
    pub(crate) less_is_better: bool,
    /// A scheduler to choose from, with settings in braces: bfq{slice_idle=0}; several times. Default: all that the queue offers
    #[arg(long = "arm", value_name = "NAME")]
    pub(crate) arms: Vec<String>,
    /// What 'dwell profile' measured of this device: decides while nothing is known yet
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Length of a window
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(crate) window: String,
    /// What chooses the scheduler
    #[arg(long, value_enum, default_value_t = DeciderArgument::Kinds)]
    pub(crate) decider: DeciderArgument,
    /// A parameter of the decider 'ioanalyzer' or 'bandit', such as similarity=90%; repeatable. docs/tuner.md lists them
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) settings: Vec<String>,
    /// The directory in which the tuner stores what it learned
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/dwell/tuner")]
    pub(crate) database: PathBuf,
    /// A device that 'dwell serve' serves: choose among Dwell's own policies, by its control socket
    #[arg(long, value_name = "SOCKET")]
    pub(crate) control: Option<PathBuf>,
}

/// What to improve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum MetricName {
    /// Bytes a second of the device
    Bandwidth,
    /// Requests a second of the device
    Iops,
    MeanReadLatency,
    P99ReadLatency,
    MeanWriteLatency,
    P99WriteLatency,
    MeanSyncLatency,
    P99SyncLatency,
    /// Equal shares for processes (Jain's index)
    Fairness,
    /// Equal shares for control groups; what the kernel writes back counts for the root
    CgroupFairness,
    /// What programs read and wrote, by system calls
    UserBandwidth,
    /// What programs read and wrote beyond what the device did: page cache hits
    UserMinusSystem,
}

/// What chooses the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum DeciderArgument {
    /// Kinds of load, whatever order their requests come in
    Kinds,
    /// The algorithm of the IOAnalyzer paper: recurring patterns, and a bandit for the rest
    Ioanalyzer,
    /// The paper's armed bandit alone, without patterns
    Bandit,
}

/// Watch a device and say which scheduler would serve it better. Changes nothing, ever; where BPF is not allowed, and that is said, the
/// kernel's tracer reports to it in an instance of its own while it runs.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell advise /dev/sda
  dwell advise /dev/sda --windows 12 --metric p99-read-latency --json")]
pub(crate) struct AdviseArguments {
    /// The device, or an array
    pub(crate) device: PathBuf,
    #[command(flatten)]
    pub(crate) watching: Watching,
    /// Windows to watch
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) windows: u32,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Restraints beyond the paper, each off unless asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum RestraintName {
    /// Never more than 5% below the best fixed scheduler over an hour, as far as is known; go back when a switch hurt
    Regret,
}

/// Keep a device on the scheduler that serves it best; put everything back on exit.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell tune /dev/sda --dry-run
  dwell tune /dev/sda --metric p99-sync-latency --restrain regret
  dwell tune /dev/md0
  dwell tune /dev/sda --search 2
  dwell tune /dev/sda --status
  dwell tune /dev/loop0 --control /run/dwell/disk.ctl --arm cfq --arm 'stream(deadline)' --arm noop")]
pub(crate) struct TuneArguments {
    /// The device, or an array
    pub(crate) device: PathBuf,
    #[command(flatten)]
    pub(crate) watching: Watching,
    /// Say what would be done, and do nothing to the device; what was learned is kept
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Show how a running tuner of this device is doing
    #[arg(long)]
    pub(crate) status: bool,
    /// With --status: print one JSON object
    #[arg(long, requires = "status")]
    pub(crate) json: bool,
    /// End after so much time; default: never
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) during: Option<String>,
    /// Hold the tuner back; several times
    #[arg(long = "restrain", value_enum, value_name = "HOW")]
    pub(crate) restraints: Vec<RestraintName>,
    /// Also try settings of the schedulers and the queue, so many at a time, which an optimiser proposes
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=8))]
    pub(crate) search: u8,
    /// Start with what another machine's tuner learned about a drive of the same model and size: a file of its database, or the directory
    #[arg(long, value_name = "PATH")]
    pub(crate) transfer: Option<PathBuf>,
    /// Show metrics to Prometheus at this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics_addr: Option<SocketAddr>,
    /// Where a running tuner's status is kept
    #[arg(long, value_name = "DIRECTORY", default_value = "/run/dwell")]
    pub(crate) runtime: PathBuf,
    /// Seed of the tuner's chance; default: drawn
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

/// What the tuner learned.
#[derive(Args, Debug)]
pub(crate) struct PatternsArguments {
    /// The directory in which the tuner stores what it learned
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/dwell/tuner", global = true)]
    pub(crate) database: PathBuf,
    /// The drive, or a part of its name; needed where there are several
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) drive: Option<String>,
    /// The metric that it was learned by, as --metric of 'dwell tune', or 'command'; needed where there are several
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) metric: Option<String>,
    #[command(subcommand)]
    pub(crate) command: PatternsCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum PatternsCommand {
    /// The drives, by each metric, and the kinds of load of one; the clusters with their pictures, where there are any
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    #[command(group = ArgGroup::new("of").required(true))]
    /// One kind of load: what is asked for, what each scheduler is expected to give. Or one cluster: its picture, how it went, what follows
    Show {
        /// A cluster's number
        #[arg(group = "of")]
        cluster: Option<u64>,
        /// A kind's number
        #[arg(long, value_name = "N", group = "of")]
        kind: Option<usize>,
        /// Also draw the cluster into an HTML file that opens offline
        #[arg(long, value_name = "FILE", conflicts_with = "kind")]
        html: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Join a cluster into another, or a kind of load into another
    Merge {
        /// The numbers are of kinds
        #[arg(long)]
        kinds: bool,
        /// The one that stays
        into: u64,
        /// The one that goes
        other: u64,
    },
    #[command(group = ArgGroup::new("what").required(true))]
    /// Forget a cluster, what was learned of a kind of load, or the whole drive
    Forget {
        /// A cluster's number
        #[arg(group = "what")]
        cluster: Option<u64>,
        /// A kind's number
        #[arg(long, value_name = "N", group = "what")]
        kind: Option<usize>,
        /// All that was learned of the drive, by every metric unless one is named
        #[arg(long, group = "what")]
        all: bool,
    },
}
