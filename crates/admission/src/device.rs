//! Which files are on the served device.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use control::mounts::Mount;
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};

/// How long an answer is remembered: a mount's number may be given to another one.
const REMEMBERED: Duration = Duration::from_secs(1);

/// A file, as far as admission is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) inode: u64,
    pub(crate) is_regular: bool,
    pub(crate) size: u64,
    pub(crate) mount: u64,
}

/// Looks a path up; `None` if there is nothing.
pub(crate) fn find(path: &str) -> Option<Found> {
    let found = statx(CWD, path, AtFlags::NO_AUTOMOUNT, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID).ok()?;
    Some(Found {
        inode: found.stx_ino,
        is_regular: FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile,
        size: found.stx_size,
        mount: found.stx_mnt_id,
    })
}

/// The served devices, and which mounts are on them.
pub(crate) struct Served {
    disks: Vec<(u32, u32)>,
    mounts: HashMap<u64, Option<usize>>,
    since: Instant,
}

impl Served {
    pub(crate) fn new(disks: Vec<(u32, u32)>) -> Self {
        Self { disks, mounts: HashMap::new(), since: Instant::now() }
    }

    /// A restarted server may have another device.
    pub(crate) fn set(&mut self, place: usize, device: (u32, u32)) {
        self.disks[place] = device;
        self.mounts.clear();
    }

    /// The place of the device that a thread's mount is on, if it is a served one.
    pub(crate) fn place(&mut self, thread: u32, mount: u64) -> Option<usize> {
        if self.since.elapsed() > REMEMBERED {
            self.mounts.clear();
            self.since = Instant::now();
        }
        if let Some(&known) = self.mounts.get(&mount) {
            return known;
        }
        let mounts = Mount::seen_by(thread);
        let place = mounts.iter().find(|of| of.id == mount).and_then(|mount| self.place_of(mount));
        self.mounts.insert(mount, place);
        place
    }

    /// The number of a file system over several devices (btrfs) is not that of a device; its source is one.
    fn place_of(&self, mount: &Mount) -> Option<usize> {
        let source = || {
            let found = rustix::fs::stat(&mount.source).ok()?;
            let is_device = FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice;
            is_device.then(|| (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev)))
        };
        let number = Some(mount.number).filter(|&(major, _)| major != 0).or_else(source);
        let disk = disk_of(number?);
        self.disks.iter().position(|&served| served == disk)
    }
}

/// `MAJOR:MINOR`.
fn parse_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The disk that a partition is on, or the device itself.
fn disk_of((major, minor): (u32, u32)) -> (u32, u32) {
    let directory = format!("/sys/dev/block/{major}:{minor}");
    let whole = || {
        Path::new(&directory).join("partition").metadata().ok()?;
        let disk = fs::canonicalize(&directory).ok()?;
        parse_number(&fs::read_to_string(disk.parent()?.join("dev")).ok()?)
    };
    whole().unwrap_or((major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_identified_by_number_or_source() {
        let served = Served::new(vec![(7, 3), (7, 5)]);
        let place = |line: &str| Mount::all(line.as_bytes()).next().and_then(|mount| served.place_of(&mount));
        assert_eq!(place("36 35 7:3 / /mnt rw,noatime shared:1 - ext4 /dev/loop3 rw"), Some(0));
        assert_eq!(place("36 35 7:4 / /mnt rw,noatime - ext4 /dev/loop4 rw"), None);
        assert_eq!(place("36 35 7:5 / /mnt rw,noatime - ext4 /dev/loop5 rw"), Some(1));
        assert_eq!(place("36 35 0:45 / /tmp rw - tmpfs tmpfs rw"), None);
        assert_eq!(place(""), None);
    }

    #[test]
    fn a_file_has_a_mount_and_a_type() {
        let found = find("/proc/self/status").unwrap();
        assert!(found.is_regular && found.mount != 0);
        assert_eq!(find("/proc/self/none"), None);
    }
}
