//! Service times by distance: a monotone curve through measured points.
//!
//! This is the stream paper's `calculate_service_time(disk_pos, req_pos)`: requests at various distances are sent to the
//! disk, a smooth curve is fitted through the measured [distance, time] points, and the same distance backward costs half as
//! much again. Here the curve is piecewise linear: points are pooled until none lies below a nearer one (isotonic
//! regression), and times between them are interpolated. Integer arithmetic throughout.

use alloc::vec::Vec;
use core::hint::select_unpredictable;

use crate::sector::{Sector, Sectors};
use crate::time::Span;

/// A measured point: the time of a request at a distance, from when the device turned to it until its completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeasuredPoint {
    /// The distance from the end of the previous request to the start of this one, in sectors, in either direction.
    pub distance: u64,
    /// The time.
    pub time: Span,
}

/// A knot of the curve; beyond it, time rises by `slope` until the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Knot {
    distance: u64,
    nanos: u64,
    /// Nanoseconds per sector, times 2^32; limited to 4 s per sector.
    slope: u64,
}

impl Knot {
    /// The sectors beyond this knot after which time has risen by `nanos`, rounded up.
    fn sectors_to_rise(&self, nanos: u64) -> u64 {
        match u32::try_from(nanos) {
            _ if self.slope == 0 => u64::MAX,
            Ok(nanos) => (u64::from(nanos) << SLOPE_BITS).div_ceil(self.slope),
            Err(_) => {
                let sectors = (u128::from(nanos) << SLOPE_BITS).div_ceil(u128::from(self.slope));
                u64::try_from(sectors).unwrap_or(u64::MAX)
            }
        }
    }
}

const SLOPE_BITS: u32 = 32;

/// Service time as a function of distance; non-decreasing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceCurve {
    knots: Vec<Knot>,
    transfer_per_sector: Span,
}

impl ServiceCurve {
    /// The curve through these points, with a transfer time per sector. Without points, only the transfer takes time. The
    /// curve is flat before the first and behind the last point.
    #[must_use]
    pub fn fit(points: &[MeasuredPoint], transfer_per_sector: Span) -> Self {
        let mut points = points.to_vec();
        points.sort_unstable_by_key(|point| (point.distance, point.time));
        let pools = pooled(&points);
        Self { knots: knots(&pools), transfer_per_sector }
    }

    /// The time to move over that distance forward and begin the transfer, including the transfer of the smallest request, as
    /// measured.
    #[must_use]
    pub fn at_distance(&self, distance: u64) -> Span {
        let next = count(&self.knots, |knot| knot.distance <= distance);
        let Some(before) = next.checked_sub(1).map(|i| &self.knots[i]) else {
            return self.knots.first().map_or(Span::ZERO, |knot| Span::from_nanos(knot.nanos));
        };
        let rise = (u128::from(distance - before.distance) * u128::from(before.slope)) >> SLOPE_BITS;
        Span::from_nanos(before.nanos + rise as u64)
    }

    /// The distance from which on every request takes at least `limit`; `u64::MAX` if none does.
    #[must_use]
    pub fn distance_taking(&self, limit: Span) -> u64 {
        let limit = limit.as_nanos();
        let next = count(&self.knots, |knot| knot.nanos < limit);
        let Some(reached) = self.knots.get(next) else { return u64::MAX };
        let Some(before) = next.checked_sub(1).map(|i| &self.knots[i]) else { return 0 };
        before.distance + before.sectors_to_rise(limit - before.nanos).min(reached.distance - before.distance)
    }

    /// The time to serve a request at `to` with the head at `from` (the end of the previous request). Backward, a distance
    /// costs `backward_penalty` per cent of its cost forward.
    #[must_use]
    pub fn service_time(&self, from: Sector, to: Sector, backward_penalty: u64) -> Span {
        // Selected without a branch: the direction is unpredictable.
        let share = select_unpredictable(to < from, backward_penalty, 100);
        self.at_distance(from.distance(to)).percent(share)
    }

    /// The transfer time of a request.
    #[must_use]
    pub fn transfer(&self, sectors: Sectors) -> Span {
        self.transfer_per_sector * u64::from(sectors.0)
    }

    /// The longest time of a forward move, without transfer.
    #[must_use]
    pub fn longest(&self) -> Span {
        self.knots.last().map_or(Span::ZERO, |knot| Span::from_nanos(knot.nanos))
    }
}

