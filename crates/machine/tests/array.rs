//! Arrays below the engine: each queue passes the contract checker, all bytes are accounted for, and striping, parity and a
//! failed member have the expected effect on times.

use std::cell::RefCell;
use std::rc::Rc;

use disks::SkewedClock;
use disks::array::ArrayDescription;
use disks::{Drive, Truncated};
use elevator::Random;
use elevator::array::Coordinator;
use elevator::check::Checker;
use elevator::queue::{Event, Observer, Options};
use elevator::{Flags, Op, Sector, Sectors, Span, Time};
use machine::kernel::{Call, Description, Descriptor, Image, Kernel, Open};
use machine::{ArrayMember, ArraySetup, Await, Io, Machine, Measured, Next, Program, Setup, Stop, Submitter};
use schedulers::{Environment, Spec};

/// Sectors of a member in use: 512 MiB, so that random accesses are close to each other.
const MEMBER: Sector = Sector(1 << 20);

fn drive() -> Box<dyn Drive + Send> {
    let (drive, _) = disks::open("wd5000aaks", &mut |_| unreachable!("it is built in")).expect("built in");
    Box::new(Truncated::new(drive, MEMBER))
}

/// A checker that outlives the machine.
#[derive(Clone)]
struct Checked(Rc<RefCell<Checker>>);

impl Observer for Checked {
    fn event(&mut self, now: Time, event: &Event<'_>) {
        self.0.borrow_mut().event(now, event);
    }
}

struct Rig {
    machine: Machine,
    checkers: Vec<Checked>,
    capacity: Sector,
}

fn rig(array: &str, scheduler: &str, options: Options) -> Rig {
    let array = ArrayDescription::parse(array).unwrap();
    let geometry = array.geometry(MEMBER);
    let spec = Spec::parse(scheduler).unwrap();
    let environment = Environment::default();
    let mut checkers = Vec::new();
    let member = |index: u32| {
        let checker = Checked(Rc::new(RefCell::new(Checker::new(&options))));
        checkers.push(checker.clone());
        let drive: Box<dyn Drive> = match array.slow {
            Some((slow, percent)) if slow == index => Box::new(SkewedClock::slow(drive(), percent)),
            _ => drive(),
        };
        ArrayMember { scheduler: spec.build(&environment).unwrap(), drive, observer: Some(Box::new(checker)) }
    };
    let members = (0..array.members).map(member).collect();
    let coordinator = spec.build_coordinator(&environment, array.members).unwrap();
    let coordinator = coordinator.map(|coordinator| coordinator as Box<dyn Coordinator>);
    let (failed, stripe_cache) = (array.failed, array.stripe_cache());
    let setup = ArraySetup { geometry, failed, stripe_cache, options, members, coordinator, observer: None };
    Rig { machine: Machine::with_array(setup), checkers, capacity: geometry.capacity() }
}

impl Rig {
    fn run(mut self) -> Measured {
        self.machine.run(Stop::default()).unwrap();
        for (index, checker) in self.checkers.iter().enumerate() {
            let mut checker = checker.0.borrow_mut();
            checker.finish();
            assert_eq!(checker.count(), 0, "member {index}: {:?}", checker.violations());
        }
        self.machine.measured()
    }
}

/// Submits random requests, then waits for all of them.
struct RandomRequests {
    random: Random,
    at: u64,
    left: u32,
    end: Sector,
}

impl Program for RandomRequests {
    fn next(&mut self, _now: Time) -> Next {
        if self.left == 0 {
            return Next::Exit;
        }
        self.left -= 1;
        match self.random.below(10) {
            _ if self.left == 0 => Next::Await(Await::All),
            0 => Next::Await(Await::All),
            1..3 => Next::Await(Await::Fewer(3)),
            3 => Next::Think(Span::from_nanos(self.random.below(20_000_000))),
            _ => Next::Submit(self.io()),
        }
    }
}

impl RandomRequests {
    fn io(&mut self) -> Io {
        if self.random.once_in(40) {
            return Io { op: Op::Flush, start: Sector(0), sectors: Sectors::ZERO, flags: Flags::default() };
        }
        let sectors = 8 + 8 * self.random.below(160);
        let op = [Op::Read, Op::Read, Op::Write, Op::Discard][self.random.below(4) as usize];
        let jump = self.random.once_in(4);
        let start = if jump { self.random.below(self.end.0) } else { self.at }.min(self.end.0 - sectors);
        self.at = start + sectors;
        let write = op == Op::Write;
        let flags = Flags {
            fua: write && self.random.once_in(20),
            preflush: write && self.random.once_in(20),
            ..Flags::default()
        };
        Io { op, start: Sector(start), sectors: Sectors(sectors as u32), flags }
    }
}

