//! Bursts of new queues: eight within 180 ms of each other belong to one task (a boot, a parallel build), which gains more
//! from throughput than from raised weights.

use alloc::vec::Vec;

use elevator::{Span, Time};

use super::Bfq;
use super::queue::Handle;
use super::queue::QueueId;

/// Queues from which a burst is large.
const LARGE: u32 = 8;
/// The longest gap between two.
pub(super) const INTERVAL: Span = Span::from_millis(180);
/// A queue just split from others is not a new one.
const JUST_SPLIT: Span = Span::from_millis(10);

/// The present burst.
#[derive(Default)]
pub(super) struct Burst {
    latest: Time,
    size: u32,
    large: bool,
    members: Vec<Handle>,
}

impl Bfq {
    /// A queue was created and has had no request yet.
    pub(super) fn consider_burst(&mut self, now: Time, id: QueueId) {
        let goes_on = self.burst.size > 0 || self.service.busy() == 0;
        if self.queues[id].just_created && goes_on {
            self.join_burst(now, id);
        }
    }

    fn join_burst(&mut self, now: Time, id: QueueId) {
        let queue = &self.queues[id];
        let just_split = queue.split.is_some_and(|split| split + JUST_SPLIT >= now);
        if queue.in_burst_list || queue.in_large_burst || just_split {
            return;
        }
        if self.burst.latest + INTERVAL < now {
            self.begin_burst(id);
        } else if self.burst.large {
            self.queues[id].in_large_burst = true;
        } else {
            self.add_to_burst(id);
        }
        self.burst.latest = now;
    }

    fn begin_burst(&mut self, id: QueueId) {
        self.burst.large = false;
        self.disperse(|_| {});
        self.burst.size = 0;
        if self.service.busy() == 0 {
            self.list_in_burst(id);
            self.burst.size = 1;
        }
    }

    fn add_to_burst(&mut self, id: QueueId) {
        self.burst.size += 1;
        if self.burst.size == LARGE {
            self.burst.large = true;
            self.queues[id].in_large_burst = true;
            self.disperse(|queue| queue.in_large_burst = true);
        } else {
            self.list_in_burst(id);
        }
    }

    pub(super) fn list_in_burst(&mut self, id: QueueId) {
        self.queues[id].in_burst_list = true;
        let handle = self.queues.handle(id);
        self.burst.members.push(handle);
    }

    /// Empties the list of members.
    fn disperse(&mut self, mark: impl Fn(&mut super::queue::Queue)) {
        while let Some(member) = self.burst.members.pop() {
            if let Some(id) = self.queues.resolve(Some(member))
                && core::mem::take(&mut self.queues[id].in_burst_list)
            {
                mark(&mut self.queues[id]);
            }
        }
    }

    pub(super) fn leave_burst(&mut self, id: QueueId) {
        self.queues[id].in_burst_list = false;
        self.queues[id].in_large_burst = false;
    }

    pub(super) const fn is_burst_large(&self) -> bool {
        self.burst.large
    }
}
