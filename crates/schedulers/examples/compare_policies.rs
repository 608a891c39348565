//! Dispatches the same hundred reads under several policies and prints how far the head moved and how long reads waited.
//!
//! `cargo run -p dwell-schedulers --example compare_policies`

use dwell_schedulers::{Environment, Spec};
use elevator::queue::{Notice, Options, Plugging, Queue, Step, Submission, Token};
use elevator::{Op, Outcome, Random, Sector, Sectors, Span, Time};

/// The total distance of the head in million sectors, and the longest wait.
fn run(name: &str) -> (u64, Span) {
    let scheduler = Spec::parse(name)
        .and_then(|spec| spec.build(&Environment::default()))
        .unwrap_or_else(|error| panic!("{error}"));
    let options = Options { depth: 1, plugging: Plugging::None, ..Options::default() };
    let mut queue: Queue = Queue::new(options, scheduler);
    let (mut random, mut now, mut head) = (Random::new(1), Time::ZERO, Sector(0));
    for token in 0..100 {
        let start = Sector(random.below(1 << 20) * 8);
        let _ = queue.submit(now, Submission::new(Token(token), Op::Read, start, Sectors(8)));
    }
    let (mut distance, mut longest) = (0, Span::ZERO);
    loop {
        match queue.next(now, None) {
            Step::Dispatch(ticket) => {
                distance += head.distance(queue.request(&ticket).start);
                head = queue.request(&ticket).end();
                now += Span::from_millis(8);
                queue.complete(now, ticket, Outcome::Done);
            }
            Step::Wait(hold) => now = hold.until.expect("nothing is in flight to wait for"),
            Step::Full | Step::Idle => break,
        }
        while let Some(notice) = queue.notice() {
            if let Notice::Finished(finished) = notice {
                longest = longest.max(now.since(finished.submitted));
            }
        }
    }
    (distance / 1_000_000, longest)
}

fn main() {
    println!("{:28} {:>16} {:>14}", "policy", "million sectors", "longest wait");
    for name in ["noop", "sstf", "look", "deadline{fifo_batch=8}", "stream(deadline)", "cfq", "bfq"] {
        let (distance, longest) = run(name);
        println!("{name:28} {distance:>16} {:>14}", longest.to_string());
    }
}
