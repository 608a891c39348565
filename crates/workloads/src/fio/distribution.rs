//! Random blocks by distribution. The functions are those of fio's manual and `lib/zipf.c`, `lib/gauss.c`.
//!
//! Logarithms and powers are computed here from the four basic operations, which IEEE 754 defines exactly, so that every machine
//! draws the same blocks; the C library's differ between platforms.

use elevator::Random;

use super::job::Distribution;

/// Draws blocks of a region.
#[derive(Clone, Debug)]
pub(super) enum Blocks {
    Uniform,
    Zipf {
        /// Exponent 1 / (1 - theta).
        alpha: f64,
        eta: f64,
        zetan: f64,
        /// Below this the second block is drawn, below 1 the first.
        second: f64,
        shift: u64,
    },
    Pareto {
        exponent: f64,
        shift: u64,
    },
    Normal {
        deviation: u64,
        shift: u64,
    },
    Zoned(Vec<(u64, u64)>),
    ZonedAbsolute(Vec<(u64, u64)>),
}

/// Terms of the sum that Zipf's law needs; the rest is an integral, whose error is far below a block's probability.
const ZETA_TERMS: u64 = 100_000;
/// Samples whose mean the normal distribution is.
const NORMAL_SAMPLES: u64 = 12;

impl Blocks {
    /// Of a region of `blocks` blocks, for reads (`way` 0) or writes.
    pub(super) fn new(distribution: &Distribution, way: usize, blocks: u64, random: &mut Random) -> Self {
        let n = blocks as f64;
        let mut shift = |center: Option<f64>| center.map_or_else(|| random.below(blocks), |c| (n * c) as u64);
        match distribution {
            Distribution::Uniform => Self::Uniform,
            &Distribution::Zipf { theta, center } => {
                let zetan = zeta(blocks, theta);
                let second = 1.0 + power(0.5, theta);
                let eta = (1.0 - power(2.0 / n, 1.0 - theta)) / (1.0 - second / zetan);
                Self::Zipf { alpha: 1.0 / (1.0 - theta), eta, zetan, second, shift: shift(center) }
            }
            &Distribution::Pareto { power, center } => {
                Self::Pareto { exponent: ln(power) / ln(1.0 - power), shift: shift(center) }
            }
            &Distribution::Normal { deviation, center } => {
                let deviation = ((n * deviation / 100.0).ceil() as u64).min(blocks / 2);
                let shift = center.map_or(0, |center| (n * (center + 0.5)) as u64);
                Self::Normal { deviation, shift }
            }
            Distribution::Zoned(zones) => Self::Zoned(zones[way].clone()),
            Distribution::ZonedAbsolute(zones) => Self::ZonedAbsolute(zones[way].clone()),
        }
    }

    /// A block, from 0 to `blocks` - 1. `align`: bytes of a block.
    pub(super) fn draw(&self, blocks: u64, align: u64, random: &mut Random) -> u64 {
        let hashed = |value: u64, shift: u64| (hash(value).wrapping_add(shift)) % blocks;
        match self {
            Self::Uniform => random.below(blocks),
            Self::Zipf { alpha, eta, zetan, second, shift } => {
                let uniform = unit(random);
                let value = match uniform * zetan {
                    z if z < 1.0 => 0,
                    z if z < *second => 1,
                    _ => (blocks as f64 * power(eta * uniform - eta + 1.0, *alpha)) as u64,
                };
                hashed(value, *shift)
            }
            Self::Pareto { exponent, shift } => {
                hashed(((blocks - 1) as f64 * power(unit(random), *exponent)) as u64, *shift)
            }
            Self::Normal { deviation, shift } => {
                let sum: u64 = (0..NORMAL_SAMPLES).map(|_| random.below(blocks + 1)).sum();
                let mean = sum.div_ceil(NORMAL_SAMPLES);
                let moved = if *deviation > 0 { mean + random.below(*deviation) } else { mean };
                hashed(moved.saturating_sub(deviation / 2).min(blocks - 1), *shift)
            }
            Self::Zoned(zones) => {
                let (from, to) = zone(zones, random);
                let (first, end) = (blocks * from / 100, blocks * to / 100);
                (first + random.below((end - first).max(1))).min(blocks - 1)
            }
            Self::ZonedAbsolute(zones) => {
                let (from, to) = zone(zones, random);
                let (first, end) = (from / align, to / align);
                (first + random.below(end.saturating_sub(first).max(1))).min(blocks - 1)
            }
        }
    }
}

