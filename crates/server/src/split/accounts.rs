//! The accounts and their numbers, which are used again when an account is gone.

use std::ops::{Index, IndexMut};

use ::control::protocol::{AccountState, AccountTerms};
use elevator::split::{Account, Terms};
use elevator::{Priority, PriorityClass, Span, Time};

/// The account of processes that joined none.
pub(super) const OTHERS: Account = Account(0);

/// The most accounts with running programs.
const RUNNING_MAX: usize = 1024;

/// How long an account stays after its last program, until its data is written: a program of the same name that starts meanwhile continues with
/// its debt, and the journal writes within five seconds what it left.
pub(super) const KEPT: Span = Span::from_secs(10);

/// How long an account whose data is not written stays, at most. Metadata of removed files may stay dirty for ever.
pub(super) const KEPT_DIRTY: Span = Span::from_secs(120);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Since then none of its programs runs.
    Ended(Time),
    /// Its number is free.
    Gone,
}

struct Entry {
    state: AccountState,
    phase: Phase,
}

/// All accounts.
pub(super) struct Accounts(Vec<Entry>);

impl Accounts {
    pub(super) fn new() -> Self {
        let state = AccountState { name: "others".to_string(), ..AccountState::default() };
        Self(vec![Entry { state, phase: Phase::Running }])
    }

    /// An agent joins an account; returns its number.
    pub(super) fn join(&mut self, name: String, terms: AccountTerms) -> Result<Account, String> {
        let is_it = |entry: &Entry| entry.phase != Phase::Gone && entry.state.name == name;
        let place = match self.0.iter().position(is_it) {
            Some(0) => return Err(format!("'{name}' is the account of all processes that join none")),
            Some(place) => place,
            None => self.open(name)?,
        };
        let Entry { state, phase } = &mut self.0[place];
        *phase = Phase::Running;
        // A second program of the account without options must not remove the first one's limits.
        state.terms = terms.or(state.terms);
        state.agents += 1;
        Ok(Account(place as u32))
    }

    fn open(&mut self, name: String) -> Result<usize, String> {
        if self.0[1..].iter().filter(|entry| entry.phase == Phase::Running).count() == RUNNING_MAX {
            return Err(format!(
                "programs of {RUNNING_MAX} accounts run already, the most that a server has"
            ));
        }
        let place = self.0.iter().position(|entry| entry.phase == Phase::Gone).unwrap_or(self.0.len());
        let state = AccountState { name, number: place as u32, ..AccountState::default() };
        let entry = Entry { state, phase: Phase::Running };
        if place == self.0.len() {
            self.0.push(entry);
        } else {
            self.0[place] = entry;
        }
        Ok(place)
    }

    /// An agent of an account ended. The terms end with the last one.
    pub(super) fn part(&mut self, now: Time, account: Account) {
        let Entry { state, phase } = &mut self.0[account.0 as usize];
        state.agents -= 1;
        if state.agents == 0 {
            state.terms = AccountTerms::default();
            *phase = Phase::Ended(now);
        }
    }

    /// An account that need not be kept any longer.
    pub(super) fn outdated(&self, now: Time) -> Option<Account> {
        let is_outdated = |entry: &Entry| match entry.phase {
            Phase::Ended(at) => now.since(at) > if entry.state.dirty == 0 { KEPT } else { KEPT_DIRTY },
            Phase::Running | Phase::Gone => false,
        };
        self.0.iter().position(is_outdated).map(|place| Account(place as u32))
    }

    /// Frees an account's number.
    pub(super) fn remove(&mut self, Account(account): Account) {
        self.0[account as usize].phase = Phase::Gone;
    }

    /// Those that are not gone.
    pub(super) fn numbers(&self) -> Vec<Account> {
        let present = self.0.iter().enumerate().filter(|(_, entry)| entry.phase != Phase::Gone);
        present.map(|(place, _)| Account(place as u32)).collect()
    }

