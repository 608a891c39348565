//! Nanoseconds per request for insert + next + completed, for every policy of the registry, with 1, 128 and 10,000 requests
//! always queued; and the number of allocations in that steady state, which must be zero.
//!
//! `cargo bench -p dwell-schedulers --bench policies [name]`: with a name, only policies whose full name begins with it; with
//! tunables (`sptf{ageing=1%}`), only that policy.
//!
//! Each turn inserts one request at a random position, calls `next` until a request is dispatched, and completes it at once (a device of
//! depth 1). Virtual time advances by 1 ms per turn, or to the end of a wait. Two thirds of the requests are reads; 16 processes.
//! The time includes the table of requests and the random generator; their own time is printed first ("harness").

mod allocations;

use std::hint::black_box;
use std::time::Instant;

use dwell_schedulers::{Environment, Spec, registry};
use elevator::Random;
use elevator::Requests;
use elevator::{
    Angles, Decision, Device, Flags, LastDispatched, Op, Outcome, Positioning, Priority, Process, Request,
    RequestId, Scheduler, Sector, Sectors, Span, Time, View,
};

/// Sectors of the device: 500 GB.
const CAPACITY: u64 = 976_773_168;

/// Virtual time of a turn: a short seek.
const TURN: Span = Span::from_millis(1);

/// A minimal host of a scheduler.
struct Bench {
    requests: Requests,
    random: Random,
    now: Time,
    last_dispatched: Option<LastDispatched>,
}

/// A fast oracle of positioning times: the head is at the end of the last request, a seek takes 0.6 to 10 ms by the square root of its
/// distance, and a revolution takes 8.3 ms.
struct Disc {
    head: u64,
}

const REVOLUTION_NS: u64 = 8_333_333;

impl Disc {
    fn seek(sectors: u64) -> Span {
        Span::from_nanos(if sectors == 0 { 0 } else { 600_000 + 300 * sectors.isqrt() })
    }

    /// The time within a revolution at which a sector passes.
    fn place(sector: Sector) -> u64 {
        ((sector.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * REVOLUTION_NS) >> 32
    }

    fn angle_of(nanos: u64) -> u32 {
        ((nanos << 32) / REVOLUTION_NS) as u32
    }

    fn reached(now: Time, sectors: u64, within: Span) -> Option<Angles> {
        let seek = Self::seek(sectors);
        let rest = within.as_nanos().checked_sub(seek.as_nanos())?;
        if rest >= REVOLUTION_NS {
            return Some(Angles::ALL);
        }
        let first = Self::angle_of((now + seek).as_nanos() % REVOLUTION_NS);
        Some(Angles { first, length: Self::angle_of(rest).saturating_add(1) })
    }
}

impl Positioning for Disc {
    fn positioning_time(&self, now: Time, request: &Request) -> Span {
        let seek = Self::seek(request.start.0.abs_diff(self.head));
        let landed = (now + seek).as_nanos() % REVOLUTION_NS;
        let wait = Self::place(request.start) + REVOLUTION_NS - landed;
        seek + Span::from_nanos(wait % REVOLUTION_NS)
    }

    fn angle(&self, sector: Sector) -> u32 {
        Self::angle_of(Self::place(sector))
    }

    fn reached_at_or_above(&self, now: Time, sector: Sector, within: Span) -> Option<Angles> {
        Self::reached(now, sector.0.saturating_sub(self.head), within)
    }

    fn reached_at_or_below(&self, now: Time, sector: Sector, within: Span) -> Option<Angles> {
        Self::reached(now, self.head.saturating_sub(sector.0), within)
    }
}

impl Bench {
    fn request(&mut self) -> Request {
        let place = self.random.next();
        let process = Process::single((place >> 40) as u32 % 16);
        Request {
            id: RequestId(0),
            serial: 0,
            op: if place.is_multiple_of(3) { Op::Write } else { Op::Read },
            start: Sector(self.random.below(CAPACITY)),
            sectors: Sectors(8),
            flags: Flags::default(),
            priority: Priority::default(),
            process: Some(process),
            causes: None,
            arrived: self.now,
        }
    }

