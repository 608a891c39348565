//! A machine description in TOML: memory, kernel, file system, block layer. Each number states its origin.

use elevator::queue::{Barriers, Cache, Limits, Options, Plugging, Supervision, SyncWrites};
use elevator::{Sectors, Span};
use serde::Deserialize;

use super::error::BootError;
use super::{fs, journal};

/// Built-in machines: (name, file).
const BUILT_IN: [(&str, &str); 6] = [
    ("pc-2003", include_str!("../../machines/pc-2003.toml")),
    ("pc-2004", include_str!("../../machines/pc-2004.toml")),
    ("pc-2010", include_str!("../../machines/pc-2010.toml")),
    ("pc-2012", include_str!("../../machines/pc-2012.toml")),
    ("pc-2012-xfs", include_str!("../../machines/pc-2012-xfs.toml")),
    ("linux-6", include_str!("../../machines/linux-6.toml")),
];

/// A machine.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Description {
    pub name: String,
    /// What it represents, in a sentence.
    pub about: String,
    pub memory: Memory,
    /// Processor time of calls.
    pub processor: Processor,
    pub read_ahead: ReadAhead,
    /// Limits for dirty pages.
    pub dirty: Dirty,
    /// The file system on the device.
    pub file_system: FileSystem,
    pub block: BlockLayer,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Memory {
    /// All of it, in MiB.
    pub mib: u32,
    /// What kernel and programs take of it, in MiB; the page cache, and memory that programs touch, have the rest.
    pub taken_mib: u32,
    /// The end of the device that is for swapping, in MiB; 0 for none.
    pub swap_mib: u32,
}

/// Processor time of calls. The number of processors is unlimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Processor {
    /// A call, entry to exit, in nanoseconds.
    pub call_ns: u64,
    /// Looking up, copying and accounting a page, in nanoseconds.
    pub page_ns: u64,
    /// One component of a path, in nanoseconds.
    pub name_ns: u64,
    /// Additional time of the hooks of a split-level policy; default 0.
    #[serde(default)]
    pub hooks: HookCosts,
}

/// Processor time of the hooks while a split-level policy is connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HookCosts {
    /// A call, entry and exit, in nanoseconds.
    pub call_ns: u64,
    /// A page, dirtied and written, in nanoseconds.
    pub page_ns: u64,
    /// A submission with causes, in nanoseconds.
    pub request_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReadAhead {
    /// The algorithm.
    pub kind: ReadAheadKind,
    /// Largest window in KiB; 0 disables read-ahead.
    pub max_kib: u32,
}

/// Read-ahead algorithms of Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAheadKind {
    /// 2.6.9: a current window as long as past runs, and an ahead window if runs are longer than windows.
    Windows,
    /// 2.5: always an ahead window; windows have at least 16 KiB, even if the maximum is smaller.
    WindowsWithFloor,
    /// 2.6.31 to 3.12: one window with a marked page whose first use starts the next window.
    OnDemand,
    /// 3.13 and later: the same, but a few cached pages before a single read do not make it sequential.
    OnDemandConservative,
}

impl ReadAheadKind {
    /// Pages of the smallest window, for algorithms with a floor; otherwise 0.
    pub(super) const fn floor(self) -> u64 {
        match self {
            Self::WindowsWithFloor => super::cache::MIN_PAGES,
            Self::Windows | Self::OnDemand | Self::OnDemandConservative => 0,
        }
    }

    /// Whether the algorithm has a current and an ahead window, and is called for every page.
    pub(super) const fn has_windows(self) -> bool {
        matches!(self, Self::Windows | Self::WindowsWithFloor)
    }
}

/// Limits for dirty pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Dirty {
    /// Percentage of dirtyable memory above which the flusher writes.
    pub background_percent: u32,
    /// Percentage above which writers are throttled.
    pub percent: u32,
    /// How writers are throttled.
    pub throttle: ThrottleKind,
    /// Interval of the periodic flusher, in milliseconds.
    pub interval_ms: u64,
    /// Age at which the periodic flusher writes a dirty page, in milliseconds.
    pub expire_ms: u64,
}

/// How writers above the limit are throttled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThrottleKind {
    /// Until 3.1: a writer writes dirty pages of any file itself and waits for the queue.
    Writes,
    /// In 2.5.61 (`balance_dirty_pages`): a writer does that until the number of dirty pages is below the limit.
    WritesToLimit,
    /// Since 3.2: a writer pauses, so that it dirties no faster than the device writes.
    Pauses,
}

/// The file system on the device.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FileSystem {
    /// Whether blocks are allocated at writeback instead of at the write.
    pub delayed_allocation: bool,
    /// Whether overwritten data is ordered before the commit as well: true for ext3, false for ext4.
    pub orders_overwrites: bool,
    /// Resolution of time stamps in milliseconds; a written file's inode changes once per unit. One second for inodes of 128
    /// bytes, which have no room for more; a tick of the kernel's clock for larger inodes.
    #[serde(default = "one_second")]
    pub stamp_ms: u64,
    /// Whether reading a file or listing a directory changes the time stamp in its inode, which is metadata to write: the default of
    /// mounts until `relatime` replaced it in 2.6.30.
    #[serde(default)]
    pub access_times: bool,
    /// The partition; by default the whole device except the swap area.
    #[serde(default)]
    pub partition: Option<Partition>,
    /// Format and allocation options.
    pub layout: fs::Options,
    /// Journal options, if the layout has a journal. With barriers, `fsync` flushes the device's cache.
    #[serde(default)]
    pub journal: journal::Options,
}

