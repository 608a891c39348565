//! A machine in a few lines: closed-loop readers, the real queue, and a disk whose service time is a function of
//! distance alone.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use elevator::queue::{
    Accepted, Identity, Limits, Notice, Options, Plugging, Queue, Step, Submission, Ticket, Token,
};
use elevator::service_time::ServiceCurve;
use elevator::{Flags, Op, Outcome, Priority, Process, Scheduler, Sector, Sectors, Span, Time};
use schedulers::{Environment, Spec};

/// Sectors in 4 KiB.
pub const PAGE: u32 = 8;
/// Sectors in 50 GB.
pub const GAP: u64 = 50_000_000_000 / 512;

/// A closed-loop process: it issues its next request when the last one came back and it has thought.
#[derive(Clone)]
pub struct Reader {
    /// Its next request begins here.
    pub position: u64,
    /// From one request's start to the next one's.
    pub stride: u64,
    /// Between a completion and the next request.
    pub think: Span,
    /// Requests that it keeps outstanding.
    pub outstanding: u32,
    /// After this many requests it waits for its partner to have made as many; 0 for never.
    pub synchronizes: u64,
    /// The reader that it waits for.
    pub partner: usize,
    /// Requests issued and completed so far.
    pub issued: u64,
    /// Requests completed so far.
    pub done: u64,
    /// The longest from a request's issue to its completion.
    pub longest: Span,
}

impl Reader {
    /// Reads from `position` on, 4 KiB after 4 KiB.
    pub fn at(position: u64) -> Self {
        Self {
            position,
            stride: u64::from(PAGE),
            think: Span::ZERO,
            outstanding: 1,
            synchronizes: 0,
            partner: 0,
            issued: 0,
            done: 0,
            longest: Span::ZERO,
        }
    }
}

/// The stream paper's `par-read`: four readers, 50 GB apart.
pub fn par_read(think: Span) -> Vec<Reader> {
    (0..4).map(|n| Reader { think, ..Reader::at(n * GAP) }).collect()
}

/// What happens next, and in which order at one time.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy, Debug)]
enum Event {
    DeviceDone,
    Issue(usize),
    Ask,
}

/// What came out of a run.
#[derive(Debug)]
pub struct Outcomes {
    /// Requests completed.
    pub requests: u64,
    /// The longest from issue to completion.
    pub longest: Span,
    /// Per reader.
    pub done: Vec<u64>,
}

pub struct Machine {
    queue: Queue,
    curve: ServiceCurve,
    readers: Vec<Reader>,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    /// In the device, since when. Served nearest first, as a drive with a queue does; but half the time that a command has
    /// waited is taken off, so that none waits for ever.
    inside: Vec<(Ticket, Time)>,
    busy: bool,
    head: Sector,
    issued_at: HashMap<Token, Time>,
    now: Time,
    /// The latest time at which it will ask without an event.
    asks_at: Option<Time>,
}

/// Runs readers under a scheduler for `seconds`, at that depth.
pub fn run(spec: &str, depth: u32, readers: Vec<Reader>, seconds: u64) -> Outcomes {
    let scheduler = Spec::parse(spec).unwrap().build(&Environment::default()).unwrap();
    Machine::new(scheduler, depth, readers).run(Time::ZERO + Span::from_secs(seconds))
}

impl Machine {
    pub fn new(scheduler: Box<dyn Scheduler>, depth: u32, readers: Vec<Reader>) -> Self {
        let options = Options {
            depth,
            plugging: Plugging::None,
            limits: Limits::NONE,
            identity: Identity::Hidden,
            ..Options::default()
        };
        let mut machine = Self {
            queue: Queue::new(options, scheduler),
            curve: ServiceCurve::default(),
            events: BinaryHeap::new(),
            inside: Vec::new(),
            busy: false,
            head: Sector(0),
            issued_at: HashMap::new(),
            now: Time::ZERO,
            asks_at: None,
            readers,
        };
        for n in 0..machine.readers.len() {
            for _ in 0..machine.readers[n].outstanding {
                machine.events.push(Reverse((Time::ZERO, Event::Issue(n))));
            }
        }
        machine
    }

