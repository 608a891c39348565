//! Memory of programs: what does not fit goes to the end of the device and comes back from there.

use elevator::Op;
use machine::kernel::{Call, Description, Image, Returned};

use crate::bench::Bench;

const MB: u64 = 1 << 20;

fn small(swap_mib: u32) -> Description {
    let mut machine = Description::named("pc-2003").expect("built in");
    (machine.memory.mib, machine.memory.taken_mib, machine.memory.swap_mib) = (24, 8, swap_mib);
    machine
}

fn touch(from: u64, to: u64, write: bool) -> impl Iterator<Item = Call> {
    (from..to).map(move |mb| Call::Touch(mb * MB, MB, write))
}

#[test]
fn what_fits_never_sees_the_device() {
    let mut bench = Bench::new(&small(64), "noop", &Image::new());
    bench.calls("program", touch(0, 12, true).chain(touch(0, 12, false)));
    bench.run();
    assert_eq!(bench.ear.0.take().len(), 0);
}

#[test]
fn what_does_not_fit_goes_out_and_comes_back() {
    let mut bench = Bench::new(&small(64), "noop", &Image::new());
    bench.calls("program", touch(0, 32, true).chain(touch(0, 32, false)));
    bench.run();
    let seen = bench.ear.0.take();
    let pages = |op| seen.iter().filter(|s| s.completed && s.op == op).map(|s| s.sectors / 8).sum::<u32>();
    // 32 MB in 16: half has to leave while they are touched the first time, and comes back the second time.
    assert!(pages(Op::Write) >= 4096, "{} pages out", pages(Op::Write));
    assert!(pages(Op::Read) >= 4096, "{} pages in", pages(Op::Read));
    bench.machine.kernel().expect("booted").check().expect("accounts that agree");
}

#[test]
fn more_than_memory_and_swap_hold_is_refused() {
    let mut bench = Bench::new(&small(8), "noop", &Image::new());
    let heard = bench.calls("program", touch(0, 32, true));
    bench.run();
    assert!(heard.borrow().iter().any(|(_, r)| *r == Returned::Failed(machine::kernel::Errno::NoMemory)));
}
