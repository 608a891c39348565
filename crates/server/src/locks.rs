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

/// A server reads and writes; nobody else may write, and what it serves keeps its size.
const HELD: [off_t; 4] = [USED + READ, USED + WRITE, UNSHARED + WRITE, UNSHARED + RESIZE];

/// Which others it cannot be beside.
const OTHERS: [off_t; 4] = [UNSHARED + READ, UNSHARED + WRITE, USED + WRITE, USED + RESIZE];

/// How long a lock may outlive its owner. What io_uring had under way when a server was killed holds the file, and with it
/// the lock, until it is done: this is what keeps the writes of a dead server from landing among those of the next one.
pub(crate) const AFTERLIFE: Duration = Duration::from_secs(3);

/// Locks a file for this server alone, for as long as it is open.
pub(crate) fn lock(path: &Path, file: &File) -> Result<(), ServeError> {
    let began = Instant::now();
    while let Err(problem) = try_lock(file) {
        if began.elapsed() > AFTERLIFE {
            return Err(ServeError::refused(path, problem));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn try_lock(file: &File) -> Result<(), &'static str> {
    flock(file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| "another server, or somebody else, has locked it")?;
    // Told before it is asked, as QEMU does: of two that begin at once, neither goes on without having seen the other.
    if HELD.into_iter().all(|byte| hold(file, byte)) && !OTHERS.into_iter().any(|byte| is_held(file, byte)) {
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
        try_lock(&ours).unwrap();
        let seen = (0..300).filter(|&byte| is_held(&theirs, byte));
        assert_eq!(seen.collect::<Vec<_>>(), [100, 101, 201, 203]);
        assert!((0..300).all(|byte| !is_held(&ours, byte)), "its own are no others'");
        drop(ours);
        try_lock(&theirs).unwrap();
    }

    #[test]
    fn who_writes_or_resizes_or_shares_too_little_is_not_served_beside() {
        for (byte, fits) in [(100, true), (101, false), (103, false), (200, false), (201, false), (203, true)]
        {
            let [ours, theirs] = opened_twice(&byte.to_string());
            assert!(hold(&theirs, byte));
            assert_eq!(try_lock(&ours).is_ok(), fits, "{byte}");
        }
        let [ours, theirs] = opened_twice("exclusive");
        control(&theirs, libc::F_OFD_SETLK, libc::F_WRLCK, 201).unwrap();
        assert!(try_lock(&ours).is_err(), "somebody keeps it from everybody");
    }
}
