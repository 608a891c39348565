//! Service times of some reads on a modelled drive: `cargo run -p dwell-disks --example service_times [DRIVE]`.
//!
//! DRIVE is a built-in drive (default: wd5000aaks), a file, or either with overrides: `wd5000aaks{depth=1,buffer=off}`.

use std::error::Error;
use std::fs::File;
use std::io::Read;

use dwell_disks::{Command, Op, Sector, Sectors, Tag, Time};

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "wd5000aaks".to_owned());
    let mut open_file = |path: &str| Ok(Box::new(File::open(path)?) as Box<dyn Read>);
    let (mut drive, description) = dwell_disks::open(&name, &mut open_file)?;
    let capacity = drive.capacity().0;
    println!("{}: {capacity} sectors, {}", description.name(), description.summary);
    println!("{:>12}  {:>8}  {:>8}  {:>8}  {:>8}  (ms)", "sector", "seek", "rotation", "transfer", "total");
    let mut now = Time::ZERO;
    for start in [0, 8, 16, capacity / 2, capacity / 2 + 8, capacity - 8, 0] {
        let (start, sectors) = (Sector(start), Sectors(8));
        drive.submit(now, Command { tag: Tag(0), op: Op::Read, start, sectors, fua: false });
        let done = loop {
            let at = drive.next_event().ok_or("the drive never completes the command")?;
            if let Some(completion) = drive.poll(at) {
                break completion;
            }
        };
        let [seek, rotation, transfer] = [done.service.seek, done.service.rotation, done.service.transfer]
            .map(|span| span.as_millis_f64());
        let total = done.at.since(now).as_millis_f64();
        println!("{:>12}  {seek:>8.3}  {rotation:>8.3}  {transfer:>8.3}  {total:>8.3}", start.0);
        now = done.at;
    }
    Ok(())
}
