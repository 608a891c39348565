//! Trials: measures whether the array is faster with or without waiting.
//!
//! The inequality judges each wait, and a broken stream shows that one wait was useless. Neither shows whether waiting increases the
//! throughput of the array. With one slow disk, for example, a reader's next request may be queued before the last one is served; no wait is
//! needed, and slices only move the head away. The first sign of this is a stream that breaks in service. From then on, the array
//! occasionally does not wait for a *period*, and compares the throughput (bytes per busy time) of the two *conducts*. It keeps the faster
//! one. The time until the loser's next trial doubles with each loss. A trial with less than half the rate ends early, and its next
//! repetition is later.

use core::ops::AddAssign;

use elevator::{Sectors, Span, Time};

use super::Tunables;

/// The maximum number of periods until a losing conduct is tried again: half a minute by default.
const PATIENCE_MAX: u64 = 32;

/// How the array treats streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Conduct {
    /// It serves them.
    Waits,
    /// Its members dispatch their policies' candidates at once.
    AtOnce,
}

impl Conduct {
    const fn other(self) -> Self {
        match self {
            Self::Waits => Self::AtOnce,
            Self::AtOnce => Self::Waits,
        }
    }
}

/// The work done, and the time with requests to do.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Account {
    pub(super) sectors: u64,
    pub(super) busy: Span,
}

impl Account {
    /// Whether its rate exceeds `percent` of another's.
    pub(super) fn exceeds(self, percent: u64, of: Self) -> bool {
        let product = |sectors: u64, busy: Span, by: u64| {
            u128::from(sectors) * u128::from(busy.as_nanos()) * u128::from(by)
        };
        product(self.sectors, of.busy, 100) > product(of.sectors, self.busy, percent)
    }
}

impl AddAssign for Account {
    fn add_assign(&mut self, other: Self) {
        self.sectors += other.sectors;
        self.busy += other.busy;
    }
}

/// Trials; the first begins when a stream breaks.
#[derive(Debug)]
pub(super) struct Trials {
    conduct: Conduct,
    /// Begin and end of the current period; `None` before the first trial.
    stay: Option<(Time, Time)>,
    /// The measurement since then.
    account: Account,
    /// The measurement since the array exists.
    total: Account,
    /// The other conduct's measurement, if this one is its challenger.
    incumbent: Option<Account>,
    /// The number of periods for which the next winner stays.
    patience: u64,
    /// The array's unfinished requests, and since when there are some, or none.
    unfinished: u32,
    since: Time,
}

impl Trials {
    pub(super) const fn new() -> Self {
        Self {
            conduct: Conduct::Waits,
            stay: None,
            account: Account { sectors: 0, busy: Span::ZERO },
            total: Account { sectors: 0, busy: Span::ZERO },
            incumbent: None,
            patience: 1,
            unfinished: 0,
            since: Time::ZERO,
        }
    }

    pub(super) const fn conduct(&self) -> Conduct {
        self.conduct
    }

    /// When the conduct is to be changed or confirmed.
    pub(super) fn next_event(&self) -> Option<Time> {
        self.stay.map(|(_, until)| until).filter(|_| self.unfinished > 0)
    }

    /// A request arrived at the array. After an idle period, earlier measurements may no longer hold.
    pub(super) fn arrived(&mut self, now: Time, tunables: &Tunables) {
        if self.unfinished == 0 {
            if now.since(self.since) >= period(tunables) {
                *self = Self { total: self.total, ..Self::new() };
            }
            self.since = now;
        }
        self.unfinished += 1;
    }

    /// A request is done.
    pub(super) fn completed(&mut self, now: Time, sectors: Sectors) {
        self.account.sectors += u64::from(sectors.0);
        self.total.sectors += u64::from(sectors.0);
        self.count_busy(now);
        self.unfinished -= 1;
    }

