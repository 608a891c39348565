//! The report of the causes of writes, by process or cgroup.

use std::collections::BTreeMap;

use serde::Serialize;

use super::owner::{Class, Owner};
use super::program::Key;
use super::shares::Shares;

/// An amount of I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Amount {
    pub bytes: u64,
    /// Submissions to the device. One with the pages of several accounts counts for each; those of a journal are divided like its
    /// bytes.
    pub requests: u64,
}

/// What an account caused.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Caused {
    /// The name of the process, of the kernel thread, or the path of the cgroup.
    pub name: String,
    /// The number of the process or cgroup. `None` for kernel threads, which are together by name.
    pub id: Option<u64>,
    /// Bytes of pages that it made dirty.
    pub dirtied: u64,
    /// Writes of data.
    pub data: Amount,
    /// Writes of metadata.
    pub metadata: Amount,
    /// Its part of the journal.
    pub journal: Amount,
    /// Reads.
    pub read: Amount,
}

impl Caused {
    /// Bytes written.
    pub const fn written(&self) -> u64 {
        self.data.bytes + self.metadata.bytes + self.journal.bytes
    }

    /// Submissions of writes.
    pub const fn writes(&self) -> u64 {
        self.data.requests + self.metadata.requests + self.journal.requests
    }

    fn add(&mut self, class: Class, amount: Amount) {
        let field = match class {
            Class::Data => &mut self.data,
            Class::Metadata => &mut self.metadata,
            Class::Journal => &mut self.journal,
            Class::Read => &mut self.read,
        };
        field.bytes += amount.bytes;
        field.requests += amount.requests;
    }
}

/// What a thread wrote for others.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Delegated {
    /// The submitter: a process, or kernel threads by name.
    pub submitter: String,
    /// Bytes written for others.
    pub bytes: u64,
    /// The names of the accounts with their bytes, most first.
    pub causes: Vec<(String, u64)>,
}

/// What was seen of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CausesReport {
    /// Bytes written to the device.
    pub written: u64,
    /// Bytes of them whose cause is unknown: written by a kernel thread.
    pub unattributed: u64,
    /// Accounts, by bytes written.
    pub accounts: Vec<Caused>,
    /// Kernel threads whose causes are unknown.
    pub kernel_threads: Vec<Caused>,
    /// Writes that were submitted by others than their causes.
    pub delegated: Vec<Delegated>,
    /// Amounts of I/O that are in none of the sums, as the kernel's table of totals was full.
    pub lost: u64,
}

impl CausesReport {
    /// The part of the written bytes that has a cause; 1 if nothing was written.
    pub fn attributed(&self) -> f64 {
        match self.written {
            0 => 1.0,
            written => 1.0 - self.unattributed as f64 / written as f64,
        }
    }
}

/// An account, or the kernel threads of a name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Row {
    Account(u64),
    Threads(String),
}

/// Sums of I/O by cause, class and submitter; transactions are divided.
#[derive(Default)]
pub(super) struct Sums {
    caused: BTreeMap<Row, Caused>,
    delegated: BTreeMap<String, BTreeMap<Row, u64>>,
}

impl Sums {
    /// Adds I/O. `name` returns the name of a process or thread.
    pub(super) fn add(
        &mut self,
        key: Key,
        [bytes, requests]: [u64; 2],
        shares: &Shares,
        name: &dyn Fn(Owner) -> String,
    ) {
        let parts = match key.owner {
            Owner::Account(account) => vec![(Row::Account(account), Amount { bytes, requests })],
            Owner::KernelThread(_) => vec![(Row::Threads(name(key.owner)), Amount { bytes, requests })],
            Owner::Transaction(transaction) => {
                let (bytes_of, requests_of) =
                    (shares.divide(transaction, bytes), shares.divide(transaction, requests));
                let part = |(&(account, bytes), &(_, requests)): (&(u64, u64), &(u64, u64))| {
                    (Row::Account(account), Amount { bytes, requests })
                };
                let parts: Vec<_> = bytes_of.iter().zip(&requests_of).map(part).collect();
                let submitter = || Row::Threads(name(Owner::KernelThread(key.submitter)));
                if parts.is_empty() { vec![(submitter(), Amount { bytes, requests })] } else { parts }
            }
        };
        for (row, amount) in parts {
            let is_thread = matches!(row, Row::Threads(_));
            self.caused.entry(row.clone()).or_default().add(key.class, amount);
            if key.submitter != 0 && key.class != Class::Read && !is_thread {
                let submitter = name(Owner::KernelThread(key.submitter));
                *self.delegated.entry(submitter).or_default().entry(row).or_default() += amount.bytes;
            }
        }
    }

