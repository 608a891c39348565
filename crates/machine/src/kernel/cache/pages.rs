//! Pages in memory, found by file and index.

use std::ops::Range;

use elevator::CauseSet;
use hashbrown::HashMap;

use crate::kernel::fs::{Block, Inode};

/// Whose pages: a file's, those of the device itself, which hold metadata, or a program's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(in crate::kernel) struct FileId(u64);

/// Marks what is no inode.
const MEMORY: u64 = 1 << 63;

impl FileId {
    /// The device: its pages are the buffer cache, and their index is the block.
    pub(in crate::kernel) const DEVICE: Self = Self(u64::MAX);

    /// The memory of a task's program.
    pub(in crate::kernel) const fn memory(task: u32) -> Self {
        Self(MEMORY | task as u64)
    }

    /// Whether it is the memory of some program,
    pub(in crate::kernel) fn is_memory(self) -> bool {
        self != Self::DEVICE && self.0 & MEMORY != 0
    }

    /// and of which task's.
    pub(in crate::kernel) const fn task(self) -> u32 {
        self.0 as u32
    }

    /// The file's inode; `None` for the device and for memory.
    pub(in crate::kernel) fn inode(self) -> Option<Inode> {
        (self.0 & MEMORY == 0).then_some(Inode(self.0))
    }
}

impl From<Inode> for FileId {
    fn from(inode: Inode) -> Self {
        Self(inode.0)
    }
}

/// A page's place in the slab.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(in crate::kernel) struct PageId(pub(in crate::kernel) u32);

/// One page.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernel) struct Page {
    pub(in crate::kernel) file: FileId,
    pub(in crate::kernel) index: u64,
    /// Where it lies on the device, once that is known.
    pub(in crate::kernel) block: Option<Block>,
    /// Everybody who changed it since it was last written.
    pub(in crate::kernel) causes: Option<CauseSet>,
    /// It holds what the file holds.
    pub(in crate::kernel) uptodate: bool,
    /// It is on its way from the device.
    pub(in crate::kernel) reading: bool,
    /// It is on its way to the device.
    pub(in crate::kernel) writing: bool,
    /// It was changed since it last set out for the device.
    pub(in crate::kernel) dirty: bool,
    /// A program's own, and no copy of it is on the device.
    pub(in crate::kernel) modified: bool,
    /// It belongs to a transaction that is not durable: only the journal may write it.
    pub(in crate::kernel) held: bool,
    /// It was used once since it came, or came to the inactive list.
    pub(in crate::kernel) referenced: bool,
    /// It is on the active list.
    pub(in crate::kernel) active: bool,
    /// Read-ahead brought it and nobody has used it.
    pub(in crate::kernel) ahead: bool,
    /// Its first use starts the next window (the mark of on-demand read-ahead).
    pub(in crate::kernel) mark: bool,
    /// The file dropped it while it was on its way; it goes when it arrives.
    pub(in crate::kernel) orphan: bool,
}

impl Page {
    const fn new(file: FileId, index: u64) -> Self {
        Self {
            file,
            index,
            block: None,
            causes: None,
            uptodate: false,
            reading: false,
            writing: false,
            dirty: false,
            modified: false,
            held: false,
            referenced: false,
            active: false,
            ahead: false,
            mark: false,
            orphan: false,
        }
    }

    /// Whether it may leave memory as it is.
    pub(in crate::kernel) const fn is_idle(&self) -> bool {
        !self.reading && !self.writing && !self.dirty && !self.modified && !self.held
    }
}

/// Pages that are found together: neighbours in a file are asked for one after the other.
const SHELF: u64 = 16;

/// Where neighbours of a file are, a line of the processor's cache.
#[derive(Clone, Copy)]
struct Shelf([u32; SHELF as usize]);

const NOWHERE: u32 = u32::MAX;

impl Shelf {
    const EMPTY: Self = Self([NOWHERE; SHELF as usize]);

