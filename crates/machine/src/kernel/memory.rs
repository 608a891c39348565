//! Anonymous memory of programs, and swap.
//!
//! The swap area is the end of the device. A page is written to the next free slot, so pages that are swapped out together
//! lie together and are read together: eight slots around the wanted one, as with `page-cluster` 3. A page that changes again
//! loses its slot. Unlike Linux 2.6 with its default swappiness, anonymous pages are reclaimed only if no file page can be.

use elevator::{Flags, Op};

use super::cache::{FileId, List, PageId};
use super::calls::{Errno, Returned};
use super::context::Context;
use super::fs::BLOCK_BYTES;
use super::state::{Bio, Purpose, State, Swap, TaskId, Wait};

/// Slots read around the wanted one.
const AROUND: u64 = 8;

/// Pages written together: `SWAP_CLUSTER_MAX`.
const CLUSTER: usize = 32;

impl State {
    /// An anonymous page leaves memory; its slot, if any, keeps the content.
    pub(super) fn memory_dropped(&mut self, file: FileId) {
        self.swap.resident -= u64::from(file.is_memory());
    }

    /// Frees the memory and the slots of a process that ends.
    pub(super) fn release_memory(&mut self, task: TaskId) {
        let file = FileId::memory(task.0);
        if !self.swap.owners.remove(&file) {
            return;
        }
        let pages: Vec<_> =
            self.pages.iter().filter(|(_, page)| page.file == file).map(|(id, _)| id).collect();
        for id in pages {
            self.pages[id].modified = false;
            self.discard_page(id);
        }
        let Swap { holds, slot_of, .. } = &mut self.swap;
        slot_of.retain(|&(of, _), slot| of != file || holds.remove(slot).is_none());
    }

    /// Adds a page that was never touched.
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

    /// The next action for an access to a page.
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

    /// Reads the pages around a slot; adjacent slots share a submission.
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

    /// Writes the least recently used anonymous pages that have no copy on the device.
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

    /// Pages were written to the swap area. A page whose write failed stays in memory.
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
            self.sleepers.wake(self.now, Wait::Page(id));
        }
        self.sleepers.wake(self.now, Wait::Memory);
    }
}

/// The next action for an access to a page.
enum Touch {
    Done,
    New,
    SwapIn,
    Arriving(PageId),
}

impl Context {
    /// Accesses memory.
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

    /// Swaps pages out; returns whether there were any.
    pub(super) async fn swap_some(&self) -> bool {
        let bios = self.with(|state| state.swap_out(self.task));
        let some = !bios.is_empty();
        for bio in bios {
            self.submit(bio).await;
        }
        some
    }
}
