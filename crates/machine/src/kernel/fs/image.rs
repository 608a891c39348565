//! The initial content of a file system, as if one process had written it in order before the run.

use super::types::{BLOCK_BYTES, Inode, Touched};
use super::{Errno, FileSystem};

/// Writes files and directories before the run.
#[derive(Debug)]
pub struct Image<'a> {
    fs: &'a mut FileSystem,
    /// Goal of the next directory or file.
    near: Option<u32>,
    touched: Touched,
}

/// Why the content cannot be written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ImageError {
    /// An operation failed.
    #[error("{path}: {errno}")]
    Refused {
        /// The file or directory.
        path: String,
        /// The error.
        errno: Errno,
    },
    /// A placement lies outside the file system.
    #[error("byte {offset} of the device is outside the file system, which spans bytes {from} to {to}")]
    Outside {
        /// The placement.
        offset: u64,
        /// First byte of the file system on the device.
        from: u64,
        /// End of the file system.
        to: u64,
    },
}

impl<'a> Image<'a> {
    /// A writer for this file system.
    pub fn new(fs: &'a mut FileSystem) -> Self {
        Self { fs, near: None, touched: Touched::default() }
    }

    /// Places the following directories and files from this byte of the device on: a directory's inode in its group, a file's
    /// blocks from there. `None`: the allocator places them. To lay out a tree as the allocator would, place only its root
    /// directory; the Orlov allocator keeps its contents near it.
    pub fn place(&mut self, offset: Option<u64>) -> Result<(), ImageError> {
        let (start, blocks) = self.fs.area();
        // Small files at different placements must not share a window.
        self.fs.allocator.give_packed_back();
        self.near = match offset {
            None => None,
            Some(offset) => {
                let at = (offset / BLOCK_BYTES).checked_sub(start.0).filter(|&at| at < blocks);
                let outside = ImageError::Outside {
                    offset,
                    from: start.0 * BLOCK_BYTES,
                    to: (start.0 + blocks) * BLOCK_BYTES,
                };
                Some(at.ok_or(outside)? as u32)
            }
        };
        Ok(())
    }

    /// Creates a directory.
    pub fn mkdir(&mut self, path: &str) -> Result<Inode, ImageError> {
        self.touched.clear();
        self.fs.make(path, true, self.near, &mut self.touched).map_err(|errno| refused(path, errno))
    }

    /// Creates a file and writes it sequentially.
    pub fn file(&mut self, path: &str, bytes: u64) -> Result<Inode, ImageError> {
        self.touched.clear();
        let inode = self.fs.create(path, &mut self.touched).map_err(|errno| refused(path, errno))?;
        self.write(inode, bytes).map_err(|errno| refused(path, errno))?;
        Ok(inode)
    }

    pub fn fs(&self) -> &FileSystem {
        self.fs
    }

    fn write(&mut self, inode: Inode, bytes: u64) -> Result<(), Errno> {
        self.fs.set_size(inode, bytes, &mut self.touched)?;
        if let Some(near) = self.near {
            self.fs.begin_at(inode, near);
        }
        let mut page = 0;
        while page < bytes.div_ceil(BLOCK_BYTES) {
            let pages = (bytes.div_ceil(BLOCK_BYTES) - page).min(STEP) as u32;
            let mut runs = Vec::new();
            self.touched.clear();
            self.fs.allocate(inode, page, pages, 0, &mut runs, &mut self.touched)?;
            page += u64::from(pages);
        }
        self.fs.closed(inode);
        Ok(())
    }
}

/// Pages allocated at a time: 32 MB.
const STEP: u64 = 8192;

fn refused(path: &str, errno: Errno) -> ImageError {
    ImageError::Refused { path: path.to_owned(), errno }
}
