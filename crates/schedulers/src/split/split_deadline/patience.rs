//! How much that nobody is known to wait for may go in front of an fsync with a deadline.
//!
//! One such write goes between two of the fsync's own, which come one after the other, and costs a seek there and a seek
//! back; a few at once cost little more, so all that is let pass goes at once. How long it takes nobody can tell
//! beforehand: a drive's cache takes it in a moment, and the flush at the end pays for it. It shows in how long fsyncs
//! take.

use elevator::Span;

/// Counts what is let pass, and learns how much an fsync can bear.
pub(super) struct Patience {
    /// Requests in front of one fsync: one more after an fsync that let all of them pass and had time to spare, half of them
    /// after one that had none.
    allowed: u64,
    /// Those that may still pass.
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

    /// It ends with so much time left of its deadline, where `spare` is enough to have let another one pass. Never more
    /// than `most` are let.
    pub(super) fn ends(&mut self, left: Span, spare: Span, most: u64) {
        if left < spare {
            self.allowed = (self.allowed / 2).max(1);
        } else if self.left == 0 {
            self.allowed = (self.allowed + 1).min(most);
        }
    }

    /// An urgent request goes to the device; whether it is one that nobody is known to wait for.
    pub(super) const fn takes(&mut self, perhaps: bool) {
        self.passing = perhaps;
        if perhaps {
            self.left = self.left.saturating_sub(1);
        }
    }

    /// Whether another one goes before what is surely waited for.
    pub(super) const fn lets_pass(&self) -> bool {
        self.passing && self.left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An fsync in front of which as many go as it lets pass, and which has so many of 50 ms to spare left.
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
        assert!(!patience.lets_pass(), "nothing passes while the fsync's own writes follow each other");
        patience.takes(true);
        patience.ends(Span::from_millis(80), Span::from_millis(50), 5);
        assert_eq!(fsync(&mut patience, 80), 2);
    }
}
