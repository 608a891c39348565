//! A process that takes down the attached device when its supervisor and its server were killed together.
//!
//! The kernel then fails the requests to the device, as no process has the FUSE descriptor any more, but the loop device and the mount would stay until the
//! next server starts. The watcher has no descriptor of the device and does nothing before the supervisor's end. If a server still serves the device then, it
//! waits for the server's end as well.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use crate::attach;

/// Starts it. The calling process must have one thread only, as it forks.
pub(super) fn start(directory: &Path) -> io::Result<()> {
    let supervisor = pidfd_open(getpid(), PidfdFlags::empty())?;
    let number = process::id();
    // SAFETY: this process has one thread, so its children may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // Its parent is the first process, so that the supervisor's children are its servers.
            // SAFETY: as above.
            if unsafe { libc::fork() } == 0 {
                leave(&supervisor);
                watch(directory, &supervisor, number);
            }
            // SAFETY: ends the process without the parent's exit handlers.
            unsafe { libc::_exit(0) }
        }
        child => {
            // SAFETY: takes numbers, and no place for the status.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            Ok(())
        }
    }
}

/// Leaves the terminal, the directory and the open files of the supervisor.
fn leave(keep: &OwnedFd) {
    let keep = keep.as_raw_fd() as u32;
    // SAFETY: system calls on this process's own descriptors, none of which is used afterwards but `keep`.
    unsafe {
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for fd in 0..3 {
            libc::dup2(null, fd);
        }
        if keep > 3 {
            libc::syscall(libc::SYS_close_range, 3, keep - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, keep + 1, u32::MAX, 0);
        libc::prctl(libc::PR_SET_NAME, c"dwell-watcher".as_ptr());
        let _ = libc::chdir(c"/".as_ptr());
    }
}

fn watch(directory: &Path, supervisor: &OwnedFd, number: u32) {
    let started = attach::process(number);
    while poll(&mut [PollFd::new(supervisor, PollFlags::IN)], None).is_err() {}
    attach::take_down_of(directory, started);
}
