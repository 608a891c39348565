//! Decisions at the block layer: urgent requests first, and alone in the drive.

use elevator::split::Split;
use elevator::{
    Candidate, Capabilities, CauseSet, Decision, Growth, Hold, HoldReason, Op, Outcome, Reason, Request,
    Scheduler, Side, Time, Tunable, TuneError, Tuning, Value, View, Wake, WorkConserving, tuned_by_itself,
};

use super::urgent::Claim;
use super::{SplitDeadline, Tunables};

/// While an fsync runs, background data in the drive's cache may take this part of the usual time: the fsync flushes the cache twice, before and after the
/// commit record, and waits for what enters the cache between the two. Higher: less is written during an fsync, which ends earlier.
const DURING_FSYNC: u64 = 4;

impl SplitDeadline {
    /// The causes of a write, if they are known.
    fn causes_of_write(request: &Request) -> Option<CauseSet> {
        request.causes.filter(|_| request.op == Op::Write)
    }

    /// Whether a request counts as background data.
    pub(super) fn counts(&self, request: &Request) -> bool {
        Self::causes_of_write(request).is_some_and(|set| self.is_background(set))
    }

    fn queues(&mut self, request: &Request, sectors: u64) {
        if let Some(set) = Self::causes_of_write(request) {
            self.background.queued(set, sectors);
        }
        let counts = self.counts(request);
        if counts && !self.running.is_empty() && request.is_sync() && Self::is_cached_data(request) {
            self.transactions.waited_for(sectors);
        }
    }

    /// At the beginning of an fsync with a deadline, queued requests that may be in its transaction become urgent. Those that arrived when transactions
    /// waited for dirty data stay where they are if transactions do so no more.
    fn promote(&mut self, now: Time, view: &View<'_>) {
        if self.running.is_empty() {
            return;
        }
        while let Some(id) = self.data.first() {
            self.data.remove_key(Self::data_key(id));
            let request = &view.requests[id];
            if let Some(due) = self.due(request) {
                self.others.take(now, request);
                self.urgent.insert(request, Some(due));
            }
        }
    }

    /// While an fsync with a deadline runs and the device has no requests, the device flushes its cache; flushes are not reported to schedulers.
    pub(super) fn notice_flush(&mut self, now: Time) {
        let rested = self.device.rested(now);
        if !self.running.is_empty() {
            self.background.flushed(rested);
        }
    }

    /// Whether urgent requests have to wait for requests in the device.
    fn is_full(&self, now: Time) -> bool {
        let Tunables { urgent_depth, overdue, .. } = self.tunables;
        self.device.urgent() >= urgent_depth || self.device.keeps_for(now, overdue)
    }

    /// Whether other requests have to wait for requests in the device.
    fn is_kept_clear(&self, now: Time) -> bool {
        let overdue = || self.device.is_busy_for(now, self.tunables.overdue) && self.guards();
        let alone = || !self.running.is_empty() && !self.device.is_empty();
        self.device.urgent() > 0 || overdue() || alone()
    }

    /// When a write of background data may be dispatched, if the drive and its cache have so much of it that the next fsync would be late.
    fn is_paced_until(&self, now: Time, request: &Request) -> Option<Time> {
        let Tunables { in_front, .. } = self.tunables;
        if in_front == 0 || !self.counts(request) || self.others.has_reads() {
            return None;
        }
        let most = self.shortest_active(now)? * in_front / 100;
        let most = if self.running.is_empty() { most } else { most / DURING_FSYNC };
        self.background.device_has_too_much_until(now, self.device.background(), most)
    }
}

