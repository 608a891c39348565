//! Noop: first come, first served.
//!
//! # Idea
//! Requests are dispatched in the order of their arrival; only the queue's merging changes them. Suitable where a lower level
//! schedules better (a virtual machine's guest, an array controller), and the baseline of the papers.
//!
//! # State
//! One list.
//!
//! # Order of decisions
//! 1. The oldest request.
//!
//! Waiting is bounded (`longest_wait`): a request waits only for those that were queued before it.
//!
//! # Where it differs from the source
//! Linux's noop moves all requests to the dispatch list when the driver asks for the first one. This one keeps them, so they
//! can be merged for longer.
//!
//! # Not for
//! A disk with several readers: the head seeks for every request.
//!
//! # Sources
//! Linux 2.6.32 `block/noop-iosched.c`; the stream paper (FAST 2011), section 3 (evaluation), uses it as a baseline.

use alloc::boxed::Box;

use elevator::{
    Candidate, Capabilities, Decision, Direction, Growth, Load, Reason, Request, Scheduler, ShortPath, Span,
    Time, View, WorkConserving,
};

use crate::listing::{Listing, Make};
use crate::parts::fifo::{Fifo, Links};

/// First come, first served.
#[derive(Default)]
pub struct Noop {
    links: Links,
    list: Fifo,
}

pub(crate) const LISTINGS: &[Listing] =
    &[Listing::new("noop", "first come, first served", Make::WorkConserving(|_| Box::new(Noop::default())))
        .with_source("Linux 2.6.32, block/noop-iosched.c")];

impl Scheduler for Noop {
    fn insert(&mut self, _now: Time, request: &Request) {
        self.links.push_back(&mut self.list, request.id);
    }

    fn merged(&mut self, _now: Time, _request: &Request, growth: Growth<'_>) {
        if let Some(absorbed) = growth.absorbed {
            self.links.remove(&mut self.list, absorbed.id);
        }
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        self.dispatch_candidate(now, view).unwrap_or(Decision::Idle)
    }

    fn ignores_processes(&self) -> bool {
        true
    }

    /// Every earlier request is dispatched before, and no later one.
    fn longest_wait(&self, load: Load) -> Option<Span> {
        Some(load.service * u64::from(load.requests))
    }
}

impl WorkConserving for Noop {
    fn candidate(&mut self, _now: Time, _view: &View<'_>) -> Option<Candidate> {
        let id = self.list.front()?;
        Some(Candidate { id, urgent: false, reason: Reason::FirstCome })
    }

    fn take(&mut self, _now: Time, request: &Request) {
        self.links.remove(&mut self.list, request.id);
    }
}

impl ShortPath for Noop {
    fn dispatch_alone(&mut self, _now: Time, _arrived: Time, _direction: Direction) -> Reason {
        Reason::FirstCome
    }
}

impl Capabilities for Noop {
    fn short_path(&mut self) -> Option<&mut dyn ShortPath> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Table, request};

    #[test]
    fn growth_does_not_change_the_order() {
        let mut t = Table::new(Noop::default());
        let far = t.read(9_000);
        let near = t.read(0);
        let behind_far = t.insert(request(9_008, 8));
        t.absorb(far, behind_far);
        let late = t.read(4_000);
        t.serves(far, Reason::FirstCome);
        t.serves(near, Reason::FirstCome);
        t.serves(late, Reason::FirstCome);
        t.idles();
    }
}
