//! A measurement of a fraction of a second: whether the distance between requests matters on a device.
//!
//! The kernel's flag `rotational` is not enough: Linux sets it on virtual disks whatever is below them, and a file has none.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use elevator::{Random, SECTOR_BYTES, Span};

use super::ServiceTime;
use super::direct::Direct;
use crate::error::Error;

/// Rounds: each is a far read, the read behind it, one some tracks ahead, and a long one behind that.
const ROUNDS: usize = 12;
/// Fewer rounds than this are no measurement.
const ROUNDS_MIN: usize = 5;
/// No round starts later than this.
const LIMIT: Duration = Duration::from_millis(500);
/// A short read.
const SHORT: u64 = 4096;
/// A long read, for the time of the transfer.
const LONG: u64 = 256 << 10;
/// The distance of a read some tracks ahead.
const AHEAD: u64 = 4 << 20;
/// A head that moves costs at least this; a device that answers far reads faster gives nothing for waiting.
const FAR_MIN: Span = Span::from_millis(1);

/// The times of short reads on an otherwise idle device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Median time of a read behind the last one.
    pub near: Span,
    /// Median time of a read at a random position.
    pub far: Span,
    /// Service times by distance.
    pub service_time: ServiceTime,
}

impl Sample {
    /// Reads the device or file some 50 times at random positions, past the page cache, in about half a second at most. `None` if it
    /// has too little data: holes of a file are not read.
    ///
    /// # Errors
    /// It cannot be opened or read.
    pub fn take(path: &Path) -> Result<Option<Self>, Error> {
        let failed = |error| Error::io(format!("reading {}", path.display()), error);
        let kind = match path.metadata() {
            Ok(found) => found.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        if !kind.is_file() && !kind.is_block_device() {
            return Ok(None);
        }
        let mut device = Direct::open(path, LONG as usize)?;
        let bytes = device.bytes().map_err(failed)?;
        // Other positions each time: those of the last time are in the drive's cache.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut read = |offset: u64, bytes: u64| {
            if !device.has_data(offset)? {
                return Ok(None);
            }
            let begun = Instant::now();
            device.read(offset, bytes as usize)?;
            Ok(Some(Span::from_nanos(begun.elapsed().as_nanos() as u64)))
        };
        Self::of(bytes, now.as_nanos() as u64, &mut read).map_err(failed)
    }

    /// `read` returns the time of a read of so many bytes at an offset, `None` in a hole.
    fn of(
        bytes: u64,
        seed: u64,
        read: &mut dyn FnMut(u64, u64) -> io::Result<Option<Span>>,
    ) -> io::Result<Option<Self>> {
        let pages = bytes.saturating_sub(AHEAD + 2 * LONG) / SHORT;
        let (mut random, began, mut last) = (Random::new(seed), Instant::now(), 0);
        let (mut near, mut far, mut ahead, mut long) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..if pages == 0 { 0 } else { ROUNDS } {
            if began.elapsed() >= LIMIT {
                break;
            }
            let at = random.below(pages) * SHORT;
            let Some(time) = read(at, SHORT)? else { continue };
            far.push((at.abs_diff(last) / SECTOR_BYTES, time.as_nanos()));
            near.extend(read(at + SHORT, SHORT)?);
            ahead.extend(read(at + AHEAD, SHORT)?);
            long.extend(read(at + AHEAD + SHORT, LONG)?);
            last = at + AHEAD + SHORT + LONG;
        }
        let middle = |mut times: Vec<Span>| {
            times.sort_unstable();
            (times.len() >= ROUNDS_MIN).then(|| times[times.len() / 2])
        };
        let of_far = middle(far.iter().map(|point| Span::from_nanos(point.1)).collect());
        let (Some(near), Some(of_far)) = (middle(near), of_far) else { return Ok(None) };
        let transfer =
            middle(long).map_or(0, |time| time.saturating_sub(near).as_nanos() / (LONG / SECTOR_BYTES));
        let mut points = vec![(0, near.as_nanos())];
        points.extend(middle(ahead).map(|time| ((AHEAD - SHORT) / SECTOR_BYTES, time.as_nanos())));
        points.extend(far);
        let service_time = ServiceTime { transfer_per_sector: transfer, points };
        Ok(Some(Self { near, far: of_far, service_time }))
    }

    /// Whether a far request costs so much more than a near one that waiting for a near one can pay.
    #[must_use]
    pub fn rewards_waiting(&self) -> bool {
        self.far >= FAR_MIN && self.far >= self.near * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device on which a read takes a time by its distance from the last one.
    fn sample(bytes: u64, time: impl Fn(u64) -> Span) -> Option<Sample> {
        let mut head = 0;
        let mut read = |offset: u64, bytes: u64| {
            let time = time(offset.abs_diff(head));
            head = offset + bytes;
            Ok(Some(time))
        };
        Sample::of(bytes, 1, &mut read).unwrap()
    }

    #[test]
    fn a_head_rewards_waiting_and_flash_does_not() {
        let disk = |distance| if distance == 0 { Span::from_micros(100) } else { Span::from_millis(9) };
        let found = sample(500 << 30, disk).unwrap();
        assert!(found.rewards_waiting() && found.far == Span::from_millis(9));
        assert_eq!(found.service_time.curve().at_distance(0), Span::from_micros(100));
        assert_eq!(found.service_time.curve().at_distance(500_000_000), Span::from_millis(9));
        for micros in [8, 90, 3_000] {
            // The last one is a disk behind a network: each read takes long, near or far.
            assert!(!sample(500 << 30, |_| Span::from_micros(micros)).unwrap().rewards_waiting());
        }
    }

    #[test]
    fn a_small_device_and_holes_are_no_measurement() {
        assert_eq!(sample(1 << 20, |_| Span::from_millis(9)), None);
        assert_eq!(Sample::of(500 << 30, 1, &mut |_, _| Ok(None)).unwrap(), None);
    }
}
