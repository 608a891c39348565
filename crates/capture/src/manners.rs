//! The clock of arrivals, and the manners of who watches.

use elevator::Time;
use rustix::time::{ClockId, clock_gettime};

/// Now on `CLOCK_MONOTONIC`, which [`Arrival::at`](crate::Arrival::at) is on.
#[must_use]
pub fn now() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Time::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64))
}

/// Gives this process the lowest priority for processor and disks, so that it does not stand in the way of what it watches.
/// A refusal costs politeness, not correctness, and is passed over.
///
/// Nice 19 and not `SCHED_IDLE`: on a busy machine that would be a third of a per cent of a processor, and reports would be
/// lost.
pub fn step_back() {
    const WHO_PROCESS: libc::c_int = 1;
    const CLASS_IDLE: libc::c_int = 3 << 13;
    let _ = rustix::process::setpriority_process(None, 19);
    // SAFETY: takes three numbers and no pointer.
    unsafe {
        libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE);
    }
}
