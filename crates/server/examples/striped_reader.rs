//! Programs that stripe themselves over the members of an array, for kernels without md:
//!
//! ```text
//! cargo run --release -p dwell-server --example striped_reader -- par-read 4 10 /dev/loop0 /dev/loop1 …
//!     readers: each reads its own region in order, with a window of two rows ahead, as the page cache on md does
//! cargo run … -- tpch 3 10 /dev/loop0 …
//!     query 19 of TPC-H, as in the experiment array-tpch: each reads a table of 32 MiB and one of 880 MiB
//! cargo run … -- postmark 4 10 /dev/loop0 …
//!     PostMark's transactions on 10,000 small files each, as in array-postmark; writes to the members
//! cargo run … -- random 1 10 /dev/loop0 …
//!     4 KiB reads at random places, one at a time for each program
//! cargo run … -- scrub 256 0 /dev/loop0 …
//!     reads the first 256 MiB of every member in lockstep, as a scrub of md does
//! cargo run … -- par-read 4 10 unit=16k parity=1 /dev/loop0 …
//!     an option in front of the members
//! ```
//!
//! | option | meaning |
//! |---|---|
//! | `unit=64k` | the stripe unit |
//! | `parity=0` | parity units in each row: 1 is RAID 5, left-symmetric; read by no program but `scrub` |
//! | `window=SIZE` | what `par-read` and `tpch` read at a time; default: two rows |
//! | `depth=2` | windows in flight of `par-read` and `tpch`; 1: no read-ahead. Requests in flight on each member of `scrub`, by default 1 |
//! | `skip=0` | bytes of each reader's region that `par-read` leaves out, so that no reader begins where a scrub does |
//! | `think=5` | milliseconds that `random` computes after each read |
//!
//! A member is an attached device, or `unix:PATH` of an NBD export (`--nbd`), which saves the kernel's workers on the way.
//!
//! The first number is the number of programs (MiB for `scrub`), the second the duration in seconds.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Clone, Copy)]
struct Options {
    members: u64,
    /// The stripe unit.
    unit: u64,
    parity: u64,
    window: Option<u64>,
    depth: Option<u64>,
    think: u64,
    skip: u64,
}

impl Options {
    /// Takes the options that `arguments` begin with.
    fn take(arguments: &[String]) -> io::Result<(Self, &[String])> {
        let mut options =
            Self { members: 0, unit: 64 << 10, parity: 0, window: None, depth: None, think: 5, skip: 0 };
        let mut rest = arguments;
        while let Some((key, value)) = rest.first().and_then(|first| first.split_once('=')) {
            let (digits, factor) = value.strip_suffix('k').map_or((value, 1), |digits| (digits, 1 << 10));
            let value = digits.parse::<u64>().map_err(io::Error::other)? * factor;
            match key {
                "unit" => options.unit = value,
                "parity" => options.parity = value,
                "window" => options.window = Some(value),
                "depth" => options.depth = Some(value.max(1)),
                "think" => options.think = value,
                "skip" => options.skip = value,
                other => return Err(io::Error::other(format!("{other}: no such option"))),
            }
            rest = &rest[1..];
        }
        options.members = rest.len() as u64;
        if options.window == Some(0) {
            return Err(io::Error::other(
                "window=0: give the bytes that a program reads at a time, such as window=64k",
            ));
        }
        let is_possible = options.parity < options.members && options.unit.is_multiple_of(BLOCK);
        let is_possible = is_possible && options.unit > 0 && options.window().is_multiple_of(BLOCK);
        is_possible.then_some((options, rest)).ok_or_else(|| io::Error::other("no such array"))
    }

    const fn row(self) -> u64 {
        self.unit * (self.members - self.parity)
    }

    fn window(self) -> u64 {
        self.window.unwrap_or(2 * self.row())
    }

    /// The member of an address of the array, and the address there.
    const fn place(self, at: u64) -> (usize, u64) {
        let (row, index) = (at / self.row(), at % self.row() / self.unit);
        // Left-symmetric: the data follow the parity, which moves to the member before in each row.
        let first = if self.parity == 0 { 0 } else { self.members - row % self.members };
        (((first + index) % self.members) as usize, row * self.unit + at % self.unit)
    }