#[test]
fn members_keep_the_contract() {
    let arrays = [
        "raid0:2x16k",
        "raid0:5x64k",
        "raid5:5x64k",
        "raid5:4x16k{failed=1}",
        "raid5:6x64k{slow=2, slowness=300}",
    ];
    let policies = [
        "noop",
        "cfq",
        "anticipatory",
        "stream(deadline)",
        "array-stream(deadline)",
        "array-stream(noop){stream_threshold=1, stream_time_slice=3ms, early_child=100%}",
        "array-stream(noop){stream_threshold=1, stream_time_slice=3ms, retry_slices=1, late_child=on}",
        "array-stream(look){stream_time_slice=1ms}",
        "array-stream(dwell)",
        "array-stream(dwell){stream_time_slice=3ms, retry_slices=1}",
    ];
    let few =
        elevator::queue::Limits { nr_requests: 4, batch_requests: 2, batch_time: Span::from_millis(20) };
    let settings = [
        Options::default(),
        Options { depth: 1, ..Options::default() },
        Options { limits: few, ..Options::default() },
    ];
    let mut seed = 0;
    for (n, array) in arrays.into_iter().enumerate() {
        for policy in policies {
            for options in [settings[n % 3], settings[(n + 1) % 3]] {
                seed += 1;
                let mut rig = rig(array, policy, options);
                for process in 0..4 {
                    let mut random = Random::new(seed * 100 + process);
                    let at = random.below(rig.capacity.0 / 2);
                    let whims = RandomRequests { random, at, left: 100, end: rig.capacity };
                    rig.machine.start(Submitter::process(process as u32 + 1, "whims"), Box::new(whims));
                }
                let measured = rig.run();
                assert!(measured.requests > 60, "{array} {policy}: {} requests", measured.requests);
                assert_eq!(measured.failed, 0, "{array} {policy}");
            }
        }
    }
}

/// A program of fixed steps.
struct Steps(std::vec::IntoIter<Io>);

impl Program for Steps {
    fn next(&mut self, _now: Time) -> Next {
        self.0.next().map_or(Next::Exit, Next::Submit)
    }
}

fn measure(array: &str, ios: Vec<Io>) -> Measured {
    let mut rig = rig(array, "noop", Options::default());
    rig.machine.start(Submitter::process(1, "steps"), Box::new(Steps(ios.into_iter())));
    rig.run()
}

fn ios(op: Op, count: u64, sectors: u32) -> Vec<Io> {
    let io = |n| Io {
        op,
        start: Sector(n * u64::from(sectors)),
        sectors: Sectors(sectors),
        flags: Flags::default(),
    };
    (0..count).map(io).collect()
}

const MIB: u64 = 1 << 20;

#[test]
fn striping_multiplies_the_rate() {
    let rate =
        |members| measure(&format!("raid0:{members}x64k"), ios(Op::Read, 64, 2048)).megabytes_per_second();
    let (two, four, eight) = (rate(2), rate(4), rate(8));
    assert!((1.7..2.1).contains(&(four / two)), "{four} over {two}");
    assert!((1.6..2.1).contains(&(eight / four)), "{eight} over {four}");
}

#[test]
fn parity_reads_and_writes() {
    let bytes = |array: &str, op, sectors| -> (u64, u64) {
        let measured = measure(array, ios(op, 64, sectors));
        (measured.bytes, measured.members.iter().map(|member| member.bytes).sum())
    };
    assert_eq!(bytes("raid0:5x64k", Op::Write, 2048), (64 * MIB, 64 * MIB));
    assert_eq!(bytes("raid5:5x64k", Op::Read, 2048), (64 * MIB, 64 * MIB));
    let stripe = 4 * 128;
    assert_eq!(
        bytes("raid5:5x64k", Op::Write, stripe),
        (16 * MIB, 20 * MIB),
        "full stripes: one parity unit of four"
    );
    assert_eq!(bytes("raid5:5x64k", Op::Write, 8), (MIB / 4, MIB), "4 KiB: two read, two written");
    // A row of four units, the first of them lost: it is rebuilt from the others and the parity.
    let degraded = |settings: &str| bytes(&format!("raid5:5x64k{{failed=0{settings}}}"), Op::Read, 8);
    assert_eq!(degraded(""), (MIB / 4, 4 * MIB / 16), "the stripe cache keeps units that were read");
    assert_eq!(degraded(", stripe_cache=0"), (MIB / 4, 7 * MIB / 16), "without it they are read again");
}

