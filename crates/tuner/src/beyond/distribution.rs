//! Windows that are alike in how far they jump, whatever the order of the jumps.
//!
//! # Idea
//! Two windows of random accesses never warp onto one another: each jump of the one is far from the jump of the other beside it. So
//! every window of a random workload is a miss, and the bandit, which must go on giving the others a chance, serves it for ever.
//! Sorted, the jumps of two such windows are nearly the same series. This is asked only when warping has found nothing.
//!
//! Not in the paper, which holds such windows to be patterns that do not come again.

/// The series in order of its values.
pub(crate) fn sorted(points: &[f64]) -> Vec<f64> {
    let mut sorted = points.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// How alike two sorted series of one length are: 1 are equal ones, 0 is as far apart as the greater of both is from standing
/// still. The mean distance between the values of equal rank (the earth mover's distance), over the greater mean length of a jump.
pub(crate) fn similarity(one: &[f64], other: &[f64]) -> f64 {
    let length = |series: &[f64]| series.iter().map(|point| point.abs()).sum::<f64>();
    let longer = length(one).max(length(other));
    let apart: f64 = one.iter().zip(other).map(|(a, b)| (a - b).abs()).sum();
    if longer == 0.0 { 1.0 } else { (1.0 - apart / longer).max(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn random(seed: u64, width: u64) -> Vec<f64> {
        let mut random = Random::seeded(seed);
        sorted(
            &(0..1000).map(|_| random.below(width) as f64 - random.below(width) as f64).collect::<Vec<_>>(),
        )
    }

    #[test]
    fn random_jumps_are_alike_and_shorter_ones_are_others() {
        assert!(similarity(&random(1, 1 << 20), &random(2, 1 << 20)) > 0.9);
        assert!(similarity(&random(1, 1 << 20), &random(2, 1 << 19)) < 0.6);
        let stream = vec![8.0; 1000];
        assert!(similarity(&stream, &random(1, 1 << 20)) < 0.01);
        assert!((similarity(&stream, &stream) - 1.0).abs() < 1e-12);
        assert!((similarity(&[0.0; 4], &[0.0; 4]) - 1.0).abs() < 1e-12, "nobody jumps");
    }
}
