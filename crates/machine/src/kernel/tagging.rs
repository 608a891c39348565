//! What tagging costs: processor time of the hooks, and memory of the tags.

use elevator::Span;
use serde::{Deserialize, Serialize};

use super::Kernel;
use super::state::State;
use super::tasks::TaskId;

/// What hooks and tags have cost until now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tagging {
    /// Calls that a split policy heard of.
    pub calls: u64,
    /// Pages dirtied while one listened.
    pub pages: u64,
    /// Submissions that could carry causes.
    pub requests: u64,
    /// Processor time of all that, in nanoseconds, and
    pub hooks_ns: u64,
    /// of everything that the kernel did for its tasks, hooks included.
    pub processor_ns: u64,
    /// Bytes that tags took, at most and
    pub bytes_max: u64,
    /// on average over the seconds of the run.
    pub bytes_mean: u64,
    #[serde(skip)]
    bytes_sum: u64,
    #[serde(skip)]
    weighed: u64,
}

impl State {
    fn pay_for_hooks(&mut self, task: TaskId, ns: u64) {
        self.tagging.hooks_ns += ns;
        self.sleepers.spend(self.now, task, Span::from_nanos(ns));
    }

    /// A call was told of.
    pub(super) fn pay_for_call(&mut self, task: TaskId) {
        self.tagging.calls += 1;
        self.pay_for_hooks(task, self.rules.description.processor.hooks.call_ns);
    }

    /// So many pages were dirtied.
    pub(super) fn pay_for_pages(&mut self, task: TaskId, pages: u64) {
        if self.tags() {
            self.tagging.pages += pages;
            self.pay_for_hooks(task, self.rules.description.processor.hooks.page_ns * pages);
        }
    }

    /// Something is submitted.
    pub(super) fn pay_for_request(&mut self, task: TaskId) {
        if self.tags() {
            self.tagging.requests += 1;
            self.pay_for_hooks(task, self.rules.description.processor.hooks.request_ns);
        }
    }

    /// A second has passed.
    pub(super) fn weigh_tags(&mut self) {
        if self.tags() {
            let bytes = (self.causes.bytes() + self.pages.causes_bytes()) as u64;
            let tagging = &mut self.tagging;
            tagging.bytes_max = tagging.bytes_max.max(bytes);
            tagging.bytes_sum += bytes;
            tagging.weighed += 1;
        }
    }
}

impl Kernel {
    /// What tagging has cost until now; nothing while no split policy listens but for the processor time of everything.
    /// Memory is weighed once a second, and is what is really kept: a place for a set's name in every page that there has
    /// been at once, every set of causes, and every union of two that had to be found.
    #[must_use]
    pub fn tagging(&self) -> Tagging {
        let state = self.state.borrow();
        let mut tagging = state.tagging;
        tagging.processor_ns = state.sleepers.spent().as_nanos();
        tagging.bytes_mean = tagging.bytes_sum.checked_div(tagging.weighed).unwrap_or(0);
        tagging
    }
}
