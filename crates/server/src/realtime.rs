//! What a thread that must answer on time asks of the kernel. Each is tried; what is refused is reported.

use std::io;
use std::time::Duration;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

/// Priority among the real-time threads: above ordinary work, below the kernel's own.
const PRIORITY: i32 = 50;

/// What a device's thread shall be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Punctuality {
    /// How long before a due time sleeping ends and spinning begins. A wake-up takes some 50 µs on an idle virtual
    /// machine, and longer beside other work; more spinning costs processor time in proportion to the request rate.
    pub spin: Duration,
    /// Ask for `SCHED_FIFO` and locked memory.
    pub real_time: bool,
}

impl Default for Punctuality {
    fn default() -> Self {
        Self { spin: Duration::from_micros(60), real_time: true }
    }
}

/// Makes the calling thread punctual; what was refused, in words.
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

/// Has the calling thread woken when it asked to be, not up to 50 µs later.
pub fn timer_slack() -> io::Result<()> {
    // SAFETY: changes an attribute of the calling thread; no memory is involved.
    let result = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Under a limit, whatever memory is wanted beyond it would be refused from then on: the server would break off.
fn lock_memory() -> io::Result<()> {
    let may = capabilities(None)?.effective.contains(CapabilitySet::IPC_LOCK);
    if !may && let Some(limit) = getrlimit(Resource::Memlock).current {
        return Err(io::Error::other(format!("at most {limit} bytes may be locked")));
    }
    Ok(mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)?)
}

fn fifo() -> io::Result<()> {
    // `SCHED_RESET_ON_FORK`: threads that this one starts are ordinary again.
    let (policy, parameters) =
        (libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, libc::sched_param { sched_priority: PRIORITY });
    // SAFETY: the parameters are read during the call only; 0 is the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, policy, &parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
