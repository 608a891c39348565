//! The number of uncertain writes that may pass an fsync with a deadline.
//!
//! One such write between two of the fsync's own writes costs a seek there and a seek back. Several in
//! a row cost hardly more, so that all that may pass are dispatched together. Their duration cannot be predicted: the drive's cache accepts
//! them at once, and the final flush takes the time. The limit is therefore learnt from the duration of fsyncs.

use elevator::Span;

/// Counts passing writes, and learns their limit.
pub(super) struct Patience {
    /// Limit of writes that pass one fsync: raised by one after an fsync that let all of them pass and had time to spare; halved
    /// after an fsync without time to spare.
    allowed: u64,
    /// The number that may still pass the present fsync.
    left: u64,
    /// The last urgent request was one of them.
    passing: bool,
}

impl Default for Patience {
    fn default() -> Self {
        Self { allowed: 1, left: 0, passing: false }
    }
}

impl Patience {
    /// An fsync with a deadline begins.
    pub(super) const fn begins(&mut self) {
        self.left = self.allowed;
    }

    /// An fsync returns with the time `left` of its deadline; with at least `spare` left, another write could have passed. The limit is at
    /// most `most`.
    pub(super) fn ends(&mut self, left: Span, spare: Span, most: u64) {
        if left < spare {
            self.allowed = (self.allowed / 2).max(1);
        } else if self.left == 0 {
            self.allowed = (self.allowed + 1).min(most);
        }
    }

    /// An urgent request is dispatched; `perhaps`: an uncertain one.
    pub(super) const fn takes(&mut self, perhaps: bool) {
        self.passing = perhaps;
        if perhaps {
            self.left = self.left.saturating_sub(1);
        }
    }

    /// Whether another uncertain write precedes the certain ones.
    pub(super) const fn lets_pass(&self) -> bool {
        self.passing && self.left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An fsync that the maximum number of writes passes, and that returns with `left_ms` left, where 50 ms are enough.
    fn fsync(patience: &mut Patience, left_ms: u64) -> u64 {
        patience.begins();
        patience.takes(true);
        let mut passed = 1;
        while patience.lets_pass() {
            patience.takes(true);
            passed += 1;
        }
        patience.ends(Span::from_millis(left_ms), Span::from_millis(50), 5);
        passed
    }

    #[test]
    fn one_more_passes_while_fsyncs_have_time_to_spare_and_half_when_one_has_not() {
        let mut patience = Patience::default();
        let passed = |patience: &mut Patience, left: &[u64]| -> alloc::vec::Vec<u64> {
            left.iter().map(|&left_ms| fsync(patience, left_ms)).collect()
        };
        assert_eq!(passed(&mut patience, &[80, 70, 60, 50, 80, 80]), [1, 2, 3, 4, 5, 5]);
        assert_eq!(passed(&mut patience, &[49, 0, 80, 80]), [5, 2, 1, 2]);
    }

    #[test]
    fn unused_patience_is_not_learnt_and_the_first_fsync_is_not_delayed() {
        let mut patience = Patience::default();
        fsync(&mut patience, 80);
        patience.begins();
        patience.takes(false);
        assert!(!patience.lets_pass(), "no write passes while the fsync's own writes are consecutive");
        patience.takes(true);
        patience.ends(Span::from_millis(80), Span::from_millis(50), 5);
        assert_eq!(fsync(&mut patience, 80), 2);
    }
}
