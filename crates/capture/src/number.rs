//! The kernel's identifier of a block device: its major and minor number.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::file_system::device_below;

/// Major and minor number.
pub type Number = (u32, u32);

/// Major and minor number of a block device's node.
pub(crate) fn number_of(path: &Path) -> Result<Number, Error> {
    let metadata = fs::metadata(path).map_err(|error| Error::device(path, error.to_string()))?;
    if !metadata.file_type().is_block_device() {
        let holder = Some(path).filter(|_| metadata.is_dir()).and_then(|path| device_below(path).ok());
        let holder = holder.and_then(|number| fs::read_link(place(Path::new("/sys"), number)).ok());
        let holder = holder.and_then(|link| Some(link.file_name()?.to_string_lossy().replace('!', "/")));
        let hint = holder.map(|name| format!("; it is on /dev/{name}")).unwrap_or_default();
        return Err(Error::device(path, format!("is no block device{hint}")));
    }
    let device = metadata.rdev();
    Ok((rustix::fs::major(device), rustix::fs::minor(device)))
}

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
#[must_use]
pub fn number(text: &str) -> Option<Number> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
