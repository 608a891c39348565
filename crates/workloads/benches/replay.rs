//! Throughput of a replay: a DiskSim text trace is read, replayed at its times, queued, served by a modelled drive and
//! measured, on one thread: `cargo bench -p dwell-workloads --bench replay`.
//!
//! The trace is generated into a file: a million requests (or the first argument), two thirds reads, 4 to 16 KiB, at random
//! positions, 60 a second with exponential intervals. The name of a part (`read`, `drive` or `everything`) after the number
//! runs only that part. The drive is the Cheetah 9LP if its description is present, otherwise the built-in `ide-2003`. Parts
//! also run without the later ones. Processor time is printed with wall time, because it depends less on other load.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use disks::{Command, Drive, Tag, catalogue};
use elevator::queue::Options as QueueOptions;
use elevator::{Op, Random, Time};
use machine::{Machine, Measured, Setup, Stop};
use schedulers::policies::noop::Noop;
use traces::{Options, Recording};
use workloads::Workload;
use workloads::replay::{Open, Replay};

const READ: &str = "a record";
const PARTS: [&str; 3] = ["read", "drive", "everything"];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let requests = arguments.iter().find_map(|arg| arg.parse().ok()).unwrap_or(1_000_000);
    let chosen: Vec<&str> =
        PARTS.into_iter().filter(|part| arguments.iter().any(|arg| arg == part)).collect();
    let runs = |part| chosen.is_empty() || chosen.contains(&part);
    let (_, name) = drive();
    let capacity = drive().0.capacity().0;
    let trace = std::env::temp_dir().join(format!("dwell-replay-{}.ascii", std::process::id()));
    let bytes = write_trace(&trace, requests, capacity).expect("room for a trace in the temporary folder");
    println!("{requests} requests in {} MB of text, drive {name}", bytes / 1_000_000);
    if runs("read") {
        report("read", requests, || {
            records(&trace).map(|record| record.expect(READ).bytes.min(1)).sum::<u64>()
        });
    }
    if runs("drive") {
        report("read, drive", requests, || straight(&trace, &mut *drive().0));
    }
    if runs("everything") {
        let measured = report("everything", requests, || whole(&trace));
        println!("{}", measured.expect("a replay cannot deadlock"));
    }
    let _ = std::fs::remove_file(&trace);
    if let Some(peak) = peak_memory() {
        println!("peak memory {:.1} MB", peak as f64 / 1e6);
    }
}

/// Runs a part and prints its throughput.
fn report<T>(what: &str, requests: u32, run: impl FnOnce() -> T) -> T {
    let (wall, processor) = (Instant::now(), processor_time());
    let result = run();
    let wall = wall.elapsed();
    let rate = |time: Duration| f64::from(requests) / time.as_secs_f64();
    let processor = processor.zip(processor_time()).map(|(before, after)| rate(after - before));
    let processor = processor.map_or_else(|| "unknown".to_owned(), |rate| format!("{rate:.0}"));
    println!("{what:<12} {:>9.0} requests/s of wall time, {processor:>9} of processor time", rate(wall));
    result
}

fn whole(trace: &Path) -> Result<String, machine::Failure> {
    let mut open = Open::default();
    for record in records(trace) {
        open.push(record.as_ref().expect(READ));
    }
    let replay: Replay = open.finish("trace", &|_| None);
    let mut machine = Machine::new(Setup {
        options: QueueOptions::default(),
        scheduler: Box::new(Noop::default()),
        drive: drive().0,
        observer: None,
    });
    replay.start(&mut machine);
    machine.run(Stop::default())?;
    let measured = machine.measured();
    let ms = |ns: u64| ns as f64 / 1e6;
    let Measured { requests, dispatched, latency, .. } = &measured;
    let (mean, p99) = (ms(latency.mean_ns), ms(latency.p99_ns));
    Ok(format!("{requests} finished, {dispatched} sent, mean {mean:.4} ms, p99 {p99:.4} ms"))
}

/// The drive alone, one request at a time.
fn straight(trace: &Path, drive: &mut dyn Drive) -> u64 {
    let mut now = Time::ZERO;
    for record in records(trace) {
        let record = record.expect(READ);
        now = now.max(record.at);
        let (start, sectors) = (record.start(), record.sectors());
        drive.submit(now, Command { tag: Tag(0), op: record.op, start, sectors, fua: false });
        now = loop {
            if let Some(done) = drive.poll(now) {
                break done.at;
            }
            now = drive.next_event().expect("a command is in the drive");
        };
    }
    now.as_nanos()
}

fn records(trace: &Path) -> Recording {
    let source = Box::new(File::open(trace).expect("the trace"));
    traces::open("a.ascii", source, &Options::default()).expect("a trace")
}

fn drive() -> (Box<dyn Drive>, &'static str) {
    let folder = std::env::var_os("DWELL_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let folder = folder.join("disks");
    let mut open = |name: &str| {
        let name = folder.join(Path::new(name).file_name().unwrap_or_default());
        Ok(Box::new(File::open(name)?) as Box<dyn Read>)
    };
    match catalogue::open("cheetah9LP.diskspecs", &mut open) {
        Ok((drive, _)) => (drive, "cheetah9LP"),
        Err(_) => {
            let (drive, _) = catalogue::open("ide-2003", &mut open).expect("a built-in drive");
            (drive, "ide-2003")
        }
    }
}

/// Writes arrival in milliseconds, device, sector, sectors, and 1 for a read; returns the text's length.
fn write_trace(path: &Path, requests: u32, capacity: u64) -> io::Result<u64> {
    let (mut text, mut random, mut ms) = (BufWriter::new(File::create(path)?), Random::new(2003), 0.0);
    for _ in 0..requests {
        ms -= (1.0 - random.unit()).ln() * 1000.0 / 60.0;
        let sectors = 8 * (1 + below(&mut random, 4));
        let sector = below(&mut random, (capacity - sectors) / 8) * 8;
        let op = if below(&mut random, 100) < 66 { Op::Read } else { Op::Write };
        writeln!(text, "{ms:.6} 0 {sector} {sectors} {}", u8::from(op == Op::Read))?;
    }
    text.flush()?;
    Ok(path.metadata()?.len())
}

fn below(random: &mut Random, n: u64) -> u64 {
    (random.next() >> 16) % n
}

/// Processor time of this process.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Peak memory of this process in bytes.
fn peak_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}
