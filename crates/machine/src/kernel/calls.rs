//! System calls and their results.

use std::fmt;
use std::rc::Rc;

/// An absolute path such as `/src/linux/Makefile`, without `.`, `..` or links.
pub type Path = Rc<str>;

/// A file descriptor: the lowest free number of the process, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Descriptor(pub u32);

/// Flags of `open(2)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Open {
    /// `O_CREAT`.
    pub create: bool,
    /// `O_TRUNC`.
    pub truncate: bool,
    /// `O_APPEND`.
    pub append: bool,
    /// `O_DIRECT`.
    pub direct: bool,
    /// `O_SYNC`.
    pub sync: bool,
}

/// A system call. Lengths and positions are in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// Opens a file; [`Returned::Opened`].
    Open(Path, Open),
    /// Closes a file.
    Close(Descriptor),
    /// Reads at the file position and advances it; [`Returned::Bytes`], less at the end of the file.
    Read(Descriptor, u64),
    /// Reads (descriptor, position, length); [`Returned::Bytes`].
    ReadAt(Descriptor, u64, u64),
    /// Writes at the file position and advances it; [`Returned::Bytes`].
    Write(Descriptor, u64),
    /// Writes (descriptor, position, length); [`Returned::Bytes`].
    WriteAt(Descriptor, u64, u64),
    /// Sets the file position.
    Seek(Descriptor, u64),
    /// Sets a file's length.
    Truncate(Descriptor, u64),
    /// Returns when data and metadata of the file are durable.
    Fsync(Descriptor),
    /// Returns when the file's data, and the metadata that locates it, are durable.
    Fdatasync(Descriptor),
    /// Returns when everything is durable.
    Sync,
    /// Drops the file's clean pages (`POSIX_FADV_DONTNEED`).
    Forget(Descriptor),
    /// Creates a directory.
    Mkdir(Path),
    /// Removes a name; the file is freed when no process has it open.
    Unlink(Path),
    /// Renames a file or directory, replacing the target.
    Rename(Path, Path),
    /// Reads a directory; [`Returned::Entries`].
    Readdir(Path),
    /// Looks a file up and reads its inode; [`Returned::Bytes`] with the length.
    Stat(Path),
    /// Accesses anonymous memory, which may have been swapped out: (address, length, write). Not a system call, but it enters
    /// the kernel through page faults.
    Touch(u64, u64, bool),
}

impl Call {
    /// The name of the call.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Open(..) => "open",
            Self::Close(_) => "close",
            Self::Read(..) => "read",
            Self::ReadAt(..) => "pread",
            Self::Write(..) => "write",
            Self::WriteAt(..) => "pwrite",
            Self::Seek(..) => "lseek",
            Self::Truncate(..) => "ftruncate",
            Self::Fsync(_) => "fsync",
            Self::Fdatasync(_) => "fdatasync",
            Self::Sync => "sync",
            Self::Forget(_) => "fadvise",
            Self::Mkdir(_) => "mkdir",
            Self::Unlink(_) => "unlink",
            Self::Rename(..) => "rename",
            Self::Readdir(_) => "readdir",
            Self::Stat(_) => "stat",
            Self::Touch(..) => "touch",
        }
    }
}

/// In the manner of `strace`: `pread(3, 4096 at 8192)`, `open("/a")`.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Self::Open(path, _)
            | Self::Mkdir(path)
            | Self::Unlink(path)
            | Self::Readdir(path)
            | Self::Stat(path) => write!(f, "{name}(\"{path}\")"),
            Self::Rename(from, to) => write!(f, "{name}(\"{from}\", \"{to}\")"),
            Self::Close(file) | Self::Fsync(file) | Self::Fdatasync(file) | Self::Forget(file) => {
                write!(f, "{name}({})", file.0)
            }
            Self::Read(file, bytes)
            | Self::Write(file, bytes)
            | Self::Truncate(file, bytes)
            | Self::Seek(file, bytes) => write!(f, "{name}({}, {bytes})", file.0),
            Self::ReadAt(file, at, bytes) | Self::WriteAt(file, at, bytes) => {
                write!(f, "{name}({}, {bytes} at {at})", file.0)
            }
            Self::Sync => write!(f, "{name}()"),
            Self::Touch(at, bytes, _) => write!(f, "{name}({bytes} at {at})"),
        }
    }
}

/// The result of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Returned {
    /// Success without a value.
    Done,
    Opened(Descriptor),
    /// Bytes transferred, or the length for `stat`.
    Bytes(u64),
    /// Names in directory order; directories end in `/`.
    Entries(Vec<Path>),
    /// The call failed. If the program does not handle failures, the run ends with an error.
    Failed(Errno),
}

/// Why a call failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Errno {
    /// `ENOENT`.
    #[error("no such file or directory")]
    NotFound,
    /// `EEXIST`.
    #[error("the file exists")]
    Exists,
    /// `ENOSPC`.
    #[error("no space left on the device")]
    NoSpace,
    /// `ENOTDIR`.
    #[error("not a directory")]
    NotADirectory,
    /// `EISDIR`.
    #[error("is a directory")]
    IsADirectory,
    /// `ENOTEMPTY`.
    #[error("the directory is not empty")]
    NotEmpty,
    /// `EBADF`.
    #[error("no such open file")]
    BadDescriptor,
    /// `EINVAL`: a directory cannot become a part of itself.
    #[error("invalid argument")]
    Invalid,
    /// `ENOMEM`.
    #[error("out of memory and swap")]
    NoMemory,
    /// `EIO`.
    #[error("the device failed")]
    Io,
}
