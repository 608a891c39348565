//! The kernel's identifier of a block device, by which sysfs has its directories.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Major and minor number.
pub type DeviceNumber = (u32, u32);

/// Splits a number that stat(2) returned.
#[must_use]
pub fn split(device: u64) -> DeviceNumber {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

/// The number of a block device by its node, or a link to it; none for other files.
#[must_use]
pub fn of_node(path: &Path) -> Option<DeviceNumber> {
    let found = fs::metadata(path).ok()?;
    found.file_type().is_block_device().then(|| split(found.rdev()))
}

/// `8:1` as the kernel's files have it, with or without a line end.
#[must_use]
pub fn parse(text: &str) -> Option<DeviceNumber> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// A device's directory.
#[must_use]
pub fn directory(sysfs: &Path, (major, minor): DeviceNumber) -> PathBuf {
    sysfs.join(format!("dev/block/{major}:{minor}"))
}

/// The number of the device with that directory.
#[must_use]
pub fn number_in(directory: &Path) -> Option<DeviceNumber> {
    parse(&fs::read_to_string(directory.join("dev")).ok()?)
}

/// The directories of a disk's partitions.
pub fn partitions(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.join("partition").exists())
}

/// The disk that a partition is on, or the device itself.
#[must_use]
pub fn whole_disk(number: DeviceNumber) -> DeviceNumber {
    let partition = fs::canonicalize(directory(Path::new("/sys"), number)).ok();
    let partition = partition.filter(|path| path.join("partition").exists());
    partition.and_then(|path| number_in(path.parent()?)).unwrap_or(number)
}