    pub fn run(mut self, end: Time) -> Outcomes {
        while let Some(Reverse((at, event))) = self.events.pop() {
            if at > end {
                break;
            }
            self.now = at;
            match event {
                Event::DeviceDone => self.finish(),
                Event::Issue(n) => self.issue(n),
                Event::Ask => {}
            }
            self.feed();
        }
        Outcomes {
            requests: self.readers.iter().map(|r| r.done).sum(),
            longest: self.readers.iter().map(|r| r.longest).max().unwrap(),
            done: self.readers.iter().map(|r| r.done).collect(),
        }
    }

    fn issue(&mut self, n: usize) {
        let reader = &mut self.readers[n];
        let token = Token((n as u64) << 32 | reader.issued);
        let submission = Submission {
            token,
            op: Op::Read,
            start: Sector(reader.position),
            sectors: Sectors(PAGE),
            flags: Flags::default(),
            priority: Priority::default(),
            process: Some(Process::single(n as u32)),
            causes: None,
        };
        reader.issued += 1;
        reader.position += reader.stride;
        self.issued_at.insert(token, self.now);
        assert_eq!(self.queue.submit(self.now, submission), Accepted::Queued);
    }

    fn finish(&mut self) {
        self.busy = false;
        let (ticket, _) = self.inside.remove(0);
        self.head = self.queue.request(&ticket).end();
        self.queue.complete(self.now, ticket, Outcome::Done);
        while let Some(Notice::Finished(finished)) = self.queue.notice() {
            self.returned((finished.token.0 >> 32) as usize, finished.token);
        }
    }

    fn returned(&mut self, n: usize, token: Token) {
        let took = self.now.since(self.issued_at.remove(&token).unwrap());
        let reader = &mut self.readers[n];
        reader.done += 1;
        reader.longest = reader.longest.max(took);
        let again = self.now + reader.think;
        let (done, partner, every) = (reader.done, reader.partner, reader.synchronizes);
        if every == 0 || done % every != 0 {
            self.events.push(Reverse((again, Event::Issue(n))));
        } else if self.readers[partner].done >= done {
            self.events.push(Reverse((again, Event::Issue(n))));
            if self.readers[partner].done == done {
                self.events.push(Reverse((again, Event::Issue(partner))));
            }
        }
    }

    /// Gives the device what it takes, and starts it on the nearest of what it has.
    fn feed(&mut self) {
        loop {
            match self.queue.next(self.now, None) {
                Step::Dispatch(ticket) => self.inside.push((ticket, self.now)),
                Step::Wait(hold) => {
                    if let Some(until) = hold.until
                        && self.asks_at != Some(until)
                    {
                        assert!(until > self.now, "a wait that is over");
                        self.asks_at = Some(until);
                        self.events.push(Reverse((until, Event::Ask)));
                    }
                    break;
                }
                Step::Full | Step::Idle => break,
            }
            self.start();
        }
        self.start();
    }

    fn start(&mut self) {
        if self.busy || self.inside.is_empty() {
            return;
        }
        let time = |(ticket, _): &(Ticket, Time)| {
            let start = self.queue.request(ticket).start;
            self.curve.service_time(self.head, start, 100).as_nanos() as i64
        };
        let aged = |inside: &(Ticket, Time)| time(inside) - self.now.since(inside.1).as_nanos() as i64 / 2;
        let nearest = (0..self.inside.len()).min_by_key(|&n| aged(&self.inside[n])).unwrap();
        self.inside.swap(0, nearest);
        self.busy = true;
        let took = Span::from_nanos(time(&self.inside[0]) as u64);
        self.events.push(Reverse((self.now + took, Event::DeviceDone)));
    }
}
