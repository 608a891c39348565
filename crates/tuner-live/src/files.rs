//! Files and directories that another user can neither redirect nor fill.
//!
//! The tuner runs as root and stores files in directories whose names are known in advance. Another user who can write to such a directory
//! could place a symbolic link, a FIFO or an endless file there. [`PrivateDirectory`] accepts only a directory and files that this user owns
//! and no other user can write; [`replace`] never opens an existing file for writing.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, Stat};

/// A directory that only its owner may enter, held open: what its path leads to later does not matter.
#[derive(Debug)]
pub(crate) struct PrivateDirectory {
    path: PathBuf,
    directory: OwnedFd,
}

impl PrivateDirectory {
    /// Opens the directory and creates it, and its parents, if it is missing.
    ///
    /// # Errors
    /// As [`open`](Self::open), or it cannot be created.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
        }
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Self::open(path),
        }
    }

    /// Opens the directory.
    ///
    /// # Errors
    /// It is missing, a symbolic link, owned by another user, or accessible to other users.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        check_owner(&rustix::fs::fstat(&directory)?, 0o077)?;
        Ok(Self { path: path.to_owned(), directory })
    }

    /// The path of a file in it, for messages.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Waits until no other process holds the lock; it is released when the result is dropped. Only the owner can open the directory, so no
    /// other user can hold the lock.
    pub(crate) fn lock(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let lock = rustix::fs::openat(&self.directory, ".", flags, Mode::empty())?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        Ok(lock)
    }

    /// The names of the files in it that are UTF-8, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = Dir::read_from(&self.directory).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| Some(entry.file_name().to_str().ok()?.to_owned())).collect();
        names.retain(|name| !matches!(name.as_str(), "." | ".."));
        names.sort();
        names
    }

    /// Reads a file of at most `limit` bytes.
    ///
    /// # Errors
    /// It is missing, too long, no regular file, owned by another user, or writable by other users.
    pub(crate) fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.directory, name, flags, Mode::empty())?);
        check_owner(&rustix::fs::fstat(&file)?, 0o022)?;
        read_regular(file, limit)
    }

    /// Replaces a file: afterwards it has either its old or its new content.
    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let new = format!("{name}.new");
        // A process that was killed may have left one.
        let _ = self.remove(&new);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let written = rustix::fs::openat(&self.directory, &new, flags, Mode::RUSR | Mode::WUSR)
            .map_err(io::Error::from)
            .and_then(|file| File::from(file).write_all(content))
            .and_then(|()| {
                Ok(rustix::fs::renameat(self.directory.as_fd(), &new, self.directory.as_fd(), name)?)
            });
        written.inspect_err(|_| _ = self.remove(&new))
    }

    /// Overwrites an existing file in place where there is no room for a second one, and pads it with blanks to its old length.
    pub(crate) fn overwrite(&self, name: &str, mut content: Vec<u8>) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&self.directory, name, flags, Mode::empty())?);
        let length = usize::try_from(file.metadata()?.len()).unwrap_or_default();
        content.resize(content.len().max(length), b' ');
        file.write_all(&content)
    }

    /// Removes a file.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.directory, name, AtFlags::empty())?)
    }
}

/// An error unless this user owns the file and `forbidden` permissions are not set.
fn check_owner(stat: &Stat, forbidden: u32) -> io::Result<()> {
    let (own, mode) = (rustix::process::geteuid().as_raw(), stat.st_mode & 0o7777);
    let problem = match () {
        () if stat.st_uid != own => format!("owned by user {} instead of {own}", stat.st_uid),
        () if mode & forbidden != 0 => format!("mode {mode:04o} gives other users access"),
        () => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

/// Reads a regular file of at most `limit` bytes.
fn read_regular(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let invalid = |problem: String| io::Error::new(io::ErrorKind::InvalidData, problem);
    if !file.metadata()?.is_file() {
        return Err(invalid("not a regular file".to_owned()));
    }
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(invalid(format!("longer than {limit} bytes")));
    }
    Ok(content)
}

/// Reads a regular file of at most `limit` bytes by its path, without waiting on a FIFO or a device.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    read_regular(OpenOptions::new().read(true).custom_flags(flags).open(path)?, limit)
}

/// Replaces the file at `path`: afterwards it has either its old or its new content, also after a crash if `durable`. Creates a new file
/// and never follows a symbolic link, so that it is safe in a directory that other users can write to.
pub(crate) fn replace(path: &Path, content: &[u8], durable: bool) -> io::Result<()> {
    // By process, as two may replace the same file at once.
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}.new", std::process::id()));
    let new = PathBuf::from(new);
    let create = || OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new);
    let file = create().or_else(|error| match error.kind() {
        // An earlier process of this number was killed.
        io::ErrorKind::AlreadyExists => fs::remove_file(&new).and_then(|()| create()),
        _ => Err(error),
    });
    let written = file.and_then(|mut file| {
        file.write_all(content)?;
        if durable { file.sync_all() } else { Ok(()) }
    });
    written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| _ = fs::remove_file(&new))
}

/// Removes what killed processes have left in a directory while they replaced a file.
pub(crate) fn remove_unfinished(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_suffix(".new")?.rsplit_once('.'));
        if pid.is_some_and(|(_, pid)| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::testing::Tree;

    #[test]
    fn a_directory_of_others_or_open_to_others_is_rejected() {
        let tree = Tree::new("private-directory");
        let path = tree.directory().join("a/private");
        drop(PrivateDirectory::create(&path).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(PrivateDirectory::create(&path).unwrap());
        let link = tree.directory().join("link");
        symlink(&path, &link).unwrap();
        assert!(PrivateDirectory::create(&link).is_err(), "a symbolic link");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        let problem = PrivateDirectory::open(&path).unwrap_err().to_string();
        assert!(problem.contains("mode 0750"), "{problem}");
    }

    #[test]
    fn only_regular_files_of_a_limited_length_are_read() {
        let tree = Tree::new("private-read");
        let directory = PrivateDirectory::create(&tree.directory().join("private")).unwrap();
        directory.replace("file", b"content").unwrap();
        assert_eq!(directory.read("file", 7).unwrap(), b"content");
        assert!(directory.read("file", 6).unwrap_err().to_string().contains("longer than 6 bytes"));
        symlink("/etc/hostname", directory.path("link")).unwrap();
        assert!(directory.read("link", 1000).is_err());
        fs::set_permissions(directory.path("file"), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(directory.read("file", 7).unwrap_err().to_string().contains("mode 0666"));
        let fifo = std::process::Command::new("mkfifo").arg(directory.path("fifo")).status().unwrap();
        assert!(fifo.success() && directory.read("fifo", 7).unwrap_err().to_string().contains("regular"));
        assert_eq!(directory.names(), ["fifo", "file", "link"]);
    }

    /// Another user who can write to the directory places a link where the new content is written first.
    #[test]
    fn replacing_a_file_does_not_follow_a_planted_link() {
        let tree = Tree::new("replace-link");
        let victim = tree.directory().join("victim");
        fs::write(&victim, "untouched").unwrap();
        let file = tree.directory().join("status.json");
        let new = format!("status.json.{}.new", std::process::id());
        for planted in [tree.directory().join(new), file.clone()] {
            symlink(&victim, &planted).unwrap();
            replace(&file, b"new", false).unwrap();
            assert_eq!(fs::read(&victim).unwrap(), b"untouched");
            assert_eq!(fs::read(&file).unwrap(), b"new");
            assert!(fs::symlink_metadata(&file).unwrap().is_file());
            fs::remove_file(&file).unwrap();
        }
    }
}
