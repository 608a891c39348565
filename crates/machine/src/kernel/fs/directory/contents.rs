//! The entries of a directory, their pages, and the pages' free space.

use std::hash::Hasher;
use std::rc::Rc;

use fnv::FnvHasher;
use hashbrown::HashMap;

use crate::kernel::fs::types::{BLOCK_BYTES, Inode};

/// Bytes in a directory block.
pub(in crate::kernel::fs) const CAPACITY: u32 = BLOCK_BYTES as u32;

/// An access to a page of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kernel::fs) enum PageAccess {
    Read(u32),
    Change(u32),
}

/// A directory entry in memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernel::fs) struct Named {
    pub(in crate::kernel::fs) inode: Inode,
    pub(in crate::kernel::fs) directory: bool,
    /// The page of the entry.
    pub(in crate::kernel::fs) page: u32,
}

/// A page of entries.
#[derive(Clone, Debug, Default)]
pub(in crate::kernel::fs) struct Page {
    pub(in crate::kernel::fs) used: u32,
    pub(in crate::kernel::fs) names: Vec<Rc<str>>,
}

/// Formats of directories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kernel::fs) enum Format {
    /// ext2: linear search.
    Linear,
    /// ext3: a hashed index for more than one block.
    Htree,
    /// XFS: in the inode up to a size, then data blocks and hash blocks.
    XfsLike {
        /// Directory bytes in an inode.
        inline: u32,
    },
}

#[derive(Clone, Debug)]
pub(in crate::kernel::fs) struct Directory {
    pub(in crate::kernel::fs) names: HashMap<Rc<str>, Named>,
    /// Pages of entries; with an htree also index pages, which have none.
    pub(in crate::kernel::fs) pages: Vec<Page>,
    pub(in crate::kernel::fs) format: Format,
    pub(in crate::kernel::fs) htree: HashIndex,
    /// Hash blocks (XFS-like).
    pub(in crate::kernel::fs) hashed: u32,
    /// The page where the last name was found; a linear search begins there (`i_dir_start_lookup`).
    pub(in crate::kernel::fs) found_in: u32,
    /// Bytes of all entries.
    pub(in crate::kernel::fs) bytes: u32,
}

impl Directory {
    pub(in crate::kernel::fs) fn new(format: Format) -> Self {
        let mut new = Self {
            names: HashMap::new(),
            pages: Vec::new(),
            format,
            htree: HashIndex::default(),
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

    pub(in crate::kernel::fs) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(in crate::kernel::fs) fn names(&self) -> impl Iterator<Item = (&Rc<str>, &Named)> {
        self.names.iter()
    }

    /// Whether every name is in its page, and the pages' sizes are right.
    pub(in crate::kernel::fs) fn agrees(&self) -> bool {
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

    /// Length in pages.
    pub(in crate::kernel::fs) fn length(&self) -> u32 {
        self.pages.len() as u32
    }

    /// The entry of a name.
    pub(in crate::kernel::fs) fn find(&self, name: &str) -> Option<Named> {
        self.names.get(name).copied()
    }

    /// Bytes of an entry on disk.
    pub(in crate::kernel::fs) fn entry_bytes(&self, name: &str) -> u32 {
        let len = name.len() as u32;
        match self.format {
            Format::Linear | Format::Htree => (8 + len).next_multiple_of(4),
            Format::XfsLike { .. } => (11 + len).next_multiple_of(8),
        }
    }

    pub(in crate::kernel::fs) fn has_room(&self, page: u32, bytes: u32) -> bool {
        self.pages[page as usize].used + bytes <= CAPACITY
    }
}

/// The hash of a name, equal on every machine (FNV-1a, mixed).
pub(in crate::kernel::fs) fn hash(name: &str) -> u32 {
    let mut fnv = FnvHasher::default();
    fnv.write(name.as_bytes());
    (fnv.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// Pointers in an index page.
pub(in crate::kernel::fs) const POINTERS: usize = 508;

/// The htree index.
#[derive(Clone, Debug, Default)]
pub(in crate::kernel::fs) struct HashIndex {
    /// Leaves in the order of their first hashes.
    pub(in crate::kernel::fs) leaves: Vec<Leaf>,
    /// Index pages below the root, if it has more leaves than pointers.
    pub(in crate::kernel::fs) nodes: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::kernel::fs) struct Leaf {
    pub(in crate::kernel::fs) from: u32,
    pub(in crate::kernel::fs) page: u32,
}

impl HashIndex {
    pub(in crate::kernel::fs) fn is_on(&self) -> bool {
        !self.leaves.is_empty()
    }

    pub(in crate::kernel::fs) fn leaf_of(&self, hash: u32) -> usize {
        self.leaves.partition_point(|leaf| leaf.from <= hash).saturating_sub(1)
    }

    pub(in crate::kernel::fs) fn read_index(&self, leaf: usize, accesses: &mut Vec<PageAccess>) {
        accesses.push(PageAccess::Read(0));
        if let Some(&node) = self.nodes.get(leaf / POINTERS) {
            accesses.push(PageAccess::Read(node));
        }
    }

    /// Index pages needed below the root.
    pub(in crate::kernel::fs) fn nodes_for(leaves: usize) -> usize {
        if leaves <= POINTERS { 0 } else { leaves.div_ceil(POINTERS) }
    }
}