    pub(super) fn accounts(&self) -> impl Iterator<Item = u64> + '_ {
        self.caused
            .keys()
            .filter_map(|row| if let Row::Account(account) = row { Some(*account) } else { None })
    }

    /// Adds another's sums.
    pub(super) fn merge(&mut self, other: &Self) {
        for (row, caused) in &other.caused {
            let own = self.caused.entry(row.clone()).or_default();
            own.add(Class::Data, caused.data);
            own.add(Class::Metadata, caused.metadata);
            own.add(Class::Journal, caused.journal);
            own.add(Class::Read, caused.read);
        }
        for (submitter, causes) in &other.delegated {
            let own = self.delegated.entry(submitter.clone()).or_default();
            causes.iter().for_each(|(row, bytes)| *own.entry(row.clone()).or_default() += bytes);
        }
    }

    /// The report. `dirtied`: bytes that accounts made dirty; `name` returns the name of an account.
    pub(super) fn report(
        mut self,
        dirtied: &BTreeMap<u64, u64>,
        name: &dyn Fn(u64) -> String,
        lost: u64,
    ) -> CausesReport {
        dirtied.iter().filter(|(_, bytes)| **bytes > 0).for_each(|(account, bytes)| {
            self.caused.entry(Row::Account(*account)).or_default().dirtied = *bytes;
        });
        let named = |row: &Row| match row {
            Row::Account(account) => name(*account),
            Row::Threads(name) => name.clone(),
        };
        let mut report = CausesReport { lost, ..CausesReport::default() };
        for (row, caused) in self.caused {
            let id = if let Row::Account(account) = row { Some(account) } else { None };
            let caused = Caused { name: named(&row), id, ..caused };
            report.written += caused.written();
            match id {
                Some(_) => report.accounts.push(caused),
                None => {
                    report.unattributed += caused.written();
                    report.kernel_threads.push(caused);
                }
            }
        }
        let most = |one: &Caused, other: &Caused| {
            let amount = |of: &Caused| (of.written(), of.dirtied, of.read.bytes);
            amount(other).cmp(&amount(one)).then(one.id.cmp(&other.id))
        };
        report.accounts.sort_by(most);
        report.kernel_threads.sort_by(most);
        for (submitter, causes) in self.delegated {
            let mut causes: Vec<_> = causes.iter().map(|(row, bytes)| (named(row), *bytes)).collect();
            causes.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
            let bytes = causes.iter().map(|(_, bytes)| bytes).sum();
            report.delegated.push(Delegated { submitter, bytes, causes });
        }
        report.delegated.sort_by_key(|delegated| std::cmp::Reverse(delegated.bytes));
        report
    }
}

#[cfg(test)]
mod tests {
    use super::super::owner::Transaction;
    use super::*;

    #[test]
    fn jbd2_and_kworker_are_resolved_to_their_causes() {
        let transaction = Transaction { device: 7 << 20, number: 3 };
        let mut shares = Shares::default();
        shares.set(transaction, 10, 3);
        shares.set(transaction, 20, 1);
        let mut sums = Sums::default();
        let thread = |owner| match owner {
            Owner::KernelThread(5) => "jbd2/loop0-8".to_owned(),
            _ => "kworker".to_owned(),
        };
        let mut add = |owner, class, submitter, bytes| {
            sums.add(Key { owner, class, submitter }, [bytes, 1], &shares, &thread);
        };
        add(Owner::Transaction(transaction), Class::Journal, 5, 4096);
        add(Owner::Account(10), Class::Data, 6, 8192);
        add(Owner::Account(20), Class::Data, 0, 512);
        add(Owner::KernelThread(6), Class::Metadata, 0, 100);
        let report = sums.report(&[(10, 9000)].into(), &|account| format!("process {account}"), 0);
        assert_eq!((report.written, report.unattributed), (4096 + 8192 + 512 + 100, 100));
        let [first, second] = &report.accounts[..] else { panic!("{report:?}") };
        assert_eq!((first.journal.bytes, first.data.bytes, first.dirtied), (3072, 8192, 9000));
        assert_eq!((second.journal.bytes, second.data.bytes), (1024, 512));
        assert_eq!(
            (&*report.kernel_threads[0].name, report.kernel_threads[0].metadata.bytes),
            ("kworker", 100)
        );
        let delegated: Vec<_> = report.delegated.iter().map(|by| (&*by.submitter, by.bytes)).collect();
        assert_eq!(delegated, [("kworker", 8192), ("jbd2/loop0-8", 4096)]);
        assert_eq!(report.delegated[1].causes[0], ("process 10".to_owned(), 3072));
    }

    #[test]
    fn a_transaction_without_accounts_is_unattributed() {
        let mut sums = Sums::default();
        let owner = Owner::Transaction(Transaction { device: 1, number: 1 });
        let key = Key { owner, class: Class::Journal, submitter: 5 };
        sums.add(key, [512, 1], &Shares::default(), &|_| "jbd2".to_owned());
        let report = sums.report(&BTreeMap::new(), &|_| String::new(), 0);
        assert_eq!((report.written, report.unattributed, report.attributed()), (512, 512, 0.0));
    }
}
