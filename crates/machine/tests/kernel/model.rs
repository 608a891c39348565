//! Random calls of several processes on a machine with little memory: the kernel's state is consistent after every slice of
//! time, no process waits for ever, and a seed determines the run.

use std::rc::Rc;

use elevator::{Span, Time};
use machine::kernel::{
    Call, Description, Descriptor, Errno, FlushKind, Image, Open, Path, Returned, ThrottleKind, fs,
};
use machine::{Failure, Next, Program, Stop, Submitter};

use crate::bench::Bench;

/// A small random generator, so that one number identifies a run.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A process with random calls.
struct Anything {
    random: Random,
    left: u32,
    open: Vec<Descriptor>,
    opening: bool,
    closing: Option<Descriptor>,
}

impl Anything {
    fn path(&mut self) -> Path {
        Rc::from(format!("/d{}/f{}", self.random.below(3), self.random.below(12)))
    }

    fn file(&mut self) -> Option<Descriptor> {
        let n = self.open.len() as u64;
        (n > 0).then(|| self.open[self.random.below(n.max(1)) as usize])
    }

    fn call(&mut self) -> Call {
        let at = self.random.below(400) * 4096 + self.random.below(4096);
        let length = self.random.below(60_000);
        let kind = self.random.below(40);
        match (kind, self.file()) {
            (0..5, _) | (_, None) => {
                self.opening = true;
                let direct = self.random.below(10) == 0;
                let sync = self.random.below(10) == 0;
                let truncate = self.random.below(8) == 0;
                Call::Open(self.path(), Open { create: true, truncate, direct, sync, append: false })
            }
            (5..8, Some(file)) => {
                self.closing = Some(file);
                Call::Close(file)
            }
            (8..16, Some(file)) => Call::ReadAt(file, at, length),
            (16..20, Some(file)) => Call::Read(file, length),
            (20..30, Some(file)) => Call::WriteAt(file, at, length),
            (30, Some(file)) => Call::Truncate(file, at),
            (31, Some(file)) => Call::Fsync(file),
            (32, Some(file)) => Call::Fdatasync(file),
            (33, Some(file)) if at.is_multiple_of(2) => Call::Forget(file),
            (33, Some(file)) => Call::Seek(file, at),
            (34, _) => Call::Unlink(self.path()),
            (35, _) => Call::Rename(self.path(), self.path()),
            (36, _) => Call::Readdir(format!("/d{}", self.random.below(3)).into()),
            (37, _) => Call::Stat(self.path()),
            (38, _) if self.random.below(4) == 0 => Call::Sync,
            _ => Call::Touch(self.random.below(1500) * 4096, 40 * 4096, self.random.below(2) == 0),
        }
    }
}

impl Program for Anything {
    fn next(&mut self, _: Time) -> Next {
        if self.left == 0 {
            return Next::Exit;
        }
        self.left -= 1;
        if self.random.below(20) == 0 {
            return Next::Think(Span::from_millis(self.random.below(2000)));
        }
        Next::Call(self.call())
    }

    fn returned(&mut self, returned: Returned) -> bool {
        let (opening, closing) = (std::mem::take(&mut self.opening), self.closing.take());
        match returned {
            Returned::Opened(file) => self.open.push(file),
            Returned::Failed(errno) => {
                let planned = matches!(errno, Errno::NotFound | Errno::NoMemory);
                assert!(planned, "{errno}, opening {opening}");
            }
            _ => self.open.retain(|&open| Some(open) != closing),
        }
        true
    }
}

fn run(machine: &Description, seed: u64) -> (u64, Vec<machine::kernel::Sample>) {
    let mut image = Image::new();
    for directory in 0..3 {
        image.directory(format!("/d{directory}"));
        for file in 0..6 {
            image.file(format!("/d{directory}/f{file}"), file * 100_000);
        }
    }
    let mut bench = Bench::new(machine, "deadline-2.6.32", &image);
    for process in 0..6 {
        let random = Random(seed * 1000 + process);
        let program = Anything { random, left: 400, open: Vec::new(), opening: false, closing: None };
        bench.machine.start(Submitter::process(process as u32 + 1, "anybody"), Box::new(program));
    }
    let mut until = Time::ZERO;
    loop {
        until += Span::from_millis(50);
        let ended = bench.machine.run(Stop { at: until, ..Stop::default() });
        let context = || format!("{}, seed {seed}, at {until}", machine.name);
        ended.unwrap_or_else(|failure: Failure| panic!("{}: {failure}", context()));
        let kernel = bench.machine.kernel().expect("booted");
        kernel.check().unwrap_or_else(|fault| panic!("{}: {fault}", context()));
        if !bench.machine.is_cut() {
            break;
        }
        assert!(until < Time::ZERO + Span::from_secs(3600), "{}: still not ended", context());
    }
    let samples = bench.machine.kernel().expect("booted").samples();
    (bench.machine.measured().elapsed_ns, samples)
}

/// Every built-in machine with 12 MB for six processes that use 36 MB, and combinations that no built-in machine has.
fn machines() -> Vec<Description> {
    let small = |mut machine: Description| {
        (machine.memory.mib, machine.memory.taken_mib, machine.memory.swap_mib) = (20, 8, 64);
        machine
    };
    let mut machines: Vec<_> =
        Description::names().map(|name| small(Description::named(name).expect("built in"))).collect();
    let mut modern = machines[2].clone();
    modern.name = "modern".to_owned();
    modern.file_system.layout = fs::Options::ext4();
    modern.file_system.delayed_allocation = true;
    modern.file_system.orders_overwrites = false;
    modern.file_system.journal.barrier = true;
    modern.dirty.throttle = ThrottleKind::Pauses;
    modern.block.flush = FlushKind::Beside;
    machines.push(modern.clone());
    let mut xfs = modern;
    xfs.name = "xfs-like".to_owned();
    xfs.file_system.layout = fs::Options::xfs_like();
    machines.push(xfs);
    machines
}

#[test]
fn random_calls_keep_the_kernel_consistent() {
    for machine in machines() {
        for seed in 1..=4 {
            run(&machine, seed);
        }
    }
}

#[test]
fn a_seed_determines_the_run() {
    for machine in machines() {
        assert_eq!(run(&machine, 7), run(&machine, 7), "{}", machine.name);
    }
}
