//! The keeper: a process that holds the listener as well, and lets every call continue when the agent has ended.
//!
//! Without it, the kernel would fail every held and later call with ENOSYS when the agent's listener closes. It is forked before any thread
//! exists, makes no system call that its parent's filter could intercept (it has none), and ends with the last process under the filter, or when
//! another agent has taken the listener over ([`takeover`](crate::takeover)).

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use control::process::detach;

use crate::handed::{Received, receive_fd};
use crate::listener::{Readiness, poll, proceed, readiness, receive};
use crate::takeover;

/// Calls that the agent may have received without noting them: one for each of its threads that receives, and some more.
const MARGIN: u64 = 64;

/// Forks the keeper; returns its process number. `agent` is the keeper's end of a pair whose other end only the agent has.
pub(crate) fn fork(agent: UnixStream, received: &Received) -> std::io::Result<libc::pid_t> {
    // SAFETY: this process has one thread, as documented at `run`, so the child may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        0 => {
            detach(c"dwell-keeper", Some(agent.as_fd()));
            keep(&agent, received);
            // SAFETY: ends the process without the parent's exit handlers.
            unsafe { libc::_exit(0) }
        }
        keeper => Ok(keeper),
    }
}

/// Waits for the listener, then for the agent's end, then answers.
fn keep(agent: &UnixStream, received: &Received) {
    let Ok(Some(listener)) = receive_fd(agent) else { return };
    let dismissal = takeover::dismissal().ok();
    // The agent starts the program only when the keeper has the listener.
    let _ = rustix::io::write(agent, &[1]);
    while !has_ended(agent) {}
    for id in received.unanswered(MARGIN) {
        proceed(listener.as_fd(), id);
    }
    answer_all(&listener, dismissal.as_ref());
}

/// Blocks until the agent has closed its end: it never sends a second byte.
fn has_ended(agent: &UnixStream) -> bool {
    match rustix::io::read(agent, &mut [0_u8; 1]) {
        Ok(length) => length == 0,
        Err(error) => error != rustix::io::Errno::INTR,
    }
}

/// Lets every call continue until no process has the filter any more, or `dismissal` is readable.
pub(crate) fn answer_all(listener: &OwnedFd, dismissal: Option<&OwnedFd>) {
    loop {
        let others = dismissal.map(|fd| Some(fd.as_raw_fd())).into_iter();
        let (calls, others) = poll(listener, others, -1);
        match readiness(calls) {
            Readiness::Call => {
                let Ok(call) = receive(listener.as_fd()) else { return };
                if let Some(call) = call {
                    if let Some(name) = takeover::name(&call).filter(|_| dismissal.is_some()) {
                        // SAFETY: the name lives during the call.
                        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
                    }
                    proceed(listener.as_fd(), call.id);
                }
            }
            Readiness::Ended => return,
            Readiness::Nothing => {}
        }
        // Between two calls: one that was received must be answered.
        if others.contains(&true) {
            return;
        }
    }
}
