//! The machine's state over time, for the report.

use elevator::{Span, Time};
use serde::Serialize;

use super::state::State;

/// Between two samples.
const EVERY: Span = Span::from_secs(1);

/// What the kernel was like at one moment, and what happened in the second before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Sample {
    /// The moment, in nanoseconds from the start.
    pub at_ns: u64,
    /// Pages in memory that hold something of the disk.
    pub cached_pages: u64,
    /// Of those, changed and not yet on their way to the disk.
    pub dirty_pages: u64,
    /// On their way.
    pub writeback_pages: u64,
    /// Processes that are held back because too much is dirty.
    pub throttled: u64,
    /// In the last second: pages read by calls that were in memory and
    pub hits: u64,
    /// that had to be waited for or fetched.
    pub misses: u64,
    /// Pages used for the first time that read-ahead had brought.
    pub read_ahead_hits: u64,
    /// Pages that read-ahead brought and that were dropped before anybody used them.
    pub read_ahead_wasted: u64,
    /// Pages that went to the device and
    pub pages_out: u64,
    /// that came from it.
    pub pages_in: u64,
    /// Transactions committed.
    pub commits: u64,
}

/// Counts what happens, second by second.
#[derive(Default)]
pub(super) struct Watch {
    /// The second that is running.
    pub(super) now: Sample,
    samples: Vec<Sample>,
    pages_out: u64,
}

impl Watch {
    pub(super) fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Pages that went to the device since the start.
    pub(super) const fn pages_out(&self) -> u64 {
        self.pages_out + self.now.pages_out
    }
}

impl State {
    /// Time goes on: whole seconds that have passed are written down.
    pub(super) fn observe(&mut self, now: Time) {
        loop {
            let at = Time::ZERO + EVERY * (self.watch.samples.len() as u64 + 1);
            if now < at {
                break;
            }
            let sample = Sample {
                at_ns: at.as_nanos(),
                cached_pages: self.pages.len() as u64,
                dirty_pages: self.dirty as u64,
                writeback_pages: self.writing as u64,
                throttled: self.dirtiers.held,
                ..std::mem::take(&mut self.watch.now)
            };
            self.watch.pages_out += sample.pages_out;
            self.weigh_tags();
            self.watch.samples.push(sample);
        }
    }
}
