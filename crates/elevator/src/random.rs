//! Pseudo-random numbers for simulations and tests. Schedulers use none.

/// SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014). The sequence of a seed is
/// the same on every machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator whose sequence depends on `seed` alone.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The seed of a generator that continues this one's sequence, for storing it.
    #[must_use]
    pub const fn state(&self) -> u64 {
        self.state
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A random bit.
    pub const fn coin(&mut self) -> bool {
        self.next() >> 63 == 1
    }

    /// A number from 0 up to, but not including, 1.
    pub const fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `n`; 0 if `n` is 0. The bias is below `n / 2^64`.
    pub const fn below(&mut self, n: u64) -> u64 {
        ((self.next() as u128 * n as u128) >> 64) as u64
    }

    /// `true` with probability 1/`n`.
    pub const fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of seed 1234567, as published with the reference implementation.
    #[test]
    fn the_sequence_is_splitmix64() {
        let mut random = Random::new(1_234_567);
        let found = [(); 3].map(|()| random.next());
        assert_eq!(found, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_every_value() {
        let mut random = Random::new(3);
        let mut seen = [0; 5];
        (0..1_000).for_each(|_| seen[random.below(5) as usize] += 1);
        assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
