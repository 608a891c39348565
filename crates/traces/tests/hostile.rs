//! Damaged and malicious files: no panic, the promises of [`dwell_traces::Recording`] kept, memory bounded.
//!
//! `DWELL_SEED` sets the seed, which is printed; `DWELL_ROUNDS` the mutations of each corpus file.

mod common;

use std::io::{self, Read};

use dwell_traces::write::Writer;
use dwell_traces::{DeviceChoice, Format, Info, Options, Record, Recording, TimeUnit};
use elevator::{Op, Random};

struct Dice(Random);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next() % bound.max(1) as u64) as usize
    }
}

fn mutate(bytes: &[u8], other: &[u8], random: &mut Dice) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            _ if bytes.is_empty() => {}
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes.truncate(at),
            2 => bytes[at] = [0, 0xff, b'9', b',', b' ', b'\n', b'-', b'['][random.below(8)],
            3 => {
                let from = random.below(other.len());
                let to = from + random.below(other.len() - from);
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            4 => {
                let to = at + random.below(bytes.len() - at);
                let piece = bytes[at..to].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let to = (at + random.below(16)).min(bytes.len());
                bytes.drain(at..to);
            }
        }
    }
    bytes
}

fn any_options(random: &mut Dice, format: Option<Format>) -> Options {
    Options {
        format,
        device: if random.below(3) == 0 { DeviceChoice::Single } else { DeviceChoice::All },
        capacity: (random.below(4) == 0).then(|| 1 << random.below(50)),
        unit: (random.below(4) == 0).then(|| TimeUnit::ALL[random.below(TimeUnit::ALL.len())]),
        block_bytes: (random.below(4) == 0).then(|| 1 << random.below(32)),
        strict: random.below(8) == 0,
        ..Options::default()
    }
}

/// Reads to the end, checks the guarantees for every record, and returns the records.
fn drain(mut recording: Recording, options: &Options) -> (Vec<Record>, Recording) {
    let mut records: Vec<Record> = Vec::new();
    for record in recording.by_ref() {
        let Ok(record) = record else { break };
        assert!(records.last().is_none_or(|last| last.at <= record.at));
        assert!(record.completed.is_none_or(|completed| completed >= record.at));
        assert!(record.op == Op::Flush || record.bytes > 0);
        let end = record.offset.checked_add(record.bytes).expect("an end");
        assert!(options.capacity.is_none_or(|capacity| end <= capacity));
        let _ = (record.sectors(), record.latency());
        records.push(record);
    }
    assert!(recording.next().is_none());
    let _ = recording.interpretation().doubt();
    let _ = (recording.interpretation().to_string(), recording.skips().to_string());
    (records, recording)
}

fn write_all(records: &[Record], recording: &Recording) {
    for format in Format::ALL.iter().filter(|format| format.holds().is_some()) {
        let mut writer = Writer::new(*format, io::sink(), recording.devices(), "of a test").unwrap();
        records.iter().for_each(|record| writer.write(record, None).unwrap());
        let written = writer.finish().unwrap();
        assert_eq!(written.written + written.left_out, records.len() as u64);
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn mutations_of_the_corpus_never_panic() {
    let seed = number("DWELL_SEED", 1);
    println!("DWELL_SEED={seed}");
    let mut random = Dice(Random::new(seed));
    let corpus = common::corpus();
    for (name, bytes) in &corpus {
        let detected = common::open(name, bytes, &Options::default()).ok().map(|r| r.interpretation().format);
        for _ in 0..number("DWELL_ROUNDS", 100) {
            let (_, other) = &corpus[random.below(corpus.len())];
            let mutated = mutate(bytes, other, &mut random);
            for format in [None, detected, Some(Format::ALL[random.below(Format::ALL.len())])] {
                let options = any_options(&mut random, format);
                let Ok(recording) = common::open(name, &mutated, &options) else { continue };
                let (records, recording) = drain(recording, &options);
                write_all(&records, &recording);
                let mut gatherer = Info::gatherer();
                records.iter().for_each(|record| gatherer.add(record));
                let _ = gatherer.finish(&recording);
            }
        }
    }
}

/// A stream that goes on for a while, made line by line.
struct Endless<F> {
    line: F,
    lines: u64,
    left: Vec<u8>,
}

impl<F: FnMut(u64) -> String> Read for Endless<F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.left.is_empty() && self.lines > 0 {
            self.lines -= 1;
            self.left = (self.line)(self.lines).into_bytes();
        }
        let read = self.left.len().min(into.len());
        into[..read].copy_from_slice(&self.left[..read]);
        self.left.drain(..read);
        Ok(read)
    }
}