/// The default drive's points: distance in sectors, time in us.
///
/// A 7200 rpm desktop drive of 500 GB, such as the stream paper's. The points are from its data sheet, not measured:
/// - from the buffer or on the same track: 0.1 ms of overhead;
/// - on the track: the sectors between pass under the head (8.3 ms for about 1000 of a track);
/// - beyond: half a revolution (4.2 ms) and a seek of 1.2 ms to the next cylinders, 8.9 ms on average (a third of the
///   stroke), 18 ms for the full stroke.
const DESKTOP_DRIVE: [(u64, u64); 9] = [
    (0, 100),
    (64, 630),
    (512, 4_350),
    (1_024, 5_500),
    (100_000, 6_100),
    (1_000_000, 6_800),
    (100_000_000, 10_000),
    (325_000_000, 13_200),
    (976_000_000, 22_300),
];

/// The default drive's media rate is about 60 MB/s: 8.3 µs a sector.
const DESKTOP_TRANSFER: Span = Span::from_nanos(8_300);

/// A 7200 rpm desktop drive of 500 GB, from its data sheet. Use a measurement or a drive's model where there is one.
impl Default for ServiceCurve {
    fn default() -> Self {
        let point = |(distance, us)| MeasuredPoint { distance, time: Span::from_micros(us) };
        Self::fit(&DESKTOP_DRIVE.map(point), DESKTOP_TRANSFER)
    }
}

/// Adjacent points with one common height, their mean.
#[derive(Clone, Copy)]
struct Pool {
    first: u64,
    last: u64,
    sum: u128,
    count: u128,
}

impl Pool {
    fn absorb(&mut self, other: &Self) {
        self.last = other.last;
        self.sum += other.sum;
        self.count += other.count;
    }

    fn mean_exceeds(&self, other: &Self) -> bool {
        self.sum * other.count > other.sum * self.count
    }
}

/// Pool adjacent violators: the non-decreasing heights with the least squared error. `points` are in order of distance.
fn pooled(points: &[MeasuredPoint]) -> Vec<Pool> {
    let mut pools: Vec<Pool> = Vec::new();
    for same_distance in points.chunk_by(|a, b| a.distance == b.distance) {
        let distance = same_distance[0].distance;
        let sum = same_distance.iter().map(|point| u128::from(point.time.as_nanos())).sum();
        let mut pool = Pool { first: distance, last: distance, sum, count: same_distance.len() as u128 };
        while let Some(mut before) = pools.pop_if(|before| before.mean_exceeds(&pool)) {
            before.absorb(&pool);
            pool = before;
        }
        pools.push(pool);
    }
    pools
}

/// The number of these knots, which are in order, that lie before a position. A few are counted without branches, because the
/// path of a binary search among random distances is unpredictable.
fn count(knots: &[Knot], is_before: impl Fn(&Knot) -> bool) -> usize {
    if knots.len() > 24 {
        return knots.partition_point(is_before);
    }
    knots.iter().map(|knot| usize::from(is_before(knot))).sum()
}

