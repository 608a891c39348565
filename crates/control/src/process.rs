//! Facts about a process from `/proc`, and a process that outlives the one which forked it.

use std::ffi::CStr;
use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Leaves the session, the directory and the open files of the parent, whose terminal and pipes must close with it: for a process that has just been
/// forked and is to outlive its parent. It ignores the signals of a terminal and closes every descriptor but `keep`. `name`: as in `ps`, at most 15
/// bytes.
pub fn detach(name: &CStr, keep: Option<BorrowedFd<'_>>) {
    let keep = keep.map_or(-1, |keep| keep.as_raw_fd());
    // SAFETY: system calls on this process's own descriptors, none of which is used afterwards but `keep`.
    unsafe {
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for fd in 0..3 {
            if fd != keep {
                libc::dup2(null, fd);
            }
        }
        let (before, after) = (keep.max(3) as u32, (keep + 1) as u32);
        if before > 3 {
            libc::syscall(libc::SYS_close_range, 3, before - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, after.max(3), u32::MAX, 0);
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        let _ = libc::chdir(c"/".as_ptr());
    }
}

/// A process's `stat`.
pub struct Stat(String);

impl Stat {
    /// None if no process has that number.
    pub fn of(pid: u32) -> Option<Self> {
        fs::read_to_string(format!("/proc/{pid}/stat")).ok().map(Self)
    }

    /// A field by its number in proc_pid_stat(5), from 3 on: the second one is a name in parentheses, which may contain any characters, also
    /// parentheses and spaces.
    fn field(&self, number: usize) -> Option<&str> {
        self.0.rsplit_once(')')?.1.split_whitespace().nth(number.checked_sub(3)?)
    }

    fn number<T: std::str::FromStr>(&self, number: usize) -> Option<T> {
        self.field(number)?.parse().ok()
    }

    /// Whether it runs: it has not ended, does not end, and has not been killed. A killed process may stay for as long as one of its threads waits in
    /// the kernel, for example for the device that it served itself; its first thread then may have ended before.
    pub fn runs(&self) -> bool {
        const EXITING: u32 = 4; // PF_EXITING
        const KILL: u64 = 1 << 8; // SIGKILL
        let is_exiting = self.number::<u32>(9).is_none_or(|flags| flags & EXITING != 0);
        let is_killed = self.number::<u64>(31).is_some_and(|pending| pending & KILL != 0);
        !matches!(self.field(3), Some("Z" | "X")) && !is_exiting && !is_killed
    }

    /// Whether it is a thread of the kernel.
    pub fn is_of_kernel(&self) -> bool {
        const KTHREAD: u32 = 0x20_0000; // PF_KTHREAD
        self.number::<u32>(9).is_some_and(|flags| flags & KTHREAD != 0)
    }

    /// The number of its parent.
    pub fn parent(&self) -> Option<u32> {
        self.number(4)
    }

    /// When it started, in clock ticks since boot.
    pub fn started(&self) -> Option<u64> {
        self.number(22)
    }
}

/// When a process that [runs](Stat::runs) started, in clock ticks since boot.
pub fn start_time(pid: u32) -> Option<u64> {
    Stat::of(pid).filter(Stat::runs)?.started()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ends_or_was_killed_does_not_run() {
        let stat = |state: &str, flags: u32, pending: u64| {
            let before = format!("7 (a (b) c) {state} 1 7 7 0 -1 {flags}");
            Stat(format!("{before} 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0 0 0 0 0 0 0 {pending} 0 0 0"))
        };
        assert!(stat("S", 0x40_0100, 0).runs() && stat("D", 0, 1 << 14).runs());
        assert!(!stat("Z", 0, 0).runs() && !stat("D", 0x40_0104, 0).runs() && !stat("D", 0, 1 << 8).runs());
        assert_eq!((stat("S", 0, 0).started(), stat("S", 0, 0).parent()), (Some(4711), Some(1)));
        assert!(Stat::of(std::process::id()).unwrap().runs());
        assert!(stat("I", 0x20_8040, 0).is_of_kernel() && !stat("S", 0x40_0100, 0).is_of_kernel());
    }
}
