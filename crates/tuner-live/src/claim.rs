//! Claims: one process at a time, a tuner or a measurement, may use a device: its switches and reads disturb those of another.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::mounts::Mount;

use crate::error::Error;
use crate::queue::{BLOCK, QueueSettings};
use crate::system;

/// Where the lock files are. They stay until the next boot: after a removal, two processes could lock an old and a new file of the same
/// name.
const CLAIMS: &str = "/run/dwell";

impl QueueSettings {
    /// Claims the device until the returned file is closed; the kernel releases the lock (flock(2)) of a killed process. The lock is on a file in
    /// `/run/dwell` that only its owner can open, because every process that can open a file can lock it, and sysfs files are world-readable.
    /// Where that file cannot be created, the lock is on the scheduler's sysfs file.
    ///
    /// # Errors
    /// Another process has claimed it; otherwise as [`get`](Self::get).
    pub fn claim(&self) -> Result<fs::File, Error> {
        self.claim_in(&self.claims())
    }

    /// The process that has claimed the device, if one has.
    #[must_use]
    pub fn holder(&self) -> Option<u32> {
        seen(&self.claim_file(&self.claims())).and_then(|file| locker(&file))
    }

    /// A tree other than the system's has its own locks.
    fn claims(&self) -> PathBuf {
        let here = self.file("");
        if here.starts_with(BLOCK) { CLAIMS.into() } else { here }
    }

    fn claim_file(&self, directory: &Path) -> PathBuf {
        directory.join(format!("claim-{}", self.name()))
    }

    fn claim_in(&self, directory: &Path) -> Result<fs::File, Error> {
        self.claim_after(directory, || std::thread::sleep(Duration::from_millis(50)))
    }

    /// The helper of a killed process has its lock until it has restored the settings, for which `wait` is called up to 40 times.
    fn claim_after(&self, directory: &Path, mut wait: impl FnMut()) -> Result<fs::File, Error> {
        let scheduler =
            || fs::File::open(self.file("scheduler")).map_err(|error| self.failed("scheduler", error));
        // A removed device is an error.
        let own = scheduler()?;
        let path = self.claim_file(directory);
        let file = match private(&path) {
            Ok(file) => file,
            // Without permission to open it, only whether it is locked can be seen; such a process cannot switch a scheduler either.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return seen(&path)
                    .and_then(|file| locker(&file))
                    .map_or(Ok(own), |pid| Err(self.claimed(Some(pid), None)));
            }
            Err(_) => own,
        };
        let mut locked = file.try_lock();
        for _ in 0..40 {
            let is_left = |pid| !Path::new(&format!("/proc/{pid}")).exists();
            if locked.is_ok() || !locker(&file).is_some_and(is_left) {
                break;
            }
            wait();
            locked = file.try_lock();
        }
        match locked {
            Ok(()) => {
                // The end of an earlier command.
                let _ = file.set_len(0);
                Ok(file)
            }
            Err(fs::TryLockError::WouldBlock) => Err(self.claimed(locker(&file), seconds_left(&file))),
            Err(fs::TryLockError::Error(error)) => Err(self.failed("scheduler", error)),
        }
    }

    fn claimed(&self, by: Option<u32>, ends: Option<u64>) -> Error {
        Error::Claimed { device: self.name().to_owned(), pid: by, ends }
    }
}

/// Notes in claims when this process releases them, for the message of another one that needs the device.
pub fn released_within(claims: &[fs::File], time: Duration) {
    let end = system::unix_seconds().saturating_add(time.as_secs_f64().ceil() as u64);
    // Not where the lock is on a file of sysfs, which is open for reading.
    claims.iter().for_each(|claim| _ = claim.write_all_at(end.to_string().as_bytes(), 0));
}

/// The seconds until the holder of a claim releases it, if it noted the time.
fn seconds_left(claim: &fs::File) -> Option<u64> {
    let mut text = [0; 20];
    let length = claim.read_at(&mut text, 0).ok()?;
    let end: u64 = std::str::from_utf8(&text[..length]).ok()?.parse().ok()?;
    end.checked_sub(system::unix_seconds())
}

/// A file that is not opened, which needs no permission.
fn seen(path: &Path) -> Option<fs::File> {
    fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path).ok()
}

/// A file that only its owner may open; creates it if it is missing.
fn private(path: &Path) -> io::Result<fs::File> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)
}

/// The process that has locked a file.
fn locker(file: &fs::File) -> Option<u32> {
    let place = format!("{}:{}", device(file)?, file.metadata().ok()?.ino());
    // The list is not read at once: an entry may be missing while others change.
    (0..3).find_map(|_| holder(&fs::read_to_string("/proc/locks").ok()?, &place))
}

