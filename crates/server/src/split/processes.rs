//! The accounts of processes.

use std::collections::{HashMap, VecDeque};
use std::fs;

use elevator::split::Account;
use elevator::{Span, Time};

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
    /// Processes that no agent has reported, with the account of their nearest reported ancestor: a child that only reads makes no call of which
    /// an agent learns.
    found: HashMap<u32, Option<Account>>,
    since: Time,
}

impl Processes {
    /// An agent reported a process; returns whether it was of another account before, or of none.
    pub(super) fn add(&mut self, process: u32, account: Account) -> bool {
        let is_new = self.reported.insert(process, account) != Some(account);
        if is_new {
            self.found.clear();
        }
        is_new
    }

    /// The processes of an agent that ended.
    pub(super) fn leave(&mut self, now: Time, processes: &[u32], account: Account) {
        self.left.extend(processes.iter().map(|&process| (now, process, account)));
    }

    /// Time passes: forgets processes that left long ago, unless another agent has one of that number.
    pub(super) fn pass(&mut self, now: Time, is_in_use: impl Fn(u32) -> bool) {
        while let Some(&(at, process, account)) = self.left.front()
            && now.since(at) > REMEMBERED
        {
            self.left.pop_front();
            if self.reported.get(&process) == Some(&account) && !is_in_use(process) {
                self.reported.remove(&process);
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
        self.left.retain(|(_, _, of)| *of != account);
        self.found.clear();
    }

    /// The account of a process, if it or an ancestor has one.
    pub(super) fn account(&mut self, process: u32) -> Option<Account> {
        if self.reported.is_empty() {
            return None;
        }
        if let Some(&account) = self.reported.get(&process) {
            return Some(account);
        }
        if let Some(&found) = self.found.get(&process) {
            return found;
        }
        let mut ancestor = Some(process);
        let mut account = None;
        for _ in 0..GENERATIONS {
            ancestor = ancestor.and_then(parent);
            account = ancestor.and_then(|ancestor| self.reported.get(&ancestor)).copied();
            if ancestor.is_none() || account.is_some() {
                break;
            }
        }
        self.found.insert(process, account);
        account
    }
}

/// The parent of a process; `None` for the first one, and for one that has ended.
fn parent(process: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before may contain anything.
    let parent = text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    (parent > 1).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKUP: Account = Account(3);

    #[test]
    fn a_child_belongs_to_the_account_of_its_nearest_reported_ancestor() {
        let mut processes = Processes::default();
        let (own, parent) = (std::process::id(), parent(std::process::id()).expect("the test has a parent"));
        assert_eq!(processes.account(own), None);
        assert!(processes.add(parent, BACKUP) && !processes.add(parent, BACKUP));
        assert_eq!((processes.account(parent), processes.account(own)), (Some(BACKUP), Some(BACKUP)));
        processes.add(own, Account(4));
        assert_eq!(processes.account(own), Some(Account(4)));
    }

    #[test]
    fn processes_of_an_ended_agent_are_forgotten_after_two_minutes() {
        let mut processes = Processes::default();
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        // Numbers that no process has.
        let [gone, kept] = [u32::MAX - 1, u32::MAX];
        processes.add(gone, BACKUP);
        processes.add(kept, BACKUP);
        processes.leave(at(0), &[gone, kept], BACKUP);
        processes.pass(at(100), |_| false);
        assert_eq!(processes.account(gone), Some(BACKUP));
        processes.pass(at(121), |process| process == kept);
        assert_eq!((processes.account(gone), processes.account(kept)), (None, Some(BACKUP)));
        processes.forget(BACKUP);
        assert_eq!(processes.account(kept), None);
    }
}