    fn insert(&mut self, scheduler: &mut dyn Scheduler) {
        let request = self.request();
        let id = self.requests.add(request);
        scheduler.insert(self.now, &self.requests[id]);
    }

    fn next(&self, scheduler: &mut dyn Scheduler) -> Decision {
        let disc = Disc { head: self.last_dispatched.map_or(0, |last| last.end.0) };
        let last_dispatched = self.last_dispatched;
        let device = Device { depth: 1, in_flight: 0, last_dispatched, positioning: Some(&disc) };
        scheduler.next(self.now, &View { requests: &self.requests, device })
    }

    /// One request in, one request out.
    fn turn(&mut self, scheduler: &mut dyn Scheduler) {
        self.insert(scheduler);
        loop {
            match self.next(scheduler) {
                Decision::Dispatch { id, .. } => return self.complete(scheduler, id),
                Decision::Hold(hold) => self.now = hold.until.expect("nothing is in flight to wait for"),
                Decision::Idle => panic!("a request is queued"),
            }
        }
    }

    fn complete(&mut self, scheduler: &mut dyn Scheduler, id: RequestId) {
        let r = self.requests.remove(id);
        self.last_dispatched =
            Some(LastDispatched { serial: r.serial, start: r.start, end: r.end(), at: self.now });
        self.now += TURN;
        scheduler.completed(self.now, &r, Outcome::Done);
    }
}

struct Measured {
    nanos: f64,
    allocations: u64,
}

fn bench() -> Bench {
    let requests = Requests::default();
    Bench { requests, random: Random::new(1), now: Time::ZERO, last_dispatched: None }
}

/// The mean of the fastest tenth of many short rounds, because other load only makes rounds slower.
fn measure(turns: u64, mut turn: impl FnMut()) -> Measured {
    let mut nanos = Vec::with_capacity(ROUNDS);
    let before = allocations::until_now();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        (0..turns).for_each(|_| turn());
        nanos.push(start.elapsed().as_nanos() as f64 / turns as f64);
    }
    let allocations = allocations::until_now() - before;
    nanos.sort_by(f64::total_cmp);
    Measured { nanos: nanos[ROUNDS / 10], allocations }
}

const ROUNDS: usize = 100;

fn measure_policy(spec: &str, queued: u64) -> Measured {
    let mut scheduler = Spec::parse(spec).unwrap().build(&Environment::default()).unwrap();
    let mut bench = bench();
    for _ in 1..queued {
        bench.insert(&mut *scheduler);
    }
    // Long enough for each process's queue to reach its maximum length once.
    for _ in 0..20 * queued.max(10_000) {
        bench.turn(&mut *scheduler);
    }
    measure(2_000, || bench.turn(&mut *scheduler))
}

/// The table of requests and the random generator without a policy.
fn measure_harness() -> Measured {
    let mut bench = bench();
    measure(2_000, || {
        let request = bench.request();
        let id = bench.requests.add(black_box(request));
        black_box(bench.requests.remove(id));
        bench.now += TURN;
    })
}

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let bare = registry::all().filter(|l| !l.is_wrapper()).map(dwell_schedulers::Listing::full_name);
    let wrapped =
        registry::all().filter(|l| l.is_work_conserving()).map(|l| format!("stream({})", l.full_name()));
    println!("{:28} {:>10} {:>10} {:>10}   allocations", "ns per request, queued:", 1, 128, 10_000);
    println!("{:28} {:10.0}", "harness", measure_harness().nanos);
    let mut allocated = Vec::new();
    let tuned = wanted.contains('{').then(|| wanted.clone());
    for spec in bare.chain(wrapped).filter(|spec| spec.starts_with(&wanted)).chain(tuned) {
        let [one, many, most] = [1, 128, 10_000].map(|queued| measure_policy(&spec, queued));
        let allocations = one.allocations + many.allocations + most.allocations;
        println!("{spec:28} {:10.0} {:10.0} {:10.0} {allocations:13}", one.nanos, many.nanos, most.nanos);
        if allocations > 0 {
            allocated.push(spec);
        }
    }
    assert!(allocated.is_empty(), "allocated in steady state: {allocated:?}");
}
