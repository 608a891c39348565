//! All that the kernel knows, in one place. What tasks do to it is in the files named after what they do.

use std::collections::VecDeque;

use elevator::{CauseSet, Priority, Process, Span, Time};
use hashbrown::HashMap;

use super::Causes;
use super::cache::{CachedFiles, FileId, Lru, PageId, Pages};
use super::description::Description;
use super::descriptors::Descriptors;
use super::fs::{FileSystem, Run, Touched};
use super::hooks::Hooks;
use super::io::Bios;
use super::journal::{Action, Journal, Tid};
use super::memory::Swap;
use super::tagging::Tagging;
use super::tasks::{Sleepers, TaskId};
use super::throttle::Dirtiers;
use super::watch::Watch;

/// What the kernel knows of a task.
#[derive(Default)]
pub(super) struct Task {
    /// Who it is to the block layer.
    pub(super) process: Option<Process>,
    pub(super) priority: Priority,
    /// The set that holds it alone.
    pub(super) cause: Option<CauseSet>,
    /// Others whose work it does at the moment.
    pub(super) proxy_of: Option<CauseSet>,
    pub(super) descriptors: Descriptors,
    /// Its direct I/O, or the journal's, that has not come back.
    pub(super) pending: u32,
    /// Some of that failed.
    pub(super) failed: bool,
}

/// Sizes and rules of this machine, as they are used: in pages, spans and yes or no.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) description: Description,
    /// Pages that the cache may hold.
    pub(super) capacity: usize,
    pub(super) read_ahead_max: u64,
    pub(super) request_pages: usize,
    /// Reads end where a multiple of so many pages of the device does.
    pub(super) read_boundary: Option<u64>,
    /// Dirty pages above which the flusher writes,
    pub(super) background: usize,
    /// and those above which writers are held back.
    pub(super) limit: usize,
    /// Queued requests at which it counts as congested,
    pub(super) congestion_on: u32,
    /// and below which it does no longer.
    pub(super) congestion_off: u32,
    pub(super) call: Span,
    pub(super) page: Span,
    pub(super) name: Span,
    /// Blocks are given out when pages are written back, not when they are dirtied.
    pub(super) delayed: bool,
    /// Overwritten data, too, goes before the commit (ext3's ordered mode, not ext4's).
    pub(super) orders_overwrites: bool,
    /// Unit of time stamps.
    pub(super) stamp: Span,
    /// Writes that somebody waits for are marked so.
    pub(super) sync_writes: bool,
}

/// The kernel's state.
pub(super) struct State {
    pub(super) now: Time,
    pub(super) rules: Rules,
    pub(super) causes: Causes,
    pub(super) hooks: Hooks,
    pub(super) tagging: Tagging,
    pub(super) fs: FileSystem,
    pub(super) journal: Option<Journal>,
    /// What the journal wants written, for its thread.
    pub(super) journal_work: VecDeque<Action>,
    /// When the journal wants to be asked again.
    pub(super) journal_deadline: Option<Time>,
    /// The last transaction that is durable.
    pub(super) durable: Option<Tid>,
    pub(super) pages: Pages,
    pub(super) lru: Lru,
    pub(super) files: CachedFiles,
    /// Pages that are dirty, and
    pub(super) dirty: usize,
    /// pages on their way to the device.
    pub(super) writing: usize,
    pub(super) swap: Swap,
    pub(super) bios: Bios,
    pub(super) congested: bool,
    pub(super) dirtiers: Dirtiers,
    /// Pages that the flusher is to write whatever the threshold says.
    pub(super) flush_least: usize,
    pub(super) tasks: Vec<Task>,
    pub(super) sleepers: Sleepers,
    pub(super) watch: Watch,
    /// Kept for the next operation of the file system.
    pub(super) touched: Vec<Touched>,
    pub(super) runs: Vec<Vec<Run>>,
    /// The transactions whose blocks are going home, by block.
    pub(super) homes: HashMap<u64, Tid>,
}

impl State {
    pub(super) fn task(&mut self, task: TaskId) -> &mut Task {
        if task.index() >= self.tasks.len() {
            self.tasks.resize_with(task.index() + 1, Task::default);
        }
        &mut self.tasks[task.index()]
    }

    /// Whom the task works for: it alone, unless it is somebody's proxy.
    pub(super) fn cause(&mut self, task: TaskId) -> CauseSet {
        if let Some(cause) = self.task(task).proxy_of.or(self.task(task).cause) {
            return cause;
        }
        let number = self.task(task).process.map_or(task.0, |process| process.group);
        let cause = self.causes.one(number);
        self.task(task).cause = Some(cause);
        cause
    }

    /// Its process's number.
    pub(super) fn number(&mut self, task: TaskId) -> u32 {
        self.task(task).process.map_or(task.0, |process| process.task)
    }

    /// A cleared list of what is touched.
    pub(super) fn take_touched(&mut self) -> Touched {
        let mut touched = self.touched.pop().unwrap_or_default();
        touched.clear();
        touched
    }

    /// A cleared list of runs.
    pub(super) fn take_runs(&mut self) -> Vec<Run> {
        let mut runs = self.runs.pop().unwrap_or_default();
        runs.clear();
        runs
    }

    /// Makes a page, on the inactive list. The caller has seen to it that there is room.
    pub(super) fn add_page(&mut self, file: FileId, index: u64) -> PageId {
        let page = self.pages.add(file, index);
        self.lru.push(super::cache::List::Inactive, page);
        page
    }
}
