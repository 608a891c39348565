//! The clock of arrivals.

use elevator::Time;
use rustix::time::{ClockId, clock_gettime};

/// The present time on `CLOCK_MONOTONIC`, the clock of [`Arrival::at`](crate::Arrival::at).
pub fn now() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Time::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64))
}
