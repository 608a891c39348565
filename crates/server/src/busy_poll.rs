//! When a thread polls before it sleeps.
//!
//! Waking an idle processor takes tens of microseconds, which a client that has one request outstanding waits for each time. A thread that
//! has just replied therefore polls for a moment. It continues as long as that finds requests; after a poll that found none it sleeps at
//! once for one turn, then two, then four. A client that sends rarely, or that shares a processor with this thread and can send only while
//! the thread sleeps, costs little.

use std::time::Duration;

/// Most turns in which the thread sleeps at once. A poll in vain then costs 1/512 of a turn.
const MOST_SKIPPED: u32 = 512;

/// Decides between polling and sleeping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BusyPoll {
    length: Duration,
    /// Turns to sleep at once, and their number after the next poll in vain.
    skipped: u32,
    next_skipped: u32,
    is_polling: bool,
}

impl BusyPoll {
    /// Polls for at most this long; zero never polls.
    pub(crate) const fn new(length: Duration) -> Self {
        Self { length, skipped: 0, next_skipped: 1, is_polling: false }
    }

    /// Whether to poll rather than sleep, `idle` after the last event.
    pub(crate) fn polls(&mut self, idle: Duration) -> bool {
        if self.length.is_zero() || self.skipped > 0 {
            return false;
        }
        if idle >= self.length && self.is_polling {
            self.is_polling = false;
            self.skipped = self.next_skipped;
            self.next_skipped = (self.next_skipped * 2).min(MOST_SKIPPED);
            return false;
        }
        self.is_polling = idle < self.length;
        self.is_polling
    }

    /// An event arrived.
    pub(crate) fn found(&mut self) {
        if std::mem::take(&mut self.is_polling) {
            self.next_skipped = 1;
        } else {
            self.skipped = self.skipped.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_micros(50);
    const LATER: Duration = Duration::from_micros(51);

    #[test]
    fn polling_continues_as_long_as_it_finds_events() {
        let mut poll = BusyPoll::new(LENGTH);
        for _ in 0..100 {
            assert!(poll.polls(Duration::ZERO) && poll.polls(Duration::from_micros(49)));
            poll.found();
        }
        assert!(!BusyPoll::new(Duration::ZERO).polls(Duration::ZERO));
    }

    #[test]
    fn polls_in_vain_become_rare() {
        let mut poll = BusyPoll::new(LENGTH);
        let mut tries = 0;
        for _ in 0..10_000 {
            if poll.polls(Duration::ZERO) {
                tries += 1;
                assert!(!poll.polls(LATER), "too long already");
            }
            assert!(!poll.polls(LATER), "asleep until an event");
            poll.found();
        }
        assert!(tries < 30, "{tries}");
        while !poll.polls(Duration::ZERO) {
            poll.found();
        }
        poll.found();
        assert!(poll.polls(Duration::ZERO), "a poll that finds an event is repeated at once");
    }
}
