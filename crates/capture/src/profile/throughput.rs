//! `f_s(r)`: throughput by request size under the active scheduler.
//!
//! "For each scheduler, s, generate random reads/writes across range of r" (Seelam and others). With one synchronous reader a scheduler has
//! no choice, so several read concurrently, all random or each sequential in a part of its own. Nothing is written.

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use elevator::Random;
use observation::throughput::{Curve, CurveClass};

use super::direct::Direct;
use crate::error::Error;

/// The load of a measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Load {
    /// Concurrent synchronous readers. Default: 4.
    pub readers: u32,
    /// Request sizes in bytes, ascending. Default: 4 KiB to 1 MiB by factors of four.
    pub sizes: Vec<u32>,
    /// Duration of each point. Default: 1 s, some hundred random reads of a hard disk.
    pub each: Duration,
}

impl Default for Load {
    fn default() -> Self {
        let sizes = [4, 16, 64, 256, 1024].map(|kib| kib << 10);
        Self { readers: 4, sizes: sizes.to_vec(), each: Duration::from_secs(1) }
    }
}

/// The curves of random and sequential reads, without the points that were not measured before a stop.
pub(super) fn measure(
    node: &Path,
    capacity: u64,
    load: &Load,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Curve>, Error> {
    let mut curves = Vec::new();
    for random in [true, false] {
        let mut points = Vec::new();
        let fits = |&&size: &&u32| u64::from(size) * 2 <= capacity / u64::from(load.readers.max(1));
        for &size in load.sizes.iter().filter(fits).take_while(|_| !stop()) {
            points.push((f64::from(size), rate(node, capacity, load, size, random, stop)?));
        }
        curves.push(Curve { kind: CurveClass { reads: Some(true), random: Some(random) }, points });
    }
    Ok(curves)
}

/// Bytes per second of so many readers at random positions.
pub(super) fn random_reads(
    node: &Path,
    capacity: u64,
    readers: u32,
    size: u32,
    each: Duration,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<f64, Error> {
    let load = Load { readers, sizes: vec![size], each };
    rate(node, capacity, &load, size, true, stop)
}

/// Bytes per second of all readers.
fn rate(
    node: &Path,
    capacity: u64,
    load: &Load,
    size: u32,
    random: bool,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<f64, Error> {
    let readers: Result<Vec<Direct>, Error> =
        (0..load.readers.max(1)).map(|_| Direct::open(node, size as usize)).collect();
    let part = capacity / u64::from(load.readers.max(1)) / u64::from(size);
    let begun = Instant::now();
    let is_over = || begun.elapsed() >= load.each || stop();
    let read: io::Result<u64> = thread::scope(|scope| {
        let threads = readers?.into_iter().zip(0..).map(|(direct, index)| {
            let seed = index ^ u64::from(size);
            let order = match random {
                true => Order::Random(Random::new(seed)),
                false => Order::Sequence(seed % part),
            };
            let places = Places { first: index * part, part, order };
            scope.spawn(move || reader(direct, places, size, &is_over))
        });
        let threads: Vec<_> = threads.collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(broken())));
        Ok::<_, Error>(joined.sum())
    })?;
    let read = read.map_err(|error| Error::io(format!("reading {}", node.display()), error))?;
    Ok(read as f64 / begun.elapsed().as_secs_f64())
}

fn broken() -> io::Error {
    io::Error::other("a reader panicked")
}

fn reader(mut direct: Direct, mut places: Places, size: u32, is_over: &dyn Fn() -> bool) -> io::Result<u64> {
    let mut read = 0;
    // At least one request: a period without a completion is no throughput of zero.
    loop {
        direct.read(places.next() * u64::from(size), size as usize)?;
        read += u64::from(size);
        if is_over() {
            return Ok(read);
        }
    }
}

/// A reader's next position, in requests, within its part of at least one.
struct Places {
    first: u64,
    part: u64,
    order: Order,
}

enum Order {
    Random(Random),
    /// With the next position in the part.
    Sequence(u64),
}

impl Places {
    fn next(&mut self) -> u64 {
        let place = match &mut self.order {
            Order::Random(random) => random.below(self.part),
            Order::Sequence(next) => std::mem::replace(next, (*next + 1) % self.part),
        };
        self.first + place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_stay_in_their_part_in_sequence_or_at_random() {
        let mut sequence = Places { first: 100, part: 4, order: Order::Sequence(2) };
        assert_eq!([0; 4].map(|_| sequence.next()), [102, 103, 100, 101]);
        let mut random = Places { first: 100, part: 1000, order: Order::Random(Random::new(2)) };
        let drawn: Vec<u64> = (0..100).map(|_| random.next()).collect();
        assert!(drawn.iter().all(|place| (100..1100).contains(place)));
        let in_sequence = drawn.windows(2).filter(|two| two[1] == two[0] + 1).count();
        assert!(in_sequence < 5, "{in_sequence}");
    }
}
