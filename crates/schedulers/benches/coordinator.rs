//! Nanoseconds that an array's coordinator adds to a request, by number of members: arrived + inserted + dispatched + part
//! completed + completed, and collecting its directives.
//!
//! `cargo bench -p dwell-schedulers --bench coordinator`
//!
//! RAID 0 with units of 64 KiB; each request is one unit. Four requests per member are always unfinished, from eight
//! sequential readers or at random positions. A member's selected pending request is always a distant one that belongs to no stream. Every
//! request is served at once, and heads arrive as soon as a directive calls them.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;

use dwell_schedulers::{Environment, Spec};
use elevator::Random;
use elevator::array::{ArrayRequest, ArrayRequestId, Coordinator, Directive, Member, Report};
use elevator::{Flags, Op, Priority, Request, RequestId, Sector, Sectors, Span, Time};

const UNIT: u64 = 128;
/// Sectors of a member.
const CAPACITY: u64 = 976_773_168;
const READERS: u64 = 8;
const TURNS: u32 = 200_000;

struct Bench {
    coordinator: Box<dyn Coordinator>,
    members: u64,
    random: Random,
    now: Time,
    /// Unfinished requests: the member, the array request's id and the request. Ids are reused in turn.
    unfinished: VecDeque<(Member, ArrayRequestId, Request)>,
    positions: Vec<u64>,
    turns: u32,
    is_random: bool,
}

impl Bench {
    fn new(members: u32, is_random: bool) -> Self {
        let spec = Spec::parse("array-stream").expect("it is listed");
        let coordinator = spec.build_coordinator(&Environment::default(), members).expect("defaults");
        let units = CAPACITY / UNIT * u64::from(members);
        Self {
            coordinator: coordinator.expect("array-stream has a coordinator"),
            members: u64::from(members),
            random: Random::new(1),
            now: Time::ZERO,
            unfinished: VecDeque::new(),
            positions: (0..READERS).map(|reader| reader * (units / READERS)).collect(),
            turns: 0,
            is_random,
        }
    }

    fn submit(&mut self) {
        self.turns += 1;
        let unit = if self.is_random {
            self.random.below(CAPACITY / UNIT * self.members)
        } else {
            let position = &mut self.positions[(self.turns % READERS as u32) as usize];
            *position += 1;
            *position
        };
        let name = self.turns % (5 * self.members as u32);
        let (job, member) = (ArrayRequestId(name), Member((unit % self.members) as u32));
        let sectors = Sectors(UNIT as u32);
        let array = ArrayRequest { id: job, op: Op::Read, start: Sector(unit * UNIT), sectors, parts: 1 };
        self.coordinator.arrived(self.now, &array);
        let request = Request {
            id: RequestId(name),
            serial: u64::from(self.turns),
            op: Op::Read,
            start: Sector(unit / self.members * UNIT),
            sectors,
            flags: Flags::default(),
            priority: Priority::default(),
            process: None,
            causes: None,
            arrived: self.now,
        };
        self.coordinator.inserted(self.now, member, &request, job);
        self.take_directives();
        self.coordinator.dispatched(self.now, member, &request);
        self.unfinished.push_back((member, job, request));
    }

    fn take_directives(&mut self) {
        while let Some((member, directive)) = self.coordinator.directive() {
            if matches!(black_box(directive), Directive::Urgent(_)) {
                self.coordinator.reported(self.now, member, Report::Established);
            }
        }
    }

    fn turn(&mut self) {
        self.now += Span::from_micros(200);
        let Some((member, job, request)) = self.unfinished.pop_front() else { return };
        let selected =
            self.unfinished.iter().find(|(other, ..)| *other == member).map(|(.., other)| other.id);
        self.coordinator.part_completed(self.now, member, &request, selected);
        self.coordinator.completed(self.now, job);
        if self.coordinator.next_event().is_some_and(|at| at <= self.now) {
            self.coordinator.pass(self.now);
        }
        self.take_directives();
        self.submit();
    }
}

/// The minimum of seven measurements, in nanoseconds per request.
fn measure(members: u32, is_random: bool) -> f64 {
    let mut bench = Bench::new(members, is_random);
    for _ in 0..4 * members {
        bench.submit();
    }
    let mut best = f64::INFINITY;
    for _ in 0..7 {
        let begun = Instant::now();
        for _ in 0..TURNS {
            bench.turn();
        }
        best = best.min(begun.elapsed().as_nanos() as f64 / f64::from(TURNS));
    }
    best
}

fn main() {
    println!("{:>8} {:>18} {:>10}", "members", "eight readers", "random");
    for members in [2, 5, 8, 16, 24] {
        println!("{members:8} {:18.0} {:10.0}", measure(members, false), measure(members, true));
    }
}
