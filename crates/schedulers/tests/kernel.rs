//! The policies of current kernels compared with the kernel, decision by decision.
//!
//! `tests/kernel` has recordings of Linux 6.18 (HZ=250) on a loop device in front of an emulated hard disk: the tracepoints
//! `block_rq_insert`, `block_rq_issue` and `block_rq_complete`, in microseconds since a tick, under fio's direct I/O
//! without merges. The test replays insertions and completions at their recorded times and calls `next` after each event. Every dispatch
//! must be the kernel's next dispatch.
//!
//! Two deviations are allowed: the kernel takes one more request from its policy than the device has tags, and two of its processors may
//! exchange two requests within microseconds.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use dwell_schedulers::{Environment, Spec};
use elevator::queue::{Cache, Limits, Options, Plugging, Queue, Step, Submission, Ticket, Token};
use elevator::{Op, Outcome, Priority, PriorityClass, Process, Sector, Sectors, Span, Time};

/// The maximum time between two exchanged requests.
const RACE: Span = Span::from_micros(100);

struct Host {
    queue: Queue,
    tickets: HashMap<u64, Ticket>,
    sent: VecDeque<(Time, u64)>,
    ask_at: Option<Time>,
}

impl Host {
    fn new(scheduler: &str, depth: u32) -> Self {
        let scheduler = Spec::parse(scheduler).unwrap().build(&Environment::default()).unwrap();
        let options = Options {
            depth: depth + 1,
            merges: false,
            plugging: Plugging::None,
            limits: Limits::NONE,
            cache: Cache::WriteThrough,
            ..Options::default()
        };
        let queue = Queue::new(options, scheduler);
        Self { queue, tickets: HashMap::new(), sent: VecDeque::new(), ask_at: None }
    }

    fn ask(&mut self, now: Time) {
        self.ask_at = loop {
            match self.queue.next(now, None) {
                Step::Dispatch(ticket) => {
                    let start = self.queue.request(&ticket).start.0;
                    self.tickets.insert(start, ticket);
                    self.sent.push_back((now, start));
                }
                Step::Wait(hold) => break hold.until,
                Step::Full | Step::Idle => break None,
            }
        };
        while self.queue.notice().is_some() {}
    }

    fn pass(&mut self, now: Time) {
        while let Some(at) = self.ask_at.filter(|&at| at <= now) {
            self.ask(at);
        }
    }

    /// Whether the policy dispatched the kernel's request.
    fn issued(&mut self, now: Time, start: u64) -> bool {
        let found = self.sent.iter().take(2).position(|&(_, sent)| sent == start);
        match found {
            Some(0) => {}
            Some(_) if now.since(self.sent[1].0) < RACE => {}
            _ => return false,
        }
        found.and_then(|at| self.sent.remove(at)).is_some()
    }
}

fn submission(token: usize, words: &[&str]) -> Submission {
    let number = |at: usize| words[at].parse::<u32>().unwrap();
    let op = if words[4] == "W" { Op::Write } else { Op::Read };
    let start = Sector(words[2].parse().unwrap());
    let mut submission = Submission::new(Token(token as u64), op, start, Sectors(number(3)));
    submission.flags.sync = true;
    submission.process = Some(Process::single(number(5)));
    let class = match words[6] {
        "rt" => PriorityClass::RealTime,
        "idle" => PriorityClass::Idle,
        _ => PriorityClass::BestEffort,
    };
    submission.priority = Priority { class, level: words[7].parse().unwrap() };
    submission
}

fn recording(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel").join(format!("{name}.txt.gz"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

fn same_decisions(name: &str, scheduler: &str, depth: u32, decisions: usize) {
    let mut host = Host::new(scheduler, depth);
    let mut issued = 0;
    for (number, line) in recording(name).lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let now = Time::from_nanos(words[0].parse::<u64>().unwrap() * 1_000);
        let start: u64 = words[2].parse().unwrap();
        host.pass(now);
        match words[1] {
            "insert" => _ = host.queue.submit(now, submission(number, &words)),
            "issue" => {
                let sent: Vec<u64> = host.sent.iter().map(|&(_, start)| start).collect();
                let same = host.issued(now, start);
                assert!(same, "{name}, line {}: the kernel sent {start}, here it was {sent:?}", number + 1);
                issued += 1;
            }
            _ => {
                if let Some(ticket) = host.tickets.remove(&start) {
                    host.queue.complete(now, ticket, Outcome::Done);
                }
            }
        }
        host.ask(now);
    }
    assert_eq!(issued, decisions, "{name}");
}

/// 200 outstanding random writes, and three times 20 random reads, which expire.
#[test]
fn mq_deadline() {
    same_decisions("mq-deadline", "mq-deadline", 31, 1600);
}

/// 64 outstanding random reads and writes.
#[test]
fn kyber() {
    same_decisions("kyber", "kyber", 4, 913);
}

#[test]
fn bfq() {
    // A stream of 64 KB and two seekers.
    same_decisions("bfq-stream-and-seekers", "bfq", 4, 589);
    // The same with 16 outstanding random writes, on a device that queues.
    same_decisions("bfq-all-sorts", "bfq", 31, 728);
    // Four streams of 4 KB, 50 GB apart.
    same_decisions("bfq-streams", "bfq{low_latency=0}", 4, 1500);
    // Three processes with eight outstanding random reads each.
    same_decisions("bfq-crowd", "bfq{low_latency=0}", 4, 910);
}
