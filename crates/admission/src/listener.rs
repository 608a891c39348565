//! The listener of a filter: intercepted calls in, answers out.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// `_IOWR('!', nr, size)`, as in `linux/seccomp.h`.
const fn request(direction: u64, number: u64, size: usize) -> libc::c_ulong {
    direction << 30 | (size as u64) << 16 | (b'!' as u64) << 8 | number
}

const RECEIVE: libc::c_ulong = request(3, 0, size_of::<libc::seccomp_notif>());
const SEND: libc::c_ulong = request(3, 1, size_of::<libc::seccomp_notif_resp>());

const SET_FLAGS: libc::c_ulong = request(1, 4, size_of::<u64>());

/// The caller and the agent wake each other on the same processor, as each then waits for the other one: on another processor, a wake-up takes
/// several times as long. Since Linux 6.6; elsewhere it has no effect.
pub(crate) fn wake_here(listener: BorrowedFd<'_>) {
    const SYNC_WAKE_UP: libc::c_ulong = 1;
    // SAFETY: takes numbers only.
    unsafe { libc::ioctl(listener.as_raw_fd(), SET_FLAGS, SYNC_WAKE_UP) };
}

/// The kernel executes the call as if it had not been intercepted.
const CONTINUE: u32 = 1;

/// An intercepted call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Intercepted {
    pub(crate) id: u64,
    /// The thread, in this process's namespace.
    pub(crate) thread: u32,
    pub(crate) number: libc::c_long,
    pub(crate) arguments: [u64; 6],
}

/// Receives the next call. `None`: its thread ended meanwhile.
pub(crate) fn receive(listener: BorrowedFd<'_>) -> io::Result<Option<Intercepted>> {
    // SAFETY: all zeroes are valid, and the kernel requires them.
    let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one structure of this size.
    if unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut call) } == 0 {
        let (number, arguments) = (libc::c_long::from(call.data.nr), call.data.args);
        return Ok(Some(Intercepted { id: call.id, thread: call.pid, number, arguments }));
    }
    match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => Ok(None),
        error => Err(error),
    }
}

fn send(listener: BorrowedFd<'_>, mut answer: libc::seccomp_notif_resp) {
    // It fails if the call's thread has ended.
    // SAFETY: the kernel reads one structure of this size.
    unsafe { libc::ioctl(listener.as_raw_fd(), SEND, &raw mut answer) };
}

/// Lets a call continue.
pub(crate) fn proceed(listener: BorrowedFd<'_>, id: u64) {
    send(listener, libc::seccomp_notif_resp { id, val: 0, error: 0, flags: CONTINUE });
}

/// Ends a call that the agent has carried out, with 0 or an error number.
pub(crate) fn finish(listener: BorrowedFd<'_>, id: u64, error: i32) {
    send(listener, libc::seccomp_notif_resp { id, val: 0, error: -error, flags: 0 });
}

/// Lets a call's thread handle a signal. The kernel then begins the call anew, or it fails with EINTR, as the handler was installed. The thread
/// must have a signal to handle: otherwise the program would get this number.
pub(crate) fn interrupt(listener: BorrowedFd<'_>, id: u64) {
    const RESTART: i32 = 512; // ERESTARTSYS
    finish(listener, id, RESTART);
}

/// What became ready of the listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Readiness {
    /// A call waits.
    Call,
    /// No process has the filter any more.
    Ended,
    Nothing,
}

/// Classifies what `poll` returned.
pub(crate) fn readiness(events: libc::c_short) -> Readiness {
    if events & libc::POLLIN != 0 {
        Readiness::Call
    } else if events & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 {
        Readiness::Ended
    } else {
        Readiness::Nothing
    }
}

/// Waits until one of the descriptors is ready, at most `timeout` ms if that is not negative; returns the listener's events, and whether each of
/// the others has any.
pub(crate) fn poll(
    listener: &OwnedFd,
    others: impl Iterator<Item = Option<i32>>,
    timeout: libc::c_int,
) -> (libc::c_short, Vec<bool>) {
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let others = others.map(|fd| entry(fd.unwrap_or(-1)));
    let mut all: Vec<_> = std::iter::once(entry(listener.as_raw_fd())).chain(others).collect();
    // SAFETY: the entries live during the call.
    unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, timeout) };
    (all[0].revents, all[1..].iter().map(|entry| entry.revents != 0).collect())
}
