//! Small writes that continue before the server has answered.
//!
//! An answer of the server costs two wake-ups of processes, several times the time of a small write. While the scheduler admits the calls of an
//! account at once, the next small writes continue immediately, and the agent reports them to the server up to a millisecond later, several at a time. When the
//! scheduler holds such a call, its answer is missing, and later calls wait for their answers again. So the scheduler holds a writer at most
//! [`CALLS`] calls and [`BYTES`] bytes later than it would have, and charges what they made dirty as always.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// So many calls in succession must have been admitted at once.
const TRUSTED: u32 = 16;

/// At once: within this time.
const PROMPT: Duration = Duration::from_millis(1);

/// How many calls may be without an answer, and their bytes.
const CALLS: usize = 32;
const BYTES: u64 = 64 << 10;

/// If a call has no answer after this time, the scheduler holds it, or the server is busy.
const PATIENCE: Duration = Duration::from_millis(4);

/// A call that continues, without an answer.
struct Unanswered {
    number: u32,
    bytes: u64,
    since: Instant,
}

/// The calls of one account on one server.
#[derive(Default)]
pub(crate) struct Early {
    /// Calls in succession that were admitted at once.
    prompt: u32,
    unanswered: VecDeque<Unanswered>,
}

impl Early {
    /// Whether a write may continue before it is admitted.
    pub(crate) fn admits(&mut self, now: Instant, bytes: u64) -> bool {
        if self.unanswered.front().is_some_and(|call| now - call.since > PATIENCE) {
            self.distrust();
        }
        let sum: u64 = self.unanswered.iter().map(|call| call.bytes).sum();
        self.prompt >= TRUSTED && self.unanswered.len() < CALLS && sum.saturating_add(bytes) <= BYTES
    }

    /// A write continues.
    pub(crate) fn continues(&mut self, now: Instant, number: u32, bytes: u64) {
        self.unanswered.push_back(Unanswered { number, bytes, since: now });
    }

    /// The server admitted a call that continues already, or that has ended.
    pub(crate) fn answered(&mut self, number: u32) {
        self.unanswered.retain(|call| call.number != number);
    }

    /// The server admitted a call that had waited for it.
    pub(crate) fn waited(&mut self, time: Duration) {
        if time > PROMPT {
            self.distrust();
        } else {
            self.prompt = (self.prompt + 1).min(TRUSTED);
        }
    }

    /// The next calls wait for their answers.
    pub(crate) fn distrust(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusted() -> Early {
        let mut early = Early::default();
        (0..TRUSTED).for_each(|_| early.waited(Duration::ZERO));
        early
    }

    #[test]
    fn small_writes_continue_after_several_that_were_admitted_at_once() {
        let (mut early, now) = (Early::default(), Instant::now());
        for _ in 0..TRUSTED {
            assert!(!early.admits(now, 1));
            early.waited(PROMPT);
        }
        assert!(early.admits(now, BYTES) && !early.admits(now, BYTES + 1) && !early.admits(now, u64::MAX));
        early.waited(PROMPT * 2);
        assert!(!early.admits(now, 1), "one was held");
    }

    #[test]
    fn few_writes_continue_without_an_answer() {
        let (mut early, now) = (trusted(), Instant::now());
        early.continues(now, 7, BYTES - 1);
        assert!(early.admits(now, 1) && !early.admits(now, 2));
        early.answered(7);
        for number in 0..CALLS as u32 {
            assert!(early.admits(now, 1));
            early.continues(now, number, 1);
        }
        assert!(!early.admits(now, 1));
        early.answered(3);
        assert!(early.admits(now, 1));
    }

    #[test]
    fn nothing_continues_after_a_call_without_an_answer() {
        let (mut early, now) = (trusted(), Instant::now());
        early.continues(now, 7, 1);
        assert!(early.admits(now + PATIENCE, 1));
        assert!(!early.admits(now + PATIENCE * 2, 1));
        early.answered(7);
        assert!(!early.admits(now + PATIENCE * 2, 1), "it was held");
    }
}
