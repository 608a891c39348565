//! Data that crosses the bus while the arm works for another command.

mod common;

use common::draw::Dice;
use common::{Arrival, Fcfs, replay};
use disks::parameters::{FastWrite, QueueOrder, SeekCurve};
use disks::{Completion, Rotating, RotatingParameters};
use elevator::Time;

/// Two segments, a seek of 8 ms for any distance, a revolution of 6 ms, four commands at a time.
fn drive(change: impl Fn(&mut RotatingParameters)) -> Rotating {
    let mut p = RotatingParameters::plain("plain", 100, 1000, 1, 10_000.0);
    p.mechanics.seek = SeekCurve::Constant { ms: 8.0 };
    p.bus.sector_ms = 0.01;
    p.queue.depth = 4;
    p.buffer.segments = 3;
    p.buffer.write_segments = 2;
    p.buffer.read_ahead_max = 10;
    p.buffer.segment_sectors = 64;
    change(&mut p);
    Rotating::new(p).unwrap()
}

fn at(ms: u64, start: u64, write: bool) -> Arrival {
    Arrival { at: Time::from_nanos(ms * 1_000_000), start, sectors: 8, write }
}

fn served(mut drive: Rotating, arrivals: &[Arrival]) -> Vec<Completion> {
    replay(&mut drive, arrivals, &mut Fcfs)
}

/// A read of 100, later a far one, and while the arm is on its way there 100 again.
fn again() -> [Arrival; 3] {
    [at(0, 100, false), at(50, 50_000, false), at(51, 100, false)]
}

fn keeps(p: &mut RotatingParameters) {
    p.buffer.keep_requested = disks::parameters::KeepRequested::Keep;
}

#[test]
fn a_whole_hit_sneaks_past_the_arm() {
    let arrivals = again();
    let waits = served(drive(keeps), &arrivals);
    assert!(waits[2].at >= waits[1].at, "without leave it waits: {waits:?}");
    let sneaks = served(
        drive(|p| {
            keeps(p);
            p.buffer.sneaky_full_read_hits = true;
        }),
        &arrivals,
    );
    assert!(sneaks[2].at < Time::from_nanos(52_000_000), "{sneaks:?}");
    assert_eq!(sneaks[1].at, waits[1].at, "the arm is not disturbed");
}

/// Whatever comes, every command is answered once.
#[test]
fn every_command_is_answered() {
    for seed in 0..12 {
        let mut dice = Dice::new(seed);
        let drive = drive(|p| {
            p.buffer.sneaky_full_read_hits = true;
            p.buffer.fast_write = [FastWrite::None, FastWrite::Sequential, FastWrite::All][seed as usize % 3];
            p.queue.order =
                if seed % 5 == 0 { QueueOrder::Fcfs } else { QueueOrder::PositioningTime { ageing: 0.01 } };
            keeps(p);
        });
        let arrivals: Vec<Arrival> = (0..500)
            .map(|n| Arrival {
                at: Time::from_nanos(n * 4_000_000),
                start: dice.below(6) * 15_000 + dice.below(40),
                sectors: 1 + dice.below(90) as u32,
                write: dice.percent(40),
            })
            .collect();
        assert_eq!(served(drive, &arrivals).len(), arrivals.len());
    }
}
