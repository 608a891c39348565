//! Sets of accounts, once each.

use std::collections::HashMap;

use elevator::CauseSet;
use elevator::split::Account;

/// Every set of causes so far: equal sets have equal numbers.
#[derive(Default)]
pub(super) struct Sets {
    sets: Vec<Vec<Account>>,
    numbers: HashMap<Vec<Account>, CauseSet>,
}

impl Sets {
    /// The set of these accounts; `None` for none.
    pub(super) fn of(&mut self, accounts: impl IntoIterator<Item = Account>) -> Option<CauseSet> {
        let mut members: Vec<Account> = accounts.into_iter().collect();
        members.sort_unstable();
        members.dedup();
        if members.is_empty() {
            return None;
        }
        if let Some(&known) = self.numbers.get(&members) {
            return Some(known);
        }
        let number = CauseSet(self.sets.len() as u32);
        self.sets.push(members.clone());
        self.numbers.insert(members, number);
        Some(number)
    }

    /// The accounts of a set.
    pub(super) fn members(&self, set: CauseSet) -> &[Account] {
        self.sets.get(set.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// The sets from the n-th on.
    pub(super) fn since(&self, n: usize) -> impl Iterator<Item = (CauseSet, &[Account])> {
        self.sets.iter().enumerate().skip(n).map(|(at, set)| (CauseSet(at as u32), set.as_slice()))
    }

    pub(super) fn count(&self) -> usize {
        self.sets.len()
    }
}
