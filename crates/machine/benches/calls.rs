//! Processor time of a modelled system call: `cargo bench -p dwell-machine --bench calls`.
//!
//! Includes program, engine and kernel. Cached reads and writes of 4 KB by one process and by four in turn; `stat`; and four
//! threads that create, read, append to and remove small files in 80,000 operations, as in the profiles of the cooperative
//! paper.

use std::time::Duration;

use elevator::Time;
use machine::kernel::{Call, Description, Descriptor, Errno, Image, Kernel, Open, Path, Returned};
use machine::{Machine, Next, Program, Setup, Stop, Submitter};
use schedulers::{Environment, Spec};

/// Opens a file and makes `n` calls of a pattern.
struct Calls {
    path: Option<Path>,
    left: u32,
    make: fn(u32) -> Call,
}

impl Program for Calls {
    fn next(&mut self, _: Time) -> Next {
        if let Some(path) = self.path.take() {
            return Next::Call(Call::Open(path, Open { create: true, ..Open::default() }));
        }
        match self.left.checked_sub(1) {
            None => Next::Exit,
            Some(left) => {
                self.left = left;
                Next::Call((self.make)(left))
            }
        }
    }
}

/// Creates, reads, appends to and removes small files.
struct Mail {
    random: u64,
    left: u32,
    files: u64,
    steps: Vec<Call>,
}

impl Mail {
    fn below(&mut self, n: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % n
    }
}

impl Program for Mail {
    fn next(&mut self, _: Time) -> Next {
        if let Some(call) = self.steps.pop() {
            return Next::Call(call);
        }
        let Some(left) = self.left.checked_sub(1) else { return Next::Exit };
        self.left = left;
        let file = self.below(self.files);
        let path: Path = format!("/d{}/f{file}", file % 100).into();
        let (kind, bytes) = (self.below(4), 4096 + self.below(60) * 1024);
        let append = kind == 1;
        let call =
            if kind < 2 { Call::Write(Descriptor(0), bytes) } else { Call::Read(Descriptor(0), bytes) };
        self.steps = vec![Call::Close(Descriptor(0)), call];
        if kind == 3 {
            self.steps.insert(0, Call::Unlink(path.clone()));
        }
        Next::Call(Call::Open(path, Open { create: true, append, ..Open::default() }))
    }

    fn returned(&mut self, returned: Returned) -> bool {
        returned == Returned::Failed(Errno::NotFound)
    }
}

fn machine(description: &Description, image: &Image, programs: Vec<Box<dyn Program>>) -> Machine {
    let nowhere = &mut |_: &str| Err(std::io::ErrorKind::NotFound.into());
    let (drive, _) = disks::catalogue::open("maxtor-20gb", nowhere).expect("a built-in drive");
    let kernel = Kernel::new(description, drive.capacity(), image).expect("a kernel");
    let scheduler = Spec::parse("anticipatory-2.6.9").expect("a scheduler");
    let mut machine = Machine::new(Setup {
        options: description.queue(),
        scheduler: scheduler.build(&Environment::default()).expect("a scheduler"),
        drive,
        observer: None,
    });
    machine.boot(kernel);
    for (program, number) in programs.into_iter().zip(1..) {
        machine.start(Submitter::process(number, "caller"), program);
    }
    machine
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

fn print_result(what: &str, calls: u32, mut machine: Machine) {
    let begun = processor_time();
    let ended = machine.run(Stop::default());
    let took = processor_time() - begun;
    let measured = machine.measured();
    println!(
        "{what:<34} {:>7.0} ns each, {:>5.2} s for {:.1} s of virtual time, {} requests {}",
        took.as_nanos() as f64 / f64::from(calls),
        took.as_secs_f64(),
        measured.elapsed_ns as f64 / 1e9,
        measured.dispatched,
        ended.err().map_or(String::new(), |failure| failure.to_string()),
    );
}

fn main() {
    const N: u32 = 1_000_000;
    let ext3 = Description::named("pc-2004").expect("built in");
    let ext2 = Description::named("pc-2003").expect("built in");
    let mut image = Image::new();
    image.file("/a", 1 << 20);
    let of = |make: fn(u32) -> Call, n: u32| -> Vec<Box<dyn Program>> {
        let one = || Box::new(Calls { path: Some("/a".into()), left: N / n, make }) as Box<dyn Program>;
        (0..n).map(|_| one()).collect()
    };
    let read: fn(u32) -> Call = |n| Call::ReadAt(Descriptor(0), u64::from(n % 256) * 4096, 4096);
    let write: fn(u32) -> Call = |n| Call::WriteAt(Descriptor(0), u64::from(n % 256) * 4096, 4096);
    let stat: fn(u32) -> Call = |_| Call::Stat("/a".into());
    print_result("cached read of 4 KB", N, machine(&ext3, &image, of(read, 1)));
    print_result("cached read of 4 KB, four processes", N, machine(&ext3, &image, of(read, 4)));
    print_result("write of 4 KB over itself, ext3", N, machine(&ext3, &image, of(write, 1)));
    print_result("write of 4 KB over itself, ext2", N, machine(&ext2, &image, of(write, 1)));
    print_result("stat", N, machine(&ext3, &image, of(stat, 1)));

    let begun = processor_time();
    let mut image = Image::new();
    for directory in 0..100 {
        image.directory(format!("/d{directory}"));
    }
    (0..100_000u64).for_each(|file| {
        image.file(format!("/d{}/f{file}", file % 100), 4096 + file * 7919 % 61_440);
    });
    let mail = |n| Box::new(Mail { random: n, left: 20_000, files: 100_000, steps: Vec::new() });
    let mail = (0..4).map(|n| mail(n) as Box<dyn Program>).collect();
    let machine = machine(&ext3, &image, mail);
    println!("100,000 files laid out in {:.2} s", (processor_time() - begun).as_secs_f64());
    print_result("80,000 operations on them", 80_000, machine);
}
