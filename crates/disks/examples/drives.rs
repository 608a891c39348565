//! The built-in drives: size, outer and inner streaming rate, and the curve of service times by distance.

use std::time::Instant;

use disks::{catalogue, curve};
use elevator::{Sector, Sectors};

fn main() {
    for description in catalogue::built_in() {
        let begun = Instant::now();
        let mut drive = description.build().expect("built-in drives are sound");
        let built = begun.elapsed();
        let (capacity, depth) = (drive.capacity(), drive.depth());
        println!("{}: {}", description.name(), description.summary);
        println!("  {capacity} sectors, depth {depth}");
        let ideal = drive.ideal().expect("every built-in drive knows its best");
        let rate =
            |start| 512e-6 * 200_000.0 / ideal.sequential_transfer(start, Sectors(200_000)).as_secs_f64();
        println!("  {:.1} MB/s outer, {:.1} inner", rate(Sector(0)), rate(Sector(capacity.0 - 200_000)));
        let begun = Instant::now();
        let measured = curve::measure(&mut *drive, curve::SEED);
        let curve = measured.fit();
        println!(
            "  built in {built:.1?}, curve of {} points in {:.1?}",
            measured.points.len(),
            begun.elapsed()
        );
        print!("  {} a sector;", measured.transfer_per_sector);
        for distance in [0, 8, 64, 512, 4096, 32_768, 1 << 20, 1 << 24, 1 << 26, capacity.0 / 3, capacity.0] {
            print!(" {distance}: {:.2} ms,", curve.at_distance(distance).as_millis_f64());
        }
        println!();
    }
}
