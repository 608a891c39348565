//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::compare::Format;
use crate::tune::{AdviseArguments, PatternsArguments, TuneArguments};

/// I/O scheduling for Linux block devices: try a choice before it is made.
#[derive(Parser, Debug)]
#[command(name = "dwell", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Examples:
  dwell compare recordings/two-greps-and-a-copy.ftrace.gz --report out.html
  dwell compare par-read --drive wd5000aaks --scheduler noop --scheduler 'stream(deadline)'

Exit codes: 0 ok, 1 failed, 2 usage, 3 threshold missed, 4 kernel feature missing, 5 permission, 6 bad input, 130 interrupted")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run one workload under many schedulers, on a modelled drive, and say what each made of it
    Compare(CompareArguments),
    /// Run a script of processes and system calls, or a fio job file, on a modelled machine
    Run(RunArguments),
    /// List, show and validate modelled drives
    Drives(DrivesArguments),
    /// List schedulers, or show one with its tunables
    Schedulers(SchedulersArguments),
    /// Record what a live device is asked: what, when and by whom, no data
    Record(RecordArguments),
    /// Measure a device: service time by distance, throughput by scheduler; reads only
    Profile(ProfileArguments),
    /// Look into recordings, or convert them
    Trace(TraceArguments),
    /// Run a paper's experiments again: published value beside ours
    Reproduce(ReproduceArguments),
    /// Put a scheduler in front of a real disk, a file, or an emulated drive, as a block device
    Serve(ServeArguments),
    /// Look at and change a device that is being served
    Ctl(CtlArguments),
    /// A device that is being served, live: head, rates, waits, latencies, streams
    Top(TopArguments),
    /// The kernel's own schedulers against ours: real programs on an emulated drive; needs root
    Duel(DuelArguments),
    /// A part that another process plays in a duel
    #[command(hide = true)]
    DuelPart {
        /// Which part, as the duel wrote it
        script: String,
    },
    /// Watch a device and say which scheduler would serve it better; changes nothing
    Advise(AdviseArguments),
    /// Keep a device on the scheduler that serves it best; puts everything back on exit
    Tune(TuneArguments),
    /// Look into what the tuner learned, and mend it
    Patterns(PatternsArguments),
}

/// What to compare, on what, and how to say it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell compare io.ftrace.gz                         every scheduler, on a WD5000AAKS
  dwell compare job.fio --scheduler deadline --scheduler 'stream(deadline){stream_time_slice=50ms}'
  dwell compare 'par-read{think=200us}' --identity hidden --drive 'wd5000aaks{depth=1}'
  dwell compare io.ftrace.gz --array raid0:5x64k -s 'stream(deadline)' -s 'array-stream(deadline)'
  dwell compare job.fio --array 'raid5:8x256k{failed=2, slow=3, slowness=200, link=400}'
  dwell compare io.ftrace.gz --scheduler cfq --explain decisions.txt")]
