//! Admitted calls that the kernel executes, until they end. The kernel does not report the end.
//!
//! A call has ended when its thread makes the next one. A thread that makes none is looked up in `/proc`: a writer may be throttled, or wait for
//! a transaction, for much longer than an account without calls and dirty pages counts as active.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

/// How often threads are looked up.
const LOOK: Duration = Duration::from_millis(10);

struct Call {
    number: u32,
    /// The number of the system call.
    system_call: libc::c_long,
}

/// The calls, by thread.
pub(crate) struct Continuing {
    calls: HashMap<u32, Call>,
    looked: Instant,
}

impl Continuing {
    pub(crate) fn new() -> Self {
        Self { calls: HashMap::new(), looked: Instant::now() }
    }

    /// A thread's call continues.
    pub(crate) fn begins(&mut self, thread: u32, number: u32, system_call: libc::c_long) {
        if self.calls.is_empty() {
            self.looked = Instant::now();
        }
        self.calls.insert(thread, Call { number, system_call });
    }

    /// A thread makes another call; returns the number of its previous one, if that continued.
    pub(crate) fn ends(&mut self, thread: u32) -> Option<u32> {
        self.calls.remove(&thread).map(|call| call.number)
    }

    /// Forgets all calls but those whose numbers `stay`.
    pub(crate) fn retain(&mut self, stay: impl Fn(u32) -> bool) {
        self.calls.retain(|_, call| stay(call.number));
    }

    /// When to look again, in ms for `poll`: never, if no call continues.
    pub(crate) fn timeout(&self) -> libc::c_int {
        let left = LOOK.saturating_sub(self.looked.elapsed());
        if self.calls.is_empty() { -1 } else { left.as_millis() as libc::c_int + 1 }
    }

    /// The calls of threads that are in no system call, or in another one, if it is time to look.
    pub(crate) fn ended(&mut self) -> Vec<u32> {
        if self.looked.elapsed() < LOOK {
            return Vec::new();
        }
        self.looked = Instant::now();
        let mut ended = Vec::new();
        self.calls.retain(|&thread, call| {
            let text = fs::read_to_string(format!("/proc/{thread}/syscall")).unwrap_or_default();
            let continues = is_in(&text, call.system_call);
            ended.extend((!continues).then_some(call.number));
            continues
        });
        ended
    }
}

/// Whether a thread is blocked in this system call. It is not known of one that runs.
fn is_in(text: &str, system_call: libc::c_long) -> bool {
    text.split_whitespace().next().and_then(|number| number.parse().ok()) == Some(system_call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_ends_with_the_threads_next_one_or_when_the_thread_is_elsewhere() {
        let mut continuing = Continuing::new();
        assert_eq!(continuing.timeout(), -1);
        continuing.begins(u32::MAX, 5, libc::SYS_write);
        continuing.begins(7, 6, libc::SYS_write);
        assert!((0..=11).contains(&continuing.timeout()));
        assert_eq!((continuing.ends(7), continuing.ends(7)), (Some(6), None));
        std::thread::sleep(LOOK);
        assert_eq!(continuing.ended(), [5], "there is no such thread");
        assert_eq!(continuing.timeout(), -1);
    }

    #[test]
    fn a_blocked_thread_is_in_its_call() {
        assert!(is_in("1 0x3 0x7f 0x10000 0x0 0x0 0x0 0x7ffd 0x7f31\n", 1));
        assert!(
            !is_in("18 0x3\n", 1) && !is_in("running\n", 1) && !is_in("", 1) && !is_in("-1 0x7 0x8\n", 1)
        );
    }
}
