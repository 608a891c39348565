//! What is on the disk before the run.

use super::Path;

/// One step of making a disk's content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// What follows lies from this byte of the device on.
    Place(Option<u64>),
    /// Makes a directory.
    Directory(Path),
    /// Makes a file of so many bytes.
    File(Path, u64),
}

/// Directories and files as if one process had written them once, in this order, on an empty file system: the same
/// allocator lays them out, no time passes, and nothing of them is in memory afterwards.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Image {
    pub(super) steps: Vec<Step>,
}

impl Image {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Directories and files made from now on lie from this byte of the device on, as far as there is room: a directory's
    /// inode in its group, a file's blocks from there.
    pub fn place(&mut self, byte: u64) -> &mut Self {
        self.steps.push(Step::Place(Some(byte)));
        self
    }

    /// Directories and files made from now on lie where the allocator puts them, as at first.
    pub fn anywhere(&mut self) -> &mut Self {
        self.steps.push(Step::Place(None));
        self
    }

    /// Makes a directory; the one it is in has to be there.
    pub fn directory(&mut self, path: impl Into<Path>) -> &mut Self {
        self.steps.push(Step::Directory(path.into()));
        self
    }

    /// Makes a file of so many bytes; the directory it is in has to be there.
    pub fn file(&mut self, path: impl Into<Path>, bytes: u64) -> &mut Self {
        self.steps.push(Step::File(path.into(), bytes));
        self
    }
}
