//! Programs that stripe themselves over the members of an array, for kernels without md:
//!
//! ```text
//! cargo run --release -p dwell-server --example striped_reader -- par-read 4 10 /dev/loop0 /dev/loop1 …
//!     readers: each reads its own region in order, with a window of two rows ahead, as the page cache on md does
//! cargo run … -- random 1 10 /dev/loop0 …
//!     4 KiB reads at random places, one at a time for each program
//! cargo run … -- scrub 256 0 /dev/loop0 …
//!     reads the first 256 MiB of every member in lockstep, as a scrub of md does
//! ```
//!
//! A member is an attached device, or `unix:PATH` of an NBD export (`--nbd`), which saves the kernel's workers on the way.
//!
//! The first number is the number of programs (MiB for `scrub`), the second the duration in seconds.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The stripe unit.
const UNIT: u64 = 64 << 10;

/// Rows of a window.
const ROWS: u64 = 2;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, count, seconds, members @ ..] = arguments.as_slice() else {
        return Err(io::Error::other("usage: striped_reader par-read|random|scrub COUNT SECONDS MEMBER…"));
    };
    let number = |text: &String| text.parse::<u64>().map_err(io::Error::other);
    let (count, during) = (number(count)?, Duration::from_secs(number(seconds)?));
    match mode.as_str() {
        "par-read" => par_read(count, during, members),
        "random" => random(count, during, members),
        "scrub" => scrub(count << 20, members),
        other => Err(io::Error::other(format!("{other}: no such mode"))),
    }
}

/// A member: a device, or an NBD connection and the export's size.
enum Member {
    Device(File),
    Nbd(UnixStream, u64),
}

fn open(member: &str) -> io::Result<Member> {
    let Some(path) = member.strip_prefix("unix:") else {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(member)?;
        return Ok(Member::Device(file));
    };
    let mut stream = UnixStream::connect(path)?;
    stream.read_exact(&mut [0; 18])?;
    stream.write_all(&3u32.to_be_bytes())?;
    // NBD_OPT_EXPORT_NAME with the empty name.
    stream.write_all(&[b"IHAVEOPT".as_slice(), &1u32.to_be_bytes(), &0u32.to_be_bytes()].concat())?;
    let mut export = [0; 10];
    stream.read_exact(&mut export)?;
    let size = export[..8].iter().fold(0, |size, &byte| size << 8 | u64::from(byte));
    Ok(Member::Nbd(stream, size))
}

impl Member {
    fn size(&self) -> io::Result<u64> {
        match self {
            Self::Device(file) => io::Seek::seek(&mut &*file, io::SeekFrom::End(0)),
            Self::Nbd(_, size) => Ok(*size),
        }
    }

    fn read(&self, memory: &mut [u8], at: u64) -> io::Result<()> {
        let mut stream = match self {
            Self::Device(file) => return file.read_exact_at(memory, at),
            Self::Nbd(stream, _) => stream,
        };
        let length = memory.len() as u32;
        let request =
            [&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, 0][..], &[0; 8], &at.to_be_bytes(), &length.to_be_bytes()];
        stream.write_all(&request.concat())?;
        let mut reply = [0; 16];
        stream.read_exact(&mut reply)?;
        if reply[4..8] != [0; 4] {
            return Err(io::Error::other("the server could not read"));
        }
        stream.read_exact(memory)
    }
}

fn size(member: &str) -> io::Result<u64> {
    open(member)?.size()
}

/// Memory that direct I/O accepts.
struct Aligned(Vec<u8>);

impl Aligned {
    fn new(length: usize) -> Self {
        Self(vec![0; length + 4096])
    }

    fn get(&mut self, length: usize) -> &mut [u8] {
        let skip = self.0.as_ptr().align_offset(4096);
        &mut self.0[skip..skip + length]
    }
}

