//! Writes: writeback and throttling.

use elevator::{Op, Span};
use machine::Next;
use machine::kernel::{Call, Description, FIRST_THREAD, Image};

use crate::bench::{Bench, FIRST, read_file, write_file};

const MB: u64 = 1 << 20;

#[test]
fn a_streaming_writer_is_throttled_at_the_limit() {
    let machine = Description::named("pc-2003").expect("built in");
    let mut bench = Bench::new(&machine, "deadline-2.6.9", &Image::new());
    bench.calls("writer", write_file("/a", 256 * MB, MB));
    bench.run();
    let pages = u64::from(machine.memory.mib - machine.memory.taken_mib) * 256;
    let limit = pages * u64::from(machine.dirty.percent) / 100;
    let samples = bench.machine.kernel().expect("booted").samples();
    let most = samples.iter().map(|sample| sample.dirty_pages + sample.writeback_pages).max().unwrap_or(0);
    // The limit is checked after 1024 pages at most.
    assert!(most <= limit + 1024, "{most} dirty, limit {limit}");
    assert!(most > limit - 2048, "{most} dirty, limit {limit}: not throttled");
    assert!(samples.iter().any(|sample| sample.throttled > 0));
}

#[test]
fn dirty_pages_are_written_after_thirty_seconds() {
    let machine = Description::named("pc-2003").expect("built in");
    let mut bench = Bench::new(&machine, "deadline-2.6.9", &Image::new());
    let write = write_file("/a", 64 << 10, 4096).map(Next::Call);
    bench.start("writer", write.chain([Next::Think(Span::from_secs(60))]));
    bench.run();
    let seen = bench.ear.0.borrow();
    let writes: Vec<_> = seen.iter().filter(|seen| seen.op == Op::Write && seen.completed).collect();
    let pages: u32 = writes.iter().map(|seen| seen.sectors / 8).sum();
    assert!(pages >= 16, "{pages} pages written");
    for write in writes {
        let second = write.at.as_secs_f64();
        assert!((30.0..36.0).contains(&second), "at {second} s");
        assert!(write.process.is_some_and(|process| process.task >= FIRST_THREAD), "{:?}", write.process);
    }
}

/// Sectors written when a file is read by each of these steps and everything is then made durable.
fn written_for_reads(machine: &Description, steps: impl Iterator<Item = Next> + 'static) -> u32 {
    let mut image = Image::new();
    image.file("/a", 64 << 10);
    let mut bench = Bench::new(machine, "deadline-2.6.9", &image);
    bench.start("reader", steps.chain([Next::Call(Call::Sync)]));
    bench.run();
    bench.machine.kernel().expect("booted").check().expect("consistent state");
    let seen = bench.ear.0.borrow();
    seen.iter().filter(|seen| seen.op == Op::Write && seen.completed).map(|seen| seen.sectors).sum()
}

/// The inode's block, once per second of reading, and with a journal the log as well.
#[test]
fn reads_change_the_time_of_the_last_access() {
    let reads = || read_file("/a", 64 << 10, 4096).map(Next::Call);
    let later = || [Next::Think(Span::from_secs(2)), Next::Call(Call::ReadAt(FIRST, 0, 4096))].into_iter();
    for (name, journalled) in [("pc-2003", false), ("pc-2004", true)] {
        let mut machine = Description::named(name).expect("built in");
        machine.file_system.access_times = true;
        let once = written_for_reads(&machine, reads());
        assert!(if journalled { once > 8 } else { once == 8 }, "{name}: {once} sectors");
        let after_sync = written_for_reads(&machine, reads().chain([Next::Call(Call::Sync)]).chain(later()));
        assert_eq!(after_sync, 2 * once, "{name}: one change in each of two seconds");
        machine.file_system.access_times = false;
        assert_eq!(written_for_reads(&machine, reads()), 0, "{name}");
    }
    let machine = Description::named("pc-2003").expect("built in");
    assert_eq!(written_for_reads(&machine, [Next::Call(Call::Readdir("/".into()))].into_iter()), 8);
}