pub(crate) struct CompareArguments {
    /// A recording, a fio job file (*.fio), or a built-in workload (par-read, ahead-read, multi-threads, chunk-reads) with settings in braces
    pub(crate) workload: String,
    /// The drive: built in, or a file (.toml, .diskspecs); see 'dwell drives'
    #[arg(long, default_value = "wd5000aaks", env = "DWELL_DRIVE")]
    pub(crate) drive: String,
    /// Tell schedulers the service times of this profile ('dwell profile') instead of the drive's own
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Drives of this kind as an array: level, members, stripe unit; in braces failed, slow and slowness (of one member), and link (what their card moves, MB/s)
    #[arg(long, value_name = "ARRAY")]
    pub(crate) array: Option<String>,
    /// A scheduler, with tunables in braces; may be given several times. Default: all of them. On an array, each member has one
    #[arg(long = "scheduler", short = 's', value_name = "NAME")]
    pub(crate) schedulers: Vec<String>,
    /// What schedulers are told of the issuing processes
    #[arg(long, value_enum, default_value_t = Identity::Shown)]
    pub(crate) identity: Identity,
    /// Requests that the drive is given at once; at most its own depth
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<u32>,
    /// Request limit of each direction
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub(crate) nr_requests: u32,
    /// Replay a recording by its time stamps instead of in closed loops
    #[arg(long)]
    pub(crate) open: bool,
    /// Which device of a recording that holds several
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Unit of a recording's time stamps (s, ms, us, 100ns, ns), where it cannot be told
    #[arg(long, value_name = "UNIT")]
    pub(crate) unit: Option<String>,
    /// Stop each run after so much virtual time, e.g. 30s
    #[arg(long, value_name = "TIME")]
    pub(crate) at_most: Option<String>,
    /// Write a report: one HTML file that opens offline
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write every decision with its reason to a file ('-' for standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) explain: Option<PathBuf>,
    /// How decisions are written
    #[arg(long, value_enum, default_value_t = Format::Text, requires = "explain")]
    pub(crate) explain_format: Format,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Print what each process saw, under each scheduler
    #[arg(long)]
    pub(crate) processes: bool,
    /// Print what each member of an array did, under each scheduler
    #[arg(long, requires = "array")]
    pub(crate) members: bool,
    /// No progress, no notes
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// What schedulers are told of the issuing processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Identity {
    /// Whatever the recording knows
    Shown,
    /// Nothing, as behind a VM, an NBD server or a stacked device
    Hidden,
    /// One and the same for everybody, as the stream paper hid them
    Same,
}

/// What to record, for how long, and where to.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell record /dev/sda -o io.trace.zst --for 60s
  dwell compare io.trace.zst")]
pub(crate) struct RecordArguments {
    /// The device; partitions, loop devices, dm and md are followed down to the queue that schedules
    pub(crate) device: PathBuf,
    /// The file to write; .gz and .zst are compressed
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// For how long; until Ctrl-C if not given
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) during: Option<String>,
    /// Record this device itself, whatever lies below it
    #[arg(long)]
    pub(crate) here: bool,
    /// Record at most so many requests a second and processor, in bursts; 0 for all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) rate_max: u32,
    /// How to look; default: BPF, and tracefs where that is not allowed
    #[arg(long, value_enum)]
    pub(crate) way: Option<WayName>,
}

/// What to measure, and how.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell profile /dev/sdb -o sdb.toml
  dwell serve /dev/sdb --profile sdb.toml --scheduler 'stream(deadline)' --attach")]
pub(crate) struct ProfileArguments {
    /// The device; partitions, loop devices, dm and md are followed down to the queue that schedules
    pub(crate) device: PathBuf,
    /// The file to write (TOML)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Measure the scheduler at work only; switch nothing
    #[arg(long)]
    pub(crate) no_switch: bool,
    /// How long each scheduler is measured at each request size
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) each: String,
    /// Processes that read at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) readers: u32,
    /// Measure this device itself, whatever lies below it
    #[arg(long)]
    pub(crate) here: bool,
    /// Switch schedulers although the device is mounted or held
    #[arg(long)]
    pub(crate) even_if_used: bool,
}

/// How a live device is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum WayName {
    /// A BPF program at the block layer's tracepoints
    Bpf,
    /// The kernel's tracer, as text
    Tracefs,
}

/// What to run, on what, and how to say it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell run scripts/mail-and-backup.toml
  dwell run script.toml --machine pc-2003 --drive ide-2003 --scheduler deadline-2.6.9 --report out.html
  dwell run buffered.fio --scheduler noop --scheduler bfq
  dwell run cooperative/chunk-read-2                 a paper's experiment; 'dwell run --show NAME' prints it")]
