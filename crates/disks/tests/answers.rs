//! A drive completes every command, whatever their number and the order in which it serves them.

use dwell_disks::{Command, Drive, Tag};
use elevator::Random;
use elevator::{Op, Sector, Sectors, Span, Time};

/// More than any command can take: many times a revolution and the longest seek for each of 31 other commands.
const NEVER: Span = Span::from_secs(5);

fn built_in(name: &str) -> Box<dyn Drive> {
    let mut files = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    dwell_disks::catalogue::open(name, &mut files).expect("a built-in drive").0
}

/// A host with a sequential stream of writes, or of reads, of random lengths, several commands at a time. Occasionally it also submits a
/// command to a distant sector and stops the stream until that command completes.
struct Host {
    drive: Box<dyn Drive>,
    op: Op,
    random: Random,
    now: Time,
    stream: u64,
    free: Vec<u32>,
    unanswered: u32,
    far: Option<u32>,
    answered: Time,
}

impl Host {
    fn submit(&mut self, start: u64, sectors: u32) -> u32 {
        self.submit_as(self.op, start, sectors)
    }

    fn submit_as(&mut self, op: Op, start: u64, sectors: u32) -> u32 {
        let tag = self.free.pop().expect("a tag");
        let (start, sectors) = (Sector(start), Sectors(sectors));
        self.drive.submit(self.now, Command { tag: Tag(tag), op, start, sectors, fua: false });
        self.unanswered += 1;
        tag
    }

    fn feed(&mut self, depth: u32) {
        while self.far.is_none() && self.unanswered < depth {
            if self.random.below(30) == 0 {
                self.submit_as(Op::Flush, 0, 0);
                continue;
            }
            if self.random.below(10) == 0 {
                let (place, other) =
                    (self.random.below(10_000), [Op::Read, Op::Write][self.random.below(2) as usize]);
                self.submit_as(other, place * 64, 16);
                continue;
            }
            let sectors = [800, 800, 800, 512, 640, 128, 40, 8, 1024][self.random.below(9) as usize];
            if self.random.below(20) == 0 {
                self.stream += 8;
            }
            self.submit(self.stream, sectors);
            self.stream += u64::from(sectors);
        }
        if self.far.is_none() && self.random.below(8) == 0 {
            let place = self.random.below(10_000);
            self.far = Some(self.submit(place * 8, 8));
        }
    }

    fn run(&mut self, depth: u32, commands: u32) -> Result<(), String> {
        let mut left = commands;
        while left > 0 {
            self.feed(depth);
            let (next, not_before) = (self.drive.next_event(), self.drive.earliest_completion());
            self.now = next.ok_or("the drive has no further event")?.max(self.now);
            while let Some(completion) = self.drive.poll(self.now) {
                if not_before.is_none_or(|not_before| completion.at < not_before) {
                    return Err(format!("{completion:?}, before the earliest completion {not_before:?}"));
                }
                self.free.push(completion.tag.0);
                self.answered = self.now;
                self.unanswered -= 1;
                self.far = self.far.filter(|&far| far != completion.tag.0);
                left = left.saturating_sub(1);
            }
            if self.now.since(self.answered) > NEVER {
                return Err(format!("{} commands without an answer", self.unanswered));
            }
        }
        Ok(())
    }
}

#[test]
fn every_built_in_drive_completes_every_command() {
    for name in ["wd5000aaks", "barracuda-7200.10", "maxtor-20gb", "ide-2003", "st31500341as"] {
        for seed in 1..=30 {
            let op = if seed <= 20 { Op::Write } else { Op::Read };
            let drive = built_in(name);
            let mut random = Random::new(seed);
            let most = u64::from(drive.depth().min(8));
            let depth = 1 + random.below(most - most / 4) as u32;
            let free = (0..drive.depth().max(depth + 1)).collect();
            let now = Time::ZERO;
            let stream = 100_000;
            let mut host =
                Host { drive, op, random, now, stream, free, unanswered: 0, far: None, answered: now };
            let answers = host.run(depth, 4_000);
            assert_eq!(answers, Ok(()), "{name}, seed {seed}, depth {depth}");
        }
    }
}

#[test]
fn earliest_completion_is_known_beforehand() {
    let mut drive = built_in("wd5000aaks");
    let command = Command { tag: Tag(0), op: Op::Read, start: Sector(0), sectors: Sectors(8), fua: false };
    drive.submit(Time::ZERO, command);
    let (next, not_before) = (drive.next_event().unwrap(), drive.earliest_completion().unwrap());
    let (bus, completion) = (Span::from_nanos(8 * 1700), Span::from_micros(30));
    assert_eq!(not_before.since(next), bus + completion, "of this drive");
}

/// A host that sleeps until the earliest completion wakes a few times for each command, not for each sector.
#[test]
fn earliest_completion_of_a_long_read_saves_wakeups() {
    let mut drive = built_in("wd5000aaks");
    let (mut now, mut ups, mut answers, mut at) = (Time::ZERO, 0, 0, 0);
    while answers < 200 {
        while at - answers < 2 {
            let (tag, start) = (Tag((at % 31) as u32), Sector(at * 256));
            drive.submit(now, Command { tag, op: Op::Read, start, sectors: Sectors(256), fua: false });
            at += 1;
        }
        now = drive.earliest_completion().unwrap().max(now);
        ups += 1;
        answers += std::iter::from_fn(|| drive.poll(now)).count() as u64;
    }
    assert!(ups < 5 * answers, "{ups} times for {answers} answers");
}

/// A host that sleeps until the earliest completion receives every completion at its time.
#[test]
fn sleeping_until_the_earliest_completion_misses_none() {
    let mut drive = built_in("wd5000aaks");
    let mut random = Random::new(7);
    let (mut now, mut answers, mut reads, mut next) = (Time::ZERO, 0, 0, 1_000_000);
    let mut free: Vec<u32> = (0..31).collect();
    let (mut flush, mut written) = (None, None);
    while answers < 3000 {
        let mut submit = |op, start, sectors| {
            let tag = Tag(free.pop().expect("a tag"));
            drive.submit(
                now,
                Command { tag, op, start: Sector(start), sectors: Sectors(sectors), fua: false },
            );
            Some(tag)
        };
        while reads < 2 {
            submit(Op::Read, next, 256);
            (reads, next) = (reads + 1, next + 256);
        }
        if flush.is_none() && written.is_none() {
            written = submit(Op::Write, 4_000_000 + random.below(100) * 8, 16);
            flush = submit(Op::Flush, 0, 0);
        }
        now = drive.earliest_completion().unwrap().max(now + Span::from_nanos(300));
        while let Some(completion) = drive.poll(now) {
            assert!(now.since(completion.at) < Span::from_micros(1), "{completion:?} at {now:?}");
            answers += 1;
            free.push(completion.tag.0);
            match Some(completion.tag) {
                tag if tag == flush => flush = None,
                tag if tag == written => written = None,
                _ => reads -= 1,
            }
        }
    }
}
