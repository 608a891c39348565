//! A process that takes down the attached device when its supervisor and its server were killed together.
//!
//! The kernel then fails the requests to the device, as no process has the FUSE descriptor any more, but the loop device and the mount would stay until the
//! next server starts. The watcher has no descriptor of the device and does nothing before the supervisor's end. If a server still serves the device then, it
//! waits for the server's end as well.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process;

use ::control::process::detach;
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
                detach(c"dwell-watcher", Some(supervisor.as_fd()));
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

fn watch(directory: &Path, supervisor: &OwnedFd, number: u32) {
    let started = attach::process(number);
    while poll(&mut [PollFd::new(supervisor, PollFlags::IN)], None).is_err() {}
    attach::take_down_of(directory, started);
}
