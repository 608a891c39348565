//! Dispatches the same hundred random reads under several policies and prints the distance of head movement and the total time.
//!
//! `cargo run -p dwell-schedulers --example compare_policies`
//!
//! In a program of its own, its `Cargo.toml` has `elevator = { package = "dwell-elevator", path = "…" }`.

use dwell_schedulers::{Environment, Spec};
use elevator::queue::{Options, Plugging, Queue, Step, Submission, Token};
use elevator::{Op, Outcome, Random, Sector, Sectors, Span, Time};

/// The distance that the head moves, in million sectors, and the time for all reads.
fn run(name: &str) -> (u64, Time) {
    let scheduler = Spec::parse(name)
        .and_then(|spec| spec.build(&Environment::default()))
        .unwrap_or_else(|error| panic!("{error}"));
    let options = Options { depth: 1, plugging: Plugging::None, ..Options::default() };
    let mut queue: Queue = Queue::new(options, scheduler);
    let mut random = Random::new(1);
    for token in 0..100 {
        let start = Sector(random.below(1 << 20) * 8);
        let _ = queue.submit(Time::ZERO, Submission::new(Token(token), Op::Read, start, Sectors(8)));
    }
    let (mut now, mut head, mut distance) = (Time::ZERO, Sector(0), 0);
    loop {
        match queue.next(now, None) {
            Step::Dispatch(ticket) => {
                let seek = head.distance(queue.request(&ticket).start);
                head = queue.request(&ticket).end();
                distance += seek;
                // 4 ms for the rotation, and 1 ms for each million sectors of the seek.
                now += Span::from_millis(4) + Span::from_nanos(seek);
                queue.complete(now, ticket, Outcome::Done);
            }
            Step::Wait(hold) => now = hold.until.expect("nothing is in flight to wait for"),
            Step::Full | Step::Idle => return (distance / 1_000_000, now),
        }
    }
}

fn main() {
    println!("{:28} {:>16} {:>12}", "policy", "million sectors", "time");
    for name in ["noop", "sstf", "look", "deadline{fifo_batch=8}", "stream(deadline)", "cfq", "bfq"] {
        let (distance, time) = run(name);
        println!("{name:28} {distance:>16} {:>12}", time.to_string());
    }
}
