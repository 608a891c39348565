//! Whether the weights of queues differ.

use alloc::vec::Vec;

/// The weights of the queues that have requests, in ascending order, each with the number of its queues. There are eight
/// levels of priority, hence few entries; queues with raised weights are not counted.
#[derive(Default)]
pub(super) struct Weights {
    counts: Vec<(u32, u32)>,
}

impl Weights {
    pub(super) fn add(&mut self, weight: u32) {
        match self.counts.binary_search_by_key(&weight, |&(weight, _)| weight) {
            Ok(at) => self.counts[at].1 += 1,
            Err(at) => self.counts.insert(at, (weight, 1)),
        }
    }

    pub(super) fn remove(&mut self, weight: u32) {
        if let Ok(at) = self.counts.binary_search_by_key(&weight, |&(weight, _)| weight) {
            self.counts[at].1 -= 1;
            if self.counts[at].1 == 0 {
                self.counts.remove(at);
            }
        }
    }

    /// Whether there is more than one.
    pub(super) fn vary(&self) -> bool {
        self.counts.len() > 1
    }

    pub(super) fn least(&self) -> Option<u32> {
        self.counts.first().map(|&(weight, _)| weight)
    }
}
