//! The fields of a script.

use std::collections::BTreeMap;

use elevator::{PriorityClass, queue};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::step::Step;
use crate::contents::Like;
use crate::programs::units::{Bytes, Count, Delay, Name, Size};
use crate::store::Store;

/// A script.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Script {
    /// One line for reports. Default: the script's name.
    #[serde(default)]
    pub about: String,
    /// The machine: a built-in name or a file.
    pub machine: Option<String>,
    /// The drive: a built-in name or a file.
    pub drive: Option<String>,
    /// An array of such drives, such as `raid5:5x64k`.
    pub array: Option<String>,
    /// Changes to the machine's description.
    #[serde(default)]
    pub change: Change,
    /// Process identity as visible to schedulers.
    #[serde(default)]
    pub identity: Identity,
    /// Number of machines like this, each with this disk and these processes: the servers of a striped file system. In
    /// results the server's number follows each name.
    pub servers: Option<u32>,
    /// Stops the run after this virtual time.
    pub at_most: Option<Delay>,
    /// Initial content of the disk.
    #[serde(default)]
    pub on_disk: Vec<Spanned<OnDisk>>,
    /// The processes.
    #[serde(default)]
    pub process: Vec<Spanned<Process>>,
    /// A store on several machines, instead of processes.
    pub store: Option<Spanned<Store>>,
    /// The paper's experiment that the script reproduces.
    pub paper: Option<Paper>,
}

/// Changes to the machine's description.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Change {
    pub memory: Option<Spanned<Size>>,
    /// The largest read-ahead window.
    pub read_ahead: Option<Bytes>,
    /// Queue depth of the drive.
    pub depth: Option<u32>,
    /// The partition of the file system; by default the whole drive.
    pub partition: Option<Spanned<Partition>>,
    /// The file system, as in `[file-system.layout]` of a machine.
    pub layout: Option<Spanned<machine::kernel::fs::Options>>,
}

/// A part of the drive in whole MiB.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Partition {
    /// Start.
    pub at: Bytes,
    /// Length.
    pub bytes: Bytes,
}

/// [`queue::Identity`] as scripts and study files name it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Identity {
    /// The processes of the workload.
    #[default]
    Shown,
    /// No processes.
    Hidden,
    /// One process for all requests.
    Same,
}

impl Identity {
    /// The queue's setting.
    pub const fn of_queue(self) -> queue::Identity {
        match self {
            Self::Shown => queue::Identity::Shown,
            Self::Hidden => queue::Identity::Hidden,
            Self::Same => queue::Identity::Same,
        }
    }

    /// The name.
    pub const fn name(self) -> &'static str {
        self.of_queue().name()
    }
}

/// Initial content: exactly one of `file`, `directory`, `tree` and `files`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OnDisk {
    /// A file of `bytes`.
    pub file: Option<Name>,
    /// An empty directory.
    pub directory: Option<Name>,
    /// A source tree like the release in `like`.
    pub tree: Option<Name>,
    /// A set of `count` files of `least` to `most` bytes in `directories` directories.
    pub files: Option<Name>,
    /// Length of a file.
    pub bytes: Option<Size>,
    /// The release that a tree is like.
    pub like: Option<Like>,
    /// Files of a set.
    pub count: Option<Count>,
    /// Smallest file of a set.
    #[serde(default)]
    pub least: Bytes,
    /// Largest file of a set.
    #[serde(default)]
    pub most: Bytes,
    /// Directories of a set.
    #[serde(default = "one_hundred")]
    pub directories: u64,
    /// Number of copies; `{n}` in the name is the copy's number.
    #[serde(default = "one")]
    pub copies: u32,
    /// Position on the device; by default the allocator chooses it.
    pub at: Option<Bytes>,
    /// Distance between the copies' positions.
    #[serde(default)]
    pub apart: Bytes,
    /// Seed of the sizes.
    #[serde(default)]
    pub seed: u64,
}

