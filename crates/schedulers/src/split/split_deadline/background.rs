//! The data that accounts without a deadline have dirty, queued or in the device's cache, and the time to write it.

use elevator::{Op, Request, Span, Time};

const PAGE_SECTORS: u64 = 8;

/// The speed is averaged over this number of requests: about 25 MB, or half a second of a desktop drive's writes. Lower: the average misses
/// the slowdown of a full cache. Higher: it follows a change of position too slowly.
const MEMORY: u64 = 64;

/// The amounts of dirty, queued and cached data, and the recent speed.
#[derive(Default)]
pub(super) struct Background {
    /// Their dirty pages. If an account gets a deadline, its data stays counted; both counts saturate at zero.
    dirty: u64,
    /// Sectors of their writes, queued and in flight.
    queued: u64,
    /// Completed sectors that may still be in the device's cache at time `counted`: those accepted minus those that it can have
    /// written since. A commit ends with a flush and therefore also waits for them.
    cached: u64,
    counted: Time,
    /// Recently written sectors, and the time for them in ns, both multiplied by [`MEMORY`]. Their ratio is the speed. A mean of the
    /// requests' speeds would measure the drive's cache while that has room.
    written: u64,
    took: u64,
}

impl Background {
    /// A page became dirty.
    pub(super) const fn dirtied(&mut self) {
        self.dirty += 1;
    }

    /// A page is no longer dirty, or no longer of a background account.
    pub(super) const fn cleaned(&mut self) {
        self.dirty = self.dirty.saturating_sub(1);
    }

    /// Sectors were queued.
    pub(super) const fn queued(&mut self, sectors: u64) {
        self.queued += sectors;
    }

    /// Sectors were written.
    pub(super) const fn done(&mut self, sectors: u64) {
        self.queued = self.queued.saturating_sub(sectors);
    }

    /// Whether more than `pages` pages are queued.
    pub(super) const fn queues_more_than(&self, pages: u64) -> bool {
        self.queued > pages * PAGE_SECTORS
    }

    /// Whether the data would take longer than `most`, and is more than `pages` pages.
    pub(super) fn is_too_much(&self, now: Time, most: Span, pages: u64) -> bool {
        let sectors = self.dirty * PAGE_SECTORS + self.queued + self.cached_at(now);
        let takes = u128::from(sectors) * u128::from(self.took) / u128::from(self.written.max(1));
        let takes = Span::from_nanos(u64::try_from(takes).unwrap_or(u64::MAX));
        sectors > pages * PAGE_SECTORS && takes > most
    }

    fn cached_at(&self, now: Time) -> u64 {
        let since = u128::from(now.since(self.counted).as_nanos());
        let written = since * u128::from(self.written) / u128::from(self.took.max(1));
        self.cached.saturating_sub(u64::try_from(written).unwrap_or(u64::MAX))
    }

    /// An fsync has returned: the data in the device's cache at its beginning is durable.
    pub(super) const fn is_durable(&mut self) {
        self.cached = 0;
    }

    /// The device flushed its cache for the time `took`, which counts as time of the earlier writes.
    pub(super) const fn flushed(&mut self, took: Span) {
        self.took = self.took.saturating_add(took.as_nanos());
    }

    /// The device was busy with a completed request for the time `took`.
    pub(super) fn served(&mut self, now: Time, request: &Request, took: Span) {
        let sectors = u64::from(request.sectors.0);
        if request.op == Op::Write && sectors > 0 {
            (self.cached, self.counted) = (self.cached_at(now) + sectors, now);
            self.took = (self.took - self.took / MEMORY).saturating_add(took.as_nanos());
            self.written = (self.written - self.written / MEMORY).saturating_add(sectors);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at_ms, request};

    #[test]
    fn the_time_for_dirty_queued_and_cached_data_follows_recent_speed() {
        let mut background = Background::default();
        let write = Request { op: Op::Write, ..request(0, 800) };
        background.served(at_ms(0), &write, Span::from_millis(10)); // 100 pages
        (0..300).for_each(|_| background.dirtied());
        background.queued(1600);
        let now = at_ms(10);
        assert!(
            background.is_too_much(at_ms(0), Span::from_millis(59), 100),
            "600 pages, 100 of them in the cache"
        );
        assert!(
            background.is_too_much(at_ms(5), Span::from_millis(54), 100),
            "half of the cached pages are written by now"
        );
        assert!(background.is_too_much(now, Span::from_millis(49), 100), "500 pages are 50 ms");
        assert!(!background.is_too_much(now, Span::from_millis(51), 100));
        assert!(!background.is_too_much(now, Span::ZERO, 500), "this number is always allowed");
        background.flushed(Span::from_millis(10));
        assert!(background.is_too_much(at_ms(20), Span::from_millis(99), 100), "20 ms for each 100");
        assert!(!background.is_too_much(at_ms(20), Span::from_millis(101), 100));
        background.done(1600);
        assert!(
            !background.queues_more_than(0) && background.is_too_much(at_ms(20), Span::from_millis(59), 100)
        );
        background.served(at_ms(20), &write, Span::from_millis(10));
        background.is_durable();
        assert_eq!(background.cached_at(at_ms(20)), 0);
    }
}
