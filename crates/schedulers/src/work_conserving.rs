//! A work-conserving policy as it is, without anything around it.

use elevator::split::Split;
use elevator::{
    Decision, Direction, Growth, Hold, HoldReason, Leave, Load, Outcome, Process, Request, RequestId,
    Scheduler, Side, Span, Time, Tunable, TuneError, Value, View, Wake,
};

use crate::listing::BoxedWorkConserving;

/// Hosts a work-conserving policy: its candidate is sent whenever the device has a free slot.
pub struct Bare {
    policy: BoxedWorkConserving,
    queued: u32,
}

impl Bare {
    /// The policy, with nothing queued.
    #[must_use]
    pub fn new(policy: BoxedWorkConserving) -> Self {
        Self { policy, queued: 0 }
    }
}

/// What is said of a policy that has requests, but none that may go before one in flight has completed.
pub(crate) const CLASS_WAITS: Decision =
    Decision::Hold(Hold { until: None, wake: Wake::Completion, reason: HoldReason::ClassWaits });

impl Scheduler for Bare {
    fn insert(&mut self, now: Time, request: &Request) {
        self.queued += 1;
        self.policy.insert(now, request);
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        self.queued -= u32::from(growth.absorbed.is_some());
        self.policy.merged(now, request, growth);
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        match self.policy.take_candidate(now, view) {
            Some(candidate) => {
                self.queued -= 1;
                Decision::Dispatch { id: candidate.id, reason: candidate.reason }
            }
            None if self.queued == 0 => Decision::Idle,
            None => CLASS_WAITS,
        }
    }

    fn completed(&mut self, now: Time, request: &Request, outcome: Outcome) {
        self.policy.completed(now, request, outcome);
    }

    fn may_queue(&self, now: Time, _process: Option<Process>, direction: Direction, sync: bool) -> Leave {
        self.policy.may_queue(now, direction, sync)
    }

    fn may_merge(&self, request: &Request, addition: &Request, side: Side) -> bool {
        self.policy.may_merge(request, addition, side)
    }

    fn selected(&mut self, now: Time, view: &View<'_>) -> Option<RequestId> {
        self.policy.candidate(now, view).map(|candidate| candidate.id)
    }

    fn longest_wait(&self, load: Load) -> Option<Span> {
        self.policy.longest_wait(load)
    }

    fn split(&mut self) -> Option<&mut dyn Split> {
        self.policy.split()
    }

    fn tunables(&self) -> &[Tunable] {
        self.policy.tunables()
    }

    fn tunable(&self, name: &str) -> Option<Value> {
        self.policy.tunable(name)
    }

    fn tune(&mut self, name: &str, value: Value) -> Result<(), TuneError> {
        self.policy.tune(name, value)
    }
}
