//! The block device below a file, a directory or a mount point.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use control::device_number::{self, DeviceNumber, directory, number_in};
use control::mounts::Mount;
use control::problem;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use crate::error::Error;

/// The number of a block device, or of the one that holds a file or directory.
///
/// # Errors
/// It is neither, or its file system has no block device or several.
pub fn device_below(path: &Path) -> Result<DeviceNumber, Error> {
    let metadata = fs::metadata(path).map_err(|error| inaccessible(path, &error))?;
    let kind = metadata.file_type();
    if kind.is_block_device() {
        return number_of(path);
    }
    if !kind.is_file() && !kind.is_dir() {
        return Err(Error::device(path, format!("is no block device, directory or file; {LISTED}")));
    }
    let device = metadata.dev();
    let number = device_number::split(device);
    // Major 0 is a file system without a device of its own, or btrfs, which has a number for each subvolume.
    if number.0 != 0 {
        return Ok(number);
    }
    let mount = mount_of(path).map_err(|error| Error::io("reading /proc/self/mountinfo", error))?;
    let problem = match &mount {
        Some(mount) => match device_of(mount, Path::new("/sys/fs/btrfs")) {
            Ok(number) => return Ok(number),
            Err(problem) => problem,
        },
        None => "its file system has no block device".to_owned(),
    };
    Err(Error::device(path, problem))
}

/// The devices of the btrfs that holds a file or directory, if it has several.
pub fn devices_below(path: &Path) -> Vec<PathBuf> {
    let source = mount_of(path).ok().flatten().map(|mount| mount.source);
    let number = source.and_then(|source| number_of(&source).ok());
    let names = number.map(|number| members(Path::new("/sys/fs/btrfs"), number)).unwrap_or_default();
    names.into_iter().map(PathBuf::from).collect()
}

/// Major and minor number of a block device's node.
pub(crate) fn number_of(path: &Path) -> Result<DeviceNumber, Error> {
    let metadata = fs::metadata(path).map_err(|error| inaccessible(path, &error))?;
    if !metadata.file_type().is_block_device() {
        let holder = Some(path).filter(|_| metadata.is_dir()).and_then(|path| device_below(path).ok());
        let holder = holder.and_then(|number| fs::read_link(directory(Path::new("/sys"), number)).ok());
        let holder = holder.and_then(|link| Some(link.file_name()?.to_string_lossy().replace('!', "/")));
        let advice = holder.map_or_else(|| LISTED.to_owned(), |name| format!("it is on /dev/{name}"));
        return Err(Error::device(path, format!("is no block device; {advice}")));
    }
    let device = metadata.rdev();
    Ok((rustix::fs::major(device), rustix::fs::minor(device)))
}

/// What to do without a device's name.
const LISTED: &str = "'lsblk -p' lists the devices";

/// The error for a path that cannot be examined.
fn inaccessible(path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::device(path, format!("there is no such device or file; {LISTED}")),
        io::ErrorKind::PermissionDenied => {
            let what = format!("examining {}", path.display());
            Error::Permission { what, needs: "root, or permission to enter its directory" }
        }
        _ => Error::device(path, problem::reading(error)),
    }
}

/// The mount that a path is on; `None` if it is outside of this process's root.
fn mount_of(path: &Path) -> io::Result<Option<Mount>> {
    let id = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID)?.stx_mnt_id;
    Ok(Mount::seen_by("self").into_iter().find(|mount| mount.id == id))
}

