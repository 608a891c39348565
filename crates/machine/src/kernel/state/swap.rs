//! The swap area: which slot holds which page.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use crate::kernel::cache::FileId;
use crate::kernel::fs::Block;

/// The swap area.
#[derive(Default)]
pub(in crate::kernel) struct Swap {
    pub(in crate::kernel) start: Block,
    pub(in crate::kernel) slots: u64,
    /// The page in each used slot.
    pub(in crate::kernel) holds: HashMap<u64, (FileId, u64)>,
    pub(in crate::kernel) slot_of: HashMap<(FileId, u64), u64>,
    /// The search for a free slot begins here.
    next: u64,
    /// Pages of programs in memory.
    pub(in crate::kernel) resident: u64,
    /// Programs that have touched memory; the end of any other program frees no slot.
    pub(in crate::kernel) owners: BTreeSet<FileId>,
}

impl Swap {
    /// `slots` slots from block `start` of the device on.
    pub(in crate::kernel) fn new(start: Block, slots: u64) -> Self {
        Self { start, slots, ..Self::default() }
    }

    pub(in crate::kernel) fn take_slot(&mut self, page: (FileId, u64)) -> Option<u64> {
        let slot = (self.next..self.slots).chain(0..self.next).find(|slot| !self.holds.contains_key(slot))?;
        self.next = slot + 1;
        self.holds.insert(slot, page);
        self.slot_of.insert(page, slot);
        Some(slot)
    }

    pub(in crate::kernel) fn free_slot(&mut self, page: (FileId, u64)) {
        if let Some(slot) = self.slot_of.remove(&page) {
            self.holds.remove(&slot);
        }
    }
}
