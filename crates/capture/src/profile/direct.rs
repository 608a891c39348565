//! Reading a device past the page cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::error::Error;

/// What direct I/O wants memory to be aligned to: no logical block is larger.
const ALIGNMENT: usize = 4096;

/// A device, open for direct reads alone, and memory to read into.
pub(super) struct Direct {
    file: File,
    memory: Vec<u8>,
}

impl Direct {
    pub(super) fn open(node: &Path, largest: usize) -> Result<Self, Error> {
        let file = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(node);
        let file = file.map_err(|error| refused(node, error))?;
        Ok(Self { file, memory: vec![0; largest + ALIGNMENT] })
    }

    /// Its size in bytes.
    pub(super) fn bytes(&self) -> io::Result<u64> {
        rustix::fs::seek(&self.file, rustix::fs::SeekFrom::End(0)).map_err(io::Error::from)
    }

    /// Reads at most as much as the memory was asked for.
    pub(super) fn read(&mut self, offset: u64, bytes: usize) -> io::Result<()> {
        let skip = self.memory.as_ptr().align_offset(ALIGNMENT);
        let memory = self.memory.get_mut(skip..skip + bytes).ok_or(io::ErrorKind::InvalidInput)?;
        self.file.read_exact_at(memory, offset)
    }
}

fn refused(node: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::Permission {
            what: format!("reading {}", node.display()),
            needs: "root, or leave to read the device",
        },
        _ => Error::device(node, error.to_string()),
    }
}

/// Claims the device as long as the file lives: nobody mounts it meanwhile, nor measures it, too. An error if it, or a part of it, is
/// mounted or held by another.
pub(super) fn claim(node: &Path) -> Result<File, Error> {
    // Of a block device, O_EXCL is a claim.
    let claimed = OpenOptions::new().read(true).custom_flags(OFlags::EXCL.bits() as i32).open(node);
    match claimed {
        Ok(claim) => Ok(claim),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) => {
            Err(Error::device(
                node,
                "is mounted or held, and switching its scheduler would disturb its users; --no-switch measures the \
             present one alone, --even-if-used switches all the same",
            ))
        }
        Err(error) => Err(refused(node, error)),
    }
}
