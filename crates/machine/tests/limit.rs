//! No scheduler beats the physical limit, and all have the same one.

use disks::array::ArrayDescription;
use disks::{Drive, SkewedClock, Truncated};
use elevator::queue::Options;
use elevator::{Flags, Op, Random, Sector, Sectors, Span, Time};
use machine::{ArrayMember, ArraySetup, Await, Io, Limit, Machine, Next, Program, Setup, Stop, Submitter};
use schedulers::{Environment, Spec};

/// A drive with overrides, such as `ide-2003{depth=1}`.
fn drive(name: &str) -> Box<dyn Drive> {
    disks::open(name, &mut |_| unreachable!("built in")).expect("a drive").0
}

const DRIVES: [&str; 12] = [
    "wd5000aaks",
    "wd5000aaks{depth=1}",
    "wd5000aaks{write_cache=off}",
    "wd5000aaks{read_ahead=off}",
    "wd5000aaks{buffer=off}",
    "barracuda-7200.10",
    "maxtor-20gb",
    "ide-2003",
    "ide-2003{write_cache=off}",
    "st31500341as",
    "ssd-sata",
    "ssd-nvme",
];

const SCHEDULERS: [&str; 5] = ["noop", "deadline", "stream(deadline)", "bfq", "sptf"];

#[derive(Clone, Copy)]
enum Step {
    Submit(Io),
    Await(Await),
    Think(u64),
    Until(u64),
}

/// Steps in order, then the end of all submissions.
struct Steps(std::vec::IntoIter<Step>, bool);

impl Program for Steps {
    fn next(&mut self, _now: Time) -> Next {
        match self.0.next() {
            Some(Step::Submit(io)) => Next::Submit(io),
            Some(Step::Await(what)) => Next::Await(what),
            Some(Step::Think(nanos)) => Next::Think(Span::from_nanos(nanos)),
            Some(Step::Until(at)) => Next::Until(Time::from_nanos(at)),
            None if !std::mem::replace(&mut self.1, true) => Next::Await(Await::All),
            None => Next::Exit,
        }
    }
}

/// A process that reads or writes in order, in strides or at random, alone in its region or together with others, and waits for each request, for
/// some, or for none.
fn steps(random: &mut Random, capacity: u64) -> Vec<Step> {
    let span = [2_000, 100_000, 10_000_000, capacity][random.below(4) as usize].min(capacity);
    let region = random.below(3) * (capacity - span) / 2;
    let sectors = [1, 8, 64, 128, 1000][random.below(5) as usize];
    let stride = [0, 0, u64::from(sectors), 400, 3_000][random.below(5) as usize];
    let (writes, waits) = (random.below(5), random.below(4));
    let (thinks, is_random) = (random.below(3), random.below(3) == 0);
    let mut place = random.below(span);
    let mut steps = Vec::new();
    for number in 0..1 + random.below(80) {
        match thinks {
            1 => steps.push(Step::Think(random.below(3_000_000))),
            2 => steps.push(Step::Until(number * 1_500_000)),
            _ => {}
        }
        if is_random {
            place = random.below(span);
        }
        let start = (region + place % span).min(capacity - u64::from(sectors));
        let op = if random.below(4) < writes.saturating_sub(1) { Op::Write } else { Op::Read };
        let flags = Flags { sync: true, fua: random.below(20) == 0 && op == Op::Write, ..Flags::default() };
        let io = Io { op, start: Sector(start), sectors: Sectors(sectors), flags };
        steps.push(Step::Submit(io));
        place += u64::from(sectors) + stride;
        match waits {
            0 | 1 => steps.push(Step::Await(Await::Io(number))),
            2 => steps.push(Step::Await(Await::Fewer(1 + random.below(5) as u32))),
            _ => {}
        }
    }
    steps
}

fn disk(drive_name: &str, scheduler: &str) -> Machine {
    let drive = drive(drive_name);
    let scheduler = Spec::parse(scheduler).expect("a scheduler").build(&Environment::default());
    let scheduler = scheduler.expect("it can be built");
    let options = Options { depth: drive.depth(), ..Options::default() };
    Machine::new(Setup { options, scheduler, drive, observer: None })
}

/// Sectors of a member in use.
const MEMBER: Sector = Sector(1 << 22);

fn array(text: &str, drive_name: &str, scheduler: &str) -> (Machine, Sector) {
    let (array, options) = (ArrayDescription::parse(text).expect("an array"), Options::default());
    let (spec, environment) = (Spec::parse(scheduler).expect("a scheduler"), Environment::default());
    let member = |index: u32| {
        let truncated = || -> Box<dyn Drive + Send> {
            let opened = disks::open(drive_name, &mut |_| unreachable!("built in"));
            Box::new(Truncated::new(opened.expect("a drive").0, MEMBER))
        };
        let drive: Box<dyn Drive> = match array.slow {
            Some((slow, percent)) if slow == index => Box::new(SkewedClock::slow(truncated(), percent)),
            _ => truncated(),
        };
        let scheduler = spec.build(&environment).expect("it can be built");
        ArrayMember { scheduler, drive, observer: None }
    };
    let members = (0..array.members).map(member).collect();
    let coordinator = spec.build_coordinator(&environment, array.members).expect("it can be built");
    let coordinator = coordinator.map(|of| of as Box<dyn elevator::array::Coordinator>);
    let (geometry, failed) = (array.geometry(MEMBER), array.failed);
    let stripe_cache = array.stripe_cache();
    let setup = ArraySetup { geometry, failed, stripe_cache, options, members, coordinator, observer: None };
    (Machine::with_array(setup), geometry.capacity())
}

