//! Directories: who is in them, in which of their blocks, and which blocks a search goes through.
//!
//! Names are found by a hash in memory; what it would have cost on disk is told step by step, in pages of the directory,
//! which is a file like any other. Sources: `fs/ext2/dir.c`, `fs/ext3/namei.c` of 2.6, XFS's directory format, in our own
//! words. Where it differs: the room in a block is counted as if its free bytes lay together, and blocks are never given
//! back before the directory is (as in ext; XFS would).

mod htree;
mod linear;
mod xfs;

use std::hash::Hasher;
use std::rc::Rc;

use fnv::FnvHasher;
use hashbrown::HashMap;

use self::htree::Htree;
use super::words::{BLOCK_BYTES, Entry, Inode};

/// Bytes in a directory block.
const CAPACITY: u32 = BLOCK_BYTES as u32;

/// What a search or a change does to a directory's pages, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Read(u32),
    Change(u32),
}

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) inode: Inode,
    pub(super) directory: bool,
    /// The page that holds the entry.
    page: u32,
}

/// One page of entries.
#[derive(Clone, Debug, Default)]
struct Page {
    used: u32,
    names: Vec<Rc<str>>,
}

/// How entries are found on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    /// From block to block.
    Linear,
    /// A hashed index once there is more than one block.
    Htree,
    /// In the inode up to so many bytes, then data blocks beside hashed blocks.
    XfsLike {
        /// Bytes that an inode can hold.
        inline: u32,
    },
}

/// A directory.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    names: HashMap<Rc<str>, Named>,
    /// Pages of entries; under an htree also its index pages, without entries.
    pages: Vec<Page>,
    format: Format,
    htree: Htree,
    /// Blocks of hashes beside the pages (XFS-like).
    hashed: u32,
    /// The page where a name was found last: a linear search begins there (`i_dir_start_lookup`).
    found_in: u32,
    /// Bytes of all entries.
    bytes: u32,
}

impl Directory {
    pub(super) fn new(format: Format) -> Self {
        let mut new = Self {
            names: HashMap::new(),
            pages: Vec::new(),
            format,
            htree: Htree::default(),
            hashed: 0,
            found_in: 0,
            bytes: 0,
        };
        if !matches!(format, Format::XfsLike { .. }) {
            // "." and "..".
            new.pages.push(Page { used: 24, names: Vec::new() });
        }
        new
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = (&Rc<str>, &Named)> {
        self.names.iter()
    }

    /// Whether every name is in the page that it is said to be in, and pages are as full as their names make them.
    pub(super) fn agrees(&self) -> bool {
        let in_pages: usize = self.pages.iter().map(|page| page.names.len()).sum();
        let placed = |(name, named): (&Rc<str>, &Named)| match self.pages.get(named.page as usize) {
            Some(page) => page.names.contains(name),
            None => self.pages.is_empty(),
        };
        let bytes: u32 = self.names.keys().map(|name| self.entry_bytes(name)).sum();
        let full = |page: &Page| {
            let names: u32 = page.names.iter().map(|name| self.entry_bytes(name)).sum();
            page.used >= names && page.used <= CAPACITY
        };
        let all = self.pages.is_empty() || in_pages == self.names.len();
        all && bytes == self.bytes && self.pages.iter().all(full) && self.names().all(placed)
    }

    /// Every page that the directory has, in the order in which it got them.
    pub(super) fn allocated(&self) -> Vec<u32> {
        let hashed = xfs::hashed_pages(self);
        (0..self.pages.len() as u32).chain(hashed).collect()
    }

    /// Its length in pages.
    pub(super) fn length(&self) -> u32 {
        self.pages.len() as u32
    }

    /// What a name stands for.
    pub(super) fn find(&self, name: &str) -> Option<Named> {
        self.names.get(name).copied()
    }

    /// Looks a name up, whether or not it is there.
    pub(super) fn look(&mut self, name: &str, steps: &mut Vec<Step>) -> Option<Named> {
        let found = self.find(name);
        match self.format {
            Format::Linear => linear::look(self, found, steps),
            Format::Htree => htree::look(self, name, found, steps),
            Format::XfsLike { .. } => xfs::look(self, name, found, steps),
        }
        if let Some(found) = found {
            self.found_in = found.page;
        }
        found
    }

    /// The pages that it must get before this name can be added.
    pub(super) fn growth(&self, name: &str) -> Vec<u32> {
        match self.format {
            Format::Linear => linear::growth(self, name),
            Format::Htree => htree::growth(self, name),
            Format::XfsLike { .. } => xfs::growth(self, name),
        }
    }

    /// Adds a name that is not there.
    pub(super) fn add(&mut self, name: &str, inode: Inode, directory: bool, steps: &mut Vec<Step>) {
        let page = match self.format {
            Format::Linear => linear::make_room(self, name, steps),
            Format::Htree => htree::make_room(self, name, steps),
            Format::XfsLike { .. } => xfs::make_room(self, name, steps),
        };
        let bytes = self.entry_bytes(name);
        self.bytes += bytes;
        let name: Rc<str> = name.into();
        if let Some(page) = self.pages.get_mut(page as usize) {
            page.used += bytes;
            page.names.push(Rc::clone(&name));
        }
        self.names.insert(name, Named { inode, directory, page });
    }

    /// Removes a name that is there; its page has been read by the search.
    pub(super) fn remove(&mut self, name: &str, steps: &mut Vec<Step>) {
        let Some(named) = self.names.remove(name) else { return };
        let bytes = self.entry_bytes(name);
        self.bytes -= bytes;
        let Some(page) = self.pages.get_mut(named.page as usize) else { return };
        page.used -= bytes;
        if let Some(i) = page.names.iter().position(|other| **other == *name) {
            page.names.remove(i);
        }
        steps.push(Step::Change(named.page));
        if matches!(self.format, Format::XfsLike { .. }) {
            xfs::unindex(self, name, steps);
        }
    }

    /// Every entry, in the order in which a reader sees them; every page that it goes through.
    pub(super) fn list(&self, steps: &mut Vec<Step>) -> Vec<Entry> {
        let entry = |name: &Rc<str>| {
            let named = self.names.get(name)?;
            Some(Entry { name: Rc::clone(name), inode: named.inode, directory: named.directory })
        };
        if self.pages.is_empty() {
            // In the inode, in the order of their coming: inode numbers rise with it often enough.
            let mut all: Vec<Entry> = self.names.keys().filter_map(entry).collect();
            all.sort_by(|a, b| (a.inode, &a.name).cmp(&(b.inode, &b.name)));
            return all;
        }
        if self.format == Format::Htree {
            return htree::list(self, steps).iter().filter_map(entry).collect();
        }
        steps.extend((0..self.length()).map(Step::Read));
        self.pages.iter().flat_map(|page| &page.names).filter_map(entry).collect()
    }

    /// Bytes of an entry on disk.
    fn entry_bytes(&self, name: &str) -> u32 {
        let len = name.len() as u32;
        match self.format {
            Format::Linear | Format::Htree => (8 + len).next_multiple_of(4),
            Format::XfsLike { .. } => (11 + len).next_multiple_of(8),
        }
    }

    fn has_room(&self, page: u32, bytes: u32) -> bool {
        self.pages[page as usize].used + bytes <= CAPACITY
    }
}

/// A name's hash, the same on every machine (FNV-1a, mixed).
fn hash(name: &str) -> u32 {
    let mut fnv = FnvHasher::default();
    fnv.write(name.as_bytes());
    (fnv.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

#[cfg(test)]
mod tests;
