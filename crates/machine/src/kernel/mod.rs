//! The kernel above the block layer: system calls, page cache, file system and journal, in virtual time.
//!
//! No byte of data is kept; positions, sizes, and who dirtied what are.

mod boot;
mod buffers;
mod cache;
mod calls;
mod causes;
mod check;
mod description;
mod descriptors;
mod direct;
mod dispatch;
mod durable;
pub mod fs;
mod hooks;
mod image;
mod io;
pub mod journal;
mod journalling;
mod memory;
mod names;
mod overwrite;
mod pages;
mod read;
mod reclaim;
mod state;
mod tagging;
mod tasks;
mod threads;
mod throttle;
mod watch;
mod write;
mod writeback;

pub use boot::BootError;
pub use calls::{Call, Descriptor, Errno, Open, Path, Returned};
pub use causes::Causes;
pub use description::{
    BlockLayer, Description, Dirty, FileSystem, FlushKind, HookCosts, Memory, Partition, PluggingKind,
    Processor, ReadAhead, ReadAheadKind, ThrottleKind,
};
pub(crate) use dispatch::Polled;
pub use image::Image;
pub use tagging::Tagging;
pub(crate) use tasks::TaskId;
pub use threads::FIRST_THREAD;
pub use watch::Sample;

/// A kernel with its disk laid out and its memory empty, ready for [`Machine::boot`](crate::Machine::boot).
pub struct Kernel {
    state: tasks::Shared,
    /// What each task is doing.
    jobs: Vec<Option<tasks::Job>>,
}
