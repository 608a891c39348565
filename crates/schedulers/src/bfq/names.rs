//! What queues and contexts are called.

/// A queue's name: its place in the slab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct QueueId(pub(super) u32);

impl QueueId {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A context's name: its place in the slab.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ContextId(pub(super) u32);
