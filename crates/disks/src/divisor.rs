//! Division by a constant divisor through multiplication by its reciprocal.

use elevator::cold_path;

/// A divisor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    by: u64,
    /// 2^(64 + `shift`) / `by`, rounded up. For dividends below 2^63 the rounding error of the product never changes the quotient.
    reciprocal: u64,
    shift: u32,
}

impl Divisor {
    /// `by` must be greater than 1.
    pub(crate) const fn new(by: u64) -> Self {
        let shift = (by - 1).ilog2();
        let reciprocal = ((1_u128 << (64 + shift)) - 1) / by as u128 + 1;
        Self { by, reciprocal: reciprocal as u64, shift }
    }

    pub(crate) const fn get(self) -> u64 {
        self.by
    }

    /// The exact whole quotient.
    pub(crate) const fn quotient(self, n: u64) -> u64 {
        if n >> 63 != 0 {
            cold_path();
            return n / self.by;
        }
        ((n as u128 * self.reciprocal as u128) >> 64) as u64 >> self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divides_as_the_processor_does() {
        let edges = |n: u64| [n.saturating_sub(1), n, n.saturating_add(1)];
        let numbers: Vec<u64> = (0..64).flat_map(|bit| edges(1 << bit)).chain(edges(u64::MAX)).collect();
        for &by in numbers.iter().filter(|&&by| by > 1) {
            let divisor = Divisor::new(by);
            let multiples = numbers.iter().filter_map(|n| n.checked_mul(by));
            for n in numbers.iter().copied().chain(multiples.flat_map(edges)) {
                assert_eq!(divisor.quotient(n), n / by, "{n} / {by}");
            }
        }
    }
}
