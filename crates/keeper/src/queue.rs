//! The settings of a queue in sysfs.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use capture::topology::schedulers;

use crate::error::Error;
use crate::system;

/// Settings that a tuner may change, in the order in which they are put back: the scheduler resets `nr_requests`.
pub const SETTINGS: [&str; 4] = ["scheduler", "nr_requests", "read_ahead_kb", "wbt_lat_usec"];

/// Where the system has its block devices.
const BLOCK: &str = "/sys/block";

/// Where devices are claimed, whatever database and status a tuner keeps. What is there stays until the machine is started anew: a file that
/// was removed could be locked by one and made again by another.
pub(crate) const CLAIMS: &str = "/run/dwell";

/// `/sys/block/NAME/queue`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueSettings {
    name: String,
    directory: PathBuf,
}

impl QueueSettings {
    /// Of a device by its name in `/sys/block`.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self::within(Path::new(BLOCK), name)
    }

    /// Of one in a tree like `/sys/block`.
    #[must_use]
    pub fn within(block: &Path, name: &str) -> Self {
        Self { name: name.to_owned(), directory: block.join(name).join("queue") }
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file of a setting.
    #[must_use]
    pub fn file(&self, setting: &str) -> PathBuf {
        self.directory.join(setting)
    }

    /// Whether the device is still there.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.directory.exists()
    }

    /// The number of its directory, which another device that comes to have the name does not have: sysfs gives each the next one. A loop
    /// device keeps it whatever file it is attached to, as it does its settings.
    #[must_use]
    pub fn inode(&self) -> Option<u64> {
        fs::metadata(&self.directory).ok().map(|found| found.ino())
    }

    /// The device's size in sectors, if it says one.
    #[must_use]
    pub fn sectors(&self) -> Option<u64> {
        fs::read_to_string(self.directory.parent()?.join("size")).ok()?.trim().parse().ok()
    }

    /// Claims the device for whoever is to switch its schedulers alone, a tuner or a profile, for as long as the file that is returned is open.
    /// The kernel takes the lock (flock(2)) back from a process that is killed. It is of a file in `/run/dwell` that only its owner may
    /// open, for whoever may open a file may lock it, and those of sysfs anybody may. Where there can be no such file it is of the
    /// scheduler's own.
    ///
    /// # Errors
    /// Another process has claimed it; else as [`get`](Self::get).
    pub fn claim(&self) -> Result<fs::File, Error> {
        // What is not the system's has nothing in common with another of its name.
        let is_the_systems = self.directory.starts_with(BLOCK);
        self.claim_in(if is_the_systems { Path::new(CLAIMS) } else { &self.directory })
    }

    fn claim_in(&self, directory: &Path) -> Result<fs::File, Error> {
        let scheduler =
            || fs::File::open(self.file("scheduler")).map_err(|error| self.failed("scheduler", error));
        // Of a device that is gone nothing is claimed.
        let own = scheduler()?;
        let path = directory.join(format!("claim-{}", self.name));
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
        Error::Usage(format!("{}: {who} tunes or measures it; end that first", self.name))
    }

    /// A setting's value; of the scheduler the one in use.
    ///
    /// # Errors
    /// [`Error::Gone`] if the device is, else why the file cannot be read.
    pub fn get(&self, setting: &str) -> Result<String, Error> {
        let text = fs::read_to_string(self.file(setting)).map_err(|error| self.failed(setting, error))?;
        let text = text.trim();
        if setting != "scheduler" {
            return Ok(text.to_owned());
        }
        schedulers(text).0.ok_or_else(|| {
            Error::Usage(format!("{}: no scheduler is marked in '{text}'", self.file(setting).display()))
        })
    }

    /// The schedulers that the kernel offers here.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn offered(&self) -> Result<Vec<String>, Error> {
        let text = fs::read_to_string(self.file("scheduler")).map_err(|e| self.failed("scheduler", e))?;
        Ok(schedulers(&text).1)
    }

    /// Sets one, at normal priority.
    ///
    /// # Errors
    /// [`Error::Gone`] if the device is, else [`Error::Refused`].
    pub fn set(&self, setting: &str, value: &str) -> Result<(), Error> {
        let path = self.file(setting);
        let refused =
            |source| Error::Refused { what: path.display().to_string(), value: value.to_owned(), source };
        // Opened without creating: a file in the place of a device that is gone would be no setting.
        let write = |value: &str| {
            let mut file = fs::OpenOptions::new().write(true).truncate(true).open(&path)?;
            io::Write::write_all(&mut file, value.as_bytes())
        };
        let written = system::at_normal_priority(|| {
            if setting == "nr_requests"
                && let Ok(number) = value.parse::<u32>()
            {
                // The kernel ignores a number that it believes to have already, though the driver's tags may differ.
                let _ = write(&another(number).to_string());
            }
            write(value)
        });
        match written {
            Ok(()) => Ok(()),
            Err(_) if !self.exists() => Err(Error::Gone(self.name.clone())),
            Err(source) => Err(refused(source)),
        }
    }

    /// All that may be changed, as it is: (setting, value) in the order of [`SETTINGS`], then the settings of the scheduler in use.
    /// What this queue lacks is left out.
    #[must_use]
    pub fn all(&self) -> Vec<(String, String)> {
        let known = |setting: String| Some((setting.clone(), self.get(&setting).ok()?));
        let queue = SETTINGS.iter().map(|setting| (*setting).to_owned());
        queue.chain(self.of_scheduler()).filter_map(known).collect()
    }

    /// The settings of the scheduler in use: `iosched/fifo_batch`.
    fn of_scheduler(&self) -> Vec<String> {
        let files = fs::read_dir(self.file("iosched")).into_iter().flatten().flatten();
        let mut settings: Vec<String> =
            files.map(|file| format!("iosched/{}", file.file_name().to_string_lossy())).collect();
        settings.sort();
        settings
    }

    fn failed(&self, setting: &str, error: io::Error) -> Error {
        if self.exists() { Error::file(&self.file(setting), error) } else { Error::Gone(self.name.clone()) }
    }
}

/// A file that only its owner may open, made if it is not there.
pub(crate) fn private(path: &Path) -> io::Result<fs::File> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
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

/// A number of requests that is not this one to the kernel either, whose least is 4.
const fn another(number: u32) -> u32 {
    if number > 4 { number - 1 } else { 5 }
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

    #[test]
    fn the_number_written_before_another_is_never_the_same_to_the_kernel() {
        for number in [0, 1, 3, 4, 5, 6, 128] {
            assert_ne!(another(number).max(4), number.max(4), "{number}");
        }
    }
}
