//! A file or directory in memory.

use super::directory::Directory;
use super::ground::Window;
use super::pieces::Pieces;
use super::tree::Tree;

/// What an inode knows.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Its entries, if it is a directory.
    pub(super) directory: Option<Box<Directory>>,
    /// Its length in bytes.
    pub(super) bytes: u64,
    pub(super) pieces: Pieces,
    pub(super) tree: Tree,
    pub(super) window: Window,
    /// The page after the one that was given a block last, and the block after that one's.
    pub(super) next: Option<(u32, u32)>,
    /// Nobody writes it, since it grew last: blocks that it is still given (at writeback) are all that it needs.
    pub(super) closed: bool,
    /// Whether it has lost its name.
    pub(super) orphan: bool,
}
