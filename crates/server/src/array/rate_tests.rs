//! The least rate of the array's own traffic, in virtual time: emulated drives, readers that never pause, and a scrub.

use std::sync::Arc;

use disks::array::{Arrangement, Geometry, Layout, Level};
use elevator::queue::{Options, Queue};
use elevator::{Flags, Op, Random, Sector, Sectors, Span, Time};
use schedulers::{Environment, Spec};

use super::background::Activity;
use super::{Hub, Link};
use crate::backend::{Emulated, Nature, Nothing, Payload};
use crate::device::Device;
use crate::operation::{FrontEndEvent, NewOperation};
use crate::poller::Bell;
use crate::statistics::Watch;

const MEMBERS: u32 = 5;
const UNIT: Sectors = Sectors(128);
/// Cookies from here on are rows of the scrub.
const ROWS: u64 = 1 << 32;
/// Cookies from here on are windows of readers in order.
const WINDOWS: u64 = 1 << 40;
/// Sectors of a window: two rows.
const WINDOW: u64 = 2 * (MEMBERS as u64 - 1) * UNIT.0 as u64;
/// How far readers in order are apart, in sectors of the array.
const APART: u64 = 500_000_000 / WINDOW * WINDOW;

/// What programs read beside the scrub.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Readers {
    /// So many, each 4 KiB at a random place of a random member, one after the other.
    Random(u64),
    /// So many, each a region of its own in order, two windows at a time.
    InOrder(u64),
}

/// A reader in order.
#[derive(Clone, Copy)]
struct Reader {
    /// Where the next window begins in the array.
    next: u64,
    /// The parts in flight of the window that it waits for, and of the one after that.
    parts: [u32; 2],
}

/// Five drives with their queues, readers, and a scrub with some rows in flight.
struct Machine {
    members: Vec<Device>,
    geometry: Geometry,
    readers: Vec<Reader>,
    now: Time,
    random: Random,
    /// The rows of the scrub in flight, and on how many members each is unfinished.
    rows: Vec<(u64, u32)>,
    next_row: u64,
    /// How late a part of a row may be, and the parts on their way: when they arrive, the member, and the row.
    late: Span,
    arriving: Vec<(Time, usize, u64)>,
    scrubbed: u64,
    /// Bytes that the readers have read.
    read: u64,
}

impl Machine {
    fn new(drive: &str, least: u64, readers: Readers, depth: u64, late: Span) -> Self {
        let spec = Spec::parse("array-stream(deadline){retry_slices=4, late_child=on}").unwrap();
        let environment = Environment::default();
        let coordinator = spec.build_coordinator(&environment, MEMBERS).unwrap().unwrap();
        let hub = Hub::new(coordinator, MEMBERS, Activity::new(MEMBERS, least));
        let layout = Layout::new(Arrangement::Parity(1), MEMBERS, UNIT, 0, 900_000_000).unwrap();
        hub.layout.set(layout).unwrap();
        let member = |index| {
            let (drive, _) = disks::catalogue::open(drive, &mut |_| unreachable!()).unwrap();
            let (bytes, depth) = (drive.capacity().bytes(), drive.depth());
            let store = Box::new(Nothing::new(bytes, depth));
            let backend = Emulated::new(drive, store, Nature::default()).unwrap();
            let scheduler = spec.build(&environment).unwrap();
            let queue = Queue::observed(Options { depth, ..Options::default() }, scheduler, Watch::new(None));
            let mut device = Device::new(queue, Box::new(backend));
            device.join(Link::new(hub.clone(), super::Member(index), Arc::new(Bell::new().unwrap())));
            device
        };
        let mut machine = Self {
            members: (0..MEMBERS).map(member).collect(),
            geometry: Geometry::new(Level::Raid5, MEMBERS, UNIT, Sector(900_000_000)),
            readers: Vec::new(),
            now: Time::ZERO,
            random: Random::new(36),
            rows: Vec::new(),
            next_row: 0,
            late,
            arriving: Vec::new(),
            scrubbed: 0,
            read: 0,
        };
        match readers {
            Readers::Random(count) => (0..count).for_each(|reader| machine.read(reader)),
            Readers::InOrder(count) => (0..count).for_each(|reader| {
                // The scrub begins at the first sector.
                machine.readers.push(Reader { next: APART / 2 + APART * reader, parts: [0; 2] });
                (0..2).for_each(|_| machine.read_window(reader));
            }),
        }
        (0..depth).for_each(|_| machine.scrub());
        machine
    }