#[test]
fn the_flusher_writes_above_the_background_threshold() {
    let machine = Description::named("pc-2003").expect("built in");
    let mut bench = Bench::new(&machine, "deadline-2.6.9", &Image::new());
    let write = write_file("/a", 40 * MB, 64 << 10).map(Next::Call);
    bench.start("writer", write.chain([Next::Think(Span::from_secs(20))]));
    bench.run();
    let background = u64::from(machine.memory.mib - machine.memory.taken_mib)
        * 256
        * u64::from(machine.dirty.background_percent)
        / 100;
    let kernel = bench.machine.kernel().expect("booted");
    assert!(kernel.dirty_pages() <= background, "{} dirty, threshold {background}", kernel.dirty_pages());
    let seen = bench.ear.0.borrow();
    let writes = || seen.iter().filter(|seen| seen.op == Op::Write && seen.completed);
    assert!(writes().count() > 0);
    assert!(writes().all(|write| write.process.is_some_and(|process| process.task >= FIRST_THREAD)));
}

#[test]
fn pages_of_a_removed_file_are_not_written() {
    let machine = Description::named("pc-2003").expect("built in");
    let mut bench = Bench::new(&machine, "deadline-2.6.9", &Image::new());
    let calls = write_file("/a", 4 * MB, 64 << 10).chain([Call::Close(FIRST), Call::Unlink("/a".into())]);
    bench.start("writer", calls.map(Next::Call).chain([Next::Think(Span::from_secs(60))]));
    bench.run();
    let seen = bench.ear.0.borrow();
    let pages: u32 = seen.iter().filter(|s| s.op == Op::Write && s.completed).map(|s| s.sectors / 8).sum();
    assert!(pages < 20, "{pages} pages of bitmaps, inodes and the directory");
}

/// Two billion pages of hole, and one of data.
#[test]
fn truncating_a_sparse_file_takes_time_by_cached_pages() {
    let machine = Description::named("pc-2012").expect("built in");
    let mut bench = Bench::new(&machine, "noop", &Image::new());
    let far = 8 << 40;
    let open = Call::Open("/a".into(), crate::bench::create());
    let write = Call::WriteAt(FIRST, far - 4096, 4096);
    let rest = [Call::Fsync(FIRST), Call::Forget(FIRST), Call::ReadAt(FIRST, far - 4096, 4096)];
    let calls = [open, write].into_iter().chain(rest).chain([Call::Truncate(FIRST, 4096)]);
    let begun = std::time::Instant::now();
    bench.calls("far", calls);
    bench.run();
    // Page by page it would take more than a minute.
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    let read = bench.ear.0.borrow().iter().filter(|seen| seen.op == Op::Read).count();
    assert!(read > 0, "dropped pages are read again");
    bench.machine.kernel().expect("booted").check().expect("consistent state");
}

/// The file ends in its last page, and the rest of the page must be known as well.
#[test]
fn a_partial_last_page_is_read_before_an_overwrite() {
    for machine in Description::names().map(|name| Description::named(name).expect("built in")) {
        let reads = |bytes: u64| {
            let mut image = Image::new();
            image.file("/a", bytes);
            let mut bench = Bench::new(&machine, "noop", &image);
            let open = Call::Open("/a".into(), crate::bench::read_only());
            bench.calls("writer", [open, Call::Write(FIRST, bytes)].into_iter());
            bench.run();
            let seen = bench.ear.0.borrow();
            seen.iter().filter(|seen| seen.completed && seen.op == Op::Read).count()
        };
        assert_eq!(reads(4096 + 100), reads(4096) + 1, "{}", machine.name);
        assert_eq!(reads(8192), reads(4096), "{}", machine.name);
    }
}

#[test]
fn kernel_threads_have_names() {
    let machine = Description::named("linux-6").expect("built in");
    let bench = Bench::new(&machine, "noop", &Image::new());
    let names = bench.machine.names();
    let threads: Vec<&str> = names.range(FIRST_THREAD..).map(|(_, name)| name.as_str()).collect();
    assert_eq!(threads, ["[flusher]", "[flusher-periodic]", "[journal]", "[split-writer]"]);
}