    /// The ranges of each member in a range of the array.
    fn ranges(self, at: u64, length: u64) -> Vec<(usize, u64, u64)> {
        let mut ranges: Vec<(usize, u64, u64)> = Vec::new();
        let mut next = at;
        while next < at + length {
            let (member, place) = self.place(next);
            let piece = (self.unit - next % self.unit).min(at + length - next);
            match ranges.iter_mut().find(|(of, start, length)| *of == member && start + length == place) {
                Some((_, _, length)) => *length += piece,
                None => ranges.push((member, place, piece)),
            }
            next += piece;
        }
        ranges
    }
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, count, seconds, rest @ ..] = arguments.as_slice() else {
        return Err(io::Error::other(
            "usage: striped_reader par-read|tpch|postmark|random|scrub COUNT SECONDS [OPTION=VALUE…] MEMBER…",
        ));
    };
    let (options, members) = Options::take(rest)?;
    let count = count.parse::<u64>().map_err(io::Error::other)?;
    let seconds = seconds.parse().map_err(io::Error::other)?;
    let during = Duration::try_from_secs_f64(seconds).map_err(io::Error::other)?;
    match mode.as_str() {
        "par-read" => par_read(count, during, options, members),
        "tpch" => tpch(count, during, options, members),
        "postmark" => postmark(count, during, options, members),
        "random" => random(count, during, options, members),
        "scrub" => scrub(count << 20, options, members),
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
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(member)?;
        return Ok(Member::Device(file));
    };
    // A server negotiates with 16 clients at a time.
    static OPENING: Mutex<()> = Mutex::new(());
    let _opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    greeted(path).map_err(|error| {
        io::Error::other(format!(
            "{member}: {error}; each program has a connection to each member, and a server takes 16 by default ('dwell serve --connections 64')"
        ))
    })
}

/// A connection to an NBD export.
fn greeted(path: &str) -> io::Result<Member> {
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
        match self {
            Self::Device(file) => file.read_exact_at(memory, at),
            Self::Nbd(stream, _) => {
                request(stream, 0, at, memory.len(), &[])?;
                (&*stream).read_exact(memory)
            }
        }
    }

    fn write(&self, memory: &[u8], at: u64) -> io::Result<()> {
        match self {
            Self::Device(file) => file.write_all_at(memory, at),
            Self::Nbd(stream, _) => request(stream, 1, at, memory.len(), memory),
        }
    }
}

/// Sends an NBD request, and waits for the header of its reply.
fn request(mut stream: &UnixStream, command: u8, at: u64, length: usize, data: &[u8]) -> io::Result<()> {
    let header = [0x25, 0x60, 0x95, 0x13, 0, 0, 0, command];
    let length = (length as u32).to_be_bytes();
    stream.write_all(&[&header[..], &[0; 8], &at.to_be_bytes(), &length, data].concat())?;
    let mut reply = [0; 16];
    stream.read_exact(&mut reply)?;
    match reply[4..8] {
        [0, 0, 0, 0] => Ok(()),
        _ => Err(io::Error::other("the server could not read or write")),
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
        if self.0.len() < length + 4096 {
            *self = Self::new(length);
        }
        let skip = self.0.as_ptr().align_offset(4096);
        &mut self.0[skip..skip + length]
    }
}

/// A thread that reads ranges of one member and reports each.
fn worker(member: &str, done: Sender<io::Result<u64>>) -> io::Result<Sender<(u64, u64)>> {
    let (sender, ranges): (_, Receiver<(u64, u64)>) = channel();
    let file = open(member)?;
    thread::spawn(move || {
        let mut memory = Aligned::new(0);
        for (at, length) in ranges {
            let read = file.read(memory.get(length as usize), at).map(|()| length);
            if done.send(read).is_err() {
                return;
            }
        }
    });
    Ok(sender)
}

/// A file that is read in order through read-ahead.
#[derive(Clone, Copy)]
struct Stream {
    /// Where it begins in the array, and its length.
    at: u64,
    bytes: u64,
    /// What the program computes between two windows.
    think: Duration,
}

