//! Signals of a supervisor, by signalfd(2): unlike a handler that writes to a socket, it allocates no memory.

use std::fs::File;
use std::io::{self, Read};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};

use crate::ending::is_ignored;

/// Signals that end a server.
const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The signals that a supervisor handles: blocked, and read from the descriptor.
pub(super) struct Signals(File);

impl Signals {
    /// Blocks the signals for this thread and those that it starts.
    pub(super) fn new() -> io::Result<Self> {
        // A supervisor that `nohup` has started ignores SIGHUP, and so does the server.
        let wanted = ENDING.into_iter().filter(|&signal| signal != libc::SIGHUP || !is_ignored(signal));
        let set = set_of(wanted.chain([libc::SIGCHLD]));
        // SAFETY: the set is initialised.
        let descriptor = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC)
        };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, so it has no other owner.
        Ok(Self(unsafe { File::from_raw_fd(descriptor) }))
    }

    /// The next signal that has arrived.
    pub(super) fn next(&mut self) -> Option<libc::c_int> {
        let mut bytes = [0; size_of::<libc::signalfd_siginfo>()];
        self.0.read_exact(&mut bytes).ok()?;
        // `ssi_signo` is the first field.
        let number = u32::from_ne_bytes(bytes[..4].try_into().ok()?);
        libc::c_int::try_from(number).ok()
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn set_of(signals: impl IntoIterator<Item = libc::c_int>) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the set is initialised before a signal is added.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// Lets a server receive the signals that were blocked when its supervisor started it.
pub(super) fn unblock() {
    let set = set_of(ENDING.into_iter().chain([libc::SIGCHLD]));
    // SAFETY: the set is initialised.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) };
}
