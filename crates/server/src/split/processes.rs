//! The accounts of processes.

use std::collections::{HashMap, HashSet, VecDeque};

use ::control::process::Stat;
use elevator::split::Account;
use elevator::{Span, Time};

use super::accounts::OTHERS;

/// How long the processes of an ended agent are remembered: longer than data stays dirty by default (30 s) and a transaction open (5 s).
const REMEMBERED: Span = Span::from_secs(120);

/// How long the result of a search among ancestors is remembered: process numbers are reused.
const FOUND: Span = Span::from_secs(1);

/// Ancestors that are searched.
const GENERATIONS: u32 = 16;

/// Which process belongs to which account.
#[derive(Default)]
pub(super) struct Processes {
    /// As agents reported.
    reported: HashMap<u32, Account>,
    /// Processes of agents that ended, and when: the kernel writes what they left, and that is still theirs.
    left: VecDeque<(Time, u32, Account)>,
    /// Processes whose agent has ended: as long as they run, they are limited no longer, and what they do from then on is not their account's.
    freed: HashSet<u32>,
    /// Processes that no agent has reported, with the account of their nearest reported ancestor: a child that only reads makes no call of which
    /// an agent learns.
    found: HashMap<u32, Option<Account>>,
    since: Time,
}

impl Processes {
    /// An agent reported a process.
    pub(super) fn add(&mut self, process: u32, account: Account) {
        self.freed.remove(&process);
        if self.reported.insert(process, account) != Some(account) {
            self.found.clear();
        }
    }

    /// Processes that no agent has any longer.
    pub(super) fn leave(&mut self, now: Time, processes: impl Iterator<Item = u32>, account: Account) {
        for process in processes {
            self.left.push_back((now, process, account));
            self.freed.insert(process);
        }
        self.found.clear();
    }

    /// Time passes: forgets processes that left long ago, unless another agent has one of that number.
    pub(super) fn pass(&mut self, now: Time, is_in_use: impl Fn(u32) -> bool) {
        while let Some(&(at, process, account)) = self.left.front()
            && now.since(at) > REMEMBERED
        {
            self.left.pop_front();
            if self.reported.get(&process) != Some(&account) || is_in_use(process) {
                continue;
            }
            if account == OTHERS && is_running(process) {
                self.left.push_back((now, process, OTHERS));
            } else {
                self.reported.remove(&process);
                self.freed.remove(&process);
            }
        }
        if now.since(self.since) > FOUND {
            self.since = now;
            self.found.clear();
        }
    }

    /// An account is gone.
    pub(super) fn forget(&mut self, account: Account) {
        self.reported.retain(|_, of| *of != account);
        self.freed.retain(|process| self.reported.contains_key(process));
        self.left.retain(|(_, _, of)| *of != account);
        self.found.clear();
    }

    /// The account of a process, if it or an ancestor has one, at `now`. If its agent has ended and it runs, that is `OTHERS` from now on. What a
    /// process left that has ended belongs to its account.
    pub(super) fn account(&mut self, now: Time, process: u32) -> Option<Account> {
        if self.reported.is_empty() {
            return None;
        }
        if let Some(account) = self.reported_account(now, process) {
            return Some(account);
        }
        if let Some(&found) = self.found.get(&process) {
            return found;
        }
        let mut ancestor = Some(process);
        let mut account = None;
        for _ in 0..GENERATIONS {
            ancestor = ancestor.and_then(parent);
            account = ancestor.and_then(|ancestor| self.reported_account(now, ancestor));
            if ancestor.is_none() || account.is_some() {
                break;
            }
        }
        self.found.insert(process, account);
        account
    }

    fn reported_account(&mut self, now: Time, process: u32) -> Option<Account> {
        let account = self.reported.get_mut(&process)?;
        if *account != OTHERS && self.freed.contains(&process) && is_running(process) {
            *account = OTHERS;
            self.left.push_back((now, process, OTHERS));
        }
        Some(*account)
    }
}

fn is_running(process: u32) -> bool {
    Stat::of(process).is_some_and(|stat| stat.runs())
}

/// The parent of a process; `None` for the first one, and for one that has ended.
fn parent(process: u32) -> Option<u32> {
    Stat::of(process)?.parent().filter(|&parent| parent > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKUP: Account = Account(3);

    #[test]
    fn a_child_belongs_to_the_account_of_its_nearest_reported_ancestor() {
        let mut processes = Processes::default();
        let (own, parent) = (std::process::id(), parent(std::process::id()).expect("the test has a parent"));
        assert_eq!(processes.account(Time::ZERO, own), None);
        processes.add(parent, BACKUP);
        assert_eq!(
            (processes.account(Time::ZERO, parent), processes.account(Time::ZERO, own)),
            (Some(BACKUP), Some(BACKUP))
        );
        processes.add(own, Account(4));
        assert_eq!(processes.account(Time::ZERO, own), Some(Account(4)));
    }

    #[test]
    fn processes_of_an_ended_agent_are_forgotten_after_two_minutes() {
        let mut processes = Processes::default();
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        // Numbers that no process has.
        let [gone, kept] = [u32::MAX - 1, u32::MAX];
        processes.add(gone, BACKUP);
        processes.add(kept, BACKUP);
        processes.leave(at(0), [gone, kept].into_iter(), BACKUP);
        processes.pass(at(100), |_| false);
        assert_eq!(processes.account(Time::ZERO, gone), Some(BACKUP));
        processes.pass(at(121), |process| process == kept);
        assert_eq!(
            (processes.account(Time::ZERO, gone), processes.account(Time::ZERO, kept)),
            (None, Some(BACKUP))
        );
        processes.forget(BACKUP);
        assert_eq!(processes.account(Time::ZERO, kept), None);
    }

    #[test]
    fn what_a_process_does_after_the_end_of_its_agent_is_not_its_accounts() {
        let mut processes = Processes::default();
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        let (own, parent) = (std::process::id(), parent(std::process::id()).expect("the test has a parent"));
        processes.add(parent, BACKUP);
        processes.add(u32::MAX, BACKUP);
        assert_eq!(processes.account(at(0), own), Some(BACKUP));
        processes.leave(at(0), [parent, u32::MAX].into_iter(), BACKUP);
        assert_eq!(processes.account(at(1), own), Some(OTHERS), "its parent runs without limits");
        assert_eq!(processes.account(at(1), parent), Some(OTHERS));
        assert_eq!(
            processes.account(at(1), u32::MAX),
            Some(BACKUP),
            "it has ended; its data is still its own"
        );
        processes.pass(at(1000), |_| false);
        processes.pass(at(2000), |_| false);
        assert_eq!(processes.account(at(2000), parent), Some(OTHERS), "it still runs");
        processes.add(parent, BACKUP);
        assert_eq!(processes.account(at(2001), own), Some(BACKUP), "another agent has joined it");
    }
}
