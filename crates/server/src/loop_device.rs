//! The kernel's loop devices: a file seen as a block device.
//!
//! Source: `include/uapi/linux/loop.h` and loop(4).

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ::control::mounts::Mount;
use ::control::process::detach;
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, WaitOptions, waitpid};
use serde::{Deserialize, Serialize};

const LOOP_CONFIGURE: libc::c_ulong = 0x4c0a;
const LOOP_CLR_FD: libc::c_ulong = 0x4c01;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4c05;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4c82;
/// `BLKROSET` and `BLKROGET` of `include/uapi/linux/fs.h`.
const BLKROSET: libc::c_ulong = 0x125d;
const BLKROGET: libc::c_ulong = 0x125e;

/// Detach at the last close; scan partitions; bypass the page cache.
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_PARTSCAN: u32 = 8;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// Attempts to attach a free device: another process may take the one that was found.
const TRIES: u32 = 16;

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// Settings of a queue that outlive an attachment, in the order in which they are set and restored: a new scheduler resets
/// `nr_requests`, and since Linux 6.17 a change of another limit raises the read-ahead of a rotational disk to two of its largest
/// requests (`blk_apply_bdi_limits`).
const OUTLIVING: [&str; 6] =
    ["scheduler", "rotational", "nr_requests", "max_sectors_kb", "read_ahead_kb", "wbt_lat_usec"];

/// Previous settings, to be restored: they outlive the attachment.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Before {
    /// Attributes of the queue.
    attributes: Vec<(String, String)>,
    /// As set by `blockdev --setro`.
    #[serde(default)]
    read_only: bool,
}

/// An attached loop device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LoopDevice {
    number: u32,
    /// The file that it was attached to.
    file: PathBuf,
    before: Before,
}

/// How long a loop device stays attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    UntilDetached,
    /// Until the last close: it ends with the process that attached it, also after a kill.
    UntilClosed,
}

/// Settings of the device's queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueSettings {
    /// Whether the underlying disk is rotational.
    pub rotational: bool,
    /// Requests in flight at once; the kernel's minimum is 4.
    pub nr_requests: u32,
    /// Read-ahead in KiB.
    pub read_ahead_kb: u32,
    /// Largest request in KiB.
    pub max_sectors_kb: u32,
}

