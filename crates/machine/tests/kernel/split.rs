//! Split-level policies in the machine: their guarantees, and block-level policies under the same load.

use elevator::split::Terms;
use elevator::{Priority, Process, Span, Time};
use machine::kernel::{Call, Description, Image};
use machine::{Measured, Next, Stop, Submitter};

use crate::bench::{Bench, FIRST, Script, create, write_file};

const MB: u64 = 1 << 20;

fn machine() -> Description {
    let mut machine = Description::named("pc-2010").expect("built in");
    machine.memory.mib = 512;
    machine
}

/// Runs until this second.
fn until(bench: &mut Bench, seconds: u64) -> Measured {
    let at = Time::ZERO + Span::from_secs(seconds);
    bench.machine.run(Stop { at, ..Stop::default() }).expect("a run");
    bench.machine.measured()
}

fn start(bench: &mut Bench, number: u32, level: u8, calls: impl Iterator<Item = Call> + 'static) {
    let priority = Priority { level, ..Priority::default() };
    let who = Submitter { process: Some(Process::single(number)), priority, name: format!("p{number}") };
    bench.machine.start(who, Script::of(calls.map(Next::Call)));
}

/// Eight processes of priorities 0 to 7 with their own calls; mean deviation of each one's share from its goal.
fn deviation<C: Iterator<Item = Call> + 'static>(
    scheduler: &str,
    seconds: u64,
    calls: impl Fn(&str) -> C,
) -> f64 {
    let mut bench = Bench::on("wd5000aaks", &machine(), scheduler, &Image::new());
    for level in 0..8u8 {
        start(&mut bench, u32::from(level) + 1, level, calls(&format!("/file-{level}")));
    }
    let measured = until(&mut bench, seconds);
    let bytes: Vec<f64> = measured.processes.iter().map(|process| process.bytes as f64).collect();
    let all: f64 = bytes.iter().sum();
    let goal = |level: usize| (8 - level) as f64 / 36.0;
    let off = bytes.iter().enumerate().map(|(level, &bytes)| (bytes / all - goal(level)).abs() / goal(level));
    off.sum::<f64>() / 8.0
}

#[test]
fn afq_gives_writers_their_shares_and_cfq_does_not() {
    let writers = |scheduler| deviation(scheduler, 120, |path| write_file(path, 16 << 30, 64 << 10));
    let (cfq, afq) = (writers("cfq-2.6.32"), writers("afq"));
    // Published: 82% and 7%.
    assert!(cfq > 0.5, "cfq {cfq:.2}");
    assert!(afq < 0.07, "afq {afq:.2}");
}

#[test]
fn afq_gives_fsyncs_their_shares_despite_shared_commits() {
    let syncers = |scheduler| {
        deviation(scheduler, 30, |path| {
            let open = std::iter::once(Call::Open(path.into(), create()));
            open.chain((0..100_000).flat_map(|_| [Call::Write(FIRST, 4096), Call::Fsync(FIRST)]))
        })
    };
    let (cfq, afq) = (syncers("cfq-2.6.32"), syncers("afq"));
    // 0.81 is the deviation of equal shares: every process has one fsync in each commit.
    assert!(cfq > 0.5, "cfq {cfq:.2}");
    assert!(afq < 0.15, "afq {afq:.2}");
}

/// One process writes 4 KB and calls fsync repeatedly; another writes as much as it can. The 99th percentile and the maximum
/// of fsync in ms.
fn fsyncs(scheduler: &str) -> (f64, f64) {
    let mut bench = Bench::on("wd5000aaks", &machine(), scheduler, &Image::new());
    let terms = Terms { fsync_deadline: Some(Span::from_millis(100)), ..Terms::default() };
    bench.machine.agree(1, terms);
    let open = Call::Open("/log".into(), create());
    let commits = (0..400).flat_map(|_| {
        [
            Next::Call(Call::Write(FIRST, 4096)),
            Next::Call(Call::Fsync(FIRST)),
            Next::Think(Span::from_millis(50)),
        ]
    });
    let who = Submitter::process(1, "log");
    bench.machine.start(who, Script::of(std::iter::once(Next::Call(open)).chain(commits)));
    let rewrite = write_file("/big", 256 * MB, 64 << 10).chain((0..100).flat_map(|_| {
        std::iter::once(Call::Seek(FIRST, 0)).chain((0..4096).map(|_| Call::Write(FIRST, 64 << 10)))
    }));
    start(&mut bench, 2, 4, rewrite);
    let measured = until(&mut bench, 60);
    let log = measured.processes.iter().find(|process| process.name == "log").expect("it ran");
    let fsync = log.calls.get("fsync").expect("it synced");
    (fsync.p99_ns as f64 / 1e6, fsync.max_ns as f64 / 1e6)
}

#[test]
fn split_deadline_keeps_fsync_deadlines() {
    let (block, split) = (fsyncs("deadline-2.6.32"), fsyncs("split-deadline"));
    // Published: within 100 ms, whatever other processes write.
    assert!(split.1 <= 100.0, "split-deadline {split:?} ms");
    assert!(block.1 > 1000.0, "deadline {block:?} ms");
}
