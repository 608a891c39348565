//! Short measurements of a device's service times, for advice and defaults on the spot: seconds instead of the minutes of a profile.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use disks::{Drive, curve};
use elevator::{SECTOR_BYTES, Span};
use serde::Serialize;

use super::drive::Real;
use super::throughput;
use super::{ServiceTime, medians};
use crate::error::Error;
use crate::topology::Layer;

/// Rounds over all distances, if the time is enough.
const ROUNDS: u32 = 16;
/// A sample with fewer rounds than this is no measurement.
const ROUNDS_MIN: usize = 5;
/// The duration of a sample.
const SAMPLING: Duration = Duration::from_millis(500);
/// A distance of some tracks, in sectors.
const AHEAD: u64 = (4 << 20) / SECTOR_BYTES;
/// Readers that show how many requests the device serves at once.
const READERS: u32 = 8;
/// The duration of that.
const PARALLEL: Duration = Duration::from_millis(400);
/// A single read in bytes.
const READ: u32 = 4096;
/// A head that moves costs at least this; a device that answers far reads faster gives nothing for waiting.
const FAR_MIN: Span = Span::from_millis(1);

/// A device's service times, measured in a few seconds beside its present load, and under its active scheduler.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Probe {
    /// The device's size in bytes.
    pub capacity: u64,
    /// Service time by distance.
    #[serde(flatten)]
    pub service_time: ServiceTime,
    /// How many random reads it serves in the time of one.
    pub lanes: u32,
}

impl Probe {
    /// Measures a device for at most `within` and the readers' time. Only reads it, past the page cache. `None` for a device that is too small,
    /// or if `stop` came first; no points if no read ended in this time, as on a disk that prefers the nearer requests of its load.
    ///
    /// # Errors
    /// The device cannot be read.
    pub fn measure(
        layer: &Layer,
        within: Duration,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Self>, Error> {
        let (node, begun) = (layer.node(), Instant::now());
        let is_over = || stop() || begun.elapsed() >= within;
        let mut real = Real::open(&node, &is_over)?;
        let capacity = real.capacity();
        let service_time = sketch(&mut real, &curve::some_distances(capacity.0)).0;
        real.failure()?;
        if stop() || capacity.bytes() < u64::from(READERS * READ) * 2 {
            return Ok(None);
        }
        let Some(&(_, farthest)) = service_time.points.last() else {
            return Ok(Some(Self { capacity: capacity.bytes(), service_time, lanes: 1 }));
        };
        let rate = throughput::random_reads(&node, capacity.bytes(), READERS, READ, PARALLEL, stop)?;
        let at_once = rate / f64::from(READ) * farthest as f64 / 1e9;
        let lanes = (at_once.round() as u32).clamp(1, READERS);
        Ok(Some(Self { capacity: capacity.bytes(), service_time, lanes }))
    }

    /// Service times of a device or file at three distances, from some 100 reads in half a second at most. `None` if it has too little data: holes of
    /// a file are not read.
    ///
    /// # Errors
    /// It cannot be opened or read.
    pub fn sample(path: &Path) -> Result<Option<ServiceTime>, Error> {
        let kind = match path.metadata() {
            Ok(found) => found.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(format!("reading {}", path.display()), error)),
        };
        if !kind.is_file() && !kind.is_block_device() {
            return Ok(None);
        }
        let begun = Instant::now();
        let is_over = || begun.elapsed() >= SAMPLING;
        let mut real = Real::open(path, &is_over)?;
        let found = sample_of(&mut real);
        real.failure()?;
        Ok(found)
    }
}

fn sample_of(drive: &mut dyn Drive) -> Option<ServiceTime> {
    // Part of a sparse image has data: a greater distance would often end in a hole.
    let eighth = drive.capacity().0 / 8;
    if eighth <= AHEAD {
        return None;
    }
    let (found, rounds) = sketch(drive, &[0, AHEAD, eighth]);
    Some(found).filter(|_| rounds >= ROUNDS_MIN)
}

/// Medians at these distances, and the number of values at the one with the fewest.
fn sketch(drive: &mut dyn Drive, distances: &[u64]) -> (ServiceTime, usize) {
    // Other positions each time: those of the last time are in the drive's cache.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut measurement = curve::sketch(drive, now.as_nanos() as u64, ROUNDS, distances);
    measurement.points.sort_by_key(|point| point.distance);
    let of = |distance: &u64| measurement.points.iter().filter(|point| point.distance == *distance).count();
    let rounds = distances.iter().map(of).min().unwrap_or(0);
    let transfer_per_sector = measurement.transfer_per_sector.as_nanos();
    (ServiceTime { transfer_per_sector, points: medians(&measurement.points) }, rounds)
}

impl ServiceTime {
    /// The times at the smallest and at the greatest measured distance.
    pub fn near_and_far(&self) -> Option<(Span, Span)> {
        let time = |point: Option<&(u64, u64)>| Some(Span::from_nanos(point?.1));
        time(self.points.first()).zip(time(self.points.last()))
    }

