//! A bounded table of a policy's data about each process.
//!
//! The key of a process is a number (a task, a thread group, an I/O context). When the process ends, the key is removed, so that
//! a later process with the same number gets a new entry. The old entry stays while requests or the policy reference it. Hosts may not
//! report every end of a process. Entries that were not used for a long time are therefore evicted; when the table is full, the CLOCK
//! algorithm evicts entries.

use alloc::vec::Vec;
use core::hash::Hash;
use core::ops::{Index, IndexMut};

use hashbrown::HashMap;

use crate::parts::jiffies::Jiffies;

/// The maximum number of processes with a history, unless more have requests at the same time. A disk serves far fewer processes in the
/// time in which a history is useful.
const MOST: usize = 1024;

/// The index of a process's history in the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Slot(u32);

impl Slot {
    /// As an array index.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

struct Entry<T, K> {
    key: K,
    /// Whether the process has not ended, as far as the host has reported.
    running: bool,
    taken: bool,
    /// The number of references: requests, and the policy itself.
    pins: u32,
    used: Jiffies,
    value: T,
}

/// One value per process.
pub(crate) struct Processes<T, K = u32> {
    entries: Vec<Entry<T, K>>,
    free: Vec<Slot>,
    by_key: HashMap<K, Slot>,
    hand: usize,
}

impl<T, K> Default for Processes<T, K> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new(), by_key: HashMap::new(), hand: 0 }
    }
}

impl<T: Default, K: Copy + Eq + Hash> Processes<T, K> {
    /// The history of the running process with that key, created if needed. A process that was not used since `stale` may be
    /// evicted; `forgotten` receives its history.
    pub(crate) fn enter(&mut self, key: K, now: Jiffies, stale: Jiffies, forgotten: impl FnOnce(T)) -> Slot {
        if let Some(&slot) = self.by_key.get(&key) {
            self.entries[slot.index()].used = now;
            return slot;
        }
        if let Some(value) = self.sweep(stale) {
            forgotten(value);
        }
        let entry = Entry { key, running: true, taken: true, pins: 0, used: now, value: T::default() };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot.index()] = entry;
                slot
            }
            None => {
                self.entries.push(entry);
                Slot(self.entries.len() as u32 - 1)
            }
        };
        self.by_key.insert(key, slot);
        slot
    }

    /// The running process with that key, if it has a history.
    pub(crate) fn find(&self, key: K) -> Option<Slot> {
        self.by_key.get(&key).copied()
    }

    /// Adds a reference.
    pub(crate) fn pin(&mut self, slot: Slot) {
        self.entries[slot.index()].pins += 1;
    }

    /// Removes a reference.
    pub(crate) fn unpin(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot.index()];
        debug_assert!(entry.pins > 0, "more unpins than pins");
        entry.pins -= 1;
        if entry.pins == 0 && !entry.running {
            self.forget(slot);
        }
    }

    /// The process with that key has ended. Returns its history's index, if any.
    pub(crate) fn end(&mut self, key: K) -> Option<Slot> {
        let slot = self.by_key.remove(&key)?;
        let entry = &mut self.entries[slot.index()];
        entry.running = false;
        if entry.pins == 0 {
            self.forget(slot);
        }
        Some(slot)
    }

    /// Whether the process has not ended, as far as the host has reported.
    pub(crate) fn is_running(&self, slot: Slot) -> bool {
        self.entries[slot.index()].running
    }

    fn forget(&mut self, slot: Slot) -> T {
        let entry = &mut self.entries[slot.index()];
        entry.taken = false;
        if entry.running {
            self.by_key.remove(&entry.key);
        }
        self.free.push(slot);
        core::mem::take(&mut entry.value)
    }

    /// Advances the clock's hand by one entry; by up to a whole round when the table is full.
    fn sweep(&mut self, stale: Jiffies) -> Option<T> {
        let full = self.entries.len() >= MOST && self.free.is_empty();
        let steps = if full { self.entries.len() } else { 1.min(self.entries.len()) };
        for _ in 0..steps {
            self.hand = (self.hand + 1) % self.entries.len();
            let entry = &self.entries[self.hand];
            if entry.taken && entry.pins == 0 && (full || entry.used < stale) {
                return Some(self.forget(Slot(self.hand as u32)));
            }
        }
        None
    }
}

impl<T, K> Index<Slot> for Processes<T, K> {
    type Output = T;

    fn index(&self, slot: Slot) -> &T {
        &self.entries[slot.index()].value
    }
}

impl<T, K> IndexMut<Slot> for Processes<T, K> {
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.entries[slot.index()].value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_process_with_the_same_number_gets_a_new_history() {
        let mut table = Processes::<u32>::default();
        let first = table.enter(7, 0, 0, drop);
        table[first] = 1;
        table.pin(first);
        table.end(7);
        assert!(!table.is_running(first));
        let second = table.enter(7, 1, 0, drop);
        assert_eq!((table[first], table[second]), (1, 0), "the first is pinned");
        table.unpin(first);
        assert_eq!(table.find(7), Some(second));
        assert_eq!(table.enter(8, 2, 0, drop), first, "its entry is reused");
    }

    #[test]
    fn the_table_is_bounded_if_no_process_ends() {
        let mut table = Processes::<u32>::default();
        let held = table.enter(0, 0, 0, drop);
        table.pin(held);
        for key in 1..10_000 {
            table.enter(key, 0, 0, drop);
        }
        assert_eq!(table.entries.len(), MOST);
        assert_eq!(table.find(0), Some(held));
        assert_eq!(table.by_key.len(), MOST);
    }

    #[test]
    fn unused_histories_are_evicted() {
        let mut table = Processes::<u32>::default();
        table.enter(1, 10, 0, drop);
        table.enter(2, 500, 400, drop);
        table.enter(3, 500, 400, drop);
        assert_eq!((table.find(1), table.find(2).is_some()), (None, true));
    }
}