    fn count_busy(&mut self, now: Time) {
        if self.unfinished > 0 {
            self.account.busy += now.since(self.since);
            self.total.busy += now.since(self.since);
            self.since = now;
        }
    }

    /// The array's work so far.
    pub(super) fn total(&mut self, now: Time) -> Account {
        self.count_busy(now);
        self.total
    }

    /// A stream broke: a trial may begin.
    pub(super) fn begin(&mut self, now: Time, tunables: &Tunables) {
        if tunables.trial_slices > 0 && self.stay.is_none() {
            self.take_up(now, self.conduct, period(tunables));
        }
    }

    /// Time passed, or a request completed: the conduct may change.
    pub(super) fn pass(&mut self, now: Time, tunables: &Tunables) {
        let Some((from, until)) = self.stay else { return };
        self.count_busy(now);
        match self.incumbent {
            None if now < until => {}
            // Too little work to compare.
            None if self.account.busy * 2 < until.since(from) => {
                self.take_up(now, self.conduct, period(tunables));
            }
            None => {
                let account = self.account;
                self.take_up(now, self.conduct.other(), period(tunables));
                self.incumbent = Some(account);
            }
            Some(incumbent) if self.is_hopeless(now.since(from), incumbent, tunables) => {
                self.decide(now, false, 4, tunables);
            }
            Some(_) if now < until => {}
            Some(incumbent) => {
                let wins = self.account.exceeds(100 + tunables.trial_margin, incumbent);
                self.decide(now, wins, 2, tunables);
            }
        }
    }

    /// A challenger with less than half the rate after one slice is abandoned before the period ends.
    fn is_hopeless(&self, for_: Span, incumbent: Account, tunables: &Tunables) -> bool {
        for_ >= tunables.stream_time_slice && !self.account.exceeds(50, incumbent)
    }

    fn decide(&mut self, now: Time, challenger_wins: bool, lose_patience: u64, tunables: &Tunables) {
        let winner = if challenger_wins { self.conduct } else { self.conduct.other() };
        self.patience = if challenger_wins { 1 } else { (self.patience * lose_patience).min(PATIENCE_MAX) };
        self.take_up(now, winner, period(tunables) * self.patience);
    }

    fn take_up(&mut self, now: Time, conduct: Conduct, for_: Span) {
        self.conduct = conduct;
        self.stay = Some((now, now + for_));
        (self.account, self.incumbent) = (Account::default(), None);
    }
}

