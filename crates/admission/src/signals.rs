//! The signals that end a program, as a descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// SIGINT, SIGTERM and SIGHUP of this process, which only [`wait`](Self::wait) receives.
pub struct Signals(OwnedFd);

impl Signals {
    /// Blocks the signals. Children of [`in_child`](crate::in_child) receive them as usual.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let set = set();
        mask(libc::SIG_BLOCK);
        // SAFETY: the set is initialised, and the descriptor is new.
        match unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: as above.
            fd => Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) })),
        }
    }

    /// Waits until `other` can be read; `false` if a signal arrived.
    ///
    /// # Errors
    /// The kernel cannot wait.
    pub fn wait(&self, other: impl AsFd) -> io::Result<bool> {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut both = [entry(self.0.as_raw_fd()), entry(other.as_fd().as_raw_fd())];
        // SAFETY: the entries live during the call.
        while unsafe { libc::poll(both.as_mut_ptr(), 2, -1) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(both[0].revents == 0)
    }
}

fn set() -> libc::sigset_t {
    // SAFETY: `sigemptyset` initialises the set.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

fn mask(how: libc::c_int) {
    let set = set();
    // SAFETY: the set is initialised.
    unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) };
}

/// Lets a child receive the signals that its parent has blocked.
pub(crate) fn unblock() {
    mask(libc::SIG_UNBLOCK);
}

/// The program that gets a SIGTERM of this process; 0 until it runs.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
static IS_TERMINATED: AtomicBool = AtomicBool::new(false);

extern "C" fn terminated(_: libc::c_int) {
    IS_TERMINATED.store(true, Ordering::SeqCst);
    pass_on();
}

fn pass_on() {
    let program = PROGRAM.load(Ordering::SeqCst);
    if program > 0 && IS_TERMINATED.swap(false, Ordering::SeqCst) {
        // SAFETY: takes numbers only, and may be called by a signal's handler.
        unsafe { libc::kill(program, libc::SIGTERM) };
    }
}

/// Passes SIGTERM on to the program that [`pass_on_to`] names: without its agent it would continue without limits.
pub(crate) fn pass_on_termination() {
    // SAFETY: the handler only uses atomic variables and a system call.
    unsafe { libc::signal(libc::SIGTERM, terminated as extern "C" fn(libc::c_int) as libc::sighandler_t) };
}

/// The program runs. A SIGTERM that arrived before is passed on now.
pub(crate) fn pass_on_to(program: u32) {
    PROGRAM.store(program as i32, Ordering::SeqCst);
    pass_on();
}