fn ioctl(fd: RawFd, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<i32> {
    // SAFETY: of the requests used here, LOOP_CONFIGURE and LOOP_GET_STATUS64 take a pointer to a structure that lives across the
    // call and has the layout of the kernel's (checked below), BLKROSET and BLKROGET one to a C `int` that does; the others take a
    // number or nothing.
    let result = unsafe { libc::ioctl(fd, request as _, argument) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

const _: () = assert!(size_of::<LoopInfo>() == 232 && size_of::<LoopConfig>() == 304);

impl LoopDevice {
    /// Attaches `file`, past the page cache, to a free loop device. Also gives the open device, which keeps one alive that
    /// stays [`Lifetime::UntilClosed`].
    ///
    /// # Errors
    /// There are no loop devices, none is free, or CAP_SYS_ADMIN is missing.
    pub fn attach(file: &Path, block_bytes: u32, lifetime: Lifetime) -> io::Result<(Self, File)> {
        let control = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/loop-control")
            .map_err(|error| io::Error::new(error.kind(), format!("/dev/loop-control: {error}")))?;
        let backing = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32)
            .open(file)?;
        // The loop driver of Linux 6.1 uses the cached size, which is 0 for a file just mounted by FUSE until a `stat`;
        // that of 6.18 queries the size itself.
        backing.metadata()?;
        let mut tried = 0;
        loop {
            let number = ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE, 0)? as u32;
            let mut device = Self { number, file: file.to_path_buf(), before: Before::default() };
            let open = device.open()?;
            match configure(&open, &backing, file, block_bytes, lifetime) {
                Ok(()) => {
                    // Only now: another process may attach a free device at any moment.
                    device.note(&open);
                    if let Err(error) = set_read_only(&open, false) {
                        let _ = device.ask_to_detach();
                        return Err(error);
                    }
                    return Ok((device, open));
                }
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && tried < TRIES => tried += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// All attached loop devices.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let numbers =
            entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("loop")?.parse().ok());
        let device = |number| Self { number, file: PathBuf::new(), before: Before::default() };
        numbers.map(device).filter_map(|device| Some(Self { file: device.backing_file()?, ..device }))
    }

    /// Those that are attached to `file`.
    pub(crate) fn attached_to(file: &Path) -> Vec<Self> {
        Self::all().filter(|device| device.file == file).collect()
    }

    /// The file that it was attached to when it was found.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Device number of the file system, and inode number, of the file that it is attached to.
    pub(crate) fn backing_node(&self) -> io::Result<(u64, u64)> {
        // SAFETY: numbers and bytes, of which all zeroes are valid ones.
        let mut info: LoopInfo = unsafe { std::mem::zeroed() };
        let device = File::open(self.path())?;
        ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, (&raw mut info) as libc::c_ulong)?;
        Ok((info.device, info.inode))
    }

    /// Records its settings.
    fn note(&mut self, open: &File) {
        let now = |name: &str| fs::read_to_string(self.sysfs().join("queue").join(name)).ok();
        let setting = |name: &str| Some((name.to_string(), chosen(now(name)?.trim()).to_string()));
        self.before.attributes = OUTLIVING.iter().filter_map(|name| setting(name)).collect();
        self.before.read_only = is_read_only(open);
    }

    /// Its node.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/loop{}", self.number))
    }

    /// Opens it for a change of the device, not of its data: after the close of one that was opened for writing, udev looks at its content, and
    /// may assemble an array of members that are about to be detached.
    fn open_to_change(&self) -> io::Result<File> {
        File::open(self.path())
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.path())
    }

    fn sysfs(&self) -> PathBuf {
        PathBuf::from(format!("/sys/block/loop{}", self.number))
    }

    /// The file that the loop device of this number is attached to; after a detachment another process may have attached another file.
    pub fn backing_file(&self) -> Option<PathBuf> {
        backing_file(&self.sysfs())
    }

    /// Whether it is attached to the same file. The kernel shows a file whose mount is gone, or is in another namespace, as `/`: no other
    /// file is shown so.
    pub(crate) fn is_attached(&self) -> bool {
        self.backing_file().is_some_and(|now| now == self.file || now == Path::new("/"))
    }

    /// Sets its queue up; returns what was refused, which changes speeds, not results.
    ///
    /// The kernel must not schedule above it: neither an elevator nor writeback throttling (`wbt`), which bfq turns off as well. A loop
    /// device starts with the 2 ms of a solid-state drive, with which a rotational disk receives one write at a time.
    pub fn set_up(&self, settings: QueueSettings) -> Vec<String> {
        let values: [String; OUTLIVING.len()] = [
            "none".to_owned(),
            u32::from(settings.rotational).to_string(),
            settings.nr_requests.to_string(),
            settings.max_sectors_kb.to_string(),
            settings.read_ahead_kb.to_string(),
            "0".to_owned(),
        ];
        let mut refused = Vec::new();
        for (name, value) in OUTLIVING.into_iter().zip(values) {
            let path = self.sysfs().join("queue").join(name);
            // Some kernels lack some attributes.
            if fs::read_to_string(&path).is_err() {
                continue;
            }
            if let Err(error) = set(&path, name, &value) {
                refused.push(format!("{} = {value}: {error}", path.display()));
            }
        }
        refused
    }

    /// Selects one of the kernel's elevators, with its tunables (`("low_latency", "0")`). Call it after [`set_up`](Self::set_up).
    ///
    /// # Errors
    /// The kernel has no such elevator or tunable, or rejects the value.
    pub fn set_elevator(&self, name: &str, tunables: &[(String, String)]) -> io::Result<()> {
        let queue = self.sysfs().join("queue");
        let failed_at = |what: String| {
            move |error: io::Error| {
                io::Error::new(error.kind(), format!("{}: {what}: {error}", self.path().display()))
            }
        };
        let scheduler = queue.join("scheduler");
        fs::write(&scheduler, name).map_err(|error| {
            let offered = fs::read_to_string(&scheduler).unwrap_or_default().replace(['[', ']'], "");
            let offered: Vec<&str> = offered.split_whitespace().collect();
            failed_at(format!("elevator '{name}'; it has {}", offered.join(", ")))(error)
        })?;
        for (tunable, value) in tunables {
            let path = queue.join("iosched").join(tunable);
            // Without `create`: sysfs reports a missing file as a missing permission otherwise.
            let written =
                OpenOptions::new().write(true).open(path).and_then(|mut it| it.write_all(value.as_bytes()));
            written.map_err(failed_at(format!("{name}'s {tunable} = {value}")))?;
        }
        Ok(())
    }

    /// Whether a file system on it or a part of it is mounted, or another device or program has claimed it (`O_EXCL`).
    pub(crate) fn is_claimed(&self) -> bool {
        let exclusive = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::EXCL.bits() as i32)
            .open(self.path());
        exclusive.is_err_and(|error| Errno::from_io_error(&error) == Some(Errno::BUSY))
    }

    /// Requests its detachment, which happens at the last close.
    pub fn ask_to_detach(&self) -> io::Result<()> {
        match ioctl(self.open_to_change()?.as_raw_fd(), LOOP_CLR_FD, 0) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Waits until it is detached, at most for the given time; returns whether it is. Another process may have attached it again.
    pub fn wait_detached(&self, at_most: Duration) -> bool {
        const LOOK: Duration = Duration::from_millis(5);
        let mut waited = Duration::ZERO;
        while self.is_attached() {
            if waited >= at_most {
                return false;
            }
            thread::sleep(LOOK);
            waited += LOOK;
        }
        true
    }

    /// Sets whether the kernel refuses writes to it.
    pub(crate) fn set_read_only(&self, read_only: bool) -> io::Result<()> {
        set_read_only(&self.open_to_change()?, read_only)
    }

    /// Restores the previous settings for the next user of this loop device.
    pub fn restore(&self) {
        let _ = self.set_read_only(self.before.read_only);
        for (name, value) in &self.before.attributes {
            let _ = set(&self.sysfs().join("queue").join(name), name, value);
        }
    }

    /// Restores its settings, because another program may attach it as soon as it is detached, and requests the detachment: in a process of its own,
    /// which has no file of this one. Both calls wait for requests to the device, and SIGKILL does not end that wait. A server that made them itself
    /// and was killed meanwhile would keep its connection to the kernel open, and the kernel would keep requests that no process answers.
    pub(crate) fn detach_apart(&self) -> io::Result<()> {
        let leave = || {
            self.restore();
            self.ask_to_detach()
        };
        // SAFETY: the child only calls the kernel and ends; glibc's allocator works in a child of several threads.
        match unsafe { libc::fork() } {
            // Without memory for another process.
            -1 => leave(),
            0 => {
                detach(c"dwell-detach", None);
                let code = leave().map_or_else(|error| error.raw_os_error().unwrap_or(libc::EIO), |()| 0);
                // SAFETY: ends the process without the parent's exit handlers.
                unsafe { libc::_exit(code) }
            }
            child => {
                let ended = retry_on_intr(|| waitpid(Pid::from_raw(child), WaitOptions::empty()))?;
                match ended.and_then(|(_, status)| status.exit_status()) {
                    Some(0) => Ok(()),
                    Some(code) => Err(io::Error::from_raw_os_error(code)),
                    None => Err(io::Error::other("the process that detaches it was killed")),
                }
            }
        }
    }

    /// What uses it: devices on it (md, device mapper), mounts, and programs that have opened it.
    pub(crate) fn users(&self) -> Vec<String> {
        let path = self.path();
        let names = |directory: &Path| {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let holders = path.file_name().map(|name| Path::new("/sys/block").join(name).join("holders"));
        let holders = holders.map(|holders| names(&holders)).unwrap_or_default();
        let holders = holders.into_iter().map(|name| match name.starts_with("md") {
            true => format!("{name} ('mdadm --stop /dev/{name}')"),
            false => name,
        });
        let mounts = self.mounts().join(", ");
        let mounts = (!mounts.is_empty()).then(|| format!("mounts: {mounts}"));
        let own = std::process::id();
        let pids = names(Path::new("/proc")).into_iter().filter_map(|name| name.parse::<u32>().ok());
        let has_opened = |&pid: &u32| {
            let files = PathBuf::from(format!("/proc/{pid}/fd"));
            let mut files = fs::read_dir(files).into_iter().flatten().flatten();
            files.any(|file| fs::read_link(file.path()).is_ok_and(|target| target == path))
        };
        let programs = pids.filter(|&pid| pid != own).filter(has_opened).map(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("process {pid} ({})", name.trim())
        });
        holders.chain(mounts).chain(programs).collect()
    }

    /// Mount points of it and its partitions.
    pub(crate) fn mounts(&self) -> Vec<String> {
        let node = self.path().to_string_lossy().into_owned();
        let part = format!("{node}p");
        let is_on_it = |source: &str| source == node || source.starts_with(&part);
        let mounts =
            Mount::seen_by("self").into_iter().filter(|mount| mount.source.to_str().is_some_and(is_on_it));
        mounts.map(|mount| mount.place.to_string_lossy().into_owned()).collect()
    }
}

