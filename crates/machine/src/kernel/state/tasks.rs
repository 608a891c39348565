//! Tasks: the kernel's threads and one task per process.

use elevator::{CauseSet, Priority, Process};

use super::descriptors::Descriptors;

/// A task's number: the kernel's threads first, then one per process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct TaskId(pub(crate) u32);

impl TaskId {
    /// As an array index.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Writes while more is dirty than the background threshold allows (`background_writeout` of `mm/page-writeback.c`).
pub(in crate::kernel) const FLUSHER: TaskId = TaskId(0);
/// Writes pages that have been dirty for too long (`wb_kupdate` of `mm/page-writeback.c`).
pub(in crate::kernel) const UPDATER: TaskId = TaskId(1);
/// Writes the journal (`kjournald`, `jbd2`).
pub(in crate::kernel) const JOURNAL: TaskId = TaskId(2);
/// Writes the files that a split-level policy selects for writeback.
pub(in crate::kernel) const SPLIT_WRITER: TaskId = TaskId(3);

/// Names of the threads, by task number.
const THREADS: [&str; 4] = ["[flusher]", "[flusher-periodic]", "[journal]", "[split-writer]"];

/// Number of kernel threads; tasks of processes are numbered from here.
pub(in crate::kernel) const THREAD_COUNT: u32 = THREADS.len() as u32;

/// The block layer's process numbers of the kernel's threads begin here; a program must not use one of them.
pub const FIRST_THREAD: u32 = u32::MAX - THREAD_COUNT;

/// The kernel's threads: the process number in the block layer, and the name.
pub fn thread_names() -> impl Iterator<Item = (u32, &'static str)> {
    // The array comes first: it ends the iteration before the numbers overflow.
    THREADS.into_iter().zip(FIRST_THREAD..).map(|(name, number)| (number, name))
}

/// The name of the kernel's thread that has this process number.
pub fn thread_name(process: u32) -> Option<&'static str> {
    process.checked_sub(FIRST_THREAD).and_then(|index| THREADS.get(index as usize)).copied()
}

/// The kernel's record of a task.
#[derive(Default)]
pub(in crate::kernel) struct Task {
    /// Its identity in the block layer.
    pub(in crate::kernel) process: Option<Process>,
    pub(in crate::kernel) priority: Priority,
    /// The cause set that contains only this task.
    pub(in crate::kernel) cause: Option<CauseSet>,
    /// The causes of the work that it does at the moment, if those are other tasks.
    pub(in crate::kernel) proxy_of: Option<CauseSet>,
    pub(in crate::kernel) descriptors: Descriptors,
    /// Unfinished submissions of its direct I/O, or of the journal's.
    pub(in crate::kernel) pending: u32,
    /// One of those submissions failed.
    pub(in crate::kernel) failed: bool,
}
