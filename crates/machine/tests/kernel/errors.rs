//! Errors name the process and the call.

use elevator::{Sector, Time};
use machine::kernel::{BootError, Call, Description, Errno, Image, Kernel, Open, Returned};
use machine::{Barrier, Failure, Next, Program, Stop, Submitter};

use crate::bench::{Bench, FIRST, Worn, built_in, read_file, read_only};

/// A program that handles no failures.
struct Plain(std::vec::IntoIter<Next>);

impl Program for Plain {
    fn next(&mut self, _: Time) -> Next {
        self.0.next().unwrap_or(Next::Exit)
    }
}

fn failure(steps: Vec<Next>, others: Vec<Next>) -> String {
    let machine = Description::named("pc-2004").expect("built in");
    let mut bench = Bench::new(&machine, "noop", &Image::new());
    bench.machine.start(Submitter::process(1, "reader"), Box::new(Plain(steps.into_iter())));
    bench.machine.start(Submitter::process(2, "other"), Box::new(Plain(others.into_iter())));
    bench.machine.run(Stop::default()).expect_err("a failure").to_string()
}

#[test]
fn opening_a_missing_file() {
    let failure = failure(vec![Next::Call(Call::Open("/nowhere/a".into(), read_only()))], vec![]);
    assert_eq!(failure, "process reader: open(\"/nowhere/a\"): no such file or directory");
}

#[test]
fn reading_a_closed_descriptor() {
    let failure = failure(vec![Next::Call(Call::Read(machine::kernel::Descriptor(3), 1))], vec![]);
    assert_eq!(failure, "process reader: read(3, 1): no such open file");
}

#[test]
fn a_barrier_without_its_other_member() {
    let meet = |name| Next::Barrier(Barrier { name, members: 2 });
    let failure = failure(vec![meet(1)], vec![meet(2)]);
    assert!(failure.starts_with("waiting for each other"), "{failure}");
    assert!(failure.contains(": reader, "), "{failure}");
}

#[test]
fn a_call_without_a_kernel() {
    let error = Failure::NoKernel { process: "reader".into(), call: Call::Sync.to_string() };
    assert!(error.to_string().starts_with("process reader: sync(): this machine has no kernel"));
}

#[test]
fn an_image_that_does_not_fit() {
    let machine = Description::named("pc-2004").expect("built in");
    let mut image = Image::new();
    image.file("/large", 30 << 30);
    let error = Kernel::new(&machine, Sector(40_000_000), &image).err().expect("too large");
    assert_eq!(error.to_string(), "image: /large: no space left on the device");
    let error = Kernel::new(&machine, Sector(1000), &Image::new()).err().expect("too small for swap");
    assert!(error.to_string().contains("memory.swap-mib: the device has only"), "{error}");
    let mut machine = machine;
    machine.memory.swap_mib = 0;
    let error = Kernel::new(&machine, Sector(1000), &Image::new()).err().expect("too small");
    assert!(matches!(error, BootError::FileSystem { .. }), "{error}");
}

#[test]
fn descriptions_out_of_range() {
    let unknown = Description::named("pc-1999").expect_err("unknown");
    assert_eq!(
        unknown.to_string(),
        "unknown machine 'pc-1999'; built-in machines: pc-2003, pc-2004, pc-2010, pc-2012, pc-2012-xfs, linux-6"
    );
    let mut machine = Description::named("pc-2003").expect("built in");
    machine.dirty.percent = 4;
    let error = machine.check().expect_err("below the floor");
    assert!(error.to_string().starts_with("machine 'pc-2003': dirty.percent: from 5"), "{error}");
    let error = Description::from_toml("name = 3").expect_err("not a name");
    assert!(error.to_string().contains("line 1"), "{error}");
    let error = Description::from_toml("name = \"x\"\nabout = \"y\"\n[memory]\ntaken_mib = 3\n");
    let error = error.expect_err("another spelling").to_string();
    assert!(error.starts_with("machine description: line 4: unknown field `taken_mib`"), "{error}");
    assert!(error.ends_with("did you mean 'taken-mib'?"), "{error}");
}

#[test]
fn a_file_opened_twice_is_open_twice() {
    let machine = Description::named("pc-2004").expect("built in");
    let mut image = Image::new();
    image.file("/a", 8192);
    let mut bench = Bench::new(&machine, "noop", &image);
    let open = || Call::Open("/a".into(), Open::default());
    let heard = bench.calls("reader", [open(), open()].into_iter());
    bench.run();
    let opened: Vec<_> = heard.borrow().iter().map(|(_, returned)| returned.clone()).collect();
    let numbers = [0, 1].map(|n| Returned::Opened(machine::kernel::Descriptor(n)));
    assert_eq!(opened, numbers);
}

