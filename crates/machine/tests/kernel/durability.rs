//! `fsync` returns when its data is on the medium, not earlier.

use elevator::{Op, Span, Time};
use machine::Next;
use machine::kernel::{Call, Description, Image, Returned};

use crate::bench::{Bench, FIRST, Seen, create, write_file};

fn sixteen_pages_and_fsync(name: &str) -> (Vec<Seen>, Time) {
    let machine = Description::named(name).expect("built in");
    let mut bench = Bench::new(&machine, "noop", &Image::new());
    let heard = bench.calls("writer", write_file("/a", 64 << 10, 4096).chain([Call::Fsync(FIRST)]));
    bench.run();
    let heard = heard.borrow();
    let (at, returned) = heard.last().expect("fsync returned");
    assert_eq!(*returned, Returned::Done);
    (bench.ear.0.take(), *at)
}

fn written(seen: &[Seen], by: impl Fn(u32) -> bool, until: Time) -> u32 {
    let counts = |seen: &&Seen| {
        let process = seen.process.map_or(0, |process| process.task);
        seen.completed && seen.op == Op::Write && by(process) && seen.at <= until
    };
    seen.iter().filter(counts).map(|seen| seen.sectors / 8).sum()
}

/// The writer is process 1; kernel threads have the highest numbers.
#[test]
fn with_a_journal_fsync_returns_after_the_commit_record() {
    for name in ["pc-2004", "pc-2010"] {
        let (seen, returned) = sixteen_pages_and_fsync(name);
        assert_eq!(written(&seen, |process| process == 1, returned), 16, "{name}: data pages");
        let log = written(&seen, |process| process > 1000, returned);
        assert!(
            log >= 6,
            "{name}: {log} blocks: descriptor, inode, bitmap, directory, …, and a commit record"
        );
        let last_data = seen.iter().rfind(|s| s.completed && s.process.is_some_and(|p| p.task == 1));
        let first_log = seen.iter().find(|s| !s.completed && s.process.is_some_and(|p| p.task > 1000));
        let (data, log) = (last_data.expect("data"), first_log.expect("log"));
        assert!(data.at <= log.at, "{name}: ordered data first");
    }
}

#[test]
fn without_a_journal_fsync_returns_after_data_and_inode() {
    let (seen, returned) = sixteen_pages_and_fsync("pc-2003");
    let pages = written(&seen, |process| process == 1, returned);
    assert!(pages >= 17, "{pages}: 16 of data, the inode, the indirect block");
}

#[test]
fn a_second_fsync_writes_nothing() {
    let machine = Description::named("pc-2004").expect("built in");
    let mut bench = Bench::new(&machine, "noop", &Image::new());
    let calls = write_file("/a", 64 << 10, 4096).chain([Call::Fsync(FIRST), Call::Fsync(FIRST)]);
    let heard = bench.calls("writer", calls);
    bench.run();
    let heard = heard.borrow();
    let [.., (first, _), (second, _)] = heard.as_slice() else { panic!("two answers") };
    assert!(second.since(*first).as_nanos() < 10_000, "{}", second.since(*first));
}

/// Duration of an fsync of 4 KB in ns, with another process making these calls.
fn small_fsync(machine: &str, beside: impl Iterator<Item = Call> + 'static) -> u64 {
    let machine = Description::named(machine).expect("built in");
    let mut bench = Bench::new(&machine, "deadline-2.6.9", &Image::new());
    bench.calls("beside", beside);
    let think = Next::Think(Span::from_millis(900));
    let small = write_file("/small", 4096, 4096).chain([Call::Fsync(FIRST)]).map(Next::Call);
    bench.start("small", std::iter::once(think).chain(small));
    bench.run().processes[1].calls["fsync"].max_ns
}

fn large() -> impl Iterator<Item = Call> {
    write_file("/large", 32 << 20, 1 << 20)
}

#[test]
fn fsync_waits_for_data_of_the_whole_transaction() {
    let (alone, beside) = (small_fsync("pc-2004", std::iter::empty()), small_fsync("pc-2004", large()));
    assert!(beside > 10 * alone, "{beside} ns beside a writer of 32 MB, {alone} ns alone");
}

