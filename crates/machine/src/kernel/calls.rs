//! System calls: what a program asks of the kernel, and what it is told.

use std::fmt;
use std::rc::Rc;

/// A file's or directory's name from the root: `/src/linux/Makefile`. No `.`, `..`, links or relative names.
pub type Path = Rc<str>;

/// An open file of one process, as the kernel numbered it: the lowest that was free, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Descriptor(pub u32);

/// How a file is opened, as `open(2)` has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Open {
    /// Makes the file if it is not there.
    pub create: bool,
    /// Throws its content away.
    pub truncate: bool,
    /// Every write goes to the end.
    pub append: bool,
    /// Past the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Every write returns when it is durable (`O_SYNC`).
    pub sync: bool,
}

/// A system call. All lengths and positions are in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// Opens a file; [`Returned::Opened`].
    Open(Path, Open),
    /// Closes it.
    Close(Descriptor),
    /// Reads from where the file stands, and moves it on; [`Returned::Bytes`], fewer at the file's end.
    Read(Descriptor, u64),
    /// Reads at a place (descriptor, position, length); [`Returned::Bytes`].
    ReadAt(Descriptor, u64, u64),
    /// Writes where the file stands, and moves it on; [`Returned::Bytes`].
    Write(Descriptor, u64),
    /// Writes at a place (descriptor, position, length); [`Returned::Bytes`].
    WriteAt(Descriptor, u64, u64),
    /// Moves to a place.
    Seek(Descriptor, u64),
    /// Cuts or extends a file to this length.
    Truncate(Descriptor, u64),
    /// Returns when the file's data and metadata are durable.
    Fsync(Descriptor),
    /// Returns when the file's data, and the metadata needed to find it, are durable.
    Fdatasync(Descriptor),
    /// Returns when everything is durable.
    Sync,
    /// Drops the file's pages from memory, but for those that are dirty or on their way (`POSIX_FADV_DONTNEED`).
    Forget(Descriptor),
    /// Makes a directory.
    Mkdir(Path),
    /// Removes a file's name; its blocks go when nobody has it open.
    Unlink(Path),
    /// Removes an empty directory.
    Rmdir(Path),
    /// Gives a file another name, replacing what bore it.
    Rename(Path, Path),
    /// Reads a directory; [`Returned::Entries`].
    Readdir(Path),
    /// Looks a file up and reads its inode; [`Returned::Bytes`] with its length.
    Stat(Path),
    /// Maps memory of the program's own, which the kernel may have to swap out: touches so many bytes at a place of
    /// its address space, to write (`true`) or to read them.
    Touch(u64, u64, bool),
}

impl Call {
    /// The name of the system call.
    #[must_use]
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
            Self::Rmdir(_) => "rmdir",
            Self::Rename(..) => "rename",
            Self::Readdir(_) => "readdir",
            Self::Stat(_) => "stat",
            Self::Touch(..) => "touch",
        }
    }
}

/// As a line of `strace` has it: `pread(3, 4096 at 8192)`, `open("/a")`.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Self::Open(path, _)
            | Self::Mkdir(path)
            | Self::Unlink(path)
            | Self::Rmdir(path)
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

/// What a call came back with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Returned {
    /// Nothing to say.
    Done,
    /// The open file.
    Opened(Descriptor),
    /// How many bytes.
    Bytes(u64),
    /// Names in the directory, in the order in which the directory holds them; directories end in `/`.
    Entries(Vec<Path>),
    /// It failed. A program that does not look at what is returned is ended by the machine with an error that names it.
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
    /// `EINVAL`: a directory cannot be moved into itself.
    #[error("invalid argument")]
    Invalid,
    /// `ENOMEM`.
    #[error("out of memory and swap")]
    NoMemory,
    /// `EIO`.
    #[error("the device failed")]
    Io,
}
