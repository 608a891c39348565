//! The data that accounts without a deadline have dirty, queued or in the device's cache, and the time to write it.

use alloc::vec::Vec;

use elevator::{CauseSet, Op, Request, Span, Time};

const PAGE_SECTORS: u64 = 8;

/// The speed is averaged over this number of requests: about 25 MB, or half a second of a desktop drive's writes. Lower: the average misses
/// the slowdown of a full cache. Higher: it follows a change of position too slowly.
const MEMORY: u64 = 64;

/// The speed of this number of background sectors in a row is the speed that the device sustains: 16 MB, the cache of a desktop drive. Lower: the
/// speed of the cache. Higher: known later.
const SUSTAINED: u64 = 32_768;

/// Sectors per second are learnt from periods between two fsyncs that are at least this long.
const SHORTEST: Span = Span::from_millis(10);

const NANOS: u128 = 1_000_000_000;

/// The time of a returned fsync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Returned {
    pub(super) deadline: Span,
    /// What was left of it; zero if it was missed.
    pub(super) left: Span,
}

/// Sectors that become durable, and the time for them in ns.
#[derive(Clone, Copy)]
struct Speed {
    sectors: u64,
    took: u64,
}

impl Speed {
    const fn per_second(sectors: u64) -> Self {
        Self { sectors, took: NANOS as u64 }
    }

    fn time_for(self, sectors: u64) -> Span {
        let takes = u128::from(sectors) * u128::from(self.took) / u128::from(self.sectors.max(1));
        Span::from_nanos(u64::try_from(takes).unwrap_or(u64::MAX))
    }

    fn sectors_in(self, span: Span) -> u64 {
        let written = u128::from(span.as_nanos()) * u128::from(self.sectors) / u128::from(self.took.max(1));
        u64::try_from(written).unwrap_or(u64::MAX)
    }
}

/// Completed sectors that may still have been in the device's cache at a time: those accepted minus those that it can have written since.
#[derive(Clone, Copy, Default)]
struct Cached {
    sectors: u64,
    counted: Time,
}

impl Cached {
    fn at(self, now: Time, speed: Speed) -> u64 {
        self.sectors.saturating_sub(speed.sectors_in(now.since(self.counted)))
    }

    fn with(self, now: Time, sectors: u64, speed: Speed) -> Self {
        Self { sectors: self.at(now, speed) + sectors, counted: now }
    }
}

/// How much data there is for the deadlines of others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pressure {
    Low,
    /// Too much with what is dirty.
    Dirty,
    /// Too much is queued or in the device's cache.
    Queued,
}

/// The data of a set of accounts.
#[derive(Clone, Copy, Default)]
struct OfSet {
    /// Whether an account of the set has a deadline.
    has_deadline: bool,
    dirty: u64,
    queued: u64,
}

/// The amounts of dirty, queued and cached data, and the speed at which it becomes durable.
#[derive(Default)]
pub(super) struct Background {
    /// By the set that caused it. Data of sets with a deadline is counted, too, because their accounts may get or lose it at any time.
    sets: Vec<OfSet>,
    /// The dirty pages of the sets without a deadline.
    dirty: u64,
    /// Sectors of their writes, queued and in flight.
    queued: u64,
    /// The device's cache, by the expected speed and by the device's. A commit ends with a flush and therefore also waits for what is in it.
    cached: Cached,
    in_cache: Cached,
    /// Recently written sectors, and the time for them in ns, both multiplied by [`MEMORY`]. Their ratio is the speed. A mean of the
    /// requests' speeds would measure the drive's cache while that has room.
    written: u64,
    took: u64,
    /// The speed of the last [`SUSTAINED`] background sectors, in sectors per second; 0 if unknown. Unlike the recent speed it does not become
    /// lower by many small writes of others.
    sustained: u64,
    /// The background sectors since, and the time for them in ns.
    since: (u64, u64),
    /// Sectors written since the last fsync with a deadline, which returned at `durable`.
    accepted: u64,
    durable: Option<Time>,
    /// The learnt speed, in sectors per second; 0 if unknown. The recent speed is too high while the drive's cache has room: it accepts more than
    /// it can write, and the next fsync waits for all of it.
    speed: u64,
}

impl Background {
    /// Whether no account of a set has a deadline.
    pub(super) fn is_without_deadline(&self, set: CauseSet) -> bool {
        !self.sets.get(set.0 as usize).is_some_and(|of_set| of_set.has_deadline)
    }

    /// The members of a set, or their deadlines, have changed.
    pub(super) fn classify(&mut self, set: CauseSet, has_deadline: bool) {
        let of_set = self.of(set);
        let OfSet { dirty, queued, .. } = *of_set;
        match (core::mem::replace(&mut of_set.has_deadline, has_deadline), has_deadline) {
            (true, false) => (self.dirty, self.queued) = (self.dirty + dirty, self.queued + queued),
            (false, true) => (self.dirty, self.queued) = (self.dirty - dirty, self.queued - queued),
            _ => {}
        }
    }

