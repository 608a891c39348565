//! What data is moved to and from: the one trait, and those that keep it.
//!
//! | file | what |
//! |---|---|
//! | `memory` | the machine's memory, or nothing at all |
//! | `file` | a file or block device, by one of three engines |
//! | `uring`, `threads`, `inline` | the engines: io_uring; threads where it is refused; at once, for files in memory |
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
pub use self::file::{FileBackend, FileOptions};
#[cfg(feature = "simulation")]
pub use self::inline::{Calls, carry_out};
pub use self::memory::{Memory, Nothing};
use crate::buffer::Buffer;

/// Data that an operation brings, or the memory that it is to be put into.
#[derive(Default)]
pub enum Payload {
    /// None: flushes and discards.
    #[default]
    None,
    /// As many bytes as the operation is long.
    Data(Buffer),
    /// A write of zeroes, which needs no memory.
    Zeroes,
}

/// One operation's share of a job.
pub struct Piece {
    /// Whose it is: for whoever made the job.
    pub owner: u64,
    /// Its length.
    pub sectors: Sectors,
    /// Its data.
    pub payload: Payload,
    /// How it went, once it has.
    pub result: Result<(), Errno>,
}

/// What a back end is asked to do. It owns the memory until it hands the job back.
pub struct Job {
    /// Its name: one of `0..depth`, free again once it is handed back.
    pub tag: Tag,
    /// What to do.
    pub op: Op,
    /// First sector.
    pub start: Sector,
    /// Length.
    pub sectors: Sectors,
    /// Durable when done.
    pub fua: bool,
    /// Where the data is, first sector first; together as long as the job. One without data for a discard, none for a
    /// flush.
    pub pieces: Vec<Piece>,
}

/// A job that is done.
pub struct Done {
    /// The job, its memory included.
    pub job: Job,
    /// When: never later than the time asked about.
    pub at: Time,
    /// How it went.
    pub result: Result<(), Errno>,
}

/// What a back end is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Its size.
    pub capacity: Sector,
    /// The smallest thing that can be read or written, in bytes: 512 or 4096.
    pub block_bytes: u32,
    /// How many jobs it takes at once.
    pub depth: u32,
    /// Whether something turns.
    pub rotational: bool,
    /// Whether everything that would change what it holds fails.
    pub read_only: bool,
    /// Whether it makes anything of being told what is not needed any more.
    pub discards: bool,
    /// What a completed write is worth.
    pub cache: Cache,
    /// What a flush holds back.
    pub barriers: Barriers,
}

/// A stretch of a device that either holds data or nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Length in bytes, at least 1.
    pub bytes: u64,
    /// Whether it holds data; what does not reads as zeroes.
    pub data: bool,
}

/// A block device that a back end stands on. It may be taken away while it is open: by whoever pulls it out, or by its driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Medium {
    /// Its node.
    pub node: PathBuf,
    /// What it has in sysfs for as long as it is there, by its number, which is nobody else's while it is open.
    pub sysfs: PathBuf,
}

/// Whatever knows where a device holds data, and may have to wait for a disk to tell.
pub trait Extents: Send + Sync {
    /// What lies at byte `offset`, looking no further than `most` bytes.
    fn extent(&self, offset: u64, most: u64) -> Extent;
}

/// Whatever holds the data of a device. It is owned by the device's thread and must never make it wait.
pub trait Backend {
    /// What it is like.
    fn geometry(&self) -> Geometry;

    /// Takes a job. At most [`Geometry::depth`] are out at once.
    fn start(&mut self, now: Time, job: Job);

    /// Every job of this round was given: the last chance to send them on together.
    fn submit(&mut self) {}

    /// The next job done at `now` or before, in order of its time.
    fn poll(&mut self, now: Time) -> Option<Done>;

    /// When [`poll`](Self::poll) may next have something, if that depends on the clock.
    fn next_event(&self) -> Option<Time> {
        None
    }

    /// Readable when [`poll`](Self::poll) may have something that the clock does not tell.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The oracle that tells positioning times, where there is one.
    fn positioning(&self) -> Option<&dyn Positioning> {
        None
    }

    /// What lies at byte `offset`, looking no further than `most` bytes. Asks for nothing to be moved.
    fn extent(&mut self, _offset: u64, most: u64) -> Extent {
        Extent { bytes: most, data: true }
    }

    /// Who is to be asked that instead, by a thread that has the time, where the answer may take some.
    fn slow_extents(&self) -> Option<Arc<dyn Extents>> {
        None
    }

    /// Whether it answers at times of its own, so that an answer can be late.
    fn keeps_time(&self) -> bool {
        false
    }

    /// The block device that it stands on, if it does.
    fn medium(&self) -> Option<Medium> {
        None
    }

    /// One line for people.
    fn describe(&self) -> String;
}
