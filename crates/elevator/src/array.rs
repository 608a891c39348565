//! The messages between an array's coordinator and the schedulers of its members.
//!
//! An array has a queue and a scheduler for each member disk. A [`Coordinator`] is a policy over those policies: it receives
//! the array's requests and the events of their parts on each member, issues [`Directive`]s and receives [`Report`]s. A
//! member's scheduler takes part through [`ArrayMember`]; a scheduler without this capability is left alone.

pub use crate::member::{ArrayMember, Directive, Report};
use crate::queue::{Event, Token};
use crate::request::{Op, Outcome, Request, RequestId};
use crate::sector::{Sector, Sectors};
use crate::time::Time;
use crate::tunable::{TuneError, Value};

/// A member of an array, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Member(pub u32);

impl Member {
    /// As an array index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The host's id of an array request: dense and small, reused after the request has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ArrayRequestId(pub u32);

/// A request to an array, in the array's addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrayRequest {
    /// The id.
    pub id: ArrayRequestId,
    /// The operation.
    pub op: Op,
    /// First sector.
    pub start: Sector,
    /// Length.
    pub sectors: Sectors,
    /// The number of parts that it is divided into.
    pub parts: u32,
}

/// An event of a member's queue that concerns the coordinator. Hosts collect these from a queue's observer and pass them on before they
/// call that queue's `next`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberEvent {
    /// A new request carries the part that was submitted under this token.
    Carried(Token, RequestId),
    /// See [`Coordinator::inserted`].
    Inserted(Request),
    /// See [`Coordinator::grown`].
    Grown(Request, Option<Request>),
    /// See [`Coordinator::dispatched`].
    Dispatched(Request),
    /// See [`Coordinator::part_completed`].
    Completed(Request),
}

impl MemberEvent {
    /// The coordinator's part of a queue's event. Flushes belong to no scheduler and no stream.
    #[must_use]
    pub fn of(event: &Event<'_>) -> Option<Self> {
        Some(match *event {
            Event::Carried(token, request) => Self::Carried(token, request.id),
            Event::Inserted(request) => Self::Inserted(*request),
            Event::Merged(_, request, _) => Self::Grown(*request, None),
            Event::Absorbed(request, other) => Self::Grown(*request, Some(*other)),
            Event::Dispatched { request, .. } if request.op != Op::Flush => Self::Dispatched(*request),
            Event::Completed { request, outcome, .. }
                if request.op != Op::Flush && outcome != Outcome::GivenBack =>
            {
                Self::Completed(*request)
            }
            _ => return None,
        })
    }
}

/// A policy over the policies of an array's members. `now` never runs backwards.
///
/// After each call the host passes every [`directive`](Self::directive) to its member's scheduler, before it calls that
/// scheduler's `next`.
pub trait Coordinator {
    /// A member failed and gets no more requests. Its requests have ended, also without their completion.
    fn lost(&mut self, now: Time, member: Member);

    /// A lost member, or its replacement with a new queue, gets requests again.
    fn returned(&mut self, now: Time, member: Member);

    /// A request arrived at the array. The events of its parts follow.
    fn arrived(&mut self, now: Time, request: &ArrayRequest);

    /// A part of `of` became (part of) a request in a member's queue.
    fn inserted(&mut self, now: Time, member: Member, request: &Request, of: ArrayRequestId);

    /// A queued request grew. If it absorbed another request, that request's id ends.
    fn grown(&mut self, now: Time, member: Member, request: &Request, absorbed: Option<&Request>);

    /// A request was dispatched to a member's device.
    fn dispatched(&mut self, now: Time, member: Member, request: &Request);

    /// A member's device finished a request. `selected` is the member's
    /// [selected pending request](ArrayMember::selected).
    fn part_completed(&mut self, now: Time, member: Member, request: &Request, selected: Option<RequestId>);

    /// Every part of this request is done.
    fn completed(&mut self, now: Time, id: ArrayRequestId);

    /// A member's scheduler reports.
    fn reported(&mut self, now: Time, member: Member, report: Report);

    /// A member did not receive an urgent directive: its request had left the queue. Hosts whose members run in several threads call it.
    fn missed(&mut self, now: Time, member: Member);

    /// The time at which the host must call [`pass`](Self::pass), if no event comes first.
    fn next_event(&self) -> Option<Time>;

    /// The time of [`next_event`](Self::next_event) has come.
    fn pass(&mut self, now: Time);

    /// The next directive and its member.
    fn directive(&mut self) -> Option<(Member, Directive)>;

    /// Sets a tunable, effective from the next event on.
    ///
    /// # Errors
    /// If there is no such tunable, or the value is of another kind or out of range.
    fn tune(&mut self, name: &str, value: Value) -> Result<(), TuneError>;
}
