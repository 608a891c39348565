//! Anonymous memory and swap.

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
fn memory_that_fits_causes_no_requests() {
    let mut bench = Bench::new(&small(64), "noop", &Image::new());
    bench.calls("program", touch(0, 12, true).chain(touch(0, 12, false)));
    bench.run();
    assert_eq!(bench.ear.0.take().len(), 0);
}

#[test]
fn memory_that_does_not_fit_is_swapped() {
    let mut bench = Bench::new(&small(64), "noop", &Image::new());
    bench.calls("program", touch(0, 32, true).chain(touch(0, 32, false)));
    bench.run();
    let seen = bench.ear.0.take();
    let pages = |op| seen.iter().filter(|s| s.completed && s.op == op).map(|s| s.sectors / 8).sum::<u32>();
    // 32 MB in 16 MB: half is swapped out at the first access and read at the second.
    assert!(pages(Op::Write) >= 4096, "{} pages out", pages(Op::Write));
    assert!(pages(Op::Read) >= 4096, "{} pages in", pages(Op::Read));
    bench.machine.kernel().expect("booted").check().expect("consistent state");
}

#[test]
fn exceeding_memory_and_swap_fails() {
    let mut bench = Bench::new(&small(8), "noop", &Image::new());
    let heard = bench.calls("program", touch(0, 32, true));
    bench.run();
    assert!(heard.borrow().iter().any(|(_, r)| *r == Returned::Failed(machine::kernel::Errno::NoMemory)));
}
