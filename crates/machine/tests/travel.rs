//! Head travel in results.

use elevator::queue::Options;
use elevator::{Op, Sector, Sectors, Time};
use machine::{Await, Io, Machine, Next, Program, Setup, Stop, Submitter};
use schedulers::{Environment, Spec};

const WRITES: u64 = 200;
/// Distance between writes in sectors.
const APART: u64 = 1 << 20;

/// Writes at ascending positions.
struct Writer(u64);

impl Program for Writer {
    fn next(&mut self, _now: Time) -> Next {
        self.0 += 1;
        match (self.0 / 2, self.0 % 2) {
            (WRITES, _) => Next::Exit,
            (_, 0) => Next::Await(Await::All),
            (n, _) => Next::Submit(Io { op: Op::Write, ..Io::read(Sector((n + 1) * APART), Sectors(8)) }),
        }
    }
}

#[test]
fn buffered_writes_count_as_head_travel() {
    let (drive, _) = disks::open("wd5000aaks", &mut |_| unreachable!("built in")).expect("a drive");
    let scheduler = Spec::parse("noop").expect("a scheduler").build(&Environment::default());
    let scheduler = scheduler.expect("it can be built");
    let mut machine = Machine::new(Setup { options: Options::default(), scheduler, drive, observer: None });
    machine.start(Submitter::process(1, "writer"), Box::new(Writer(0)));
    machine.run(Stop::default()).expect("it comes to its end");
    let measured = machine.measured();
    // The last writes are still in the buffer.
    assert!((WRITES - 20..=WRITES).contains(&measured.seeks), "{}", measured.seeks);
    // The head moves back and forth over buffered writes, which are equidistant.
    assert!(measured.head_travel_sectors >= measured.seeks * (APART - 8), "{}", measured.head_travel_sectors);
}
