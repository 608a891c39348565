//! Events for a split-level policy, and the writeback that the policy requested.

use std::collections::VecDeque;

use elevator::CauseSet;
use elevator::split::{Account, Page, SystemCall, Terms};
use hashbrown::HashMap;

use crate::kernel::cache::FileId;

/// An event above the block layer.
pub(in crate::kernel) enum HookEvent {
    Account(Account, Terms),
    Entered(SystemCall),
    Returned(SystemCall),
    Dirtied(Page, CauseSet, Option<CauseSet>),
    Submitted(Page, CauseSet),
    Freed(Page, CauseSet),
}

/// Events that the policy has not received yet, and requests of the policy.
#[derive(Default)]
pub(in crate::kernel) struct Hooks {
    /// A split-level policy is connected. Without one no event is recorded.
    pub(in crate::kernel) on: bool,
    pub(in crate::kernel) events: VecDeque<HookEvent>,
    /// Terms other than the default of a process's priority, by thread-group number.
    pub(in crate::kernel) agreed: HashMap<u32, Terms>,
    /// The policy was notified of every cause set with a smaller number.
    pub(in crate::kernel) sets_sent: u32,
    /// Files to write back and how many pages of each, for the split writer.
    pub(in crate::kernel) writeback: VecDeque<(FileId, u32)>,
}
