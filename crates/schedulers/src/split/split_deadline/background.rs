//! What accounts without a deadline have in front of those with one, and how long that would take.

use elevator::{Op, Request, Span, Time};

const PAGE_SECTORS: u64 = 8;

/// Of late means this many requests: some 25 MB, half a second of a desktop drive's writing. Fewer: a full cache comes as a
/// surprise. More: so does a change of place.
const MEMORY: u64 = 64;

/// Dirty pages, queued writes and what the device's cache holds, as time.
#[derive(Default)]
pub(super) struct Background {
    /// Their dirty pages. An account that is given a deadline leaves behind what it has: both counts stop at zero.
    dirty: u64,
    /// Sectors of their writes, queued and in flight.
    queued: u64,
    /// Sectors that came back and may still be in the device's cache, as of `counted`: what it took, less what it can have
    /// written since. A commit waits for them, too, for it ends with a flush.
    cached: u64,
    counted: Time,
    /// Sectors written of late, and how long that took in ns, both times [`MEMORY`]. Their ratio is the pace: an average of
    /// each request's would take a drive for as fast as its cache is while that has room.
    written: u64,
    took: u64,
}

impl Background {
    /// A page became dirty.
    pub(super) const fn dirtied(&mut self) {
        self.dirty += 1;
    }

    /// A page is dirty no more, or no longer theirs.
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

    /// Whether more than so many pages are queued.
    pub(super) const fn queues_more_than(&self, pages: u64) -> bool {
        self.queued > pages * PAGE_SECTORS
    }

    /// Whether all of it would take longer than `most`, and is more than so many pages.
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

    /// Somebody's fsync is over, and with it what was in the device's cache when it began.
    pub(super) const fn is_durable(&mut self) {
        self.cached = 0;
    }

    /// The device emptied its cache for so long: what had been written took longer than it seemed.
    pub(super) const fn flushed(&mut self, took: Span) {
        self.took = self.took.saturating_add(took.as_nanos());
    }

    /// The device was busy for so long with a request that came back.
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
            "of which half is written by now"
        );
        assert!(background.is_too_much(now, Span::from_millis(49), 100), "500 pages are 50 ms");
        assert!(!background.is_too_much(now, Span::from_millis(51), 100));
        assert!(!background.is_too_much(now, Span::ZERO, 500), "so many are always allowed");
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
