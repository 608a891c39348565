//! How a thread waits for a moment to come: it sleeps until shortly before, and looks again and again for the rest.
//!
//! A real-time thread that looks keeps everybody else from its processor, first of all the kernel's own thread that completes what
//! has just been answered (ksoftirqd), which no other processor can do. So it does not look for longer than it was told at a time,
//! however the moment is put off, and not at once after an answer: then it sleeps, if only for a microsecond.

use std::time::Duration;

/// The shortest sleep: long enough for the kernel to give the processor to somebody else.
const LEAST: Duration = Duration::from_micros(1);

/// A thread's habit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookout {
    /// How long before a moment it begins to look.
    before: Duration,
    /// Since when it does, in the room's time, as everything here: a drive's may go faster.
    since: Option<Duration>,
    /// Others have to have their turn first.
    yields: bool,
}

impl Lookout {
    pub(crate) const fn new(before: Duration) -> Self {
        Self { before, since: None, yields: false }
    }

    /// How long to sleep at `now` when the moment comes in `left`; zero to look.
    pub(crate) fn sleep(&mut self, now: Duration, left: Duration) -> Duration {
        if left.is_zero() {
            return left;
        }
        if left > self.before {
            (self.since, self.yields) = (None, false);
            return left - self.before;
        }
        let since = *self.since.get_or_insert(now);
        if !self.yields && now.saturating_sub(since) < self.before {
            return Duration::ZERO;
        }
        (self.since, self.yields) = (None, false);
        left.max(LEAST)
    }

    /// Somebody was answered.
    pub(crate) fn answered(&mut self) {
        self.yields = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn micros(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn it_sleeps_until_shortly_before_and_looks_for_the_rest() {
        let mut lookout = Lookout::new(micros(60));
        assert_eq!(lookout.sleep(micros(0), micros(100)), micros(40));
        assert_eq!([41, 70, 99].map(|n| lookout.sleep(micros(n), micros(100 - n))), [Duration::ZERO; 3]);
        assert_eq!(lookout.sleep(micros(100), Duration::ZERO), Duration::ZERO, "it has come");
    }

    #[test]
    fn what_is_put_off_is_not_looked_for_all_the_time() {
        let mut lookout = Lookout::new(micros(60));
        let looked = (0..1000).filter(|&n| lookout.sleep(micros(n), micros(5)).is_zero()).count();
        assert!((900..990).contains(&looked), "of a thousand microseconds it looked for {looked}");
        assert_eq!(Lookout::new(Duration::ZERO).sleep(micros(0), micros(5)), micros(5));
    }

    #[test]
    fn whoever_was_answered_has_the_processor_first() {
        let mut lookout = Lookout::new(micros(60));
        lookout.answered();
        assert_eq!(lookout.sleep(micros(0), micros(20)), micros(20));
        assert_eq!(lookout.sleep(micros(1), micros(19)), Duration::ZERO);
        lookout.answered();
        assert_eq!(lookout.sleep(micros(2), micros(100)), micros(40), "which is a sleep as well");
        assert_eq!(lookout.sleep(micros(43), micros(59)), Duration::ZERO);
    }
}
