//! Decisions at the system call: which calls are held, and which proceed.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use elevator::split::{Account, Action, CallId, CallKind, Page, Split, SystemCall, Terms, Verdict};
use elevator::{CauseSet, Time};

use super::Afq;

/// An account's held calls.
#[derive(Default)]
struct Held {
    writes: VecDeque<CallId>,
    fsyncs: VecDeque<CallId>,
}

/// Held calls by account index, and the admitted fsyncs.
#[derive(Default)]
pub(super) struct Calls {
    held: Vec<Held>,
    /// Fsyncs that have not returned yet.
    running: u64,
    /// Number of fsyncs in the batch, and when it began.
    batch: u64,
    began: Time,
    /// The batch accepts no further fsyncs.
    closed: bool,
    /// The beginning of the present idle period.
    pub(super) idle_since: Time,
    /// A write that was admitted because of idleness and has not returned yet.
    kicked: Option<CallId>,
    /// The time of the last call of `act`.
    asked: Time,
}

impl Calls {
    fn held(&mut self, place: usize) -> &mut Held {
        if place >= self.held.len() {
            self.held.resize_with(place + 1, Held::default);
        }
        &mut self.held[place]
    }

    /// The number of an account's held calls.
    pub(super) fn held_by(&self, place: usize) -> u64 {
        self.held.get(place).map_or(0, |held| (held.writes.len() + held.fsyncs.len()) as u64)
    }

    /// Removes a held call; returns whether it was held.
    fn withdraw(&mut self, place: usize, call: CallId) -> bool {
        let before = self.held_by(place);
        let Held { writes, fsyncs } = self.held(place);
        writes.retain(|&held| held != call);
        fsyncs.retain(|&held| held != call);
        self.held_by(place) < before
    }

    fn has_writes(&self, place: usize) -> bool {
        self.held.get(place).is_some_and(|held| !held.writes.is_empty())
    }

    /// Indexes of accounts with held writes, and with held fsyncs.
    fn writers(&self) -> impl Iterator<Item = usize> {
        (0..self.held.len()).filter(|&place| !self.held[place].writes.is_empty())
    }

    fn syncers(&self) -> impl Iterator<Item = usize> {
        (0..self.held.len()).filter(|&place| !self.held[place].fsyncs.is_empty())
    }

    fn let_go(&mut self, now: Time, place: usize) -> Option<CallId> {
        if self.batch == 0 {
            self.began = now;
        }
        self.batch += 1;
        self.running += 1;
        self.held[place].fsyncs.pop_front()
    }
}

impl Afq {
    /// Whether fsyncs may proceed now, in the present batch or a new one.
    fn may_sync(&mut self, now: Time) -> bool {
        let calls = &mut self.calls;
        let over = calls.running == 0
            || (now >= calls.began + self.tunables.batch_longest
                && u64::from(self.in_flight) < self.tunables.in_flight_least);
        if calls.closed && over {
            (calls.batch, calls.closed) = (0, false);
        }
        !calls.closed
    }

    /// The account whose fsync proceeds next: the least served; none if an account with less service has queued reads.
    fn next_sync(&self) -> Option<usize> {
        let served = |&place: &usize| (self.shares.service(place), place);
        let place = self.calls.syncers().min_by_key(served)?;
        let mut readers = self.lanes.readers().chain(self.reads.in_device());
        readers.all(|reader| served(&reader) >= served(&place)).then_some(place)
    }

    fn sync(&mut self, now: Time) -> Option<CallId> {
        if !self.may_sync(now) {
            return None;
        }
        let next = self.next_sync().filter(|_| self.calls.batch < self.tunables.batch_least);
        self.calls.closed = next.is_none();
        self.calls.let_go(now, next?)
    }

    /// The beginning of the time without requests in the device and without running fsyncs, if idle now.
    fn idle_since(&self) -> Option<Time> {
        let idle = self.lanes.is_empty() && self.in_flight == 0 && self.calls.running == 0;
        idle.then_some(self.calls.idle_since)
    }