    /// The number of sets that have data or have been classified.
    pub(super) const fn sets(&self) -> u32 {
        self.sets.len() as u32
    }

    fn of(&mut self, set: CauseSet) -> &mut OfSet {
        let index = set.0 as usize;
        if index >= self.sets.len() {
            self.sets.resize(index + 1, OfSet::default());
        }
        &mut self.sets[index]
    }

    /// Changes the data of a set, and the totals if it has no deadline.
    fn change(&mut self, set: CauseSet, change: impl Fn(&mut OfSet)) {
        let of_set = self.of(set);
        let before = *of_set;
        change(of_set);
        let OfSet { has_deadline, dirty, queued } = *of_set;
        if !has_deadline {
            self.dirty = self.dirty - before.dirty + dirty;
            self.queued = self.queued - before.queued + queued;
        }
    }

    /// A page became dirty.
    pub(super) fn dirtied(&mut self, set: CauseSet) {
        self.change(set, |of| of.dirty += 1);
    }

    /// A page is no longer dirty, or no longer of this set.
    pub(super) fn cleaned(&mut self, set: CauseSet) {
        self.change(set, |of| of.dirty = of.dirty.saturating_sub(1));
    }

    /// Their dirty pages.
    pub(super) const fn dirty_pages(&self) -> u64 {
        self.dirty
    }

    /// Sectors were queued.
    pub(super) fn queued(&mut self, set: CauseSet, sectors: u64) {
        self.change(set, |of| of.queued += sectors);
    }

    /// Sectors were written.
    pub(super) fn done(&mut self, set: CauseSet, sectors: u64) {
        self.change(set, |of| of.queued = of.queued.saturating_sub(sectors));
    }

    /// The pages that are queued.
    pub(super) const fn queued_pages(&self) -> u64 {
        self.queued / PAGE_SECTORS
    }

    /// Whether the data would take longer than `most`, and is more than `pages` pages. Of the dirty pages, `spared` do not count.
    pub(super) fn pressure(&self, now: Time, most: Span, pages: u64, spared: u64) -> Pressure {
        let speed = self.expected();
        let queued = self.queued + self.cached.at(now, speed);
        let dirty = self.dirty.saturating_sub(spared) * PAGE_SECTORS;
        let is_too_much = |sectors| sectors > pages * PAGE_SECTORS && speed.time_for(sectors) > most;
        match () {
            () if is_too_much(queued) => Pressure::Queued,
            () if is_too_much(dirty + queued) => Pressure::Dirty,
            () => Pressure::Low,
        }
    }

    /// When the data in the device, `in_flight` sectors, and in its cache takes no longer than `most` to write, if that is not so now.
    pub(super) fn device_has_too_much_until(&self, now: Time, in_flight: u64, most: Span) -> Option<Time> {
        let speed = self.device_speed();
        let takes = speed.time_for(in_flight + self.in_cache.at(now, speed));
        (takes > most).then(|| now + (takes - most))
    }

    /// The learnt speed, else the sustained one, else the recent one.
    fn device_speed(&self) -> Speed {
        match (self.speed, self.sustained) {
            (0, 1..) => Speed::per_second(self.sustained),
            _ => self.expected(),
        }
    }

    /// The learnt speed, else the recent one.
    fn expected(&self) -> Speed {
        match self.speed {
            0 => Speed { sectors: self.written, took: self.took },
            speed => Speed::per_second(speed),
        }
    }

    /// An fsync has returned: the data in the device's cache at its beginning is durable. The speed is learnt when one leaves less than a fifth of
    /// its deadline. From then on an fsync that left more or less than half changes the speed by half of what would have made it
    /// leave half, if the speed was the limit: the device's own speed differs by a twentieth from one period to the next.
    pub(super) fn is_durable(&mut self, now: Time, fsync: Returned) {
        (self.cached.sectors, self.in_cache.sectors) = (0, 0);
        let Some(last) = self.durable.filter(|last| now.since(*last) >= SHORTEST) else {
            if self.durable.is_none() {
                (self.durable, self.accepted) = (Some(now), 0);
            }
            return;
        };
        let since = now.since(last).as_nanos();
        let reached = per_second(core::mem::take(&mut self.accepted), since);
        self.durable = Some(now);
        let is_late = fsync.left * 5 < fsync.deadline;
        if self.speed == 0 {
            let recent = per_second(self.written, self.took);
            self.speed = if is_late { recent.min(reached.max(recent / 4 * 3)) } else { 0 };
            return;
        }
        let speed = self.speed;
        let (goal, left) = (fsync.deadline.as_nanos() / 2, fsync.left.as_nanos());
        let step = u128::from(speed) * u128::from(left.abs_diff(goal)) / 2 / u128::from(since);
        let step = u64::try_from(step).unwrap_or(u64::MAX);
        if is_late {
            let halfway = speed / 2 + reached.clamp(speed / 2, speed) / 2;
            self.speed = halfway.min(speed - step.min(speed / 16));
        } else if reached >= speed / 4 * 3 {
            self.speed =
                if left < goal { speed - step.min(speed / 16) } else { speed + step.min(speed / 32) };
        }
    }

