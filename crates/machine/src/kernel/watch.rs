//! The machine's state over time, for the report.

use elevator::Time;
use serde::Serialize;

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
    /// Of the hits, those that read-ahead had brought and nobody had used before.
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

impl Sample {
    /// The moment.
    #[must_use]
    pub const fn at(&self) -> Time {
        Time::from_nanos(self.at_ns)
    }
}