/// Writes an attribute. The kernel ignores an `nr_requests` equal to its present value, although the driver's tags may differ: so
/// another value is written first.
fn set(path: &Path, name: &str, value: &str) -> io::Result<()> {
    if name == "nr_requests"
        && let Ok(number) = value.parse::<u32>()
    {
        let other = if number > 4 { number - 1 } else { number + 1 };
        let _ = fs::write(path, other.to_string());
    }
    let began = Instant::now();
    loop {
        match fs::write(path, value) {
            // Since Linux 6.16 a queue refuses another scheduler while a disk of its driver is added or removed (`elv_iosched_store`).
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && began.elapsed() < BUSY => {
                thread::sleep(Duration::from_millis(10));
            }
            written => return written,
        }
    }
}

/// How long a setting of a queue may be refused as busy.
const BUSY: Duration = Duration::from_secs(2);

/// The file that the loop device with this directory is attached to.
pub(crate) fn backing_file(sysfs: &Path) -> Option<PathBuf> {
    let text = fs::read(sysfs.join("loop/backing_file")).ok()?;
    Some(OsStr::from_bytes(text.strip_suffix(b"\n").unwrap_or(&text)).into())
}

/// Of `none [mq-deadline] bfq`, the one in brackets.
fn chosen(text: &str) -> &str {
    match (text.find('['), text.find(']')) {
        (Some(from), Some(to)) if from < to => &text[from + 1..to],
        _ => text,
    }
}

