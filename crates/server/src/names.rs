//! Comparison of names that the kernel reports with a file: hard links and other mounts give a file several names.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ::control::mounts::Mount;

/// A file, and the data to recognise its names.
pub(crate) struct Names {
    /// One of its names, without symbolic links.
    path: PathBuf,
    node: (u64, u64),
    mounts: Vec<Mount>,
}

impl Names {
    /// The names of the file at `path`, if it exists.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let path = fs::canonicalize(path).ok()?;
        let node = node(&path).ok()?;
        Some(Self { path, node, mounts: Mount::seen_by("self") })
    }

    /// Whether `name` is one of them. Accesses only the file's own file system, which has just responded: another one may belong to a
    /// server that does not respond.
    pub(crate) fn has(&self, name: &Path) -> bool {
        name == self.path || (self.is_near(name) && node(name).is_ok_and(|found| found == self.node))
    }

    /// Whether `name` was one of them, if it is the name of a deleted file: then there is no path, and `node` returns its numbers.
    pub(crate) fn had(&self, name: &Path, node: impl FnOnce() -> io::Result<(u64, u64)>) -> bool {
        name.as_os_str().as_bytes().ends_with(b" (deleted)")
            && self.is_near(name)
            && node().is_ok_and(|found| found == self.node)
    }

    fn is_near(&self, name: &Path) -> bool {
        let file_system = |path: &Path| Mount::above(&self.mounts, path).map(|mount| mount.number);
        file_system(name) == file_system(&self.path)
    }
}

/// File system and inode number of the file at `path`; symbolic links are not followed.
pub(crate) fn node(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_on_the_deepest_and_latest_mount() {
        const MOUNTS: &[u8] = b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
            25 24 0:23 / /srv/a\\040b rw - tmpfs tmpfs rw\n\
            30 25 0:27 / /srv/a\\040b rw - tmpfs tmpfs rw\n\
            31 25 0:31 / /srv/a\\040b/dwell rw shared:1 - fuse.dwell dwell rw\n";
        let mounts: Vec<Mount> = Mount::all(MOUNTS).collect();
        let table =
            [("/srv/a b/c", (0, 27)), ("/srv/a bc", (254, 0)), ("/srv/a b/dwell/x (deleted)", (0, 31))];
        for (path, number) in table {
            let found = Mount::above(&mounts, Path::new(path)).map(|mount| mount.number);
            assert_eq!(found, Some(number), "{path}");
        }
    }

    #[test]
    fn a_hard_link_is_a_name_of_its_file_and_another_file_is_not() {
        let directory = std::env::temp_dir().join(format!("dwell-names-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let [file, link, symbolic, other] =
            ["file", "link", "symbolic", "other"].map(|it| directory.join(it));
        fs::write(&file, "").unwrap();
        fs::write(&other, "").unwrap();
        fs::hard_link(&file, &link).unwrap();
        std::os::unix::fs::symlink(&file, &symbolic).unwrap();
        let names = Names::of(&symbolic).unwrap();
        let node = node(&file);
        assert_eq!([&file, &link, &other].map(|name| names.has(name)), [true, true, false]);
        let deleted = directory.join("file (deleted)");
        assert!(names.had(&deleted, || node) && !names.had(&file, || Ok(names.node)));
        assert!(!names.had(Path::new("/proc/file (deleted)"), || panic!("another file system is accessed")));
        fs::remove_dir_all(directory).unwrap();
    }
}
