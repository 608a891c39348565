//! The clock of a device's thread.

use std::time::{Duration, Instant};

use elevator::{Span, Time};

/// Monotonic time since the device started, at [`speed`](Self::new) times real time.
///
/// Schedulers' timers, latencies and the modelled drive use this time. A run at speed 10 thus makes the decisions of one at speed 1, as
/// far as the machine keeps up.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    speed: u32,
}

impl Clock {
    /// A clock that shows zero now. A `speed` of 0 counts as 1.
    pub fn new(speed: u32) -> Self {
        Self { origin: Instant::now(), speed: speed.max(1) }
    }

    pub fn now(&self) -> Time {
        Time::from_nanos((self.origin.elapsed().as_nanos() as u64).saturating_mul(u64::from(self.speed)))
    }

    /// The real duration of a span of device time.
    pub fn real(&self, span: Span) -> Duration {
        Duration::from_nanos(span.as_nanos() / u64::from(self.speed))
    }

    /// The span of device time that passes in a real duration.
    pub fn span(&self, real: Duration) -> Span {
        Span::from_nanos(real.as_nanos() as u64) * u64::from(self.speed)
    }
}
