//! The shape of a window: its requests, regardless of their order.
//!
//! # Idea
//! With synchronous processes the scheduler decides which process submits next. Two readers alternate under one scheduler and take turns under another,
//! and the jump from each access to the next differs. The distance of an access from the *nearest* of the latest ones hardly changes: a
//! sequential reader still continues where it was. (Windowed seek distances: Ahmad, "Easy and efficient disk I/O workload characterization in
//! VMware ESX server", 2007, with a look-behind of 16.) A shape is the share of accesses in each class of distance, size and direction, so their
//! number does not matter either.

use std::collections::VecDeque;

use elevator::Op;
use serde::{Deserialize, Serialize};

use observation::{Access, Window};

/// The look-behind: more concurrent readers than this look random.
const LOOK_BEHIND: usize = 32;
/// The upper bounds of the size classes in sectors: 4 KiB, 32 KiB, 128 KiB, above.
const SIZES: [u64; 3] = [8, 64, 256];
/// The upper bounds of the distance classes in sectors: sequential, 64 KiB, 1 MiB, 32 MiB, 1 GiB, above.
const DISTANCES: [u64; 5] = [0, 128, 1 << 11, 1 << 16, 1 << 21];
/// A window belongs to a kind if their shapes have at least this part in common. With a much greater part, the phases of one load would be kinds
/// of their own, each with its own best scheduler, and none would learn the long-term effect of one scheduler.
pub(super) const ALIKE: f64 = 0.5;
const BINS: usize = 2 * (SIZES.len() + 1) * (DISTANCES.len() + 1);

/// Bound of the rounding errors in a sum of shares.
const ROUNDING: f64 = 1e-6;

/// The share of a window's accesses in each class.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Shape(Vec<f64>);

impl Shape {
    /// The shape of a window.
    pub fn of(window: &Window) -> Self {
        let mut parts = vec![0.0; BINS];
        let mut latest: VecDeque<u64> = VecDeque::with_capacity(LOOK_BEHIND);
        let each = 1.0 / window.requests().max(1) as f64;
        for access in window.placed() {
            let start = access.position.0;
            let distance = latest.iter().map(|end| end.abs_diff(start)).min();
            parts[bin(access, distance.unwrap_or(u64::MAX))] += each;
            if latest.len() == LOOK_BEHIND {
                latest.pop_front();
            }
            latest.push_back(start + u64::from(access.size.0));
        }
        Self(parts)
    }

    /// The share of accesses within 64 KiB of one of the preceding ones, 0 to 1.
    pub(crate) fn near(&self) -> f64 {
        let is_near = |bin: usize| bin % (DISTANCES.len() + 1) < 2;
        self.0.iter().enumerate().filter(|&(bin, _)| is_near(bin)).map(|(_, part)| part).sum()
    }

    /// The similarity of two shapes, 0 to 1: the share that they have in common.
    pub fn similarity(&self, other: &Self) -> f64 {
        self.0.iter().zip(&other.0).map(|(a, b)| a.min(*b)).sum()
    }

    /// Moves the shape towards another by `weight` (0 to 1) of the difference.
    pub fn blend(&mut self, other: &Self, weight: f64) {
        self.0.iter_mut().zip(&other.0).for_each(|(part, other)| *part += weight * (other - *part));
    }

    /// The classes with at least 1% of the accesses as text, with their share (0 to 1), the greatest first.
    pub fn in_words(&self) -> Vec<(f64, String)> {
        let mut parts: Vec<(f64, String)> = (0..self.0.len().min(BINS))
            .filter(|&bin| self.0[bin] >= 0.01)
            .map(|bin| (self.0[bin], class(bin)))
            .collect();
        parts.sort_by(|one, other| other.0.total_cmp(&one.0));
        parts
    }

    /// Whether a saved shape is valid: shares of 0 to 1, together at most 1.
    pub(crate) fn is_sound(&self) -> bool {
        let is_share = |part: &f64| (0.0..=1.0 + ROUNDING).contains(part);
        self.0.len() == BINS && self.0.iter().all(is_share) && self.sum() <= 1.0 + ROUNDING
    }

    /// Whether the shape has accesses. That of a window without any is like no other shape, not even itself.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_sound() && self.sum() >= 1.0 - ROUNDING
    }

    fn sum(&self) -> f64 {
        self.0.iter().sum()
    }
}

fn bin(access: &Access, distance: u64) -> usize {
    let direction = usize::from(access.op != Op::Read);
    let size = SIZES.partition_point(|&most| most < u64::from(access.size.0));
    let far = DISTANCES.partition_point(|&most| most < distance);
    (direction * (SIZES.len() + 1) + size) * (DISTANCES.len() + 1) + far
}