/// Runs programs on a machine; returns the limit without the estimates, and the measured times.
fn ran(mut machine: Machine, programs: &[Vec<Step>]) -> (Limit, u64, Vec<u64>) {
    machine.record_limit();
    for (n, steps) in programs.iter().enumerate() {
        let who = Submitter::process(n as u32 + 1, format!("{n}"));
        machine.start(who, Box::new(Steps(steps.clone().into_iter(), false)));
    }
    machine.run(Stop::default()).expect("it ends");
    let (limit, measured) = (machine.limit().expect("a limit"), machine.measured());
    let processes = measured.processes.iter().map(|process| process.elapsed_ns).collect();
    (Limit { alone_ns: Vec::new(), ..limit }, measured.elapsed_ns, processes)
}

/// Runs programs under each scheduler.
fn check(what: &str, schedulers: &[&str], programs: &[Vec<Step>], machine: impl Fn(&str) -> Machine) {
    let mut first = None;
    for scheduler in schedulers {
        let (limit, elapsed_ns, processes) = ran(machine(scheduler), programs);
        let what = format!("{what} under {scheduler}");
        assert!(limit.elapsed_ns <= elapsed_ns, "{what}: {limit:?}, {elapsed_ns}");
        assert!(limit.elapsed_ns >= limit.service_ns && limit.elapsed_ns > 0, "{what}: {limit:?}");
        for (least, took) in limit.processes_ns.iter().zip(&processes) {
            assert!(least <= took, "{what}: {limit:?}, {processes:?}");
        }
        assert_eq!(first.get_or_insert_with(|| limit.clone()), &limit, "{what}");
    }
}

#[test]
fn no_scheduler_beats_the_limit_and_all_have_the_same() {
    let mut random = Random::new(31);
    for case in 0..100 {
        let drive_name = DRIVES[random.below(DRIVES.len() as u64) as usize];
        let capacity = drive(drive_name).capacity().0;
        let programs: Vec<_> = (0..1 + random.below(4)).map(|_| steps(&mut random, capacity)).collect();
        let what = format!("case {case}: {drive_name}");
        check(&what, &SCHEDULERS, &programs, |scheduler| disk(drive_name, scheduler));
    }
}

#[test]
fn no_scheduler_of_an_array_beats_the_limit() {
    const ARRAYS: [&str; 5] = [
        "raid0:3x64k",
        "raid0:2x16k{slow=1, slowness=300}",
        "raid5:4x16k",
        "raid5:4x64k{failed=1}",
        "raid5:3x64k{failed=0}",
    ];
    let mut random = Random::new(32);
    for case in 0..40 {
        let name = ARRAYS[random.below(ARRAYS.len() as u64) as usize];
        let drive_name = ["wd5000aaks", "ide-2003", "ssd-sata", "ssd-nvme"][random.below(4) as usize];
        let capacity = array(name, drive_name, "noop").1.0;
        // Sequences of at least one read, so that there is a bound.
        let mut programs: Vec<_> = (0..1 + random.below(4)).map(|_| steps(&mut random, capacity)).collect();
        programs.push(vec![Step::Submit(Io::read(Sector(capacity - 1), Sectors(1))), Step::Think(1000)]);
        programs.push(vec![Step::Think(1000), Step::Submit(Io::read(Sector(0), Sectors(1)))]);
        let what = format!("case {case}: {name} of {drive_name}");
        let schedulers = ["noop", "deadline", "array-stream(deadline)"];
        check(&what, &schedulers, &programs, |scheduler| array(name, drive_name, scheduler).0);
    }
}

/// Reads at random places of a region, each after the completion of the one before.
fn visits(random: &mut Random, (from, to): (u64, u64), reads: u64) -> Vec<Step> {
    let step = |number| {
        let io = Io::read(Sector(from + random.below(to - from)), Sectors(8));
        [Step::Think(random.below(4) * 700_000), Step::Submit(io), Step::Await(Await::Io(number))]
    };
    (0..reads).flat_map(step).collect()
}

#[test]
fn random_reads_of_one_process_are_near_the_limit() {
    let mut random = Random::new(33);
    for drive_name in &DRIVES[..10] {
        let capacity = drive(drive_name).capacity().0;
        let programs = [visits(&mut random, (0, capacity - 8), 60)];
        check(drive_name, &["noop"], &programs, |scheduler| disk(drive_name, scheduler));
        let (limit, elapsed_ns, _) = ran(disk(drive_name, "noop"), &programs);
        assert!(limit.elapsed_ns * 5 > elapsed_ns * 4, "{drive_name}: {limit:?}, {elapsed_ns}");
    }
}

/// Processes in regions far apart: who changes the region pays for the move.
#[test]
fn no_scheduler_beats_the_limit_of_visits() {
    let mut random = Random::new(34);
    for case in 0..40 {
        let drive_name = DRIVES[random.below(10) as usize];
        let capacity = drive(drive_name).capacity().0;
        let regions = 1 + random.below(5);
        let region = |random: &mut Random| {
            let width = (capacity - 8) / regions;
            let from = random.below(regions) * width;
            (from, from + (width / (1 + random.below(20))).max(9))
        };
        let programs: Vec<_> = (0..1 + random.below(5))
            .map(|_| {
                let (region, reads) = (region(&mut random), 1 + random.below(40));
                visits(&mut random, region, reads)
            })
            .collect();
        let what = format!("case {case}: {drive_name}");
        check(&what, &SCHEDULERS, &programs, |scheduler| disk(drive_name, scheduler));
    }
}
