//! The kernel above the block layer: system calls, page cache, file system and journal, in virtual time.
//!
//! It keeps positions, sizes and causes, but no data. Data structures are in `state`, `cache`, `fs` and `journal`; the other
//! modules implement what tasks do with them.

mod block_io;
mod boot;
mod buffers;
mod cache;
mod calls;
mod causes;
mod check;
mod context;
mod description;
mod direct;
mod dispatch;
mod error;
mod flusher;
pub mod fs;
mod fsync;
mod hooks;
mod image;
pub mod journal;
mod journal_io;
mod memory;
mod namespace;
mod overwrite;
mod pages;
mod read;
mod reclaim;
mod sampling;
mod state;
mod throttle;
mod write;
mod writeback;

pub use calls::{Call, Descriptor, Errno, Open, Path, Returned};
pub use causes::Causes;
pub use check::Inconsistency;
pub use description::{
    BlockLayer, Description, Dirty, FileSystem, FlushKind, HookCosts, Memory, Partition, PluggingKind,
    Processor, ReadAhead, ReadAheadKind, ThrottleKind,
};
pub(crate) use dispatch::Polled;
pub use error::BootError;
pub use image::Image;
pub(crate) use state::TaskId;
pub use state::{FIRST_THREAD, Sample, Tagging, thread_name, thread_names};

/// A kernel with a laid-out disk and an empty page cache, for [`Machine::boot`](crate::Machine::boot).
pub struct Kernel {
    state: context::Shared,
    /// The work of each task.
    jobs: Vec<Option<context::Job>>,
}