#[test]
fn an_unreadable_page_cannot_be_written_in_part() {
    for machine in Description::names().map(|name| Description::named(name).expect("built in")) {
        let mut image = Image::new();
        image.file("/a", 1 << 20);
        let mut bench = Bench::new(&machine, "noop", &image);
        bench.calls("reader", read_file("/a", 4096, 4096));
        bench.run();
        // The last read was the file's, from its start.
        let seen = bench.ear.0.take();
        let data = seen.iter().rfind(|seen| seen.completed).expect("a read").start;
        let drive = Worn { drive: built_in("ide-2003"), bad: data..data + 8, failing: Vec::new() };
        let mut bench = Bench::with(Box::new(drive), &machine, "noop", &image);
        let open = Call::Open("/a".into(), Open::default());
        let heard =
            bench.calls("writer", [open, Call::Write(FIRST, 100), Call::WriteAt(FIRST, 0, 4096)].into_iter());
        bench.run();
        let answers: Vec<Returned> = heard.borrow().iter().map(|(_, returned)| returned.clone()).collect();
        let expected = [Returned::Failed(Errno::Io), Returned::Bytes(4096)];
        assert_eq!(answers[1..], expected, "{}", machine.name);
    }
}

/// A file whose sixth page of 64 is unreadable, on each machine. The last read shows where the file begins.
fn worn(machine: &Description) -> Bench {
    let mut image = Image::new();
    image.file("/a", 256 << 10);
    let mut bench = Bench::new(machine, "noop", &image);
    bench.calls("reader", read_file("/a", 4096, 4096));
    bench.run();
    let seen = bench.ear.0.take();
    let bad = seen.iter().rfind(|seen| seen.completed).expect("a read").start + 5 * 8;
    let drive = Worn { drive: built_in("ide-2003"), bad: bad..bad + 8, failing: Vec::new() };
    Bench::with(Box::new(drive), machine, "noop", &image)
}

fn answers(bench: &mut Bench, calls: Vec<Call>) -> Vec<Returned> {
    let open = Call::Open("/a".into(), Open::default());
    let heard = bench.calls("process", std::iter::once(open).chain(calls));
    bench.run();
    let answers = heard.borrow().iter().skip(1).map(|(_, returned)| returned.clone()).collect();
    bench.machine.kernel().expect("booted").check().expect("consistent state");
    answers
}

/// Pages read together with a bad page are read again alone, as in `do_generic_file_read`.
#[test]
fn a_bad_page_does_not_affect_others_of_its_read() {
    for machine in Description::names().map(|name| Description::named(name).expect("built in")) {
        let pages = (0..8).map(|page| Call::ReadAt(FIRST, page * 4096, 4096)).collect();
        let good = Returned::Bytes(4096);
        let mut expected = vec![good; 8];
        expected[5] = Returned::Failed(Errno::Io);
        assert_eq!(answers(&mut worn(&machine), pages), expected, "{}", machine.name);
    }
}

#[test]
fn a_read_ends_before_a_bad_page() {
    for machine in Description::names().map(|name| Description::named(name).expect("built in")) {
        let calls = vec![Call::Read(FIRST, 32 << 10), Call::Read(FIRST, 4096), Call::Read(FIRST, 4096)];
        let failed = Returned::Failed(Errno::Io);
        let expected = [Returned::Bytes(5 * 4096), failed.clone(), failed];
        assert_eq!(answers(&mut worn(&machine), calls), expected, "{}", machine.name);
    }
}

#[test]
fn a_failed_write_sets_the_position_to_its_end() {
    for machine in Description::names().map(|name| Description::named(name).expect("built in")) {
        // A part of an unreadable page cannot be written; the whole page can, at the file position.
        let calls = vec![
            Call::Seek(FIRST, 5 * 4096),
            Call::Write(FIRST, 100),
            Call::Write(FIRST, 4096),
            Call::Read(FIRST, 4096),
        ];
        let expected =
            [Returned::Done, Returned::Failed(Errno::Io), Returned::Bytes(4096), Returned::Bytes(4096)];
        assert_eq!(answers(&mut worn(&machine), calls), expected, "{}", machine.name);
    }
}

/// A file that leaves less than 256 MB free.
fn nearly_full(machine: &Description) -> Image {
    let capacity = built_in("ide-2003").capacity();
    let filled = |left: u64| {
        let mut image = Image::new();
        image.file("/filler", capacity.0 * 512 - (left << 28));
        image
    };
    let fits = |image: &Image| Kernel::new(machine, capacity, image).is_ok();
    (1..64).map(filled).find(fits).expect("room for a file")
}

/// A write is cut to the free space; a write without any fails.
#[test]
fn a_write_beyond_the_free_space_is_short() {
    for machine in Description::names().map(|name| Description::named(name).expect("built in")) {
        let mut bench = Bench::new(&machine, "noop", &nearly_full(&machine));
        let length = 50_000_000;
        let open = Call::Open("/a".into(), crate::bench::create());
        let writes = (0..8).map(move |_| Call::Write(FIRST, length));
        let heard = bench.calls("writer", std::iter::once(open).chain(writes));
        bench.run();
        let answers: Vec<Returned> = heard.borrow().iter().map(|(_, returned)| returned.clone()).collect();
        let short = answers.iter().position(|answer| matches!(answer, Returned::Bytes(b) if *b < length));
        let short = short.unwrap_or_else(|| panic!("{}: {answers:?}", machine.name));
        assert_eq!(answers[short + 1], Returned::Failed(Errno::NoSpace), "{}", machine.name);
    }
}
