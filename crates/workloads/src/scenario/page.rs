//! A script as it is written: a page of TOML.

use std::collections::BTreeMap;

use elevator::PriorityClass;
use serde::Deserialize;
use toml::Spanned;

use super::step::Step;
use crate::contents::Like;
use crate::programs::units::{Bytes, Count, Delay, Name, Size};
use crate::store::Store;

/// A script.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Page {
    /// What it is about, in a line.
    pub about: String,
    /// The machine; see `dwell run --help` for those that are built in.
    pub machine: Option<String>,
    /// The drive.
    pub drive: Option<String>,
    /// Such drives as an array, as `dwell compare` has it.
    pub array: Option<String>,
    /// What is different from the machine's description.
    #[serde(default)]
    pub change: Change,
    /// What schedulers are told of the issuing processes.
    #[serde(default)]
    pub identity: Identity,
    /// So many machines like this, each with this disk and these processes: the servers of a striped file system, of which
    /// each holds its share. `{n}` and names are each server's own; in results the number of the server follows the name.
    pub servers: Option<u32>,
    /// Stops the run after so much virtual time.
    pub at_most: Option<Delay>,
    /// What lies on the disk.
    #[serde(default)]
    pub on_disk: Vec<Spanned<OnDisk>>,
    /// The processes.
    #[serde(default)]
    pub process: Vec<Spanned<Process>>,
    /// A store on machines like this one, instead of processes.
    pub store: Option<Spanned<Store>>,
    /// The experiment of a paper that this is.
    pub paper: Option<Paper>,
}

/// What is different from the machine's description.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Change {
    /// Memory.
    pub memory: Option<Spanned<Size>>,
    /// The largest read-ahead window.
    pub read_ahead: Option<Bytes>,
    /// The requests that the drive is given at once.
    pub depth: Option<u32>,
    /// The part of the drive that the file system has, where it has not all of it.
    pub partition: Option<Spanned<Partition>>,
    /// The file system's layout, as a machine's description has it in `[file_system.layout]`.
    pub layout: Option<Spanned<machine::kernel::fs::Options>>,
}

/// A part of the drive, in whole MiB.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Partition {
    /// Where it begins.
    pub at: Bytes,
    /// How long it is.
    pub bytes: Bytes,
}

/// What schedulers are told of the issuing processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Identity {
    /// Who they are.
    #[default]
    Shown,
    /// Nothing.
    Hidden,
    /// One and the same for everybody.
    Same,
}

/// Something on the disk: exactly one of `file`, `directory`, `tree` and `files`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OnDisk {
    /// A file of `bytes`.
    pub file: Option<Name>,
    /// An empty directory.
    pub directory: Option<Name>,
    /// A source tree, `like` one.
    pub tree: Option<Name>,
    /// A set of `count` files of `least` to `most` bytes, in so many `directories`.
    pub files: Option<Name>,
    /// Length of a file.
    pub bytes: Option<Size>,
    /// Which tree.
    pub like: Option<Like>,
    /// Files of a set.
    pub count: Option<Count>,
    /// Least size in a set.
    #[serde(default)]
    pub least: Bytes,
    /// Greatest size in a set.
    #[serde(default)]
    pub most: Bytes,
    /// Directories of a set.
    #[serde(default = "one_hundred")]
    pub directories: u64,
    /// How many of it; `{n}` in the name is the number of each.
    #[serde(default = "one")]
    pub copies: u32,
    /// Where on the device it begins; wherever there is room if not given.
    pub at: Option<Bytes>,
    /// From one copy's beginning to the next one's.
    #[serde(default)]
    pub apart: Bytes,
    /// Of the sizes that are drawn.
    #[serde(default)]
    pub seed: u64,
}

const fn one() -> u32 {
    1
}

const fn one_hundred() -> u64 {
    100
}

