//! The mount: a connection to the kernel, and the file over which it is mounted.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use ::control::mounts;
use rustix::fs::OFlags;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{getegid, geteuid};

use rustix::io::Errno;

use super::protocol::MODE;

/// A file over which the device's file is mounted, until this is dropped.
pub(crate) struct Mount {
    path: PathBuf,
    mounted: bool,
}

impl Mount {
    /// Mounts over a new file at `path`; requests arrive on the descriptor, which does not block.
    ///
    /// # Errors
    /// There is no FUSE, no permission to mount (CAP_SYS_ADMIN), or something at `path`.
    pub(crate) fn new(path: &Path, max_read: u32) -> io::Result<(Self, OwnedFd)> {
        let connection = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open("/dev/fuse")
            .map_err(|error| io::Error::new(error.kind(), format!("/dev/fuse: {error}")))?;
        File::create_new(path)?;
        let mut mount = Self { path: path.to_path_buf(), mounted: false };
        // Without `allow_other` the kernel lets only this user in, and with `default_permissions` it checks the file's mode at each
        // open. The loop driver needs neither: it reads and writes by the file that was opened to attach it, and its workers are
        // the root user's.
        let data = format!(
            "fd={},rootmode={MODE:o},user_id={},group_id={},default_permissions,max_read={max_read}\0",
            connection.as_raw_fd(),
            geteuid().as_raw(),
            getegid().as_raw(),
        );
        let data = std::ffi::CStr::from_bytes_with_nul(data.as_bytes()).map_err(io::Error::other)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::NOATIME;
        rustix::mount::mount("dwell", path, "fuse.dwell", flags, Some(data)).map_err(|error| {
            io::Error::new(io::Error::from(error).kind(), format!("mounting (CAP_SYS_ADMIN): {error}"))
        })?;
        mount.mounted = true;
        Ok((mount, connection.into()))
    }

    /// The mount that a former process made at `path`.
    pub(crate) fn adopt(path: &Path) -> Self {
        Self { path: path.to_path_buf(), mounted: true }
    }

    /// Leaves the mount to the next process.
    pub(crate) fn leave(mut self) {
        self.path = PathBuf::new();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.path.as_os_str().is_empty() {
            return;
        }
        if self.mounted {
            unmount(&self.path);
        } else {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Where the kernel's FUSE control file system lists the connections (`Documentation/filesystems/fuse.rst`).
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// The number of the connection that is mounted at `path`: the minor device number of the file system. Read from `mountinfo`, because a
/// `stat` of the file would wait for its server.
pub(crate) fn connection_number(path: &Path) -> Option<u32> {
    mounts::Mount::seen_by("self").iter().rfind(|mount| mount.place == path).map(|mount| mount.number.1)
}

/// Fails every present and later request on a connection. The mount may remain or not. `umount` cannot reach a mount in
/// another mount namespace; then the connection is aborted by its number `connection`, if the control file system is
/// mounted.
pub(crate) fn abort(path: &Path, connection: Option<u32>) {
    let _ = rustix::mount::unmount(path, UnmountFlags::FORCE);
    if let Some(number) = connection {
        let _ = fs::write(format!("{CONNECTIONS}/{number}/abort"), "1");
    }
}

/// Whether a server serves `path`, or may do so later: false only if the connection was aborted. Opening the file is a request that
/// waits while no server runs, so a thread opens it.
pub(crate) fn is_connected(path: &Path) -> bool {
    let ((answer, answered), path) = (channel(), path.to_path_buf());
    let ask = move || answer.send(File::open(path).err().and_then(|error| Errno::from_io_error(&error)));
    if thread::Builder::new().name("probe".into()).spawn(ask).is_err() {
        return true;
    }
    answered.recv_timeout(PROBE) != Ok(Some(Errno::NOTCONN))
}

/// Time within which an aborted connection returns an error.
const PROBE: Duration = Duration::from_millis(300);

/// Unmounts `path` and removes the file below, whether or not its server runs.
pub(crate) fn unmount(path: &Path) {
    if let Err(error) = rustix::mount::unmount(path, UnmountFlags::empty()) {
        // In use, or without a server: detached now, and unmounted after the last use.
        if error != Errno::INVAL {
            let _ = rustix::mount::unmount(path, UnmountFlags::DETACH);
        }
    }
    let _ = fs::remove_file(path);
}
