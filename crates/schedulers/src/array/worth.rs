//! Whether serving a stream pays: measures the array's throughput with and without a stream in service.
//!
//! The inequality compares a wait with a seek on one disk. It does not see what the other disks could do meanwhile: a program with one small
//! request at a time at random places near each other satisfies it, but while the array serves this program, all disks except one are
//! idle. With `retry_slices` such a stream would be served again and again.
//!
//! Services of a stream that together last for two slices are compared with the array's work without a service: one service can lose half of
//! its slice to a late thread while the heads gather, or be compared with a moment in which the heads were still together. Services that
//! transfer less than the array does without one are a *failure*. After a failure no stream is served that has not paid
//! before: for `retry_slices`, and for four times as long after each further failure in a row. The load is the same for the other
//! streams, so that each need not fail by itself. In that time the throughput without a service is measured anew: the older measurement may
//! be of another load. It is also discarded if the array was idle for as long as it is remembered.

use elevator::{Span, Time};

use super::Tunables;
use super::trial::Account;

/// Busy time of the array without a service after which its older half is forgotten.
const MEMORY: Span = Span::from_secs(2);

/// The shortest work of a stream's services that is judged, in slices.
const LEAST: u64 = 2;

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
    /// Judgements in a row that were failures.
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
        self.without += Account { sectors, busy };
        while self.without.busy > MEMORY {
            self.without = Account { sectors: self.without.sectors / 2, busy: self.without.busy.percent(50) };
        }
    }

    /// A service ends; its work.
    pub(super) fn ends(&mut self, now: Time, total: Account) -> Account {
        self.since_mark(now, total)
    }

    /// Whether the services of a stream that did this work have paid. The next judgement begins anew. `None` if there is too little to compare.
    pub(super) fn judge(&mut self, now: Time, with: &mut Account, tunables: &Tunables) -> Option<bool> {
        let slice = tunables.stream_time_slice;
        if tunables.retry_slices == 0 || self.without.busy < slice || with.busy < slice * LEAST {
            return None;
        }
        let pays = core::mem::take(with).exceeds(100, self.without);
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
        of_stream: Account,
        now: Time,
    }

    impl Busy {
        fn new() -> Self {
            let tunables = Tunables { retry_slices: 4, ..Tunables::default() };
            let (total, of_stream) = (Account::default(), Account::default());
            Self { worth: Worth::default(), tunables, total, of_stream, now: Time::ZERO }
        }

        fn work(&mut self, ms: u64, rate: u64) {
            self.total.sectors += ms * rate;
            self.total.busy += Span::from_millis(ms);
            self.now += Span::from_millis(ms);
        }

        fn serve(&mut self, ms: u64, rate: u64) -> Option<bool> {
            self.worth.begins(self.now, self.total);
            self.work(ms, rate);
            self.of_stream += self.worth.ends(self.now, self.total);
            self.worth.judge(self.now, &mut self.of_stream, &self.tunables)
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
            assert_eq!(busy.serve(248, 9), Some(false));
            assert_eq!(busy.doubtful_for(), Some(slices));
            busy.work(1000, 10);
        }
        assert_eq!(busy.serve(248, 11), Some(true));
        assert_eq!(busy.doubtful_for(), Some(0), "it pays now");
        assert_eq!(busy.serve(248, 9), Some(false));
        assert_eq!(busy.doubtful_for(), Some(4));
    }

    #[test]
    fn the_throughput_without_a_service_is_a_recent_one() {
        let mut busy = Busy::new();
        busy.work(2000, 10);
        assert_eq!(busy.serve(248, 8), Some(false));
        busy.work(20_000, 5);
        assert_eq!(busy.serve(248, 8), Some(true));
    }

    #[test]
    fn a_failure_is_compared_with_what_comes_after_it() {
        let mut busy = Busy::new();
        busy.work(2000, 10);
        assert_eq!(busy.serve(248, 8), Some(false));
        // The load has changed: without a service it is slower than any service was.
        busy.work(4 * 124, 2);
        assert_eq!(busy.serve(248, 8), Some(true));
    }

    #[test]
    fn an_idle_array_forgets_the_former_load() {
        let mut busy = Busy::new();
        busy.work(2000, 10);
        busy.now += MEMORY;
        busy.work(400, 2);
        assert_eq!(busy.serve(248, 8), Some(false), "it was idle for as long as the load is remembered");
        let mut idle = Busy::new();
        idle.work(2000, 10);
        assert_eq!(idle.serve(248, 11), Some(true));
        idle.now += MEMORY + Span::from_nanos(1);
        idle.work(400, 2);
        assert_eq!(idle.serve(248, 8), Some(true));
    }

    #[test]
    fn little_work_proves_nothing() {
        let mut busy = Busy::new();
        busy.work(100, 10);
        assert_eq!(busy.serve(248, 1), None, "less than a slice without a service");
        let mut busy = Busy::new();
        busy.work(124, 10);
        assert_eq!(busy.serve(248, 1), Some(false));
        let mut busy = Busy::new();
        busy.work(1000, 10);
        assert_eq!(busy.serve(247, 1), None, "less than two slices with one");
        assert_eq!(busy.serve(1, 1), Some(false));
        let mut paper = Busy::new();
        paper.tunables.retry_slices = 0;
        paper.work(1000, 10);
        assert_eq!(paper.serve(248, 1), None, "the paper compares nothing");
    }

    #[test]
    fn one_bad_service_among_good_ones_is_no_failure() {
        let mut busy = Busy::new();
        busy.work(1000, 10);
        assert_eq!(busy.serve(100, 1), None, "the heads gathered slowly");
        assert_eq!(busy.serve(148, 100), Some(true));
        assert_eq!(busy.serve(200, 1), None, "each judgement begins anew");
        assert_eq!(busy.serve(48, 1), Some(false));
    }
}