/// The name of a class.
fn class(bin: usize) -> String {
    const SIZE: [&str; SIZES.len() + 1] =
        ["of up to 4 KiB", "of up to 32 KiB", "of up to 128 KiB", "above 128 KiB"];
    const DISTANCE: [&str; DISTANCES.len() + 1] =
        ["sequential", "within 64 KiB", "within 1 MiB", "within 32 MiB", "within 1 GiB", "random"];
    let (rest, far) = (bin / DISTANCE.len(), bin % DISTANCE.len());
    let what = if rest < SIZE.len() { "reads" } else { "writes" };
    format!("{what} {} {}", SIZE[rest % SIZE.len()], DISTANCE[far])
}

/// Whether windows of these shapes are of one kind.
pub(crate) fn are_alike(one: &Shape, other: &Shape) -> bool {
    one.similarity(other) >= ALIKE
}

#[cfg(test)]
mod tests {
    use elevator::{Sector, Sectors, Span, Time};

    use super::*;
    use elevator::Random;

    fn shape(places: impl Iterator<Item = u64>) -> Shape {
        let access = |position| Access {
            time: Time::ZERO,
            position: Sector(position),
            op: Op::Read,
            size: Sectors(8),
        };
        let accesses = places.map(access).collect();
        Shape::of(&Window { start: Time::ZERO, length: Span::from_secs(5), accesses })
    }

    /// Four sequential readers that take turns of `turn` reads.
    fn readers(reads: u64, turn: u64) -> Shape {
        shape((0..reads).map(|n| (n / turn % 4) * 100_000_000 + (n / (4 * turn) * turn + n % turn) * 8))
    }

    #[test]
    fn order_and_number_of_reads_do_not_matter() {
        let alternating = readers(200, 1);
        assert!(alternating.similarity(&readers(200, 25)) > 0.95);
        assert!(alternating.similarity(&readers(2000, 100)) > 0.95);
    }

    #[test]
    fn different_requests_have_different_shapes() {
        let (mut one, mut other) = (Random::new(1), Random::new(2));
        let anywhere = shape((0..500).map(|_| one.below(1 << 31)));
        let elsewhere = shape((0..500).map(|_| other.below(1 << 31)));
        assert!(anywhere.similarity(&elsewhere) > 0.9);
        assert!(anywhere.similarity(&readers(500, 1)) < 0.05);
        let strides = shape((0..500).map(|n| n * 1024));
        assert!(strides.similarity(&readers(500, 1)) < 0.05 && strides.similarity(&anywhere) < 0.05);
        assert!((anywhere.similarity(&anywhere) - 1.0).abs() < 1e-9);
        let (part, words) = &strides.in_words()[0];
        assert!(*part > 0.99 && words == "reads of up to 4 KiB within 1 MiB", "{part} {words}");
    }

    #[test]
    fn shares_of_a_valid_shape_are_from_0_to_1_and_sum_to_1() {
        let valid = readers(200, 1);
        assert!(valid.is_sound() && valid.is_complete());
        let with = |bin: usize, part: f64| {
            let mut shape = valid.clone();
            shape.0[bin] = part;
            (shape.is_sound(), shape.is_complete())
        };
        for part in [f64::NAN, f64::INFINITY, -7.0, -0.1, 1.1] {
            assert_eq!(with(47, part), (false, false), "{part}");
        }
        assert_eq!(with(47, 0.5), (false, false), "more than all accesses");
        assert_eq!((Shape(vec![0.0; BINS]).is_sound(), Shape(vec![0.0; BINS]).is_complete()), (true, false));
        assert!(!Shape(vec![1.0]).is_sound());
    }

    #[test]
    fn each_class_of_direction_size_and_distance_is_a_shape_of_its_own() {
        let mut shapes = Vec::new();
        let mut classes = Vec::new();
        for op in [Op::Read, Op::Write] {
            for sectors in [8, 64, 256, 257] {
                for distance in [0, 128, 1 << 11, 1 << 16, 1 << 21, 1 << 30] {
                    let size = Sectors(sectors);
                    let access = |n: u64| Access {
                        time: Time::ZERO,
                        position: Sector(n * (u64::from(sectors) + distance)),
                        op,
                        size,
                    };
                    // Of many accesses only the first one has no neighbour.
                    let accesses = (0..1000).map(access).collect();
                    let shape =
                        Shape::of(&Window { start: Time::ZERO, length: Span::from_secs(5), accesses });
                    classes.push(shape.in_words()[0].1.clone());
                    shapes.push(shape);
                }
            }
        }
        for (n, shape) in shapes.iter().enumerate() {
            let alike = shapes.iter().filter(|other| shape.similarity(other) > 0.5).count();
            assert_eq!(alike, 1, "{}", classes[n]);
        }
        assert_eq!(classes[0], "reads of up to 4 KiB sequential");
        assert_eq!(classes[47], "writes above 128 KiB random");
        classes.sort();
        classes.dedup();
        assert_eq!(classes.len(), 48);
    }
}
