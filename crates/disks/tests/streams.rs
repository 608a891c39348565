//! Sequential streams, as programs and their kernels submit them.

mod common;

use std::io::ErrorKind;

use common::draw::Dice;
use dwell_disks::{Command, Completion, Tag, open};
use elevator::{Op, Sector, Sectors, Span, Time};

/// The rate in bytes per second of several alternating streams that keep `depth` commands in the drive; a final flush ensures that all
/// writes are on the medium.
fn rate(name: &str, op: Op, depth: u32, streams: u64, sectors: u64) -> f64 {
    const TOTAL: u64 = 1 << 16;
    let (mut drive, _) = open(name, &mut |_| Err(ErrorKind::NotFound.into())).expect("a built-in drive");
    let drive = &mut *drive;
    let apart = drive.capacity().0 / 10;
    let mut free: Vec<_> = (0..depth.min(drive.depth())).map(Tag).collect();
    let (mut now, mut asked, mut answered) = (Time::ZERO, 0, 0);
    let commands = TOTAL / sectors;
    while answered < commands {
        while let Some(tag) = free.pop_if(|_| asked < commands) {
            let start = Sector(asked % streams * apart + asked / streams * sectors);
            let command = Command { tag, op, start, sectors: Sectors(sectors as u32), fua: false };
            drive.submit(now, command);
            asked += 1;
        }
        match drive.poll(now) {
            Some(completion) => {
                free.push(completion.tag);
                answered += 1;
            }
            None => now = drive.next_event().expect("a command comes to its end").max(now),
        }
    }
    let (start, none) = (Sector(0), Sectors(0));
    drive.submit(now, Command { tag: Tag(0), op: Op::Flush, start, sectors: none, fua: false });
    while drive.poll(now).is_none() {
        now = drive.next_event().expect("a flush comes to its end").max(now);
    }
    (commands * sectors * 512) as f64 / now.since(Time::ZERO).as_secs_f64()
}

const ROTATING: [&str; 5] = ["wd5000aaks", "barracuda-7200.10", "st31500341as", "maxtor-20gb", "ide-2003"];

/// The rate does not depend on the number and the length of the commands.
#[test]
fn a_stream_reaches_the_media_rate() {
    for name in ROTATING {
        let medium = rate(&format!("{name}{{queue.order=fcfs}}"), Op::Write, 1, 1, 512);
        for (depth, sectors) in [1, 4, 31].into_iter().flat_map(|d| [64, 256, 1024, 4096].map(|s| (d, s))) {
            for op in [Op::Read, Op::Write] {
                let moved = rate(name, op, depth, 1, sectors);
                assert!(
                    moved > 0.97 * medium,
                    "{name}, {op}, {depth} of {sectors}: {moved} of {medium} bytes/s"
                );
            }
        }
    }
}

/// Small reads are limited by the bus. Data read ahead for them occupies one segment, not one segment per command.
#[test]
fn a_deeper_queue_does_not_slow_small_sequential_reads() {
    for name in &ROTATING[..3] {
        for op in [Op::Read, Op::Write] {
            let (four, many) = (rate(name, op, 4, 1, 8), rate(name, op, 31, 1, 8));
            assert!(many > 0.97 * four, "{name}, {op}: {many} and {four} bytes/s");
        }
    }
}

/// Requests that use the bus early do not delay writes for which the buffer has room.
#[test]
fn a_write_stream_is_as_fast_with_prebuffering() {
    let plain = rate("wd5000aaks", Op::Write, 4, 1, 64);
    for switches in ["sneaky_intermediate_read_hits", "prebuffer_writes"] {
        for (depth, sectors) in [(4, 64), (31, 64), (31, 256)] {
            let sneaks = format!("wd5000aaks{{buffer.{switches}=true}}");
            let written = rate(&sneaks, Op::Write, depth, 1, sectors);
            assert!(written > 0.97 * plain, "{switches}, {depth} of {sectors}: {written} of {plain} bytes/s");
        }
    }
}

/// With one command at a time each write misses its position and waits a revolution; with several queued, none does.
#[test]
fn a_write_stream_without_cache_reaches_the_media_rate_when_queued() {
    for name in &ROTATING[..3] {
        let uncached = format!("{name}{{buffer.fast_write=none}}");
        let (cached, one, four) = (
            rate(name, Op::Write, 4, 1, 256),
            rate(&uncached, Op::Write, 1, 1, 256),
            rate(&uncached, Op::Write, 4, 1, 256),
        );
        assert!(four > 0.97 * cached, "{name}: {four} of {cached} bytes/s");
        assert!(one < 0.3 * cached, "{name}: {one} of {cached} bytes/s");
    }
}

#[test]
fn a_deeper_queue_does_not_shorten_runs_of_several_streams() {
    for (name, streams) in [("wd5000aaks", 2), ("wd5000aaks", 8), ("st31500341as", 2)] {
        let (one, many) = (rate(name, Op::Write, 1, streams, 64), rate(name, Op::Write, 31, streams, 64));
        assert!(many > 0.95 * one, "{name}, {streams} streams: {many} and {one} bytes/s");
    }
}

/// Random reads, one at a time, beside a stream of writes that fills the drive's queue. Returns the number of reads in ten seconds, the
/// longest read, and the rate of the writes in bytes per second.
fn read_beside_a_stream(name: &str, depth: u32) -> (u32, Span, f64) {
    const READ: Tag = Tag(0);
    const SECTORS: u32 = 256;
    let (mut drive, _) = open(name, &mut |_| Err(ErrorKind::NotFound.into())).expect("a built-in drive");
    let mut dice = Dice::new(2011);
    let mut free: Vec<_> = (1..depth.min(drive.depth())).map(Tag).collect();
    let (mut now, mut next, mut asked) = (Time::ZERO, 0, None);
    let (mut reads, mut longest) = (0, Span::ZERO);
    while now < Time::ZERO + Span::from_secs(10) {
        if asked.is_none() {
            asked = Some(now);
            let start = Sector(dice.below(drive.capacity().0 - 8));
            drive.submit(now, Command { tag: READ, op: Op::Read, start, sectors: Sectors(8), fua: false });
        }
        while let Some(tag) = free.pop() {
            let (start, sectors) = (Sector(next), Sectors(SECTORS));
            drive.submit(now, Command { tag, op: Op::Write, start, sectors, fua: false });
            next += u64::from(SECTORS);
        }
        match drive.poll(now) {
            Some(Completion { tag: READ, .. }) => {
                longest = longest.max(now.since(asked.take().expect("a read is in the drive")));
                reads += 1;
            }
            Some(completion) => free.push(completion.tag),
            None => now = drive.next_event().expect("a command comes to its end").max(now),
        }
    }
    (reads, longest, (next * 512) as f64 / 10.0)
}

/// The next write of a stream is always the nearest command, so a read is served only when its age exceeds the limit.
#[test]
fn a_read_among_a_write_stream_waits_until_its_age_limit() {
    for (name, depth) in
        [2, 4, 31].into_iter().flat_map(|depth| ROTATING[..3].iter().map(move |n| (n, depth)))
    {
        let (reads, longest, written) = read_beside_a_stream(name, depth);
        assert!(reads > 3 && longest < Span::from_secs(4), "{name}, {depth}: {reads} reads, {longest:?}");
        assert!(written > 60e6, "{name}, {depth}: {written} bytes/s");
    }
}
