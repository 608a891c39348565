//! How fast the model of a solid-state drive is: random reads of 4 KiB, 32 at a time, then random writes.

use std::time::Instant;

use disks::{Command, Drive, Ssd, SsdParameters, Tag};
use elevator::{Op, Sector, Sectors, Time};

fn main() {
    let begun = Instant::now();
    let mut drive = Ssd::new(&SsdParameters::default()).expect("the default drive is sound");
    println!("start: {:.1} ms", begun.elapsed().as_secs_f64() * 1e3);
    let (mut now, count) = (Time::ZERO, 2_000_000);
    for op in [Op::Read, Op::Write] {
        let (begun, start) = (Instant::now(), now);
        now = run(&mut drive, op, count, start);
        let simulated = f64::from(count) / begun.elapsed().as_secs_f64();
        let served = f64::from(count) / now.since(start).as_secs_f64();
        println!("{op}: {simulated:.0} requests simulated a second; the drive serves {served:.0}");
    }
}

fn run(drive: &mut Ssd, op: Op, count: u32, start: Time) -> Time {
    let pages = drive.capacity().0 / 8;
    let mut place = 1_u64;
    let mut next = |tag| {
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Command { tag, op, start: Sector((place >> 20) % pages * 8), sectors: Sectors(8), fua: false }
    };
    for tag in 0..32 {
        drive.submit(start, next(Tag(tag)));
    }
    let (mut left, mut now) = (count, start);
    while left > 32 {
        now = now.max(drive.next_event().expect("commands are in the drive"));
        while let Some(done) = drive.poll(now) {
            drive.submit(now, next(done.tag));
            left -= 1;
        }
    }
    while let Some(at) = drive.next_event() {
        now = now.max(at);
        while drive.poll(now).is_some() {}
    }
    now
}
