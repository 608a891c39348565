//! Processor time of the hooks of split-level scheduling, without a policy's own time: `cargo bench -p dwell-machine --bench
//! hooks`.
//!
//! Processor time of a run under `split-noop`, which observes every event and does nothing, minus the same under `noop`, per
//! event: overwrites of a cached page; the difference of fifteen more pages a call; direct reads minus the call. The lowest
//! of several runs. A call is expensive because a call that may be held is a future that sleeps; a kernel would call a
//! function.

use std::time::Duration;

use elevator::Time;
use machine::kernel::{Call, Description, Descriptor, Image, Kernel, Open, Path};
use machine::{Machine, Next, Program, Setup, Stop, Submitter};
use schedulers::{Environment, Spec};

const CALLS: u32 = 200_000;
const RUNS: usize = 9;
const PAGES: u64 = 16;

/// Opens a file and makes `n` calls of a pattern.
struct Calls {
    open: Option<(Path, Open)>,
    left: u32,
    make: fn(u64) -> Call,
}

impl Program for Calls {
    fn next(&mut self, _: Time) -> Next {
        if let Some((path, how)) = self.open.take() {
            return Next::Call(Call::Open(path, how));
        }
        match self.left.checked_sub(1) {
            None => Next::Exit,
            Some(left) => {
                self.left = left;
                Next::Call((self.make)(left.into()))
            }
        }
    }
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

/// Nanoseconds of a call under a scheduler; the lowest of several runs.
fn under(scheduler: &str, direct: bool, make: fn(u64) -> Call) -> f64 {
    let description = Description::named("pc-2012").expect("built in");
    let mut image = Image::new();
    image.file("/a", 16 << 20);
    let once = || {
        let nowhere = &mut |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let (drive, _) = disks::catalogue::open("ssd-sata", nowhere).expect("a built-in drive");
        let kernel = Kernel::new(&description, drive.capacity(), &image).expect("a kernel");
        let scheduler = Spec::parse(scheduler).expect("a scheduler");
        let mut machine = Machine::new(Setup {
            options: description.queue(),
            scheduler: scheduler.build(&Environment::default()).expect("a scheduler"),
            drive,
            observer: None,
        });
        machine.boot(kernel);
        let open = Some(("/a".into(), Open { direct, ..Open::default() }));
        machine.start(Submitter::process(1, "caller"), Box::new(Calls { open, left: CALLS, make }));
        let begun = processor_time();
        machine.run(Stop::default()).expect("a run");
        (processor_time() - begun).as_nanos() as f64 / f64::from(CALLS)
    };
    (0..RUNS).map(|_| once()).fold(f64::INFINITY, f64::min)
}

fn main() {
    let added = |direct, make| under("split-noop", direct, make) - under("noop", direct, make);
    let one = added(false, |n| Call::WriteAt(Descriptor(0), n % 16 * PAGES * 4096, 4096));
    let many = added(false, |n| Call::WriteAt(Descriptor(0), n % 16 * PAGES * 4096, PAGES * 4096));
    let request = added(true, |n| Call::ReadAt(Descriptor(0), n % 4096 * 4096, 4096));
    let page = (many - one) / (PAGES - 1) as f64;
    let call = one - page;
    println!("{:16} {call:6.0} ns", "a call");
    println!("{:16} {page:6.0} ns", "a dirtied page");
    println!("{:16} {:6.0} ns", "a request", request - call);
}
