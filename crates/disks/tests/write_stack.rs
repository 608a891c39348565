//! Drives that accept writes until their write command stack or their memory is full, and reorder them.

mod common;

use std::io::ErrorKind;

use common::draw::{Dice, random_drive};
use dwell_disks::{Command, Completion, Drive, Rotating, Tag, open};
use elevator::{Op, Sector, Sectors, Span, Time};

/// The length of FFSB's writes: 34 KB.
const SECTORS: u32 = 68;

fn drive(changes: &str) -> Box<dyn Drive> {
    open(&format!("maxtor-20gb{changes}"), &mut |_| Err(ErrorKind::NotFound.into()))
        .expect("a built-in drive")
        .0
}

/// A pseudo-random position.
fn place(n: u64) -> u64 {
    n * 7_919_113 % 40_000_000
}

fn answered(drive: &mut dyn Drive, begun: Time, op: Op, start: u64, sectors: u32) -> Time {
    let (start, sectors) = (Sector(start), Sectors(sectors));
    drive.submit(begun, Command { tag: Tag(0), op, start, sectors, fua: false });
    let mut now = begun;
    while drive.poll(now).is_none() {
        now = drive.next_event().expect("a command comes to its end").max(now);
    }
    now
}

/// Number of writes that the drive completes before one has to wait for the arm.
fn taken(drive: &mut dyn Drive) -> u64 {
    let mut now = Time::ZERO;
    for n in 0.. {
        let done = answered(drive, now, Op::Write, place(n), SECTORS);
        if done.since(now) > Span::from_millis(1) {
            return n;
        }
        now = done;
    }
    unreachable!("no drive buffers all of these writes")
}

#[test]
fn writes_are_accepted_until_the_stack_is_full() {
    // The arm writes some of them meanwhile, which makes room for others.
    assert!((32..=36).contains(&taken(&mut *drive(""))));
    assert!((8..=10).contains(&taken(&mut *drive("{buffer.write_segments=8}"))));
}

#[test]
fn writes_are_accepted_until_the_memory_is_full() {
    // 3584 sectors in writes of 68; the length of one segment is left to reads.
    let stack = "buffer.segments=129, buffer.write_segments=128";
    assert!((52..=58).contains(&taken(&mut *drive(&format!("{{{stack}}}")))));
    assert!((128..=160).contains(&taken(&mut *drive(&format!("{{{stack}, buffer.memory_sectors=0}}")))));
}

#[test]
fn the_head_also_serves_writes_completed_in_the_buffer() {
    let travel = |changes: &str| {
        let (mut drive, mut now) = (drive(changes), Time::ZERO);
        for n in 1..=20 {
            now = answered(&mut *drive, now, Op::Write, place(n), SECTORS);
        }
        answered(&mut *drive, now, Op::Flush, 0, 0);
        drive.travel()
    };
    let ends = (0..20).map(|n| if n == 0 { 0 } else { place(n) + u64::from(SECTORS) });
    let ways: u64 = ends.zip(1..).map(|(end, n)| place(n).abs_diff(end)).sum();
    let in_turn = travel("{write_cache=off}");
    assert_eq!((in_turn.seeks, in_turn.sectors), (20, ways));
    let reordered = travel("");
    assert_eq!(reordered.seeks, 20);
    assert!((ways / 8..ways / 2).contains(&reordered.sectors), "{reordered:?} instead of {in_turn:?}");
}

#[test]
fn buffered_writes_are_ordered_by_positioning_time() {
    let time = |changes| {
        let mut drive = drive(changes);
        let mut now = Time::ZERO;
        for n in 0..30 {
            now = answered(&mut *drive, now, Op::Write, place(n), SECTORS);
        }
        answered(&mut *drive, now, Op::Flush, 0, 0)
    };
    let (reordered, in_turn) = (time(""), time("{queue.order=fcfs}"));
    assert!(reordered.as_nanos() * 3 < in_turn.as_nanos() * 2, "{reordered:?} and {in_turn:?}");
}

/// While a flush waits for writes that are far apart, small writes enter the buffer and occupy slots until they are on the medium.
#[test]
fn a_flush_leaves_room_for_every_command() {
    const FLUSH: Tag = Tag(31);
    let mut drive = drive("{queue.depth=4}");
    let mut now = Time::ZERO;
    for n in 0..30 {
        now = answered(&mut *drive, now, Op::Write, place(n), SECTORS);
    }
    let nowhere = (Sector(0), Sectors(0));
    drive
        .submit(now, Command { tag: FLUSH, op: Op::Flush, start: nowhere.0, sectors: nowhere.1, fua: false });
    let mut flushed = None;
    for n in 0..2000 {
        let (start, sectors) = (Sector(n), Sectors(1));
        drive.submit(now, Command { tag: Tag(0), op: Op::Write, start, sectors, fua: false });
        while let Some(next) = drive.next_event() {
            now = next.max(now);
            match drive.poll(now) {
                Some(Completion { tag: FLUSH, .. }) => flushed = Some(n),
                Some(_) => break,
                None => {}
            }
        }
    }
    assert!(flushed.is_some_and(|n| n > 400), "the flush completed after {flushed:?} writes");
}

/// A read gets room in a buffer full of writes, because data of earlier reads is dropped.
#[test]
fn reads_proceed_with_a_full_stack() {
    let mut drive = drive("");
    let mut now = Time::ZERO;
    for n in 0..200 {
        now = answered(&mut *drive, now, Op::Write, place(n), SECTORS);
        now = answered(&mut *drive, now, Op::Read, place(n + 1000), 8);
    }
    assert!(now < Time::ZERO + Span::from_secs(200 * 2 / 20), "{now:?}: 50 ms each");
}

/// Random drives whose shared memory ranges from the size of one segment to more than all segments need.
#[test]
fn drives_of_any_memory_size_complete_all_commands() {
    for seed in 0..600 {
        let mut dice = Dice::new(seed);
        let mut p = random_drive(&mut dice);
        p.queue.depth = 1;
        p.buffer.memory_sectors = p.buffer.segment_sectors * (1 + dice.below(6) as u32);
        let mut drive = Rotating::new(p).expect("parameters of a drive");
        let capacity = drive.capacity().0;
        let mut now = Time::ZERO;
        for _ in 0..120 {
            let sectors = (1 + dice.below(200)).min(capacity);
            let op = if dice.percent(70) { Op::Write } else { Op::Read };
            let start = dice.below(capacity - sectors + 1);
            let done = answered(&mut drive, now, op, start, sectors as u32);
            assert!(done < now + Span::from_secs(60), "drawn {seed}: {op} takes {:?}", done.since(now));
            now = done + Span::from_nanos(dice.below(3) * 2_000_000);
        }
        answered(&mut drive, now, Op::Flush, 0, 0);
    }
}

/// A number of segments at the limit of an 8-bit index.
#[test]
fn memory_is_shared_by_255_segments() {
    let mut drive = drive("{buffer.segments=255}");
    let written = answered(&mut *drive, Time::ZERO, Op::Write, place(1), SECTORS);
    let read = answered(&mut *drive, written, Op::Read, place(2), SECTORS);
    assert!(read > written);
}