const fn one_second() -> u64 {
    1000
}

/// A part of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Partition {
    /// Start in MiB.
    pub at_mib: u64,
    /// Length in MiB.
    pub mib: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BlockLayer {
    /// Queued requests by direction.
    pub nr_requests: u32,
    /// Largest request in KiB.
    pub max_kib: u32,
    pub plugging: PluggingKind,
    /// The requests that a flush of the device's cache holds back.
    pub flush: FlushKind,
    /// Whether writes carry FUA. If not, a flush follows each such write; loop devices do not support FUA.
    #[serde(default = "yes")]
    pub fua: bool,
    /// Whether writes that a task waits for are marked synchronous (since 2.6.29).
    pub sync_writes: bool,
    /// Whether the marks reach the scheduler. They do not reach a server behind FUSE or NBD.
    #[serde(skip)]
    pub sync_writes_are: SyncWrites,
}

const fn yes() -> bool {
    true
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluggingKind {
    /// Until 2.6.38: an empty queue plugs itself until 4 requests or 3 ms.
    Queue,
    /// Since 2.6.39: a process's submissions until it sleeps, at most 32.
    Task,
}

/// The requests that a flush of the device's cache holds back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlushKind {
    /// Until 2.6.36: the flush waits for all earlier requests, and all later ones wait for the flush.
    Drains,
    /// Since 2.6.37, for flushes that are not queued commands (SATA): the device executes the flush alone.
    Alone,
    /// The same behind a loop device, whose worker finishes the flush before it starts later requests.
    Serial,
    /// For flushes that are queued commands: no ordering. A drive that does not queue flushes still executes each flush alone.
    Beside,
}

impl Description {
    /// Names of the built-in machines.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|&(name, _)| name)
    }

    /// A built-in machine.
    ///
    /// # Errors
    /// [`BootError::Unknown`], with the known names.
    pub fn named(name: &str) -> Result<Self, BootError> {
        let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) else {
            return Err(BootError::Unknown { name: name.to_owned(), known: Self::names().collect() });
        };
        Self::from_toml(text)
    }

    /// Parses a description.
    ///
    /// # Errors
    /// [`BootError::Syntax`] with line and field; [`BootError::Description`] for a value out of range.
    pub fn from_toml(text: &str) -> Result<Self, BootError> {
        let description: Self =
            toml::from_str(text).map_err(|e| BootError::Syntax(disks::explain_toml(text, e)))?;
        description.check()?;
        Ok(description)
    }

    /// Checks the ranges of all values.
    ///
    /// # Errors
    /// [`BootError::Description`] with the field.
    pub fn check(&self) -> Result<(), BootError> {
        let fail = |field, problem: &str| {
            Err(BootError::Description { machine: self.name.clone(), field, problem: problem.to_owned() })
        };
        let Self { memory, dirty, read_ahead, block, .. } = self;
        if memory.taken_mib + 4 > memory.mib {
            return fail("memory.taken-mib", "at least 4 MiB must be left for the page cache");
        }
        if !(5..=90).contains(&dirty.percent) {
            return fail("dirty.percent", "from 5, the kernel's own floor, to 90");
        }
        if !(1..dirty.percent).contains(&dirty.background_percent) {
            return fail("dirty.background-percent", "at least 1 and below dirty.percent");
        }
        if self.file_system.stamp_ms == 0 {
            return fail("file-system.stamp-ms", "at least 1");
        }
        if dirty.interval_ms == 0 || dirty.expire_ms == 0 {
            return fail("dirty", "interval-ms and expire-ms must be at least 1");
        }
        if read_ahead.max_kib > 32 * 1024 || !read_ahead.max_kib.is_multiple_of(4) {
            return fail("read-ahead.max-kib", "a multiple of 4, the page size, up to 32768");
        }
        if block.nr_requests < 4 {
            return fail("block.nr-requests", "at least 4 (BLKDEV_MIN_RQ)");
        }
        if block.max_kib < 4 {
            return fail("block.max-kib", "at least 4, the page size");
        }
        Ok(())
    }

    /// The queue options of this machine's block layer.
    pub fn queue(&self) -> Options {
        let plugging = match self.block.plugging {
            PluggingKind::Queue => Plugging::Queue { threshold: 4, delay: Span::from_millis(3) },
            PluggingKind::Task => Plugging::Task { most: 32 },
        };
        Options {
            max_sectors: Sectors(self.block.max_kib.saturating_mul(2)),
            limits: Limits { nr_requests: self.block.nr_requests, ..Limits::default() },
            plugging,
            cache: Cache::WriteBack { fua: self.block.fua },
            barriers: match self.block.flush {
                FlushKind::Drains => Barriers::Drain,
                FlushKind::Alone => Barriers::Alone,
                FlushKind::Serial => Barriers::Serial,
                FlushKind::Beside => Barriers::Completed,
            },
            sync_writes: self.block.sync_writes_are,
            // A kernel serves whatever its scheduler selects; how long a request waits is a result.
            supervision: Supervision { oldest: None, ..Supervision::default() },
            ..Options::default()
        }
    }
}
