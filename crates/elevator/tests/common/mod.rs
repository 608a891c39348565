//! A simple scheduler and a host for it.

#[allow(dead_code, reason = "each test file uses its part")]
pub mod faulty;

use std::collections::VecDeque;

use dwell_elevator::queue::{Accepted, Notice, Options, Queue, Step, Submission, Ticket, Token};
use dwell_elevator::{
    Capabilities, Decision, Growth, Load, Op, Outcome, Reason, Request, RequestId, Scheduler, Sector,
    Sectors, Span, Time, View,
};

/// First come, first served.
#[derive(Default)]
pub struct Fifo(VecDeque<RequestId>);

impl Scheduler for Fifo {
    fn insert(&mut self, _now: Time, request: &Request) {
        self.0.push_back(request.id);
    }

    fn merged(&mut self, _now: Time, _request: &Request, growth: Growth<'_>) {
        if let Some(absorbed) = growth.absorbed {
            self.0.retain(|&id| id != absorbed.id);
        }
    }

    fn next(&mut self, _now: Time, _view: &View<'_>) -> Decision {
        match self.0.pop_front() {
            Some(id) => Decision::Dispatch { id, reason: Reason::FirstCome },
            None => Decision::Idle,
        }
    }

    fn longest_wait(&self, load: Load) -> Option<Span> {
        Some(load.service * u64::from(load.requests))
    }
}

impl Capabilities for Fifo {}

/// A host whose clock the test advances.
#[allow(dead_code, reason = "each test file uses its part")]
pub struct Host {
    pub queue: Queue,
    pub now: Time,
}

#[allow(dead_code, reason = "each test file uses its part")]
impl Host {
    pub fn new(options: Options) -> Self {
        Self { queue: Queue::new(options, Box::<Fifo>::default()), now: Time::ZERO }
    }

    pub fn submit(&mut self, token: u64, op: Op, start: u64, sectors: u32) -> Accepted {
        self.queue.submit(self.now, Submission::new(Token(token), op, Sector(start), Sectors(sectors)))
    }

    pub fn dispatch(&mut self) -> Ticket {
        match self.queue.next(self.now, None) {
            Step::Dispatch(ticket) => ticket,
            other => panic!("expected a dispatch, got {other:?}"),
        }
    }

    /// Dispatches and completes everything; (op, start, sectors) in order of dispatch.
    pub fn serve_all(&mut self) -> Vec<(Op, u64, u32)> {
        let mut served = Vec::new();
        while let Step::Dispatch(ticket) = self.queue.next(self.now, None) {
            let request = *self.queue.request(&ticket);
            served.push((request.op, request.start.0, request.sectors.0));
            self.queue.complete(self.now, ticket, Outcome::Done);
        }
        served
    }

    /// Tokens finished since the last call, in order, and those woken as `None`.
    pub fn finished(&mut self) -> Vec<u64> {
        std::iter::from_fn(|| self.queue.notice())
            .filter_map(|notice| match notice {
                Notice::Finished(finished) => Some(finished.token.0),
                Notice::Woken(_) => None,
            })
            .collect()
    }
}
