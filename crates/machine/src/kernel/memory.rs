//! Programs' own memory: pages that are no file's, and go to the swap area when nothing else can leave.
//!
//! Swap is the end of the device. A page that goes there gets the next free slot, so what left memory together lies
//! together, and is read back together: eight slots around the one that was wanted, as `page-cluster` 3 has it. A page that
//! is changed again loses its slot. Unlike 2.6 with its usual swappiness, memory of programs goes only when no page of a
//! file can.

use std::collections::BTreeSet;

use elevator::{Flags, Op};
use hashbrown::HashMap;

use super::cache::{FileId, List, PageId};
use super::calls::{Errno, Returned};
use super::fs::{BLOCK_BYTES, Block};
use super::io::{Bio, Purpose};
use super::state::State;
use super::tasks::{Context, TaskId};

/// Slots read around the one that is wanted.
const AROUND: u64 = 8;

/// Most pages that go out together: `SWAP_CLUSTER_MAX`.
const CLUSTER: usize = 32;

/// The swap area.
#[derive(Default)]
pub(super) struct Swap {
    start: Block,
    slots: u64,
    /// What each used slot holds.
    holds: HashMap<u64, (FileId, u64)>,
    slot_of: HashMap<(FileId, u64), u64>,
    /// Where to look for the next free slot.
    next: u64,
    /// Pages of programs in memory.
    resident: u64,
    /// Programs that have ever touched memory: everybody else's end frees none.
    owners: BTreeSet<FileId>,
}

impl Swap {
    /// So many slots from this block of the device on.
    pub(super) fn new(start: Block, slots: u64) -> Self {
        Self { start, slots, ..Self::default() }
    }

    fn take_slot(&mut self, page: (FileId, u64)) -> Option<u64> {
        let slot = (self.next..self.slots).chain(0..self.next).find(|slot| !self.holds.contains_key(slot))?;
        self.next = slot + 1;
        self.holds.insert(slot, page);
        self.slot_of.insert(page, slot);
        Some(slot)
    }

    fn free_slot(&mut self, page: (FileId, u64)) {
        if let Some(slot) = self.slot_of.remove(&page) {
            self.holds.remove(&slot);
        }
    }
}

impl State {
    /// A page of a program leaves memory; its slot, if it has one, keeps its content.
    pub(super) fn memory_dropped(&mut self, file: FileId) {
        self.swap.resident -= u64::from(file.is_memory());
    }

    /// The memory of a process that ended is free, and its slots.
    pub(super) fn release_memory(&mut self, task: TaskId) {
        let file = FileId::memory(task.0);
        if !self.swap.owners.remove(&file) {
            return;
        }
        let pages: Vec<_> =
            self.pages.iter().filter(|(_, page)| page.file == file).map(|(id, _)| id).collect();
        for id in pages {
            self.pages[id].modified = false;
            self.throw_away(id);
        }
        let Swap { holds, slot_of, .. } = &mut self.swap;
        slot_of.retain(|&(of, _), slot| of != file || holds.remove(slot).is_none());
    }

    /// A page that has never been touched: it is there at once.
    fn new_memory(&mut self, file: FileId, index: u64) -> Result<(), Errno> {
        let used = self.swap.resident + self.swap.holds.len() as u64;
        if used >= self.swap.slots + self.rules.capacity as u64 * 3 / 4 {
            return Err(Errno::NoMemory);
        }
        let id = self.add_page(file, index);
        let page = &mut self.pages[id];
        (page.uptodate, page.modified, page.referenced) = (true, true, true);
        self.swap.resident += 1;
        self.swap.owners.insert(file);
        Ok(())
    }

    /// The next thing to do for a touch of a page.
    fn touch_page(&mut self, file: FileId, index: u64, write: bool) -> Touch {
        let Some(id) = self.pages.find(file, index) else {
            return if self.swap.slot_of.contains_key(&(file, index)) { Touch::SwapIn } else { Touch::New };
        };
        if self.pages[id].reading {
            return Touch::Arriving(id);
        }
        self.use_page(id);
        if write && !std::mem::replace(&mut self.pages[id].modified, true) {
            self.swap.free_slot((file, index));
        }
        Touch::Done
    }

