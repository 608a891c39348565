//! The accounts of transactions, and the division of a transaction's I/O among them.

use std::collections::BTreeMap;

use super::owner::Transaction;

/// How many transactions of a device are remembered: metadata of older ones is no longer written.
const REMEMBERED: usize = 8192;

/// For each transaction, the blocks that each account dirtied.
#[derive(Default)]
pub(super) struct Shares {
    /// By device, as the oldest transaction of a device gives way to a new one of the same device.
    devices: BTreeMap<u32, BTreeMap<u32, Vec<(u64, u64)>>>,
}

impl Shares {
    /// Sets an account's blocks, which only grow.
    pub(super) fn set(&mut self, transaction: Transaction, account: u64, blocks: u64) {
        let transactions = self.devices.entry(transaction.device).or_default();
        let accounts = transactions.entry(transaction.number).or_default();
        match accounts.iter_mut().find(|(known, _)| *known == account) {
            Some((_, known)) => *known = blocks.max(*known),
            None => accounts.push((account, blocks)),
        }
        if transactions.len() > REMEMBERED {
            transactions.pop_first();
        }
    }

    /// Adds to an account's blocks.
    pub(super) fn add(&mut self, transaction: Transaction, account: u64, blocks: u64) {
        let accounts = self.devices.get(&transaction.device).and_then(|all| all.get(&transaction.number));
        let known = accounts.and_then(|accounts| {
            accounts.iter().find(|(known, _)| *known == account).map(|(_, blocks)| *blocks)
        });
        self.set(transaction, account, known.unwrap_or(0) + blocks);
    }

    /// The accounts that take part in a transaction.
    pub(super) fn accounts(&self, transaction: Transaction) -> Vec<u32> {
        self.of(transaction).iter().map(|&(account, _)| account as u32).collect()
    }

    /// The account with the most blocks in a transaction.
    pub(super) fn greatest(&self, transaction: Transaction) -> Option<u32> {
        self.of(transaction).iter().max_by_key(|(_, blocks)| *blocks).map(|&(account, _)| account as u32)
    }

    /// The accounts of a transaction. A transaction in which no account took part continues the one before, as the kernel writes
    /// what that one left; if there is none before, the one after it has started early.
    fn of(&self, transaction: Transaction) -> &[(u64, u64)] {
        let Some(transactions) = self.devices.get(&transaction.device) else { return &[] };
        let before = transactions.range(..=transaction.number).next_back();
        let after = || transactions.range(transaction.number..).next();
        before.or_else(after).map_or(&[], |(_, accounts)| accounts)
    }

    /// Divides an amount among the accounts of a transaction: exactly, the remainder goes to the greatest. Empty without a known account.
    pub(super) fn divide(&self, transaction: Transaction, amount: u64) -> Vec<(u64, u64)> {
        let accounts = self.of(transaction);
        let sum: u128 = accounts.iter().map(|&(_, blocks)| u128::from(blocks)).sum();
        if sum == 0 {
            return Vec::new();
        }
        let part = |blocks: u64| (u128::from(amount) * u128::from(blocks) / sum) as u64;
        let mut parts: Vec<_> = accounts.iter().map(|&(account, blocks)| (account, part(blocks))).collect();
        let rest = amount - parts.iter().map(|&(_, part)| part).sum::<u64>();
        if let Some((_, most)) = parts.iter_mut().max_by_key(|(_, part)| *part) {
            *most += rest;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn transaction(number: u32) -> Transaction {
        Transaction { device: 7 << 20, number }
    }

    #[test]
    fn a_journal_is_divided_by_blocks_to_the_last_byte() {
        let mut shares = Shares::default();
        shares.set(transaction(4), 1, 1);
        shares.set(transaction(4), 2, 2);
        assert_eq!(shares.divide(transaction(4), 100), [(1, 33), (2, 67)]);
        shares.set(transaction(4), 1, 2);
        assert_eq!(shares.divide(transaction(4), 100), [(1, 50), (2, 50)]);
    }

    #[test]
    fn a_transaction_without_accounts_belongs_to_the_previous_one() {
        let mut shares = Shares::default();
        shares.set(transaction(4), 1, 1);
        shares.set(transaction(6), 2, 1);
        assert_eq!(shares.divide(transaction(5), 8), [(1, 8)]);
        assert_eq!(shares.divide(transaction(3), 8), [(1, 8)]);
        assert_eq!(shares.divide(transaction(9), 8), [(2, 8)]);
        let other = Transaction { device: 8, number: 4 };
        assert_eq!(shares.divide(other, 8), []);
    }

    #[test]
    fn many_transactions_of_one_device_leave_those_of_another() {
        let mut shares = Shares::default();
        let other = Transaction { device: 6 << 20, number: 1 };
        shares.set(other, 1, 1);
        (0..=REMEMBERED as u32).for_each(|number| shares.set(transaction(number), 2, 1));
        assert_eq!(shares.divide(other, 8), [(1, 8)]);
        shares.set(Transaction { number: 2, ..other }, 3, 1);
        assert_eq!(shares.divide(Transaction { number: 2, ..other }, 8), [(3, 8)]);
        assert_eq!(shares.divide(transaction(0), 8), [(2, 8)], "its successor's, as it is forgotten");
        assert!(!shares.devices[&(7 << 20)].contains_key(&0));
    }
}
