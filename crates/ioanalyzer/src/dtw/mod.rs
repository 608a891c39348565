//! Dynamic time warping: the distance between two series of sector jumps.

pub mod band;
pub mod fast;
mod lanes;
pub mod nearest;
pub mod oracle;
mod rows;

pub use lanes::{LANES, Lanes};

/// The smaller of two numbers that are never NaN. One instruction; `f64::min` needs three.
#[inline(always)]
const fn cheaper(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}
