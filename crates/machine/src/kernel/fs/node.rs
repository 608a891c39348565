//! The in-memory state of a file or directory.

use super::allocator::Window;
use super::directory::Directory;
use super::extent_map::ExtentMap;
use super::tree::Tree;

/// The state of an inode.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Entries, for a directory.
    pub(super) directory: Option<Box<Directory>>,
    /// Length in bytes.
    pub(super) bytes: u64,
    pub(super) extents: ExtentMap,
    pub(super) tree: Tree,
    pub(super) window: Window,
    /// The page after the last allocated one, and the block after its block.
    pub(super) next: Option<(u32, u32)>,
    /// No writer has it open since it last grew, so later allocations (at writeback) need no preallocation.
    pub(super) closed: bool,
    /// When it was last read, in units of its time stamps.
    pub(super) accessed: Option<u64>,
    /// It has no name.
    pub(super) orphan: bool,
}
