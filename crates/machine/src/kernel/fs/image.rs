//! What a file system holds before anything runs: as if written once, in this order, by one process, at no cost.

use super::words::{BLOCK_BYTES, Inode, Touched};
use super::{Errno, FileSystem};

/// Writes files and directories before the run.
#[derive(Debug)]
pub struct Image<'a> {
    fs: &'a mut FileSystem,
    /// Where the next directory or file in the root goes.
    near: Option<u32>,
    touched: Touched,
}

/// What could not be written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ImageError {
    /// The file system refused.
    #[error("{path}: {errno}")]
    Refused {
        /// What was being made.
        path: String,
        /// Why not.
        errno: Errno,
    },
    /// The place is not in the file system.
    #[error("byte {offset} of the device is outside the file system, which goes from {from} to {to}")]
    Outside {
        /// The place asked for.
        offset: u64,
        /// The file system's first byte on the device.
        from: u64,
        /// The byte after its last.
        to: u64,
    },
}

impl<'a> Image<'a> {
    /// Writes into this file system.
    pub fn new(fs: &'a mut FileSystem) -> Self {
        Self { fs, near: None, touched: Touched::default() }
    }

    /// Directories and files made from now on lie from this byte of the device on: a directory's inode in its group, a
    /// file's blocks from there. `None`: wherever the allocator puts them, as at first. For a tree that lies there as the
    /// allocator would lay it out, place its uppermost directory and nothing else: Orlov's keeps what is in it near it.
    ///
    /// # Errors
    /// [`ImageError::Outside`].
    pub fn place(&mut self, offset: Option<u64>) -> Result<(), ImageError> {
        let (start, blocks) = self.fs.area();
        // Small files of another place do not share their window with those of this one.
        self.fs.ground.give_packed_back();
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

    /// Makes a directory.
    ///
    /// # Errors
    /// [`ImageError::Refused`].
    pub fn mkdir(&mut self, path: &str) -> Result<Inode, ImageError> {
        self.touched.clear();
        self.fs.make(path, true, self.near, &mut self.touched).map_err(|errno| refused(path, errno))
    }

    /// Makes a file and writes so many bytes to it, from its beginning to its end.
    ///
    /// # Errors
    /// [`ImageError::Refused`].
    pub fn file(&mut self, path: &str, bytes: u64) -> Result<Inode, ImageError> {
        self.touched.clear();
        let inode = self.fs.create(path, &mut self.touched).map_err(|errno| refused(path, errno))?;
        self.write(inode, bytes).map_err(|errno| refused(path, errno))?;
        Ok(inode)
    }

    /// The file system that it writes into.
    #[must_use]
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

/// Pages that are given blocks at a time: 32 MB.
const STEP: u64 = 8192;

fn refused(path: &str, errno: Errno) -> ImageError {
    ImageError::Refused { path: path.to_owned(), errno }
}
