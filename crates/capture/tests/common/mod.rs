//! A loop device on a file in memory, for tests on the running kernel.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use io_uring::{IoUring, opcode, types};

/// `O_DIRECT` of Linux.
const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;

/// A loop device, detached when this is dropped.
pub struct Loop {
    pub path: PathBuf,
    /// The file that was created for it.
    file: Option<PathBuf>,
}

impl Loop {
    /// A device of `bytes`; `None` if this test may not create one, in which case it prints SKIPPED.
    pub fn new(bytes: u64) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: only root can attach a loop device");
            return None;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = PathBuf::from(format!("/dev/shm/dwell-capture-{}-{number}", std::process::id()));
        File::create_new(&file).unwrap().set_len(bytes).unwrap();
        let mut device = Self::over(&file);
        match &mut device {
            Some(device) => device.file = Some(file),
            None => fs::remove_file(&file).unwrap(),
        }
        device
    }

    /// A loop device on a file or another device.
    pub fn over(file: &Path) -> Option<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        let path = output.ok().filter(|output| output.status.success());
        let Some(path) = path.map(|output| String::from_utf8(output.stdout).unwrap()) else {
            eprintln!("SKIPPED: this machine has no free loop device");
            return None;
        };
        Some(Self { path: PathBuf::from(path.trim()), file: None })
    }

    /// Opens it for reads and writes without the page cache.
    pub fn open(&self) -> File {
        OpenOptions::new().read(true).write(true).custom_flags(O_DIRECT).open(&self.path).unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
        self.file.take().map(fs::remove_file);
    }
}

/// Memory for direct I/O: 4 KiB, aligned.
#[repr(align(4096))]
pub struct Page(pub [u8; 4096]);

/// Reads the 4 KiB at that page of the device.
pub fn read(file: &File, page: u64) {
    let mut data = Page([0; 4096]);
    file.read_exact_at(&mut data.0, page * 4096).unwrap();
}

/// Writes the 4 KiB at that page of the device.
pub fn write(file: &File, page: u64) {
    file.write_all_at(&Page([7; 4096]).0, page * 4096).unwrap();
}

/// Discards `blocks` blocks of 4 KiB from the beginning of the device, submitted together, so that the kernel merges them: a request may
/// contain any number of consecutive discards, but only a limited number of reads or writes. Returns false if the kernel does not support
/// such discards.
pub fn discard_at_once(file: &File, blocks: u32) -> bool {
    /// `BLOCK_URING_CMD_DISCARD` of `linux/blkdev.h`, since Linux 6.12.
    const DISCARD: u32 = 0x12 << 8;
    let Ok(mut ring) = IoUring::new(blocks) else { return false };
    for block in 0..u64::from(blocks) {
        let mut length = [0; 16];
        length[..8].copy_from_slice(&4096_u64.to_ne_bytes());
        let discard = opcode::UringCmd16::new(types::Fd(file.as_raw_fd()), DISCARD);
        let discard = discard.addr(Some(block * 4096)).cmd(length).build();
        // SAFETY: the entry refers to no memory, and the file is open until all entries have completed.
        unsafe { ring.submission().push(&discard) }.unwrap();
    }
    ring.submit_and_wait(blocks as usize).is_ok() && ring.completion().all(|done| done.result() == 0)
}

/// Sets an attribute of the device's queue.
pub fn set(device: &Path, attribute: &str, value: &str) {
    fs::write(queue(device, attribute), value).unwrap();
}

/// An attribute of the device's queue.
pub fn queue(device: &Path, attribute: &str) -> PathBuf {
    let name = device.file_name().unwrap().to_str().unwrap();
    PathBuf::from(format!("/sys/block/{name}/queue/{attribute}"))
}
