//! Real-time settings for a thread that must reply at given times. Each is optional; refusals are reported.

use std::io;
use std::time::Duration;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

/// Priority among the real-time threads: above ordinary work, below the kernel's own.
const PRIORITY: i32 = 50;

/// Real-time settings of a device's thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Punctuality {
    /// How long before a due time the thread polls instead of sleeping. A wake-up takes some 50 µs on an idle virtual machine,
    /// longer under load; polling costs processor time in proportion to the request rate.
    pub spin: Duration,
    /// Request `SCHED_FIFO` and locked memory.
    pub real_time: bool,
}

impl Default for Punctuality {
    fn default() -> Self {
        Self { spin: Duration::from_micros(60), real_time: true }
    }
}

/// Applies the settings to the calling thread; returns what was refused, in words.
pub fn apply(punctuality: Punctuality) -> Vec<String> {
    let mut refused = Vec::new();
    let mut note = |what: &str, result: io::Result<()>| {
        if let Err(error) = result {
            refused.push(format!("{what}: {error}"));
        }
    };
    note("timer slack of 1 ns", timer_slack());
    if punctuality.real_time {
        note("SCHED_FIFO (CAP_SYS_NICE)", fifo());
        note("locked memory (CAP_IPC_LOCK)", lock_memory());
    }
    refused
}

/// Sets the timer slack of the calling thread to 1 ns; the default delays wake-ups by up to 50 µs.
pub fn timer_slack() -> io::Result<()> {
    // SAFETY: changes an attribute of the calling thread; no memory is involved.
    let result = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Without CAP_IPC_LOCK this is refused: allocations beyond `RLIMIT_MEMLOCK` would fail and end the server.
fn lock_memory() -> io::Result<()> {
    let may = capabilities(None)?.effective.contains(CapabilitySet::IPC_LOCK);
    if !may && let Some(limit) = getrlimit(Resource::Memlock).current {
        return Err(io::Error::other(format!("at most {limit} bytes may be locked")));
    }
    Ok(mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)?)
}

fn fifo() -> io::Result<()> {
    // `SCHED_RESET_ON_FORK`: threads that this one starts have the normal policy.
    let (policy, parameters) =
        (libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, libc::sched_param { sched_priority: PRIORITY });
    // SAFETY: the parameters are read during the call only; 0 is the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, policy, &parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
