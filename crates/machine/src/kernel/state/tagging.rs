//! The cost of cause tagging: processor time of hooks and memory of tags.

use serde::{Deserialize, Serialize};

/// The cost of hooks and tags so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tagging {
    /// Calls passed to a split-level policy.
    pub calls: u64,
    /// Pages dirtied while a policy was connected.
    pub pages: u64,
    /// Submissions while a policy was connected.
    pub requests: u64,
    /// Processor time of the hooks, in nanoseconds.
    pub hooks_ns: u64,
    /// Processor time of all kernel work for tasks, hooks included, in nanoseconds.
    pub processor_ns: u64,
    /// Maximum bytes of tags.
    pub bytes_max: u64,
    /// Mean bytes of tags over the seconds of the run.
    pub bytes_mean: u64,
    #[serde(skip)]
    pub(in crate::kernel) bytes_sum: u64,
    #[serde(skip)]
    pub(in crate::kernel) weighed: u64,
}
