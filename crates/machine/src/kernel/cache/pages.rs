//! Cached pages, found by file and index.

use std::ops::Range;

use elevator::CauseSet;
use hashbrown::HashMap;

use crate::kernel::fs::{Block, Inode};

/// The owner of pages: a file, the device (metadata), or the anonymous memory of a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(in crate::kernel) struct FileId(u64);

/// Bit that distinguishes anonymous memory from inodes.
const MEMORY: u64 = 1 << 63;

impl FileId {
    /// The device: its pages are the buffer cache, indexed by block.
    pub(in crate::kernel) const DEVICE: Self = Self(u64::MAX);

    /// The anonymous memory of a task.
    pub(in crate::kernel) const fn memory(task: u32) -> Self {
        Self(MEMORY | task as u64)
    }

    /// Whether it is anonymous memory.
    pub(in crate::kernel) fn is_memory(self) -> bool {
        self != Self::DEVICE && self.0 & MEMORY != 0
    }

    /// The task of anonymous memory.
    pub(in crate::kernel) const fn task(self) -> u32 {
        self.0 as u32
    }

    /// The inode; `None` for the device and anonymous memory.
    pub(in crate::kernel) fn inode(self) -> Option<Inode> {
        (self.0 & MEMORY == 0).then_some(Inode(self.0))
    }
}

impl From<Inode> for FileId {
    fn from(inode: Inode) -> Self {
        Self(inode.0)
    }
}

/// The slab index of a page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(in crate::kernel) struct PageId(pub(in crate::kernel) u32);

#[derive(Clone, Copy, Debug)]
pub(in crate::kernel) struct Page {
    pub(in crate::kernel) file: FileId,
    pub(in crate::kernel) index: u64,
    /// Its block on the device, once known.
    pub(in crate::kernel) block: Option<Block>,
    /// Causes of changes since its last writeback.
    pub(in crate::kernel) causes: Option<CauseSet>,
    /// It holds the file's content.
    pub(in crate::kernel) uptodate: bool,
    /// It is being read.
    pub(in crate::kernel) reading: bool,
    /// It is under writeback.
    pub(in crate::kernel) writing: bool,
    /// It changed since its last writeback began.
    pub(in crate::kernel) dirty: bool,
    /// Anonymous, without a copy in the swap area.
    pub(in crate::kernel) modified: bool,
    /// It belongs to a transaction that is not durable; only the journal may write it.
    pub(in crate::kernel) held: bool,
    /// It was used once since it came to the inactive list.
    pub(in crate::kernel) referenced: bool,
    /// It is on the active list.
    pub(in crate::kernel) active: bool,
    /// Read-ahead brought it and it has not been used.
    pub(in crate::kernel) ahead: bool,
    /// Its first use starts the next read-ahead window (the mark of on-demand read-ahead).
    pub(in crate::kernel) mark: bool,
    /// The file dropped it during I/O; it is freed when the I/O completes.
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

    /// Whether it can be dropped.
    pub(in crate::kernel) const fn is_idle(&self) -> bool {
        !self.reading && !self.writing && !self.dirty && !self.modified && !self.held
    }
}

/// Pages per shelf. Adjacent pages of a file are usually looked up one after the other.
const SHELF: u64 = 16;

/// The slab indexes of adjacent pages: one cache line of the processor.
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

/// All cached pages.
#[derive(Default)]
pub(in crate::kernel) struct Pages {
    slots: Vec<Page>,
    free: Vec<PageId>,
    found: HashMap<(FileId, u64), Shelf>,
}

impl Pages {
    /// Number of pages.
    pub(in crate::kernel) const fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(in crate::kernel) fn find(&self, file: FileId, index: u64) -> Option<PageId> {
        self.found.get(&(file, index / SHELF))?.get(index)
    }

    /// The pages of a file in a range, in order. The time is bounded by the number of cached pages, however long a sparse
    /// file is.
    pub(in crate::kernel) fn within(&self, file: FileId, indexes: Range<u64>) -> Vec<PageId> {
        if indexes.end.saturating_sub(indexes.start) <= self.len() as u64 {
            return indexes.filter_map(|index| self.find(file, index)).collect();
        }
        let theirs = self.iter().filter(|(_, page)| page.file == file && indexes.contains(&page.index));
        let mut pages: Vec<(u64, PageId)> = theirs.map(|(id, page)| (page.index, id)).collect();
        pages.sort_unstable();
        pages.into_iter().map(|(_, id)| id).collect()
    }

    /// Adds a page without content; it must not exist.
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

    /// Detaches a page under I/O from its file.
    pub(in crate::kernel) fn orphan(&mut self, id: PageId) {
        self.forget(id);
        self.slots[id.0 as usize].orphan = true;
    }

    /// Removes a page.
    pub(in crate::kernel) fn remove(&mut self, id: PageId) {
        if !self.slots[id.0 as usize].orphan {
            self.forget(id);
        }
        self.free.push(id);
    }

    /// Removes a page from the index.
    fn forget(&mut self, id: PageId) {
        let page = &self.slots[id.0 as usize];
        let (key, place) = ((page.file, page.index / SHELF), (page.index % SHELF) as usize);
        let Some(shelf) = self.found.get_mut(&key) else { return };
        shelf.0[place] = NOWHERE;
        if shelf.0 == Shelf::EMPTY.0 {
            self.found.remove(&key);
        }
    }

    /// Bytes of the pages' cause tags: one tag for each page that has existed at once, dirty or not.
    pub(in crate::kernel) const fn causes_bytes(&self) -> usize {
        self.slots.len() * size_of::<Option<CauseSet>>()
    }

    /// All pages that belong to a file, in no order.
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
