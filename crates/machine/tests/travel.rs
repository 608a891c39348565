//! How far the head travels, as results have it.

use elevator::queue::Options;
use elevator::{Op, Sector, Sectors, Time};
use machine::{Await, Io, Machine, Next, Program, Setup, Stop, Who};
use schedulers::{Environment, Spec};

const WRITES: u64 = 200;
/// Between one and the next.
const APART: u64 = 1 << 20;

/// Writes upwards, one after the other.
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
fn writes_that_the_buffer_answers_move_the_head_as_well() {
    let (drive, _) = disks::open("wd5000aaks", &mut |_| unreachable!("built in")).expect("a drive");
    let scheduler = Spec::parse("noop").expect("a scheduler").build(&Environment::default());
    let scheduler = scheduler.expect("it can be built");
    let mut machine = Machine::new(Setup { options: Options::default(), scheduler, drive, observer: None });
    machine.start(Who::process(1, "writer"), Box::new(Writer(0)));
    machine.run(Stop::default()).expect("it comes to its end");
    let measured = machine.measured();
    // The last ones are in the buffer still.
    assert!((WRITES - 20..=WRITES).contains(&measured.seeks), "{}", measured.seeks);
    // It goes to and fro over what its buffer holds, but no place is nearer to another.
    assert!(measured.head_travel_sectors >= measured.seeks * (APART - 8), "{}", measured.head_travel_sectors);
}
