//! The random generator, which the host seeds and passes in.

/// `SplitMix64` (Steele, Lea, Flood, 2014). Its state is one word, which a caller can save and restore.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator whose draws depend on `seed` alone.
    pub const fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A random bit.
    pub const fn coin(&mut self) -> bool {
        self.bits() >> 63 == 1
    }

    /// A number from 0 up to, but not including, 1.
    pub const fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number from 0 to `end - 1`; 0 if `end` is 0. The bias is below `end / 2^64`.
    pub const fn below(&mut self, end: u64) -> u64 {
        ((self.bits() as u128 * end as u128) >> 64) as u64
    }

    /// An index drawn with these weights, which need not sum to 1. If rounding leaves the draw beyond all of them, the last with a weight; 0 if none
    /// has one.
    pub fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut left = self.unit() * weights.iter().sum::<f64>();
        let mut chosen = 0;
        for (index, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            chosen = index;
            left -= weight;
            if left < 0.0 {
                break;
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence_for_seed_0() {
        let mut random = Random::seeded(0);
        assert_eq!(random.bits(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(random.bits(), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn weights_are_kept() {
        let mut random = Random::seeded(7);
        let mut drawn = [0u32; 4];
        for _ in 0..100_000 {
            drawn[random.weighted(&[0.8, 0.1, 0.0, 0.1])] += 1;
        }
        assert!((79_000..81_000).contains(&drawn[0]), "{drawn:?}");
        assert!((9_400..10_600).contains(&drawn[1]), "{drawn:?}");
        assert_eq!(drawn[2], 0);
    }
}
