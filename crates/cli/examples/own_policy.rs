//! A policy of one's own: reads first, but a write waits at most `patience` behind reads. `docs/own-policy.md` walks through it.
//!
//! This is the whole of `dwell` with one more scheduler:
//! `cargo run --release --example own_policy -p dwell-cli -- compare par-read -s own -s 'stream(own)' -s noop`

use std::process::ExitCode;

use elevator::{
    Candidate, Capabilities, Decision, Direction, Growth, Reason, Request, RequestId, Scheduler, Span, Time,
    View, WorkConserving, tunables, tuned_by,
};
use schedulers::parts::fifo::{Fifo, Links};
use schedulers::{Listing, Make};

tunables! {
    /// Tunables of `own`.
    pub struct Tunables {
        /// How long a write may wait behind reads. Higher: faster reads, slower writes.
        patience: Span = Span::from_millis(200), Span::ZERO, Span::from_secs(60);
    }
}

/// Reads in order of arrival, then writes; but a write that has waited for `patience` goes before all reads.
#[derive(Default)]
pub struct ReadsFirst {
    tunables: Tunables,
    links: Links,
    lists: [Fifo; 2],
}

/// The description of the policy, for the catalogue.
pub const LISTING: Listing = Listing::new(
    "own",
    "reads first, but a write waits at most `patience` behind reads",
    Make::WorkConserving(|_| Box::new(ReadsFirst::default())),
)
.with_source("docs/own-policy.md")
.with_tunables(Tunables::TABLE);

impl ReadsFirst {
    fn oldest(&self, direction: Direction) -> Option<RequestId> {
        self.lists[direction as usize].front()
    }
}

impl Scheduler for ReadsFirst {
    fn insert(&mut self, _now: Time, request: &Request) {
        self.links.push_back(&mut self.lists[request.direction() as usize], request.id);
    }

    fn merged(&mut self, _now: Time, _request: &Request, growth: Growth<'_>) {
        if let Some(absorbed) = growth.absorbed {
            self.links.remove(&mut self.lists[absorbed.direction() as usize], absorbed.id);
        }
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        self.dispatch_candidate(now, view).unwrap_or(Decision::Idle)
    }
}

impl WorkConserving for ReadsFirst {
    fn candidate(&mut self, now: Time, view: &View<'_>) -> Option<Candidate> {
        let (read, write) = (self.oldest(Direction::Read), self.oldest(Direction::Write));
        let due = |id: &RequestId| view.requests[*id].arrived + self.tunables.patience <= now;
        if let Some(id) = write.filter(due) {
            return Some(Candidate { id, urgent: true, reason: Reason::Expired });
        }
        let id = read.or(write)?;
        Some(Candidate { id, urgent: false, reason: Reason::FirstCome })
    }

    fn take(&mut self, _now: Time, request: &Request) {
        self.links.remove(&mut self.lists[request.direction() as usize], request.id);
    }
}

impl Capabilities for ReadsFirst {
    tuned_by!(tunables);
}

fn main() -> ExitCode {
    cli::main_with(&[LISTING])
}
