//! Direct I/O, which needs aligned memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// An alignment that every device accepts.
const ALIGNMENT: usize = 4096;

/// Page-aligned memory.
pub(crate) struct Aligned {
    bytes: Vec<u8>,
    at: usize,
    len: usize,
}

impl Aligned {
    pub(crate) fn new(len: usize) -> Self {
        let bytes = vec![0x5a; len + ALIGNMENT];
        let at = bytes.as_ptr().align_offset(ALIGNMENT);
        Self { bytes, at, len }
    }
}

impl std::ops::Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.at..self.at + self.len]
    }
}

impl std::ops::DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.at..self.at + self.len]
    }
}

/// Opens for reading, or reading and writing, with or without the page cache.
pub(crate) fn open(path: &Path, write: bool, direct: bool) -> io::Result<File> {
    let flags = if direct { OFlags::DIRECT } else { OFlags::empty() };
    OpenOptions::new().read(true).write(write).custom_flags(flags.bits() as i32).open(path)
}