    /// The device flushed its cache for the time `took`, which counts as time of the earlier writes.
    pub(super) const fn flushed(&mut self, took: Span) {
        self.took = self.took.saturating_add(took.as_nanos());
    }

    /// A write was held back: the speed of those that follow is not the device's.
    pub(super) const fn paced(&mut self) {
        self.since = (0, 0);
    }

    /// The device was busy with a background write for the time `took`.
    fn served_own(&mut self, sectors: u64, took: Span) {
        self.since = (self.since.0 + sectors, self.since.1.saturating_add(took.as_nanos()));
        if self.since.0 >= SUSTAINED {
            let (sectors, nanos) = core::mem::take(&mut self.since);
            self.sustained = per_second(sectors, nanos);
        }
    }

    /// The device was busy with a completed request, of a background account or not, for the time `took`.
    pub(super) fn served(&mut self, now: Time, request: &Request, is_own: bool, took: Span) {
        let sectors = u64::from(request.sectors.0);
        if request.op == Op::Write && sectors > 0 {
            self.cached = self.cached.with(now, sectors, self.expected());
            self.in_cache = self.in_cache.with(now, sectors, self.device_speed());
            self.accepted += sectors;
            self.took = (self.took - self.took / MEMORY).saturating_add(took.as_nanos());
            self.written = (self.written - self.written / MEMORY).saturating_add(sectors);
        }
        if is_own {
            self.served_own(sectors, took);
        }
    }
}

