//! The command lines of `record` and `profile`: looking at a live device.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// What to record, for how long, and where to.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell record /dev/sda -o io.trace.zst --for 60s
  dwell compare io.trace.zst")]
pub(crate) struct RecordArguments {
    /// The device; partitions, loop devices, dm and md are followed down to the queue that schedules; of an array, whose members all do, itself
    pub(crate) device: PathBuf,
    /// The file to write ('-' for standard output); .gz and .zst are compressed
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
    /// The device; partitions, loop devices, dm and md are followed down to the queue that schedules, or to those of an array's members
    pub(crate) device: PathBuf,
    /// The file to write (TOML; '-' for standard output)
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
