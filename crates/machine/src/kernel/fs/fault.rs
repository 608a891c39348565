//! Faults that a check of the file system finds.

use super::types::Inode;

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// A block has two owners, or an owner but is not marked used.
    #[error("block {block} of the file system is owned twice, or not marked used")]
    Owned {
        /// Block number in the file system.
        block: u32,
    },
    /// Blocks are marked used that have no owner.
    #[error("{blocks} blocks are marked used that have no owner")]
    Lost {
        /// Number of blocks.
        blocks: u64,
    },
    /// A bit of an inode bitmap is wrong.
    #[error("inode {} is {} in the bitmap", inode.0, if *used { "used" } else { "free" })]
    InodeBitmap {
        inode: Inode,
        /// The value in the bitmap.
        used: bool,
    },
    /// The counters of a group are wrong.
    #[error("the counts of group {group} are wrong")]
    Counts { group: u32 },
    /// The counters of the file system are wrong.
    #[error("the totals are wrong")]
    Totals,
    /// A name refers to no inode, or to one that has another name.
    #[error("the name {name} in directory {} refers to no inode or to one with another name", directory.0)]
    Name { directory: Inode, name: String },
    /// A directory's pages do not contain its names.
    #[error("the pages of directory {} do not contain its names", directory.0)]
    Directory { directory: Inode },
    /// Named files that no path reaches, or the reverse.
    #[error("{files} files have no path to them")]
    Unreachable {
        /// Number of files.
        files: u64,
    },
    /// A file lacks a mapping block or has an unneeded one.
    #[error("inode {} has mapping blocks that it does not need, or lacks some", inode.0)]
    Mapping { inode: Inode },
}
