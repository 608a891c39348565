//! The clock that a device's thread runs on.

use std::time::{Duration, Instant};

use elevator::{Span, Time};

/// Monotonic time since the device started, passing at [`speed`](Self::new) times its natural pace.
///
/// Everything in a device's thread is told in this time: schedulers' timers, latencies, the modelled drive. So a run at
/// speed 10 decides as one at speed 1 does, as far as the machine keeps up.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    speed: u32,
}

impl Clock {
    /// A clock that shows zero now. A `speed` of 0 counts as 1.
    #[must_use]
    pub fn new(speed: u32) -> Self {
        Self { origin: Instant::now(), speed: speed.max(1) }
    }

    /// What it shows.
    #[must_use]
    pub fn now(&self) -> Time {
        Time::from_nanos((self.origin.elapsed().as_nanos() as u64).saturating_mul(u64::from(self.speed)))
    }

    /// How long a span of its time takes in the room.
    #[must_use]
    pub fn real(&self, span: Span) -> Duration {
        Duration::from_nanos(span.as_nanos() / u64::from(self.speed))
    }

    /// The span of its time that `real` takes in the room.
    #[must_use]
    pub fn span(&self, real: Duration) -> Span {
        Span::from_nanos(real.as_nanos() as u64) * u64::from(self.speed)
    }

    /// How many times faster than natural it goes.
    #[must_use]
    pub const fn speed(&self) -> u32 {
        self.speed
    }
}
