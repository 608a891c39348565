//! At the block: writes go straight out, reads by share.

use alloc::vec::Vec;

use elevator::split::{Account, Split};
use elevator::{
    Candidate, Capabilities, Decision, Fact, Growth, Inspection, Item, Op, Outcome, Reason, Request,
    RequestId, Scheduler, Side, Time, Tunable, TuneError, Tuning, Value, View, WorkConserving,
    tuned_by_itself,
};

use super::{Afq, Tunables};

impl Afq {
    fn choose_read(&self, now: Time) -> Option<(usize, Reason)> {
        let owner = self.reads.goes_on(now, &self.tunables);
        if let Some(place) = owner.filter(|&place| self.lanes.has_reads(place)) {
            return Some((place, Reason::SliceOwner));
        }
        let least = self.lanes.readers().min_by_key(|&place| (self.shares.service(place), place))?;
        Some((least, Reason::Share))
    }

    fn choose(&self, now: Time) -> Option<(RequestId, Reason)> {
        let owner = self.reads.goes_on(now, &self.tunables).filter(|&place| self.lanes.has_reads(place));
        let reads_turn = self.writes_in_a_row >= self.tunables.batch || owner.is_some();
        if let Some(id) = self.lanes.next_write().filter(|_| !reads_turn || !self.lanes.reads_wait()) {
            return Some((id, Reason::SectorOrder));
        }
        let (place, reason) = self.choose_read(now)?;
        self.lanes.next_read(place).map(|id| (id, reason))
    }

    fn queues(&mut self, request: &Request, bytes: u64) {
        let Self { ledger, shares, .. } = self;
        ledger.queued(request, bytes, &mut |place, bytes| shares.charge(place, bytes));
    }

    /// Where a request queues.
    fn place_of(&mut self, request: &Request) -> usize {
        let place = self.ledger.place_of(request);
        self.shares.grow(self.ledger.accounts());
        place
    }
}

impl Scheduler for Afq {
    fn insert(&mut self, _now: Time, request: &Request) {
        let (place, ahead) = (self.place_of(request), self.ahead());
        self.shares.begins(place, ahead);
        self.lanes.insert(place, request);
        self.queues(request, request.sectors.bytes());
    }

    fn merged(&mut self, _now: Time, request: &Request, growth: Growth<'_>) {
        let place = self.place_of(request);
        let bytes = self.lanes.merged(place, request, growth);
        self.queues(request, bytes);
        if growth.absorbed.is_some() {
            self.shares.ends(place);
        }
    }

    /// As published, with anticipation: the device waits for the reader whose turn it is. A wrapper does not call this.
    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        if self.lanes.is_empty() {
            return Decision::Idle;
        }
        let owner = self.reads.goes_on(now, &self.tunables).filter(|&place| !self.lanes.has_reads(place));
        let awaited = owner.filter(|_| !self.lanes.writes_wait());
        if let Some(hold) = awaited.and_then(|place| self.reads.awaits(now, place, &self.tunables)) {
            return Decision::Hold(hold);
        }
        self.dispatch_candidate(now, view).unwrap_or(Decision::Idle)
    }

    fn completed(&mut self, now: Time, request: &Request, _outcome: Outcome) {
        self.in_flight -= 1;
        self.calls.idle_since = now;
        let place = self.place_of(request);
        self.shares.ends(place);
        if request.op == Op::Read {
            self.reads.came_back(now, place);
        }
    }

    /// Requests of different accounts stay apart; the host merges only what has the same causes.
    fn may_merge(&self, request: &Request, addition: &Request, _side: Side) -> bool {
        request.causes == addition.causes
    }
}

impl WorkConserving for Afq {
    fn candidate(&mut self, now: Time, _view: &View<'_>) -> Option<Candidate> {
        self.choose(now).map(|(id, reason)| Candidate { id, urgent: false, reason })
    }

    fn take(&mut self, now: Time, request: &Request) {
        self.in_flight += 1;
        let place = self.place_of(request);
        let Self { ledger, shares, .. } = self;
        ledger.dispatched(request, &mut |place, bytes| shares.charge(place, bytes));
        let distance = self.lanes.take(place, request);
        if request.op == Op::Read {
            self.writes_in_a_row = 0;
            self.reads.sent(now, place, distance, &self.tunables);
        } else {
            self.writes_in_a_row += 1;
        }
    }
}

impl Inspection for Afq {
    fn inspect(&self, _now: Time) -> Vec<Item> {
        let item = |(account, place): (Account, usize)| {
            Item::new("account", u64::from(account.0))
                .with("share", self.shares.percent(place).map_or(Fact::None, Fact::Percent))
                .with("ahead", Fact::Percent(self.percent_ahead(place)))
                .with("held", Fact::Count(self.calls.held_by(place)))
        };
        self.ledger.each().map(item).collect()
    }
}

impl Capabilities for Afq {
    tuned_by_itself!();

    fn inspection(&self) -> Option<&dyn Inspection> {
        Some(self)
    }

    fn split(&mut self) -> Option<&mut dyn Split> {
        Some(self)
    }
}

impl Tuning for Afq {
    fn table(&self) -> &[Tunable] {
        Tunables::TABLE
    }

    fn value(&self, name: &str) -> Option<Value> {
        self.tunables.get(name)
    }

    fn set_value(&mut self, name: &str, value: Value) -> Result<(), TuneError> {
        self.tunables.set(name, value)?;
        self.ledger.charge_seeks(self.tunables.seeks);
        Ok(())
    }
}
