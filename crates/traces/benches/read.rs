//! Lines per second of each text format, read from memory by one thread: `cargo bench -p dwell-traces`.
//!
//! Measures processor time on Linux, so that other load matters less, and wall-clock time elsewhere. The last column is a lower bound for any
//! reader: the rate of finding the line ends with memchr.

use std::hint::black_box;
use std::io::Cursor;
use std::time::{Duration, Instant};

use dwell_traces::{DeviceChoice, Options};

const LINES: u64 = 1_000_000;
const RUNS: usize = 5;

fn main() {
    println!("{:<14} {:>8} {:>14} {:>14}", "format", "bytes", "lines/s", "memchr lines/s");
    for (name, line) in formats() {
        let text: String = (0..LINES).map(line).collect();
        let read = best(|| read(name, &text));
        let floor = best(|| black_box(memchr::memchr_iter(b'\n', black_box(text.as_bytes())).count() as u64));
        let rate = |time: Duration| LINES as f64 / time.as_secs_f64();
        println!("{name:<14} {:>8} {:>14.0} {:>14.0}", text.len() as u64 / LINES, rate(read), rate(floor));
    }
}

/// Minimum time of several runs.
fn best(mut run: impl FnMut() -> u64) -> Duration {
    let times = (0..RUNS).map(|_| {
        let (wall, processor) = (Instant::now(), processor_time());
        assert_eq!(run(), LINES);
        match (processor, processor_time()) {
            (Some(before), Some(after)) => after - before,
            _ => wall.elapsed(),
        }
    });
    times.min().unwrap_or_default()
}

/// Processor time of this process so far.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

fn read(name: &str, text: &str) -> u64 {
    let options = Options { device: DeviceChoice::All, ..Options::default() };
    // The source must own its text. The copy takes less than 2% of the time.
    let source = Box::new(Cursor::new(text.as_bytes().to_vec()));
    let recording = dwell_traces::open(name, source, &options).expect("a format");
    recording.map(|record| record.expect("a record").bytes.min(1)).sum()
}

type Line = fn(u64) -> String;

fn formats() -> [(&'static str, Line); 6] {
    [
        ("a.ascii", |n| {
            format!("{}.{:06} 0 {} {} {}\n", n * 16, n % 1_000_000, scattered(n), 8 + n % 4 * 8, n % 3 % 2)
        }),
        ("a.mqsim", |n| format!("{} 0 {} {} {}\n", n * 1_000_000, scattered(n), 8 + n % 4 * 8, n % 3 % 2)),
        ("alibaba.csv", |n| {
            format!("419,R,{},4096,{}\n", scattered(n) * 512, 1_577_808_144_360_767 + n * 100)
        }),
        ("msr.csv", |n| {
            let stamp = 128_166_372_003_061_629 + n * 1_000;
            format!("{stamp},src1,2,Read,{},24576,41286\n", scattered(n) * 512)
        }),
        ("a.spc", |n| format!("0,{},4096,r,{}.{:06}\n", scattered(n), n / 100, n % 100 * 10_000)),
        ("a.ftrace", |n| {
            let time = format!("{}.{:06}", n / 10_000, n % 10_000 * 100);
            let sector = scattered(n);
            format!(
                "  dd-100   [001] .....  {time}: block_rq_issue: 7,0 R 4096 () {sector} + 8 be,0,4 [dd]\n"
            )
        }),
    ]
}

fn scattered(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}
