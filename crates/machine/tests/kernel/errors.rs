//! What cannot be is said once, with the name of the process and of the call.

use elevator::{Sector, Time};
use machine::kernel::{BootError, Call, Description, Errno, Image, Kernel, Open, Returned};
use machine::{Failure, Meeting, Next, Program, Stop, Who};

use crate::bench::{Bench, FIRST, Worn, built_in, read_file, read_only};

/// A program that expects nothing to fail.
struct Plain(std::vec::IntoIter<Next>);

impl Program for Plain {
    fn next(&mut self, _: Time) -> Next {
        self.0.next().unwrap_or(Next::Exit)
    }
}

fn failure(steps: Vec<Next>, others: Vec<Next>) -> String {
    let machine = Description::named("pc-2004").expect("built in");
    let mut bench = Bench::new(&machine, "noop", &Image::new());
    bench.machine.start(Who::process(1, "reader"), Box::new(Plain(steps.into_iter())));
    bench.machine.start(Who::process(2, "other"), Box::new(Plain(others.into_iter())));
    bench.machine.run(Stop::default()).expect_err("a failure").to_string()
}

#[test]
fn a_file_that_nobody_creates() {
    let failure = failure(vec![Next::Call(Call::Open("/nowhere/a".into(), read_only()))], vec![]);
    assert_eq!(failure, "process reader: open(\"/nowhere/a\"): no such file or directory");
}

#[test]
fn a_descriptor_that_nobody_opened() {
    let failure = failure(vec![Next::Call(Call::Read(machine::kernel::Descriptor(3), 1))], vec![]);
    assert_eq!(failure, "process reader: read(3, 1): no such open file");
}

#[test]
fn a_meeting_that_the_other_never_comes_to() {
    let meet = |name| Next::Meet(Meeting { name, members: 2 });
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
    assert_eq!(error.to_string(), "the image: /large: no space left on the device");
    let error = Kernel::new(&machine, Sector(1000), &Image::new()).err().expect("too small for swap");
    assert!(error.to_string().contains("memory.swap-mib: the device has only"), "{error}");
    let mut machine = machine;
    machine.memory.swap_mib = 0;
    let error = Kernel::new(&machine, Sector(1000), &Image::new()).err().expect("too small");
    assert!(matches!(error, BootError::FileSystem { .. }), "{error}");
}

#[test]
fn a_description_that_cannot_be() {
    let unknown = Description::named("pc-1999").expect_err("unknown");
    assert_eq!(
        unknown.to_string(),
        "no machine is called `pc-1999`; there are pc-2003, pc-2004, pc-2010, pc-2012, pc-2012-xfs, linux-6"
    );
    let mut machine = Description::named("pc-2003").expect("built in");
    machine.dirty.percent = 4;
    let error = machine.check().expect_err("below the floor");
    assert!(error.to_string().starts_with("machine `pc-2003`: dirty.percent: from 5"), "{error}");
    let error = Description::from_toml("name = 3").expect_err("not a name");
    assert!(error.to_string().contains("line 1"), "{error}");
    let error = Description::from_toml("name = \"x\"\nabout = \"y\"\n[memory]\ntaken_mib = 3\n");
    let error = error.expect_err("another spelling").to_string();
    assert!(error.starts_with("machine description: line 4: unknown field `taken_mib`"), "{error}");
    assert!(error.ends_with("did you mean `taken-mib`?"), "{error}");
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
fn a_page_that_cannot_be_read_is_not_written_in_part() {
    for machine in Description::names().map(|name| Description::named(name).expect("built in")) {
        let mut image = Image::new();
        image.file("/a", 1 << 20);
        let mut bench = Bench::new(&machine, "noop", &image);
        bench.calls("reader", read_file("/a", 4096, 4096));
        bench.run();
        // The last that was read is the file, from its beginning on.
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
