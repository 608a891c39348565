//! Reads of a device past the page cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::error::Error;
use crate::topology::{Layer, Scheduling, Stack};

/// The kernel's error for a claimed device.
const BUSY: i32 = rustix::io::Errno::BUSY.raw_os_error();

/// The alignment for direct I/O: no logical block is larger.
const ALIGNMENT: usize = 4096;

/// A device open for direct reads, and a buffer.
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

    /// Whether the file has data there; a block device always has.
    pub(super) fn has_data(&self, offset: u64) -> io::Result<bool> {
        match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(offset)) {
            Ok(data) => Ok(data == offset),
            // Nothing but a hole from there on.
            Err(rustix::io::Errno::NXIO) => Ok(false),
            // The file system, or a device, has no such search.
            Err(rustix::io::Errno::INVAL) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads at most the length of the buffer.
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
            needs: match rustix::process::geteuid().is_root() {
                true => {
                    "access to the device, which a control group or a security module denies: run it outside the container"
                }
                false => "root, or access to the device",
            },
        },
        _ => Error::device(node, error.to_string()),
    }
}

/// Claims a device whose queues are to be switched until the file is closed: it cannot be mounted or measured meanwhile. `advice` ends the
/// error: why that matters, and what to do.
///
/// # Errors
/// The device, a part of it, or another device on the same disks is mounted or held.
pub fn claim(scheduling: &Scheduling, advice: &str) -> Result<File, Error> {
    let layer = &scheduling.above;
    let node = layer.node();
    match open_alone(&node) {
        Ok(claim) if !has_loop_device(layer) && !is_used_beside(scheduling) => Ok(claim),
        Err(error) if error.raw_os_error() != Some(BUSY) => Err(refused(&node, error)),
        _ => Err(Error::device(node, format!("is mounted or held, and {advice}"))),
    }
}

/// For a block device O_EXCL is a claim.
fn open_alone(node: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::EXCL.bits() as i32).open(node)
}

/// Whether another partition or array on the disks of an array is in use. For a disk that is measured itself its claim decides.
fn is_used_beside(scheduling: &Scheduling) -> bool {
    let Scheduling { above, queues } = scheduling;
    let Ok(array) = Stack::of(&above.node()) else { return false };
    let entries = std::fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|entry| {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        let Ok(stack) = Stack::named(&name) else { return false };
        let layer = &stack.layers()[0];
        let is_beside = queues.iter().any(|queue| stack.contains(queue.number))
            && !stack.contains(above.number)
            && !array.contains(layer.number);
        // A device below another one is held by that one, which is checked itself.
        let is_last =
            || std::fs::read_dir(entry.join("holders")).map_or(true, |mut holders| holders.next().is_none());
        is_beside
            && is_last()
            && open_alone(&layer.node()).is_err_and(|error| error.raw_os_error() == Some(BUSY))
    })
}

/// Whether a loop device uses it: unlike device mapper and RAID, loop devices claim nothing.
fn has_loop_device(layer: &Layer) -> bool {
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let attached = devices.filter(|device| device.path().join("loop").exists());
    let names = attached.map(|device| device.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| *name != layer.name)
        .any(|name| Stack::named(&name).is_ok_and(|stack| stack.contains(layer.number)))
}
