//! The faults of a scheduler, and the limits beyond which it counts as faulty. `supervision.rs` detects them.

use core::fmt;

use crate::request::RequestId;
use crate::scheduler::{Hold, Wake};
use crate::time::Span;

/// The limits beyond which a scheduler counts as faulty. `None` disables a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Supervision {
    /// The longest time for which a scheduler may hold back every request while the device is idle, over any number of successive holds. Default: 30 s,
    /// the time that Linux gives a SCSI disk for one command before it aborts the command. The model of operations allows every
    /// shipped policy 10 s (`check::LONGEST_HOLD`, feature `testing`).
    pub longest_hold: Option<Span>,
    /// The maximum age of a queued request that [`overtaken`](Self::overtaken) others have overtaken. Ten times this age is the maximum for all
    /// others. Default: 120 s, when Linux reports a task that waits for it as hung.
    pub oldest: Option<Span>,
    /// The number of other requests that the scheduler must have dispatched since a request's insertion before that request counts as overdue. Default:
    /// 10,000. A policy that picks at random among 256 queued requests passes one over this often with a probability of 10^-17.
    pub overtaken: u64,
}

impl Supervision {
    /// Only the checks that need no time limit.
    pub const UNTIMED: Self = Self { longest_hold: None, oldest: None, overtaken: 0 };
}

impl Default for Supervision {
    fn default() -> Self {
        Self {
            longest_hold: Some(Span::from_secs(30)),
            oldest: Some(Span::from_secs(120)),
            overtaken: 10_000,
        }
    }
}

/// A fault of a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// It dispatched an id that names no queued request: unknown, ended, or in the device already.
    NotQueued(RequestId),
    /// It returned [`Decision::Idle`](crate::Decision::Idle) while it had requests.
    Idle {
        /// Their number.
        queued: u32,
    },
    /// It returned a hold that neither a time nor an event will end.
    HoldWithoutEnd(Hold),
    /// It returned a hold whose end has passed.
    HoldInThePast(Hold),
    /// It held back every request of an idle device.
    HeldTooLong {
        /// The latest of its holds.
        hold: Hold,
        /// The duration.
        held: Span,
    },
    /// It did not dispatch a request.
    NeverDispatched {
        /// The request's serial number.
        serial: u64,
        /// Since its insertion.
        waited: Span,
        /// Requests dispatched meanwhile.
        overtaken: u64,
    },
    /// It panicked.
    Panicked {
        /// The method of [`Scheduler`](crate::Scheduler) that panicked.
        method: &'static str,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotQueued(id) => write!(f, "dispatched {id:?}, which names no queued request"),
            Self::Idle { queued } => write!(f, "returned idle with {queued} requests queued"),
            Self::HoldWithoutEnd(hold) => {
                write!(f, "returned a hold without end ({})", hold.reason)?;
                match hold.wake {
                    Wake::Completion => f.write_str(": it awaits a completion with nothing in flight"),
                    _ => Ok(()),
                }
            }
            Self::HoldInThePast(hold) => {
                write!(f, "returned a hold until a time that has passed ({})", hold.reason)
            }
            Self::HeldTooLong { hold, held } => {
                write!(f, "held back every request of an idle device for {held} ({})", hold.reason)
            }
            Self::NeverDispatched { serial, waited, overtaken } => {
                write!(
                    f,
                    "did not dispatch request {serial} for {waited} and dispatched {overtaken} others meanwhile"
                )
            }
            Self::Panicked { method } => write!(f, "panicked in {method}()"),
        }
    }
}
