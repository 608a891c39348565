//! The mount: a connection to the kernel and the file on which it is seen.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{getegid, geteuid};

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
    /// There is no FUSE, or no leave to mount (CAP_SYS_ADMIN).
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
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.mounted {
            unmount(&self.path);
        } else {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Has everything that waits for the server of `path` end with an error. It may be unmounted by this, or not.
pub(crate) fn abort(path: &Path) {
    let _ = rustix::mount::unmount(path, UnmountFlags::FORCE);
}

/// Unmounts whatever is at `path` and removes the file beneath, whether its server lives or not.
pub(crate) fn unmount(path: &Path) {
    if let Err(error) = rustix::mount::unmount(path, UnmountFlags::empty()) {
        // In use, or its server is dead: out of sight now, and gone when its last user is.
        if error != rustix::io::Errno::INVAL {
            let _ = rustix::mount::unmount(path, UnmountFlags::DETACH);
        }
    }
    let _ = fs::remove_file(path);
}
