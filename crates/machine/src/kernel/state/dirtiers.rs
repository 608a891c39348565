//! Accounting of writers for `balance_dirty_pages`: how much they dirtied and how fast the device writes.

use elevator::Time;

use super::tasks::TaskId;

/// Pages that may be dirtied between two checks while the limit is exceeded: 8, as in Linux 2.6.
pub(in crate::kernel) const EXCEEDED_PAGES: u64 = 8;

/// Pages dirtied, writers, and the estimated write bandwidth.
#[derive(Default)]
pub(in crate::kernel) struct Dirtiers {
    /// Pages dirtied since the last check.
    since: u64,
    /// Pages between two checks.
    pub(in crate::kernel) every: u64,
    pub(in crate::kernel) exceeded: bool,
    /// Writers that are throttled now.
    pub(in crate::kernel) held: u64,
    /// Pages written to the device up to the last estimate.
    pub(in crate::kernel) counted: u64,
    /// Time of the last estimate.
    pub(in crate::kernel) at: Time,
    /// The estimate, in pages a second.
    pub(in crate::kernel) rate: u64,
    /// Writers that dirtied pages since the last estimate.
    pub(in crate::kernel) recent: Vec<TaskId>,
    /// Number of writers in the period before the last estimate.
    pub(in crate::kernel) writers: u64,
}

impl Dirtiers {
    /// For a machine of `capacity` pages: Linux 2.6 checks after 1/32 of memory, at least 16 and at most 1024 pages.
    pub(in crate::kernel) fn new(capacity: usize) -> Self {
        Self { every: (capacity as u64 / 32).clamp(16, 1024), rate: 25_600, ..Self::default() }
    }

    /// Pages that may be dirtied before the next check; at least 1.
    pub(in crate::kernel) fn until_balance(&self) -> u64 {
        let every = if self.exceeded { EXCEEDED_PAGES } else { self.every };
        every.saturating_sub(self.since).max(1)
    }

    /// Counts dirtied pages; returns whether a check is due.
    pub(in crate::kernel) fn dirtied(&mut self, pages: u64) -> bool {
        self.since += pages;
        let due = self.since >= if self.exceeded { EXCEEDED_PAGES } else { self.every };
        if due {
            self.since = 0;
        }
        due
    }

    /// Pages that a writer above the limit writes itself (`sync_writeback_pages`).
    pub(in crate::kernel) const fn chunk(&self) -> usize {
        (self.every + self.every / 2) as usize
    }
}
