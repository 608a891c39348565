//! What a machine is made of, and when it stops.

use disks::Drive;
use elevator::queue::{Observer, Options};
use elevator::{Scheduler, Time};

use super::Failure;

/// What a machine is made of.
pub struct Setup {
    /// The queue. Its depth is cut to the drive's.
    pub options: Options,
    /// The scheduler in the queue.
    pub scheduler: Box<dyn Scheduler>,
    /// The device.
    pub drive: Box<dyn Drive>,
    /// Whoever else listens to the queue: a checker, a decision log, a timeline.
    pub observer: Option<Box<dyn Observer>>,
}

/// When to stop, beside everybody having ended.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// Virtual time at which to stop.
    pub at: Time,
    /// Asked between events: stop early if it says so (Ctrl-C). What was measured until then stands.
    pub asked: fn() -> bool,
}

/// Half of what nanoseconds in 64 bits can say: beyond that sums of times saturate, and what waits for one of them never ends.
const END_OF_TIME: Time = Time::from_nanos(1 << 63);

impl Stop {
    /// Whether to stop before what happens at `at`.
    pub(crate) fn is_before(&self, at: Time) -> Result<bool, Failure> {
        match at {
            at if at > self.at => Ok(true),
            at if at > END_OF_TIME => Err(Failure::EndOfTime),
            _ => Ok(false),
        }
    }

    #[cold]
    pub(crate) fn is_asked(&self) -> bool {
        (self.asked)()
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self { at: Time::MAX, asked: || false }
    }
}
