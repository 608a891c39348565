//! Locks that reserve a file for one server: flock(2), which Dwell and other programs use, and the locks of QEMU's
//! programs.
//!
//! Source: `block/file-posix.c` of QEMU 2.10 and later. Each permission has two bytes: a program that uses the permission holds
//! a read lock on the first, a program that does not share it holds one on the second. All programs hold read locks, which do not conflict.
//! A program tests whether another one holds a byte by querying a write lock. The locks belong to the open file (OFD), so
//! they last until it is closed.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use libc::off_t;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::ServeError;

/// The first byte of used permissions (`USED`), and of permissions that are not shared.
const USED: off_t = 100;
const UNSHARED: off_t = 200;

/// The permissions that matter to a server (`BLK_PERM_CONSISTENT_READ`, `BLK_PERM_WRITE`, `BLK_PERM_RESIZE`).
const READ: off_t = 0;
const WRITE: off_t = 1;
const RESIZE: off_t = 3;

/// A server that writes. No other program may write to the file or resize it.
const WRITER: Permissions = Permissions {
    held: &[USED + READ, USED + WRITE, UNSHARED + WRITE, UNSHARED + RESIZE],
    excluded: &[UNSHARED + READ, UNSHARED + WRITE, USED + WRITE, USED + RESIZE],
};

/// A server that only reads. Other programs may read the file as well.
const READER: Permissions = Permissions {
    held: &[USED + READ, UNSHARED + WRITE, UNSHARED + RESIZE],
    excluded: &[UNSHARED + READ, USED + WRITE, USED + RESIZE],
};

/// The bytes that a server holds, and those that no other program may hold.
struct Permissions {
    held: &'static [off_t],
    excluded: &'static [off_t],
}

/// Time for which a lock may outlive its owner. Requests of a killed server in io_uring keep the file open, and therefore
/// locked, until they complete. This prevents writes of the killed server after those of the next one.
pub(crate) const AFTERLIFE: Duration = Duration::from_secs(3);

/// Locks a file until it is closed: exclusively, or shared with other readers if `read_only`.
pub(crate) fn lock(path: &Path, file: &File, read_only: bool) -> Result<(), ServeError> {
    let began = Instant::now();
    while let Err(problem) = try_lock(file, read_only) {
        if began.elapsed() > AFTERLIFE {
            return Err(ServeError::refused(path, problem));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Waits until no process has the file locked for writing, at most for `at_most`. If the file cannot be opened, the back
/// end reports the error later.
pub(crate) fn wait_until_free(path: &Path, at_most: Duration) -> Result<(), ServeError> {
    let began = Instant::now();
    let mut warned = false;
    loop {
        let Ok(file) = File::open(path) else { return Ok(()) };
        // As a reader, which conflicts with a writer.
        match try_lock(&file, true) {
            Ok(()) => return Ok(()),
            Err(problem) if began.elapsed() > at_most => return Err(ServeError::refused(path, problem)),
            Err(_) if !warned && began.elapsed() > AFTERLIFE => {
                warned = true;
                say!("{}: waiting for requests of the former server to end", path.display());
            }
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn try_lock(file: &File, read_only: bool) -> Result<(), &'static str> {
    let (lock, Permissions { held, excluded }) = if read_only {
        (FlockOperation::NonBlockingLockShared, READER)
    } else {
        (FlockOperation::NonBlockingLockExclusive, WRITER)
    };
    flock(file, lock).map_err(|_| "another server or program has locked it")?;
    // Locks are set before they are tested, as in QEMU: of two programs that start at the same time, at least one sees the other.
    if held.iter().all(|&byte| hold(file, byte)) && !excluded.iter().any(|&byte| is_held(file, byte)) {
        return Ok(());
    }
    Err("a program of QEMU writes to it, or permits no other program to do so")
}

/// Sets a read lock on a byte; returns false if another program has a write lock.
fn hold(file: &File, byte: off_t) -> bool {
    // On a file system without such locks QEMU has none either.
    !matches!(control(file, libc::F_OFD_SETLK, libc::F_RDLCK, byte), Err(Errno::AGAIN | Errno::ACCESS))
}

/// Whether another open file holds a lock on a byte.
fn is_held(file: &File, byte: off_t) -> bool {
    control(file, libc::F_OFD_GETLK, libc::F_WRLCK, byte).is_ok_and(|found| found != libc::F_UNLCK)
}

/// Sets a lock on a byte, or queries a conflicting lock; returns the kind of lock that the kernel reports.
fn control(file: &File, command: libc::c_int, kind: libc::c_int, byte: off_t) -> Result<libc::c_int, Errno> {
    let mut lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: both commands take a pointer to this structure, which is valid during the call.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) };
    if result < 0 {
        let error = io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok(lock.l_type.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file opened twice, as by two programs.
    fn opened_twice(name: &str) -> [File; 2] {
        let path = std::env::temp_dir().join(format!("dwell-locks-{name}-{}", std::process::id()));
        let open =
            || File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let files = [open(), open()];
        std::fs::remove_file(path).unwrap();
        files
    }

    #[test]
    fn locks_are_visible_to_others_until_the_file_is_closed() {
        let [ours, theirs] = opened_twice("held");
        try_lock(&ours, false).unwrap();
        let seen = (0..300).filter(|&byte| is_held(&theirs, byte));
        assert_eq!(seen.collect::<Vec<_>>(), [100, 101, 201, 203]);
        assert!((0..300).all(|byte| !is_held(&ours, byte)), "a program does not see its own locks");
        drop(ours);
        try_lock(&theirs, false).unwrap();
    }

    #[test]
    fn readers_share_a_file_with_readers_and_not_with_writers() {
        for (first, second) in [(true, true), (true, false), (false, true), (false, false)] {
            let [ours, theirs] = opened_twice(&format!("shared-{first}-{second}"));
            try_lock(&theirs, first).unwrap();
            assert_eq!(try_lock(&ours, second).is_ok(), first && second, "{first} {second}");
        }
    }

    #[test]
    fn a_conflicting_qemu_program_prevents_serving() {
        for (byte, fits) in [(100, true), (101, false), (103, false), (200, false), (201, false), (203, true)]
        {
            let [ours, theirs] = opened_twice(&byte.to_string());
            assert!(hold(&theirs, byte));
            assert_eq!(try_lock(&ours, false).is_ok(), fits, "{byte}");
        }
        let [ours, theirs] = opened_twice("exclusive");
        control(&theirs, libc::F_OFD_SETLK, libc::F_WRLCK, 201).unwrap();
        assert!(try_lock(&ours, false).is_err(), "another program has a write lock");
    }
}
