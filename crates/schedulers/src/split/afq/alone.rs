//! AFQ as published: with anticipation of its own.

use elevator::split::Split;
use elevator::{
    Candidate, Decision, Growth, Outcome, Request, Scheduler, Side, Time, Tunable, TuneError, Value, View,
    WorkConserving,
};

use super::Afq;

/// AFQ that waits for the reader whose turn it is.
pub(super) struct Alone(pub(super) Afq);

impl Scheduler for Alone {
    fn insert(&mut self, now: Time, request: &Request) {
        self.0.insert(now, request);
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        self.0.merged(now, request, growth);
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        let Afq { lanes, reads, tunables, .. } = &self.0;
        if lanes.is_empty() {
            return Decision::Idle;
        }
        let owner = reads.goes_on(now, tunables).filter(|&place| !lanes.has_reads(place));
        if let Some(hold) =
            owner.filter(|_| !lanes.writes_wait()).and_then(|place| reads.awaits(now, place, tunables))
        {
            return Decision::Hold(hold);
        }
        match self.0.candidate(now, view) {
            Some(Candidate { id, reason, .. }) => {
                self.0.take(now, &view.requests[id]);
                Decision::Dispatch { id, reason }
            }
            None => Decision::Idle,
        }
    }

    fn completed(&mut self, now: Time, request: &Request, outcome: Outcome) {
        self.0.completed(now, request, outcome);
    }

    fn may_merge(&self, request: &Request, addition: &Request, side: Side) -> bool {
        self.0.may_merge(request, addition, side)
    }

    fn split(&mut self) -> Option<&mut dyn Split> {
        self.0.split()
    }

    fn tunables(&self) -> &[Tunable] {
        self.0.tunables()
    }

    fn tunable(&self, name: &str) -> Option<Value> {
        self.0.tunable(name)
    }

    fn tune(&mut self, name: &str, value: Value) -> Result<(), TuneError> {
        self.0.tune(name, value)
    }
}
