//! What happens in a queue, as checkers, decision logs and pictures hear it.

use alloc::boxed::Box;

use super::{Fault, Token};
use crate::reason::Reason;
use crate::request::{Flags, Op, Outcome, Process, Request};
use crate::scheduler::{Hold, Side};
use crate::sector::{Sector, Sectors};
use crate::time::{Span, Time};

/// One thing that happened in a queue.
// With a tag of its own, and not one hidden in a variant's fields, it is known where it is told which one it is, and what an
// observer does not care about costs nothing.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Event<'a> {
    /// A submission was accepted, to be finished under this token.
    Submitted {
        /// Its name with the host.
        token: Token,
        /// What it does.
        op: Op,
        /// First sector.
        start: Sector,
        /// Length.
        sectors: Sectors,
        /// What the submitter says of it.
        flags: Flags,
        /// The submitter as the host knows it, whatever the scheduler is told.
        process: Option<Process>,
    },
    /// Its submitter sleeps until there is room.
    Slept(Token),
    /// A request carries it now, alone.
    Carried(Token, &'a Request),
    /// It joined this request, which has grown by it.
    Merged(Token, &'a Request, Side),
    /// The request has grown by another queued one, whose id ends.
    Absorbed(&'a Request, &'a Request),
    /// The scheduler was given the request.
    Inserted(&'a Request),
    /// The request went to the device.
    Dispatched {
        /// The request.
        request: &'a Request,
        /// Why.
        reason: Reason,
        /// Requests that the scheduler keeps behind it.
        queued: u32,
        /// Requests in the device, this one included.
        in_flight: u32,
    },
    /// The device is to wait. Told again only when the wait's end or reason changes.
    Held {
        /// Why and until when.
        hold: Hold,
        /// Requests queued.
        queued: u32,
        /// Requests in the device.
        in_flight: u32,
    },
    /// The scheduler says that nothing is queued.
    Idle {
        /// Requests queued; 0 unless the scheduler is wrong.
        queued: u32,
    },
    /// The device is done with the request.
    Completed {
        /// The request.
        request: &'a Request,
        /// How.
        outcome: Outcome,
        /// When it had been dispatched.
        dispatched: Time,
    },
    /// A submission is finished and its token free.
    Finished(Token, Outcome),
    /// A process ended.
    Exited(Process),
    /// The scheduler is faulty. A `Switched` to the queue's own policy follows: at once, or when the queue has drained if the
    /// faulty scheduler was to take over then.
    Faulted {
        /// What the scheduler did.
        fault: Fault,
        /// Requests queued, which the queue's own policy receives.
        queued: u32,
    },
    /// Another scheduler took over.
    Switched(SwitchReport),
}

/// What a switch of schedulers cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchReport {
    /// Requests handed from the old scheduler to the new one.
    pub moved: u32,
    /// Requests in the device meanwhile, of which the new one hears nothing.
    pub in_flight: u32,
    /// From the order to its execution; zero unless the queue was drained first.
    pub drained_for: Span,
}

/// Whoever wants to hear what happens in a queue.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, now: Time, event: &Event<'_>);
}

/// Nobody listens.
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
