//! The signals that end a program, as a descriptor.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

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

/// The program that gets the signals of this process; 0 until it runs.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// Signals that it has not got yet, by bits.
static ARRIVED: AtomicI32 = AtomicI32::new(0);

/// A terminal sends SIGINT and SIGQUIT to the program as well, which decides.
const OF_TERMINALS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

extern "C" fn arrived(signal: libc::c_int, from: *const libc::siginfo_t, _: *const libc::c_void) {
    // SAFETY: the kernel passes a valid pointer.
    let is_of_kernel = unsafe { (*from).si_code } > 0;
    if !(is_of_kernel && OF_TERMINALS.contains(&signal)) {
        ARRIVED.fetch_or(1 << signal, Ordering::SeqCst);
        pass_on();
    }
}

fn pass_on() {
    let program = PROGRAM.load(Ordering::SeqCst);
    if program <= 0 {
        return;
    }
    let arrived = ARRIVED.swap(0, Ordering::SeqCst);
    for signal in (1..i32::BITS as libc::c_int - 1).filter(|signal| arrived >> signal & 1 == 1) {
        // SAFETY: takes numbers only, and may be called by a signal's handler.
        unsafe { libc::kill(program, signal) };
    }
}

/// Passes SIGTERM, and SIGINT and SIGQUIT of other processes, on to the program that [`pass_on_to`] names: it would continue without its agent
/// after the first one, and the senders want it to end.
pub(crate) fn pass_on_signals() {
    for signal in [libc::SIGTERM].into_iter().chain(OF_TERMINALS) {
        // SAFETY: zeroes are valid, and the handler only uses atomic variables and a system call.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = arrived as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// The program runs. Signals that arrived before are passed on now.
pub(crate) fn pass_on_to(program: u32) {
    PROGRAM.store(program as i32, Ordering::SeqCst);
    pass_on();
}

/// Signals by which a program is asked to end.
const ENDING: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Signals that end a program that does not handle them after writing its memory to a file. The kernel does not wake a held thread for them either.
const DUMPING: [libc::c_int; 2] = [libc::SIGQUIT, libc::SIGABRT];

/// Whether a thread that is held has such a signal to handle. The kernel wakes it for signals that end it at once, not for those that it handles.
/// If a signal is for any thread of the process, the kernel has chosen the main thread, or one that has handled it by now: of another thread this
/// would be unknown, and the kernel begins a call anew only for the thread that it has chosen.
pub(crate) fn is_asked_to_end(thread: u32) -> bool {
    fs::read_to_string(format!("/proc/{thread}/status")).is_ok_and(|status| must_handle(&status))
}

/// Whether a process was killed: what is left of its threads waits in the kernel.
pub(crate) fn is_killed(process: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return true };
    let statuses = threads.flatten().map(|thread| fs::read_to_string(thread.path().join("status")));
    // A thread without one has ended meanwhile.
    statuses.flatten().all(|status| is_ending(&status))
}

fn is_ending(status: &str) -> bool {
    let has_ended = field(status, "State").is_some_and(|state| state.starts_with(['Z', 'X']));
    has_ended || (signals(status, "SigPnd") | signals(status, "ShdPnd")) & 1 << (libc::SIGKILL - 1) != 0
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn signals(status: &str, name: &str) -> u64 {
    field(status, name).and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0)
}

fn must_handle(status: &str) -> bool {
    let (field, signals) = (|name| field(status, name), |name| signals(status, name));
    let of_process = if field("Pid") == field("Tgid") { signals("ShdPnd") } else { 0 };
    let set = |all: &[libc::c_int]| all.iter().fold(0, |set, signal| set | 1 << (signal - 1));
    let handled = signals("SigCgt");
    let wanted = handled & set(&ENDING) | !handled & !signals("SigIgn") & set(&DUMPING);
    (signals("SigPnd") | of_process) & !signals("SigBlk") & wanted != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_killed_when_no_thread_runs_on() {
        assert!(is_killed(u32::MAX) && !is_killed(std::process::id()));
        let status =
            |state: &str, pending: u64| format!("State:\t{state}\nSigPnd:\t{pending:016x}\nShdPnd:\t0\n");
        assert!(is_ending(&status("D (disk sleep)", 1 << 8)) && is_ending(&status("Z (zombie)", 0)));
        assert!(!is_ending(&status("D (disk sleep)", 1 << 14)) && !is_ending(&status("S (sleeping)", 0)));
    }

    #[test]
    fn a_thread_is_asked_to_end_by_a_signal_that_it_handles_and_does_not_block() {
        let status = |pid: u32, fields: [u64; 4]| {
            let [own, shared, blocked, handled] = fields;
            must_handle(&format!(
                "Name:\tSigPnd: \nTgid:\t7\nPid:\t{pid}\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\nSigIgn:\t00\nSigCgt:\t{handled:016x}\n"
            ))
        };
        let (int, quit, term, usr1) = (1 << 1, 1 << 2, 1 << 14, 1 << 9);
        assert!(status(7, [0, quit, 0, 0]) && !status(7, [0, quit, quit, 0]) && !status(7, [0, term, 0, 0]));
        assert!(status(7, [0, int, 0, int]) && status(7, [0, term, int, int | term]));
        assert!(
            !status(7, [0, int, int, int]) && !status(7, [0, int, 0, term]) && !status(7, [0, usr1, 0, usr1])
        );
        assert!(status(8, [int, 0, 0, int]) && !status(8, [0, int, 0, int]), "not the main thread");
    }
}
