//! The demerit of a model: the distance between two distributions of service times.
//!
//! The demerit of Ruemmler and Wilkes is the root mean square of the horizontal distance between two distribution curves, here at
//! 10,000 heights from 0.0001 to 1. There are two ways to draw the curves:
//! - [`disksim_ms`], as the published figures: times are whole microseconds counted in buckets, each 1% of the preceding range wide
//!   and at least 1 µs, and the curve is a straight line through a bucket;
//! - [`exact_ms`]: through the service times themselves.
//!
//! The results differ by some hundredths of a millisecond in either direction (a bucket at 15 ms is 150 µs wide). Compare figures
//! only if they were computed in the same way.
//!
//! *Sources.* Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer, 1994; DiskSim 4.0's
//! `rms` and the distributions "Physical access time" and "Trace access time" of its validations.

use elevator::Span;

const HEIGHTS: u32 = 10_000;
/// DiskSim's buckets. The last begins at 2,049 s and includes all longer times.
const BUCKETS: usize = 1750;

/// The demerit as DiskSim computes it, in ms; `None` if a sample is empty.
#[must_use]
pub fn disksim_ms(measured: &[Span], modelled: &[Span]) -> Option<f64> {
    let bounds = bounds();
    let (a, b) = (Buckets::new(measured, &bounds)?, Buckets::new(modelled, &bounds)?);
    Some(root_mean_square(|height| a.time(height) - b.time(height)))
}

/// The demerit between curves through the service times themselves, in ms; `None` if a sample is empty.
#[must_use]
pub fn exact_ms(measured: &[Span], modelled: &[Span]) -> Option<f64> {
    if measured.is_empty() || modelled.is_empty() {
        return None;
    }
    let (a, b) = (sorted_ms(measured), sorted_ms(modelled));
    Some(root_mean_square(|height| quantile(&a, height) - quantile(&b, height)))
}

fn root_mean_square(distance: impl Fn(f64) -> f64) -> f64 {
    let square = |i: u32| distance(f64::from(i) / f64::from(HEIGHTS)).powi(2);
    ((1..=HEIGHTS).map(square).sum::<f64>() / f64::from(HEIGHTS)).sqrt()
}

/// The lower bounds of the buckets, in µs.
fn bounds() -> Vec<u64> {
    core::iter::successors(Some(0), |&bound: &u64| Some(bound + 1 + bound / 100)).take(BUCKETS).collect()
}

/// A distribution curve that is linear between the bounds.
struct Buckets<'a> {
    bounds: &'a [u64],
    /// The share of the sample below each bound.
    before: Vec<f64>,
}

impl<'a> Buckets<'a> {
    fn new(times: &[Span], bounds: &'a [u64]) -> Option<Self> {
        let mut micros: Vec<u64> = times.iter().map(|time| time.as_nanos() / 1000).collect();
        micros.sort_unstable();
        let part = |&bound: &u64| micros.partition_point(|&us| us < bound) as f64 / micros.len() as f64;
        (!micros.is_empty()).then(|| Self { bounds, before: bounds.iter().map(part).collect() })
    }

    /// The time in ms at which the curve reaches a height from 0 to 1.
    fn time(&self, height: f64) -> f64 {
        let end = self.before.partition_point(|&part| part < height).clamp(1, self.bounds.len() - 1);
        let (low, high) = (self.before[end - 1], self.before[end]);
        let (from, to) = (self.bounds[end - 1] as f64, self.bounds[end] as f64);
        let within = if high > low { (height - low) / (high - low) } else { 1.0 };
        (from + within * (to - from)) / 1000.0
    }
}

fn sorted_ms(times: &[Span]) -> Vec<f64> {
    let mut ms: Vec<f64> = times.iter().map(|t| t.as_millis_f64()).collect();
    ms.sort_unstable_by(f64::total_cmp);
    ms
}

/// The quantile of sorted times, linear between them.
fn quantile(sorted: &[f64], height: f64) -> f64 {
    let rank = (height * sorted.len() as f64 - 1.0).max(0.0);
    let low = (rank as usize).min(sorted.len() - 1);
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (rank - low as f64) * (sorted[high] - sorted[low])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(list: &[u64]) -> Vec<Span> {
        list.iter().map(|&n| Span::from_millis(n)).collect()
    }

    #[test]
    fn the_horizontal_distance() {
        assert_eq!(exact_ms(&ms(&[1, 2, 3]), &ms(&[3, 1, 2])), Some(0.0));
        let shifted = exact_ms(&ms(&[1, 2, 3]), &ms(&[4, 5, 3])).unwrap();
        assert!((shifted - 2.0).abs() < 1e-9);
        assert_eq!(exact_ms(&ms(&[]), &ms(&[1])), None);
    }

    #[test]
    fn agrees_with_disksim_to_the_width_of_a_bucket() {
        assert_eq!(disksim_ms(&ms(&[10, 20]), &ms(&[20, 10])), Some(0.0));
        let shifted = disksim_ms(&ms(&[10, 10]), &ms(&[12, 12])).unwrap();
        assert!((shifted - 2.0).abs() < 0.12, "{shifted}");
        assert_eq!(disksim_ms(&ms(&[1]), &ms(&[])), None);
    }

    #[test]
    fn buckets_are_disksims() {
        let bounds = bounds();
        assert_eq!((&bounds[..4], bounds[BUCKETS - 1]), (&[0, 1, 2, 3][..], 2_049_165_458));
        assert_eq!(bounds.windows(2).find(|pair| pair[1] - pair[0] == 2), Some(&[100, 102][..]));
        // One time in [100, 102): the curve rises through that bucket.
        let one = Buckets::new(&[Span::from_micros(101)], &bounds).unwrap();
        assert!((one.time(0.5) - 0.101).abs() < 1e-12);
    }
}