impl Stream {
    /// Reads until its end or until `end`, some windows at a time, and counts the bytes.
    fn read(self, end: Instant, options: Options, members: &[String], total: &AtomicU64) -> io::Result<()> {
        let (window, depth) = (options.window(), options.depth.unwrap_or(2));
        let mut slots = Vec::new();
        for _ in 0..depth {
            let (done, finished) = channel();
            let workers: Vec<_> =
                members.iter().map(|member| worker(member, done.clone())).collect::<Result<_, _>>()?;
            slots.push((workers, finished));
        }
        let windows = self.bytes / window;
        let ranges = |number: u64| match number < windows {
            true => options.ranges(self.at + number * window, window),
            false => Vec::new(),
        };
        let issue = |number: u64| {
            for (member, at, length) in ranges(number) {
                let _ = slots[(number % depth) as usize].0[member].send((at, length));
            }
        };
        (0..depth - 1).for_each(issue);
        for number in 0..windows {
            if Instant::now() >= end {
                break;
            }
            issue(number + depth - 1);
            for _ in ranges(number) {
                let read = slots[(number % depth) as usize].1.recv().map_err(io::Error::other)??;
                total.fetch_add(read, Ordering::Relaxed);
            }
            if self.think > Duration::ZERO {
                thread::sleep(self.think);
            }
        }
        Ok(())
    }
}

/// Runs programs at the same time; what each returns.
fn programs<T: Send>(count: u64, program: impl Fn(u64) -> io::Result<T> + Sync) -> io::Result<Vec<T>> {
    thread::scope(|scope| {
        let started: Vec<_> = (0..count)
            .map(|index| {
                scope.spawn({
                    let program = &program;
                    move || program(index)
                })
            })
            .collect();
        started.into_iter().map(|program| program.join().expect("a program")).collect()
    })
}

/// Runs programs of streams one after the other, and prints the throughput of all.
fn streams(
    count: u64,
    during: Duration,
    options: Options,
    members: &[String],
    of: impl Fn(u64) -> Vec<Stream> + Sync,
) -> io::Result<()> {
    let (total, began) = (AtomicU64::new(0), Instant::now());
    let end = began + during;
    programs(count, |index| {
        of(index).into_iter().try_for_each(|stream| stream.read(end, options, members, &total))
    })?;
    let rate = total.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64() / 1e6;
    println!("{rate:.1} MB/s");
    Ok(())
}

fn par_read(count: u64, during: Duration, options: Options, members: &[String]) -> io::Result<()> {
    let rows = size(&members[0])? / options.unit;
    let part = rows / count * options.row();
    let skip = options.skip.min(part) / options.row() * options.row();
    let stream = |index| Stream { at: part * index + skip, bytes: part - skip, think: Duration::ZERO };
    streams(count, during, options, members, |index| vec![stream(index)])
}

/// The distance of the programs' files in the array, unless the members are too small.
fn apart(count: u64, options: Options, members: &[String]) -> io::Result<u64> {
    let data = options.members - options.parity;
    Ok((50 << 30).min(size(&members[0])? / options.unit * options.unit * data / count))
}

/// The paper's queries, 50 GB apart: `part` in pieces of 8 KiB with 10 us of computation after each, then `lineitem` with 20 us. The
/// computation of a window's pieces is one sleep.
fn tpch(count: u64, during: Duration, options: Options, members: &[String]) -> io::Result<()> {
    let (apart, row) = (apart(count, options, members)?, options.row());
    let lineitem = 880 << 20;
    streams(count, during, options, members, |index| {
        let stream = |at: u64, bytes: u64, piece: Duration| Stream {
            at: at / row * row,
            bytes: bytes / row * row,
            think: piece * (options.window() / 8192) as u32,
        };
        let at = index * apart;
        vec![
            stream(at + lineitem, 32 << 20, Duration::from_micros(10)),
            stream(at, lineitem, Duration::from_micros(20)),
        ]
    })
}

/// Pseudo-random numbers (MMIX's generator).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 17) % limit
    }
}

/// Blocks of the array, through a page cache that never drops one.
struct Cache<'a> {
    members: &'a [Member],
    options: Options,
    /// Where the program's files begin.
    start: u64,
    present: HashSet<u64>,
    /// Changed blocks that are not written yet.
    changed: HashSet<u64>,
    memory: Aligned,
}

