//! Exact warping within a band, sixteen stored series at a time.
//!
//! # Idea
//! One series is compared with sixteen others at the same time. The others are interleaved point by point ([`Sixteen`]), so that
//! each step of the recurrence is one operation on sixteen numbers, without dependencies inside a vector.
//! Only warpings that stay within `width` points of the diagonal count (Sakoe and Chiba's band).
//!
//! # Where it differs from the source
//! The tuner's paper warps with FastDTW. A band is a different measure: a hit under one can be a miss under the other, so it
//! is an explicit option (the parameter `band`). Sums are single precision; over 1000 points the relative
//! error stays below 1e-4 (a test checks this bound), and 1.5e-6 is typical.
//!
//! # Not for
//! Series of different lengths: unreduced windows cannot be compared this way.

use super::lanes::{self, LANES, Lanes};

/// Up to sixteen series of one length, side by side.
#[derive(Clone, Default)]
pub struct Sixteen {
    points: Vec<Lanes>,
    count: usize,
}

impl Sixteen {
    /// The first sixteen of `series`. Series shorter than the longest are padded with zeros.
    pub fn of(series: &[&[f32]]) -> Self {
        let mut sixteen = Self::default();
        for one in series.iter().take(LANES) {
            sixteen.set(sixteen.count, one);
        }
        sixteen
    }

    /// Replaces the series in `lane`, or adds it if it is the next one.
    ///
    /// # Panics
    /// If lanes before it are empty, or there is no such lane.
    pub fn set(&mut self, lane: usize, series: &[f32]) {
        assert!(lane <= self.count && lane < LANES, "lane {lane} of {}", self.count);
        self.count = self.count.max(lane + 1);
        if self.points.len() < series.len() {
            self.points.resize(series.len(), Lanes::all(0.0));
        }
        for (point, &value) in self.points.iter_mut().zip(series.iter().chain(std::iter::repeat(&0.0))) {
            point.0[lane] = value;
        }
    }

    /// Number of series.
    pub const fn count(&self) -> usize {
        self.count
    }
}

/// Computes banded distances; reuses a buffer.
pub struct BandedDtw {
    width: usize,
    row: Vec<Lanes>,
}

impl BandedDtw {
    /// `width`: the maximum distance of a warping path from the diagonal, in points; 0 is the point-by-point distance.
    pub fn new(width: usize) -> Self {
        Self { width, row: Vec::new() }
    }

    /// The distances of `a` to each of `others`, cost `|a - b|`; unused lanes are infinite. All are infinite if the lengths
    /// differ or are 0.
    pub fn distances(&mut self, a: &[f32], others: &Sixteen) -> Lanes {
        if a.is_empty() || a.len() != others.points.len() {
            return Lanes::all(f32::INFINITY);
        }
        let mut distances = lanes::warp(a, &others.points, self.width, &mut self.row);
        distances.0[others.count..].fill(f32::INFINITY);
        distances
    }
}