#[test]
fn accesses_beyond_the_end_fail() {
    let beyond = Io::read(Sector(MEMBER.0 * 5 - 8), Sectors(16));
    assert_eq!(measure("raid0:5x64k", vec![beyond]).failed, 1);
}

#[test]
fn an_array_of_one_member_equals_its_disk() {
    // With one unit and one member an array adds nothing to the disk.
    let io = vec![Io::read(Sector(0), Sectors(64))];
    let array = measure("raid0:2x64k", io.clone());
    let mut machine = Machine::new(Setup {
        options: Options::default(),
        scheduler: Spec::parse("noop").unwrap().build(&Environment::default()).unwrap(),
        drive: drive(),
        observer: None,
    });
    machine.start(Submitter::process(1, "steps"), Box::new(Steps(io.into_iter())));
    machine.run(Stop::default()).unwrap();
    assert_eq!(array.elapsed_ns, machine.measured().elapsed_ns);
}

/// A program of system calls.
struct Calls(std::vec::IntoIter<Call>);

impl Program for Calls {
    fn next(&mut self, _now: Time) -> Next {
        self.0.next().map_or(Next::Exit, Next::Call)
    }
}

/// Boots a kernel with this read-ahead and a file `/a` of this length.
fn boot(rig: &mut Rig, read_ahead_kib: u32, bytes: u64) {
    let mut description = Description::named("pc-2010").unwrap();
    description.read_ahead.max_kib = read_ahead_kib;
    description.memory.swap_mib = 16;
    let mut image = Image::new();
    image.file("/a", bytes);
    rig.machine.boot(Kernel::new(&description, rig.capacity, &image).unwrap());
}

const FILE: Descriptor = Descriptor(0);

fn reads(bytes: u64) -> impl Iterator<Item = Call> {
    let open = Call::Open("/a".into(), Open::default());
    std::iter::once(open).chain((0..bytes.div_ceil(4096)).map(|_| Call::Read(FILE, 4096)))
}

#[test]
fn a_kernel_reads_and_writes_on_an_array() {
    for array in ["raid0:5x64k", "raid5:5x64k", "raid5:4x16k{failed=1}"] {
        for policy in ["noop", "cfq", "array-stream(deadline)"] {
            let mut rig = rig(array, policy, Options::default());
            boot(&mut rig, 640, 8 * MIB);
            let create = Open { create: true, ..Open::default() };
            let writes = std::iter::once(Call::Open("/b".into(), create))
                .chain((0..64).map(|_| Call::Write(FILE, MIB / 8)))
                .chain(std::iter::once(Call::Fsync(FILE)));
            let calls: [Vec<Call>; 2] = [reads(8 * MIB).collect(), writes.collect()];
            for (process, calls) in (1..).zip(calls) {
                rig.machine.start(Submitter::process(process, "calls"), Box::new(Calls(calls.into_iter())));
            }
            let measured = rig.run();
            assert_eq!(measured.failed, 0, "{array} {policy}");
            assert!(measured.bytes >= 16 * MIB, "{array} {policy}: {} bytes", measured.bytes);
        }
    }
}

#[test]
fn reading_ahead_over_two_stripes_moves_every_head() {
    let rate = |array: &str, read_ahead_kib| {
        let mut rig = rig(array, "noop", Options::default());
        boot(&mut rig, read_ahead_kib, 64 * MIB);
        let calls: Vec<Call> = reads(64 * MIB).collect();
        rig.machine.start(Submitter::process(1, "reader"), Box::new(Calls(calls.into_iter())));
        rig.run().megabytes_per_second()
    };
    let two_stripes = rate("raid0:5x64k", 640);
    let wide = rate("raid0:5x4096k", 640);
    assert!(two_stripes > 3.0 * wide, "{two_stripes} MB/s, with all in one unit {wide}");
}
