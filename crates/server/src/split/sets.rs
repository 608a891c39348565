//! Sets of accounts, in which one may have several parts.

use std::collections::{BTreeMap, HashMap};

use elevator::CauseSet;
use elevator::split::Account;

/// Parts of a request in which its bytes are divided among accounts: an account has at most this share of it too much.
const PARTS: u64 = 64;

/// More accounts than these have equal parts, so that the number of sets is limited.
const WITH_PARTS: usize = 8;

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
        self.number(members)
    }

    /// A set in which accounts have parts of a request according to their bytes. An account with few bytes has a part, too: a page of its own is
    /// refunded when it is written.
    pub(super) fn by_bytes(&mut self, bytes: &BTreeMap<Account, u64>) -> Option<CauseSet> {
        let all: u64 = bytes.values().sum();
        if all == 0 || bytes.len() > WITH_PARTS {
            return self.of(bytes.keys().copied());
        }
        let parts = |of: u64| (of * PARTS).div_ceil(all).max(1);
        let common = bytes.values().fold(0, |common, &of| divisor(common, parts(of)));
        let members = bytes
            .iter()
            .flat_map(|(&account, &of)| std::iter::repeat_n(account, (parts(of) / common) as usize))
            .collect();
        self.number(members)
    }

    fn number(&mut self, members: Vec<Account>) -> Option<CauseSet> {
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

    /// The accounts of a set, one for each part.
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

/// The greatest common divisor.
const fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_have_parts_according_to_their_bytes() {
        let mut sets = Sets::default();
        let [a, b] = [Account(1), Account(2)];
        let mut parts = |of_a: u64, of_b: u64| {
            let set = sets.by_bytes(&BTreeMap::from([(a, of_a), (b, of_b)])).unwrap();
            let members = sets.members(set);
            (members.iter().filter(|&&member| member == a).count(), members.len())
        };
        assert_eq!((parts(4096, 4096), parts(8192, 4096), parts(4096, 3 * 4096)), ((1, 2), (43, 65), (1, 4)));
        assert_eq!(parts(3 * 4096, 253 * 4096), (1, 65), "not a half");
        assert_eq!(parts(0, 4096), (1, 65));
        assert_eq!(sets.by_bytes(&BTreeMap::from([(a, 1)])), sets.of([a]));
        assert_eq!(sets.by_bytes(&BTreeMap::from([(a, 7), (b, 7)])), sets.of([b, a]));
        let many: BTreeMap<_, _> = (0..20).map(|account| (Account(account), u64::from(account))).collect();
        assert_eq!(sets.by_bytes(&many), sets.of(many.keys().copied()));
        assert_eq!(sets.by_bytes(&BTreeMap::new()), None);
    }
}
