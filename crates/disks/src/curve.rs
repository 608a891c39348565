//! Measurement of a drive's service times by distance, as in the stream paper.
//!
//! "Requests of various distances between two adjacent ones are sent to the disk and corresponding service times are
//! collected. A smooth curve is fit through the measured [distance, time] data points" (Xu and Jiang, "A scheduling
//! framework that makes any disk schedulers non-work-conserving solely based on request characteristics", 2011).
//!
//! Each measurement reads 4 KiB at a position that was not read before, so that no old segment of the buffer answers, and after its
//! completion 4 KiB at the distance. Data read ahead meanwhile answers near requests, as in normal use. Rotation scatters single
//! points by up to a revolution; therefore each distance is measured at many positions.

use elevator::service_time::{MeasuredPoint, ServiceCurve};
use elevator::{Op, Random, Sector, Sectors, Span, Time};

use crate::drive::{Command, Drive, Tag};

/// The default seed of measurements.
pub const SEED: u64 = 2011;

/// Sectors of a measured request.
const REQUEST: u32 = 8;
/// Measurements at each distance. They determine the mean of a random rotation of 8.3 ms to 0.3 ms.
const PLACES: u64 = 64;
/// Number of sequential reads, and their length in sectors, that measure the transfer rate.
const STREAM: u64 = 16;
const STREAM_SECTORS: u32 = 512;
const STREAMS: u64 = 8;

/// The result of a measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measurement {
    /// Distance and service time, many for each distance.
    pub points: Vec<MeasuredPoint>,
    /// Time for each additional sector of a long sequential read, averaged over the drive.
    pub transfer_per_sector: Span,
}

impl Measurement {
    /// Fits a curve to the points.
    #[must_use]
    pub fn fit(&self) -> ServiceCurve {
        ServiceCurve::fit(&self.points, self.transfer_per_sector)
    }
}

/// Measures a drive in virtual time. The drive must be unused, and cannot be used afterwards. `seed` selects the positions.
///
/// A drive that is too small has no points.
#[must_use]
pub fn measure(drive: &mut dyn Drive, seed: u64) -> Measurement {
    let capacity = drive.capacity().0;
    let mut probe = Probe { drive, now: Time::ZERO, random: Random::new(seed) };
    let mut points = Vec::new();
    for distance in distances(capacity) {
        let times = (0..PLACES).filter_map(|_| probe.at_distance(distance));
        points.extend(times.map(|time| MeasuredPoint { distance, time }));
    }
    let streamed: Vec<Span> = (0..STREAMS).filter_map(|_| probe.stream()).collect();
    let sectors = streamed.len() as u64 * (STREAM - 1) * u64::from(STREAM_SECTORS);
    let transfer_per_sector = streamed.into_iter().sum::<Span>() / sectors.max(1);
    Measurement { points, transfer_per_sector }
}

/// A short measurement: at these distances in sectors, once in each of at most so many rounds, so that a drive that completes nothing more
/// (its host ran out of time) has points at all distances. A drive that is too small has no points.
#[must_use]
pub fn sketch(drive: &mut dyn Drive, seed: u64, rounds: u32, distances: &[u64]) -> Measurement {
    let mut probe = Probe { drive, now: Time::ZERO, random: Random::new(seed) };
    let streamed = probe.stream();
    let sectors = (STREAM - 1) * u64::from(STREAM_SECTORS);
    let transfer_per_sector = streamed.unwrap_or(Span::ZERO) / sectors;
    let mut points = Vec::new();
    for _ in 0..rounds {
        let times = distances.iter().filter_map(|&distance| {
            let time = probe.at_distance(distance)?;
            Some(MeasuredPoint { distance, time })
        });
        points.extend(times);
    }
    Measurement { points, transfer_per_sector }
}

/// A third of the measured distances, the nearest and the farthest among them.
#[must_use]
pub fn some_distances(capacity: u64) -> Vec<u64> {
    let all: Vec<u64> = distances(capacity).collect();
    let is_chosen = |index: usize| index.is_multiple_of(3) || index + 1 == all.len();
    all.iter().enumerate().filter(|(index, _)| is_chosen(*index)).map(|(_, distance)| *distance).collect()
}

/// Distances in sectors: 0, then doubling from one request to almost the whole drive.
fn distances(capacity: u64) -> impl Iterator<Item = u64> {
    let last = capacity.saturating_sub(4 * u64::from(REQUEST)) / 16 * 15;
    let doubling = std::iter::successors(Some(u64::from(REQUEST)), |d| d.checked_mul(2));
    let doubling = doubling.take_while(move |&d| d < last);
    // Doubling leaves a gap beyond a quarter of the drive, where seeks are longest.
    let thirds = [last / 3, last / 3 * 2, last].into_iter().filter(|&d| d > 0);
    std::iter::once(0).chain(doubling).chain(thirds)
}

struct Probe<'a> {
    drive: &'a mut dyn Drive,
    now: Time,
    random: Random,
}

impl Probe<'_> {
    /// Service time of a read at `distance` from the end of a read at a random position.
    fn at_distance(&mut self, distance: u64) -> Option<Span> {
        let (request, capacity) = (u64::from(REQUEST), self.drive.capacity().0);
        let places = capacity.checked_sub(2 * request + distance)? / request;
        let first = self.place(places + 1) * request;
        self.read(first, REQUEST)?;
        self.read(first + request + distance, REQUEST)
    }

    /// Time of sequential reads from a random position, without the first.
    fn stream(&mut self) -> Option<Span> {
        let length = STREAM * u64::from(STREAM_SECTORS);
        let places = self.drive.capacity().0.checked_sub(length)? / u64::from(STREAM_SECTORS);
        let first = self.place(places + 1) * u64::from(STREAM_SECTORS);
        self.read(first, STREAM_SECTORS)?;
        (1..STREAM).map(|i| self.read(first + i * u64::from(STREAM_SECTORS), STREAM_SECTORS)).sum()
    }

    fn read(&mut self, start: u64, sectors: u32) -> Option<Span> {
        let begun = self.now;
        let (start, sectors) = (Sector(start), Sectors(sectors));
        self.drive.submit(begun, Command { tag: Tag(0), op: Op::Read, start, sectors, fua: false });
        loop {
            self.now = self.now.max(self.drive.next_event()?);
            if let Some(done) = self.drive.poll(self.now) {
                return Some(done.at.since(begun));
            }
        }
    }

    /// A place below `n`. The curves of the built-in drives were measured at places that are drawn by remainder.
    fn place(&mut self, n: u64) -> u64 {
        self.random.next() % n.max(1)
    }
}