    fn submit(&mut self, member: usize, cookie: u64, start: u64, sectors: Sectors) {
        let device = &mut self.members[member];
        let payload = Payload::Data(device.pool.take(sectors.bytes() as usize));
        let (start, flags) = (Sector(start), Flags::default());
        let operation = NewOperation { cookie, op: Op::Read, start, sectors, flags, process: None, payload };
        let _ = device.submit(self.now, 0, operation);
    }

    fn read(&mut self, reader: u64) {
        let member = self.random.below(u64::from(MEMBERS)) as usize;
        let start = (1 << 25) + self.random.below(1 << 26) * 8;
        self.submit(member, reader, start, Sectors(8));
    }

    /// A reader in order reads its next window.
    fn read_window(&mut self, reader: u64) {
        let Reader { next, .. } = self.readers[reader as usize];
        let number = next / WINDOW % 2;
        for unit in (next..next + WINDOW).step_by(UNIT.0 as usize) {
            let place = self.geometry.place(Sector(unit));
            self.submit(place.member as usize, WINDOWS + 2 * reader + number, place.sector.0, UNIT);
            self.readers[reader as usize].parts[number as usize] += 1;
        }
        self.readers[reader as usize].next += WINDOW;
    }

    /// A part of a window was read.
    fn part_read(&mut self, part: u64) {
        let (reader, number) = (part / 2, (part % 2) as usize);
        self.readers[reader as usize].parts[number] -= 1;
        loop {
            let Reader { next, parts } = self.readers[reader as usize];
            // The other one was issued last.
            if parts[(next / WINDOW % 2) as usize] > 0 {
                return;
            }
            self.read_window(reader);
        }
    }

    fn scrub(&mut self) {
        let row = self.next_row;
        self.next_row += 1;
        self.rows.push((row, MEMBERS));
        for member in 0..MEMBERS as usize {
            let at = self.now + Span::from_nanos(self.random.below(self.late.as_nanos() + 1));
            self.arriving.push((at, member, row));
        }
        self.arrive();
    }

    /// Parts of rows arrive at their members.
    fn arrive(&mut self) {
        while let Some(index) = self.arriving.iter().position(|(at, ..)| *at <= self.now) {
            let (_, member, row) = self.arriving.remove(index);
            self.submit(member, ROWS + row, row * u64::from(UNIT.0), UNIT);
        }
    }

    /// Runs for so long; bytes a second that the scrub read of each member meanwhile.
    fn run(&mut self, span: Span) -> u64 {
        let (begin, end) = (self.scrubbed, self.now + span);
        while self.now < end {
            self.arrive();
            self.round();
            let due = self.members.iter().flat_map(|device| <[_; 2]>::from(device.due())).flatten();
            self.now = due
                .chain(self.arriving.iter().map(|(at, ..)| *at))
                .min()
                .expect("an event")
                .max(self.now + Span::from_micros(1));
        }
        (self.scrubbed - begin) * UNIT.bytes() * 1_000_000 / (span.as_nanos() / 1000)
    }

    fn round(&mut self) {
        for member in 0..MEMBERS as usize {
            self.members[member].advance(self.now);
            while let Some(event) = self.members[member].next_event(self.now) {
                let FrontEndEvent::Answer(answer) = event else { continue };
                if let Payload::Data(buffer) = answer.payload {
                    self.members[member].pool.put(buffer);
                }
                if let Some(part) = answer.cookie.checked_sub(WINDOWS) {
                    self.read += UNIT.bytes();
                    self.part_read(part);
                    continue;
                }
                let Some(row) = answer.cookie.checked_sub(ROWS) else {
                    self.read += Sectors(8).bytes();
                    self.read(answer.cookie);
                    continue;
                };
                let index = self.rows.iter().position(|(of, _)| *of == row).expect("a row");
                self.rows[index].1 -= 1;
                if self.rows[index].1 == 0 {
                    self.rows.remove(index);
                    self.scrubbed += 1;
                    self.scrub();
                }
            }
        }
        (0..MEMBERS as usize).for_each(|member| self.members[member].advance(self.now));
    }
}

const DRIVE: &str = "wd5000aaks";
const AGED: &str = "wd5000aaks{queue.order={positioning_time={ageing=0.3}}}";

/// How a scrub runs for 20 s beside readers.
struct Course {
    /// Bytes a second that it reads of each member, and that the readers read.
    scrub: u64,
    readers: u64,
    /// Requests of the scrub that were recognised in the whole run, and all.
    recognised: u64,
    all: u64,
}

fn course(drive: &str, least: u64, readers: Readers, rows: u64) -> Course {
    late_course(drive, least, readers, rows, Span::ZERO)
}

