//! The locks that keep a file to one server: flock(2), which Dwell's and others' take, and those by which QEMU's programs know of
//! each other.
//!
//! Source: `block/file-posix.c` of QEMU 2.10 and later. Each permission has a byte of its own, or rather two: whoever uses it holds
//! a read lock on the one, whoever does not share it on the other. All hold read locks, so taking them tells nobody anything;
//! to ask whether somebody holds a byte is to ask whether a write lock could be had. The locks are the open file's (OFD), so
//! they last for as long as it does.

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

/// The first byte of those who use a permission, and of those who do not share it.
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

/// How long a lock may outlive its owner. What io_uring had under way when a server was killed holds the file, and with it
/// the lock, until it is done: this is what keeps the writes of a dead server from landing among those of the next one.
pub(crate) const AFTERLIFE: Duration = Duration::from_secs(3);

/// Locks a file as long as it is open: for this server alone, or, if it is `read_only`, for readers.
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

/// Waits until no process has the file locked for writing, at most so long. A file that cannot be opened is left to
/// the back end, which reports why.
pub(crate) fn wait_until_free(path: &Path, at_most: Duration) -> Result<(), ServeError> {
    let began = Instant::now();
    let mut warned = false;
    loop {
        let Ok(file) = File::open(path) else { return Ok(()) };
        // As a reader, which a writer excludes.
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
    flock(file, lock).map_err(|_| "another server, or somebody else, has locked it")?;
    // Told before it is asked, as QEMU does: of two that begin at once, neither goes on without having seen the other.
    if held.iter().all(|&byte| hold(file, byte)) && !excluded.iter().any(|&byte| is_held(file, byte)) {
        return Ok(());
    }
    Err("a program of QEMU writes to it, or lets nobody else do so")
}

/// Holds a byte, unless somebody keeps it from everybody.
fn hold(file: &File, byte: off_t) -> bool {
    // A file system that has no such locks has none of QEMU's either.
    !matches!(control(file, libc::F_OFD_SETLK, libc::F_RDLCK, byte), Err(Errno::AGAIN | Errno::ACCESS))
}

/// Whether somebody else holds a byte.
fn is_held(file: &File, byte: off_t) -> bool {
    control(file, libc::F_OFD_GETLK, libc::F_WRLCK, byte).is_ok_and(|found| found != libc::F_UNLCK)
}

/// Sets a lock on a byte, or asks for what is in its way; the kind of lock that is then told.
fn control(file: &File, command: libc::c_int, kind: libc::c_int, byte: off_t) -> Result<libc::c_int, Errno> {
    let mut lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: both commands take a pointer to such a structure, which lives across the call.
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

    /// Two open files, as two programs have them.
    fn opened_twice(name: &str) -> [File; 2] {
        let path = std::env::temp_dir().join(format!("dwell-locks-{name}-{}", std::process::id()));
        let open =
            || File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let files = [open(), open()];
        std::fs::remove_file(path).unwrap();
        files
    }

    #[test]
    fn what_a_server_holds_is_seen_by_others_until_it_closes_the_file() {
        let [ours, theirs] = opened_twice("held");
        try_lock(&ours, false).unwrap();
        let seen = (0..300).filter(|&byte| is_held(&theirs, byte));
        assert_eq!(seen.collect::<Vec<_>>(), [100, 101, 201, 203]);
        assert!((0..300).all(|byte| !is_held(&ours, byte)), "its own are no others'");
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
    fn who_writes_or_resizes_or_shares_too_little_is_not_served_beside() {
        for (byte, fits) in [(100, true), (101, false), (103, false), (200, false), (201, false), (203, true)]
        {
            let [ours, theirs] = opened_twice(&byte.to_string());
            assert!(hold(&theirs, byte));
            assert_eq!(try_lock(&ours, false).is_ok(), fits, "{byte}");
        }
        let [ours, theirs] = opened_twice("exclusive");
        control(&theirs, libc::F_OFD_SETLK, libc::F_WRLCK, 201).unwrap();
        assert!(try_lock(&ours, false).is_err(), "somebody keeps it from everybody");
    }
}