const BLOCK: u64 = 4096;

impl Cache<'_> {
    /// Reads those blocks that are not present, one request for neighbours in the same unit.
    fn read(&mut self, blocks: std::ops::Range<u64>) -> io::Result<()> {
        let mut missing: Vec<u64> = blocks.filter(|block| self.present.insert(*block)).collect();
        while let Some(&first) = missing.first() {
            let unit = self.options.unit / BLOCK;
            let same = |(index, &block): (usize, &u64)| {
                block == first + index as u64
                    && (self.start / BLOCK + block) / unit == (self.start / BLOCK + first) / unit
            };
            let count = missing.iter().enumerate().take_while(|&next| same(next)).count();
            let (member, at) = self.options.place(self.start + first * BLOCK);
            self.members[member].read(self.memory.get(count * BLOCK as usize), at)?;
            missing.drain(..count);
        }
        Ok(())
    }

    fn change(&mut self, blocks: std::ops::Range<u64>) {
        self.present.extend(blocks.clone());
        self.changed.extend(blocks);
    }

    fn drop(&mut self, blocks: std::ops::Range<u64>) {
        blocks.for_each(|block| {
            self.present.remove(&block);
            self.changed.remove(&block);
        });
    }

    /// What is to be written: for each member its ranges in ascending order, neighbours in a unit as one.
    fn take_changed(&mut self) -> BTreeMap<usize, Vec<(u64, u64)>> {
        let mut blocks: Vec<u64> = self.changed.drain().collect();
        blocks.sort_unstable();
        let mut writes: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
        for block in blocks {
            let (member, at) = self.options.place(self.start + block * BLOCK);
            let ranges = writes.entry(member).or_default();
            match ranges.last_mut() {
                Some((first, length)) if *first + *length == at && at % self.options.unit != 0 => {
                    *length += BLOCK
                }
                _ => ranges.push((at, BLOCK)),
            }
        }
        writes
    }
}

/// A thread that writes ranges of one member, one after the other.
fn writer(member: &str) -> io::Result<Sender<Vec<(u64, u64)>>> {
    let (sender, batches) = channel::<Vec<(u64, u64)>>();
    let file = open(member)?;
    thread::spawn(move || -> io::Result<()> {
        let mut memory = Aligned::new(0);
        let mut ranges = batches.into_iter().flatten();
        ranges.try_for_each(|(at, length)| file.write(memory.get(length as usize), at))
    });
    Ok(sender)
}

/// A file: its number (its inode's place), first block and bytes.
#[derive(Clone, Copy)]
struct Small {
    number: u64,
    first: u64,
    bytes: u64,
}

impl Small {
    const fn blocks(self) -> std::ops::Range<u64> {
        self.first..self.first + self.bytes.div_ceil(BLOCK)
    }

    /// The block of its inode of 128 bytes; the table lies before the files.
    const fn inode(self) -> std::ops::Range<u64> {
        let block = self.number * 128 / BLOCK;
        block..block + 1
    }
}

