//! A short measurement of a device, for advice on the spot: seconds instead of the minutes of a profile.

use std::time::{Duration, Instant};

use disks::curve;
use serde::Serialize;

use super::drive::Real;
use super::throughput;
use super::{ServiceTime, medians};
use crate::error::Error;
use crate::topology::Layer;

/// Rounds over all distances, if the time is enough.
const ROUNDS: u32 = 16;
/// Readers that show how many requests the device serves at once.
const READERS: u32 = 8;
/// The duration of that.
const PARALLEL: Duration = Duration::from_millis(400);
/// A single read in bytes.
const READ: u32 = 4096;

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
    /// or if `stop` came first.
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
        let capacity = disks::Drive::capacity(&real).bytes();
        let measurement = curve::sketch(&mut real, curve::SEED, ROUNDS);
        real.failure()?;
        let points = medians(&measurement.points);
        if capacity < u64::from(READERS * READ) * 2 {
            return Ok(None);
        }
        let Some(&(_, farthest)) = points.last().filter(|_| !stop()) else { return Ok(None) };
        let rate = throughput::random_reads(&node, capacity, READERS, READ, PARALLEL, stop)?;
        let at_once = rate / f64::from(READ) * farthest as f64 / 1e9;
        let transfer_per_sector = measurement.transfer_per_sector.as_nanos();
        Ok(Some(Self {
            capacity,
            service_time: ServiceTime { transfer_per_sector, points },
            lanes: (at_once.round() as u32).clamp(1, READERS),
        }))
    }
}
