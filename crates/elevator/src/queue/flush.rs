//! Flushes: the submissions that wait for one, and the time at which the device gets one.
//!
//! As in Linux since 2.6.37, a flush bypasses the scheduler, and only one runs at a time. Flushes that arrive during a running one
//! share the next one, because a running flush need not cover writes that completed after its start.
//!
//! Differences from Linux:
//! - The data of a write with a preflush goes to the scheduler like any other write, and needs room in the queue then. Linux allocates
//!   its request before the flush, and puts it at the head of the dispatch list (today the scheduler's own list) after the flush.
//! - Linux delays a flush by up to 5 s while the data of another flush sequence is in flight, so that both sequences can share the
//!   final flush. Here a flush is dispatched at once.
//! - Until Linux 6.5 a write with forced unit access bypassed the scheduler, too.

use alloc::collections::VecDeque;
use core::mem;

use super::parts::PartId;

/// The next step of a submission after the flush that it waits for.
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

    /// Whether a flush should be dispatched now.
    pub(super) fn wanted(&self) -> bool {
        !self.waiting.is_empty() && !self.in_flight
    }

    /// A flush was dispatched; it covers every waiting submission.
    pub(super) fn started(&mut self) {
        self.in_flight = true;
        mem::swap(&mut self.waiting, &mut self.running);
    }

    /// The device gave the running flush back: its submissions wait for the next one, ahead of later submissions.
    pub(super) fn given_back(&mut self) {
        self.in_flight = false;
        self.running.append(&mut self.waiting);
        mem::swap(&mut self.waiting, &mut self.running);
    }

    /// The running flush has ended: returns the next submission that it covered, in order of arrival.
    pub(super) fn next_covered(&mut self) -> Option<(PartId, Then)> {
        self.in_flight = false;
        self.running.pop_front()
    }

    /// Whether a flush is in the device.
    pub(super) const fn is_running(&self) -> bool {
        self.in_flight
    }

    /// No submission waits for a flush, and no flush runs.
    pub(super) fn is_quiet(&self) -> bool {
        !self.in_flight && self.waiting.is_empty()
    }
}
