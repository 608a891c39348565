//! Reads: which pages are read, when, and the resulting rates.

use elevator::{Op, Span, Time};
use machine::kernel::{Call, Description, Image, Returned};
use machine::{Next, Stop};

use crate::bench::{Bench, FIRST, read_file, read_only};

const MB: u64 = 1 << 20;

/// The drive streams 40 MB/s from its outermost tracks; copying overlaps with the read of the next window.
#[test]
fn a_streaming_reader_reaches_the_media_rate() {
    for name in Description::names() {
        let machine = Description::named(name).expect("built in");
        let mut image = Image::new();
        image.file("/a", 100 * MB);
        let mut bench = Bench::new(&machine, "noop", &image);
        bench.calls("reader", read_file("/a", 100 * MB, 32 << 10));
        let measured = bench.run();
        assert_eq!(measured.bytes, 100 * MB);
        let rate = measured.megabytes_per_second();
        assert!((35.0..41.0).contains(&rate), "{name}: {rate:.1} MB/s");
    }
}

#[test]
fn two_streaming_readers_need_anticipation() {
    let rate = |scheduler| {
        let machine = Description::named("pc-2003").expect("built in");
        let mut image = Image::new();
        image.file("/a", 50 * MB);
        image.place(20 << 30);
        image.file("/b", 50 * MB);
        let mut bench = Bench::new(&machine, scheduler, &image);
        bench.calls("a", read_file("/a", 50 * MB, 32 << 10));
        bench.calls("b", read_file("/b", 50 * MB, 32 << 10));
        let measured = bench.run();
        assert!(bench.ear.0.borrow().iter().all(|seen| seen.op == Op::Read));
        measured.megabytes_per_second()
    };
    let (noop, anticipatory) = (rate("noop"), rate("anticipatory-2.6.32"));
    assert!(anticipatory > 2.5 * noop, "noop {noop:.1} MB/s, anticipatory {anticipatory:.1} MB/s");
    assert!(anticipatory > 30.0, "{anticipatory:.1} MB/s");
}

/// The first pages of each request for data of the file, from the file's start.
fn requests(machine: &Description, calls: impl Iterator<Item = Call> + 'static) -> Vec<(u64, u32)> {
    let mut image = Image::new();
    image.place(10 << 30).file("/a", 10 * MB);
    let mut bench = Bench::new(machine, "noop", &image);
    bench.start("reader", calls.map(Next::Call).chain([Next::Think(Span::from_secs(1))]));
    bench.run();
    let seen = bench.ear.0.borrow();
    let data = seen
        .iter()
        .filter(|s| s.completed && s.start >= (10 << 30) / 512)
        .map(|s| (s.start / 8, s.sectors / 8));
    let all: Vec<_> = data.collect();
    let first = all.iter().map(|&(start, _)| start).min().unwrap_or(0);
    all.iter().map(|&(start, pages)| (start - first, pages)).collect()
}

#[test]
fn without_read_ahead_only_requested_pages_are_read() {
    let mut machine = Description::named("pc-2010").expect("built in");
    machine.read_ahead.max_kib = 0;
    let calls =
        [Call::Open("/a".into(), read_only()), Call::Read(FIRST, 12_288), Call::ReadAt(FIRST, 1 << 14, 1)];
    assert_eq!(requests(&machine, calls.into_iter()), [(0, 1), (1, 1), (2, 1), (4, 1)]);
}

#[test]
fn windows_of_2_5_start_at_half_the_maximum() {
    let machine = Description::named("pc-2003").expect("built in");
    // Reads of pages 0 to 11: a current window of 16 and an ahead window two pages larger. An indirect block lies between
    // pages 11 and 12 and is a request of its own.
    let read = requests(&machine, read_file("/a", 12 * 4096, 4096));
    let pages: u32 = read.iter().map(|&(_, pages)| pages).sum();
    assert_eq!(pages, 16 + 18 + 1, "{read:?}");
}

#[test]
fn on_demand_windows_double() {
    let machine = Description::named("pc-2010").expect("built in");
    // A first read of one page: a window of 4 pages (`get_init_ra_size` of 1 with a maximum of 32), then 8.
    let read = requests(&machine, read_file("/a", 4096, 4096));
    assert_eq!(read, [(0, 4)]);
    let read = requests(&machine, read_file("/a", 2 * 4096, 4096));
    assert_eq!(read, [(0, 4), (4, 8)]);
}

/// A reader stops in the middle of a window and another continues there: it follows the mark that the first left.
#[test]
fn a_reader_continues_the_windows_of_another() {
    let machine = Description::named("pc-2010").expect("built in");
    // Windows of 4, 8 and 16 pages, the last marked at its first page, 12.
    let first = (0..12).map(|page| Call::ReadAt(FIRST, page * 4096, 4096));
    let open = || std::iter::once(Call::Open("/a".into(), read_only()));
    let second = open().chain([Call::ReadAt(machine::kernel::Descriptor(1), 12 * 4096, 4096)]);
    // 16 pages of the first reader and one requested: a window of 32 after them. An indirect block lies between pages 11 and
    // 12.
    let read = requests(&machine, open().chain(first).chain(second));
    assert_eq!(read, [(0, 4), (4, 8), (12, 1), (13, 16), (29, 32)]);
}

