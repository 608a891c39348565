//! Which files are on the served device.

use std::collections::HashMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use control::device_number::{DeviceNumber, split, whole_disk};
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
    /// Major and minor number of its file system.
    pub(crate) number: DeviceNumber,
}

/// Looks a path up; `None` if there is nothing.
pub(crate) fn find(path: &str) -> Option<Found> {
    let found = statx(CWD, path, AtFlags::NO_AUTOMOUNT, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID).ok()?;
    Some(Found {
        inode: found.stx_ino,
        is_regular: FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile,
        size: found.stx_size,
        mount: found.stx_mnt_id,
        number: (found.stx_dev_major, found.stx_dev_minor),
    })
}

/// The served devices, and which file systems are on them.
pub(crate) struct Served {
    disks: Vec<DeviceNumber>,
    /// By the number of a file system on one device.
    devices: HashMap<DeviceNumber, Option<usize>>,
    /// Of other file systems, by mount.
    mounts: HashMap<u64, Option<usize>>,
    /// Likewise by number, as the mounts last had them: a thread may have a file open whose mount is not in its namespace.
    others: HashMap<DeviceNumber, Option<usize>>,
    since: Instant,
}

impl Served {
    pub(crate) fn new(disks: Vec<DeviceNumber>) -> Self {
        let [devices, others] = [HashMap::new(), HashMap::new()];
        Self { disks, devices, mounts: HashMap::new(), others, since: Instant::now() }
    }

    /// A restarted server may have another device.
    pub(crate) fn set(&mut self, place: usize, device: DeviceNumber) {
        self.disks[place] = device;
        self.devices.clear();
        self.mounts.clear();
        self.others.clear();
    }

    /// The place of the device that a thread's file is on, if it is a served one.
    pub(crate) fn place(&mut self, thread: u32, Found { mount, number, .. }: Found) -> Option<usize> {
        if self.since.elapsed() > REMEMBERED {
            self.devices.clear();
            self.mounts.clear();
            self.since = Instant::now();
        }
        if number.0 != 0 {
            let disks = &self.disks;
            let place = || disks.iter().position(|&served| served == whole_disk(number));
            return *self.devices.entry(number).or_insert_with(place);
        }
        if let Some(&known) = self.mounts.get(&mount) {
            return known;
        }
        let place = match numbered(thread, mount).or_else(|| numbered("self", mount)) {
            Some(found) => self.place_of(&found),
            None => self.others.get(&number).copied().flatten(),
        };
        self.mounts.insert(mount, place);
        self.others.insert(number, place);
        place
    }

    /// The number of a file system over several devices (btrfs) is not that of a device; its source is one. What is written to an overlay, as in most
    /// containers, is on the device of its upper directory.
    fn place_of(&self, mount: &Mount) -> Option<usize> {
        if mount.kind == "overlay" {
            let below = numbered("self", find(upper_of(&mount.options)?.to_str()?)?.mount)?;
            return (below.kind != "overlay").then(|| self.place_of(&below)).flatten();
        }
        let source = || {
            let found = rustix::fs::stat(&mount.source).ok()?;
            let is_device = FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice;
            is_device.then(|| split(found.st_rdev))
        };
        let number = Some(mount.number).filter(|&(major, _)| major != 0).or_else(source);
        let disk = whole_disk(number?);
        self.disks.iter().position(|&served| served == disk)
    }
}

/// The upper directory in the options of an overlay, in which a backslash precedes special characters.
fn upper_of(options: &str) -> Option<PathBuf> {
    let (_, rest) = options.split_once("upperdir=")?;
    let (mut upper, mut rest) = (String::new(), rest.chars());
    while let Some(next) = rest.next().filter(|&next| next != ',') {
        upper.push(if next == '\\' { rest.next()? } else { next });
    }
    Some(upper.into())
}

/// The mount of a number, in the namespace of a process.
fn numbered(process: impl Display, id: u64) -> Option<Mount> {
    Mount::seen_by(process).into_iter().find(|mount| mount.id == id)
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
    fn the_upper_directory_of_an_overlay_is_read_with_its_escapes() {
        let upper = |options| upper_of(options).map(|upper| upper.to_string_lossy().into_owned());
        let options = "rw,lowerdir=/l,upperdir=/srv/a\\,b\\\\c/diff,workdir=/w,index=off";
        assert_eq!(upper(options).as_deref(), Some("/srv/a,b\\c/diff"));
        assert_eq!(upper("rw,lowerdir=/l,upperdir=/u").as_deref(), Some("/u"));
        assert_eq!(upper("ro,lowerdir=/l:/m"), None);
        assert!(numbered("self", find("/proc").unwrap().mount).is_some_and(|mount| mount.kind == "proc"));
    }

    #[test]
    fn a_file_whose_mount_is_in_another_namespace_is_still_on_its_device() {
        let mut served = Served::new(vec![(7, 3)]);
        let found = |number, mount| Found { inode: 1, is_regular: true, size: 0, mount, number };
        let own = std::process::id();
        assert_eq!(served.place(own, found((7, 3), u64::MAX)), Some(0));
        assert_eq!(served.place(own, found((7, 4), u64::MAX)), None);
        // A subvolume of btrfs, which was seen through a mount before.
        assert_eq!(served.place(own, found((0, 99), u64::MAX)), None);
        served.others.insert((0, 98), Some(0));
        assert_eq!(served.place(own, found((0, 98), u64::MAX - 1)), Some(0));
    }

    #[test]
    fn a_file_has_a_mount_and_a_type() {
        let found = find("/proc/self/status").unwrap();
        assert!(found.is_regular && found.mount != 0);
        assert_eq!(find("/proc/self/none"), None);
    }
}
