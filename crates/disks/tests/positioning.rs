//! A drive's estimates of positioning times bound its completion times.

mod common;

use common::draw::{Dice, random_drive};
use common::{parameters, request};
use dwell_disks::parameters::{FastWrite, Fidelity};
use dwell_disks::{Command, Drive, Rotating, RotatingParameters, Tag};
use elevator::{Angles, Op, Positioning, Sector, Sectors, Span, Time};

/// Compares estimates for random requests while the drive serves other requests.
fn check(p: RotatingParameters, seed: u64) {
    let mut drive = Rotating::new(p).unwrap();
    let (mut dice, mut now) = (Dice::new(seed), Time::ZERO);
    let capacity = drive.capacity().0;
    let op = |dice: &mut Dice| if dice.percent(30) { Op::Write } else { Op::Read };
    for _ in 0..100 {
        let start = Sector(dice.below(capacity));
        let command = Command { tag: Tag(0), op: op(&mut dice), start, sectors: Sectors(1), fua: false };
        drive.submit(now, command);
        for _ in 0..8 {
            let (sector, op) = (dice.below(capacity), op(&mut dice));
            check_one(&drive, now, sector, op, dice.below(capacity));
            now += Span::from_micros(dice.below(3_000));
        }
        while drive.poll(now).is_none() {
            now = drive.next_event().expect("a command is in the drive");
        }
    }
}

fn check_one(drive: &Rotating, now: Time, sector: u64, op: Op, other: u64) {
    let time = drive.positioning_time(now, &request(op, sector, 1));
    let runs = (0..).map_while(|n| drive.buffered(n));
    if runs.into_iter().any(|(first, end)| first.0 <= sector && sector < end.0) {
        return;
    }
    let angle = drive.angle(Sector(sector));
    for place in [sector, sector.saturating_sub(1), sector + 1, other] {
        for within in [time, time + Span::from_nanos(1), time + Span::from_micros(other % 10_000)] {
            let up = drive.reached_at_or_above(now, Sector(place), within);
            let down = drive.reached_at_or_below(now, Sector(place), within);
            let held = |angles: Option<Angles>| angles.is_some_and(|angles| angles.contains(angle));
            assert!(place > sector || held(up), "{op:?} of {sector} takes {time:?}, from {place} on {up:?}");
            assert!(
                place < sector || held(down),
                "{op:?} of {sector} takes {time:?}, up to {place} {down:?}"
            );
        }
    }
}

/// The random drives have slips, spares, moved sectors, unusual seek curves and negative settling times.
#[test]
fn reached_angles_contain_every_sector_of_that_time_on_random_drives() {
    for seed in 0..300 {
        check(random_drive(&mut Dice::new(seed)), seed);
    }
}

#[test]
fn reached_angles_contain_every_sector_of_that_time_on_measured_drives() {
    for drive in ["atlas_III", "cheetah9LP", "hp_c2247a"] {
        check(parameters(drive, Fidelity::Drive), 7);
    }
}

#[test]
fn reached_angles_exclude_most_sectors() {
    let mut drive = dwell_disks::open("ide-2003", &mut |_| unreachable!("built in")).unwrap().0;
    let (mut dice, mut now, mut held) = (Dice::new(1), Time::ZERO, 0);
    let capacity = drive.capacity().0;
    for _ in 0..100 {
        let start = Sector(dice.below(capacity));
        drive.submit(now, Command { tag: Tag(0), op: Op::Read, start, sectors: Sectors(8), fua: false });
        while drive.poll(now).is_none() {
            now = drive.next_event().expect("a command is in the drive");
        }
        let oracle = drive.positioning().expect("a rotating drive has positions");
        let sectors: Vec<u64> = (0..200).map(|_| dice.below(capacity)).collect();
        let times = sectors.iter().map(|&sector| oracle.positioning_time(now, &request(Op::Read, sector, 1)));
        let least = times.min().expect("there are some");
        let may_be_reached = |&&sector: &&u64| {
            let up = oracle.reached_at_or_above(now, Sector(sector), least);
            let down = oracle.reached_at_or_below(now, Sector(sector), least);
            [up, down]
                .iter()
                .all(|angles| angles.is_some_and(|angles| angles.contains(oracle.angle(Sector(sector)))))
        };
        held += sectors.iter().filter(may_be_reached).count();
    }
    assert!((100..200).contains(&held), "{held}");
}

/// A write that has to wait misses the sectors that pass meanwhile.
#[test]
fn rotational_wait_of_a_write_starts_when_it_may_start() {
    let mut p = RotatingParameters::plain("slow to write", 100, 10, 1, 6_000.0);
    p.overheads.minimum_seek_delay_ms = 2.0;
    p.buffer.fast_write = FastWrite::None;
    let mut drive = Rotating::new(p).unwrap();
    // The sector is a tenth of a revolution of 10 ms ahead.
    let estimate = drive.positioning_time(Time::ZERO, &request(Op::Write, 10, 1));
    let (start, sectors) = (Sector(10), Sectors(1));
    drive.submit(Time::ZERO, Command { tag: Tag(0), op: Op::Write, start, sectors, fua: false });
    let done = loop {
        let at = drive.next_event().expect("a command is in the drive");
        if let Some(done) = drive.poll(at) {
            break done;
        }
    };
    let took = done.service.seek + done.service.rotation;
    let near = |a: u64, b: u64| a.abs_diff(b) < 100;
    assert!(
        near(took.as_nanos(), 11_000_000) && near(estimate.as_nanos(), 11_000_000),
        "{estimate:?} {took:?}"
    );
}
