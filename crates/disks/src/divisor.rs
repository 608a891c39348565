//! Division by a number that does not change, without the processor's division.

/// A number to divide by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    by: u64,
    /// 2^64 / `by`, rounded down or one less.
    reciprocal: u64,
}

impl Divisor {
    /// `by` must not be 0.
    pub(crate) const fn new(by: u64) -> Self {
        Self { by, reciprocal: u64::MAX / by }
    }

    pub(crate) const fn get(self) -> u64 {
        self.by
    }

    /// Quotient and remainder, exactly: the reciprocal's product is too small by two at most.
    pub(crate) const fn divide(self, n: u64) -> (u64, u64) {
        let mut quotient = ((n as u128 * self.reciprocal as u128) >> 64) as u64;
        let mut rest = n - quotient * self.by;
        while rest >= self.by {
            rest -= self.by;
            quotient += 1;
        }
        (quotient, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divides_as_the_processor_does() {
        let edges = |n: u64| [n.saturating_sub(1), n, n.saturating_add(1)];
        let numbers: Vec<u64> = (0..64).flat_map(|bit| edges(1 << bit)).chain(edges(u64::MAX)).collect();
        for &by in numbers.iter().filter(|&&by| by > 0) {
            for &n in &numbers {
                assert_eq!(Divisor::new(by).divide(n), (n / by, n % by), "{n} / {by}");
            }
            assert_eq!(Divisor::new(by).divide(by - 1), (0, by - 1));
        }
    }
}