/// The process that `/proc/locks` names for a file (`1: FLOCK  ADVISORY  WRITE 708 00:15:3029 0 EOF`).
fn holder(locks: &str, at: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[_, "FLOCK", _, _, pid, place, ..] = &fields[..] else { return None };
        (place == at).then(|| pid.parse().ok())?
    })
}

/// The device of a file's file system, as in `/proc/locks`: the mount's. `stat` returns another one for files in a subvolume of btrfs.
fn device(file: &fs::File) -> Option<String> {
    let about = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    let id: u64 = about.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()?;
    let (major, minor) = Mount::seen_by("self").iter().find(|mount| mount.id == id)?.number;
    Some(format!("{major:02x}:{minor:02x}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;
    use crate::testing::Tree;

    #[test]
    fn a_lock_on_the_same_inode_of_another_device_is_not_taken_for_ours() {
        let locks =
            "1: FLOCK  ADVISORY  WRITE 11 00:28:257 0 EOF\n2: FLOCK  ADVISORY  WRITE 22 fe:00:257 0 EOF\n";
        assert_eq!(
            ["fe:00:257", "00:28:257", "00:29:257"].map(|at| holder(locks, at)),
            [Some(22), Some(11), None]
        );
    }

    #[test]
    fn one_process_claims_a_device_until_it_closes_the_file() {
        let tree = Tree::new("claim");
        let claim = |name: &str| QueueSettings::within(&tree.block(), name).claim_in(&tree.directory());
        [tree.queue("sda"), tree.queue("sdb")].iter().for_each(|queue| assert!(queue.exists()));
        let claimed = claim("sda").unwrap();
        let message = || claim("sda").unwrap_err().to_string();
        let starts = format!("sda: process {} ('", std::process::id());
        assert!(message().starts_with(&starts), "{}", message());
        assert!(message().ends_with("') tunes or measures it; end that first"), "{}", message());
        assert_eq!(
            seen(&QueueSettings::within(&tree.block(), "sda").claim_file(&tree.directory()))
                .and_then(|file| locker(&file)),
            Some(std::process::id())
        );
        released_within(std::slice::from_ref(&claimed), Duration::from_secs(1_000_000));
        let ends = message();
        assert!(
            ends.contains("tunes or measures it and ends by itself within ") && ends.contains("000 s; wait")
                || ends.contains("999"),
            "{ends}"
        );
        assert!(claim("sdb").is_ok());
        drop(claimed);
        let again = claim("sda").unwrap();
        assert!(message().ends_with("; end that first"), "the end of the earlier claim: {}", message());
        drop(again);
        assert!(matches!(claim("sdc"), Err(Error::Gone(_))));
    }

    #[test]
    fn a_claim_waits_for_the_helper_of_a_dead_process() {
        let tree = Tree::new("claim-of-the-dead");
        let queue = tree.queue("sda");
        let mut left = Some(private(&queue.claim_file(&tree.directory())).unwrap());
        let number = left.as_ref().unwrap().as_raw_fd();
        let lock = move || match
            // SAFETY: takes numbers only.
            unsafe { libc::flock(number, libc::LOCK_EX) }
        {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        let mut program = std::process::Command::new("true");
        // SAFETY: the function makes one system call.
        unsafe { program.pre_exec(lock) };
        assert!(program.status().unwrap().success());
        let mut waits = 0;
        let claimed = queue.claim_after(&tree.directory(), || {
            waits += 1;
            if waits == 2 {
                drop(left.take());
            }
        });
        assert!(claimed.is_ok());
        assert_eq!(waits, 2);
    }

    /// Every user can open and lock sysfs files.
    #[test]
    fn a_lock_on_the_sysfs_file_does_not_claim_the_device() {
        let tree = Tree::new("claim-by-anybody");
        let queue = tree.queue("sda");
        let anybodys = fs::File::open(queue.file("scheduler")).unwrap();
        anybodys.try_lock().unwrap();
        let claimed = queue.claim_in(&tree.directory()).unwrap();
        assert_eq!(claimed.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn without_a_lock_file_the_sysfs_file_is_locked() {
        let tree = Tree::new("claim-nowhere");
        let queue = tree.queue("sda");
        let nowhere = queue.file("nr_requests");
        let claimed = queue.claim_in(&nowhere).unwrap();
        assert!(queue.claim_in(&nowhere).is_err());
        drop(claimed);
        assert!(queue.claim_in(&nowhere).is_ok());
    }
}
