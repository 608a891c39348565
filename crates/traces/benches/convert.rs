//! Conversion of a text to Parquet on all cores: `cargo bench -p dwell-traces --features parquet --bench convert -- FILE...`.
//!
//! Prints wall-clock and processor time of reading, and of reading and writing to memory.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dwell_traces::write::{Encoders, ParquetWriter};
use dwell_traces::{DeviceChoice, Options, Recording};

fn main() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{:<24} {:>8} {:>10} {:>10} {:>10}", "file", "work", "MB", "MB/s", "MB/s of CPU");
    for path in std::env::args().skip(1).filter(|argument| !argument.starts_with("--")) {
        let bytes = std::fs::metadata(&path).expect("a file").len();
        let open = |threads: usize| {
            let options = Options { device: DeviceChoice::All, threads, ..Options::default() };
            dwell_traces::open_file(&path, File::open(&path).expect("a file"), &options).expect("a recording")
        };
        let only = std::env::var("WORK").unwrap_or_default();
        let row = |work: &str, run: &dyn Fn()| {
            if !work.contains(&only) {
                return;
            }
            let (wall, processor) = (Instant::now(), processor_time());
            run();
            let rate = |time: Duration| bytes as f64 / 1e6 / time.as_secs_f64();
            let (wall, processor) = (rate(wall.elapsed()), rate(processor_time() - processor));
            println!("{path:<24} {work:>8} {:>10} {wall:>10.0} {processor:>10.0}", bytes / 1_000_000);
        };
        row("read, 1", &|| assert!(open(1).all(|record| record.is_ok())));
        row("read", &|| assert!(open(cores).all(|record| record.is_ok())));
        row("convert", &|| convert(open(cores), cores));
    }
}

fn convert(mut recording: Recording, threads: usize) {
    let writer = ParquetWriter::new(Counted(0), "bench").expect("a writer");
    let mut writer = writer.with_encoders(Arc::new(Encoders::new(threads)));
    let mut devices = 0;
    let mut records = Vec::new();
    while recording.read_batch(&mut records).expect("records") {
        if recording.devices().len() > devices {
            devices = recording.devices().len();
            writer.meet(recording.devices().iter().map(|device| &device.name));
        }
        writer.write_batch(&records, |_| None::<&str>).expect("no error");
    }
    writer.finish().expect("no error");
}

/// Discards what is written.
struct Counted(u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Processor time of this process and its threads so far.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    // User and system time, in hundredths of a second.
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}