/// The zone of an access: where it begins and ends.
fn zone(zones: &[(u64, u64)], random: &mut Random) -> (u64, u64) {
    let drawn = random.below(100);
    let mut shares = 0;
    let mut begin = 0;
    for &(share, end) in zones {
        shares += share;
        if drawn < shares {
            return (begin, end);
        }
        begin = end;
    }
    (0, zones.last().map_or(1, |&(_, end)| end))
}

/// Fibonacci hashing: scatters neighbours over the region.
fn hash(value: u64) -> u64 {
    value.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A number from above 0 to 1.
fn unit(random: &mut Random) -> f64 {
    (random.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64
}

/// The interval to the next event of a Poisson process, in means.
pub(super) fn poisson_interval(random: &mut Random) -> f64 {
    -ln(unit(random))
}

/// The sum of k^-theta for k from 1 to n.
fn zeta(n: u64, theta: f64) -> f64 {
    let terms = n.min(ZETA_TERMS);
    let sum: f64 = (1..=terms).map(|k| power(1.0 / k as f64, theta)).sum();
    if n == terms {
        return sum;
    }
    // By the midpoint rule, k^-theta is the integral from k - 1/2 to k + 1/2.
    let integral = |x: f64| power(x, 1.0 - theta) / (1.0 - theta);
    sum + integral(n as f64 + 0.5) - integral(terms as f64 + 0.5)
}

/// `base` to the power of `exponent`, for a base of at least 0.
fn power(base: f64, exponent: f64) -> f64 {
    if base <= 0.0 { 0.0 } else { exp(exponent * ln(base)) }
}

/// The natural logarithm of a positive, normal number: 2 atanh((m - 1) / (m + 1)) of the mantissa between 0.7 and 1.5.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let (mut exponent, mut mantissa) =
        ((bits >> 52) as i64 - 1023, f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        (exponent, mantissa) = (exponent + 1, mantissa / 2.0);
    }
    let y = (mantissa - 1.0) / (mantissa + 1.0);
    let square = y * y;
    // |y| < 0.172: the terms after 23 are below 2^-53.
    let series = (0..12).rev().fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1));
    2.0 * y * series + exponent as f64 * std::f64::consts::LN_2
}

/// e to the power of `x`, by its series on [-ln 2 / 2, ln 2 / 2].
fn exp(x: f64) -> f64 {
    let halvings = (x / std::f64::consts::LN_2).round();
    if halvings < -1000.0 {
        return 0.0;
    }
    let rest = x - halvings * std::f64::consts::LN_2;
    let series = (1..16).rev().fold(1.0, |sum, n| 1.0 + sum * rest / f64::from(n));
    series * f64::from_bits(((halvings as i64).min(1023) + 1023) as u64 * (1 << 52))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_and_powers_agree_with_the_standard_library() {
        let mut random = Random::new(5);
        for _ in 0..100_000 {
            let x = unit(&mut random) * 1000.0;
            assert!((ln(x) - x.ln()).abs() <= 1e-13 * (1.0 + x.ln().abs()), "{x}");
            let y = unit(&mut random) * 20.0 - 10.0;
            assert!((power(x, y) / x.powf(y) - 1.0).abs() < 1e-11, "{x}^{y}");
        }
    }

    #[test]
    fn the_sum_of_many_terms_is_close_to_all_of_them() {
        let n = 3 * ZETA_TERMS;
        let all: f64 = (1..=n).map(|k| (k as f64).powf(-0.9)).sum();
        assert!((zeta(n, 0.9) / all - 1.0).abs() < 1e-9);
    }
}
