//! The contract between a queue and a scheduling policy.
//!
//! A policy is a state machine without clock, thread, file or randomness: events arrive with the time at which they
//! happened, and [`Scheduler::next`] returns a decision.

use crate::capability::Capabilities;
use crate::reason::{HoldReason, Reason};
use crate::request::{Direction, Outcome, Process, Request, RequestId};
use crate::sector::{Sector, Sectors};
use crate::time::{Span, Time};
use crate::view::View;

/// A policy: decides which queued request the device gets next, or that the device waits.
///
/// For every request the host calls [`insert`](Self::insert) once, [`merged`](Self::merged) any number of times while the
/// request is queued, and [`completed`](Self::completed) once after [`next`](Self::next) has returned it. A request that
/// another one absorbed ends with that call of `merged`. `now` never decreases.
///
/// Tunables, inspection, hooks above the block layer, the member side of an array and a short path for lone requests are optional: see
/// [`Capabilities`].
///
/// A policy is `Send`, so that a queue can move to another thread, and threads can share it behind a lock.
pub trait Scheduler: Capabilities + Send {
    /// A request entered the queue.
    fn insert(&mut self, now: Time, request: &Request);

    /// A queued request grew. `request` is the request after it grew; `growth` has its former extent and the request that
    /// it absorbed.
    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>);

    /// Decides what to do with a free slot of the device.
    ///
    /// A request returned in [`Decision::Dispatch`] leaves the policy. A returned `Hold` or `Idle` is valid until the next
    /// event, and a `Hold` at most until its `until`; then the host calls `next` again.
    fn next(&mut self, now: Time, view: &View<'_>) -> Decision;

    /// The device finished a request that this policy dispatched. Requests that a predecessor dispatched before a switch are
    /// not reported.
    fn completed(&mut self, _now: Time, _request: &Request, _outcome: Outcome) {}

    /// The device begins to flush its cache. A flush bypasses the policy; the programs whose writes it makes durable wait for it. A host
    /// that does not see flushes, such as an elevator in the kernel, calls neither this nor [`flushed`](Self::flushed).
    fn flushing(&mut self, _now: Time) {}

    /// The flush has ended.
    fn flushed(&mut self, _now: Time) {}

    /// A process ended.
    fn exited(&mut self, _now: Time, _process: Process) {}

    /// Whether `process` may add one more request of that kind. Linux: `elv_may_queue`.
    fn may_queue(
        &self,
        _now: Time,
        _process: Option<Process>,
        _direction: Direction,
        _sync: bool,
    ) -> Admission {
        Admission::ByLimit
    }

    /// Whether processes do not affect decisions: `exited`, `may_queue` and [`Request::process`]. A host need not look up processes then.
    fn ignores_processes(&self) -> bool {
        false
    }

    /// Whether the queued `request` may grow by `addition` on `side`. Both have the same direction.
    fn may_merge(&self, _request: &Request, _addition: &Request, _side: Side) -> bool {
        true
    }

    /// An upper bound on the time from a request's insertion to its dispatch under `load`, if the policy has one. A request
    /// that absorbs an older one counts from its own insertion.
    ///
    /// The bound holds while the device serves requests of this policy only: a host adds the time of flushes and of requests
    /// that the device gave back. The checker of the model verifies the bound.
    fn longest_wait(&self, _load: Load) -> Option<Span> {
        None
    }
}

/// A policy that dispatches whenever a request may go, and that a wrapper can be put around.
///
/// The policy implements [`Scheduler::next`] with [`dispatch_candidate`](Self::dispatch_candidate); a wrapper calls
/// [`candidate`](Self::candidate) and [`take`](Self::take) in place of `next`.
pub trait WorkConserving: Scheduler {
    /// The request that the policy would dispatch now. A second call without an event in between returns the same. `None`
    /// with requests queued means that all of them must wait for a completion (a lower class behind a higher one in flight).
    fn candidate(&mut self, now: Time, view: &View<'_>) -> Option<Candidate>;

    /// `request` was dispatched: the latest candidate, or another queued request that the wrapper preferred.
    fn take(&mut self, now: Time, request: &Request);

    /// Takes the candidate and returns its dispatch.
    #[inline]
    fn dispatch_candidate(&mut self, now: Time, view: &View<'_>) -> Option<Decision> {
        let Candidate { id, reason, .. } = self.candidate(now, view)?;
        self.take(now, &view.requests[id]);
        Some(Decision::Dispatch { id, reason })
    }
}

/// The request that a work-conserving policy would dispatch now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The request.
    pub id: RequestId,
    /// The request has waited too long: a wrapper must not delay it.
    pub urgent: bool,
    /// Why this request.
    pub reason: Reason,
}

/// What to do with a free slot of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Send this request.
    Dispatch {
        /// The request.
        id: RequestId,
        /// Why this request.
        reason: Reason,
    },
    /// Requests are queued, and the device waits.
    Hold(Hold),
    /// Nothing is queued.
    Idle,
}

/// A deliberate wait: why, until when at most, and what ends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// When to call `next` again at the latest. `None` only with [`Wake::Completion`] and [`Wake::External`].
    pub until: Option<Time>,
    /// The event that the wait is meant for. Every event ends it.
    pub wake: Wake,
    /// Why.
    pub reason: HoldReason,
}

impl Hold {
    /// Everything queued waits for requests of a higher priority class that are in flight.
    pub const CLASS_WAITS: Self =
        Self { until: None, wake: Wake::Completion, reason: HoldReason::ClassWaits };
}

/// The event that a deliberate wait is meant for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// An arrival, or the end of the wait's time.
    Timer,
    /// The completion of a request in flight.
    Completion,
    /// A call from outside the queue: an array's coordinator, a split policy's host.
    External,
}

/// A bound on the work that a policy is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// The maximum number of requests that are queued or in flight at the same time.
    pub requests: u32,
    /// The maximum number of requests in the device.
    pub depth: u32,
    /// The longest service time of one request. The device serves requests one by one in the order of their dispatch.
    pub service: Span,
}

/// How a request grew.
#[derive(Clone, Copy, Debug)]
pub struct Growth<'a> {
    /// The former first sector.
    pub was_start: Sector,
    /// The former length.
    pub was_sectors: Sectors,
    /// The queued request that was absorbed; `None` if a new submission was added. Its id ends with this call.
    pub absorbed: Option<&'a Request>,
}

/// A policy's answer to a submitter that wants to queue a request. Linux: `ELV_MQUEUE_MUST`, `_MAY`, `_NO`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// Admit, even beyond the request limit.
    Must,
    /// Admit within the request limit.
    ByLimit,
    /// Reject for now, even below the request limit.
    No,
}

/// The side of a request at which it grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Before its first sector.
    Front,
    /// Behind its last sector.
    Back,
}
