//! The contract a scheduler keeps.
//!
//! A scheduler is a state machine. It has no clock, no thread, no file and no randomness of its own: events come
//! in with the time at which they happened, decisions come out.

use alloc::vec::Vec;

use crate::array::{Directive, Report};
use crate::inspection::Item;
use crate::reason::{HoldReason, Reason};
use crate::request::{Direction, Outcome, Process, Request, RequestId};
use crate::requests::Requests;
use crate::sector::Sector;
use crate::split::Split;
use crate::time::{Span, Time};
use crate::tunable::{Tunable, TuneError, Value};

/// A policy: decides which queued request the device gets next, or that it shall wait.
///
/// For every request the host calls [`insert`](Self::insert) once, [`merged`](Self::merged) any number of times
/// while it is queued, and [`completed`](Self::completed) once after [`next`](Self::next) has returned it. A
/// request that another one absorbed ends there and is named in that call. `now` never runs backwards.
pub trait Scheduler {
    /// A request entered the queue.
    fn insert(&mut self, now: Time, request: &Request);

    /// A queued request grew. `request` is what it is now; `growth` says what it was and what it swallowed.
    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>);

    /// The device has a free slot: what now?
    ///
    /// A request returned in [`Decision::Dispatch`] is gone from the scheduler. The answer `Hold` or `Idle` is stale
    /// after any event and at the `Hold`'s `until`; the host then asks again.
    fn next(&mut self, now: Time, view: &View<'_>) -> Decision;

    /// The device is done with a request which this scheduler dispatched. One that a predecessor dispatched before a
    /// switch is not reported.
    fn completed(&mut self, now: Time, request: &Request, outcome: Outcome);

    /// A process ended.
    fn exited(&mut self, _now: Time, _process: Process) {}

    /// Whether this submitter may add one more request of that kind, where the request limit would decide otherwise.
    fn may_queue(&self, _now: Time, _process: Option<Process>, _direction: Direction, _sync: bool) -> Leave {
        Leave::ByLimit
    }

    /// Whether `request` (queued) may grow by `addition`, on that side of it. Both have the same direction.
    fn may_merge(&self, _request: &Request, _addition: &Request, _side: Side) -> bool {
        true
    }

    /// The longest that a request can stay in here under such a load, where the policy promises one.
    fn longest_wait(&self, _load: Load) -> Option<Span> {
        None
    }

    /// Its part above the block layer, if it has one. A host without those hooks refuses such a policy.
    fn split(&mut self) -> Option<&mut dyn Split> {
        None
    }

    /// What it keeps, for people who look: streams, groups. Asked rarely; may allocate.
    fn inspect(&self, _now: Time) -> Vec<Item> {
        Vec::new()
    }

    /// What it would send if it never waited, where it knows: the stream paper's *selected pending request*. Asking changes
    /// nothing.
    fn selected(&mut self, _now: Time, _view: &View<'_>) -> Option<RequestId> {
        None
    }

    /// An array's coordinator tells it something. The host asks for the next decision afterwards.
    fn directed(&mut self, _now: Time, _view: &View<'_>, _directive: Directive) {}

    /// The next thing that an array's coordinator should hear; asked for after every call.
    fn report(&mut self) -> Option<Report> {
        None
    }

    /// What can be tuned, with defaults, ranges and sources: of a wrapper its own, and behind them those of what it wraps.
    fn tunables(&self) -> &[Tunable] {
        &[]
    }

    /// The present value of a tunable.
    fn tunable(&self, _name: &str) -> Option<Value> {
        None
    }

    /// Sets a tunable, effective from the next event on.
    ///
    /// # Errors
    /// If there is no such tunable, or the value is of another kind or out of range.
    fn tune(&mut self, name: &str, _value: Value) -> Result<(), TuneError> {
        Err(TuneError::unknown(name))
    }
}

/// A policy that never lets the device wait while it has a request that may go: what the stream framework wraps.
pub trait WorkConserving {
    /// As [`Scheduler::insert`].
    fn insert(&mut self, now: Time, request: &Request);

    /// As [`Scheduler::merged`].
    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>);

    /// What it would send now. Asking changes nothing: asked twice, it answers the same. `None` with requests queued
    /// says that all of them must wait for a completion (a lower class behind a higher one in flight).
    fn candidate(&mut self, now: Time, view: &View<'_>) -> Option<Candidate>;

    /// Its candidate, which is sent.
    fn take_candidate(&mut self, now: Time, view: &View<'_>) -> Option<Candidate> {
        let candidate = self.candidate(now, view)?;
        self.take(now, &view.requests[candidate.id]);
        Some(candidate)
    }

    /// Its latest candidate was sent. Or another queued request was, over its head, if the ids differ.
    fn take(&mut self, now: Time, request: &Request);

    /// As [`Scheduler::completed`].
    fn completed(&mut self, _now: Time, _request: &Request, _outcome: Outcome) {}

    /// As [`Scheduler::may_queue`], whoever submits it.
    fn may_queue(&self, _now: Time, _direction: Direction, _sync: bool) -> Leave {
        Leave::ByLimit
    }

    /// As [`Scheduler::may_merge`].
    fn may_merge(&self, _request: &Request, _addition: &Request, _side: Side) -> bool {
        true
    }

    /// As [`Scheduler::longest_wait`].
    fn longest_wait(&self, _load: Load) -> Option<Span> {
        None
    }

    /// As [`Scheduler::split`].
    fn split(&mut self) -> Option<&mut dyn Split> {
        None
    }

    /// As [`Scheduler::tunables`].
    fn tunables(&self) -> &[Tunable] {
        &[]
    }

    /// As [`Scheduler::tunable`].
    fn tunable(&self, _name: &str) -> Option<Value> {
        None
    }

    /// As [`Scheduler::tune`].
    ///
    /// # Errors
    /// As there.
    fn tune(&mut self, name: &str, _value: Value) -> Result<(), TuneError> {
        Err(TuneError::unknown(name))
    }
}

/// What a work-conserving policy would send now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The request.
    pub id: RequestId,
    /// It has waited too long: nobody should make it wait for something better.
    pub urgent: bool,
    /// Why this one.
    pub reason: Reason,
}

