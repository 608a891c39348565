//! A loop device on a file in memory, for the tests that need a live kernel.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use io_uring::{IoUring, opcode, types};

/// `O_DIRECT` of Linux on the machines that have BPF here.
const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;

/// A loop device, detached when this is dropped.
pub struct Loop {
    pub path: PathBuf,
    /// Its own file.
    file: Option<PathBuf>,
}

impl Loop {
    /// Of that many bytes; `None`, said aloud, where this test may not have one.
    pub fn new(bytes: u64) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: not root, so there is no loop device to look at");
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

    /// Over a file, or another device.
    pub fn over(file: &Path) -> Option<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        let path = output.ok().filter(|output| output.status.success());
        let Some(path) = path.map(|output| String::from_utf8(output.stdout).unwrap()) else {
            eprintln!("SKIPPED: this machine gives no loop device");
            return None;
        };
        Some(Self { path: PathBuf::from(path.trim()), file: None })
    }

    /// For reading and writing past the page cache.
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

/// Memory that direct I/O takes: 4 KiB, aligned.
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

/// Discards so many blocks of 4 KiB from the beginning of the device on, asked for at once, so that the kernel merges them: of discards
/// that follow one another a request may have any number, of reads and writes no more than it may have segments. Whether it could.
pub fn discard_at_once(file: &File, blocks: u32) -> bool {
    /// `BLOCK_URING_CMD_DISCARD` of `linux/blkdev.h`, since Linux 6.12.
    const DISCARD: u32 = 0x12 << 8;
    let Ok(mut ring) = IoUring::new(blocks) else { return false };
    for block in 0..u64::from(blocks) {
        let mut length = [0; 16];
        length[..8].copy_from_slice(&4096_u64.to_ne_bytes());
        let discard = opcode::UringCmd16::new(types::Fd(file.as_raw_fd()), DISCARD);
        let discard = discard.addr(Some(block * 4096)).cmd(length).build();
        // SAFETY: no memory of ours is read or written, and the file is open until all have ended.
        unsafe { ring.submission().push(&discard) }.unwrap();
    }
    ring.submit_and_wait(blocks as usize).is_ok() && ring.completion().all(|done| done.result() == 0)
}

/// Sets an attribute of the device's queue.
pub fn set(device: &Path, attribute: &str, value: &str) {
    let name = device.file_name().unwrap().to_str().unwrap();
    fs::write(format!("/sys/block/{name}/queue/{attribute}"), value).unwrap();
}