/// A thread that reads ranges of one member and reports each.
fn worker(member: &str, done: Sender<io::Result<u64>>) -> io::Result<Sender<(u64, u64)>> {
    let (sender, ranges): (_, Receiver<(u64, u64)>) = channel();
    let file = open(member)?;
    thread::spawn(move || {
        let mut memory = Aligned::new((ROWS * UNIT) as usize);
        for (at, length) in ranges {
            let read = file.read(memory.get(length as usize), at).map(|()| length);
            if done.send(read).is_err() {
                return;
            }
        }
    });
    Ok(sender)
}

/// Reads rows from `first` on until `end`, two windows at a time; the bytes read.
fn reader(first: u64, end: Instant, members: &[String], total: &AtomicU64) -> io::Result<()> {
    let mut slots = Vec::new();
    for _ in 0..2 {
        let (done, finished) = channel();
        let workers: Vec<_> =
            members.iter().map(|member| worker(member, done.clone())).collect::<Result<_, _>>()?;
        slots.push((workers, finished));
    }
    let issue = |window: u64| {
        for range in &slots[(window % 2) as usize].0 {
            let _ = range.send(((first + window * ROWS) * UNIT, ROWS * UNIT));
        }
    };
    issue(0);
    let mut window = 0;
    while Instant::now() < end {
        issue(window + 1);
        for _ in members {
            let read = slots[(window % 2) as usize].1.recv().map_err(io::Error::other)??;
            total.fetch_add(read, Ordering::Relaxed);
        }
        window += 1;
    }
    Ok(())
}

fn par_read(count: u64, during: Duration, members: &[String]) -> io::Result<()> {
    let rows = size(&members[0])? / UNIT;
    let (total, began) = (AtomicU64::new(0), Instant::now());
    let end = began + during;
    thread::scope(|scope| {
        let readers: Vec<_> = (0..count)
            .map(|index| {
                scope.spawn({
                    let total = &total;
                    move || reader(rows / count * index, end, members, total)
                })
            })
            .collect();
        readers.into_iter().try_for_each(|reader| reader.join().expect("a reader"))
    })?;
    let rate = total.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64() / 1e6;
    println!("{rate:.1} MB/s");
    Ok(())
}

fn random(count: u64, during: Duration, members: &[String]) -> io::Result<()> {
    let sectors = size(&members[0])? / 4096;
    let end = Instant::now() + during;
    let one = |seed: u64| -> io::Result<Vec<Duration>> {
        let files: Vec<Member> = members.iter().map(|member| open(member)).collect::<Result<_, _>>()?;
        let (mut memory, mut state, mut times) = (Aligned::new(4096), seed + 1, Vec::new());
        while Instant::now() < end {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let place = state >> 17;
            let began = Instant::now();
            files[(place % files.len() as u64) as usize]
                .read(memory.get(4096), place / files.len() as u64 % sectors * 4096)?;
            times.push(began.elapsed());
            thread::sleep(Duration::from_millis(5));
        }
        Ok(times)
    };
    let mut times = thread::scope(|scope| {
        let programs: Vec<_> = (0..count)
            .map(|seed| {
                scope.spawn({
                    let one = &one;
                    move || one(seed)
                })
            })
            .collect();
        programs.into_iter().map(|program| program.join().expect("a program")).collect::<Result<Vec<_>, _>>()
    })?
    .concat();
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    println!(
        "{} reads, median {:.1} ms, p99 {:.1} ms, longest {:.1} ms",
        times.len(),
        at(50),
        at(99),
        at(100)
    );
    Ok(())
}

fn scrub(bytes: u64, members: &[String]) -> io::Result<()> {
    let began = Instant::now();
    let (done, finished) = channel();
    let workers: Vec<_> =
        members.iter().map(|member| worker(member, done.clone())).collect::<Result<_, _>>()?;
    let mut at = 0;
    while at < bytes {
        workers.iter().for_each(|range| _ = range.send((at, UNIT)));
        for _ in members {
            finished.recv().map_err(io::Error::other)??;
        }
        at += UNIT;
    }
    println!(
        "{:.1} s, {:.1} MB/s of each member",
        began.elapsed().as_secs_f64(),
        bytes as f64 / began.elapsed().as_secs_f64() / 1e6
    );
    Ok(())
}
