//! The side of an array's member: a scheduler that follows the array's coordinator.

use crate::request::RequestId;
use crate::time::Time;
use crate::view::View;

/// What the coordinator has a member's scheduler do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Directive {
    /// Dispatch this queued request before everything that has not expired.
    Urgent(RequestId),
    /// Treat the stream of this queued request as established and serve it from its next dispatch on. Directives for
    /// several requests in a row put all of them into that stream. A member adopts at most one stream; a new one replaces it
    /// after its end.
    Adopt(RequestId),
    /// The heads of all members have reached the stream: serve it until this time, instead of the member's own slice. From
    /// now on the stream can break. A time in the past ends the service.
    Slice(Time),
    /// This queued request, of the array's own traffic, interrupts the stream in service: dispatch it before the stream's further requests, which
    /// then continue the slice. The requests for which this directive was sent go in its order. Without a stream in service it has no effect.
    Pass(RequestId),
    /// Whether the member serves streams at all (default: true). If not, it dispatches the wrapped policy's candidate.
    Waiting(bool),
}

/// What a member's scheduler reports about the stream that it adopted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// The urgent request has completed: the head has reached the stream.
    Established,
    /// The stream did not get its next request in time; its service has ended.
    Broken,
}

/// The member side: a scheduler that follows an array's coordinator.
pub trait ArrayMember {
    /// The request that the scheduler would dispatch if it never waited: the stream paper's *selected pending request*.
    /// Changes no state.
    fn selected(&mut self, now: Time, view: &View<'_>) -> Option<RequestId>;

    /// Executes a directive. The host calls [`Scheduler::next`](crate::Scheduler::next) afterwards.
    fn directed(&mut self, now: Time, view: &View<'_>, directive: Directive);

    /// The next report for the coordinator. The host polls after every call.
    fn report(&mut self) -> Option<Report>;
}
