//! The causes of a device's writes: the processes or cgroups that dirtied the data.
//!
//! A kernel worker writes most data long after the process that caused it made its page dirty, and a journal thread writes the changes of
//! all processes together. [`Causes`] records the process that dirties each page (a BPF program, `bpf/causes.bpf.c`), and charges each write to
//! the accounts that dirtied its pages. Data and metadata are charged by page, the journal by the blocks that each account dirtied in the
//! transaction. This works on any device, under any scheduler.
//!
//! | limit | what happens |
//! |---|---|
//! | pages that were dirty before [`Causes::open`] | charged to the inode's next writer, else unattributed |
//! | a second process that writes into a dirty page | seen on ext4 and XFS; elsewhere the first process is charged |
//! | allocation at writeback, conversion of extents | charged to the process that last dirtied a page of the inode |
//! | metadata of XFS and btrfs that a kernel thread changes | divided like the file system's present transaction |
//! | a file system that is a module, and is loaded later | data only, in the first half a second |

mod attached;
mod cgroups;
mod events;
mod layout;
mod owner;
mod program;
mod report;
mod shares;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use control::device_number::{self, DeviceNumber, number_in, partitions, whole_disk};

use crate::error::Error;
use crate::file_system::number_of;
use cgroups::Cgroups;
pub use events::CauseEvents;
use owner::Owner;
use program::{DEVICES, Key, Program, Settings};
use report::Sums;
pub use report::{Amount, Caused, CausesReport, Delegated};
use shares::Shares;

/// How many of a device's transactions stay in the kernel's map. Older ones are divided and removed: their metadata is seldom written later.
const OPEN_TRANSACTIONS: u32 = 512;

/// What an account is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Grouping {
    /// A process: all its threads.
    #[default]
    Processes,
    /// A cgroup of version 2.
    Cgroups,
}

/// How causes are observed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CausesOptions {
    /// What an account is.
    pub grouping: Grouping,
    /// How many folios are remembered; the least recently used are forgotten. About 80 bytes each. Default: 2^18, a GiB of dirty data
    /// in folios of 4 KiB.
    pub pages: u32,
}

impl Default for CausesOptions {
    fn default() -> Self {
        Self { grouping: Grouping::default(), pages: 1 << 18 }
    }
}

/// Observes the causes of a device's writes until it is dropped. Call [`poll`](Self::poll) at least once a minute.
pub struct Causes {
    program: Program,
    notes: Vec<String>,
    grouping: Grouping,
    names: HashMap<Owner, String>,
    dirtied: BTreeMap<u64, u64>,
    shares: Shares,
    retired: Sums,
    /// By device, the newest transaction.
    newest: HashMap<u32, u32>,
    cgroups: Cgroups,
}

impl Causes {
    /// Observes the whole disk of a device node, and the file systems on it and on devices above it.
    ///
    /// # Errors
    /// It is no block device, CAP_BPF or CAP_PERFMON is missing, or the kernel has no BPF or BTF.
    pub fn open(device: &Path, options: &CausesOptions) -> Result<Self, Error> {
        let disk = whole_disk(number_of(device)?);
        let settings = Settings {
            devices: observed(disk),
            by_cgroup: options.grouping == Grouping::Cgroups,
            pages: options.pages.clamp(1 << 10, 1 << 24),
            ring_bytes: None,
            held_calls: &[],
        };
        let (program, notes) = Program::open(&settings)?;
        Ok(Self {
            program,
            notes,
            grouping: options.grouping,
            names: HashMap::new(),
            dirtied: BTreeMap::new(),
            shares: Shares::default(),
            retired: Sums::default(),
            newest: HashMap::new(),
            cgroups: Cgroups::default(),
        })
    }

    /// What this kernel lacks.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Reads names and shares, and frees the kernel's map of old transactions.
    pub fn poll(&mut self) -> Result<(), Error> {
        self.current().map(drop)
    }

