//! The effect of an intercepted call, as the scheduler needs it.

use std::fs;

use control::admission::Operation;

use crate::device::{Found, Served, find};
use crate::filter::UNNAMED;
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
    /// The call is admitted a second time, as an fsync. It makes stores durable, which no call preceded.
    pub(crate) then_fsync: bool,
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
    /// Mapped memory, by its address.
    Memory { at: usize },
}

enum Bytes {
    None,
    Argument(usize),
    Vector { at: usize, count: usize },
}

const fn descriptor(at: usize, bytes: usize) -> Place {
    Place::Descriptor { at, bytes: Bytes::Argument(bytes) }
}

fn place(&Intercepted { number, arguments, .. }: &Intercepted) -> Option<Place> {
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
        | libc::SYS_fallocate
        | libc::SYS_fchmod
        | libc::SYS_fchown
        | libc::SYS_fsetxattr
        | libc::SYS_fremovexattr => Place::Descriptor { at: 0, bytes: Bytes::None },
        // Without a path: the descriptor's file.
        libc::SYS_utimensat if arguments[1] == 0 => Place::Descriptor { at: 0, bytes: Bytes::None },
        libc::SYS_msync => Place::Memory { at: 0 },
        libc::SYS_mkdirat
        | libc::SYS_mknodat
        | libc::SYS_unlinkat
        | libc::SYS_fchmodat
        | libc::SYS_fchownat
        | libc::SYS_utimensat
        | libc::SYS_openat
        | libc::SYS_openat2 => Place::Path { directory: Some(0), at: 1 },
        // What is renamed is on the same file system as its new name.
        libc::SYS_renameat2 => Place::Path { directory: Some(0), at: 1 },
        libc::SYS_linkat => Place::Path { directory: Some(2), at: 3 },
        libc::SYS_symlinkat => Place::Path { directory: Some(1), at: 2 },
        libc::SYS_truncate
        | libc::SYS_setxattr
        | libc::SYS_lsetxattr
        | libc::SYS_removexattr
        | libc::SYS_lremovexattr => Place::Path { directory: None, at: 0 },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_renameat | libc::SYS_futimesat => Place::Path { directory: Some(0), at: 1 },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_link | libc::SYS_symlink => Place::Path { directory: None, at: 1 },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_creat
        | libc::SYS_open
        | libc::SYS_mkdir
        | libc::SYS_mknod
        | libc::SYS_rmdir
        | libc::SYS_unlink
        | libc::SYS_rename
        | libc::SYS_chmod
        | libc::SYS_chown
        | libc::SYS_lchown
        | libc::SYS_utime
        | libc::SYS_utimes => Place::Path { directory: None, at: 0 },
        _ => return None,
    })
}

/// What a call does to a file of a served device; `None` if it may continue at once. The agent looks at the caller's descriptors and memory,
/// which its other threads may change meanwhile: that can make a call wait in vain or not at all, and nothing else.
pub(crate) fn wanted(call: &Intercepted, served: &mut Served) -> Option<Wanted> {
    match place(call)? {
        Place::Descriptor { at, bytes } => on_descriptor(call, at, &bytes, served),
        Place::Path { directory, at } => on_path(call, directory, at, served),
        Place::Memory { at } => on_memory(call, call.arguments[at], served),
    }
}

fn on_memory(call: &Intercepted, address: u64, served: &mut Served) -> Option<Wanted> {
    let maps = fs::read_to_string(format!("/proc/{}/maps", call.thread)).ok()?;
    let region = shared_at(&maps, address)?;
    let found = find(&format!("/proc/{}/map_files/{region}", call.thread))?;
    let device = served.place(call.thread, found).filter(|_| found.is_regular)?;
    let (operation, file) = (Operation::Write, found.inode);
    Some(Wanted { operation, device, file, bytes: 0, descriptor: None, sync: None, then_fsync: true })
}

/// The region with a shared mapping at an address, as in `/proc/PID/maps`.
fn shared_at(maps: &str, address: u64) -> Option<&str> {
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let (region, rest) = maps.lines().find_map(|line| {
        let (region, rest) = line.split_once(' ')?;
        let (start, end) = region.split_once('-')?;
        (number(start)?..number(end)?).contains(&address).then_some((region, rest))
    })?;
    rest.starts_with("rw-s").then_some(region)
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
    let operation = match bytes {
        _ if sync.is_some() => Operation::Fsync,
        Bytes::None if call.number != libc::SYS_sync_file_range => Operation::Create,
        _ => Operation::Write,
    };
    let bytes = match *bytes {
        Bytes::None => 0,
        Bytes::Argument(at) => call.arguments[at],
        Bytes::Vector { at, count } => vector(call.thread, call.arguments[at], call.arguments[count]),
    };
    let (file, descriptor) = (found.inode, Some(descriptor));
    Some(Wanted { operation, device, file, bytes, descriptor, sync, then_fsync: false })
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
    let parent = match flags_of(call) {
        // The path is that of the directory.
        Some(flags) if flags & UNNAMED != 0 => &whole,
        _ => whole.trim_end_matches('/').rsplit_once('/')?.0,
    };
    let parent = find(&format!("{parent}/"))?;
    let (device, file) = (served.place(call.thread, parent)?, parent.inode);
    Some(Wanted { operation, device, file, bytes: 0, descriptor: None, sync: None, then_fsync: false })
}

/// The flags of a call that opens a file, if they are an argument.
fn flags_of(call: &Intercepted) -> Option<i32> {
    match call.number {
        libc::SYS_openat => Some(call.arguments[2] as i32),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => Some(call.arguments[1] as i32),
        _ => None,
    }
}

/// Whether a call on a path changes anything, given what is there.
fn changes(call: &Intercepted, operation: Operation, existing: Option<Found>) -> bool {
    match call.number {
        _ if flags_of(call).is_some_and(|flags| flags & UNNAMED != 0) => return existing.is_some(),
        // The flags of the last one are in memory.
        libc::SYS_openat | libc::SYS_openat2 => {}
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open | libc::SYS_creat => {}
        libc::SYS_linkat | libc::SYS_symlinkat | libc::SYS_mknodat => return existing.is_none(),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_link | libc::SYS_symlink | libc::SYS_mknod => return existing.is_none(),
        _ => return operation == Operation::Mkdir || existing.is_some(),
    }
    let truncates = flags_of(call).is_none_or(|flags| flags & libc::O_TRUNC != 0);
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
    use crate::filter;

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
    fn every_call_of_the_filter_has_a_place() {
        let flagged = filter::FLAGGED.iter().map(|(named, ..)| named);
        for &(name, number) in filter::CALLS.iter().chain(flagged).filter(|(name, _)| !name.contains("exec"))
        {
            assert!(place(&call(number, [0; 6])).is_some(), "{name}");
        }
    }

    #[test]
    fn a_mapping_is_found_by_its_address() {
        let maps = "7f10-7f20 rw-s 00000000 07:00 12 /m/a b\n7f20-7f30 rw-p 00000000 07:00 13 /m/c\n";
        assert_eq!(shared_at(maps, 0x7f1f), Some("7f10-7f20"));
        assert_eq!((shared_at(maps, 0x7f20), shared_at(maps, 0x7f30)), (None, None));
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
        assert!(changes(libc::O_TMPFILE, file(7)) && !changes(libc::O_TMPFILE, None));
    }
}
