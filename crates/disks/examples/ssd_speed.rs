//! How fast the model of a solid-state drive is: random reads of 4 KiB, 32 at a time, then random writes.

use std::time::Instant;

use disks::{Command, Drive, Ssd, SsdParameters, Tag};
use elevator::{Op, Sector, Sectors, Time};

fn main() {
    let begun = Instant::now();
    let mut drive = Ssd::new(&SsdParameters::default()).expect("the default drive is sound");
    println!("start: {:.1} ms", begun.elapsed().as_secs_f64() * 1e3);
    for op in [Op::Read, Op::Write] {
        let begun = Instant::now();
        let (count, virtual_time) = (2_000_000, run(&mut drive, op, 2_000_000));
        let rate = f64::from(count) / begun.elapsed().as_secs_f64();
        println!("{op}: {rate:.0} simulated a second; {:.0} IOPS", f64::from(count) / virtual_time);
    }
}

fn run(drive: &mut Ssd, op: Op, count: u32) -> f64 {
    let pages = drive.capacity().0 / 8;
    let mut place = 1_u64;
    let mut next = |tag| {
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Command { tag, op, start: Sector((place >> 20) % pages * 8), sectors: Sectors(8), fua: false }
    };
    let start = Time::from_nanos(1 << 50)
        + drive.next_event().map_or(elevator::Span::ZERO, |at| at.since(Time::ZERO));
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
        while drive.poll(at.max(now)).is_some() {}
        now = now.max(at);
    }
    now.since(start).as_secs_f64()
}