    /// Pages around a slot, on their way from there; each run of neighbours as one submission.
    fn swap_in(&mut self, task: TaskId, file: FileId, index: u64) -> Vec<Bio> {
        let Some(&wanted) = self.swap.slot_of.get(&(file, index)) else { return Vec::new() };
        let first = wanted / AROUND * AROUND;
        let mut bios: Vec<Bio> = Vec::new();
        let mut end = None;
        for slot in first..(first + AROUND).min(self.swap.slots) {
            let Some(&(file, index)) = self.swap.holds.get(&slot) else { continue };
            if self.pages.find(file, index).is_some() || (slot != wanted && !self.make_room()) {
                continue;
            }
            let id = self.add_page(file, index);
            let page = &mut self.pages[id];
            (page.reading, page.ahead) = (true, slot != wanted);
            self.swap.resident += 1;
            match (end, bios.last_mut()) {
                (Some(behind), Some(bio)) if behind == slot => bio.extend(id),
                _ => {
                    let mut list = self.bios.list();
                    list.push(id);
                    let bio = Bio::of_pages(task, Purpose::Read, Op::Read, self.swap.start.plus(slot), list);
                    bios.push(Bio { flags: Flags { sync: true, ..bio.flags }, ..bio });
                }
            }
            end = Some(slot + 1);
        }
        bios
    }

    /// The longest unused pages of programs that have no copy on the device set out for it.
    fn swap_out(&mut self, task: TaskId) -> Vec<Bio> {
        let mut bios: Vec<Bio> = Vec::new();
        let (mut next, mut end, mut left) = (self.lru.oldest(List::Inactive), None, CLUSTER);
        while let Some(id) = next.filter(|_| left > 0) {
            next = self.lru.newer(id);
            let page = &self.pages[id];
            if !page.modified || page.writing || page.orphan {
                continue;
            }
            let key = (page.file, page.index);
            let cause = self.cause(TaskId(key.0.task()));
            let Some(slot) = self.swap.take_slot(key) else { break };
            let page = &mut self.pages[id];
            (page.modified, page.writing) = (false, true);
            self.writing += 1;
            match (end, bios.last_mut()) {
                (Some(behind), Some(bio)) if behind == slot => {
                    bio.extend(id);
                    bio.causes = bio.causes.map(|causes| self.causes.union(causes, cause));
                }
                _ => {
                    let mut list = self.bios.list();
                    list.push(id);
                    let bio = Bio::of_pages(task, Purpose::Swap, Op::Write, self.swap.start.plus(slot), list);
                    bios.push(Bio { causes: Some(cause), ..bio });
                }
            }
            end = Some(slot + 1);
            left -= 1;
        }
        bios
    }

    /// Pages of programs reached the swap area. If one did not, it stays in memory as it was.
    pub(super) fn swapped_out(&mut self, pages: &[PageId], done: bool) {
        for &id in pages {
            self.writing -= 1;
            let page = &mut self.pages[id];
            page.writing = false;
            let (key, orphan) = ((page.file, page.index), page.orphan);
            if !done && !orphan {
                page.modified = true;
                self.swap.free_slot(key);
            }
            if orphan {
                self.drop_page(id);
            }
            self.sleepers.wake(self.now, super::tasks::Wait::Page(id));
        }
        self.sleepers.wake(self.now, super::tasks::Wait::Memory);
    }
}

/// What a touch of a page needs.
enum Touch {
    Done,
    New,
    SwapIn,
    Arriving(PageId),
}

impl Context {
    /// Touches memory.
    pub(super) async fn touch(&self, at: u64, bytes: u64, write: bool) -> Result<Returned, Errno> {
        if bytes == 0 {
            return Ok(Returned::Done);
        }
        let file = FileId::memory(self.task.0);
        for index in at / BLOCK_BYTES..=at.saturating_add(bytes - 1) / BLOCK_BYTES {
            loop {
                match self.with(|state| state.touch_page(file, index, write)) {
                    Touch::Done => break,
                    Touch::Arriving(id) => self.wait_for_page(id).await,
                    Touch::New => {
                        self.room().await;
                        self.with(|state| {
                            state.sleepers.spend(state.now, self.task, state.rules.page);
                            state.new_memory(file, index)
                        })?;
                    }
                    Touch::SwapIn => {
                        self.room().await;
                        for bio in self.with(|state| state.swap_in(self.task, file, index)) {
                            self.submit(bio).await;
                        }
                    }
                }
            }
        }
        Ok(Returned::Done)
    }

    /// Sends memory of programs to the swap area; whether there was any to send.
    pub(super) async fn swap_some(&self) -> bool {
        let bios = self.with(|state| state.swap_out(self.task));
        let some = !bios.is_empty();
        for bio in bios {
            self.submit(bio).await;
        }
        some
    }
}
