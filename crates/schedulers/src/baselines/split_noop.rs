//! Noop with hooks: receives every event of a split policy, holds no call, and dispatches first come, first served.
//!
//! # Idea
//! The difference to `noop` is the cost of a machine's hooks and tags.
//!
//! # State
//! Noop's list.
//!
//! # Order of decisions
//! 1. The oldest request. Waiting is bounded as in `noop` (`longest_wait`).
//!
//! # Where it differs from the source
//! In nothing.
//!
//! # Not for
//! Anything but this measurement.
//!
//! # Sources
//! Yang et al., "Split-Level I/O Scheduling", SOSP 2015, "Split-Level Framework Overhead: I/O performance with noop scheduler".

use alloc::boxed::Box;

use elevator::split::{Account, Action, Page, Split, SystemCall, Terms, Verdict};
use elevator::{
    Candidate, Capabilities, CauseSet, Decision, Growth, Load, Request, Scheduler, Span, Time, View,
    WorkConserving,
};

use crate::listing::{Listing, Make};
use crate::policies::noop::Noop;

pub(crate) const LISTINGS: &[Listing] = &[Listing::new(
    "split-noop",
    "first come, first served with the hooks of split policies, to measure their cost",
    Make::WorkConserving(|_| Box::<SplitNoop>::default()),
)
.with_source("Yang et al., Split-Level I/O Scheduling, SOSP 2015")
.with_split()];

/// Noop with the hooks of a split policy.
#[derive(Default)]
pub struct SplitNoop(Noop);

impl Scheduler for SplitNoop {
    fn insert(&mut self, now: Time, request: &Request) {
        self.0.insert(now, request);
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        self.0.merged(now, request, growth);
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        self.dispatch_candidate(now, view).unwrap_or(Decision::Idle)
    }

    fn longest_wait(&self, load: Load) -> Option<Span> {
        self.0.longest_wait(load)
    }
}

impl WorkConserving for SplitNoop {
    fn candidate(&mut self, now: Time, view: &View<'_>) -> Option<Candidate> {
        self.0.candidate(now, view)
    }

    fn take(&mut self, now: Time, request: &Request) {
        self.0.take(now, request);
    }
}

impl Capabilities for SplitNoop {
    fn split(&mut self) -> Option<&mut dyn Split> {
        Some(self)
    }
}

impl Split for SplitNoop {
    fn account(&mut self, _now: Time, _account: Account, _terms: Terms) {}

    fn causes(&mut self, _set: CauseSet, _members: &[Account]) {}

    fn entered(&mut self, _now: Time, _call: &SystemCall) -> Verdict {
        Verdict::Proceed
    }

    fn dirtied(&mut self, _now: Time, _page: &Page, _causes: CauseSet, _before: Option<CauseSet>) {}

    fn freed(&mut self, _now: Time, _page: &Page, _causes: CauseSet) {}

    fn act(&mut self, _now: Time) -> Option<Action> {
        None
    }
}

#[cfg(test)]
mod tests {
    use elevator::{Op, Reason};

    use super::*;
    use crate::split::testing::Host;

    #[test]
    fn no_call_is_held_and_the_oldest_request_is_first() {
        let mut t = Host::new(SplitNoop::default()).accounts(&[Terms::default(); 2]);
        t.dirty(0, 7, 0, 10_000);
        assert_eq!(t.fsync(0, 7).1, Verdict::Proceed);
        assert_eq!(t.write(1, 7).1, Verdict::Proceed);
        let far = t.caused(1, Op::Write, 9_000, 8);
        let near = t.caused(0, Op::Read, 0, 8);
        t.table.serves(far, Reason::FirstCome);
        t.table.serves(near, Reason::FirstCome);
        t.table.idles();
        assert_eq!(t.acts(), []);
    }
}
