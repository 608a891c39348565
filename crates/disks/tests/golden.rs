//! Digests of every completion of many drives under many workloads, compared with a golden file. An optimisation of the model must not
//! change the time of any completion, or the parts of its service time.
//!
//! The drives are the built-in ones, those of DiskSim's files if available, and drives with random parameters, which include
//! combinations that no real drive has. `DWELL_BLESS=1 cargo test -p dwell-disks --test golden` writes the file anew; explain each changed
//! line in the commit.

mod common;

use std::fmt::Write as _;
use std::hash::Hasher;
use std::io;
use std::path::Path;

use common::draw::{Dice, random_drive};
use common::{parameters, request};
use dwell_disks::parameters::{Fidelity, QueueOrder};
use dwell_disks::{
    Command, Completion, Drive, DriveParameters, Rotating, RotatingParameters, Tag, catalogue,
};
use elevator::{Op, Outcome, Sector, Sectors, Span, Time};
use fnv::FnvHasher;

const BUILT_IN: [&str; 5] = ["wd5000aaks", "barracuda-7200.10", "maxtor-20gb", "ide-2003", "st31500341as"];
const MEASURED: [&str; 8] = [
    "atlas_III",
    "barracuda",
    "cheetah4LP",
    "cheetah9LP",
    "hp_c2247a",
    "hp_c3323a_validate",
    "dec_rz26",
    "st41601n",
];
const DRAWN: u64 = 240;
const HOUR: Span = Span::from_millis(3_600_000);
const WORKLOADS: [Workload; 6] = [
    Workload { name: "random", near: 0, follow: 10, writes: 34, longest: 32, gap_ms: 15 },
    Workload { name: "reads", near: 20, follow: 20, writes: 0, longest: 64, gap_ms: 4 },
    Workload { name: "writes", near: 20, follow: 30, writes: 97, longest: 64, gap_ms: 4 },
    Workload { name: "crowded", near: 95, follow: 20, writes: 40, longest: 40, gap_ms: 2 },
    Workload { name: "streams", near: 5, follow: 85, writes: 30, longest: 128, gap_ms: 1 },
    Workload { name: "long", near: 30, follow: 40, writes: 40, longest: 1500, gap_ms: 40 },
];

/// The requests of a host: percentages, sectors and milliseconds.
struct Workload {
    name: &'static str,
    /// Requests within a few hundred sectors of each other.
    near: u64,
    /// Requests that begin at the end of an earlier one.
    follow: u64,
    writes: u64,
    longest: u64,
    /// The longest pause before a request.
    gap_ms: u64,
}

impl Workload {
    fn request(&self, dice: &mut Dice, capacity: u64, ends: &[u64]) -> (Op, u64, u64) {
        let sectors = (1 + dice.below(self.longest)).min(capacity);
        let last = capacity - sectors;
        let start = if dice.percent(self.follow) && !ends.is_empty() {
            ends[dice.below(ends.len() as u64) as usize]
        } else if dice.percent(self.near) {
            capacity / 3 + dice.below(600)
        } else {
            dice.below(last + 1)
        };
        let op = match dice.below(100) {
            0 => Op::Flush,
            roll if roll <= self.writes => Op::Write,
            _ => Op::Read,
        };
        (op, start.min(last), if op == Op::Flush { 0 } else { sectors })
    }
}

/// The result of a run.
struct Answers {
    digest: u64,
    done: u32,
    last: Time,
}

struct Host<'a> {
    drive: &'a mut Rotating,
    digest: FnvHasher,
    free: Vec<Tag>,
    done: u32,
    last: Time,
}

impl Host<'_> {
    fn collect(&mut self, now: Time) {
        while let Some(completion) = self.drive.poll(now) {
            let Completion { tag, at, outcome, service: s } = completion;
            assert!(at <= now, "{completion:?}, returned at {now:?}");
            self.free.push(tag);
            self.done += 1;
            self.last = at;
            for number in [u64::from(tag.0), at.as_nanos(), u64::from(outcome == Outcome::Done)] {
                self.digest.write_u64(number);
            }
            for span in [s.started.since(Time::ZERO), s.overhead, s.seek, s.rotation, s.transfer] {
                self.digest.write_u64(span.as_nanos());
            }
            self.digest.write_u8(u8::from(s.from_buffer));
        }
    }

    /// Lets time pass until `until`, or until a command completes if every tag is in use.
    fn wait(&mut self, until: Time) -> Time {
        let full = self.free.is_empty();
        let mut now = Time::ZERO;
        while let Some(next) = self.drive.next_event().filter(|&next| full || next <= until) {
            now = now.max(next);
            assert!(now < until + HOUR, "no command completes within an hour: {:?}", self.drive);
            self.collect(now);
            if full && !self.free.is_empty() && now >= until {
                return now;
            }
            if full && !self.free.is_empty() {
                return self.wait(until);
            }
        }
        now.max(until)
    }

    fn ask(&mut self, now: Time, (op, start, sectors): (Op, u64, u64), fua: bool) {
        let request = request(op, start, sectors as u32);
        let time = self.drive.positioning().map_or(Span::ZERO, |p| p.positioning_time(now, &request));
        self.digest.write_u64(time.as_nanos());
        let Some(tag) = self.free.pop() else { return };
        let (start, sectors) = (Sector(start), Sectors(sectors as u32));
        self.drive.submit(now, Command { tag, op, start, sectors, fua });
        self.collect(now);
    }
}

