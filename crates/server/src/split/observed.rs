//! Observed pages and requests: who caused them, and which the policy receives.

use std::collections::BTreeMap;

use ::control::causes::CauseEvent;
use elevator::queue::Queue;
use elevator::split::{Account, CallKind, File, Page, Split};
use elevator::{CauseSet, Op, Sector, Sectors, Span, Time};

use super::accounts::OTHERS;
use super::calls::Stops;
use super::runs::Kind;
use super::{SplitHost, dirty};
use crate::statistics::Watch;

/// How often outdated accounts are looked for.
const LOOK: Span = Span::from_millis(100);

/// Stores of a thread to mapped files.
pub(super) struct Stores {
    account: Account,
    process: u32,
    file: u64,
    bytes: u64,
}

impl SplitHost {
    /// Reads what was observed and passes it to the policy.
    pub(super) fn update(&mut self, queue: &mut Queue<Watch>, now: Time) {
        // First, as a new policy receives the pages that are dirty, and no event of others.
        self.with_policy(queue, now, |_| ());
        let agents = &self.agents;
        self.processes
            .pass(now, |process| agents.iter().flatten().any(|agent| agent.processes.contains(&process)));
        self.remove_outdated(queue, now);
        self.await_observer();
        let Some((observer, _)) = &mut self.observed else { return };
        let mut events = std::mem::take(&mut self.events);
        let is_complete = observer.take(&mut events);
        events.drain(..).for_each(|event| self.happened(queue, now, event));
        self.events = events;
        if !is_complete {
            self.forget(queue, now);
        }
        while let Some((thread, stores)) = self.stores.pop_first() {
            let kind = CallKind::Write { file: File(stores.file), bytes: stores.bytes };
            self.stops_if_held(queue, now, stores.account, stores.process, (Stops::Thread(thread), kind));
        }
        while let Some((process, account)) = self.submitters.pop_first() {
            self.stops_if_held(queue, now, account, process, (Stops::Process(process), CallKind::Submit));
        }
    }

    /// The causes of a request that arrived, and whether it is a direct write.
    pub(crate) fn causes(
        &mut self,
        queue: &mut Queue<Watch>,
        now: Time,
        op: Op,
        start: Sector,
        sectors: Sectors,
    ) -> (Option<CauseSet>, bool) {
        if !matches!(op, Op::Read | Op::Write) {
            return (None, false);
        }
        self.update(queue, now);
        if op == Op::Write {
            let arrived = self.runs.arrived(start, sectors);
            self.notify(queue, now, &arrived, |policy, now, page, set| policy.submitted(now, page, set));
        }
        let (found, is_direct) = self.runs.causes(op == Op::Read, start, sectors);
        let mut parts = BTreeMap::new();
        for &(set, bytes) in &found {
            let members = self.sets.members(set);
            let own = bytes / members.len().max(1) as u64;
            members.iter().for_each(|&account| *parts.entry(account).or_insert(0) += own);
        }
        let set = self.sets.by_bytes(&parts);
        let members = set.map_or(&[][..], |set| self.sets.members(set));
        for &account in members {
            self.accounts[account].caused += sectors.bytes() / members.len() as u64;
        }
        self.with_policy(queue, now, |_| ());
        (set, is_direct)
    }

    /// After a loss, which pages are dirty is unknown.
    fn forget(&mut self, queue: &mut Queue<Watch>, now: Time) {
        let mut all: Vec<_> = self.dirty.iter().collect();
        all.extend(self.runs.outdated(now, |_| true));
        self.dirty.clear();
        self.runs.clear();
        self.accounts.forget_dirty();
        self.notify(queue, now, &all, |policy, now, page, set| policy.freed(now, page, set));
    }

    /// Removes accounts whose programs have ended. What they left belongs to the account of all others from now on, and is charged when it is written.
    fn remove_outdated(&mut self, queue: &mut Queue<Watch>, now: Time) {
        if now.since(self.looked) < LOOK {
            return;
        }
        self.looked = now;
        let lost = self.runs.outdated(now, |_| false);
        self.notify(queue, now, &lost, |policy, now, page, set| policy.submitted(now, page, set));
        while let Some(account) = self.accounts.outdated(now) {
            let sets = &self.sets;
            let is_its = |set| sets.members(set).contains(&account);
            let mut left = self.dirty.take(is_its);
            let submitted = self.runs.outdated(now, is_its);
            left.iter().for_each(|(page, causes)| self.count_clean(*causes, page.bytes.into()));
            left.extend(submitted);
            self.processes.forget(account);
            self.notify(queue, now, &left, |policy, now, page, set| policy.freed(now, page, set));
            self.with_policy(queue, now, |policy| policy.forget(now, account));
            self.accounts.remove(account);
        }
    }