/// What to do with a free slot of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Send this request.
    Dispatch {
        /// Which.
        id: RequestId,
        /// Why this one.
        reason: Reason,
    },
    /// Something is queued and shall wait.
    Hold(Hold),
    /// Nothing is queued.
    Idle,
}

/// A deliberate wait: why, until when at most, and what ends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// When to ask again at the latest. `None` only with [`Wake::Completion`] and [`Wake::Told`].
    pub until: Option<Time>,
    /// What is waited for. Every event ends the wait; this says which one it is meant for.
    pub wake: Wake,
    /// Why.
    pub reason: HoldReason,
}

/// What ends a deliberate wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// A better request arrives, or the time is up.
    Timer,
    /// A request in flight completes.
    Completion,
    /// A word from outside: an array's coordinator, a split policy's host.
    Told,
}

/// A bound on what a scheduler is given to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Most requests that are ever queued or in flight at once.
    pub requests: u32,
    /// The longest that the device takes for one request, once it has turned to it. It serves them one by one in the
    /// order in which it got them.
    pub service: Span,
}

/// How a request grew.
#[derive(Clone, Copy, Debug)]
pub struct Growth<'a> {
    /// Its first sector before.
    pub was_start: Sector,
    /// Its length before, in sectors.
    pub was_sectors: crate::sector::Sectors,
    /// The queued request that it swallowed, if it was not a new submission that it grew by. Its id ends with this call.
    pub absorbed: Option<&'a Request>,
}

/// Leave to queue a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    /// Even beyond the limit.
    Must,
    /// As the limit says.
    ByLimit,
    /// Not now, even below the limit.
    No,
}

/// The side of a request at which another may join.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Before its first sector.
    Front,
    /// Behind its last sector.
    Back,
}

/// What a scheduler may look at when it decides.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Every queued and every dispatched request.
    pub requests: &'a Requests,
    /// The device.
    pub device: Device<'a>,
}

/// The device as a scheduler sees it.
#[derive(Clone, Copy)]
pub struct Device<'a> {
    /// How many requests it takes at once.
    pub depth: u32,
    /// How many it has now.
    pub in_flight: u32,
    /// The most recently dispatched request, the best guess at where the head will be when the next one is served.
    pub last_dispatched: Option<LastDispatched>,
    /// Who can tell how long it takes to get somewhere, where there is such an oracle.
    pub positioning: Option<&'a dyn Positioning>,
}

/// What is remembered of the most recently dispatched request, after it has completed too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastDispatched {
    /// Its serial number.
    pub serial: u64,
    /// Its first sector.
    pub start: Sector,
    /// The sector behind its last.
    pub end: Sector,
    /// When it was dispatched.
    pub at: Time,
}

/// An oracle of positioning times: a drive's own model.
///
/// A drive that can say where on its platters something must lie to be reached within a time spares a scheduler from asking
/// about every request. One that cannot says nothing, and is asked about all of them.
pub trait Positioning {
    /// From now until the first sector passes under the head, if the device began at once.
    fn positioning_time(&self, now: Time, request: &Request) -> Span;

    /// The angle at which a sector lies, always the same.
    fn angle(&self, _sector: Sector) -> u32 {
        0
    }

    /// The angles of all reads and writes that begin at `sector` or above and take `within` or less, and of others, perhaps;
    /// `None` if there can be none. Those that begin where [`buffered`](Self::buffered) says may lie at any angle.
    fn reached_at_or_above(&self, _now: Time, _sector: Sector, _within: Span) -> Option<Angles> {
        Some(Angles::ALL)
    }

    /// The same of those that begin at `sector` or below.
    fn reached_at_or_below(&self, _now: Time, _sector: Sector, _within: Span) -> Option<Angles> {
        Some(Angles::ALL)
    }

    /// The `n`-th run of sectors, from the first to the one behind the last, that the device need not go to; `None` if
    /// there are no more than `n`.
    fn buffered(&self, _n: usize) -> Option<(Sector, Sector)> {
        None
    }
}

/// The angles that pass under a head in some time, in 2^-32 of a revolution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Angles {
    /// The first of them.
    pub first: u32,
    /// How far the last lies behind it.
    pub length: u32,
}

impl Angles {
    /// A whole revolution.
    pub const ALL: Self = Self { first: 0, length: u32::MAX };

    /// Whether an angle is one of them.
    #[must_use]
    pub const fn hold(self, angle: u32) -> bool {
        angle.wrapping_sub(self.first) <= self.length
    }
}