pub(crate) struct RunArguments {
    /// A script (*.toml), a fio job file (*.fio), or an experiment of a paper
    pub(crate) script: String,
    /// The machine: built in (pc-2003, pc-2004, pc-2010) or a file. Default: the script's, or pc-2010
    #[arg(long)]
    pub(crate) machine: Option<String>,
    /// The drive: built in, or a file; see 'dwell drives'. Default: the script's, or wd5000aaks
    #[arg(long)]
    pub(crate) drive: Option<String>,
    /// A scheduler, with tunables in braces; may be given several times. Default: an experiment's own, or all of them
    #[arg(long = "scheduler", short = 's', value_name = "NAME")]
    pub(crate) schedulers: Vec<String>,
    /// Size of data, operations and memory; 1 is as written
    #[arg(long, default_value_t = 1.0, value_parser = scale)]
    pub(crate) scale: f64,
    /// Print the script instead of running it
    #[arg(long)]
    pub(crate) show: bool,
    /// Write every decision with its reason to a file ('-' for standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) explain: Option<PathBuf>,
    /// How decisions are written
    #[arg(long, value_enum, default_value_t = Format::Text, requires = "explain")]
    pub(crate) explain_format: Format,
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

/// Modelled drives.
#[derive(Args, Debug)]
pub(crate) struct DrivesArguments {
    #[command(subcommand)]
    pub(crate) command: Option<DrivesCommand>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum DrivesCommand {
    /// List the built-in drives
    List,
    /// Show a drive: what it is and where each number is from
    Show {
        /// Built in, or a file (.toml, .diskspecs)
        drive: String,
    },
    /// Run a physical drive's measured trace and print the demerit
    Validate {
        /// The drive's description
        drive: String,
        /// The trace: R|W class block blocks service_us gap_us
        trace: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// Schedulers.
#[derive(Args, Debug)]
pub(crate) struct SchedulersArguments {
    /// Show this one with its tunables
    pub(crate) name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which experiments, and how large.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell reproduce all --report papers.html           every experiment, at the papers' size
  dwell reproduce benchmarks-2003 --scale 0.1        a tenth of data, operations and memory
  dwell reproduce cooperative --only chunk-read      experiments whose names contain this
  dwell reproduce stream --single-disk               the stream paper at the level of requests")]
pub(crate) struct ReproduceArguments {
    /// The paper
    #[arg(value_enum)]
    pub(crate) paper: Paper,
    /// Of the stream paper, only what needs one disk and no page cache: the level of requests
    #[arg(long)]
    pub(crate) single_disk: bool,
    /// Of the stream paper, only the disk arrays, at the level of requests
    #[arg(long, conflicts_with = "single_disk")]
    pub(crate) arrays: bool,
    /// Only experiments whose names contain this
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Size of the experiments; 1 is the papers'. Default: 1; 0.0625 with --single-disk and --arrays, 0.5 for ioanalyzer
    #[arg(long, value_parser = scale)]
    scale: Option<f64>,
    /// Keep each run's result here, and go on from what is there. '' keeps nothing
    #[arg(long, value_name = "DIRECTORY", default_value = "dwell-results", value_parser = results)]
    pub(crate) results: Results,
    /// Threads; results are the same for any number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Write a report: one HTML file that opens offline
    #[arg(long, value_name = "FILE", conflicts_with = "single_disk")]
    pub(crate) report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A directory for results, or none.
pub(crate) type Results = Option<PathBuf>;

fn results(text: &str) -> Result<Results, std::convert::Infallible> {
    Ok((!text.is_empty()).then(|| PathBuf::from(text)))
}

impl ReproduceArguments {
    /// The scale.
    pub(crate) fn scale(&self) -> f64 {
        self.scale.unwrap_or(match self.paper {
            Paper::Ioanalyzer => 0.5,
            _ if self.single_disk || self.arrays => 0.0625,
            _ => 1.0,
        })
    }

    /// Threads to run on.
    pub(crate) fn threads(&self) -> usize {
        self.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
    }
}

fn scale(text: &str) -> Result<f64, String> {
    let scale: f64 = text.parse().map_err(|_| format!("'{text}' is no number"))?;
    if scale > 0.0 && scale <= 1.0 { Ok(scale) } else { Err("a scale is above 0 and at most 1".to_owned()) }
}

/// Papers whose experiments can be run again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Paper {
    /// Cooperative anticipatory scheduling (OLS 2005)
    Cooperative,
    /// Stream scheduling (FAST 2011)
    Stream,
    /// Automatic I/O scheduler selection (MASCOTS 2012): the tuner
    Ioanalyzer,
    /// Split-level scheduling (SOSP 2015)
    Split,
    /// The benchmarks of the anticipatory scheduler (February 2003)
    #[value(name = "benchmarks-2003")]
    Benchmarks2003,
    /// All of them
    All,
}

/// What to serve, under what, and how it is reached.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell serve --drive wd5000aaks --size 500G --scheduler 'stream(deadline)' --attach
  dwell serve /dev/sdb --scheduler cooperative --nbd unix:/run/dwell/sdb.sock --control /run/dwell/sdb.ctl")]
pub(crate) struct ServeArguments {
    /// The file or block device to serve; the store of an emulated drive, if --drive is given too
    pub(crate) path: Option<PathBuf>,
    /// Emulate this drive in real time; see 'dwell drives'
    #[arg(long)]
    pub(crate) drive: Option<String>,
    /// Size of the device: 500G is 500 * 10^9 bytes, 500GiB 500 * 2^30
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<String>,
    /// Serve from memory
    #[arg(long, conflicts_with_all = ["path", "drive"], requires = "size")]
    pub(crate) memory: bool,
    /// An emulated drive keeps no data: reads give zeroes
    #[arg(long, requires = "drive", conflicts_with = "path")]
    pub(crate) discard_data: bool,
    /// Tell schedulers the service times of this profile ('dwell profile')
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// The scheduler, with tunables in braces
    #[arg(long, short, default_value = "stream(deadline)")]
    pub(crate) scheduler: String,
    /// Requests that the backing device is given at once
    #[arg(long, default_value_t = 31)]
    pub(crate) depth: u32,
    /// How many times faster than natural an emulated drive runs
    #[arg(long, default_value_t = 1, requires = "drive", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) speed: u32,
    /// Attach as a loop device through FUSE; needs root
    #[arg(long)]
    pub(crate) attach: bool,
    /// How requests that come through the attached device are told apart by their processes; default: not at all
    #[arg(long, value_enum, value_name = "WAY", requires = "attach")]
    pub(crate) identify: Option<IdentifyBy>,
    /// Serve the NBD protocol at unix:PATH or ADDRESS:PORT; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) nbd: Vec<String>,
    /// Directory with server-cert.pem and server-key.pem: TLS, required for addresses other than loopback
    #[arg(long, value_name = "DIRECTORY", requires = "nbd")]
    pub(crate) tls: Option<PathBuf>,
    /// Control socket, for dwell ctl
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
    /// Spin for so long before sleeping, e.g. 50us: shorter ways for single requests, more processor time
    #[arg(long, value_name = "TIME", default_value = "0ns")]
    pub(crate) poll: String,
    /// Serve a device although it is mounted or held; must be given twice
    #[arg(long, action = clap::ArgAction::Count)]
    pub(crate) even_if_used: u8,
    /// Print the report at the end as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How processes are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum IdentifyBy {
    /// A BPF program sees who asks the loop device
    Bpf,
}

/// A served device.
#[derive(Args, Debug)]
pub(crate) struct CtlArguments {
    /// The control socket of 'dwell serve --control'
    pub(crate) socket: PathBuf,
    #[command(subcommand)]
    pub(crate) command: CtlCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum CtlCommand {
    /// The device now: queue, rates, latencies, scheduler and tunables
    Show {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// The device now, as Prometheus text
    Metrics,
    /// Put another scheduler in; nothing is lost
    Switch {
        /// The scheduler, with tunables in braces
        scheduler: String,
        /// Drain the queue first, as Linux does
        #[arg(long)]
        drain: bool,
    },
    /// Set a tunable of the scheduler
    Tune {
        /// Its name
        tunable: String,
        /// Its value with its unit
        value: String,
    },
    /// Write a decision log for a while
    Log {
        /// A file that does not exist yet
        file: PathBuf,
        /// For how long, e.g. 10s
        #[arg(long = "for", default_value = "10s")]
        during: String,
    },
    /// End the server
    Stop,
}

/// Recordings.
#[derive(Args, Debug)]
pub(crate) struct TraceArguments {
    #[command(subcommand)]
    pub(crate) command: TraceCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum TraceCommand {
    /// What a recording holds
    Info {
        /// The recording
        file: PathBuf,
        #[command(flatten)]
        reading: Reading,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Write a recording in another format
    Convert {
        /// The recording
        from: PathBuf,
        /// The file to write ('-' for standard output); .gz and .zst are compressed
        to: PathBuf,
        /// dwell, fio, blkparse or disksim
        #[arg(long, value_name = "FORMAT")]
        to_format: String,
        #[command(flatten)]
        reading: Reading,
    },
}

/// How to read a recording.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct Reading {
    /// Its format, if it should not be detected
    #[arg(long, value_name = "NAME")]
    pub(crate) format: Option<String>,
    /// Which device, if it holds several
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Unit of its time stamps (s, ms, us, 100ns, ns)
    #[arg(long, value_name = "UNIT")]
    pub(crate) unit: Option<String>,
    /// Refuse a recording with lines that must be left out
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Who plays what, and how often.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell duel --quick                                 the main results in about seven minutes
  dwell duel --discipline par-read -s kernel:bfq -s 'kernel:bfq{low_latency=0}' -s 'stream(deadline)'
  dwell duel --job mine.fio --depth 4 --depth 31 --report duel.html")]
pub(crate) struct DuelArguments {
    /// The drive that is emulated: built in, or a file; see 'dwell drives'
    #[arg(long, default_value = "wd5000aaks", env = "DWELL_DRIVE")]
    pub(crate) drive: String,
    /// A contestant: kernel:NAME or one of Dwell's, with tunables in braces; may be given several times
    #[arg(long = "scheduler", short = 's', value_name = "NAME")]
    pub(crate) schedulers: Vec<String>,
    /// What is played (par-read, par-read-buffered, greps, postmark, write-beside-reads, sqlite, postgresql); may be given several times. Default: all
    #[arg(long = "discipline", short = 'd', value_name = "NAME")]
    pub(crate) disciplines: Vec<String>,
    /// A fio job file, which is played on the bare device; may be given several times
    #[arg(long = "job", value_name = "FILE")]
    pub(crate) jobs: Vec<PathBuf>,
    /// Requests that the drive is given at once: 1, or 4 and more; may be given several times. Default: 31
    #[arg(long = "depth", value_name = "N")]
    pub(crate) depths: Vec<u32>,
    /// Whether schedulers see the programs, or one more loop device hides them
    #[arg(long, value_enum, default_value_t = Sight::Both)]
    pub(crate) programs: Sight,
    /// How often each contestant plays
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeat: u32,
    /// How long those programs run that do not end by themselves
    #[arg(long, value_name = "TIME", default_value = "9s")]
    pub(crate) time: String,
    /// After so long, programs are stopped that should end by themselves
    #[arg(long, value_name = "TIME", default_value = "180s")]
    pub(crate) patience: String,
    /// Files in each of the two source trees
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=200_000))]
    pub(crate) tree_files: u64,
    /// Transactions of each PostMark
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    pub(crate) transactions: u64,
    /// Processor priority of the programs, -20 to 19
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-20..=19))]
    pub(crate) nice: i32,
    /// I/O priority of the programs: level of the best-effort class
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub(crate) level: u8,
    /// Only the main results, small: direct and buffered par-read, and the greps, for the main contestants
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
