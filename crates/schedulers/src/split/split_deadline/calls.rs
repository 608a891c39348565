//! Decisions at the system call: calls that are held until less data is dirty.

use alloc::collections::VecDeque;

use elevator::split::{Account, Action, CallId, CallKind, File, Page, Split, SystemCall, Terms, Verdict};
use elevator::{CauseSet, Time};

use super::background::{Pressure, Returned};
use super::guarded::Guarded;
use super::rewritten::PAGE_BYTES;
use super::{SplitDeadline, Tunables};

/// A call that waits for its file to have fewer dirty pages.
#[derive(Clone, Copy)]
struct Waiting {
    call: CallId,
    file: File,
    fsync: bool,
    look: Time,
}

/// Held calls, and pending actions.
#[derive(Default)]
pub(super) struct Held {
    waiting: VecDeque<Waiting>,
    actions: VecDeque<Action>,
    /// Pages whose writeback was ordered and that have not been submitted yet, and the time of the latest order.
    ordered: u64,
    since: Time,
}

impl Held {
    /// A call has ended, or goes on although it is held.
    fn forget(&mut self, call: CallId) {
        self.waiting.retain(|held| held.call != call);
        self.actions.retain(|&action| action != Action::Admit(call));
    }
}

impl SplitDeadline {
    /// `pressure` is `None` if nothing has to wait.
    fn must_wait(&self, file: File, fsync: bool, pressure: Option<Pressure>) -> bool {
        let Some(pressure) = pressure else { return false };
        let dirty = self.ledger.dirty_pages(file);
        if fsync {
            return dirty >= self.tunables.big_fsync;
        }
        let is_small =
            !self.transactions.wait() && self.rewritten.end_of(file) <= self.tunables.bleed * PAGE_BYTES;
        // A file without dirty pages has none whose writeback would end the wait.
        let adds = !is_small && (pressure == Pressure::Queued || pressure == Pressure::Dirty && dirty > 0);
        (adds || dirty >= self.tunables.big_write) && !self.is_rewritten(file, dirty)
    }

    /// Whether the early writeback of a file would be in vain.
    fn is_rewritten(&self, file: File, dirty: u64) -> bool {
        let rewritten = self.rewritten.pages_of(file);
        let is_synced = || self.held.waiting.iter().any(|held| held.fsync && held.file == file);
        !self.transactions.wait() && rewritten > 0 && rewritten * 2 >= dirty && !is_synced()
    }

    /// How much data background accounts have for the deadlines of active accounts; `None` if none is active.
    fn pressure(&self, now: Time) -> Option<Pressure> {
        let Tunables { in_front, bleed, .. } = self.tunables;
        let shortest = self.shortest_active(now)?;
        let spared = if self.transactions.wait() { 0 } else { self.rewritten.pages() };
        let pressure = || self.background.pressure(now, shortest * in_front / 100, bleed, spared);
        Some(if in_front > 0 { pressure() } else { Pressure::Low })
    }

    /// Orders the writeback of some of a file's pages, unless enough is under way already or an fsync with a deadline is running.
    fn bleed(&mut self, now: Time, file: File) {
        let Tunables { bleed, look_again, .. } = self.tunables;
        // An order may find less than was dirty: the kernel writes pages by itself too.
        if now >= self.held.since + look_again {
            self.held.ordered = 0;
        }
        let pages = self.ledger.dirty_pages(file).min(bleed);
        let under_way = self.held.ordered + self.background.queued_pages();
        if self.running.is_empty() && pages > 0 && under_way <= bleed {
            (self.held.ordered, self.held.since) = (self.held.ordered + pages, now);
            self.held.actions.push_back(Action::WriteBack { file, pages: bleed as u32 });
        }
    }

    fn classify(&mut self, set: CauseSet) {
        let members = self.ledger.members(set);
        let has_deadline = members.iter().any(|&place| self.deadline(place).is_some());
        self.background.classify(set, has_deadline);
    }

    /// A page is no longer dirty.
    fn clean(&mut self, page: &Page, causes: CauseSet) {
        self.ledger.cleaned(page, causes, &mut |_, _| {});
        self.background.cleaned(causes);
        self.rewritten.cleaned(page);
    }