/// The kernel keeps this setting with the device number, whatever is attached.
fn set_read_only(device: &File, read_only: bool) -> io::Result<()> {
    let read_only = libc::c_int::from(read_only);
    ioctl(device.as_raw_fd(), BLKROSET, (&raw const read_only) as libc::c_ulong).map(drop)
}

fn is_read_only(device: &File) -> bool {
    let mut read_only: libc::c_int = 0;
    ioctl(device.as_raw_fd(), BLKROGET, (&raw mut read_only) as libc::c_ulong).is_ok() && read_only != 0
}

fn configure(
    device: &File,
    backing: &File,
    name: &Path,
    block_size: u32,
    lifetime: Lifetime,
) -> io::Result<()> {
    let ends = if lifetime == Lifetime::UntilClosed { LO_FLAGS_AUTOCLEAR } else { 0 };
    let mut file_name = [0; 64];
    let bytes = name.as_os_str().as_encoded_bytes();
    let length = bytes.len().min(file_name.len() - 1);
    file_name[..length].copy_from_slice(&bytes[..length]);
    let info = LoopInfo {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: LO_FLAGS_PARTSCAN | LO_FLAGS_DIRECT_IO | ends,
        file_name,
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
    let config = LoopConfig { fd: backing.as_raw_fd() as u32, block_size, info, reserved: [0; 8] };
    ioctl(device.as_raw_fd(), LOOP_CONFIGURE, (&raw const config) as libc::c_ulong).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_scheduler_is_the_one_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] bfq"), "mq-deadline");
        assert_eq!(chosen("128"), "128");
    }
}
