//! Types of the file system's interface.

use std::rc::Rc;

use elevator::{SECTOR_BYTES, Sector, Sectors};

/// Bytes of a block and of a page: 4 KiB, the choice of `mke2fs` and `mkfs.xfs` for disks above 512 MB.
pub const BLOCK_BYTES: u64 = 4096;

/// Sectors of a block.
pub const BLOCK_SECTORS: u64 = BLOCK_BYTES / SECTOR_BYTES;

/// A block of the device: byte offset / 4096.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Block(pub u64);

impl Block {
    /// First sector.
    pub const fn sector(self) -> Sector {
        Sector(self.0 * BLOCK_SECTORS)
    }

    /// The block `n` blocks later.
    #[must_use]
    pub const fn plus(self, n: u64) -> Self {
        Self(self.0 + n)
    }
}

/// Adjacent blocks of the device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Extent {
    /// First block.
    pub start: Block,
    /// Number of blocks; at least 1.
    pub blocks: u32,
}

impl Extent {
    /// The block after the last.
    pub const fn end(self) -> Block {
        self.start.plus(self.blocks as u64)
    }

    /// Length in sectors.
    pub const fn sectors(self) -> Sectors {
        Sectors(self.blocks * BLOCK_SECTORS as u32)
    }
}

/// Adjacent pages of a file in adjacent blocks, or a hole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// First page.
    pub page: u64,
    /// Number of pages; at least 1.
    pub pages: u32,
    /// First block; `None` for a hole or before delayed allocation.
    pub block: Option<Block>,
}

/// An inode number. Numbers are reused after eviction, as on disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Inode(pub u64);

/// A request for an inode.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewInode {
    /// The directory of its name.
    pub(super) parent: Inode,
    pub(super) directory: bool,
    /// A block whose group the directory must be in, overriding the allocator.
    pub(super) near: Option<u32>,
}

/// A directory entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The name, without slashes.
    pub name: Rc<str>,
    pub inode: Inode,
    /// Whether it is a directory.
    pub directory: bool,
}

/// Metadata accesses of operations. Operations append; the caller clears.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Touched {
    /// Blocks to read into the buffer cache, in order; each is needed to find the next. Duplicates are possible.
    pub reads: Vec<Block>,
    /// Changed blocks, each once. New blocks (directory and indirect blocks) are not among the reads.
    pub dirties: Vec<Block>,
    /// Freed metadata blocks: their buffers are dropped and the journal forgets them. None is in `dirties`.
    pub forgets: Vec<Block>,
}

impl Touched {
    /// Empties the lists and keeps their memory.
    pub fn clear(&mut self) {
        self.reads.clear();
        self.dirties.clear();
        self.forgets.clear();
    }
}