    /// The held write to admit.
    fn write(&mut self, now: Time) -> Option<CallId> {
        let kick = self.tunables.kick;
        let idle = self.calls.kicked.is_none() && self.idle_since().is_some_and(|since| now >= since + kick);
        let may = self.calls.writers().filter(|&place| idle || !self.is_ahead(place));
        let place = may.min_by_key(|&place| (self.shares.service(place), place))?;
        let ahead = self.is_ahead(place);
        let call = self.calls.held[place].writes.pop_front()?;
        if ahead {
            self.calls.kicked = Some(call);
            // The least served accounts leave the device idle, as programs do that overwrite dirty pages.
            self.shares.raise(self.shares.service(place).saturating_sub(self.ahead()));
        }
        Some(call)
    }

    fn cleaned(&mut self, page: &Page, causes: CauseSet) {
        let Self { ledger, shares, .. } = self;
        ledger.cleaned(page, causes, &mut |place, bytes| shares.charge(place, bytes));
        if !page.file.is_metadata() {
            ledger.members(causes).iter().for_each(|&place| shares.ends(place));
        }
    }
}

impl Split for Afq {
    fn account(&mut self, _now: Time, account: Account, terms: Terms) {
        let place = self.place(account);
        self.shares.agree(place, terms.priority, !terms.has_ended);
    }

    fn forget(&mut self, _now: Time, account: Account) {
        let place = self.place(account);
        self.shares.forget(place);
    }

    fn causes(&mut self, set: CauseSet, members: &[Account]) {
        self.ledger.define(set, members);
        self.shares.grow(self.ledger.accounts());
    }

    fn entered(&mut self, _now: Time, call: &SystemCall) -> Verdict {
        if matches!(call.kind, CallKind::Read { .. } | CallKind::Submit) {
            return Verdict::Proceed;
        }
        let (place, ahead) = (self.place(call.account), self.ahead());
        self.shares.begins(place, ahead);
        if matches!(call.kind, CallKind::Fsync { .. }) {
            self.calls.held(place).fsyncs.push_back(call.id);
        } else if self.is_ahead(place) || self.calls.has_writes(place) {
            self.calls.held(place).writes.push_back(call.id);
        } else {
            return Verdict::Proceed;
        }
        Verdict::Hold
    }

    fn returned(&mut self, now: Time, call: &SystemCall) {
        if matches!(call.kind, CallKind::Read { .. } | CallKind::Submit) {
            return;
        }
        let place = self.place(call.account);
        self.shares.ends(place);
        let calls = &mut self.calls;
        if calls.withdraw(place, call.id) {
            return;
        }
        calls.kicked = calls.kicked.filter(|&kicked| kicked != call.id);
        if matches!(call.kind, CallKind::Fsync { .. }) {
            calls.running -= 1;
            calls.idle_since = now;
        }
    }

    fn dirtied(&mut self, _now: Time, page: &Page, causes: CauseSet, before: Option<CauseSet>) {
        if before == Some(causes) {
            return;
        }
        let ahead = self.ahead();
        let Self { ledger, shares, .. } = self;
        // Changed metadata stays in memory for long after its account has stopped working.
        if !page.file.is_metadata() {
            ledger.members(causes).iter().for_each(|&place| shares.begins(place, ahead));
            let before_members = before.iter().flat_map(|&before| ledger.members(before));
            before_members.for_each(|&place| shares.ends(place));
        }
        ledger.dirtied(page, causes, before, &mut |place, bytes| shares.charge(place, bytes));
    }

    fn submitted(&mut self, _now: Time, page: &Page, causes: CauseSet) {
        self.cleaned(page, causes);
    }

    fn freed(&mut self, _now: Time, page: &Page, causes: CauseSet) {
        self.cleaned(page, causes);
    }

    fn act(&mut self, now: Time) -> Option<Action> {
        self.calls.asked = now;
        self.sync(now).or_else(|| self.write(now)).map(Action::Admit)
    }

    fn alarm(&self) -> Option<Time> {
        let batch = self.calls.syncers().next().map(|_| self.calls.began + self.tunables.batch_longest);
        let kick = self.calls.writers().next().and_then(|_| self.idle_since());
        let alarms = batch.into_iter().chain(kick.map(|since| since + self.tunables.kick));
        alarms.filter(|&at| at > self.calls.asked).min()
    }
}
