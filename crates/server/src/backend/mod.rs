//! Back ends, which store a device's data: the trait and its implementations.
//!
//! | file | what |
//! |---|---|
//! | `memory` | the machine's memory, or nothing at all |
//! | `file` | a file or block device, by one of three engines |
//! | `uring`, `threads`, `inline` | the engines: io_uring; threads, if the system rejects io_uring; synchronous, for files in memory |
//! | `emulated` | a modelled drive's time in front of any other |

mod emulated;
mod engine;
mod file;
mod inline;
mod memory;
mod threads;
mod transfer;
mod uring;

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

use disks::Tag;
use elevator::queue::{Barriers, Cache};
use elevator::{Op, Positioning, Sector, Sectors, Time};
use rustix::io::Errno;

pub use self::emulated::{Emulated, Nature};
pub use self::engine::Engine;
pub use self::file::FileBackend;
#[cfg(feature = "simulation")]
pub use self::inline::{Calls, carry_out};
pub use self::memory::{Memory, Nothing};
use crate::buffer::Buffer;

/// Options of a file back end.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// The file or block device.
    pub path: PathBuf,
    /// Bypass the page cache. If the file system does not support that, opening fails.
    pub direct: bool,
    /// Maximum number of jobs at the same time.
    pub depth: u32,
    /// The device's size in bytes. If given, a missing file is created (sparse); an existing file must have exactly
    /// this size; a block device must have at least this size.
    pub size: Option<u64>,
    /// The engine; `None` for the best available one.
    pub engine: Option<Engine>,
    /// Serve a device although it is mounted or held by another device.
    pub even_if_used: bool,
    /// Open the file without write access. Writes and discards fail with `EROFS`.
    pub read_only: bool,
}

impl FileOptions {
    /// The file at `path` without the page cache, with 31 jobs at the same time.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self {
            path,
            direct: true,
            depth: 31,
            size: None,
            engine: None,
            even_if_used: false,
            read_only: false,
        }
    }
}

/// The data of a write, or the memory for the data of a read.
#[derive(Default)]
pub enum Payload {
    /// None: flushes and discards.
    #[default]
    None,
    /// Memory of the operation's length.
    Data(Buffer),
    /// A write of zeroes, without memory.
    Zeroes,
}

/// One operation's part of a job.
pub struct Piece {
    /// The operation, by a number of the job's creator.
    pub owner: u64,
    /// Its length.
    pub sectors: Sectors,
    /// Its data.
    pub payload: Payload,
    /// Its result, after the job.
    pub result: Result<(), Errno>,
}

/// A job for a back end, which owns the memory until it returns the job.
pub struct Job {
    /// Its identifier: one of `0..depth`, reusable after its return.
    pub tag: Tag,
    /// The operation.
    pub op: Op,
    /// First sector.
    pub start: Sector,
    /// Length.
    pub sectors: Sectors,
    /// Whether a write must be durable on completion.
    pub fua: bool,
    /// The data in order of sectors, with the job's length in total. One piece without data for a discard, none for a
    /// flush.
    pub pieces: Vec<Piece>,
}

/// A completed job.
pub struct Done {
    /// The job with its memory.
    pub job: Job,
    /// The time of completion, at or before the time passed to [`Backend::poll`].
    pub at: Time,
    pub result: Result<(), Errno>,
}

/// The properties of a back end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Its size.
    pub capacity: Sector,
    /// The smallest unit of reads and writes in bytes: 512 or 4096.
    pub block_bytes: u32,
    /// Maximum number of jobs at the same time.
    pub depth: u32,
    /// Whether the disk rotates.
    pub rotational: bool,
    /// Whether writes and discards fail.
    pub read_only: bool,
    /// Whether discards have an effect.
    pub discards: bool,
    /// The durability of completed writes.
    pub cache: Cache,
    /// The requests that a flush delays.
    pub barriers: Barriers,
}

/// A range of a device that either has data or is a hole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Length in bytes, at least 1.
    pub bytes: u64,
    /// Whether it has data; holes read as zeroes.
    pub data: bool,
}

/// The block device below a back end. It may be removed while it is open, by unplugging or by its driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Medium {
    pub node: PathBuf,
    /// Its directory in sysfs, which exists until its removal. Its number is not reused while it is open.
    pub sysfs: PathBuf,
}

/// A lookup of a device's extents that may have to wait for a disk.
pub trait Extents: Send + Sync {
    /// The extent at byte `offset`, of at most `most` bytes.
    fn extent(&self, offset: u64, most: u64) -> Extent;
}

/// Stores the data of a device. The device's thread owns it, so its methods must not block.
pub trait Backend {
    /// Its properties.
    fn geometry(&self) -> Geometry;

    /// Starts a job. At most [`Geometry::depth`] jobs are unfinished at the same time.
    fn start(&mut self, now: Time, job: Job);

    /// Called after the last job of a round: the back end can pass the jobs on together.
    fn submit(&mut self) {}

    /// The next job that completed at or before `now`, in order of time.
    fn poll(&mut self, now: Time) -> Option<Done>;

    /// When [`poll`](Self::poll) may next return a job, if that depends on the clock.
    fn next_event(&self) -> Option<Time> {
        None
    }

    /// A descriptor that is readable when [`poll`](Self::poll) may return a job that does not depend on the clock.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The oracle of positioning times, if there is one.
    fn positioning(&self) -> Option<&dyn Positioning> {
        None
    }

    /// The extent at byte `offset`, of at most `most` bytes. Moves no data.
    fn extent(&mut self, _offset: u64, most: u64) -> Extent {
        Extent { bytes: most, data: true }
    }

    /// The lookup to use instead, in another thread, if [`extent`](Self::extent) could block.
    fn slow_extents(&self) -> Option<Arc<dyn Extents>> {
        None
    }

    /// Whether it completes jobs at given times, so that a reply can be late.
    fn keeps_time(&self) -> bool {
        false
    }

    /// Whether a job may allocate memory in this process or in the kernel's page cache.
    fn allocates(&self) -> bool {
        false
    }

    /// The block device below it, if any.
    fn medium(&self) -> Option<Medium> {
        None
    }

    /// A description for messages, in one line.
    fn describe(&self) -> String;
}
