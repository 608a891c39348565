//! Who may switch a device's scheduler: one process at a time, a tuner or a profile, whatever database and status it keeps.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::queue::{BLOCK, QueueSettings};

/// Where devices are claimed, whatever database and status a tuner keeps. What is there stays until the machine is started anew: a file that
/// was removed could be locked by one and made again by another.
const CLAIMS: &str = "/run/dwell";

impl QueueSettings {
    /// Claims the device for whoever is to switch its schedulers alone, a tuner or a profile, for as long as the file that is returned is open.
    /// The kernel takes the lock (flock(2)) back from a process that is killed. It is of a file in `/run/dwell` that only its owner may
    /// open, for whoever may open a file may lock it, and those of sysfs anybody may. Where there can be no such file it is of the
    /// scheduler's own.
    ///
    /// # Errors
    /// Another process has claimed it; else as [`get`](Self::get).
    pub fn claim(&self) -> Result<fs::File, Error> {
        self.claim_in(&self.claims())
    }

    /// What is not the system's has nothing in common with another of its name.
    fn claims(&self) -> PathBuf {
        let here = self.file("");
        if here.starts_with(BLOCK) { CLAIMS.into() } else { here }
    }

    fn claim_file(&self, directory: &Path) -> PathBuf {
        directory.join(format!("claim-{}", self.name()))
    }

    fn claim_in(&self, directory: &Path) -> Result<fs::File, Error> {
        let scheduler =
            || fs::File::open(self.file("scheduler")).map_err(|error| self.failed("scheduler", error));
        // Of a device that is gone nothing is claimed.
        let own = scheduler()?;
        let path = self.claim_file(directory);
        let file = match private(&path) {
            Ok(file) => file,
            // Whoever may not open it sees whether somebody holds it, and can switch no scheduler.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let seen = fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(&path);
                return seen
                    .ok()
                    .and_then(|file| locker(&file))
                    .map_or(Ok(own), |pid| Err(self.claimed(Some(pid))));
            }
            Err(_) => own,
        };
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(fs::TryLockError::WouldBlock) => Err(self.claimed(locker(&file))),
            Err(fs::TryLockError::Error(error)) => Err(self.failed("scheduler", error)),
        }
    }

    fn claimed(&self, by: Option<u32>) -> Error {
        let who = by.map_or_else(|| "somebody".to_owned(), |pid| format!("process {pid}"));
        Error::Usage(format!("{}: {who} tunes or measures it; end that first", self.name()))
    }
}

/// A file that only its owner may open; creates it if it is missing.
fn private(path: &Path) -> io::Result<fs::File> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)
}

/// The process that has locked a file.
fn locker(file: &fs::File) -> Option<u32> {
    let place = format!("{}:{}", device(file)?, file.metadata().ok()?.ino());
    holder(&fs::read_to_string("/proc/locks").ok()?, &place)
}

/// Whom `/proc/locks` names for the file at a place (`1: FLOCK  ADVISORY  WRITE 708 00:15:3029 0 EOF`).
fn holder(locks: &str, at: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[_, "FLOCK", _, _, pid, place, ..] = &fields[..] else { return None };
        (place == at).then(|| pid.parse().ok())?
    })
}

/// The device of a file's file system, as `/proc/locks` writes it: that of its mount, for what `stat` says of a file in a subvolume of
/// btrfs is another one.
fn device(file: &fs::File) -> Option<String> {
    let about = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    let mount = about.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    // `29 1 254:0 / / rw ...`: a mount, the one that it is in, its device.
    let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let (major, minor) = fields.find(|fields| fields[0] == mount)?.get(2)?.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    Some(format!("{major:02x}:{minor:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn who_has_locked_a_file_of_the_same_number_elsewhere_is_not_meant() {
        let locks =
            "1: FLOCK  ADVISORY  WRITE 11 00:28:257 0 EOF\n2: FLOCK  ADVISORY  WRITE 22 fe:00:257 0 EOF\n";
        assert_eq!(
            ["fe:00:257", "00:28:257", "00:29:257"].map(|at| holder(locks, at)),
            [Some(22), Some(11), None]
        );
    }

    #[test]
    fn a_device_is_claimed_by_one_until_that_one_lets_go() {
        let tree = Tree::new("claim");
        let claim = |name: &str| QueueSettings::within(&tree.block(), name).claim_in(&tree.directory());
        [tree.queue("sda"), tree.queue("sdb")].iter().for_each(|queue| assert!(queue.exists()));
        let claimed = claim("sda").unwrap();
        let said = claim("sda").unwrap_err().to_string();
        assert_eq!(said, format!("sda: process {} tunes or measures it; end that first", std::process::id()));
        assert!(claim("sdb").is_ok());
        drop(claimed);
        assert!(claim("sda").is_ok());
        assert!(matches!(claim("sdc"), Err(Error::Gone(_))));
    }

    /// Anybody may open the files of sysfs, and so lock them.
    #[test]
    fn nobody_else_can_keep_a_device_claimed() {
        let tree = Tree::new("claim-by-anybody");
        let queue = tree.queue("sda");
        let anybodys = fs::File::open(queue.file("scheduler")).unwrap();
        anybodys.try_lock().unwrap();
        let claimed = queue.claim_in(&tree.directory()).unwrap();
        assert_eq!(claimed.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn where_no_file_can_be_made_the_schedulers_own_is_locked() {
        let tree = Tree::new("claim-nowhere");
        let queue = tree.queue("sda");
        let nowhere = queue.file("nr_requests");
        let claimed = queue.claim_in(&nowhere).unwrap();
        assert!(queue.claim_in(&nowhere).is_err());
        drop(claimed);
        assert!(queue.claim_in(&nowhere).is_ok());
    }
}
