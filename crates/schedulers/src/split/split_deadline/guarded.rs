//! An account with a deadline, and whether it calls fsync at present.

use elevator::{Span, Time};

/// Deadlines for which an account is guarded after an fsync.
const DEADLINES: u64 = 10;

/// Longest intervals for which it is guarded after an fsync.
const INTERVALS: u64 = 2;

/// The most time between two calls of fsync for which the latter is expected: the kernel itself writes data that has been dirty for so long.
const LONGEST: Span = Span::from_secs(30);

/// The longest interval decays by this part with each fsync: a tenth is left after 150.
const MEMORY: u64 = 64;

/// An account's deadline, and the intervals between its calls of fsync.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guarded {
    pub(super) deadline: Span,
    /// The account calls fsync again before, probably.
    until: Time,
    returned: Option<Time>,
    /// The longest recent interval from the return of an fsync to the next one.
    longest: Span,
}

impl Guarded {
    /// The account gets its deadline.
    pub(super) fn new(now: Time, deadline: Span) -> Self {
        Self { deadline, until: now + deadline * DEADLINES, returned: None, longest: Span::ZERO }
    }

    /// Whether an fsync is expected.
    pub(super) fn is_active(&self, now: Time) -> bool {
        now < self.until
    }

    /// It calls fsync.
    pub(super) fn fsync(&mut self, now: Time) {
        let interval =
            self.returned.map(|returned| now.since(returned)).filter(|&interval| interval < LONGEST);
        if let Some(interval) = interval {
            self.longest = interval.max(self.longest - self.longest / MEMORY);
        }
        // Until it returns.
        self.until = Time::MAX;
    }

    /// The fsync has returned; `is_last`: no other one runs.
    pub(super) fn returned(&mut self, now: Time, is_last: bool) {
        self.returned = Some(now);
        if is_last {
            self.until = now + (self.longest * INTERVALS).min(LONGEST).max(self.deadline * DEADLINES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at_ms;

    /// Fsyncs of 1 ms with these intervals from 0 ms on; returns how long the account is active after the last one, in ms.
    fn active_after(intervals: &[u64]) -> u64 {
        let mut account = Guarded::new(at_ms(0), Span::from_millis(100));
        let mut now = 0;
        for interval in intervals {
            now += interval;
            account.fsync(at_ms(now));
            assert!(account.is_active(at_ms(now + 100_000)), "it runs");
            now += 1;
            account.returned(at_ms(now), true);
        }
        (0..).find(|ms| !account.is_active(at_ms(now + ms))).unwrap()
    }

    #[test]
    fn an_account_is_active_for_ten_deadlines_or_twice_its_longest_interval() {
        assert_eq!(active_after(&[]), 1000, "it has just got its deadline");
        assert_eq!(active_after(&[5000]), 1000, "one fsync has no interval");
        assert_eq!(active_after(&[0, 5, 5]), 1000);
        assert_eq!(active_after(&[0, 700, 5]), 1379, "700 ms less a 64th, twice");
        assert_eq!(active_after(&[0, 29_999]), 30_000);
        assert_eq!(active_after(&[0, 30_000, 5]), 1000, "it was idle");
    }
}
