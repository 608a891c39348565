//! Samples of the kernel's state, for the report.

use elevator::Span;
use serde::Serialize;

/// Interval between samples.
pub(in crate::kernel) const SAMPLE_EVERY: Span = Span::from_secs(1);

/// The kernel's state at a time, and the events of the second before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Sample {
    /// The time, in nanoseconds from the start.
    pub at_ns: u64,
    pub cached_pages: u64,
    /// Dirty pages not under writeback.
    pub dirty_pages: u64,
    /// Pages under writeback.
    pub writeback_pages: u64,
    /// Throttled processes.
    pub throttled: u64,
    /// Pages read from the cache.
    pub hits: u64,
    /// Pages that a read had to wait for.
    pub misses: u64,
    /// First uses of pages that read-ahead brought.
    pub read_ahead_hits: u64,
    /// Pages of read-ahead that were dropped without use.
    pub read_ahead_wasted: u64,
    /// Pages written to the device.
    pub pages_out: u64,
    /// Pages read from the device.
    pub pages_in: u64,
    /// Commits of the journal.
    pub commits: u64,
}

/// Collects samples.
#[derive(Default)]
pub(in crate::kernel) struct Watch {
    /// The current second.
    pub(in crate::kernel) now: Sample,
    pub(in crate::kernel) samples: Vec<Sample>,
    pub(in crate::kernel) pages_out: u64,
}

impl Watch {
    pub(in crate::kernel) fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Pages written to the device since the start.
    pub(in crate::kernel) const fn pages_out(&self) -> u64 {
        self.pages_out + self.now.pages_out
    }
}