impl Scheduler for SplitDeadline {
    fn insert(&mut self, now: Time, request: &Request) {
        let due = self.due(request);
        self.urgent.insert(request, due);
        if due.is_none() {
            self.others.insert(now, request);
            if self.may_be_ordered(request) {
                self.data.insert_key(Self::data_key(request.id), request.id);
            }
        }
        self.queues(request, u64::from(request.sectors.0));
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        let Some(absorbed) = growth.absorbed else {
            self.queues(request, u64::from(request.sectors.0 - growth.was_sectors.0));
            if self.urgent.due(request).is_none() {
                self.others.merged(now, request, growth);
            }
            return;
        };
        match (self.urgent.due(request), self.urgent.due(absorbed)) {
            (None, None) => {
                self.data.remove_key(Self::data_key(absorbed.id));
                self.others.merged(now, request, growth);
            }
            (Some(due), Some(other)) => {
                self.urgent.remove(absorbed);
                self.urgent.remove(request);
                self.urgent.insert(request, Some(due.min(other)));
            }
            // `may_merge` rejects a merge of an urgent request with another one. If a host merges them nevertheless, no state is lost.
            (Some(_), None) => {
                self.data.remove_key(Self::data_key(absorbed.id));
                self.others.take(now, absorbed);
            }
            (None, Some(_)) => {
                self.urgent.remove(absorbed);
                self.others.merged(now, request, Growth { absorbed: None, ..growth });
            }
        }
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        match self.candidate(now, view) {
            Some(Candidate { id, reason, .. }) => {
                let request = &view.requests[id];
                if self.urgent.due(request).is_none()
                    && let Some(until) = self.is_paced_until(now, request)
                {
                    self.background.paced();
                    let reason = HoldReason::DepthLimit;
                    return Decision::Hold(Hold { until: Some(until), wake: Wake::Timer, reason });
                }
                self.take(now, request);
                Decision::Dispatch { id, reason }
            }
            None if self.urgent.is_empty() && self.others.is_empty() => Decision::Idle,
            None => Decision::Hold(Hold::CLASS_WAITS),
        }
    }

    fn completed(&mut self, now: Time, request: &Request, outcome: Outcome) {
        let took = self.device.gives_back(now, request);
        let is_own = self.counts(request);
        self.background.served(now, request, is_own, took);
        if let Some(set) = Self::causes_of_write(request) {
            self.background.done(set, u64::from(request.sectors.0));
        }
        self.others.completed(now, request, outcome);
    }

    fn may_merge(&self, request: &Request, addition: &Request, side: Side) -> bool {
        let is_due = self.urgent.due(request).is_some();
        request.flags.direct == addition.flags.direct
            && is_due == self.due(addition).is_some()
            && (is_due || self.others.may_merge(request, addition, side))
    }
}

impl WorkConserving for SplitDeadline {
    fn candidate(&mut self, now: Time, view: &View<'_>) -> Option<Candidate> {
        self.promote(now, view);
        match self.urgent.first(self.patience.lets_pass()) {
            Some(_) if self.is_full(now) => None,
            Some(id) => Some(Candidate { id, urgent: true, reason: Reason::Urgent }),
            None if self.is_kept_clear(now) => None,
            None => self.others.candidate(now, view),
        }
    }

    fn take(&mut self, now: Time, request: &Request) {
        let claim = self.urgent.remove(request);
        self.notice_flush(now);
        let background = if self.counts(request) { u64::from(request.sectors.0) } else { 0 };
        self.device.takes(now, request, claim.is_some(), background);
        if let Some(claim) = claim {
            self.patience.takes(claim == Claim::Perhaps);
        } else {
            self.data.remove_key(Self::data_key(request.id));
            self.others.take(now, request);
        }
    }
}

impl Capabilities for SplitDeadline {
    tuned_by_itself!();

    fn split(&mut self) -> Option<&mut dyn Split> {
        Some(self)
    }
}

impl Tuning for SplitDeadline {
    fn table(&self) -> &[Tunable] {
        Tunables::TABLE
    }

    fn value(&self, name: &str) -> Option<Value> {
        self.tunables.get(name).or_else(|| self.others.tunable(name))
    }

    fn set_value(&mut self, name: &str, value: Value) -> Result<(), TuneError> {
        if self.tunables.get(name).is_some() {
            return self.tunables.set(name, value);
        }
        self.others.tune(name, value)
    }
}