/// PostMark: 10,000 files of 0.5 to 10 KiB that lie one behind the other, none of them in memory. A transaction reads a file or appends
/// up to 10 KiB to one, and creates or deletes one. Changed blocks are written every five seconds.
fn postmark(count: u64, during: Duration, options: Options, members: &[String]) -> io::Result<()> {
    const FILES: u64 = 10_000;
    const LEAST: u64 = 512;
    const MOST: u64 = 10 << 10;
    /// Blocks of the table of inodes, with room for created files.
    const TABLE: u64 = 2048;
    const WRITTEN_EVERY: Duration = Duration::from_secs(5);
    let apart = apart(count, options, members)?;
    let began = Instant::now();
    let end = began + during;
    let done = programs(count, |index| {
        let files: Vec<Member> = members.iter().map(|member| open(member)).collect::<Result<_, _>>()?;
        let writers: Vec<_> = members.iter().map(|member| writer(member)).collect::<Result<_, _>>()?;
        let mut cache = Cache {
            members: &files,
            options,
            start: index * apart / BLOCK * BLOCK,
            present: HashSet::new(),
            changed: HashSet::new(),
            memory: Aligned::new(0),
        };
        let (mut random, mut made, free) = (Random(index + 1), FILES, Cell::new(TABLE));
        let allocate = |blocks: u64| free.replace(free.get() + blocks);
        let make = |number: u64, random: &mut Random| {
            let bytes = LEAST + random.below(MOST - LEAST);
            Small { number, first: allocate(bytes.div_ceil(BLOCK)), bytes }
        };
        let mut pool: Vec<Small> = (0..FILES).map(|number| make(number, &mut random)).collect();
        let (mut transactions, mut written) = (0u64, Instant::now());
        while Instant::now() < end {
            let file = pool[random.below(pool.len() as u64) as usize];
            cache.read(file.inode())?;
            if random.below(2) == 0 {
                cache.read(file.blocks())?;
            } else {
                // It changes the last block. Further blocks are new, and stay in memory, so that the file need not list them.
                let last = file.blocks().end - 1;
                cache.read(last..last + 1)?;
                cache.change(last..last + 1);
                let more = ((file.bytes - 1) % BLOCK + 1 + random.below(MOST)) / BLOCK;
                let first = allocate(more);
                cache.change(first..first + more);
                cache.change(file.inode());
            }
            if random.below(2) == 0 && pool.len() > 1 {
                let file = pool.swap_remove(random.below(pool.len() as u64) as usize);
                cache.read(file.inode())?;
                cache.change(file.inode());
                cache.drop(file.blocks());
            } else {
                let file = make(made % (TABLE * BLOCK / 128), &mut random);
                made += 1;
                cache.read(file.inode())?;
                cache.change(file.inode());
                cache.change(file.blocks());
                pool.push(file);
            }
            transactions += 1;
            if written.elapsed() >= WRITTEN_EVERY {
                written = Instant::now();
                cache.take_changed().into_iter().for_each(|(member, batch)| _ = writers[member].send(batch));
            }
        }
        Ok(transactions)
    })?;
    let rate = done.iter().sum::<u64>() as f64 / began.elapsed().as_secs_f64();
    println!("{rate:.1} transactions/s");
    Ok(())
}

fn random(count: u64, during: Duration, options: Options, members: &[String]) -> io::Result<()> {
    let sectors = size(&members[0])? / 4096;
    let end = Instant::now() + during;
    let one = |seed: u64| -> io::Result<Vec<Duration>> {
        let files: Vec<Member> = members.iter().map(|member| open(member)).collect::<Result<_, _>>()?;
        let (mut memory, mut random, mut times) = (Aligned::new(4096), Random(seed + 1), Vec::new());
        while Instant::now() < end {
            let place = random.below(1 << 47);
            let began = Instant::now();
            files[(place % files.len() as u64) as usize]
                .read(memory.get(4096), place / files.len() as u64 % sectors * 4096)?;
            times.push(began.elapsed());
            thread::sleep(Duration::from_millis(options.think));
        }
        Ok(times)
    };
    let mut times = programs(count, one)?.concat();
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

fn scrub(bytes: u64, options: Options, members: &[String]) -> io::Result<()> {
    let (began, unit) = (Instant::now(), options.unit);
    let mut slots = Vec::new();
    for _ in 0..options.depth.unwrap_or(1) {
        let (done, finished) = channel();
        let workers: Vec<_> =
            members.iter().map(|member| worker(member, done.clone())).collect::<Result<_, _>>()?;
        slots.push((workers, finished));
    }
    let (rows, depth) = (bytes / unit, slots.len() as u64);
    let issue = |row: u64| {
        let workers = slots[(row % depth) as usize].0.iter().filter(|_| row < rows);
        workers.for_each(|range| _ = range.send((row * unit, unit)));
    };
    (0..depth).for_each(issue);
    for row in 0..rows {
        for _ in members {
            slots[(row % depth) as usize].1.recv().map_err(io::Error::other)??;
        }
        issue(row + depth);
    }
    println!(
        "{:.1} s, {:.1} MB/s of each member",
        began.elapsed().as_secs_f64(),
        bytes as f64 / began.elapsed().as_secs_f64() / 1e6
    );
    Ok(())
}
