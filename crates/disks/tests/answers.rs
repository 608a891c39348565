//! A drive answers every command in the end, however many it has and in whatever order it takes them.

use disks::{Command, Drive, Tag};
use elevator::model::Random;
use elevator::{Op, Sector, Sectors, Span, Time};

/// Longer than any command can take: a revolution and the longest seek for each of 31 others, many times over.
const NEVER: Span = Span::from_secs(5);

fn built_in(name: &str) -> Box<dyn Drive> {
    let mut files = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    disks::catalogue::open(name, &mut files).expect("a built-in drive").0
}

/// A stream of writes in pieces of any size, a few at a time. Now and then it stops while a write far away, made beside what is
/// under way, has not been answered: a host that waits for one thing alone.
struct Host {
    drive: Box<dyn Drive>,
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
        let tag = self.free.pop().expect("a tag");
        let (start, sectors) = (Sector(start), Sectors(sectors));
        self.drive.submit(self.now, Command { tag: Tag(tag), op: Op::Write, start, sectors, fua: false });
        self.unanswered += 1;
        tag
    }

    fn feed(&mut self, depth: u32) {
        while self.far.is_none() && self.unanswered < depth {
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
            let (next, not_before) = (self.drive.next_event(), self.drive.answers_after());
            self.now = next.ok_or("nothing happens any more")?.max(self.now);
            while let Some(completion) = self.drive.poll(self.now) {
                if not_before.is_none_or(|not_before| completion.at < not_before) {
                    return Err(format!("{completion:?}, which was not to come before {not_before:?}"));
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
fn every_built_in_drive_answers_every_command() {
    for name in ["wd5000aaks", "barracuda-7200.10", "maxtor-20gb", "ide-2003", "st31500341as"] {
        for seed in 1..=20 {
            let drive = built_in(name);
            let mut random = Random::new(seed);
            let most = u64::from(drive.depth().min(8));
            let depth = 1 + random.below(most - most / 4) as u32;
            let free = (0..drive.depth().max(depth + 1)).collect();
            let now = Time::ZERO;
            let mut host =
                Host { drive, random, now, stream: 100_000, free, unanswered: 0, far: None, answered: now };
            let answers = host.run(depth, 4_000);
            assert_eq!(answers, Ok(()), "{name}, seed {seed}, depth {depth}");
        }
    }
}

#[test]
fn that_an_answer_takes_its_time_is_known_beforehand() {
    let mut drive = built_in("wd5000aaks");
    let command = Command { tag: Tag(0), op: Op::Read, start: Sector(0), sectors: Sectors(8), fua: false };
    drive.submit(Time::ZERO, command);
    let (next, not_before) = (drive.next_event().unwrap(), drive.answers_after().unwrap());
    assert_eq!(not_before.since(next), Span::from_micros(30), "the completion of this drive");
}
