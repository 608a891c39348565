//! Stride scheduling: what each account has had, over its share, and who counts.

use alloc::vec::Vec;

use elevator::{Priority, PriorityClass};

/// Service counts pages times this over the share, so that shares from 1 to 8 divide it.
pub(super) const STRIDE: i64 = 840;
const PAGE: i64 = 4096;

/// An account's part.
struct Member {
    share: i64,
    /// Cost over share; comparable between accounts.
    service: i64,
    /// Why it is active: calls, dirty pages, requests queued and in flight.
    pending: u64,
}

/// All accounts, by place.
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
    /// There are so many accounts now. Newcomers begin where the least served one is.
    pub(super) fn grow(&mut self, accounts: usize) {
        let service = self.floor();
        while self.members.len() < accounts {
            self.members.push(Member { share: share(Priority::default()), service, pending: 0 });
        }
    }

    /// An account's priority is this from now on.
    pub(super) fn agree(&mut self, place: usize, priority: Priority) {
        self.members[place].share = share(priority);
    }

    /// An account had so many bytes' worth, or is given them back.
    pub(super) fn charge(&mut self, place: usize, bytes: i64) {
        let member = &mut self.members[place];
        member.service += bytes * STRIDE / PAGE / member.share;
    }

    /// What an account has had, over its share.
    pub(super) fn service(&self, place: usize) -> i64 {
        self.members[place].service
    }

    /// How far it is above the least served active account.
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

    /// One more reason for an account to be active. One that comes back has saved up no more than `ahead`: enough not to lose
    /// its turn by the moment between two calls, too little for anybody to be held because somebody woke.
    pub(super) fn begins(&mut self, place: usize, ahead: i64) {
        if self.members[place].pending == 0 {
            let floor = self.floor();
            let member = &mut self.members[place];
            member.service = member.service.max(floor.saturating_sub(ahead));
        }
        self.members[place].pending += 1;
    }

    /// One reason less.
    pub(super) fn ends(&mut self, place: usize) {
        self.members[place].pending -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_comes_back_has_saved_up_no_more_than_others_may_be_ahead() {
        let mut shares = Shares::default();
        shares.grow(2);
        shares.begins(1, 1000);
        shares.charge(1, 4 * PAGE);
        shares.begins(0, 1000);
        assert_eq!((shares.service(0), shares.lead(1)), (0, 4 * STRIDE / 4), "a moment loses nothing");
        shares.ends(0);
        shares.charge(1, 100_000 * PAGE);
        shares.begins(0, 1000);
        assert_eq!(shares.lead(1), 1000);
    }

    #[test]
    fn the_same_work_weighs_eight_times_as_much_on_the_smallest_share() {
        let mut shares = Shares::default();
        shares.grow(2);
        for (place, level) in [(0, 0), (1, 7)] {
            shares.agree(place, Priority { level, ..Priority::default() });
            shares.charge(place, 10 * PAGE);
        }
        assert_eq!(shares.service(1), 8 * shares.service(0));
    }
}
