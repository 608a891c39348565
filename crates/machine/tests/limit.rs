//! No scheduler beats the physical limit, and all have the same one.

use disks::Drive;
use elevator::queue::Options;
use elevator::{Flags, Op, Random, Sector, Sectors, Span, Time};
use machine::{Await, Io, Limit, Machine, Next, Program, Setup, Stop, Submitter};
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

fn ran(drive_name: &str, scheduler: &str, programs: &[Vec<Step>]) -> (Limit, u64, Vec<u64>) {
    let drive = drive(drive_name);
    let spec = Spec::parse(scheduler).expect("a scheduler");
    let scheduler = spec.build(&Environment::default()).expect("it can be built");
    let options = Options { depth: drive.depth(), ..Options::default() };
    let mut machine = Machine::new(Setup { options, scheduler, drive, observer: None });
    machine.record_limit();
    for (n, steps) in programs.iter().enumerate() {
        let who = Submitter::process(n as u32 + 1, format!("{n}"));
        machine.start(who, Box::new(Steps(steps.clone().into_iter(), false)));
    }
    machine.run(Stop::default()).expect("it ends");
    let (limit, measured) = (machine.limit().expect("a limit"), machine.measured());
    (limit, measured.elapsed_ns, measured.processes.iter().map(|process| process.elapsed_ns).collect())
}

#[test]
fn no_scheduler_beats_the_limit_and_all_have_the_same() {
    let mut random = Random::new(31);
    for case in 0..100 {
        let drive_name = DRIVES[random.below(DRIVES.len() as u64) as usize];
        let capacity = drive(drive_name).capacity().0;
        let programs: Vec<_> = (0..1 + random.below(4)).map(|_| steps(&mut random, capacity)).collect();
        let mut first = None;
        for scheduler in SCHEDULERS {
            let (limit, elapsed_ns, processes) = ran(drive_name, scheduler, &programs);
            let what = format!("case {case}: {scheduler} on {drive_name}");
            assert!(limit.elapsed_ns <= elapsed_ns, "{what}: {limit:?}, {elapsed_ns}");
            assert!(limit.elapsed_ns >= limit.service_ns && limit.elapsed_ns > 0, "{what}: {limit:?}");
            for (least, took) in limit.processes_ns.iter().zip(&processes) {
                assert!(least <= took, "{what}: {limit:?}, {processes:?}");
            }
            let of = |limit: Limit| (limit.elapsed_ns, limit.service_ns, limit.processes_ns, limit.seeks);
            let same = of(limit);
            assert_eq!(first.get_or_insert_with(|| same.clone()), &same, "{what}");
        }
    }
}