/// The same with parts of rows that arrive late.
fn late_course(drive: &str, least: u64, readers: Readers, rows: u64, late: Span) -> Course {
    let mut machine = Machine::new(drive, least, readers, rows, late);
    // The first zones are not recognised.
    machine.run(Span::from_secs(3));
    let read = machine.read;
    let scrub = machine.run(Span::from_secs(20));
    let recognised = machine.members[0].recognised();
    Course {
        scrub,
        readers: (machine.read - read) / 20,
        recognised,
        all: machine.next_row * u64::from(MEMBERS),
    }
}

/// A read of the scrub waits behind readers in the queue and in the drive, on some members longer than on others, and the next row waits for
/// all of them. What this costs must be caught up with.
#[test]
fn the_least_rate_is_kept_beside_random_readers_that_never_pause() {
    // md has 1 MiB of each member in flight, 16 rows. With fewer, the answers to those in flight bound the rate.
    for (least, rows, percent) in [
        (1_000_000, 16, 98),
        (4_000_000, 16, 98),
        (8_000_000, 16, 98),
        (16_000_000, 16, 98),
        (8_000_000, 8, 84),
    ] {
        let Course { scrub, readers, .. } = course(DRIVE, least, Readers::Random(20), rows);
        let reads = readers / 4096;
        // Without a scrub 630.
        assert!(
            (least * percent / 100..=least * 102 / 100).contains(&scrub) && reads > 430,
            "{scrub} of {least} bytes a second, {rows} rows in flight; {reads} reads a second beside them"
        );
    }
}

/// The part of its time, in 1000, that a drive needs for turns of a scrub: the head's way there and back, half a revolution each, and the transfer.
/// The readers' places are those of four readers in order.
fn least_cost(drive: &str, least: u64, turn: Sectors) -> u64 {
    let (drive, _) = disks::catalogue::open(drive, &mut |_| unreachable!()).unwrap();
    let ideal = drive.ideal().unwrap();
    let scrub = Sector(100_000);
    let seeks = |reader| {
        let place = Sector((APART / 2 + APART * reader) / u64::from(MEMBERS - 1));
        ideal.least_seek(place, scrub) + ideal.least_seek(scrub + turn, place)
    };
    let seeks = (0..4).map(seeks).sum::<Span>() / 4;
    let revolution = Span::from_nanos(60_000_000_000 / 7200);
    let cost = seeks + revolution + ideal.sequential_transfer(scrub, turn);
    cost.as_nanos() * least / turn.bytes() / 1_000_000
}

/// The array serves one stream after the other, and a member only its requests. If the scrub waited for the end of a slice, or until it had
/// expired, it would read what it has in flight each half second: 2 MB/s. Members that interrupted a stream one after the other would break it.
/// Rows that arrive late are recognised all the same.
#[test]
fn the_least_rate_is_kept_beside_readers_in_order() {
    for drive in [DRIVE, AGED] {
        let without = course(drive, 1, Readers::InOrder(4), 0).readers;
        // The readers' share of what they read without a scrub.
        for (least, percent, share) in
            [(1_000_000, 98, 85), (4_000_000, 98, 80), (8_000_000, 98, 75), (16_000_000, 96, 50)]
        {
            let mut cost = 0;
            for late in [Span::ZERO, Span::from_millis(2)] {
                let Course { scrub, readers, recognised, all } =
                    late_course(drive, least, Readers::InOrder(4), 16, late);
                let what = format!(
                    "{scrub} of {least} bytes a second; readers {readers} of {without}; {recognised} of {all} requests \
                     recognised; {drive}, late by {late}"
                );
                println!("{what}");
                // 20 s can have one turn more.
                let most = least + (least / 2).min(4 << 20) / 20;
                assert!((least * percent / 100..=most).contains(&scrub), "{what}");
                assert!(readers > without * share / 100, "{what}");
                // Of the first zones no request is recognised.
                assert!(all - recognised < 90 + all / 50, "{what}");
                cost += (1000 - 1000 * readers.min(without) / without) / 2;
            }
            let own = Sectors::from_bytes((least / 2).min(4 << 20));
            let [least_short, least_own] = [Sectors(2048), own].map(|turn| least_cost(drive, least, turn));
            let what = format!(
                "{least}: {cost} of 1000; at least {least_short} with turns of 1 MiB, {least_own} with its own of {own}"
            );
            println!("{what}");
            assert!(least < 4_000_000 || cost * 10 <= least_short * 13, "{what}; {drive}");
        }
    }
}