fn count(
    name: &str,
    lines: u64,
    line: impl FnMut(u64) -> String + Send + 'static,
) -> (u64, Result<(), String>) {
    let source = Endless { line, lines, left: Vec::new() };
    let options = Options { device: DeviceChoice::All, ..Options::default() };
    let recording = dwell_traces::open(name, Box::new(source), &options).expect("a format");
    let mut records = 0;
    for record in recording {
        match record {
            Ok(_) => records += 1,
            Err(error) => return (records, Err(error.to_string())),
        }
    }
    (records, Ok(()))
}

/// The peak memory of this process in KiB; `None` without `/proc`.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[test]
fn memory_is_bounded_for_hostile_files() {
    // Half a million starts that never complete, each by a process with a name of its own.
    let starts = |n: u64| {
        format!("c{n}-{n} [000] .....  1.{:06}: block_io_start: 7,0 R 4096 () {n} + 8 [c{n}]\n", n % 7)
    };
    assert_eq!(count("starts.ftrace", 500_000, starts), (500_000, Ok(())));
    // As many devices.
    let (_, result) = count("devices.ascii", 200_000, |n| format!("1.5 {n} 100 8 1\n"));
    let failure = result.unwrap_err();
    assert!(failure.contains("expected one of at most 65536 devices"), "{failure}");
    assert!(failure.contains("divide the recording") && !failure.contains("truncate"), "{failure}");
    // As many requests in one second.
    let second = |_| "1538323200,100,8,0,1\n".to_owned();
    assert_eq!(count("second.csv", 500_000, second), (500_000, Ok(())));
    if cfg!(target_os = "linux") {
        let peak = peak_kib().expect("VmHWM in /proc/self/status");
        assert!(peak < 400 * 1024, "{peak} KiB");
    }
}

#[test]
fn a_decompression_bomb_is_refused() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    io::copy(&mut io::repeat(0).take(64 << 20), &mut encoder).unwrap();
    let bomb = encoder.finish().unwrap();
    assert!(common::open("bomb.gz", &bomb, &Options::default()).is_err());
    for &format in Format::ALL {
        let options = Options { format: Some(format), ..Options::default() };
        let Ok(mut recording) = common::open("bomb.gz", &bomb, &options) else { continue };
        assert!(matches!(recording.next(), Some(Err(_))), "{format}");
    }
}

#[test]
fn a_slow_source_gives_the_same_records() {
    struct Slow(Vec<u8>, usize);
    impl Read for Slow {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let n = (1 + self.1 % 3).min(into.len()).min(self.0.len() - self.1);
            into[..n].copy_from_slice(&self.0[self.1..self.1 + n]);
            self.1 += n;
            Ok(n)
        }
    }
    for (name, bytes) in common::corpus() {
        let options = Options { device: DeviceChoice::All, ..Options::default() };
        let fast: Vec<_> = common::read(&name, &bytes, &options).unwrap().0;
        let slow = dwell_traces::open(&name, Box::new(Slow(bytes, 0)), &options).unwrap();
        assert_eq!(fast, slow.map(Result::unwrap).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn unfinished_flushes_are_neither_kept_nor_searched() {
    let mut text = String::new();
    for n in 0..200_000_u64 {
        let (seconds, nanos) = (n / 1_000, n % 1_000 * 1_000_000);
        let mut line = |device: u32, event: &str| {
            text += &format!("  8,{device} 0 {n} {seconds}.{nanos:09} 100 {event}\n");
        };
        line(0, "Q FWS [a]");
        line(16, "C FWS 0 [0]");
    }
    let options = Options { device: DeviceChoice::All, ..Options::default() };
    let mut recording = dwell_traces::open("f.blkparse", Box::new(io::Cursor::new(text)), &options).unwrap();
    // Searched through, the flushes that wait for their end cost a minute; looked up, a second.
    let began = std::time::Instant::now();
    let info = Info::of(&mut recording).unwrap();
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    assert_eq!(info.flushes, 200_000);
    assert_eq!(recording.skips().get(dwell_traces::Oddity::StrayCompletion).count, 200_000);
    assert_eq!(recording.skips().get(dwell_traces::Oddity::NoCompletion).count, 200_000);
}
