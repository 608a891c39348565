//! Events of a queue, for checkers, decision logs and timelines.

use alloc::boxed::Box;

use super::{Fault, Token};
use crate::reason::Reason;
use crate::request::{CauseSet, Flags, Op, Outcome, Priority, Process, Request};
use crate::scheduler::{Hold, Side};
use crate::sector::{Sector, Sectors};
use crate::time::{Span, Time};

/// An event of a queue.
// An explicit tag instead of one in a variant's field: the variant is then constant at each call of an observer, so that events which an
// observer ignores cost nothing.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A submission was accepted, to be finished under this token.
    Submitted {
        /// The host's identifier.
        token: Token,
        /// The operation.
        op: Op,
        /// First sector.
        start: Sector,
        /// Length.
        sectors: Sectors,
        /// The submitter's flags.
        flags: Flags,
        /// The submitter's priority.
        priority: Priority,
        /// The submitter, if the host reports it; also if it is hidden from the scheduler.
        process: Option<Process>,
        /// The processes on whose behalf it was submitted, if known.
        causes: Option<CauseSet>,
    },
    /// Its submitter sleeps until the queue has room.
    Slept(Token),
    /// A new request carries it.
    Carried(Token, &'a Request),
    /// It was merged into this request, which has grown by it.
    Merged(Token, &'a Request, Side),
    /// The first request absorbed the second one, whose id ends.
    Absorbed(&'a Request, &'a Request),
    /// The scheduler received the request.
    Inserted(&'a Request),
    /// The request was dispatched to the device.
    Dispatched {
        /// The request.
        request: &'a Request,
        /// The scheduler's reason.
        reason: Reason,
        /// Requests that remain in the scheduler.
        queued: u32,
        /// Requests in the device, this one included.
        in_flight: u32,
    },
    /// The device waits. Reported again only if the wait's end or reason changes.
    Held {
        /// The reason, and the end.
        hold: Hold,
        /// Requests queued.
        queued: u32,
        /// Requests in the device.
        in_flight: u32,
    },
    /// The scheduler has returned that no request is queued.
    Idle {
        /// Requests queued; 0 unless the scheduler is faulty.
        queued: u32,
    },
    /// The device has completed the request.
    Completed {
        /// The request.
        request: &'a Request,
        /// Its outcome.
        outcome: Outcome,
        /// When it was dispatched.
        dispatched: Time,
    },
    /// A submission has finished; its token may be reused.
    Finished(Token, Outcome),
    /// A process ended.
    Exited(Process),
    /// The scheduler is faulty. A `Switched` to the queue's own policy follows: at once, or when the queue has drained if the
    /// faulty scheduler was to take over then.
    Faulted {
        /// The fault.
        fault: Fault,
        /// Requests queued, which the queue's own policy receives.
        queued: u32,
    },
    /// Another scheduler took over.
    Switched(SwitchReport),
}

/// The report of a switch of schedulers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchReport {
    /// Requests handed from the old scheduler to the new one.
    pub moved: u32,
    /// Requests in the device at the switch, whose completions the new scheduler does not receive.
    pub in_flight: u32,
    /// From the order to its execution; zero unless the queue was drained first.
    pub drained_for: Span,
}

/// An observer of a queue's events.
pub trait Observer {
    /// Receives an event.
    fn event(&mut self, now: Time, event: &Event<'_>);
}

/// No observer.
impl Observer for () {
    #[inline]
    fn event(&mut self, _now: Time, _event: &Event<'_>) {}
}

impl<A: Observer, B: Observer> Observer for (A, B) {
    fn event(&mut self, now: Time, event: &Event<'_>) {
        self.0.event(now, event);
        self.1.event(now, event);
    }
}

impl<O: Observer + ?Sized> Observer for Box<O> {
    fn event(&mut self, now: Time, event: &Event<'_>) {
        (**self).event(now, event);
    }
}

impl<O: Observer> Observer for Option<O> {
    fn event(&mut self, now: Time, event: &Event<'_>) {
        if let Some(observer) = self {
            observer.event(now, event);
        }
    }
}
