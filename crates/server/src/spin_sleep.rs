//! Waiting for a point in time: the thread sleeps until shortly before, and polls for the rest.
//!
//! A real-time thread that polls prevents all other threads from running on its processor, including the kernel thread that completes the
//! latest reply (ksoftirqd), which cannot run on another one. Polling is therefore limited to a given continuous time, however often the
//! point is postponed. It does not follow a reply directly: the thread first sleeps for at least a microsecond.

use std::time::Duration;

/// The shortest sleep: long enough for the kernel to run another thread.
const LEAST: Duration = Duration::from_micros(1);

/// Decides between sleeping and polling.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpinSleep {
    /// The time before the point at which polling starts.
    before: Duration,
    /// Start of polling. All times here are real time; a drive's time may advance faster.
    since: Option<Duration>,
    /// Other threads run first.
    yields: bool,
}

impl SpinSleep {
    pub(crate) const fn new(before: Duration) -> Self {
        Self { before, since: None, yields: false }
    }

    /// How long to sleep at `now` when the point is `left` away; zero to poll.
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

    /// The thread has sent a reply.
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
    fn the_thread_sleeps_until_shortly_before_and_then_polls() {
        let mut waiting = SpinSleep::new(micros(60));
        assert_eq!(waiting.sleep(micros(0), micros(100)), micros(40));
        assert_eq!([41, 70, 99].map(|n| waiting.sleep(micros(n), micros(100 - n))), [Duration::ZERO; 3]);
        assert_eq!(waiting.sleep(micros(100), Duration::ZERO), Duration::ZERO, "the point is reached");
    }

    #[test]
    fn polling_is_limited_if_the_point_is_postponed_repeatedly() {
        let mut waiting = SpinSleep::new(micros(60));
        let polled = (0..1000).filter(|&n| waiting.sleep(micros(n), micros(5)).is_zero()).count();
        assert!((900..990).contains(&polled), "of a thousand microseconds it polled for {polled}");
        assert_eq!(SpinSleep::new(Duration::ZERO).sleep(micros(0), micros(5)), micros(5));
    }

    #[test]
    fn other_threads_run_after_a_reply() {
        let mut waiting = SpinSleep::new(micros(60));
        waiting.answered();
        assert_eq!(waiting.sleep(micros(0), micros(20)), micros(20));
        assert_eq!(waiting.sleep(micros(1), micros(19)), Duration::ZERO);
        waiting.answered();
        assert_eq!(waiting.sleep(micros(2), micros(100)), micros(40), "the next wait begins with a sleep");
        assert_eq!(waiting.sleep(micros(43), micros(59)), Duration::ZERO);
    }
}
