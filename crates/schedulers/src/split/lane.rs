//! Requests that are served one way in sector order, from where the last one ended: an account's reads, or all writes.

use elevator::{Growth, Request, RequestId, Sector};

use crate::sorted::{Key, SortedIndex};

/// One such set of requests.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    sorted: SortedIndex,
    /// The sector behind the last request that was taken.
    position: Sector,
}

impl Lane {
    /// Whether nothing is queued.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// A request joins.
    pub fn insert(&mut self, request: &Request) {
        self.sorted.insert(request);
    }

    /// A queued one grew, as [`Scheduler::merged`](elevator::Scheduler::merged) has it.
    pub fn merged(&mut self, request: &Request, growth: Growth<'_>) {
        if growth.was_start != request.start {
            self.sorted.remove_key(Key::at(growth.was_start, request.serial));
            self.sorted.insert(request);
        }
        if let Some(absorbed) = growth.absorbed {
            self.sorted.remove(absorbed);
        }
    }

    /// The next one: at or behind the last one's end, else the lowest.
    #[must_use]
    pub fn next(&self) -> Option<RequestId> {
        self.sorted.at_or_after(self.position).or_else(|| self.sorted.first())
    }

    /// A request leaves for the device; how far it lies from the last one's end, in sectors.
    pub fn take(&mut self, request: &Request) -> u64 {
        self.sorted.remove(request);
        let distance = self.position.distance(request.start);
        self.position = request.end();
        distance
    }
}