    /// Checks every held call that is due, or whose file may have changed.
    fn look(&mut self, now: Time) {
        if self.held.waiting.is_empty() {
            return;
        }
        let pressure = self.pressure(now);
        for _ in 0..self.held.waiting.len() {
            let Some(held) = self.held.waiting.pop_front() else { return };
            if !self.must_wait(held.file, held.fsync, pressure) {
                self.held.actions.push_back(Action::Admit(held.call));
            } else {
                self.bleed(now, held.file);
                let look = if held.look > now { held.look } else { now + self.tunables.look_again };
                self.held.waiting.push_back(Waiting { look, ..held });
            }
        }
    }
}

impl Split for SplitDeadline {
    fn account(&mut self, now: Time, account: Account, terms: Terms) {
        let place = self.ledger.place(account);
        if place >= self.guarded.len() {
            self.guarded.resize(place + 1, None);
        }
        if self.deadline(place) != terms.fsync_deadline {
            self.guarded[place] = terms.fsync_deadline.map(|deadline| Guarded::new(now, deadline));
            (0..self.background.sets()).for_each(|set| self.classify(CauseSet(set)));
        }
    }

    fn causes(&mut self, set: CauseSet, members: &[Account]) {
        self.ledger.define(set, members);
        self.classify(set);
    }

    fn entered(&mut self, now: Time, call: &SystemCall) -> Verdict {
        let place = self.ledger.place(call.account);
        let (file, fsync) = match call.kind {
            CallKind::Fsync { file } => (file, true),
            CallKind::Write { file, .. } => (file, false),
            _ => return Verdict::Proceed,
        };
        if let Some(deadline) = self.deadline(place) {
            if fsync {
                self.notice_flush(now);
                if self.running.is_empty() {
                    self.transactions.fsync_begins(self.background.dirty_pages(), self.held.ordered);
                }
                if let Some(account) = &mut self.guarded[place] {
                    account.fsync(now);
                }
                self.running.insert((place, call.id), now + deadline);
                self.patience.begins();
            }
            return Verdict::Proceed;
        }
        if !self.must_wait(file, fsync, self.pressure(now)) {
            return Verdict::Proceed;
        }
        self.bleed(now, file);
        let look = now + self.tunables.look_again;
        self.held.waiting.push_back(Waiting { call: call.id, file, fsync, look });
        Verdict::Hold
    }

    fn returned(&mut self, now: Time, call: &SystemCall) {
        let place = self.ledger.place(call.account);
        self.held.forget(call.id);
        self.notice_flush(now);
        if let Some(due) = self.running.remove(&(place, call.id)) {
            let Tunables { spare, bleed, .. } = self.tunables;
            let deadline = self.deadline(place).unwrap_or_default();
            let (left, spare) = (due.since(now), deadline * spare / 100);
            self.patience.ends(left, spare, bleed);
            self.background.is_durable(now, Returned { deadline, left });
            if self.running.is_empty() {
                self.transactions.fsync_ends(bleed / 4);
            }
            let is_last = self.running_due(place).is_none();
            if let Some(account) = self.guarded.get_mut(place).and_then(Option::as_mut) {
                account.returned(now, is_last);
            }
        }
    }

    fn dirtied(&mut self, now: Time, page: &Page, causes: CauseSet, before: Option<CauseSet>) {
        // No fsync waits for the writeback of metadata: the log has its changes.
        if page.file.is_metadata() {
            return;
        }
        self.ledger.dirtied(page, causes, before, &mut |_, _| {});
        self.background.dirtied(causes);
        if let Some(before) = before {
            self.background.cleaned(before);
        }
        if !self.is_background(causes) {
            self.rewritten.cleaned(page);
        } else if before.is_none() && self.shortest_active(now).is_some() {
            self.rewritten.dirtied(now, page);
        }
    }

    fn submitted(&mut self, now: Time, page: &Page, causes: CauseSet) {
        self.held.ordered = self.held.ordered.saturating_sub(1);
        if page.file.is_metadata() {
            return;
        }
        self.clean(page, causes);
        if self.is_background(causes) && self.shortest_active(now).is_some() {
            self.rewritten.written(now, page);
        }
    }

    fn freed(&mut self, _now: Time, page: &Page, causes: CauseSet) {
        if !page.file.is_metadata() {
            self.clean(page, causes);
        }
    }

    fn act(&mut self, now: Time) -> Option<Action> {
        if self.held.actions.is_empty() {
            self.look(now);
        }
        self.held.actions.pop_front()
    }

    fn alarm(&self) -> Option<Time> {
        self.held.waiting.iter().map(|held| held.look).min()
    }
}