fn period(tunables: &Tunables) -> Span {
    tunables.stream_time_slice * tunables.trial_slices.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Span {
        Span::from_millis(ms)
    }

    /// An array that is always busy, with a rate in sectors per millisecond for each conduct.
    struct Busy {
        trials: Trials,
        tunables: Tunables,
        now: Time,
        waiting: u32,
        at_once: u32,
    }

    impl Busy {
        fn new(waiting: u32, at_once: u32) -> Self {
            let (trials, tunables) = (Trials::new(), Tunables { trial_slices: 8, ..Tunables::default() });
            let mut busy = Self { trials, tunables, now: Time::ZERO, waiting, at_once };
            busy.trials.arrived(busy.now, &busy.tunables);
            busy.trials.begin(busy.now, &busy.tunables);
            busy
        }

        /// Milliseconds until the conduct changes; `None` if it does not within a minute.
        fn changes_after(&mut self) -> Option<u64> {
            let was = self.trials.conduct();
            (1..60_000).find(|_| {
                let sectors = if was == Conduct::Waits { self.waiting } else { self.at_once };
                self.now += ms(1);
                self.trials.arrived(self.now, &self.tunables);
                self.trials.completed(self.now, Sectors(sectors));
                self.trials.pass(self.now, &self.tunables);
                self.trials.conduct() != was
            })
        }
    }

    /// Eight slices of 124 ms.
    const PERIOD: u64 = 992;

    #[test]
    fn a_slightly_worse_conduct_is_tried_less_and_less_often() {
        let mut busy = Busy::new(100, 90);
        let stays: [u64; 4] = [1, 2, 4, 8];
        for stay in stays {
            assert_eq!(busy.changes_after(), Some(stay * PERIOD), "waiting");
            assert_eq!(busy.changes_after(), Some(PERIOD), "its trial");
        }
    }

    #[test]
    fn a_gain_below_the_margin_does_not_change_the_conduct() {
        let mut busy = Busy::new(100, 109);
        assert_eq!((busy.changes_after(), busy.changes_after()), (Some(PERIOD), Some(PERIOD)));
        assert_eq!(busy.trials.conduct(), Conduct::Waits);
    }

    #[test]
    fn a_gain_above_the_margin_changes_the_conduct_and_waiting_is_tried_again() {
        let mut busy = Busy::new(100, 120);
        assert_eq!(busy.changes_after(), Some(PERIOD));
        assert_eq!(busy.changes_after(), Some(2 * PERIOD), "its trial, and then it stays for a period");
        assert_eq!(busy.trials.conduct(), Conduct::Waits);
        assert_eq!(busy.changes_after(), Some(PERIOD));
        assert_eq!(busy.changes_after(), Some(2 * PERIOD), "after which waiting is tried half as often");
    }

    #[test]
    fn a_hopeless_trial_ends_early_and_is_not_repeated_soon() {
        let mut busy = Busy::new(100, 40);
        assert_eq!(busy.changes_after(), Some(PERIOD));
        for stay in [4, 16, 32, 32] {
            assert_eq!(busy.changes_after(), Some(124), "a slice");
            assert_eq!(busy.changes_after(), Some(stay * PERIOD), "waiting");
        }
    }

    #[test]
    fn without_trial_slices_there_are_no_trials() {
        let mut busy = Busy::new(100, 200);
        (busy.trials, busy.tunables.trial_slices) = (Trials::new(), 0);
        busy.trials.arrived(busy.now, &busy.tunables);
        busy.trials.begin(busy.now, &busy.tunables);
        assert_eq!(busy.changes_after(), None);
    }

    #[test]
    fn measurements_restart_after_idle_time_and_an_idle_array_has_no_event() {
        let mut busy = Busy::new(100, 120);
        busy.changes_after();
        assert_eq!(busy.trials.conduct(), Conduct::AtOnce);
        busy.trials.completed(busy.now, Sectors(1));
        assert_eq!(busy.trials.next_event(), None);
        busy.now += ms(PERIOD);
        let total = busy.trials.total(busy.now).sectors;
        busy.trials.arrived(busy.now, &busy.tunables);
        assert_eq!(busy.trials.total(busy.now).sectors, total, "which is that of the array");
        assert_eq!((busy.trials.conduct(), busy.trials.next_event()), (Conduct::Waits, None));
    }

    #[test]
    fn a_period_with_work_for_less_than_half_of_it_is_not_compared() {
        for (worked, conduct) in [(PERIOD / 2 - 1, Conduct::Waits), (PERIOD / 2, Conduct::AtOnce)] {
            let mut busy = Busy::new(100, 120);
            busy.trials.completed(busy.now + ms(worked - 1), Sectors(1000));
            busy.now += ms(PERIOD - 1);
            busy.trials.arrived(busy.now, &busy.tunables);
            busy.now += ms(1);
            busy.trials.pass(busy.now, &busy.tunables);
            assert_eq!(busy.trials.conduct(), conduct, "it was busy for {worked} of {PERIOD} ms");
            assert_eq!(busy.trials.next_event(), Some(busy.now + ms(PERIOD)));
        }
    }

    #[test]
    fn equal_rates_exceed_each_other_by_less_than_nothing() {
        let (account, twice) =
            (Account { sectors: 300, busy: ms(10) }, Account { sectors: 600, busy: ms(20) });
        assert!(account.exceeds(99, twice) && !account.exceeds(100, twice));
    }
}
