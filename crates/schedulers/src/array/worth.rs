//! Whether serving a stream pays: measures the array's throughput with and without a stream in service.
//!
//! The inequality compares a wait with a seek on one disk. It does not see what the other disks could do meanwhile: a program with one small
//! request at a time at random places near each other satisfies it, but while the array serves this program, all disks except one are
//! idle. With `retry_slices` such a stream would be served again and again.
//!
//! A service that transfers less than the array does without one is a *failure*. After a failure no stream is served that has not paid
//! before: for `retry_slices`, and for four times as long after each further failure in a row. The load is the same for the other
//! streams, so that each need not fail by itself. In that time the throughput without a service is measured anew: the older measurement may
//! be of another load. It is also discarded if the array was idle for as long as it is remembered.

use elevator::{Span, Time};

use super::Tunables;
use super::trial::Account;

/// Busy time of the array without a service after which its older half is forgotten.
const MEMORY: Span = Span::from_secs(2);

/// The shortest service that is judged, as a share of a slice.
const LEAST: u64 = 10;

/// The longest time without a service, in slices: half a minute by default.
const LONGEST: u64 = 256;

/// The measurement.
#[derive(Default)]
pub(super) struct Worth {
    /// The array's work without a service.
    without: Account,
    /// Its total work when a service began or ended last, and when that was.
    mark: Account,
    marked: Time,
    /// Services in a row that failed.
    failures: u32,
    /// Until when only streams are served that have paid.
    until: Option<Time>,
}

impl Worth {
    /// The work since the mark, which moves.
    fn since_mark(&mut self, now: Time, total: Account) -> Account {
        let mark = core::mem::replace(&mut self.mark, total);
        self.marked = now;
        Account { sectors: total.sectors - mark.sectors, busy: total.busy - mark.busy }
    }

    /// A service begins.
    pub(super) fn begins(&mut self, now: Time, total: Account) {
        let elapsed = now.since(self.marked);
        let Account { sectors, busy } = self.since_mark(now, total);
        if elapsed.saturating_sub(busy) > MEMORY {
            self.without = Account::default();
        }
        self.without = Account { sectors: self.without.sectors + sectors, busy: self.without.busy + busy };
        while self.without.busy > MEMORY {
            self.without = Account { sectors: self.without.sectors / 2, busy: self.without.busy.percent(50) };
        }
    }

    /// A service ends: whether it has paid. `None` if there is too little to compare with.
    pub(super) fn ends(&mut self, now: Time, total: Account, tunables: &Tunables) -> Option<bool> {
        let with = self.since_mark(now, total);
        let slice = tunables.stream_time_slice;
        if tunables.retry_slices == 0 || self.without.busy < slice || with.busy < slice.percent(LEAST) {
            return None;
        }
        let pays = with.exceeds(100, self.without);
        if pays {
            (self.failures, self.until) = (0, None);
        } else {
            let slices = (tunables.retry_slices << (2 * self.failures).min(32)).min(LONGEST);
            self.failures += 1;
            self.without = Account::default();
            self.until = Some(now + slice * slices);
        }
        Some(pays)
    }

    /// Whether only streams may be served that have paid.
    pub(super) fn is_doubtful(&self, now: Time) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An array that is always busy, with a rate in sectors per millisecond.
    struct Busy {
        worth: Worth,
        tunables: Tunables,
        total: Account,
        now: Time,
    }

    impl Busy {
        fn new() -> Self {
            let tunables = Tunables { retry_slices: 4, ..Tunables::default() };
            Self { worth: Worth::default(), tunables, total: Account::default(), now: Time::ZERO }
        }

        fn work(&mut self, ms: u64, rate: u64) {
            self.total.sectors += ms * rate;
            self.total.busy += Span::from_millis(ms);
            self.now += Span::from_millis(ms);
        }

        fn serve(&mut self, ms: u64, rate: u64) -> Option<bool> {
            self.worth.begins(self.now, self.total);
            self.work(ms, rate);
            self.worth.ends(self.now, self.total, &self.tunables)
        }

        /// For how many slices streams that have not paid are left alone.
        fn doubtful_for(&self) -> Option<u64> {
            (0..1000)
                .find(|&slices| !self.worth.is_doubtful(self.now + self.tunables.stream_time_slice * slices))
        }
    }

    #[test]
    fn services_that_transfer_less_are_tried_less_and_less_often() {
        let mut busy = Busy::new();
        busy.work(1000, 10);
        for slices in [4, 16, 64, 256, 256] {
            assert_eq!(busy.serve(124, 9), Some(false));
            assert_eq!(busy.doubtful_for(), Some(slices));
            busy.work(1000, 10);
        }
        assert_eq!(busy.serve(124, 11), Some(true));
        assert_eq!(busy.doubtful_for(), Some(0), "it pays now");
        assert_eq!(busy.serve(124, 9), Some(false));
        assert_eq!(busy.doubtful_for(), Some(4));
    }

    #[test]
    fn the_throughput_without_a_service_is_a_recent_one() {
        let mut busy = Busy::new();
        busy.work(2000, 10);
        assert_eq!(busy.serve(124, 8), Some(false));
        busy.work(20_000, 5);
        assert_eq!(busy.serve(124, 8), Some(true));
    }

    #[test]
    fn a_failure_is_compared_with_what_comes_after_it() {
        let mut busy = Busy::new();
        busy.work(2000, 10);
        assert_eq!(busy.serve(124, 8), Some(false));
        // The load has changed: without a service it is slower than any service was.
        busy.work(4 * 124, 2);
        assert_eq!(busy.serve(124, 8), Some(true));
    }

    #[test]
    fn an_idle_array_forgets_the_former_load() {
        let mut busy = Busy::new();
        busy.work(2000, 10);
        busy.now += MEMORY;
        busy.work(400, 2);
        assert_eq!(busy.serve(124, 8), Some(false), "it was idle for as long as the load is remembered");
        let mut idle = Busy::new();
        idle.work(2000, 10);
        assert_eq!(idle.serve(124, 11), Some(true));
        idle.now += MEMORY + Span::from_nanos(1);
        idle.work(400, 2);
        assert_eq!(idle.serve(124, 8), Some(true));
    }

    #[test]
    fn little_work_proves_nothing() {
        let mut busy = Busy::new();
        busy.work(100, 10);
        assert_eq!(busy.serve(124, 1), None, "less than a slice without a service");
        busy.work(100, 10);
        assert_eq!(busy.serve(12, 1), None, "less than a tenth of a slice with one");
        assert_eq!(busy.serve(13, 1), Some(false));
        let mut paper = Busy::new();
        paper.tunables.retry_slices = 0;
        paper.work(1000, 10);
        assert_eq!(paper.serve(124, 1), None, "the paper compares nothing");
    }
}