    /// Everything since [`open`](Self::open).
    pub fn report(&mut self) -> Result<CausesReport, Error> {
        let totals = self.current()?;
        let mut sums = Sums::default();
        sums.merge(&self.retired);
        for (key, total) in totals {
            sums.add(key, total, &self.shares, &|owner| self.name(owner));
        }
        let lost = self.program.lost()?;
        let named: HashMap<u64, String> = match self.grouping {
            Grouping::Processes => HashMap::new(),
            Grouping::Cgroups => sums.accounts().map(|number| (number, self.cgroups.name(number))).collect(),
        };
        let name =
            |account| named.get(&account).cloned().unwrap_or_else(|| self.name(Owner::Account(account)));
        Ok(sums.report(&self.dirtied, &name, lost))
    }

    /// Reads everything; returns the totals that are still in the kernel's map.
    fn current(&mut self) -> Result<Vec<(Key, [u64; 2])>, Error> {
        let mut totals = self.program.totals()?;
        totals.iter().for_each(|(key, _)| self.note_submitter(key.submitter));
        // After the totals, so that nothing is charged to an account whose name or share is not known yet.
        for noted in self.program.accounts()? {
            if let Owner::Account(account) = noted.owner {
                let dirtied = self.dirtied.entry(account).or_default();
                *dirtied = noted.dirtied.max(*dirtied);
            }
            self.names.insert(noted.owner, noted.name);
        }
        for (transaction, account, blocks) in self.program.shares()? {
            self.shares.set(transaction, account, blocks);
            let newest = self.newest.entry(transaction.device).or_default();
            *newest = transaction.number.max(*newest);
        }
        let mut old = Vec::new();
        totals.retain(|&(key, total)| {
            let is_old = self.is_old(key.owner);
            if is_old {
                old.push((key, total));
            }
            !is_old
        });
        let mut retired = std::mem::take(&mut self.retired);
        for (key, total) in old {
            retired.add(key, total, &self.shares, &|owner| self.name(owner));
            self.program.remove(key);
        }
        self.retired = retired;
        Ok(totals)
    }

    /// The name of a process that writes for others, while it runs: among control groups, the program notes no processes.
    fn note_submitter(&mut self, process: u32) {
        let thread = Owner::KernelThread(process);
        let is_known = self.names.contains_key(&thread)
            || (self.grouping == Grouping::Processes
                && self.names.contains_key(&Owner::Account(process.into())));
        if !is_known && let Ok(name) = fs::read_to_string(format!("/proc/{process}/comm")) {
            self.names.insert(thread, name.trim_end().to_owned());
        }
    }

    fn is_old(&self, owner: Owner) -> bool {
        let Owner::Transaction(transaction) = owner else { return false };
        let newest = self.newest.get(&transaction.device).copied().unwrap_or(0);
        newest.saturating_sub(transaction.number) > OPEN_TRANSACTIONS
    }

    /// The name of a process or thread. Workers of a kind are together.
    fn name(&self, owner: Owner) -> String {
        let number = match owner {
            Owner::Account(account) => account,
            Owner::KernelThread(thread) => u64::from(thread),
            Owner::Transaction(transaction) => return format!("transaction {}", transaction.number),
        };
        let thread = Owner::KernelThread(number as u32);
        match self.names.get(&owner).or_else(|| self.names.get(&thread)) {
            Some(name) if name.starts_with("kworker/") => "kworker".to_owned(),
            Some(name) => name.clone(),
            // The number is that of a process, and accounts are control groups.
            None if self.grouping == Grouping::Cgroups => "ended processes".to_owned(),
            None => match self.names.get(&Owner::Account(number)) {
                Some(name) => name.clone(),
                None => number.to_string(),
            },
        }
    }
}

/// The disk, then the disks above it, as device mapper and RAID, as far as there is room.
fn observed(disk: DeviceNumber) -> [u32; DEVICES] {
    let mut found = vec![disk];
    let mut next = 0;
    while next < found.len() {
        let directory = device_number::directory(Path::new("/sys"), found[next]);
        for below in std::iter::once(directory.clone()).chain(partitions(&directory)) {
            for holder in fs::read_dir(below.join("holders")).into_iter().flatten().flatten() {
                found.extend(number_in(&holder.path()).filter(|number| !found.contains(number)));
            }
        }
        next += 1;
    }
    let mut numbers = [0; DEVICES];
    numbers.iter_mut().zip(&found).for_each(|(to, (major, minor))| *to = major << 20 | minor);
    numbers
}