/// A process, or several that are alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Process {
    /// Its name; `{n}` in it is the number of the copy.
    pub name: String,
    /// How many of it.
    #[serde(default = "one")]
    pub copies: u32,
    /// Runs beside what is measured, and is stopped when that has ended.
    #[serde(default)]
    pub beside: bool,
    /// When it starts.
    #[serde(default)]
    pub after: Delay,
    /// Its I/O priority, 0 to 7.
    pub priority: Option<u8>,
    /// Its I/O priority class, which job files alone say.
    #[serde(skip)]
    pub class: PriorityClass,
    /// The virtual machine in which it runs: to the block layer, all processes of one are the same process.
    pub guest: Option<String>,
    /// The most I/O that it may cause, in bytes a second; for policies that limit.
    pub rate: Option<Bytes>,
    /// How soon its fsync shall return; for policies that keep deadlines.
    pub fsync_deadline: Option<Delay>,
    /// What it does.
    pub steps: Vec<Spanned<Step>>,
}

/// Which experiment of a paper a script is, and how its published figures are to be compared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Paper {
    /// The paper, as `dwell reproduce` names it.
    pub name: String,
    /// The experiment, as the table of published values names it.
    pub experiment: String,
    /// The paper's word for a scheduler, and ours.
    pub schedulers: BTreeMap<String, String>,
    /// The paper's word for a figure, and what it is here.
    pub figures: BTreeMap<String, Figure>,
    /// The paper's own deviation between runs, in percent: smaller gaps say nothing of the order.
    #[serde(default = "five")]
    pub deviation: f64,
    /// The scale at which it is run unless another is asked for: below 1 where the paper's size takes too long.
    #[serde(default = "whole")]
    pub scale: f64,
    /// Drives on which it is run as well as on the script's, each by a word for it.
    #[serde(default)]
    pub on: BTreeMap<String, String>,
    /// What was chosen where the paper is silent.
    #[serde(default)]
    pub notes: Vec<String>,
}

const fn whole() -> f64 {
    1.0
}

const fn five() -> f64 {
    5.0
}

/// Which of many.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Percentile {
    /// The median.
    P50,
    /// 99 of a hundred.
    P99,
    /// 999 of a thousand.
    P999,
    /// All.
    Max,
}

/// Of what is weighed again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Amount {
    /// On average.
    Mean,
    /// The most.
    Max,
}

/// A figure of a run.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Seconds from the first start to the last end of the processes whose names begin so.
    Time(String),
    /// Seconds to the first end of those processes.
    First(String),
    /// 10^6 bytes a second that the device moved while they ran.
    DiskRate(String),
    /// 10^6 bytes a second that calls of those processes moved.
    Rate(String),
    /// How many times faster than under another scheduler those processes are: (processes, the paper's word for the other).
    TimeOver(String, String),
    /// The same in percent gained.
    GainOver(String, String),
    /// The time that they save against another scheduler, in percent of that.
    TimeSaved(String, String),
    /// Their time over that under another scheduler.
    TimeRelative(String, String),
    /// Their rate over that under another scheduler.
    RateRelative(String, String),
    /// The longest, in seconds, that a call of those processes that reads took.
    WorstRead(String),
    /// The longest that a request of the device waited and was served, in seconds.
    LongestRequest,
    /// The longest, in seconds, that an fsync of those processes took.
    WorstSync(String),
    /// The same under another scheduler over this one's.
    WorstSyncOver(String, String),
    /// So many of the transactions of those processes took no longer, in seconds.
    Transaction(String, Percentile),
    /// The same under another scheduler over this one's.
    TransactionOver(String, Percentile, String),
    /// Transactions a second of those processes.
    Transactions(String),
    /// What the hooks of a split policy took of all that the processor did in the kernel, in percent.
    HookShare,
    /// 10^6 bytes that tags took.
    TagMemory(Amount),
    /// How far the processes' shares of what calls moved are from what they should be, on average, in percent of that:
    /// each one's name and share.
    Deviation(BTreeMap<String, u32>),
}
