//! What a drive says of positioning times bounds what it answers.

mod common;

use common::draw::{Dice, random_drive};
use common::{parameters, request, shared};
use disks::parameters::Fidelity;
use disks::{Command, Drive, Rotating, RotatingParameters, Tag};
use elevator::{Op, Positioning, Sector, Sectors, Span, Time};

/// Asks about requests anywhere while the drive does something else.
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
    for place in [sector, sector.saturating_sub(1), sector + 1, other] {
        let up = drive.least_at_or_above(now, Sector(place));
        let down = drive.least_at_or_below(now, Sector(place));
        assert!(place > sector || time >= up, "{op:?} of {sector} takes {time:?}, from {place} on {up:?}");
        assert!(place < sector || time >= down, "{op:?} of {sector} takes {time:?}, up to {place} {down:?}");
    }
}

/// With slips, spares, moved sectors, odd seek curves and negative settling times.
#[test]
fn nothing_beyond_a_place_takes_less_than_the_least_on_random_drives() {
    for seed in 0..300 {
        check(random_drive(&mut Dice::new(seed)), seed);
    }
}

#[test]
fn nothing_beyond_a_place_takes_less_than_the_least_on_measured_drives() {
    for specs in ["atlas10k", "cheetah9LP", "hp_c2247a"] {
        let Some(path) = shared(&format!("{specs}.diskspecs")) else { continue };
        check(parameters(&path, Fidelity::Drive), 7);
    }
}