    fn happened(&mut self, queue: &mut Queue<Watch>, now: Time, event: CauseEvent) {
        match event {
            CauseEvent::Dirtied { process, file, offset, bytes, stored_by } => {
                let account = self.account_of(now, process);
                if let (Some(thread), Some(process)) = (stored_by.filter(|_| account != OTHERS), process) {
                    let new = Stores { account, process, file, bytes: 0 };
                    self.stores.entry(thread).or_insert(new).bytes += u64::from(bytes);
                }
                let Some(set) = self.sets.of([account]) else { return };
                let pages = self.dirty.add(file, offset, bytes, set);
                if pages.is_empty() {
                    return;
                }
                for (page, before) in &pages {
                    before.iter().for_each(|&before| self.count_clean(before, page.bytes.into()));
                    self.accounts[account].dirty += u64::from(page.bytes);
                }
                self.with_policy(queue, now, |policy| {
                    pages.iter().for_each(|(page, before)| policy.dirtied(now, page, set, *before));
                });
            }
            CauseEvent::Dropped { file, offset, bytes } => {
                let pages = self.dirty.remove(file, offset, bytes.into());
                self.are_clean(&pages);
                self.notify(queue, now, &pages, |policy, now, page, set| policy.freed(now, page, set));
            }
            CauseEvent::Submitted { start, sectors, is_read, is_data, processes, file } => {
                let (start, sectors) = (Sector(start), Sectors(sectors));
                let is_of_one = processes.len() == 1;
                let process = processes.first().copied().filter(|_| is_of_one);
                let accounts: Vec<_> =
                    processes.into_iter().map(|process| self.account_of(now, Some(process))).collect();
                let (file, offset) = file.filter(|_| !is_read).unzip();
                let offset = offset.unwrap_or(0);
                let pages =
                    file.map(|file| self.dirty.remove(file, offset, sectors.bytes())).unwrap_or_default();
                // Pages of the page cache have a file. A program whose pages were dirty before the device was observed makes them durable by an fsync.
                let syncs = |account: &Account| self.is_syncing(*account);
                let kind = match (is_read, process) {
                    (true, _) => Kind::Read,
                    (false, Some(_)) if is_data && file.is_none() && !accounts.iter().any(syncs) => {
                        Kind::Direct
                    }
                    (false, _) => Kind::Write,
                };
                if let (Some(process), [account], Kind::Read | Kind::Direct) = (process, &accounts[..], kind)
                    && *account != OTHERS
                {
                    self.submitters.insert(process, *account);
                }
                if let Some(set) = self.sets.of(accounts) {
                    self.runs.add(kind, start, sectors, set);
                    let mut bytes = sectors.bytes();
                    // What a process dirtied before it joined its account is not its account's.
                    let others = if is_of_one && is_data { dirty::parts(&pages, set) } else { Vec::new() };
                    for (from, to, before) in others {
                        let (from, to) = (from.max(offset), to.min(offset + sectors.bytes()));
                        if from < to {
                            let place = start + Sectors::from_bytes(from - offset);
                            self.runs.add(Kind::Write, place, Sectors::from_bytes(to - from), before);
                            self.count_submitted(before, to - from, false, true);
                            bytes -= to - from;
                        }
                    }
                    self.count_submitted(set, bytes, is_read, is_data);
                }
                self.are_clean(&pages);
                let before = self.runs.submitted(now, (start, sectors), offset, pages);
                self.notify(queue, now, &before, |policy, now, page, set| policy.submitted(now, page, set));
            }
        }
    }

    /// Reports pages to the policy.
    fn notify(
        &mut self,
        queue: &mut Queue<Watch>,
        now: Time,
        pages: &[(Page, CauseSet)],
        notify: fn(&mut dyn Split, Time, &Page, CauseSet),
    ) {
        if !pages.is_empty() {
            self.with_policy(queue, now, |policy| {
                pages.iter().for_each(|(page, causes)| notify(policy, now, page, *causes));
            });
        }
    }

    /// Pages are no longer dirty.
    fn are_clean(&mut self, pages: &[(Page, CauseSet)]) {
        pages.iter().for_each(|(page, causes)| self.count_clean(*causes, page.bytes.into()));
    }

    fn count_submitted(&mut self, set: CauseSet, bytes: u64, is_read: bool, is_data: bool) {
        let members = self.sets.members(set);
        for &account in members {
            let account = &mut self.accounts[account];
            let field = match (is_read, is_data) {
                (true, _) => &mut account.read,
                (false, true) => &mut account.data,
                (false, false) => &mut account.metadata,
            };
            *field += bytes / members.len() as u64;
        }
    }

    fn count_clean(&mut self, causes: CauseSet, bytes: u64) {
        for &account in self.sets.members(causes) {
            let dirty = &mut self.accounts[account].dirty;
            *dirty = dirty.saturating_sub(bytes);
        }
    }

    fn account_of(&mut self, now: Time, process: Option<u32>) -> Account {
        process.and_then(|process| self.processes.account(now, process)).unwrap_or(OTHERS)
    }
}