/// A knot at each end of every pool.
fn knots(pools: &[Pool]) -> Vec<Knot> {
    let mut knots: Vec<Knot> = Vec::new();
    for pool in pools {
        let nanos = (pool.sum / pool.count) as u64;
        knots.push(Knot { distance: pool.first, nanos, slope: 0 });
        if pool.last > pool.first {
            knots.push(Knot { distance: pool.last, nanos, slope: 0 });
        }
    }
    for i in 1..knots.len() {
        let (before, knot) = (knots[i - 1], knots[i]);
        let rise = u128::from(knot.nanos - before.nanos) << SLOPE_BITS;
        let slope = rise / u128::from(knot.distance - before.distance);
        knots[i - 1].slope = u64::try_from(slope).unwrap_or(u64::MAX);
    }
    knots
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up measurement, the same in every run.
    fn measurement(seed: u64) -> Vec<MeasuredPoint> {
        let mut state = seed;
        let mut random = move |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let count = 1 + random(40);
        (0..count)
            .map(|_| {
                let distance = random(60) * random(50_000);
                let time = Span::from_nanos(100_000 + distance * 3 + random(200_000));
                MeasuredPoint { distance, time }
            })
            .collect()
    }

    /// Isotonic regression by its min-max formula: at each point the greatest over all stretches that end here or later
    /// begun here or earlier: `max over a ≤ i of min over b ≥ i of mean(a..=b)`. Quadratic, and plainly monotone.
    fn oracle(points: &[(u64, f64, f64)], i: usize) -> f64 {
        let mean = |a: usize, b: usize| {
            let (sum, weight) = points[a..=b].iter().fold((0.0, 0.0), |(s, w), p| (s + p.1 * p.2, w + p.2));
            sum / weight
        };
        (0..=i)
            .map(|a| (i..points.len()).map(|b| mean(a, b)).fold(f64::INFINITY, f64::min))
            .fold(0.0, f64::max)
    }

    /// One point per distance: the mean and the number of samples.
    fn by_distance(points: &[MeasuredPoint]) -> Vec<(u64, f64, f64)> {
        let mut distances: Vec<u64> = points.iter().map(|p| p.distance).collect();
        distances.sort_unstable();
        distances.dedup();
        let at = |d: u64| points.iter().filter(move |p| p.distance == d);
        distances
            .into_iter()
            .map(|d| {
                let count = at(d).count() as f64;
                (d, at(d).map(|p| p.time.as_nanos() as f64).sum::<f64>() / count, count)
            })
            .collect()
    }

    #[test]
    fn the_fit_is_the_isotonic_regression_of_the_points() {
        for seed in 0..200 {
            let points = measurement(seed);
            let curve = ServiceCurve::fit(&points, Span::ZERO);
            let distinct = by_distance(&points);
            for (i, point) in distinct.iter().enumerate() {
                let (found, expected) = (curve.at_distance(point.0).as_nanos() as f64, oracle(&distinct, i));
                assert!(
                    (found - expected).abs() <= 2.0,
                    "seed {seed} at {}: {found}, not {expected}",
                    point.0
                );
            }
        }
    }

    #[test]
    fn the_curve_never_falls_and_is_linear_between_knots() {
        for seed in 0..50 {
            let points = measurement(seed);
            let curve = ServiceCurve::fit(&points, Span::ZERO);
            let mut last = Span::ZERO;
            for distance in (0..3_100_000).step_by(1_237) {
                let time = curve.at_distance(distance);
                assert!(time >= last);
                last = time;
            }
            for pair in curve.knots.windows(2) {
                let middle = (pair[0].distance + pair[1].distance) / 2;
                let share = (middle - pair[0].distance) as f64 / (pair[1].distance - pair[0].distance) as f64;
                let expected = pair[0].nanos as f64 + share * (pair[1].nanos - pair[0].nanos) as f64;
                assert!((curve.at_distance(middle).as_nanos() as f64 - expected).abs() <= 2.0);
            }
        }
    }

    #[test]
    fn the_distance_that_takes_so_long_is_the_first_that_does() {
        for seed in 0..50 {
            let curve = ServiceCurve::fit(&measurement(seed), Span::ZERO);
            for limit in (0..12_000_000).step_by(7_919).map(Span::from_nanos) {
                match curve.distance_taking(limit) {
                    u64::MAX => assert!(curve.longest() < limit),
                    0 => assert!(curve.at_distance(0) >= limit),
                    d => assert!(
                        curve.at_distance(d) >= limit && curve.at_distance(d - 1) < limit,
                        "{seed} {d}"
                    ),
                }
            }
        }
    }

    #[test]
    fn backward_costs_more_and_behind_the_last_point_nothing_does() {
        let curve = ServiceCurve::default();
        let (low, high) = (Sector(1_000), Sector(100_001_000));
        assert_eq!(curve.service_time(low, high, 150), Span::from_millis(10));
        assert_eq!(curve.service_time(high, low, 150), Span::from_millis(15));
        assert_eq!(curve.service_time(low, low, 150), Span::from_micros(100));
        assert_eq!(curve.at_distance(u64::MAX), curve.longest());
        assert_eq!(curve.transfer(Sectors(8)), Span::from_nanos(66_400));
    }

    #[test]
    fn no_points_and_extreme_points_do_no_harm() {
        assert_eq!(ServiceCurve::fit(&[], Span::ZERO).at_distance(5), Span::ZERO);
        let far = MeasuredPoint { distance: u64::MAX, time: Span::MAX };
        let near = MeasuredPoint { distance: 0, time: Span::ZERO };
        let curve = ServiceCurve::fit(&[far, near, far], Span::MAX);
        assert_eq!(curve.at_distance(u64::MAX), Span::MAX);
        assert!(curve.distance_taking(Span::MAX) > u64::MAX - 3);
        assert_eq!(curve.transfer(Sectors(2)), Span::MAX);
    }
}
