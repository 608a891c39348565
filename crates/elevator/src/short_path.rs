//! The short path of a policy that needs little of the contract.

use crate::reason::Reason;
use crate::request::Direction;
use crate::time::Time;

/// A policy whose decisions depend on the queued requests and the time alone: it never waits, and `completed`, `exited`, `may_queue`,
/// [`Request::process`](crate::Request::process) and the requests at the device do not affect it. A host may omit these calls, and
/// end a request when it is dispatched.
pub trait ShortPath {
    /// Dispatches a request of that direction which arrived in the empty queue at `arrived` and is still the only one: the same as `insert` and
    /// `next`, without their cost.
    fn dispatch_alone(&mut self, now: Time, arrived: Time, direction: Direction) -> Reason;
}