fn answers(p: &RotatingParameters, workload: &Workload, seed: u64, requests: u32) -> Answers {
    let mut drive = Rotating::new(p.clone()).expect("parameters of a drive");
    let (capacity, depth) = (drive.capacity().0, drive.depth());
    let mut dice = Dice::new(seed);
    let free = (0..depth).rev().map(Tag).collect();
    let mut host = Host { drive: &mut drive, digest: FnvHasher::default(), free, done: 0, last: Time::ZERO };
    let (mut now, mut ends) = (Time::ZERO, Vec::new());
    for _ in 0..requests {
        let pause = dice.below(1 + workload.gap_ms * 1_000_000 / u64::from(depth));
        let pause = if dice.percent(30) { 0 } else { pause };
        now = host.wait(now + Span::from_nanos(pause));
        let asked = workload.request(&mut dice, capacity, &ends);
        ends.push(asked.1 + asked.2);
        if ends.len() > 6 {
            ends.swap_remove(0);
        }
        host.ask(now, asked, dice.percent(5));
    }
    while let Some(next) = host.drive.next_event() {
        assert!(next < now + HOUR, "no command completes within an hour: {:?}", host.drive);
        host.collect(next);
    }
    Answers { digest: host.digest.finish(), done: host.done, last: host.last }
}

/// One drive at each depth, with and without its buffer, under each workload.
fn lines(name: &str, p: &RotatingParameters, text: &mut String) {
    for (variant, depth, buffer) in
        [("1", 1, true), ("16", 16, true), ("1-off", 1, false), ("16-off", 16, false)]
    {
        let mut p = p.clone();
        p.queue.depth = depth;
        if depth > 1 {
            p.queue.order = QueueOrder::PositioningTime { ageing: 0.0 };
        }
        if !buffer {
            p.buffer.caching = dwell_disks::parameters::Caching::None;
            p.buffer.read_ahead = dwell_disks::parameters::ReadAhead::None;
            p.buffer.fast_write = dwell_disks::parameters::FastWrite::None;
        }
        for workload in &WORKLOADS {
            let a = answers(&p, workload, 2003, 400);
            line(text, name, variant, workload.name, &a);
        }
    }
}

fn line(text: &mut String, drive: &str, variant: &str, workload: &str, a: &Answers) {
    let Answers { digest, done, last } = a;
    let ns = last.as_nanos();
    let _ = writeln!(text, "{drive:<28} {variant:<7} {workload:<8} {done:>5} {ns:>14} {digest:016x}");
}

/// Compares a text with the golden file of that name.
fn hold(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    if std::env::var_os("DWELL_BLESS").is_some() {
        std::fs::write(&path, text).expect("the golden text");
    }
    let golden = std::fs::read_to_string(&path).expect("the golden text");
    let differs: Vec<_> = text.lines().zip(golden.lines()).filter(|(a, b)| a != b).collect();
    assert!(differs.is_empty(), "{} lines differ from {file}, first: {:#?}", differs.len(), differs[0]);
    assert_eq!(text.lines().count(), golden.lines().count(), "{file} has a different number of lines");
}

#[test]
fn built_in_drives() {
    let mut text = String::new();
    for name in BUILT_IN {
        let described = catalogue::describe(name, &mut |_| Err(io::ErrorKind::NotFound.into())).unwrap();
        let DriveParameters::Rotating(p) = described.parameters else { panic!("{name} rotates") };
        lines(name, &p, &mut text);
    }
    hold("built_in.txt", &text);
}

#[test]
fn measured_drives() {
    let mut text = String::new();
    for name in MEASURED {
        for (suffix, fidelity) in [("", Fidelity::Drive), (" as DiskSim", Fidelity::DiskSim)] {
            lines(&format!("{name}{suffix}"), &parameters(name, fidelity), &mut text);
        }
    }
    hold("measured.txt", &text);
}

#[test]
fn drives_with_random_parameters() {
    let mut text = String::new();
    for seed in 0..DRAWN {
        let p = random_drive(&mut Dice::new(seed));
        for workload in &WORKLOADS {
            let a = answers(&p, workload, seed, 250);
            line(&mut text, &format!("drawn {seed}"), &p.queue.depth.to_string(), workload.name, &a);
        }
    }
    hold("drawn.txt", &text);
}

/// With the parameters of these drives, an earlier version lost sectors when a read took over an access: the head had kept them for the
/// previous task. `DWELL_DRAWN=N` runs every random drive up to the Nth.
#[test]
fn drives_that_once_stalled_complete_all_commands() {
    let more = std::env::var("DWELL_DRAWN").ok().and_then(|text| text.parse().ok());
    for seed in [861, 1764, 1930].into_iter().chain(DRAWN..more.unwrap_or(DRAWN)) {
        let p = random_drive(&mut Dice::new(seed));
        for workload in &WORKLOADS {
            let a = answers(&p, workload, seed, 250);
            assert_eq!(a.done, 250, "drawn {seed}, {}", workload.name);
        }
    }
}