/// ext4 orders data that has blocks, XFS none.
#[test]
fn fsync_does_not_wait_for_unallocated_pages() {
    for name in ["pc-2012", "pc-2012-xfs"] {
        let (alone, beside) = (small_fsync(name, std::iter::empty()), small_fsync(name, large()));
        assert!(beside < 2 * alone, "{name}: {beside} ns beside a writer of 32 MB, {alone} ns alone");
    }
}

#[test]
fn sync_leaves_nothing_dirty() {
    for name in Description::names() {
        let machine = Description::named(name).expect("built in");
        let mut bench = Bench::new(&machine, "deadline-2.6.9", &Image::new());
        bench.calls("writer", write_file("/a", 20 << 20, 64 << 10).chain([Call::Sync]));
        bench.run();
        let kernel = bench.machine.kernel().expect("booted");
        assert_eq!(kernel.dirty_pages(), 0, "{name}");
        kernel.check().expect("consistent state");
    }
}

/// jbd2 submits the log with the ordered data and waits for both before the record; jbd waits for the data first.
#[test]
fn log_and_ordered_data_in_parallel_or_in_order() {
    for after_data in [false, true] {
        let mut machine = Description::named("pc-2012").expect("built in");
        machine.file_system.delayed_allocation = false;
        machine.file_system.journal.log_after_data = after_data;
        let mut bench = Bench::on("wd5000aaks", &machine, "noop", &Image::new());
        bench.calls("beside", write_file("/large", 8 << 20, 1 << 20));
        let small = write_file("/small", 4096, 4096).chain([Call::Fsync(FIRST)]).map(Next::Call);
        bench.start("small", std::iter::once(Next::Think(Span::from_millis(900))).chain(small));
        bench.run();
        let seen = bench.ear.0.take();
        let is_large = |seen: &&Seen| seen.op == Op::Write && seen.sectors > 500;
        let data = seen.iter().filter(is_large).rfind(|seen| seen.completed).expect("ordered data").at;
        let journal = |seen: &&Seen| seen.process.is_some_and(|process| process.task > 1000);
        let mut log = seen.iter().filter(journal).filter(|seen| !seen.completed && !is_large(seen));
        let log = log.next().expect("the log").at;
        assert_eq!(log >= data, after_data, "log at {log:?}, data until {data:?}");
    }
}

/// A process makes an overwritten page durable while the commit of its inode, requested by another process, is in any phase:
/// the device's cache must be flushed after the page arrived and before the call returns.
#[test]
fn data_after_the_flush_of_a_commit_is_flushed_again() {
    for name in ["pc-2012", "pc-2012-xfs", "linux-6"] {
        let machine = Description::named(name).expect("built in");
        for micros in (0..60_000).step_by(500) {
            let mut image = Image::new();
            image.file("/a", 8192);
            let mut bench = Bench::on("wd5000aaks", &machine, "noop", &image);
            let open = |path: &str| Next::Call(Call::Open(path.into(), create()));
            let write = || Next::Call(Call::WriteAt(FIRST, 0, 4096));
            let at = |micros: u64| Next::Until(Time::ZERO + Span::from_micros(100_000 + micros));
            let fsync = || Next::Call(Call::Fsync(FIRST));
            bench.start("commits", [open("/b"), write(), at(0), fsync()].into_iter());
            let heard = bench.start("overwrites", [open("/a"), write(), at(micros), fsync()].into_iter());
            bench.run();
            let heard = heard.borrow();
            let (returned, answer) = heard.last().expect("fsync returned");
            assert_eq!(*answer, Returned::Done);
            let seen = bench.ear.0.borrow();
            let mine = |s: &&Seen| s.op == Op::Write && s.process.is_some_and(|p| p.task == 2) && s.completed;
            let arrived = seen.iter().rfind(mine).expect("the page").at;
            let mut flushes = seen.iter().filter(|s| s.op == Op::Flush && !s.completed);
            let flushed = flushes.any(|s| (arrived..*returned).contains(&s.at));
            assert!(flushed, "{name}, {micros} us: arrived {arrived:?}, returned {returned:?}");
        }
    }
}
