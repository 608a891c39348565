//! Stride scheduling: the service of each account divided by its share, and the active accounts.

use alloc::vec::Vec;

use elevator::{Priority, PriorityClass};

/// Service counts pages times this over the share, so that shares from 1 to 8 divide it.
pub(super) const STRIDE: i64 = 840;
const PAGE: i64 = 4096;

/// An account's service and activity.
#[derive(Clone)]
struct Member {
    share: i64,
    /// Cost over share; comparable between accounts.
    service: i64,
    /// The number of its calls, dirty pages, and requests queued or in flight; it is active while this is not 0.
    pending: u64,
    /// Whether a program of it runs.
    is_running: bool,
}

/// All accounts, by index.
#[derive(Default)]
pub(super) struct Shares {
    members: Vec<Member>,
}

/// Priority 0 has eight times the share of priority 7; the idle class has the least, the real-time class the most.
const fn share(priority: Priority) -> i64 {
    match priority.class {
        PriorityClass::RealTime => 8,
        PriorityClass::BestEffort => 8 - if priority.level < 8 { priority.level as i64 } else { 7 },
        PriorityClass::Idle => 1,
    }
}

impl Shares {
    /// Sets the number of accounts. New accounts begin with the service of the least served one.
    pub(super) fn grow(&mut self, accounts: usize) {
        let (share, service) = (share(Priority::default()), self.floor());
        let new = Member { share, service, pending: 0, is_running: false };
        self.members.resize(accounts.max(self.members.len()), new);
    }

    /// An account's part of the shares of all accounts with running programs, in percent; `None` if it has none.
    pub(super) fn percent(&self, place: usize) -> Option<u64> {
        let all: i64 = self.members.iter().filter(|of| of.is_running).map(|member| member.share).sum();
        let member = &self.members[place];
        member.is_running.then(|| (member.share * 100 / all).unsigned_abs())
    }

    /// Sets an account's priority from now on, and whether a program of it runs.
    pub(super) fn agree(&mut self, place: usize, priority: Priority, is_running: bool) {
        self.members[place].share = share(priority);
        self.members[place].is_running = is_running;
    }

    /// The account's number is free for another one, which begins like a new one.
    pub(super) fn forget(&mut self, place: usize) {
        let service = self.floor();
        self.members[place].service = service;
        self.members[place].is_running = false;
    }

    /// Charges an account `bytes` byte equivalents, or refunds them if negative.
    pub(super) fn charge(&mut self, place: usize, bytes: i64) {
        let member = &mut self.members[place];
        member.service += bytes * STRIDE / PAGE / member.share;
    }

    /// An account's service divided by its share.
    pub(super) fn service(&self, place: usize) -> i64 {
        self.members[place].service
    }

    /// Its lead over the least served active account.
    pub(super) fn lead(&self, place: usize) -> i64 {
        self.members[place].service - self.floor()
    }

    /// The service of the least served active account.
    fn floor(&self) -> i64 {
        let active = self.members.iter().filter(|member| member.pending > 0);
        active
            .map(|member| member.service)
            .min()
            .or_else(|| self.members.iter().map(|member| member.service).max())
            .unwrap_or(0)
    }

    /// An account has one more pending operation. A returning account has saved at most `ahead`: enough not to lose
    /// its turn between two calls, and too little to hold other accounts because one woke up.
    pub(super) fn begins(&mut self, place: usize, ahead: i64) {
        if self.members[place].pending == 0 {
            let floor = self.floor();
            let member = &mut self.members[place];
            member.service = member.service.max(floor.saturating_sub(ahead));
        }
        self.members[place].pending += 1;
    }

    /// No account has saved more than this service: what the device was not asked for is not saved.
    pub(super) fn raise(&mut self, least: i64) {
        for member in &mut self.members {
            member.service = member.service.max(least);
        }
    }

    /// An account has one pending operation less.
    pub(super) fn ends(&mut self, place: usize) {
        self.members[place].pending -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returning_account_has_saved_at_most_ahead() {
        let mut shares = Shares::default();
        shares.grow(2);
        shares.begins(1, 1000);
        shares.charge(1, 4 * PAGE);
        shares.begins(0, 1000);
        assert_eq!((shares.service(0), shares.lead(1)), (0, 4 * STRIDE / 4), "a short pause loses nothing");
        shares.ends(0);
        shares.charge(1, 100_000 * PAGE);
        shares.begins(0, 1000);
        assert_eq!(shares.lead(1), 1000);
    }

    #[test]
    fn ended_accounts_have_no_part_of_the_shares() {
        let mut shares = Shares::default();
        shares.grow(4);
        for (place, level) in [(0, 4), (1, 0), (2, 4)] {
            shares.agree(place, Priority { level, ..Priority::default() }, place != 2);
        }
        assert_eq!([0, 1, 2, 3].map(|place| shares.percent(place)), [Some(33), Some(66), None, None]);
        shares.begins(0, 1000);
        shares.charge(1, 100 * PAGE);
        shares.forget(1);
        assert_eq!((shares.service(1), shares.percent(1)), (shares.service(0), None));
    }

    #[test]
    fn the_same_work_weighs_eight_times_as_much_on_the_smallest_share() {
        let mut shares = Shares::default();
        shares.grow(2);
        for (place, level) in [(0, 0), (1, 7)] {
            shares.agree(place, Priority { level, ..Priority::default() }, true);
            shares.charge(place, 10 * PAGE);
        }
        assert_eq!(shares.service(1), 8 * shares.service(0));
    }
}