#[test]
fn a_random_read_fetches_only_its_pages() {
    let machine = Description::named("pc-2010").expect("built in");
    let calls = [Call::Open("/a".into(), read_only()), Call::ReadAt(FIRST, 5 * 4096, 8192)];
    assert_eq!(requests(&machine, calls.into_iter()), [(0, 2)]);
}

#[test]
fn cached_pages_are_not_read_again() {
    let machine = Description::named("pc-2004").expect("built in");
    let mut image = Image::new();
    image.file("/a", MB);
    let again = |bench: &mut Bench| {
        let heard = bench.calls("reader", read_file("/a", MB, 64 << 10).chain([Call::Close(FIRST)]));
        bench.run();
        assert!(heard.borrow().iter().any(|(_, returned)| *returned == Returned::Bytes(64 << 10)));
        bench.ear.0.take().len()
    };
    let mut bench = Bench::new(&machine, "noop", &image);
    assert!(again(&mut bench) > 0);
    assert_eq!(again(&mut bench), 0);
    bench.machine.kernel_mut().expect("booted").drop_caches();
    assert!(again(&mut bench) > 0);
}

#[test]
fn active_pages_survive_a_streaming_read() {
    let mut machine = Description::named("pc-2003").expect("built in");
    (machine.memory.mib, machine.memory.taken_mib) = (64, 48);
    let mut image = Image::new();
    image.file("/often", 4 * MB).file("/once", 100 * MB);
    let mut bench = Bench::new(&machine, "noop", &image);
    let often = || read_file("/often", 4 * MB, 64 << 10).chain([Call::Close(FIRST)]);
    bench.calls("reader", often().chain(often()));
    bench.run();
    bench.calls("reader", read_file("/once", 100 * MB, 64 << 10).chain([Call::Close(FIRST)]));
    bench.run();
    bench.ear.0.take();
    bench.calls("reader", often());
    bench.run();
    assert_eq!(bench.ear.0.take().len(), 0);
}

/// "Impact of streaming write on streaming read" of the anticipatory benchmarks, shortened: 20 MB beside a writer that has
/// filled its share of memory. Published for 100 MB: 3.8 s with anticipation, 48 s without.
#[test]
fn a_reader_beside_a_streaming_writer_needs_anticipation() {
    let seconds = |scheduler| {
        let machine = Description::named("pc-2003").expect("built in");
        let mut image = Image::new();
        image.file("/read", 20 * MB).file("/written", 512 * MB);
        let mut bench = Bench::new(&machine, scheduler, &image);
        let open = Call::Open("/written".into(), read_only());
        let write = (0u64..).map(|n| Call::WriteAt(FIRST, n % 512 * MB, MB));
        bench.calls("writer", std::iter::once(open).chain(write));
        let wait = [Next::Think(Span::from_secs(20))].into_iter();
        let heard = bench.start("reader", wait.chain(read_file("/read", 20 * MB, 32 << 10).map(Next::Call)));
        let (mut at, mut done) = (Time::ZERO + Span::from_secs(20), None);
        while done.is_none() {
            at += Span::from_secs(1);
            bench.machine.run(Stop { at, ..Stop::default() }).expect("nothing fails");
            done = heard.borrow().get(640).map(|&(at, _)| at.as_secs_f64() - 20.0);
        }
        done.unwrap_or(f64::MAX)
    };
    let (without, with) = (seconds("deadline-2.6.9"), seconds("anticipatory-2.6.32"));
    assert!(with < 1.5, "{with:.1} s with anticipation");
    assert!(without > 5.0 * with, "{without:.1} s without, {with:.1} s with");
}

/// A file dropped from memory is read again; its dirty pages stay.
#[test]
fn fadvise_keeps_dirty_pages() {
    let machine = Description::named("linux-6").expect("built in");
    let dirty = [Call::WriteAt(FIRST, 0, 4096), Call::Forget(FIRST), Call::ReadAt(FIRST, 0, 64 << 10)];
    let read = |forget: bool, last: Vec<Call>| {
        let again = [Call::Forget(FIRST), Call::ReadAt(FIRST, 0, 64 << 10)];
        let again = again.into_iter().skip(usize::from(!forget));
        let calls = [Call::Open("/a".into(), read_only()), Call::ReadAt(FIRST, 0, 64 << 10)]
            .into_iter()
            .chain(again)
            .chain(last);
        let pages =
            requests(&machine, calls).into_iter().flat_map(|(first, count)| first..first + u64::from(count));
        pages.filter(|page| *page < 16).count()
    };
    assert_eq!((read(false, vec![]), read(true, vec![]), read(true, dirty.to_vec())), (16, 32, 47));
}
