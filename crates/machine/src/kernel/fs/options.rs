//! Options of `mkfs` and `mount`.

use serde::Deserialize;

/// Kind and options of a file system.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Options {
    /// ext2, ext3 or ext4: block groups of 128 MB with bitmaps and inode tables.
    Ext(Ext),
    /// Like XFS: allocation groups, dynamic inodes, extents. Each B+tree is reduced to a few blocks.
    XfsLike(Xfs),
}

/// Options of the ext family.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Ext {
    /// Bytes of an inode: 128 until e2fsprogs 1.40, 256 since. A power of two, 128 to 4096.
    pub inode_bytes: u32,
    /// Bytes of the device per inode (`mke2fs -i`): 8192 in e2fsprogs of 2003, 16384 since 1.40.
    pub bytes_per_inode: u32,
    /// Placement of new directories.
    pub directories: Directories,
    /// Hashed indexes for directories of more than one block (`dir_index`).
    pub htree: bool,
    /// Block mapping of files.
    pub map: Map,
    /// Preallocation.
    pub ahead: Ahead,
    /// Number of positions in a group at which files may begin, selected by the writer's process number so that parallel
    /// writers in a directory do not interleave: 16 since 2.5; 1 before, and with delayed allocation. At least 1.
    pub colours: u32,
    /// Groups whose bitmaps and inode tables lie together (`flex_bg`): 1 is off, 16 the default of ext4. At least 1.
    pub flex_groups: u32,
    /// Inode-table blocks read together, as far as they contain inodes (`inode_readahead_blks`): 0 is off, 32 the default of
    /// ext4 since Linux 2.6.28. 0 or a power of two.
    pub inode_ahead_blocks: u32,
    /// Journal blocks; 0 for none, as in ext2.
    pub journal_blocks: u32,
    /// Whether the journal lies in the middle of the file system (e2fsprogs since 1.41) or at its beginning.
    pub journal_in_middle: bool,
    /// Seed for the Orlov allocator's placement of top-level directories.
    pub seed: u64,
}

/// Placement of directories in the ext family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Directories {
    /// Each directory goes to the emptiest group with an average share of free inodes (`oldalloc`, the only policy before
    /// 2.5.46), which spreads trees over the disk.
    Old,
    /// Top-level directories are spread, others stay near their parent while its group has capacity.
    Orlov,
}

/// Block mapping in the ext family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Map {
    /// 12 pointers in the inode, then blocks of 1024 pointers, up to three levels deep.
    Indirect,
    /// Extents: 4 in the inode, then blocks of 340.
    Extents,
}

/// Preallocation in the ext family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ahead {
    /// None: ext3 before 2.6.10.
    Nothing,
    /// Eight blocks at a time: ext2 until about 2.6.20.
    Preallocate,
    /// A window that grows from 8 to 1024 blocks while the file uses it: ext3 since 2.6.10.
    Reserve,
    /// Large allocations up to 8 MB, and small files packed together: `mballoc` of ext4. For delayed allocation, when the
    /// number of pages is known.
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
    /// ext3 of 2.6.9: a journal of 32 MB at the beginning, no preallocation.
    pub fn ext3() -> Self {
        Self { ahead: Ahead::Nothing, journal_blocks: 8192, ..Self::default() }
    }

    /// ext4 with the default features since 2010.
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

/// Options of the XFS-like layout.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Xfs {
    /// Bytes of an inode: 256 until 2015, 512 since. A power of two, 256 to 2048.
    pub inode_bytes: u32,
    /// Allocation groups. `mkfs.xfs` makes 4 on a single disk since 2007; before, one per 4 GB, at least 8. At least 1.
    pub groups: u32,
    /// Smallest preallocation beyond the end of a growing file in blocks: 16 (64 KB).
    pub ahead_blocks: u32,
    /// Whether preallocation equals the file's size, up to 8 GB (since 2.6.38), or is always `ahead_blocks`.
    pub ahead_grows: bool,
    /// Log blocks, in the middle group. At least 1.
    pub journal_blocks: u32,
}

impl Default for Xfs {
    /// Defaults of `mkfs.xfs` in 2010.
    fn default() -> Self {
        Self { inode_bytes: 256, groups: 4, ahead_blocks: 16, ahead_grows: false, journal_blocks: 10_240 }
    }
}

impl Options {
    /// ext2 of 2.5.
    pub fn ext2() -> Self {
        Self::Ext(Ext::default())
    }

    /// ext3 of 2.6.9; see [`Ext::ext3`].
    pub fn ext3() -> Self {
        Self::Ext(Ext::ext3())
    }

    /// ext4; see [`Ext::ext4`].
    pub fn ext4() -> Self {
        Self::Ext(Ext::ext4())
    }

    /// XFS-like.
    pub fn xfs_like() -> Self {
        Self::XfsLike(Xfs::default())
    }
}

/// Why a file system cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MakeError {
    /// An option is out of range.
    #[error("{field} is {value}: {expected}")]
    Field {
        /// The option.
        field: &'static str,
        value: u64,
        /// The accepted values.
        expected: &'static str,
    },
    /// The area is too small.
    #[error("{blocks} blocks of 4096 bytes are too few for this file system; it needs at least {needs}")]
    TooSmall {
        blocks: u64,
        /// The blocks needed.
        needs: u64,
    },
    /// Block numbers have 32 bits, so the limit is 16 TB.
    #[error("{blocks} blocks of 4096 bytes are too many; the limit is 4294967295 (16 TB)")]
    TooLarge {
        /// Blocks of the area.
        blocks: u64,
    },
    /// There is no contiguous space for the journal.
    #[error("no {blocks} contiguous free blocks for the journal; make it smaller")]
    NoRoomForJournal {
        /// Its length.
        blocks: u32,
    },
}