    /// Removes the points that take clearly longer than a farther one, because other requests delayed their reads; returns them. One such point would
    /// raise the curve at all greater distances.
    pub fn remove_delayed(&mut self) -> Vec<(u64, u64)> {
        let (mut least, mut delayed) = (u64::MAX, Vec::new());
        for point in std::mem::take(&mut self.points).into_iter().rev() {
            if is_clearly_longer(Span::from_nanos(point.1), Span::from_nanos(least)) {
                delayed.push(point);
            } else {
                least = least.min(point.1);
                self.points.push(point);
            }
        }
        self.points.reverse();
        delayed.reverse();
        delayed
    }

    /// Whether the reads were delayed by other requests: those in sequence took longer than those across the device.
    pub fn is_disturbed(&self) -> bool {
        self.near_and_far().is_some_and(|(near, far)| is_clearly_longer(near, far))
    }

    /// Whether a far request costs so much more than a near one that waiting for a near one can pay.
    pub fn rewards_waiting(&self) -> bool {
        self.near_and_far().is_some_and(|(near, far)| far >= FAR_MIN && far >= near * 2)
    }
}

/// Whether a nearer read was delayed: it took half as long again as a farther one, and so long that a head may have moved.
fn is_clearly_longer(near: Span, far: Span) -> bool {
    near >= FAR_MIN && near.as_nanos() / 3 > far.as_nanos() / 2
}

#[cfg(test)]
mod tests {
    use disks::{Command, Completion, Fixed};
    use elevator::{Positioning, Sector, Time};

    use super::*;

    #[test]
    fn a_head_rewards_waiting_and_flash_does_not() {
        let mut no_files = |_: &str| Err(io::Error::from(io::ErrorKind::NotFound));
        let (mut disk, _) = disks::open("wd5000aaks", &mut no_files).expect("built in");
        let found = sample_of(&mut *disk).expect("a measurement");
        let (near, far) = found.near_and_far().expect("points");
        assert!(
            found.rewards_waiting() && near < Span::from_millis(2) && far > Span::from_millis(5),
            "{found:?}"
        );
        for micros in [8, 90, 3_000] {
            // The last one is a disk behind a network: each read takes long, near or far.
            let found = sample_of(&mut Fixed::new(500 << 30, 1, Span::from_micros(micros)));
            assert!(!found.expect("a measurement").rewards_waiting(), "{micros}");
        }
    }

    #[test]
    fn reads_in_sequence_that_take_longer_than_distant_ones_were_disturbed() {
        let of = |near: u64, far: u64| {
            let points = vec![(0, near * 1_000), (1 << 30, far * 1_000)];
            ServiceTime { transfer_per_sector: 5_000, points }.is_disturbed()
        };
        assert!(of(223_000, 72_000) && of(2_000, 1_000));
        // A disk, flash, and a disk behind a network: near or far, and not exactly alike.
        assert!(!of(100, 12_000) && !of(90, 50) && !of(3_300, 3_000));
        assert!(!ServiceTime { transfer_per_sector: 0, points: Vec::new() }.is_disturbed());
    }

    /// Regression: 457 ms for 1 MiB raised the modelled time of all greater distances.
    #[test]
    fn points_that_take_longer_than_farther_ones_are_removed() {
        let ms =
            |points: &[(u64, u64)]| points.iter().map(|&(at, ms)| (at, ms * 1_000_000)).collect::<Vec<_>>();
        let left = |points: &[(u64, u64)]| {
            let mut of = ServiceTime { transfer_per_sector: 0, points: ms(points) };
            let delayed = of.remove_delayed();
            (of.points, delayed)
        };
        let (kept, delayed) = left(&[(0, 0), (2048, 457), (1 << 20, 10), (1 << 29, 22)]);
        assert_eq!((kept, delayed), (ms(&[(0, 0), (1 << 20, 10), (1 << 29, 22)]), ms(&[(2048, 457)])));
        // Rotation scatters the points of a disk; on flash no distance takes long.
        let disk = [(0, 1), (8, 9), (64, 7), (2048, 12), (1 << 20, 10), (1 << 29, 9)];
        assert_eq!(left(&disk), (ms(&disk), Vec::new()));
        let mut flash = ServiceTime { transfer_per_sector: 0, points: vec![(0, 900_000), (8, 90_000)] };
        assert_eq!((flash.remove_delayed(), flash.points.len()), (Vec::new(), 2));
    }

    /// A file that is one hole.
    struct Hole;

    impl Drive for Hole {
        fn capacity(&self) -> Sector {
            Sector(1 << 30)
        }

        fn depth(&self) -> u32 {
            1
        }

        fn submit(&mut self, _: Time, _: Command) {}

        fn next_event(&self) -> Option<Time> {
            None
        }

        fn poll(&mut self, _: Time) -> Option<Completion> {
            None
        }

        fn positioning(&self) -> Option<&dyn Positioning> {
            None
        }
    }

    #[test]
    fn a_small_device_and_holes_are_no_measurement() {
        assert_eq!(sample_of(&mut Fixed::new(1 << 20, 1, Span::from_millis(9))), None);
        assert_eq!(sample_of(&mut Hole), None);
    }
}