const fn one() -> u32 {
    1
}

const fn one_hundred() -> u64 {
    100
}

/// A process, or several equal ones.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Process {
    /// Its name; `{n}` is the copy's number.
    pub name: String,
    /// Number of copies.
    #[serde(default = "one")]
    pub copies: u32,
    /// Runs in the background and is stopped when all other processes have ended.
    #[serde(default)]
    pub beside: bool,
    /// Delay of its start.
    #[serde(default)]
    pub after: Delay,
    /// Its I/O priority, 0 to 7.
    pub priority: Option<u8>,
    /// Its I/O priority class; set by job files only.
    #[serde(skip)]
    pub class: PriorityClass,
    /// Its virtual machine: processes of one guest are one process to the block layer.
    pub guest: Option<String>,
    /// I/O limit in bytes a second, for policies that support limits.
    pub rate: Option<Bytes>,
    /// Deadline of its fsync calls, for policies that support deadlines.
    pub fsync_deadline: Option<Delay>,
    pub steps: Vec<Spanned<Step>>,
}

/// The experiment of a paper, and how to compare published figures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Paper {
    /// The paper's short name.
    pub name: String,
    /// The experiment's name in the table of published values.
    pub experiment: String,
    /// Schedulers by the paper's names.
    pub schedulers: BTreeMap<String, String>,
    /// Figures by the paper's names.
    pub figures: BTreeMap<String, Figure>,
    /// The paper's deviation between runs in percent; smaller differences do not rank schedulers.
    #[serde(default = "five")]
    pub deviation: f64,
    /// Default scale; below 1 if the full size takes too long.
    #[serde(default = "whole")]
    pub scale: f64,
    /// Additional drives, by a label.
    #[serde(default)]
    pub on: BTreeMap<String, String>,
    /// Choices where the paper is silent.
    #[serde(default)]
    pub notes: Vec<String>,
}

const fn whole() -> f64 {
    1.0
}

const fn five() -> f64 {
    5.0
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Percentile {
    /// The median.
    P50,
    /// The 99th percentile.
    P99,
    /// The 99.9th percentile.
    P999,
    /// The maximum.
    Max,
}

/// A statistic of samples over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Amount {
    Mean,
    /// The maximum.
    Max,
}

/// A figure of a run. The first string is a prefix of process names, the last one the paper's name of another scheduler.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Seconds from the first start to the last end of the processes.
    Time(String),
    /// Seconds to the first end of a process.
    First(String),
    /// Device throughput while they ran, in 10^6 bytes a second.
    DiskRate(String),
    /// Throughput of their calls in 10^6 bytes a second.
    Rate(String),
    /// Speedup of their time over another scheduler.
    TimeOver(String, String),
    /// The speedup as a gain in percent.
    GainOver(String, String),
    /// Time saved against another scheduler, in percent.
    TimeSaved(String, String),
    /// Their time relative to another scheduler.
    TimeRelative(String, String),
    /// Their throughput relative to another scheduler.
    RateRelative(String, String),
    /// Longest read call in seconds.
    WorstRead(String),
    /// Longest time of a request in queue and device, in seconds.
    LongestRequest,
    /// Longest fsync in seconds.
    WorstSync(String),
    /// Longest fsync under another scheduler relative to this one.
    WorstSyncOver(String, String),
    /// A percentile of the transactions' durations in seconds.
    Transaction(String, Percentile),
    /// The percentile under another scheduler relative to this one.
    TransactionOver(String, Percentile, String),
    /// Transactions a second.
    Transactions(String),
    /// Share of the hooks in the kernel's processor time, in percent.
    HookShare,
    /// Memory of cause tags in 10^6 bytes.
    TagMemory(Amount),
    /// Mean deviation of the processes' throughput from their goals, in percent of the goal: name and share of each.
    Deviation(BTreeMap<String, u32>),
}
