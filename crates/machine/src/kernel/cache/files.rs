//! What the cache knows of a file beside its pages: which are dirty, since when, and what its durability hangs on.

use std::collections::{BTreeMap, BTreeSet};

use elevator::Time;
use hashbrown::HashMap;

use super::pages::FileId;
use crate::kernel::fs::Block;
use crate::kernel::journal::Tid;

/// A file with dirty pages, or with an open descriptor.
#[derive(Default)]
pub(in crate::kernel) struct CachedFile {
    /// Indexes of its dirty pages.
    pub(in crate::kernel) dirty: BTreeSet<u64>,
    /// How many of its pages are on their way to the device.
    pub(in crate::kernel) writing: u32,
    /// Where the last writeback stopped; the next goes on from there.
    pub(in crate::kernel) resume: u64,
    /// Its place among dirty files.
    pub(in crate::kernel) dirtied: Option<(Time, u64)>,
    /// The last transaction that changed its inode, and
    pub(in crate::kernel) tid: Option<Tid>,
    /// the last that changed what is needed to find its data.
    pub(in crate::kernel) data_tid: Option<Tid>,
    /// Without a journal: its metadata blocks that may be dirty.
    pub(in crate::kernel) metadata: BTreeSet<Block>,
    /// Its time stamp: when it was last written to, in units of the file system's.
    pub(in crate::kernel) stamp: Option<u64>,
    /// Open descriptors.
    pub(in crate::kernel) opened: u32,
    /// Nobody can find it any more: it goes when nobody has it open.
    pub(in crate::kernel) unlinked: bool,
    /// Somebody is changing its content (`i_sem`).
    pub(in crate::kernel) locked: bool,
    /// Some of its pages could not be written: the next `fsync` says so.
    pub(in crate::kernel) failed: bool,
    /// Pages promised room on the device (delayed allocation) that have no place yet.
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

    /// What the next file to become dirty will be later than.
    pub(in crate::kernel) const fn latest(&self) -> u64 {
        self.numbers
    }

    /// The longest dirty file, if it has been so since `older_than` and was not put back after `latest`.
    pub(in crate::kernel) fn first(&self, older_than: Time, latest: u64) -> Option<FileId> {
        self.order
            .iter()
            .take_while(|((since, _), _)| *since <= older_than)
            .find(|((_, number), _)| *number <= latest)
            .map(|(_, &file)| file)
    }

    /// Every dirty file, the longest dirty first.
    pub(in crate::kernel) fn iter(&self) -> impl Iterator<Item = FileId> {
        self.order.values().copied()
    }
}

/// All of them.
#[derive(Default)]
pub(in crate::kernel) struct CachedFiles {
    files: HashMap<FileId, CachedFile>,
    /// In which order they are written.
    pub(in crate::kernel) order: DirtyOrder,
}

impl CachedFiles {
    /// What is known of the file; made if there is nothing.
    pub(in crate::kernel) fn entry(&mut self, file: FileId) -> &mut CachedFile {
        self.files.entry(file).or_default()
    }

    /// What is known of the file.
    pub(in crate::kernel) fn get(&self, file: FileId) -> Option<&CachedFile> {
        self.files.get(&file)
    }

    /// A page became dirty.
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

    /// A page is no longer dirty.
    pub(in crate::kernel) fn clean(&mut self, file: FileId, index: u64) {
        let Some(cached) = self.files.get_mut(&file) else { return };
        cached.dirty.remove(&index);
        if cached.dirty.is_empty()
            && let Some(place) = cached.dirtied.take()
        {
            self.order.order.remove(&place);
        }
    }

    /// Others get their turn: the file counts as dirty since now, or keeps its age but comes after those of the same age.
    pub(in crate::kernel) fn put_back(&mut self, file: FileId, now: Option<Time>) {
        let Some(cached) = self.files.get_mut(&file) else { return };
        if let Some(place) = cached.dirtied.take() {
            self.order.order.remove(&place);
            cached.dirtied = Some(self.order.add(now.unwrap_or(place.0), file));
        }
    }

    /// Forgets a file of which nothing is left to know.
    pub(in crate::kernel) fn tidy(&mut self, file: FileId) {
        if self.files.get(&file).is_some_and(CachedFile::is_forgettable) {
            self.files.remove(&file);
        }
    }

    /// Forgets a file that is gone.
    pub(in crate::kernel) fn forget(&mut self, file: FileId) {
        debug_assert!(self.files.get(&file).is_none_or(|f| f.dirty.is_empty()), "{file:?} has dirty pages");
        self.files.remove(&file);
    }

    /// All that is known.
    pub(in crate::kernel) fn iter(&self) -> impl Iterator<Item = (FileId, &CachedFile)> {
        self.files.iter().map(|(&id, file)| (id, file))
    }
}
