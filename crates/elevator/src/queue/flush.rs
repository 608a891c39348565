//! Flushes: which submissions wait for one, and when the device gets one.
//!
//! As in Linux since 2.6.37, a flush goes to the device past the scheduler, one at a time; those that arrive while one
//! runs share the next one, since a running flush need not cover what completed after it began.
//!
//! Where it differs from Linux: the data of a write that had to wait for a flush goes to the scheduler like any other, and
//! asks for room then; Linux has given it a request before the flush, and puts it at the head of the dispatch list (today
//! of the scheduler's own) behind it. Linux holds a flush back, for 5 s at most, while the data of another's sequence is on
//! its way, so that both may share the one behind it; here it goes at once. Until 6.5 a write with forced unit access alone
//! went past the scheduler, too.

use alloc::collections::VecDeque;
use core::mem;

use super::parts::PartId;

/// What becomes of a submission once the flush that it waits for is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Then {
    /// It is finished.
    Finish,
    /// Its data goes to the scheduler (a flush before a write).
    Data,
}

/// The flush machine.
#[derive(Default)]
pub(super) struct Flushes {
    waiting: VecDeque<(PartId, Then)>,
    running: VecDeque<(PartId, Then)>,
    in_flight: bool,
}

impl Flushes {
    pub(super) fn wait(&mut self, part: PartId, then: Then) {
        self.waiting.push_back((part, then));
    }

    /// Whether the device should be sent one now.
    pub(super) fn wanted(&self) -> bool {
        !self.waiting.is_empty() && !self.in_flight
    }

    /// A flush was sent; it covers every waiting submission.
    pub(super) fn started(&mut self) {
        self.in_flight = true;
        mem::swap(&mut self.waiting, &mut self.running);
    }

    /// The running one came back unserved: its waiters wait for the next, before those that have come since.
    pub(super) fn given_back(&mut self) {
        self.in_flight = false;
        self.running.append(&mut self.waiting);
        mem::swap(&mut self.waiting, &mut self.running);
    }

    /// The running one ended; calls for each that it covered, first come first.
    pub(super) fn next_covered(&mut self) -> Option<(PartId, Then)> {
        self.in_flight = false;
        self.running.pop_front()
    }

    /// Whether the device has one.
    pub(super) const fn is_running(&self) -> bool {
        self.in_flight
    }

    /// No submission waits for a flush, and no flush runs.
    pub(super) fn is_quiet(&self) -> bool {
        !self.in_flight && self.waiting.is_empty()
    }
}