    fn get(&self, index: u64) -> Option<PageId> {
        let id = self.0[(index % SHELF) as usize];
        (id != NOWHERE).then_some(PageId(id))
    }
}

/// Every page in memory.
#[derive(Default)]
pub(in crate::kernel) struct Pages {
    slots: Vec<Page>,
    free: Vec<PageId>,
    found: HashMap<(FileId, u64), Shelf>,
}

impl Pages {
    /// How many.
    pub(in crate::kernel) const fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The page of this file at this index.
    pub(in crate::kernel) fn find(&self, file: FileId, index: u64) -> Option<PageId> {
        self.found.get(&(file, index / SHELF))?.get(index)
    }

    /// The pages of this file at these indexes, in order. It takes no longer than going through all that is in memory, however
    /// long a file with holes is.
    pub(in crate::kernel) fn within(&self, file: FileId, indexes: Range<u64>) -> Vec<PageId> {
        if indexes.end.saturating_sub(indexes.start) <= self.len() as u64 {
            return indexes.filter_map(|index| self.find(file, index)).collect();
        }
        let theirs = self.iter().filter(|(_, page)| page.file == file && indexes.contains(&page.index));
        let mut pages: Vec<(u64, PageId)> = theirs.map(|(id, page)| (page.index, id)).collect();
        pages.sort_unstable();
        pages.into_iter().map(|(_, id)| id).collect()
    }

    /// Makes a page, which must not be there yet, with nothing in it.
    pub(in crate::kernel) fn add(&mut self, file: FileId, index: u64) -> PageId {
        let page = Page::new(file, index);
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id.0 as usize] = page;
                id
            }
            None => {
                self.slots.push(page);
                PageId(self.slots.len() as u32 - 1)
            }
        };
        let shelf = self.found.entry((file, index / SHELF)).or_insert(Shelf::EMPTY);
        debug_assert_eq!(shelf.get(index), None, "page {index} of {file:?} made twice");
        shelf.0[(index % SHELF) as usize] = id.0;
        id
    }

    /// The file no longer knows the page, which still has its place: it is on its way somewhere.
    pub(in crate::kernel) fn orphan(&mut self, id: PageId) {
        self.forget(id);
        self.slots[id.0 as usize].orphan = true;
    }

    /// The page is gone.
    pub(in crate::kernel) fn remove(&mut self, id: PageId) {
        if !self.slots[id.0 as usize].orphan {
            self.forget(id);
        }
        self.free.push(id);
    }

    /// The page is no longer found.
    fn forget(&mut self, id: PageId) {
        let page = &self.slots[id.0 as usize];
        let (key, place) = ((page.file, page.index / SHELF), (page.index % SHELF) as usize);
        let Some(shelf) = self.found.get_mut(&key) else { return };
        shelf.0[place] = NOWHERE;
        if shelf.0 == Shelf::EMPTY.0 {
            self.found.remove(&key);
        }
    }

    /// Bytes that pages' causes take: a place in every page that there has been at once, whether it is dirty or not.
    pub(in crate::kernel) const fn causes_bytes(&self) -> usize {
        self.slots.len() * size_of::<Option<CauseSet>>()
    }

    /// Every page that a file knows, in no order.
    pub(in crate::kernel) fn iter(&self) -> impl Iterator<Item = (PageId, &Page)> {
        let ids = self.found.values().flat_map(|shelf| shelf.0);
        ids.filter(|&id| id != NOWHERE).map(|id| (PageId(id), &self.slots[id as usize]))
    }
}

impl std::ops::Index<PageId> for Pages {
    type Output = Page;
    fn index(&self, id: PageId) -> &Page {
        &self.slots[id.0 as usize]
    }
}

impl std::ops::IndexMut<PageId> for Pages {
    fn index_mut(&mut self, id: PageId) -> &mut Page {
        &mut self.slots[id.0 as usize]
    }
}
