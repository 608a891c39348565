//! The kernel's data structures.

mod bios;
mod descriptors;
mod dirtiers;
mod hooks;
mod rules;
mod samples;
mod sleepers;
mod swap;
mod tagging;
mod tasks;

use std::collections::VecDeque;

use elevator::{CauseSet, Time};
use hashbrown::HashMap;

use super::cache::{CachedFiles, FileId, List, Lru, PageId, Pages};
use super::causes::Causes;
use super::fs::{FileSystem, Run, Touched};
use super::journal::{Action, Journal, Tid};

pub(super) use bios::{Bio, Bios, Purpose};
pub(super) use dirtiers::{Dirtiers, EXCEEDED_PAGES};
pub(super) use hooks::{HookEvent, Hooks};
pub(super) use rules::Rules;
pub use samples::Sample;
pub(super) use samples::{SAMPLE_EVERY, Watch};
pub(super) use sleepers::{Sleepers, Wait};
pub(super) use swap::Swap;
pub use tagging::Tagging;
pub(crate) use tasks::TaskId;
pub use tasks::{FIRST_THREAD, thread_name, thread_names};
pub(super) use tasks::{FLUSHER, JOURNAL, SPLIT_WRITER, THREAD_COUNT, Task, UPDATER};

/// The kernel's state.
pub(super) struct State {
    pub(super) now: Time,
    pub(super) rules: Rules,
    pub(super) causes: Causes,
    pub(super) hooks: Hooks,
    pub(super) tagging: Tagging,
    pub(super) fs: FileSystem,
    pub(super) journal: Option<Journal>,
    /// Actions of the journal for its thread.
    pub(super) journal_work: VecDeque<Action>,
    /// The journal's next deadline.
    pub(super) journal_deadline: Option<Time>,
    /// The newest durable transaction.
    pub(super) durable: Option<Tid>,
    pub(super) pages: Pages,
    pub(super) lru: Lru,
    pub(super) files: CachedFiles,
    /// Dirty pages.
    pub(super) dirty: usize,
    /// Pages under writeback.
    pub(super) writing: usize,
    pub(super) swap: Swap,
    pub(super) bios: Bios,
    pub(super) congested: bool,
    pub(super) dirtiers: Dirtiers,
    /// Pages that the flusher writes regardless of the background threshold.
    pub(super) flush_least: usize,
    pub(super) tasks: Vec<Task>,
    pub(super) sleepers: Sleepers,
    pub(super) watch: Watch,
    /// Buffers kept for their allocation.
    pub(super) touched: Vec<Touched>,
    pub(super) runs: Vec<Vec<Run>>,
    /// The transactions whose blocks are being written home, by block.
    pub(super) homes: HashMap<u64, Tid>,
}

impl State {
    pub(super) fn task(&mut self, task: TaskId) -> &mut Task {
        if task.index() >= self.tasks.len() {
            self.tasks.resize_with(task.index() + 1, Task::default);
        }
        &mut self.tasks[task.index()]
    }

    /// The causes of a task's work: the task itself, or those it works for.
    pub(super) fn cause(&mut self, task: TaskId) -> CauseSet {
        if let Some(cause) = self.task(task).proxy_of.or(self.task(task).cause) {
            return cause;
        }
        let number = self.task(task).process.map_or(task.0, |process| process.group);
        let cause = self.causes.one(number);
        self.task(task).cause = Some(cause);
        cause
    }

    /// The process number of a task.
    pub(super) fn number(&mut self, task: TaskId) -> u32 {
        self.task(task).process.map_or(task.0, |process| process.task)
    }

    /// An empty access list.
    pub(super) fn take_touched(&mut self) -> Touched {
        let mut touched = self.touched.pop().unwrap_or_default();
        touched.clear();
        touched
    }

    /// An empty list of runs.
    pub(super) fn take_runs(&mut self) -> Vec<Run> {
        let mut runs = self.runs.pop().unwrap_or_default();
        runs.clear();
        runs
    }

    /// Adds a page to the inactive list. The caller has made room.
    pub(super) fn add_page(&mut self, file: FileId, index: u64) -> PageId {
        let page = self.pages.add(file, index);
        self.lru.push(List::Inactive, page);
        page
    }
}
