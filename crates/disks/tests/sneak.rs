//! Data transfers over the bus while the arm works for another command.

mod common;

use common::draw::Dice;
use common::{Arrival, Fcfs, replay};
use dwell_disks::parameters::{FastWrite, Fidelity, QueueOrder, SeekCurve};
use dwell_disks::{Completion, Rotating, RotatingParameters};
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

/// A read at 100, later a distant read, and during its seek 100 again.
fn again() -> [Arrival; 3] {
    [at(0, 100, false), at(50, 50_000, false), at(51, 100, false)]
}

fn keeps(p: &mut RotatingParameters) {
    p.buffer.keep_requested = dwell_disks::parameters::KeepRequested::Keep;
}

#[test]
fn a_full_hit_is_sent_while_the_arm_works() {
    let arrivals = again();
    let waits = served(drive(keeps), &arrivals);
    assert!(waits[2].at >= waits[1].at, "without the feature it waits: {waits:?}");
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

/// As `again`, but the last read is at 110: read-ahead ended inside its range, so that only its first sectors are in the buffer.
fn partly_again() -> [Arrival; 3] {
    [at(0, 100, false), at(50, 50_000, false), at(51, 110, false)]
}

/// If read-ahead fills a whole segment, a partial hit sends the buffered sectors, disconnects, and waits for the arm for the rest.
#[test]
fn a_partial_hit_sends_its_buffered_sectors_while_the_arm_works() {
    let reads = |sneaks| {
        served(
            drive(|p| {
                keeps(p);
                p.buffer.read_ahead_max = 4;
                p.buffer.sneaky_partial_read_hits = sneaks;
            }),
            &partly_again(),
        )
    };
    let (waits, sneaks) = (reads(false), reads(true));
    assert_eq!(sneaks[1].at, waits[1].at, "the arm is not disturbed");
    assert!(sneaks[2].at <= waits[2].at && sneaks[2].at > waits[1].at, "{sneaks:?} {waits:?}");
}

/// A read arrives before its data is in the buffer. Its data is sent while the arm seeks for another read.
#[test]
fn a_hit_found_while_waiting_is_sent_while_the_arm_works() {
    // The third reads what the first reads ahead, one sector too early; the second has the arm before it.
    let arrivals = [at(0, 100, false), at(1, 50_000, false), at(1, 110, false), at(2, 90_000, false)];
    let reads = |sneaks| {
        served(
            drive(|p| {
                keeps(p);
                p.buffer.read_ahead_min = 20;
                p.buffer.read_ahead_max = 20;
                p.buffer.sneaky_intermediate_read_hits = sneaks;
            }),
            &arrivals,
        )
    };
    let (waits, sneaks) = (reads(false), reads(true));
    assert!(waits[2].at > waits[1].at, "without the feature it waits for the arm: {waits:?}");
    assert!(sneaks[2].at < sneaks[1].at, "{sneaks:?}");
    assert_eq!(sneaks[1].at, waits[1].at, "the arm is not disturbed");
}

/// A write completes in the buffer while the arm seeks for a read: with DiskSim's fidelity if the parameter allows it, with the drive's
/// fidelity always if the drive has a write cache.
#[test]
fn a_write_is_buffered_before_its_turn() {
    let arrivals = [at(0, 50_000, false), at(1, 90_000, true)];
    let writes = |early, fidelity| {
        let change = |p: &mut RotatingParameters| {
            (p.buffer.prebuffer_writes, p.fidelity) = (early, fidelity);
        };
        served(drive(change), &arrivals)
    };
    let (waits, early) = (writes(false, Fidelity::DiskSim), writes(true, Fidelity::DiskSim));
    assert!(waits[1].at > waits[0].at, "{waits:?}");
    for early in [&early, &writes(false, Fidelity::Drive)] {
        assert!(early[1].at < Time::from_nanos(2_000_000), "{early:?}");
    }
    assert_eq!(early[0].at, waits[0].at, "the arm is not disturbed");
}

/// Every command completes exactly once.
#[test]
fn every_command_completes_once() {
    for seed in 0..400 {
        let mut dice = Dice::new(seed);
        let drive = drive(|p| {
            p.buffer.sneaky_full_read_hits = true;
            p.buffer.sneaky_partial_read_hits = seed % 2 == 0;
            p.buffer.sneaky_intermediate_read_hits = seed % 4 < 2;
            p.buffer.prebuffer_writes = seed % 3 > 0;
            p.fidelity = if seed % 7 < 4 { Fidelity::DiskSim } else { Fidelity::Drive };
            p.buffer.fast_write = [FastWrite::None, FastWrite::Sequential, FastWrite::All][seed as usize % 3];
            p.queue.order = match seed % 5 {
                0 => QueueOrder::Fcfs,
                1 => QueueOrder::PositioningTimeOrBuffer { ageing: 0.01 },
                _ => QueueOrder::PositioningTime { ageing: 0.01 },
            };
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
