//! How many requests a second the model serves: `speed drive.diskspecs` runs a million, random and one at a time, from
//! a text trace in memory.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use disks::{Command, Drive, Rotating, Tag, disksim};
use elevator::{Op, Sector, Sectors, Time};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let specs = std::env::args().nth(1).ok_or("usage: speed drive.diskspecs")?;
    let folder = Path::new(&specs).parent().unwrap_or(Path::new(".")).to_owned();
    let name = Path::new(&specs).file_name().ok_or("no file")?.to_string_lossy().into_owned();
    let mut open = |name: &str| Ok(Box::new(File::open(folder.join(name))?) as Box<dyn Read>);
    let mut drive = Rotating::new(disksim::read(&name, &mut open)?)?;
    let trace = random_trace(1_000_000, drive.capacity().0);
    let start = Instant::now();
    let (mut now, mut served) = (Time::ZERO, 0_u64);
    for line in trace.lines() {
        let mut words = line.split(' ');
        let mut number = || words.next().and_then(|w| w.parse::<u64>().ok()).ok_or("a bad line");
        let (sector, sectors, read) = (number()?, number()? as u32, number()? & 1 == 1);
        let op = if read { Op::Read } else { Op::Write };
        drive.submit(
            now,
            Command { tag: Tag(0), op, start: Sector(sector), sectors: Sectors(sectors), fua: false },
        );
        now = loop {
            if let Some(done) = drive.poll(now) {
                break done.at;
            }
            now = drive.next_event().ok_or("the drive forgot a request")?;
        };
        served += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{served} requests in {seconds:.3} s: {:.0} a second, {:.0} ns each",
        served as f64 / seconds,
        seconds * 1e9 / served as f64
    );
    Ok(())
}

fn random_trace(requests: u32, capacity: u64) -> String {
    let (mut text, mut state) = (String::new(), 1_u64);
    for _ in 0..requests {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (sector, sectors) = ((state >> 20) % (capacity - 64) / 8 * 8, ((state >> 8) % 4 + 1) * 8);
        let _ = writeln!(text, "{sector} {sectors} {}", u8::from((state >> 40) % 3 != 0));
    }
    text
}
