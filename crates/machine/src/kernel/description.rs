//! A machine as a page of TOML: memory, kernel, file system, block layer. Every number stands there with its origin.

use elevator::queue::{Barriers, Cache, Limits, Options, Plugging};
use elevator::{Sectors, Span};
use serde::Deserialize;

use super::{BootError, fs, journal};

/// The machines that come with this crate: (name, file).
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
    /// Its name.
    pub name: String,
    /// What it stands for, in a sentence.
    pub about: String,
    /// Memory.
    pub memory: Memory,
    /// What calls cost the processor.
    pub processor: Processor,
    /// Reading before anybody asks.
    pub read_ahead: ReadAhead,
    /// How much may be dirty, and for how long.
    pub dirty: Dirty,
    /// What is on the device.
    pub file_system: FileSystem,
    /// The block layer.
    pub block: BlockLayer,
}

/// Memory.
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

/// What calls cost the processor. There are as many processors as processes want.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Processor {
    /// Entering, doing and leaving a call, in nanoseconds.
    pub call_ns: u64,
    /// A page copied, looked up and accounted, in nanoseconds.
    pub page_ns: u64,
    /// One component of a path, in nanoseconds.
    pub name_ns: u64,
    /// What the hooks of a split policy add; nothing if not given.
    #[serde(default)]
    pub hooks: HookCosts,
}

/// What the hooks of a split policy cost the processor, while one listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HookCosts {
    /// A call enters and returns, in nanoseconds.
    pub call_ns: u64,
    /// A page is dirtied and set out, in nanoseconds.
    pub page_ns: u64,
    /// A submission carries its causes, in nanoseconds.
    pub request_ns: u64,
}

/// Reading before anybody asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReadAhead {
    /// By which rule.
    pub kind: ReadAheadKind,
    /// The largest window, in KiB; 0 for none.
    pub max_kib: u32,
}

/// By which rule pages are read before anybody asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAheadKind {
    /// 2.6.9: a current window, as long as runs have been, and one ahead of it where they are longer than windows.
    Windows,
    /// 2.5: always one ahead, and no window is smaller than 16 KiB, whatever the largest.
    WindowsWithFloor,
    /// 2.6.31 to 3.12: one window with a mark in it, whose first use starts the next.
    OnDemand,
    /// The same since 3.13: a few pages before it in memory do not make a lone read sequential.
    OnDemandConservative,
}

impl ReadAheadKind {
    /// Pages of the smallest window; 0 where there is none.
    pub(super) const fn floor(self) -> u64 {
        match self {
            Self::WindowsWithFloor => super::cache::MIN_PAGES,
            Self::Windows | Self::OnDemand | Self::OnDemandConservative => 0,
        }
    }

    /// Whether there are two windows, which hear of every page.
    pub(super) const fn has_windows(self) -> bool {
        matches!(self, Self::Windows | Self::WindowsWithFloor)
    }
}

/// How much may be dirty, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Dirty {
    /// Of the memory that could be dirty, in percent: above this a flusher writes.
    pub background_percent: u32,
    /// Above this, writers are held back.
    pub percent: u32,
    /// How writers are held back.
    pub throttle: ThrottleKind,
    /// Between two looks for what is old, in milliseconds.
    pub interval_ms: u64,
    /// Age at which dirty pages are written, in milliseconds.
    pub expire_ms: u64,
}

/// How writers are held back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThrottleKind {
    /// Until 3.1: a writer above the limit writes pages of anybody's itself, and waits for the queue.
    Writes,
    /// Since 3.2: a writer pauses so that it dirties no faster than the device writes.
    Pauses,
}

/// What is on the device.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FileSystem {
    /// Whether blocks are given out when pages are written back, not when they are dirtied.
    pub delayed_allocation: bool,
    /// Whether overwritten data, too, goes before the commit: ext3's ordered mode, not ext4's.
    pub orders_overwrites: bool,
    /// Unit of files' time stamps in milliseconds, so often a file that is written to gets a new one: a second where an inode
    /// has no room for more (128 bytes), a tick of the kernel's clock where it has.
    #[serde(default = "one_second")]
    pub stamp_ms: u64,
    /// The part of the device that it has; all that is not for swapping if not given.
    #[serde(default)]
    pub partition: Option<Partition>,
    /// How it lies there.
    pub layout: fs::Options,
    /// How its journal works, if the layout has one. Where it has barriers, `fsync` flushes the device's cache.
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
    /// Where it begins, in MiB.
    pub at_mib: u64,
    /// How long it is, in MiB.
    pub mib: u64,
}

/// The block layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BlockLayer {
    /// Requests a direction.
    pub nr_requests: u32,
    /// Largest request, in KiB.
    pub max_kib: u32,
    /// Gathering of submissions.
    pub plugging: PluggingKind,
    /// What a flush of the device's cache holds back.
    pub flush: FlushKind,
    /// Whether the device is told which writes must be durable when they are answered. If not, a flush goes behind each: loop
    /// devices cannot be told.
    #[serde(default = "yes")]
    pub fua: bool,
    /// Whether writes that somebody waits for are marked so (since 2.6.29).
    pub sync_writes: bool,
}

const fn yes() -> bool {
    true
}

/// Gathering of submissions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluggingKind {
    /// Until 2.6.38: an empty queue plugs itself; 4 requests or 3 ms.
    Queue,
    /// Since 2.6.39: what a process submits before it waits, at most 32.
    Task,
}

/// What a flush of the device's cache holds back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlushKind {
    /// Until 2.6.36: it waits for everything submitted before it, and everything after it waits.
    Drains,
    /// Since then, where it is not a queued command (SATA): it is alone in the device.
    Alone,
    /// The same behind a loop device, whose worker waits for it before it looks at what came after it.
    Serial,
    /// Where it is a queued command: nothing. A drive that says it takes no flush beside others is given it alone.
    Beside,
}

impl Description {
    /// The names of the built-in machines.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|&(name, _)| name)
    }

    /// A built-in machine.
    ///
    /// # Errors
    /// [`BootError::Unknown`], which lists those that there are.
    pub fn named(name: &str) -> Result<Self, BootError> {
        let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) else {
            return Err(BootError::Unknown { name: name.to_owned(), known: Self::names().collect() });
        };
        Self::from_toml(text)
    }

    /// A machine from a page of TOML.
    ///
    /// # Errors
    /// [`BootError::Syntax`] with line and field; [`BootError::Description`] for numbers that cannot be.
    pub fn from_toml(text: &str) -> Result<Self, BootError> {
        let description: Self =
            toml::from_str(text).map_err(|e| BootError::Syntax(disks::explain_toml(text, e)))?;
        description.check()?;
        Ok(description)
    }

    /// Whether there can be such a machine.
    ///
    /// # Errors
    /// [`BootError::Description`], which names the field.
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
            return fail("block.nr-requests", "at least 4, as the kernel has it");
        }
        if block.max_kib < 4 {
            return fail("block.max-kib", "at least 4, the page size");
        }
        Ok(())
    }

    /// The queue as this machine's block layer sets it up.
    #[must_use]
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
            ..Options::default()
        }
    }
}
