//! Takes the listener of a filter over from the keeper of an agent that has ended.
//!
//! A process has one filter with a listener, and the kernel accepts a second one only when the first listener is closed everywhere. All calls in
//! between would fail. So a program whose agent has ended keeps its filter, and the next agent gets the keeper's listener. To find that keeper, the program
//! calls `fsync` on an invalid descriptor with a number in it; the keeper that answers the call puts the number into its process name.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use crate::handed::{pidfd, take_fd};
use crate::listener::Intercepted;

/// A descriptor that no process has: `fsync` on it fails, whatever answers the call.
const NONE: u32 = 0xffff_d3e1;

/// What a listener is called in `/proc`.
const LISTENER: &str = "anon_inode:seccomp notify";

/// The listener of a filter whose calls are to be answered.
pub struct Listener {
    pub(crate) fd: OwnedFd,
    /// The keeper that answers calls until it is dismissed.
    pub(crate) former: Option<OwnedFd>,
}

impl From<OwnedFd> for Listener {
    fn from(fd: OwnedFd) -> Self {
        Self { fd, former: None }
    }
}

impl Listener {
    /// Ends the keeper that had the listener, as soon as it has answered what it received, and waits for its end.
    pub(crate) fn dismiss(former: &OwnedFd) {
        let mut ended = libc::pollfd { fd: former.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: takes numbers, no information, and an entry that lives during the call.
        unsafe {
            let none = std::ptr::null::<libc::siginfo_t>();
            libc::syscall(libc::SYS_pidfd_send_signal, former.as_raw_fd(), libc::SIGUSR1, none, 0);
            // If it takes longer, two processes answer calls, which is no harm but that some are not held.
            libc::poll(&raw mut ended, 1, 10_000);
        }
    }
}

/// The arguments of the `fsync` with which a program makes its keeper known.
pub(crate) fn arguments(number: u32) -> [u64; 6] {
    [NONE.into(), number.into(), 0, 0, 0, 0]
}

/// The name of the keeper that answers this call, if it is such an `fsync`.
pub(crate) fn name(call: &Intercepted) -> Option<CString> {
    let is_it = call.number == libc::SYS_fsync && call.arguments[0] as u32 == NONE;
    is_it.then(|| CString::new(text(call.arguments[1] as u32)).ok()).flatten()
}

/// At most 15 characters.
fn text(number: u32) -> String {
    format!("keeper-{number:08x}")
}

/// The listener of the keeper that took this number into its name; `None` if there is none: an agent answers the calls, or another program.
pub(crate) fn find(number: u32) -> Option<Listener> {
    let keeper = named(number)?;
    let descriptors = fs::read_dir(format!("/proc/{keeper}/fd")).ok()?.flatten();
    let descriptor =
        { descriptors }.find(|fd| is_listener(&fd.path()))?.file_name().to_str()?.parse().ok()?;
    // The keeper first: it stays until it is dismissed.
    let former = pidfd(keeper).ok()?;
    Some(Listener { fd: take_fd(keeper, descriptor).ok()?, former: Some(former) })
}

/// Whether a descriptor in `/proc` is the listener of a filter.
pub(crate) fn is_listener(descriptor: &Path) -> bool {
    fs::read_link(descriptor).is_ok_and(|to| to.as_os_str() == LISTENER)
}

/// Whether a keeper answers this process's calls as well, so that this process has the filter whose listener it would take over: its own calls would wait
/// for itself, and it would count as a process that has the filter, whose end it waits for.
pub(crate) fn is_own_keeper(number: u32) -> bool {
    let [descriptor, argument, ..] = arguments(number);
    // SAFETY: no such descriptor, and the further argument is a number.
    unsafe { libc::syscall(libc::SYS_fsync, descriptor, argument) };
    named(number).is_some()
}

/// The keeper that took a number into its name.
fn named(number: u32) -> Option<u32> {
    let all = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.find(|process| {
        fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.trim_end() == text(number))
    })
}

/// A descriptor that becomes readable when this process, a keeper, is dismissed.
pub(crate) fn dismissal() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by `sigemptyset`, and the descriptor is new.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGUSR1);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_call_of_a_search_names_the_keeper() {
        let call = |number, arguments| Intercepted { id: 1, thread: 1, number, arguments };
        let named = name(&call(libc::SYS_fsync, arguments(0x1a2b))).unwrap();
        assert_eq!(named.to_str(), Ok("keeper-00001a2b"));
        assert_eq!(name(&call(libc::SYS_fdatasync, arguments(1))), None);
        assert_eq!(name(&call(libc::SYS_fsync, [u64::MAX, 1, 0, 0, 0, 0])), None, "as `install` makes it");
        assert!(find(0xffff_fff1).is_none());
    }
}
