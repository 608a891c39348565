//! I/O contexts: the process of a request, and therefore its queue.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use elevator::{Priority, Process, Time};
use hashbrown::HashMap;

use super::queue::{ContextId, Injection, QueueId, Raising, ThinkTime};

/// The state of a queue when it was merged with another, to resume after a split.
#[derive(Clone, Copy, Default)]
pub(super) struct Saved {
    pub(super) weight: u32,
    pub(super) think: ThinkTime,
    pub(super) thinks_briefly: bool,
    pub(super) io_bound: bool,
    pub(super) io_start: Time,
    pub(super) idle_total: u64,
    pub(super) in_large_burst: bool,
    pub(super) was_in_burst_list: bool,
    pub(super) factor: u32,
    pub(super) raising: Raising,
    pub(super) injection: Injection,
}

/// The state of one process, or of all that share a context.
#[derive(Default)]
pub(super) struct Context {
    pub(super) priority: Priority,
    pub(super) sync: Option<QueueId>,
    pub(super) asynchronous: Option<QueueId>,
    /// Requests queued or dispatched.
    pub(super) requests: u32,
    pub(super) saved: Saved,
    /// The queue, created shortly before its own, that its own may be merged with permanently.
    pub(super) stable_merge: Option<QueueId>,
    /// Merged permanently: never split again.
    pub(super) stably_merged: bool,
    gone: bool,
}

/// All contexts. Processes unknown to the host share one, as all requests of a loop device's worker do.
#[derive(Default)]
pub(super) struct Contexts {
    slots: Vec<Context>,
    free: Vec<ContextId>,
    known: HashMap<u32, ContextId>,
    unknown: Option<ContextId>,
}

impl Contexts {
    pub(super) fn find(&self, process: Option<Process>) -> Option<ContextId> {
        match process {
            Some(process) => self.known.get(&process.context).copied(),
            None => self.unknown,
        }
    }

    /// The context of a process, created if needed.
    pub(super) fn find_or_add(&mut self, process: Option<Process>, priority: Priority) -> ContextId {
        if let Some(id) = self.find(process) {
            return id;
        }
        let context = Context { priority, ..Context::default() };
        let id = match self.free.pop() {
            Some(id) => {
                self[id] = context;
                id
            }
            None => {
                self.slots.push(context);
                ContextId(self.slots.len() as u32 - 1)
            }
        };
        match process {
            Some(process) => drop(self.known.insert(process.context, id)),
            None => self.unknown = Some(id),
        }
        id
    }

    /// The process ended. Its requests may still be queued.
    pub(super) fn end(&mut self, process: Process) {
        if let Some(id) = self.known.remove(&process.context) {
            self[id].gone = true;
            self.free_if_unused(id);
        }
    }

    pub(super) fn request_ended(&mut self, id: ContextId) {
        self[id].requests -= 1;
        self.free_if_unused(id);
    }

    fn free_if_unused(&mut self, id: ContextId) {
        if self[id].gone && self[id].requests == 0 {
            self.free.push(id);
        }
    }
}

impl Index<ContextId> for Contexts {
    type Output = Context;

    fn index(&self, id: ContextId) -> &Context {
        &self.slots[id.0 as usize]
    }
}

impl IndexMut<ContextId> for Contexts {
    fn index_mut(&mut self, id: ContextId) -> &mut Context {
        &mut self.slots[id.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_of_an_ended_process_is_reused_after_its_last_request() {
        let mut contexts = Contexts::default();
        let of = |contexts: &mut Contexts, process, level| {
            let priority = Priority { level, ..Priority::default() };
            let id = contexts.find_or_add(Some(Process::single(process)), priority);
            assert_eq!(contexts[id].priority, priority);
            id
        };
        let first = of(&mut contexts, 1, 7);
        contexts[first].requests = 1;
        contexts.end(Process::single(1));
        assert_ne!(of(&mut contexts, 2, 0), first, "a request of the first process is queued");
        contexts.request_ended(first);
        assert_eq!(of(&mut contexts, 3, 1), first);
    }
}
