//! Per-file state of the page cache: dirty pages, their age, and the transactions that `fsync` waits for.

use std::collections::{BTreeMap, BTreeSet};

use elevator::Time;
use hashbrown::HashMap;

use super::pages::FileId;
use crate::kernel::fs::Block;
use crate::kernel::journal::Tid;

/// A file with dirty pages, open descriptors or other state.
#[derive(Default)]
pub(in crate::kernel) struct CachedFile {
    /// Indexes of its dirty pages.
    pub(in crate::kernel) dirty: BTreeSet<u64>,
    /// Number of its pages under writeback.
    pub(in crate::kernel) writing: u32,
    /// Index at which the next writeback continues.
    pub(in crate::kernel) resume: u64,
    /// Its key in the order of dirty files.
    pub(in crate::kernel) dirtied: Option<(Time, u64)>,
    /// The last transaction that changed its inode.
    pub(in crate::kernel) tid: Option<Tid>,
    /// The last transaction that changed the location of its data.
    pub(in crate::kernel) data_tid: Option<Tid>,
    /// Without a journal: its metadata blocks that may be dirty.
    pub(in crate::kernel) metadata: BTreeSet<Block>,
    /// Its modification time in units of the file system.
    pub(in crate::kernel) stamp: Option<u64>,
    /// Open descriptors.
    pub(in crate::kernel) opened: u32,
    /// It has no name and is freed at its last close.
    pub(in crate::kernel) unlinked: bool,
    /// A task changes its content (`i_sem`).
    pub(in crate::kernel) locked: bool,
    /// Writeback of a page failed; the next `fsync` reports it.
    pub(in crate::kernel) failed: bool,
    /// Pages with a reserved but no allocated block (delayed allocation).
    pub(in crate::kernel) reserved: BTreeSet<u64>,
}

impl CachedFile {
    fn is_forgettable(&self) -> bool {
        self.dirty.is_empty()
            && self.writing == 0
            && self.opened == 0
            && !self.unlinked
            && !self.locked
            && !self.failed
            && self.tid.is_none()
            && self.metadata.is_empty()
            && self.reserved.is_empty()
    }
}

/// Dirty files, the longest dirty first.
#[derive(Default)]
pub(in crate::kernel) struct DirtyOrder {
    order: BTreeMap<(Time, u64), FileId>,
    numbers: u64,
}

impl DirtyOrder {
    fn add(&mut self, now: Time, file: FileId) -> (Time, u64) {
        self.numbers += 1;
        self.order.insert((now, self.numbers), file);
        (now, self.numbers)
    }

    /// The number that the next file to become dirty will exceed.
    pub(in crate::kernel) const fn latest(&self) -> u64 {
        self.numbers
    }

    /// The longest dirty file, if it has been dirty since `older_than` and was not put back after `latest`.
    pub(in crate::kernel) fn first(&self, older_than: Time, latest: u64) -> Option<FileId> {
        self.order
            .iter()
            .take_while(|((since, _), _)| *since <= older_than)
            .find(|((_, number), _)| *number <= latest)
            .map(|(_, &file)| file)
    }

    /// All dirty files, the longest dirty first.
    pub(in crate::kernel) fn iter(&self) -> impl Iterator<Item = FileId> {
        self.order.values().copied()
    }
}

/// Per-file state of all files.
#[derive(Default)]
pub(in crate::kernel) struct CachedFiles {
    files: HashMap<FileId, CachedFile>,
    /// Order of writeback.
    pub(in crate::kernel) order: DirtyOrder,
}

impl CachedFiles {
    /// The state of a file, created if absent.
    pub(in crate::kernel) fn entry(&mut self, file: FileId) -> &mut CachedFile {
        self.files.entry(file).or_default()
    }

    /// The state of a file.
    pub(in crate::kernel) fn get(&self, file: FileId) -> Option<&CachedFile> {
        self.files.get(&file)
    }

    /// Marks a page dirty.
    pub(in crate::kernel) fn dirty(&mut self, now: Time, file: FileId, index: u64) {
        let Self { files, order } = self;
        let cached = files.entry(file).or_default();
        cached.dirty.insert(index);
        if cached.dirtied.is_none() {
            cached.dirtied = Some(order.add(now, file));
        }
    }

    /// The first dirty page from an index on.
    pub(in crate::kernel) fn next_dirty(&self, file: FileId, from: u64) -> Option<u64> {
        self.files.get(&file)?.dirty.range(from..).next().copied()
    }

    /// Marks a page clean.
    pub(in crate::kernel) fn clean(&mut self, file: FileId, index: u64) {
        let Some(cached) = self.files.get_mut(&file) else { return };
        cached.dirty.remove(&index);
        if cached.dirty.is_empty()
            && let Some(place) = cached.dirtied.take()
        {
            self.order.order.remove(&place);
        }
    }

    /// Moves a file behind the others: it counts as dirty since `now`, or keeps its age and follows files of the same age.
    pub(in crate::kernel) fn put_back(&mut self, file: FileId, now: Option<Time>) {
        let Some(cached) = self.files.get_mut(&file) else { return };
        if let Some(place) = cached.dirtied.take() {
            self.order.order.remove(&place);
            cached.dirtied = Some(self.order.add(now.unwrap_or(place.0), file));
        }
    }

    /// Removes the state of a file if it is the default state.
    pub(in crate::kernel) fn tidy(&mut self, file: FileId) {
        if self.files.get(&file).is_some_and(CachedFile::is_forgettable) {
            self.files.remove(&file);
        }
    }

    /// Removes the state of a file that was freed.
    pub(in crate::kernel) fn forget(&mut self, file: FileId) {
        debug_assert!(self.files.get(&file).is_none_or(|f| f.dirty.is_empty()), "{file:?} has dirty pages");
        self.files.remove(&file);
    }

    /// All states.
    pub(in crate::kernel) fn iter(&self) -> impl Iterator<Item = (FileId, &CachedFile)> {
        self.files.iter().map(|(&id, file)| (id, file))
    }
}