fn per_second(sectors: u64, nanos: u64) -> u64 {
    u64::try_from(u128::from(sectors) * NANOS / u128::from(nanos.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at_ms, request};

    const SET: CauseSet = CauseSet(0);

    #[test]
    fn the_time_for_dirty_queued_and_cached_data_follows_recent_speed() {
        let mut background = Background::default();
        let write = Request { op: Op::Write, ..request(0, 800) };
        background.served(at_ms(0), &write, true, Span::from_millis(10)); // 100 pages
        (0..300).for_each(|_| background.dirtied(SET));
        background.queued(SET, 1600);
        let now = at_ms(10);
        let is_too_much = |background: &Background, now, most, pages| {
            background.pressure(now, most, pages, 0) != Pressure::Low
        };
        assert!(
            is_too_much(&background, at_ms(0), Span::from_millis(59), 100),
            "600 pages, 100 of them in the cache"
        );
        assert!(
            is_too_much(&background, at_ms(5), Span::from_millis(54), 100),
            "half of the cached pages are written by now"
        );
        assert!(is_too_much(&background, now, Span::from_millis(49), 100), "500 pages are 50 ms");
        assert!(!is_too_much(&background, now, Span::from_millis(51), 100));
        assert!(!is_too_much(&background, now, Span::ZERO, 500), "this number is always allowed");
        let pressure = |most, spared| background.pressure(now, Span::from_millis(most), 100, spared);
        assert_eq!((pressure(49, 100), pressure(39, 100)), (Pressure::Low, Pressure::Dirty), "400 pages");
        assert_eq!((pressure(20, 300), pressure(19, 300)), (Pressure::Low, Pressure::Queued), "200 pages");
        background.flushed(Span::from_millis(10));
        assert!(is_too_much(&background, at_ms(20), Span::from_millis(99), 100), "20 ms for each 100");
        assert!(!is_too_much(&background, at_ms(20), Span::from_millis(101), 100));
        background.done(SET, 1600);
        assert_eq!(background.queued_pages(), 0);
        assert!(is_too_much(&background, at_ms(20), Span::from_millis(59), 100));
        background.served(at_ms(20), &write, true, Span::from_millis(10));
        background.is_durable(at_ms(20), left(50));
        assert_eq!(background.cached.at(at_ms(20), background.expected()), 0);
    }

    #[test]
    fn data_of_a_set_counts_while_it_has_no_deadline() {
        const OTHER: CauseSet = CauseSet(1);
        let mut background = Background::default();
        for (set, pages) in [(SET, 100), (OTHER, 5)] {
            (0..pages).for_each(|_| background.dirtied(set));
            background.queued(set, 2 * pages * PAGE_SECTORS);
        }
        for (has_deadline, pages) in [(false, 105), (true, 5), (true, 5), (false, 105)] {
            background.classify(SET, has_deadline);
            assert_eq!((background.dirty_pages(), background.queued_pages()), (pages, 2 * pages));
        }
    }

    const fn left(left_ms: u64) -> Returned {
        let ms = Span::from_millis;
        Returned { deadline: ms(100), left: ms(left_ms) }
    }

    /// Writes each ms, of which the device's cache accepts each in half a ms, and an fsync each 500 ms. Returns the speed in pages per ms.
    fn period(background: &mut Background, number: u64, pages_per_ms: u32, left_ms: u64) -> u64 {
        period_until(background, number, pages_per_ms, left(left_ms))
    }

    fn period_until(background: &mut Background, number: u64, pages_per_ms: u32, fsync: Returned) -> u64 {
        for ms in number * 500..number * 500 + 500 {
            let write = Request { op: Op::Write, ..request(0, 8 * pages_per_ms) };
            background.served(at_ms(ms), &write, false, Span::from_micros(500));
        }
        background.is_durable(at_ms(number * 500 + 500), fsync);
        background.speed / 8 / 1000
    }

    /// Half of the 16 MB before a pause do not count, because the device's cache accepts what follows. Small writes of others make the recent speed lower.
    #[test]
    fn the_device_has_what_it_can_write_at_the_speed_of_the_last_16_megabytes() {
        let mut background = Background::default();
        let served = |background: &mut Background, sectors, is_own, ms| {
            let write = Request { op: Op::Write, ..request(0, sectors) };
            background.served(at_ms(0), &write, is_own, Span::from_millis(ms));
        };
        // A second's work, after what was in the cache.
        let now = at_ms(100_000);
        let too_much_until = |background: &Background, most| {
            background.device_has_too_much_until(now, 32_768, Span::from_millis(most))
        };
        served(&mut background, 16_384, true, 100);
        background.paced();
        served(&mut background, 16_384, true, 500);
        served(&mut background, 16_383, true, 500);
        assert_eq!(too_much_until(&background, 999), None, "the recent speed is higher");
        served(&mut background, 1, true, 0);
        (0..200).for_each(|_| served(&mut background, 8, false, 10));
        assert_eq!(too_much_until(&background, 999), Some(now + Span::from_millis(1)));
        assert_eq!(too_much_until(&background, 1_000), None);
        assert_ne!(background.pressure(now, Span::from_secs(5), 0, 0), Pressure::Queued);
        background.queued(SET, 32_768);
        assert_eq!(
            background.pressure(now, Span::from_secs(5), 0, 0),
            Pressure::Queued,
            "by the recent speed"
        );
        // What an fsync with a deadline shows precedes both.
        for ms in [1_000, 2_000] {
            served(&mut background, 8_192, false, 500);
            background.is_durable(at_ms(ms), left(0));
        }
        let learnt = background.speed;
        assert!(learnt > 0 && learnt < 16_384, "{learnt}");
        assert!(too_much_until(&background, 1_999).is_some());
    }

    #[test]
    fn the_speed_is_learnt_when_an_fsync_is_late_and_then_keeps_half_of_the_deadline() {
        let mut background = Background::default();
        assert_eq!(period(&mut background, 0, 100, 0), 0, "no period has been measured");
        assert_eq!(period(&mut background, 1, 100, 80), 0, "the recent speed of 200 is no danger");
        assert_eq!(period(&mut background, 2, 100, 19), 150, "at most a quarter less at once");
        assert_eq!(period(&mut background, 3, 100, 0), 125, "halfway to what was written");
        assert_eq!(period(&mut background, 4, 100, 0), 112);
        assert_eq!(period(&mut background, 5, 112, 0), 106, "5%, as it was written");
        assert_eq!(period(&mut background, 6, 106, 50), 106);
        assert_eq!(period(&mut background, 7, 106, 40), 105, "5 of the 10 ms that are too much, of 500");
        assert_eq!(period(&mut background, 8, 105, 60), 106);
        assert_eq!(period(&mut background, 9, 106, 100), 110, "at most a 32nd more");
        assert_eq!(period(&mut background, 10, 50, 60), 110, "it was not the limit");
        background.is_durable(at_ms(5501), left(0));
        assert_eq!(background.speed / 8 / 1000, 110, "too short a period");
    }

    #[test]
    fn an_fsync_in_time_reduces_the_speed_by_a_sixteenth_at_most() {
        let mut background = Background::default();
        period(&mut background, 0, 100, 0);
        assert_eq!(period(&mut background, 1, 100, 19), 150);
        let fsync = Returned { deadline: Span::from_millis(400), left: Span::from_millis(100) };
        assert_eq!(period_until(&mut background, 2, 150, fsync), 140, "not by 10%, half of 100 ms of 500");
    }
}
