//! The content of the disk before a run.

use super::Path;

/// A step of building the content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Sets the byte of the device from which on the following items lie.
    Place(Option<u64>),
    /// Creates a directory.
    Directory(Path),
    /// Creates a file of this length.
    File(Path, u64),
}

/// Directories and files, as if one process had written them in this order to an empty file system. The machine's allocator
/// lays them out; no time passes, and the page cache stays empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Image {
    pub(super) steps: Vec<Step>,
}

impl Image {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Places the following directories and files from this byte of the device on, as far as there is room: a directory's
    /// inode in its group, a file's blocks from there.
    pub fn place(&mut self, byte: u64) -> &mut Self {
        self.steps.push(Step::Place(Some(byte)));
        self
    }

    /// Lets the allocator place the following directories and files.
    pub fn anywhere(&mut self) -> &mut Self {
        self.steps.push(Step::Place(None));
        self
    }

    /// Creates a directory; its parent must exist.
    pub fn directory(&mut self, path: impl Into<Path>) -> &mut Self {
        self.steps.push(Step::Directory(path.into()));
        self
    }

    /// Creates a file of this length; its directory must exist.
    pub fn file(&mut self, path: impl Into<Path>, bytes: u64) -> &mut Self {
        self.steps.push(Step::File(path.into(), bytes));
        self
    }
}
