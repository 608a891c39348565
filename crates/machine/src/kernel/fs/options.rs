//! How a file system was made and mounted.

use serde::Deserialize;

/// A file system's kind and choices.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Options {
    /// ext2, ext3 or ext4: block groups of 128 MB, each with its bitmaps and its inode table.
    Ext(Ext),
    /// Allocation groups, inodes made as they are needed, large extents: laid out like XFS, whose B+trees are reduced to
    /// a few blocks that bear their names.
    XfsLike(Xfs),
}

/// The choices of the ext family.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Ext {
    /// Bytes of an inode on disk: 128 until e2fsprogs 1.40, 256 since. A power of two, 128 to 4096.
    pub inode_bytes: u32,
    /// One inode for so many bytes of the device (`mke2fs -i`): 8192 in e2fsprogs of 2003, 16384 since 1.40.
    pub bytes_per_inode: u32,
    /// Where a new directory goes.
    pub directories: Directories,
    /// Whether directories of more than one block have hashed indexes (`dir_index`).
    pub htree: bool,
    /// How a file finds its blocks.
    pub map: Map,
    /// How files keep the blocks that follow theirs for themselves.
    pub ahead: Ahead,
    /// In how many places of its group a file may begin, chosen by the writer's process number, so that processes that
    /// write files of one directory at a time do not interleave: 16 since 2.5; 1 before, and where
    /// allocation is delayed. At least 1.
    pub colours: u32,
    /// Groups whose bitmaps and inode tables lie together (`flex_bg`): 1 is off, 16 is ext4's default. At least 1.
    pub flex_groups: u32,
    /// Blocks of an inode table that are read together with the one that is asked for, as far as they hold inodes
    /// (`inode_readahead_blks`): 0 is off, 32 is ext4's default since Linux 2.6.28. 0 or a power of two.
    pub inode_ahead_blocks: u32,
    /// Blocks of the journal; 0: none, as in ext2.
    pub journal_blocks: u32,
    /// Whether the journal lies in the middle of the file system (e2fsprogs since 1.41) or at its beginning.
    pub journal_in_middle: bool,
    /// What top-level directories of the Orlov allocator are drawn with.
    pub seed: u64,
}

/// Where the ext family puts directories.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Directories {
    /// Every directory goes to the emptiest group that has its share of free inodes (`oldalloc`, all there was before
    /// 2.5.46): siblings and children are spread over the whole disk.
    Old,
    /// Directories in the root are spread, others stay near their parents while its group is not overdrawn.
    Orlov,
}

/// How files of the ext family find their blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Map {
    /// 12 pointers in the inode, then blocks of 1024 pointers, one, two and three deep.
    Indirect,
    /// Extents: 4 in the inode, then blocks of 340.
    Extents,
}

/// How files keep the blocks that follow theirs for themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ahead {
    /// Not at all: ext3 before 2.6.10.
    Nothing,
    /// Eight blocks, taken together: ext2 before 2.6.20 or so.
    Preallocate,
    /// A window that grows from 8 to 1024 blocks while the file keeps using it: ext3 since 2.6.10.
    Reserve,
    /// Many blocks at once, up to 8 MB, and small files packed together: ext4's `mballoc`. Meant to be called at
    /// writeback (delayed allocation), when it is known how many pages there are.
    Multiblock,
}

impl Default for Ext {
    /// ext2 of 2.5: 128-byte inodes, Orlov, no index, indirect blocks, preallocation, no journal.
    fn default() -> Self {
        Self {
            inode_bytes: 128,
            bytes_per_inode: 8192,
            directories: Directories::Orlov,
            htree: false,
            map: Map::Indirect,
            ahead: Ahead::Preallocate,
            colours: 16,
            flex_groups: 1,
            inode_ahead_blocks: 0,
            journal_blocks: 0,
            journal_in_middle: false,
            seed: 1,
        }
    }
}

impl Ext {
    /// ext3 of 2.6.9: a journal of 32 MB at the beginning, nothing kept ahead.
    #[must_use]
    pub fn ext3() -> Self {
        Self { ahead: Ahead::Nothing, journal_blocks: 8192, ..Self::default() }
    }

    /// ext4 as its tools have made it since 2010: everything that it has.
    #[must_use]
    pub fn ext4() -> Self {
        Self {
            inode_bytes: 256,
            bytes_per_inode: 16384,
            htree: true,
            map: Map::Extents,
            ahead: Ahead::Multiblock,
            colours: 1,
            flex_groups: 16,
            inode_ahead_blocks: 32,
            journal_blocks: 32_768,
            journal_in_middle: true,
            ..Self::default()
        }
    }
}

/// The choices of the XFS-like layout.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Xfs {
    /// Bytes of an inode on disk: 256 until 2015, 512 since. A power of two, 256 to 2048.
    pub inode_bytes: u32,
    /// Allocation groups; `mkfs.xfs` makes 4 on a single disk since 2007, one per 4 GB (at least 8) before. At least 1.
    pub groups: u32,
    /// The fewest blocks that a file that grows keeps beyond its end: 16 (64 KB).
    pub ahead_blocks: u32,
    /// Whether it keeps as much again as it has (since 2.6.38), up to 8 GB, instead of `ahead_blocks` always.
    pub ahead_grows: bool,
    /// Blocks of the log, which lies in the middle group. At least 1.
    pub journal_blocks: u32,
}

impl Default for Xfs {
    /// As `mkfs.xfs` made it in 2010.
    fn default() -> Self {
        Self { inode_bytes: 256, groups: 4, ahead_blocks: 16, ahead_grows: false, journal_blocks: 10_240 }
    }
}

impl Options {
    /// ext2 of 2.5.
    #[must_use]
    pub fn ext2() -> Self {
        Self::Ext(Ext::default())
    }

    /// ext3 of 2.6.9; see [`Ext::ext3`].
    #[must_use]
    pub fn ext3() -> Self {
        Self::Ext(Ext::ext3())
    }

    /// ext4; see [`Ext::ext4`].
    #[must_use]
    pub fn ext4() -> Self {
        Self::Ext(Ext::ext4())
    }

    /// XFS-like.
    #[must_use]
    pub fn xfs_like() -> Self {
        Self::XfsLike(Xfs::default())
    }
}

/// Why a file system cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unmakeable {
    /// A number out of its range.
    #[error("{field} is {value}: {expected}")]
    Field {
        /// Which.
        field: &'static str,
        /// What it is.
        value: u64,
        /// What it may be.
        expected: &'static str,
    },
    /// It does not fit.
    #[error("{blocks} blocks of 4096 bytes are too few for this file system; it needs at least {needs}")]
    TooSmall {
        /// What there is.
        blocks: u64,
        /// What it takes.
        needs: u64,
    },
    /// 16 TB is the limit of 32-bit block numbers.
    #[error("{blocks} blocks of 4096 bytes are too many; the limit is 4294967295 (16 TB)")]
    TooLarge {
        /// What there is.
        blocks: u64,
    },
    /// The journal finds no place in one piece.
    #[error("no {blocks} free blocks in one piece for the journal; make it smaller")]
    NoRoomForJournal {
        /// Its length.
        blocks: u32,
    },
}
