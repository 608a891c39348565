//! The kernel's identifier of a block device: its major and minor number.

use std::fs;
use std::path::{Path, PathBuf};

/// Major and minor number.
pub type Number = (u32, u32);

/// A device's directory.
pub(crate) fn place(sysfs: &Path, (major, minor): Number) -> PathBuf {
    sysfs.join(format!("dev/block/{major}:{minor}"))
}

/// The directories of a disk's partitions.
pub(crate) fn partitions(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.join("partition").exists())
}

/// `8:1` in a device's directory.
pub(crate) fn number_in(directory: &Path) -> Option<Number> {
    number(&fs::read_to_string(directory.join("dev")).ok()?)
}

/// `8:1` as the kernel's files have it, with or without a line end.
pub fn number(text: &str) -> Option<Number> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