    /// Their states.
    pub(super) fn states(&self) -> Vec<AccountState> {
        self.numbers().into_iter().map(|account| self[account].clone()).collect()
    }

    /// No page is known to be dirty.
    pub(super) fn forget_dirty(&mut self) {
        self.0.iter_mut().for_each(|entry| entry.state.dirty = 0);
    }

    /// The terms of an account, as policies have them: a weight of 8 is the highest priority. Without an agent there are none: what its programs
    /// left, such as a read of one that continues, must not wait for tokens.
    pub(super) fn terms(&self, Account(account): Account) -> Terms {
        let Entry { state, phase } = &self.0[account as usize];
        let level = state.terms.weight.map_or(Priority::default().level, |weight| 8 - weight.clamp(1, 8));
        Terms {
            priority: Priority { class: PriorityClass::BestEffort, level },
            rate: state.terms.rate,
            fsync_deadline: state.terms.fsync_deadline_ns.map(Span::from_nanos),
            has_ended: *phase != Phase::Running,
        }
    }
}

impl Index<Account> for Accounts {
    type Output = AccountState;

    fn index(&self, Account(account): Account) -> &AccountState {
        &self.0[account as usize].state
    }
}

impl IndexMut<Account> for Accounts {
    fn index_mut(&mut self, Account(account): Account) -> &mut AccountState {
        &mut self.0[account as usize].state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    fn join(accounts: &mut Accounts, name: &str, rate: Option<u64>) -> Account {
        accounts.join(name.to_owned(), AccountTerms { rate, ..AccountTerms::default() }).unwrap()
    }

    #[test]
    fn an_account_goes_after_its_last_program_and_its_number_is_used_again() {
        let mut accounts = Accounts::new();
        let (web, db) = (join(&mut accounts, "web", Some(5)), join(&mut accounts, "db", None));
        assert_eq!(join(&mut accounts, "web", None), web);
        accounts.part(at(0), web);
        assert_eq!((accounts.terms(web).rate, accounts.outdated(at(1000))), (Some(5), None));
        accounts.part(at(1), web);
        assert!(accounts.terms(web).has_ended && accounts[web].terms == AccountTerms::default());
        assert_eq!(accounts.outdated(at(11)), None);
        assert_eq!(join(&mut accounts, "web", None), web, "its debt is still its own");
        accounts.part(at(20), web);
        assert_eq!(accounts.outdated(at(31)), Some(web));
        accounts.remove(web);
        assert_eq!((accounts.numbers(), accounts.outdated(at(1000))), (vec![OTHERS, db], None));
        accounts[web].caused = 7;
        assert_eq!(join(&mut accounts, "mail", None), web);
        assert_eq!((accounts[web].name.as_str(), accounts[web].caused), ("mail", 0));
        let shown: Vec<_> = accounts.states().into_iter().map(|state| (state.number, state.name)).collect();
        assert_eq!(shown, [(0, "others".to_owned()), (1, "mail".to_owned()), (2, "db".to_owned())]);
    }

    #[test]
    fn an_account_with_dirty_data_stays_for_two_minutes() {
        let mut accounts = Accounts::new();
        let web = join(&mut accounts, "web", None);
        accounts[web].dirty = 4096;
        accounts.part(at(0), web);
        assert_eq!((accounts.outdated(at(119)), accounts.outdated(at(121))), (None, Some(web)));
    }

    #[test]
    fn only_accounts_with_running_programs_are_limited_in_number() {
        let mut accounts = Accounts::new();
        for number in 0..RUNNING_MAX {
            join(&mut accounts, &number.to_string(), None);
        }
        let error = accounts.join("more".to_owned(), AccountTerms::default()).unwrap_err();
        assert!(error.contains("1024 accounts run already"), "{error}");
        accounts.part(at(0), Account(9));
        join(&mut accounts, "more", None);
    }
}
