//! What an array's coordinator and the schedulers of its members say to each other.
//!
//! An array has a queue and a scheduler for each member disk. A [`Coordinator`] is a policy over those policies: it hears
//! what the array is asked for and what becomes of it on each member, gives [`Directive`]s, and hears [`Report`]s. It
//! touches no member by any other way. A scheduler that knows nothing of streams ignores directives and reports nothing.

use crate::request::{Op, Request, RequestId};
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

/// The host's name for what an array was asked for; dense and small, reused once that is done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ArrayRequestId(pub u32);

/// What an array was asked for, in its own addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrayRequest {
    /// Its name.
    pub id: ArrayRequestId,
    /// What it does.
    pub op: Op,
    /// First sector.
    pub start: Sector,
    /// Length.
    pub sectors: Sectors,
    /// Parts that it falls into.
    pub parts: u32,
}

/// What a member's scheduler is told to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Directive {
    /// This queued request goes before everything else but what has expired, and nothing else before it.
    Urgent(RequestId),
    /// The stream of this queued request is established: serve it from its first dispatch on, by the actual arrivals. Said of
    /// several requests one after the other, they are all of that stream. At most one stream is adopted; a new one, after
    /// the end of the one before, takes its place.
    Adopt(RequestId),
    /// Every member's head is with the stream: it is served until then, whatever the member's own slice says, and from now on
    /// it can break. A time that has passed ends its service.
    Slice(Time),
    /// Whether streams are to be served at all; they are until it is said that they are not. Otherwise what the wrapped policy
    /// selects goes at once.
    Waiting(bool),
}

/// What a member's scheduler tells of the stream that it adopted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// The head is there: the urgent request has completed.
    Established,
    /// It failed to find its next child, and is served no more.
    Broken,
}

/// A policy over the policies of an array's members. `now` never runs backwards.
///
/// After each call the host takes every [`directive`](Self::directive) and gives it to the member's scheduler before it
/// asks that one what to dispatch.
pub trait Coordinator {
    /// A member is gone: from now on nothing is asked of it.
    fn lost(&mut self, now: Time, member: Member);

    /// The array was asked for something. What becomes of its parts follows.
    fn arrived(&mut self, now: Time, request: &ArrayRequest);

    /// A part of `of` is a request in a member's queue now, perhaps with others.
    fn inserted(&mut self, now: Time, member: Member, request: &Request, of: ArrayRequestId);

    /// A queued request has grown; if by another one, that one's id ends.
    fn grown(&mut self, now: Time, member: Member, request: &Request, absorbed: Option<&Request>);

    /// A request went to a member's device.
    fn dispatched(&mut self, now: Time, member: Member, request: &Request);

    /// A member's device is done with a request. `selected` is what the member's policy would send now if it never waited:
    /// its [selected pending request](crate::Scheduler::selected).
    fn part_completed(&mut self, now: Time, member: Member, request: &Request, selected: Option<RequestId>);

    /// Everything that the array was asked for under this name is done.
    fn completed(&mut self, now: Time, id: ArrayRequestId);

    /// A member's scheduler tells something.
    fn reported(&mut self, now: Time, member: Member, report: Report);

    /// When time alone changes something.
    fn next_event(&self) -> Option<Time>;

    /// Time has passed.
    fn pass(&mut self, now: Time);

    /// The next directive, and for whom.
    fn directive(&mut self) -> Option<(Member, Directive)>;

    /// Sets a tunable, effective from the next event on.
    ///
    /// # Errors
    /// If there is no such tunable, or the value is of another kind or out of range.
    fn tune(&mut self, name: &str, value: Value) -> Result<(), TuneError>;
}
