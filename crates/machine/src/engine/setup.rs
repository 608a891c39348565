//! The parts of a machine, and the end of a run.

use disks::Drive;
use elevator::queue::{Observer, Options};
use elevator::{Scheduler, Time};

use super::Failure;

/// The parts of a machine.
pub struct Setup {
    /// Options of the queue. Its depth is limited to the drive's.
    pub options: Options,
    pub scheduler: Box<dyn Scheduler>,
    pub drive: Box<dyn Drive>,
    /// An observer of the queue's events: a checker, a decision log, a timeline.
    pub observer: Option<Box<dyn Observer>>,
}

/// When a run stops, unless all processes end before.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// Virtual time of the stop.
    pub at: Time,
    /// Polled between events; `true` stops the run early (Ctrl-C). Measurements up to then remain valid.
    pub asked: fn() -> bool,
}

/// Half the range of 64-bit nanoseconds. Later, sums of times saturate and waits for a sum would not end.
const END_OF_TIME: Time = Time::from_nanos(1 << 63);

impl Stop {
    /// Whether the run stops before an event at `at`.
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
