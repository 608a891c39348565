//! Processor time of split policies: nanoseconds per system call (entered + returned), per dirtied page
//! (dirtied + submitted), and per request with causes (insert + next + completed), with 8 accounts; and the allocations of
//! requests in the steady state, which must be zero.
//!
//! `cargo bench -p dwell-schedulers --bench split`. Each figure is from the fastest tenth of 100 rounds and includes about 5 ns of
//! the benchmark's own work. Requests are measured with 128 queued.

mod allocations;

use std::time::Instant;

use dwell_schedulers::{Environment, Listing, Spec, registry};
use elevator::Random;
use elevator::Requests;
use elevator::split::{Account, CallId, CallKind, File, Page, SystemCall, Terms, Verdict};
use elevator::{
    CauseSet, Decision, Device, Flags, LastDispatched, Op, Outcome, Priority, Process, Request, RequestId,
    Scheduler, Sector, Sectors, Span, Time, View,
};

const ACCOUNTS: u32 = 8;
const ROUNDS: usize = 100;
const TURNS: u64 = 2_000;
/// Turns after which every list has reached its maximum length.
const WARM_UP: u64 = 400_000;

/// The mean of the fastest tenth of many short rounds, because other load only makes rounds slower.
fn measure(mut turn: impl FnMut(u64)) -> f64 {
    let mut nanos = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS as u64 {
        let start = Instant::now();
        (0..TURNS).for_each(|n| turn(round * TURNS + n));
        nanos.push(start.elapsed().as_nanos() as f64 / TURNS as f64);
    }
    nanos.sort_by(f64::total_cmp);
    nanos[ROUNDS / 10]
}

fn policy(name: &str) -> Box<dyn Scheduler + Send> {
    let mut scheduler = Spec::parse(name).unwrap().build(&Environment::default()).unwrap();
    let split = scheduler.split().expect("a split policy");
    for n in 0..ACCOUNTS {
        let priority = Priority { level: n as u8, ..Priority::default() };
        split.account(Time::ZERO, Account(n), Terms { priority, ..Terms::default() });
        split.causes(CauseSet(n), &[Account(n)]);
    }
    scheduler
}

fn calls(name: &str) -> f64 {
    let mut scheduler = policy(name);
    let split = scheduler.split().expect("a split policy");
    measure(|n| {
        let now = Time::from_nanos(n * 1_000);
        let kind = CallKind::Write { file: File(n % 8), bytes: 4096 };
        let call = SystemCall { id: CallId(0), account: Account(n as u32 % ACCOUNTS), kind };
        if split.entered(now, &call) == Verdict::Hold {
            while split.act(now).is_some() {}
        }
        split.returned(now, &call);
    })
}

fn pages(name: &str) -> f64 {
    let mut scheduler = policy(name);
    let split = scheduler.split().expect("a split policy");
    measure(|n| {
        let now = Time::from_nanos(n * 1_000);
        let set = CauseSet(n as u32 % ACCOUNTS);
        let page = Page { file: File(n % 8), offset: n / 8 * 4096, bytes: 4096 };
        split.dirtied(now, &page, set, None);
        split.submitted(now, &page, set);
    })
}

/// Nanoseconds, and allocations in steady state.
fn requests(name: &str) -> (f64, u64) {
    let mut scheduler = policy(name);
    let (mut slab, mut random) = (Requests::default(), Random::new(1));
    let mut last_dispatched = None;
    let mut insert = |scheduler: &mut dyn Scheduler, slab: &mut Requests, now: Time| {
        let account = random.below(u64::from(ACCOUNTS)) as u32;
        let id = slab.add(Request {
            id: RequestId(0),
            serial: 0,
            op: if random.below(3) == 0 { Op::Write } else { Op::Read },
            start: Sector(random.below(976_773_168)),
            sectors: Sectors(8),
            flags: Flags::default(),
            priority: Priority::default(),
            process: Some(Process::single(account)),
            causes: Some(CauseSet(account)),
            arrived: now,
        });
        scheduler.insert(now, &slab[id]);
    };
    for _ in 1..128 {
        insert(&mut *scheduler, &mut slab, Time::ZERO);
    }
    let mut now = Time::ZERO;
    let mut turn = || {
        insert(&mut *scheduler, &mut slab, now);
        loop {
            let device = Device { depth: 1, in_flight: 0, last_dispatched, positioning: None };
            match scheduler.next(now, &View { requests: &slab, device }) {
                Decision::Dispatch { id, .. } => {
                    let r = slab.remove(id);
                    last_dispatched =
                        Some(LastDispatched { serial: r.serial, start: r.start, end: r.end(), at: now });
                    now += Span::from_millis(1);
                    scheduler.completed(now, &r, Outcome::Done);
                    return;
                }
                Decision::Hold(hold) => now = hold.until.expect("nothing is in flight to wait for"),
                Decision::Idle => panic!("requests are queued"),
            }
        }
    };
    (0..WARM_UP).for_each(|_| turn());
    let before = allocations::until_now();
    let nanos = measure(|_| turn());
    // One allocation is the benchmark's own list of rounds.
    (nanos, allocations::until_now() - before - 1)
}

fn main() {
    println!("{:28} {:>10} {:>10} {:>10}   allocations", "ns", "call", "page", "request");
    let mut allocated = Vec::new();
    let split = || registry::all().filter(|listing| listing.split);
    let wrapped = split().filter(|l| l.is_work_conserving()).map(|l| format!("stream({})", l.full_name()));
    for name in split().map(Listing::full_name).chain(wrapped) {
        let (nanos, allocations) = requests(&name);
        println!("{name:28} {:10.0} {:10.0} {nanos:10.0} {allocations:13}", calls(&name), pages(&name));
        if allocations > 0 {
            allocated.push(name);
        }
    }
    assert!(allocated.is_empty(), "allocated in steady state: {allocated:?}");
}