/// The block device of a mount, or why there is none. `btrfs` is `/sys/fs/btrfs`.
fn device_of(mount: &Mount, btrfs: &Path) -> Result<DeviceNumber, String> {
    let (kind, place, source) = (&mount.kind, mount.place.display(), mount.source.display());
    let Ok(number) = number_of(&mount.source) else {
        // The upper directory of an overlay.
        let upper = mount.options.split(',').find_map(|option| option.strip_prefix("upperdir="));
        let why = match (kind.as_str(), upper) {
                ("tmpfs" | "ramfs" | "devtmpfs" | "hugetlbfs", _) => {
                    "whose files are in memory, so that no scheduler orders their requests; name a file on a disk, or a device".to_owned()
                }
                ("nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "9p" | "virtiofs" | "afs" | "fuse.sshfs", _) => {
                    format!("whose files are on a server ({source}); run this command there")
                }
                ("overlay", Some(upper)) => {
                    format!("which has no device of its own; name {upper}, where changes are written, or the device")
                }
                ("zfs", _) => format!(
                    "which schedules above its disks; name a disk of the pool {source} ('zpool status' lists them)"
                ),
                _ => "which has no block device; name a device".to_owned(),
            };
        return Err(format!("is on {kind} ({place}), {why}"));
    };
    match &*members(btrfs, number) {
        names @ [_, _, ..] => {
            Err(format!("is on {kind} ({place}) with several devices; name one of {}", names.join(", ")))
        }
        _ => Ok(number),
    }
}

/// The devices of the btrfs that has this one.
fn members(btrfs: &Path, number: DeviceNumber) -> Vec<String> {
    let entries = |directory: PathBuf| fs::read_dir(directory).into_iter().flatten().flatten();
    let devices = |system: fs::DirEntry| entries(system.path().join("devices")).collect::<Vec<_>>();
    let has =
        |devices: &Vec<fs::DirEntry>| devices.iter().any(|device| number_in(&device.path()) == Some(number));
    let found = entries(btrfs.to_owned()).map(devices).find(has).unwrap_or_default();
    let mut names: Vec<String> =
        found.iter().map(|device| format!("/dev/{}", device.file_name().to_string_lossy())).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_file_system_without_a_device_has_a_reason() {
        let of = |kind: &str, source: &str, upper: Option<&str>| {
            let options = upper.map(|upper| format!("rw,lowerdir=/l,upperdir={upper},workdir=/w"));
            let line = format!("1 0 0:40 / /mnt rw - {kind} {source} {}", options.as_deref().unwrap_or("rw"));
            let mount = Mount::all(line.as_bytes()).next().expect("a mount");
            device_of(&mount, Path::new("/nowhere")).expect_err("there is no device")
        };
        for (kind, source, upper, part) in [
            ("tmpfs", "tmpfs", None, "is on tmpfs (/mnt), whose files are in memory"),
            ("nfs4", "nas:/vol", None, "whose files are on a server (nas:/vol); run this command there"),
            ("overlay", "overlay", Some("/var/u"), "name /var/u, where changes are written"),
            ("overlay", "overlay", None, "is on overlay (/mnt), which has no block device"),
            ("zfs", "tank/db", None, "name a disk of the pool tank/db"),
            ("proc", "proc", None, "is on proc (/mnt), which has no block device; name a device"),
        ] {
            let problem = of(kind, source, upper);
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn what_is_no_file_has_no_device() {
        for (path, part) in [
            ("/dev/null", "is no block device"),
            ("/nowhere", "no such device or file; 'lsblk -p'"),
            ("/proc/self", "is on proc (/proc)"),
        ] {
            let problem = device_below(Path::new(path)).expect_err(path).to_string();
            assert!(problem.starts_with(path) && problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn the_devices_of_a_btrfs_are_named_together() {
        let root = std::env::temp_dir().join(format!("dwell-btrfs-{}", std::process::id()));
        for (system, name, number) in [("a", "sdb", "8:16"), ("a", "sda2", "8:2"), ("b", "sdc", "8:32")] {
            let device = root.join(system).join("devices").join(name);
            fs::create_dir_all(&device).expect("made");
            fs::write(device.join("dev"), number).expect("written");
        }
        assert_eq!(members(&root, (8, 2)), ["/dev/sda2", "/dev/sdb"]);
        assert_eq!(members(&root, (8, 32)), ["/dev/sdc"]);
        assert_eq!(members(&root, (8, 48)), [""; 0]);
        fs::remove_dir_all(root).expect("removed");
    }
}
