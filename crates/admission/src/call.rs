//! The effect of an intercepted call, as the scheduler needs it.

use control::admission::Operation;

use crate::device::{Found, Served, find};
use crate::listener::Intercepted;

/// The longest path that the kernel accepts, with its end.
const PATH_MAX: usize = 4096;

/// A call that the scheduler admits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) operation: Operation,
    /// The place of the served device, and the inode of the file on it.
    pub(crate) device: usize,
    pub(crate) file: u64,
    pub(crate) bytes: u64,
    /// The caller's descriptor of the file.
    pub(crate) descriptor: Option<u32>,
    /// An fsync or fdatasync, which the agent carries out.
    pub(crate) sync: Option<Sync>,
}

/// How a file is made durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sync {
    All,
    Data,
}

/// Where a call has its file: which of its arguments.
enum Place {
    /// A descriptor, and how many bytes are written.
    Descriptor { at: usize, bytes: Bytes },
    /// A path below a directory's descriptor, if that is an argument.
    Path { directory: Option<usize>, at: usize },
}

enum Bytes {
    None,
    Argument(usize),
    Vector { at: usize, count: usize },
}

const fn descriptor(at: usize, bytes: usize) -> Place {
    Place::Descriptor { at, bytes: Bytes::Argument(bytes) }
}

fn place(number: libc::c_long) -> Option<Place> {
    Some(match number {
        libc::SYS_write | libc::SYS_pwrite64 => descriptor(0, 2),
        libc::SYS_sendfile => descriptor(0, 3),
        libc::SYS_splice | libc::SYS_copy_file_range => descriptor(2, 4),
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            Place::Descriptor { at: 0, bytes: Bytes::Vector { at: 1, count: 2 } }
        }
        libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_sync_file_range
        | libc::SYS_ftruncate
        | libc::SYS_fallocate => Place::Descriptor { at: 0, bytes: Bytes::None },
        libc::SYS_mkdirat | libc::SYS_unlinkat | libc::SYS_openat | libc::SYS_openat2 => {
            Place::Path { directory: Some(0), at: 1 }
        }
        // What is renamed is on the same file system as its new name.
        libc::SYS_renameat2 => Place::Path { directory: Some(0), at: 1 },
        libc::SYS_truncate => Place::Path { directory: None, at: 0 },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_renameat => Place::Path { directory: Some(0), at: 1 },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_creat
        | libc::SYS_open
        | libc::SYS_mkdir
        | libc::SYS_rmdir
        | libc::SYS_unlink
        | libc::SYS_rename => Place::Path { directory: None, at: 0 },
        _ => return None,
    })
}

/// What a call does to a file of a served device; `None` if it may continue at once. The agent looks at the caller's descriptors and memory,
/// which its other threads may change meanwhile: that can make a call wait in vain or not at all, and nothing else.
pub(crate) fn wanted(call: &Intercepted, served: &mut Served) -> Option<Wanted> {
    match place(call.number)? {
        Place::Descriptor { at, bytes } => on_descriptor(call, at, &bytes, served),
        Place::Path { directory, at } => on_path(call, directory, at, served),
    }
}

fn on_descriptor(call: &Intercepted, at: usize, bytes: &Bytes, served: &mut Served) -> Option<Wanted> {
    let descriptor = call.arguments[at] as u32;
    let found = find(&format!("/proc/{}/fd/{descriptor}", call.thread))?;
    let sync = match call.number {
        libc::SYS_fsync => Some(Sync::All),
        libc::SYS_fdatasync => Some(Sync::Data),
        _ => None,
    };
    // A directory can be made durable, too.
    if !found.is_regular && sync.is_none() {
        return None;
    }
    let device = served.place(call.thread, found)?;
    let operation = match call.number {
        _ if sync.is_some() => Operation::Fsync,
        libc::SYS_ftruncate | libc::SYS_fallocate => Operation::Create,
        _ => Operation::Write,
    };
    let bytes = match *bytes {
        Bytes::None => 0,
        Bytes::Argument(at) => call.arguments[at],
        Bytes::Vector { at, count } => vector(call.thread, call.arguments[at], call.arguments[count]),
    };
    Some(Wanted { operation, device, file: found.inode, bytes, descriptor: Some(descriptor), sync })
}

