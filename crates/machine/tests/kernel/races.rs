//! Races of two processes on a file.

use elevator::Span;
use machine::Next;
use machine::kernel::{Call, Description, Descriptor, Image, Open, Returned};

use crate::bench::{Bench, FIRST, Heard, write_file};

fn think(millis: u64) -> Next {
    Next::Think(Span::from_millis(millis))
}

fn machines() -> impl Iterator<Item = Description> {
    Description::names().map(|name| Description::named(name).expect("built in"))
}

fn bench(machine: &Description, image: &Image) -> Bench {
    Bench::new(machine, "deadline-2.6.32", image)
}

/// Runs to the end and checks the kernel's state.
fn run(mut bench: Bench, machine: &Description) -> Bench {
    bench.run();
    let kernel = bench.machine.kernel().expect("booted");
    kernel.check().unwrap_or_else(|fault| panic!("{}: {fault}", machine.name));
    bench
}

fn answers(heard: &Heard) -> Vec<Returned> {
    heard.borrow().iter().map(|(_, returned)| returned.clone()).collect()
}

/// A name is removed while another process opens or truncates the file: the opened file stays usable.
#[test]
fn a_file_unlinked_during_open_stays_until_its_close() {
    for machine in machines() {
        for wait in [0, 5, 15, 30] {
            let mut image = Image::new();
            image.file("/a", 3 << 20);
            let mut bench = bench(&machine, &image);
            let open = Call::Open("/a".into(), Open { truncate: true, ..Open::default() });
            let calls = [open, Call::Write(FIRST, 4096), Call::Fsync(FIRST), Call::Close(FIRST)];
            let heard = bench.calls("opener", calls.into_iter());
            bench.start("remover", [think(wait), Next::Call(Call::Unlink("/a".into()))].into_iter());
            run(bench, &machine);
            let expected =
                [Returned::Opened(Descriptor(0)), Returned::Bytes(4096), Returned::Done, Returned::Done];
            assert_eq!(answers(&heard), expected, "{}, {wait} ms", machine.name);
        }
    }
}

/// Dirty pages of a removed file are not written, and its inode and blocks are reused only after writes in flight have
/// completed.
#[test]
fn a_file_is_removed_during_its_writeback() {
    for machine in machines() {
        for wait in [0, 100] {
            let mut small = machine.clone();
            (small.memory.mib, small.memory.taken_mib) = (128, 64);
            let mut bench = bench(&small, &Image::new());
            let calls = write_file("/a", 60 << 20, 1 << 20).chain([Call::Close(FIRST)]).map(Next::Call);
            let removes = [think(wait), Next::Call(Call::Unlink("/a".into())), think(1000)];
            bench.start("writer", calls.chain(removes));
            run(bench, &small);
        }
    }
}

/// Blocks of a truncated file may be reallocated at once, so writes to them in flight must complete first.
#[test]
fn truncate_waits_for_writeback() {
    for machine in machines() {
        let mut small = machine.clone();
        (small.memory.mib, small.memory.taken_mib) = (128, 64);
        let mut bench = bench(&small, &Image::new());
        let calls = write_file("/a", 60 << 20, 1 << 20).chain([Call::Truncate(FIRST, 0)]);
        let heard = bench.start("writer", calls.map(Next::Call).chain([think(2000)]));
        let bench = run(bench, &small);
        let (cut_at, _) = *heard.borrow().last().expect("it was cut");
        let written = bench.ear.0.borrow();
        let large = |seen: &&crate::bench::Seen| seen.op == elevator::Op::Write && seen.sectors >= 200;
        let late = written.iter().filter(large).filter(|seen| seen.completed && seen.at > cut_at).count();
        assert_eq!(late, 0, "{}: data written after the truncation", machine.name);
    }
}

/// Truncating a file between two parts of a write must not leave dirty pages beyond its end.
#[test]
fn open_with_truncate_waits_for_writers() {
    for (machine, gap) in machines().flat_map(|machine| [(machine.clone(), 1000), (machine, 3000)]) {
        let mut bench = bench(&machine, &Image::new());
        let writes = write_file("/a", 8 << 20, 340_000).chain([Call::Close(FIRST)]);
        bench.calls("writer", writes);
        let open = Open { create: true, truncate: true, ..Open::default() };
        let cuts = (0..30).flat_map(move |n| {
            let calls = [Call::Open("/a".into(), open), Call::Close(FIRST)];
            std::iter::once(Next::Think(Span::from_micros(gap + n * 111))).chain(calls.map(Next::Call))
        });
        let removes = [Call::Unlink("/a".into()), Call::Sync].map(Next::Call);
        bench.start("cutter", cuts.chain([think(3000)]).chain(removes));
        let bench = run(bench, &machine);
        assert_eq!(bench.machine.kernel().expect("booted").dirty_pages(), 0, "{}", machine.name);
    }
}

#[test]
fn appends_do_not_overlap() {
    for (machine, direct) in machines().flat_map(|machine| [(machine.clone(), false), (machine, true)]) {
        let mut bench = bench(&machine, &Image::new());
        let lengths = |process: u64| (0..8).map(move |n| 300_000 + n * 4096 + process * 512);
        for process in 0..3 {
            let open = Open { create: true, append: true, direct, ..Open::default() };
            let open = Call::Open("/log".into(), open);
            let writes = lengths(process).map(|length| Call::Write(FIRST, length));
            bench.calls("appender", std::iter::once(open).chain(writes));
        }
        let stat = [think(60_000), Next::Call(Call::Stat("/log".into()))];
        let heard = bench.start("looker", stat.into_iter());
        run(bench, &machine);
        let all: u64 = (0..3).flat_map(lengths).sum();
        assert_eq!(answers(&heard), [Returned::Bytes(all)], "{}, direct {direct}", machine.name);
    }
}
