//! The words of the file system: places on the device, names of files, and what an operation costs.

use std::rc::Rc;

use elevator::{SECTOR_BYTES, Sector, Sectors};

/// Bytes in a block, which is also a page: 4 KiB, as `mke2fs` and `mkfs.xfs` choose for every disk above 512 MB.
pub const BLOCK_BYTES: u64 = 4096;

/// Sectors in a block.
pub const BLOCK_SECTORS: u64 = BLOCK_BYTES / SECTOR_BYTES;

/// A block of the device: its byte offset on the device over 4096.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Block(pub u64);

impl Block {
    /// The block's first sector.
    #[must_use]
    pub const fn sector(self) -> Sector {
        Sector(self.0 * BLOCK_SECTORS)
    }

    /// The block `n` further on.
    #[must_use]
    pub const fn plus(self, n: u64) -> Self {
        Self(self.0 + n)
    }
}

/// Blocks that lie one after the other on the device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Extent {
    /// The first.
    pub start: Block,
    /// How many; at least 1.
    pub blocks: u32,
}

impl Extent {
    /// The block after the last.
    #[must_use]
    pub const fn end(self) -> Block {
        self.start.plus(self.blocks as u64)
    }

    /// Its length in sectors.
    #[must_use]
    pub const fn sectors(self) -> Sectors {
        Sectors(self.blocks * BLOCK_SECTORS as u32)
    }
}

/// Pages of a file that lie one after the other, in the file and on the device, or that are a hole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first page's index in the file.
    pub page: u64,
    /// How many; at least 1.
    pub pages: u32,
    /// Where the first lies; `None` in a hole (or where delayed allocation has not happened yet).
    pub block: Option<Block>,
}

/// A file or directory, by number. A number is used again after its file has been evicted, as on disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Inode(pub u64);

/// Who needs an inode.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewInode {
    /// The directory that it will be in.
    pub(super) parent: Inode,
    pub(super) directory: bool,
    /// A block in whose group a directory has to be, whatever the allocator thinks.
    pub(super) near: Option<u32>,
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Without slashes.
    pub name: Rc<str>,
    /// What it names.
    pub inode: Inode,
    /// Whether that is a directory.
    pub directory: bool,
}

/// What operations touch of the device's metadata: the caller clears it, operations add to it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Touched {
    /// Blocks that must be in the buffer cache, in the order in which they are asked for, each needed to know the next.
    /// The same block may come more than once.
    pub reads: Vec<Block>,
    /// Blocks that changed, each once. Those that were not there before (new directory blocks, indirect blocks) are not
    /// among the reads: they need not be read.
    pub dirties: Vec<Block>,
    /// Metadata blocks that were freed: what is dirty of them in the buffer cache is thrown away, and the journal forgets
    /// them. None of them is among `dirties`.
    pub forgets: Vec<Block>,
}

impl Touched {
    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.reads.clear();
        self.dirties.clear();
        self.forgets.clear();
    }
}