fn on_path(call: &Intercepted, directory: Option<usize>, at: usize, served: &mut Served) -> Option<Wanted> {
    let path = text(call.thread, call.arguments[at])?;
    let base = match directory.map(|at| call.arguments[at] as i32) {
        _ if path.starts_with('/') => format!("/proc/{}/root", call.thread),
        None | Some(libc::AT_FDCWD) => format!("/proc/{}/cwd/", call.thread),
        Some(descriptor) => format!("/proc/{}/fd/{descriptor}/", call.thread),
    };
    let whole = format!("{base}{path}");
    let operation = match call.number {
        libc::SYS_mkdirat => Operation::Mkdir,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mkdir => Operation::Mkdir,
        _ => Operation::Create,
    };
    let existing = find(&whole);
    if !changes(call, operation, existing) {
        return None;
    }
    let parent = whole.trim_end_matches('/').rsplit_once('/')?.0;
    let parent = find(&format!("{parent}/"))?;
    let device = served.place(call.thread, parent)?;
    Some(Wanted { operation, device, file: parent.inode, bytes: 0, descriptor: None, sync: None })
}

/// Whether a call on a path changes anything, given what is there.
fn changes(call: &Intercepted, operation: Operation, existing: Option<Found>) -> bool {
    let truncates = match call.number {
        libc::SYS_openat => call.arguments[2] as i32 & libc::O_TRUNC != 0,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => call.arguments[1] as i32 & libc::O_TRUNC != 0,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_creat => true,
        // The flags are in memory.
        libc::SYS_openat2 => true,
        _ => return operation == Operation::Mkdir || existing.is_some(),
    };
    existing.is_none_or(|found| truncates && found.is_regular && found.size > 0)
}

/// Copies from a thread's memory; returns the bytes that could be read.
fn copy(thread: u32, address: u64, into: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: writes to `into` only; the other process's memory is only read.
    let read = unsafe {
        libc::process_vm_readv(thread as libc::pid_t, &raw const local, 1, &raw const remote, 1, 0)
    };
    usize::try_from(read).unwrap_or(0)
}

/// A string in a thread's memory. Reads up to the end of a page at a time: the next one may be missing.
fn text(thread: u32, address: u64) -> Option<String> {
    let (mut bytes, mut at) = (Vec::new(), address);
    while bytes.len() < PATH_MAX {
        let mut piece = [0; 4096];
        let length = 4096 - (at % 4096) as usize;
        let read = copy(thread, at, &mut piece[..length]);
        let piece = &piece[..read];
        if let Some(end) = piece.iter().position(|&byte| byte == 0) {
            bytes.extend(&piece[..end]);
            return String::from_utf8(bytes).ok();
        }
        if piece.is_empty() {
            return None;
        }
        bytes.extend(piece);
        at += read as u64;
    }
    None
}

/// The bytes of a vector in a thread's memory.
fn vector(thread: u32, address: u64, count: u64) -> u64 {
    let mut entries = [0; 1024 * 16];
    let length = count.min(1024) as usize * 16;
    let read = copy(thread, address, &mut entries[..length]);
    let lengths = entries[..read].chunks_exact(16);
    lengths.map(|entry| entry[8..].iter().rev().fold(0_u64, |sum, &byte| sum << 8 | u64::from(byte))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: libc::c_long, arguments: [u64; 6]) -> Intercepted {
        Intercepted { id: 1, thread: std::process::id(), number, arguments }
    }

    #[test]
    fn strings_and_vectors_are_read_from_memory() {
        let (thread, path) = (std::process::id(), c"/some/path");
        assert_eq!(text(thread, path.as_ptr() as u64).as_deref(), Some("/some/path"));
        assert_eq!(text(thread, 8), None, "not mapped");
        let data = [0_u8; 100];
        let one = |length| libc::iovec { iov_base: data.as_ptr() as *mut libc::c_void, iov_len: length };
        let entries = [one(30), one(70)];
        assert_eq!(vector(thread, entries.as_ptr() as u64, 2), 100);
    }

    #[test]
    fn opening_an_existing_file_changes_it_only_if_it_is_truncated() {
        let file = |size| Some(Found { inode: 1, is_regular: true, size, mount: 1, number: (8, 1) });
        let open = |flags: i32| call(libc::SYS_openat, [0, 0, flags as u64, 0, 0, 0]);
        let changes = |flags, existing| changes(&open(flags), Operation::Create, existing);
        assert!(changes(libc::O_CREAT, None));
        assert!(!changes(libc::O_CREAT, file(7)));
        assert!(changes(libc::O_CREAT | libc::O_TRUNC, file(7)));
        assert!(!changes(libc::O_CREAT | libc::O_TRUNC, file(0)));
    }
}
