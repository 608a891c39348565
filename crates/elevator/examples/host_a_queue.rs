//! Hosts a queue with a first-come-first-served policy in front of a device that takes 5 ms per request.
//!
//! `cargo run -p dwell-elevator --example host_a_queue`

use dwell_elevator::queue::{Notice, Options, Queue, Step, Submission, Token};
use dwell_elevator::{Capabilities, Decision, Growth, Op, Outcome, Reason, Request, RequestId, Scheduler};
use dwell_elevator::{Sector, Sectors, Span, Time, View};

/// The policy: ids in order of arrival. Requests are owned by the queue.
#[derive(Default)]
struct Fifo(std::collections::VecDeque<RequestId>);

impl Capabilities for Fifo {}

impl Scheduler for Fifo {
    fn insert(&mut self, _now: Time, request: &Request) {
        self.0.push_back(request.id);
    }

    fn merged(&mut self, _now: Time, _request: &Request, growth: Growth<'_>) {
        self.0.retain(|&id| growth.absorbed.is_none_or(|absorbed| absorbed.id != id));
    }

    fn next(&mut self, _now: Time, _view: &View<'_>) -> Decision {
        self.0.pop_front().map_or(Decision::Idle, |id| Decision::Dispatch { id, reason: Reason::FirstCome })
    }
}

fn main() {
    let mut queue: Queue = Queue::new(Options { depth: 1, ..Options::default() }, Box::<Fifo>::default());
    let mut now = Time::ZERO;
    // Two adjacent reads, which the queue merges, and a distant one.
    for (token, start) in [(1, 0), (2, 8), (3, 1_000_000)] {
        let read = Submission::new(Token(token), Op::Read, Sector(start), Sectors(8));
        println!("{now}: submit {:?}: {:?}", read.token, queue.submit(now, read));
        print_notices(&mut queue, now);
    }
    loop {
        // The second argument is the device's estimate of positioning times, for policies like `sptf`; few hosts have one.
        match queue.next(now, None) {
            Step::Dispatch(ticket) => {
                let Request { op, start, sectors, .. } = *queue.request(&ticket);
                println!("{now}: dispatch {op} of {sectors} sectors at {start}");
                now += Span::from_millis(5);
                queue.complete(now, ticket, Outcome::Done);
            }
            // The policy waits. A host with other events calls `next` at the next event, at the latest at `until`.
            Step::Wait(hold) => now = hold.until.expect("no other event ends the wait"),
            Step::Full | Step::Idle => break,
        }
        print_notices(&mut queue, now);
    }
}

/// A host drains the notices after each call of the queue.
fn print_notices(queue: &mut Queue, now: Time) {
    while let Some(notice) = queue.notice() {
        match notice {
            Notice::Finished(finished) => {
                println!("{now}: finished {:?} after {}", finished.token, now.since(finished.submitted));
            }
            // The submitter of a submission that was `Accepted::Asleep` may continue.
            Notice::Woken(token) => println!("{now}: woken {token:?}"),
        }
    }
}
