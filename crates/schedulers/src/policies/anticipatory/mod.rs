//! The anticipatory scheduler: after a read, wait a moment for the next read of the same process.
//!
//! # Idea
//! A process that reads sequentially has nothing queued when its read completes. A scheduler that turns to another process's
//! request at once seeks away and back for every read (*deceptive idleness*). So the device stays idle for a few milliseconds if
//! the process is likely to issue a request near by in that time. Writes are dispatched in batches of their own.
//!
//! # State
//! Two sorted orders and two lists (synchronous and asynchronous), the current batch, the state of the wait, a history per
//! process (think time, seek distance), and averages over the first requests of new processes.
//!
//! # Order of decisions
//! 1. Waiting, or the batch changes: hold.
//! 2. In a read batch: the oldest read, if it has expired; checked once per `read_expire`.
//! 3. In a read batch: hold, if there is no reason against waiting for the process that read last.
//! 4. The batch's next request in elevator order, unless the batch is over and the other kind has requests.
//! 5. The other kind's batch, from its oldest request (2.6.9: writes from the next in order), once the device is drained.
//!
//! Reasons against waiting, in this order (`as_can_break_anticipation`):
//! 1. The next request is the awaited process's own.
//! 2. The time is over.
//! 3. (2.6.9) The process has ended.
//! 4. The process has something queued.
//! 5. The next request is close.
//! 6. (2.6.32) The process has ended, and other processes rarely continue for an ended one.
//! 7. The process is new, and new processes think long or tend to end.
//! 8. The process thinks too long.
//! 9. (2.6.9) The next request is nearer than the process's mean seek distance.
//!
//! # Where it differs from the source
//! - Time windows are counted in ticks, with `hz` as a tunable: 1000 for 2.6.9; 250 for 2.6.32, at which the read expiry is
//!   124 ms and the longest wait 4 ms, as in the stream paper.
//! - The rule "a request of the process is dispatched but not yet with the driver" has no counterpart: requests go to the device
//!   one by one.
//! - Histories are per device, not per process over all devices.
//! - A write batch that begins with a drained device starts its clock then. 2.6.12 does not start it; 2.6.32 starts the read
//!   batch's clock as well, which distorts the tuning of write batches.
//! - Requests at the same sector stay in order of age.
//! - After a request that the device gave back, no process is awaited.
//! - In both versions, writes marked synchronous count as reads (2.6.11: those of tasks inside `fsync`).
//! - A request without a known process is never waited for.
//! - The benchmarks of February 2003 measured a version that is not public. The first public one (4 July 2003, 2.5.75) has
//!   shorter times: 50 ms for an expired read, 200 ms for an expired write, 200 ms for a batch of reads and 50 ms for one of
//!   writes, until 18 January and 9 May 2004. The number of writes in a batch has been tuned to that time since May 2003.
//!
//! # Not for
//! Devices that serve several requests at once (arrays, solid-state devices), and hosts that cannot name processes: there it is
//! deadline with batches. One streaming process starves a group of short-lived ones ([`cooperative`](super::cooperative)
//! addresses this). There is no bound on waiting: only one expired read is served per `read_expire`, and the length of write
//! batches adapts to measured times.
//!
//! # Sources
//! Linux 2.6.32 `block/as-iosched.c`; 2.6.11 and 2.6.12 `drivers/block/as-iosched.c` (unchanged since 2.6.9);
//! `Documentation/block/as-iosched.txt` (Piggin 2003); Iyer and Druschel, "Anticipatory scheduling: A disk scheduling framework to
//! overcome deceptive idleness in synchronous I/O", SOSP 2001.

mod batches;
pub(crate) mod by_process;
pub(crate) mod judgement;
pub(crate) mod lists;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
mod wait;

use alloc::boxed::Box;
use alloc::vec::Vec;

use elevator::{
    Admission, Capabilities, Decision, Direction, Growth, Hold, HoldReason, Inspection, Item, Outcome,
    Process, Reason, Request, RequestId, Scheduler, Time, TuneError, Tuning, Value, View, Wake,
    tuned_by_itself,
};

use self::batches::Batches;
use self::by_process::ByProcess;
use self::judgement::{Break, Judgement, Queued, Requester, Situation};
use self::lists::{Kind, Lists};
use self::settings::{Settings, Timing, anticipatory_tunables};
use self::wait::{Status, Wait};
use crate::listing::{Listing, Make};
use crate::parts::jiffies::{Jiffies, Ticks};
use crate::parts::per_request::PerRequest;

anticipatory_tunables! {
    /// The tunables of 2.6.32. Names and defaults are Linux's; times are truncated to whole ticks.
    pub struct Tunables { hz = 250; }
}

anticipatory_tunables! {
    /// The tunables of 2.6.9: the same, at the HZ of its time.
    pub struct Tunables2_6_9 { hz = 1000; }
}

/// The version whose rules apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// 2.6.9 to 2.6.12: the "LAS" of the cooperative scheduler's paper.
    V2_6_9,
    /// 2.6.16 to 2.6.32: with an estimate of cooperation.
    V2_6_32,
}

/// A judgement for a version's settings.
pub(crate) trait Judges<S>: Judgement + Send {
    /// The settings have changed.
    fn tuned(&mut self, settings: &S);
}

impl<S: Settings> Judges<S> for ByProcess {
    fn tuned(&mut self, settings: &S) {
        self.ticks = Ticks::of_hz(settings.hz());
    }
}

/// The state of a request from its insertion to its end.
#[derive(Clone, Copy, Debug)]
struct Record {
    requester: Option<Requester>,
    kind: Kind,
    expires: Jiffies,
}

impl Default for Record {
    fn default() -> Self {
        Self { requester: None, kind: Kind::Async, expires: 0 }
    }
}

/// The anticipatory scheduler, parametrised by the judgement of which process to wait for.
pub(crate) struct Anticipatory<S, J> {
    settings: S,
    timing: Timing,
    ticks: Ticks,
    /// The time of the latest event.
    now: Time,
    pub(crate) judgement: J,
    /// Whether a write batch begins at the oldest write or at the next in order.
    writes_from_oldest: bool,
    lists: Lists,
    records: PerRequest<Record>,
    batches: Batches,
    wait: Wait,
    /// Requests in the device.
    nr_dispatched: u32,
}

pub(crate) const LISTINGS: &[Listing] = &[
    Listing::new(
        "anticipatory",
        "waits for the next read of the process that read last; the LAS of the papers",
        Make::Scheduler(|_| Box::new(version_2_6_9())),
    )
    .with_version("2.6.9")
    .superseded()
    .with_source("Linux 2.6.9 to 2.6.12, drivers/block/as-iosched.c")
    .with_tunables(Tunables2_6_9::TABLE),
    Listing::new(
        "anticipatory",
        "waits for the next read of the process that read last, or of one that cooperates with it",
        Make::Scheduler(|_| Box::new(version_2_6_32())),
    )
    .with_version("2.6.32")
    .with_source("Linux 2.6.32, block/as-iosched.c")
    .with_tunables(Tunables::TABLE),
];

fn version_2_6_9() -> Anticipatory<Tunables2_6_9, ByProcess> {
    Anticipatory::new(ByProcess::new(Version::V2_6_9, Ticks::of_hz(1000)), false)
}

fn version_2_6_32() -> Anticipatory<Tunables, ByProcess> {
    Anticipatory::new(ByProcess::new(Version::V2_6_32, Ticks::of_hz(250)), true)
}

/// A choice, or the reason to wait.
type Choice = Result<(RequestId, Reason), Hold>;

impl<S: Settings, J: Judges<S>> Anticipatory<S, J> {
    /// With the defaults, and nothing queued.
    pub(crate) fn new(mut judgement: J, writes_from_oldest: bool) -> Self {
        let settings = S::default();
        let timing = settings.timing();
        judgement.tuned(&settings);
        Self {
            ticks: Ticks::of_hz(settings.hz()),
            now: Time::ZERO,
            settings,
            timing,
            judgement,
            writes_from_oldest,
            lists: Lists::default(),
            records: PerRequest::new(),
            batches: Batches::new(&timing),
            wait: Wait::new(),
            nr_dispatched: 0,
        }
    }

    /// The time in ticks. Ends a wait whose time is over (`as_antic_timeout`).
    fn clock(&mut self, now: Time) -> Jiffies {
        self.now = now;
        let now = self.ticks.at(now);
        let over = self.wait.until(self.timing.antic_expire).is_some_and(|until| now >= until);
        if let (true, Some(awaited)) = (over, self.wait.awaited()) {
            self.wait.stop(Break::TimeOver);
            self.judgement.timed_out(now, awaited);
        }
        now
    }

    fn situation(&self, now: Jiffies) -> Option<Situation> {
        Some(Situation {
            now,
            awaited: self.wait.awaited()?,
            waiting: self.wait.status() != Status::Off,
            since: self.wait.since(),
            last_sector: self.lists.last_sector(Kind::Sync),
            antic_expire: self.timing.antic_expire,
        })
    }

    /// Whether there is a reason against waiting; stores it.
    fn breaks(&mut self, now: Jiffies, request: Option<&Queued>) -> bool {
        let Some(situation) = self.situation(now) else { return true };
        let found = self.judgement.can_break(&situation, request);
        if let Some(because) = found {
            self.wait.stop(because);
        }
        found.is_some()
    }

    fn can_anticipate(&mut self, now: Jiffies, view: &View<'_>, next: Option<RequestId>) -> bool {
        let queued = next.map(|id| Queued::of(&view.requests[id], self.records[id].requester));
        self.wait.status() != Status::Finished && !self.breaks(now, queued.as_ref())
    }

    /// The hold, if the device waits.
    fn hold(&self) -> Option<Hold> {
        if self.batches.is_changing() {
            return Some(Hold { until: None, wake: Wake::Completion, reason: HoldReason::BatchChange });
        }
        let awaited = self.wait.awaited()?;
        match self.wait.status() {
            Status::WaitReq => {
                Some(Hold { until: None, wake: Wake::Completion, reason: HoldReason::AwaitCompletion })
            }
            Status::WaitNext => Some(Hold {
                until: self.wait.until(self.timing.antic_expire).map(|tick| self.ticks.time(tick)),
                wake: Wake::Timer,
                reason: self.judgement.hold_reason(awaited),
            }),
            Status::Off | Status::Finished => None,
        }
    }

    const fn expire(&self, kind: Kind) -> Jiffies {
        match kind {
            Kind::Sync => self.timing.read_expire,
            Kind::Async => self.timing.write_expire,
        }
    }

    /// The oldest request of that kind, if it has expired and the check is due.
    fn expired(&mut self, kind: Kind, now: Jiffies) -> Option<RequestId> {
        let expire = self.expire(kind);
        if !self.lists.due_for_check(kind, now, expire) {
            return None;
        }
        self.lists.oldest(kind).filter(|&id| now > self.records[id].expires)
    }

    /// `as_dispatch_request`.
    fn choose(&mut self, now: Jiffies, view: &View<'_>) -> Choice {
        let [writes, reads] = [Kind::Async, Kind::Sync].map(|kind| self.lists.any(kind));
        if !(reads && writes && self.batches.is_expired(now))
            && let Some(choice) = self.go_on(now, view, reads && !writes)
        {
            return choice;
        }
        let writes_next = writes && (!reads || self.batches.kind() == Kind::Sync);
        let (kind, from_oldest) = if writes_next {
            self.batches.switch_to_writes();
            (Kind::Async, self.writes_from_oldest)
        } else {
            self.batches.switch_to_reads();
            (Kind::Sync, true)
        };
        if from_oldest {
            self.lists.checked(kind, now);
        }
        let first = if from_oldest { self.lists.oldest(kind) } else { self.lists.next(kind) };
        self.settle(now, first, Reason::NewBatch)
    }

    /// Continues the running batch, if it has requests or a process to wait for.
    fn go_on(&mut self, now: Jiffies, view: &View<'_>, reads_only: bool) -> Option<Choice> {
        let kind = self.batches.kind();
        let next = self.lists.next(kind);
        if kind == Kind::Sync && self.timing.antic_expire > 0 {
            if let Some(expired) = self.expired(kind, now) {
                return Some(Ok((expired, Reason::Expired)));
            }
            if self.can_anticipate(now, view, next) {
                self.wait.begin();
                return self.hold().map(Err);
            }
        }
        let next = next?;
        if reads_only {
            self.batches.uncontended_read(now, &self.timing);
        }
        Some(self.settle(now, Some(next), self.reason(next)))
    }

    /// An expired request goes first, and none goes before the device is drained for a new batch.
    fn settle(&mut self, now: Jiffies, first: Option<RequestId>, reason: Reason) -> Choice {
        let drain = Hold { until: None, wake: Wake::Completion, reason: HoldReason::BatchChange };
        let expired = self.expired(self.batches.kind(), now);
        if self.batches.is_changing() && self.nr_dispatched > 0 {
            return Err(drain);
        }
        self.batches.drained(now, &self.timing);
        match expired {
            Some(id) if first != Some(id) => Ok((id, Reason::Expired)),
            _ => first.map(|id| (id, reason)).ok_or(drain),
        }
    }

    /// The reason for dispatching the running batch's next request.
    fn reason(&self, id: RequestId) -> Reason {
        let own = self.records[id].requester.map(|r| r.process) == self.wait.awaited().map(|r| r.process);
        match self.wait.because() {
            _ if self.batches.kind() == Kind::Async => Reason::Batch,
            None => Reason::SectorOrder,
            Some(Break::SameProcess) if own => Reason::Anticipated,
            Some(Break::SameProcess | Break::HasQueued) => Reason::SectorOrder,
            Some(Break::SameGroup | Break::Close | Break::ShorterSeek) => Reason::CloseEnough,
            Some(Break::TimeOver) => Reason::WaitOver,
            Some(Break::Exited | Break::NewcomersThink | Break::NewcomersExit | Break::ThinksTooLong) => {
                Reason::WaitUseless
            }
        }
    }

    fn awaits(&mut self, awaited: Option<Requester>) {
        self.judgement.awaits(self.wait.awaited(), awaited);
        self.wait.sent(awaited);
    }

    /// `as_move_to_dispatch`.
    fn send(&mut self, request: &Request) {
        let Record { requester, kind, .. } = self.records[request.id];
        self.awaits(requester.filter(|_| kind == Kind::Sync));
        if kind == Kind::Async {
            self.batches.sent_write();
        }
        self.lists.sent(kind, request.end());
        self.lists.remove(kind, request);
        if let Some(requester) = requester {
            self.judgement.left_queue(requester, kind);
        }
        self.nr_dispatched += 1;
    }

    /// The device gave back the awaited request; its completion will not be reported.
    fn given_back(&mut self, requester: Option<Requester>) {
        let awaited = self.wait.awaited();
        if awaited.is_some() && awaited.map(|r| r.process) == requester.map(|r| r.process) {
            self.judgement.awaits(awaited, None);
            self.wait.forget();
        }
    }

    /// A queued request was absorbed by `request`. If it would have expired first, `request` takes its place.
    fn absorb(&mut self, request: &Request, absorbed: &Request) {
        let was = self.records[absorbed.id];
        let record = &mut self.records[request.id];
        if was.kind == record.kind && was.expires < record.expires {
            record.expires = was.expires;
            self.lists.take_place(was.kind, request, absorbed);
        } else {
            self.lists.remove(was.kind, absorbed);
        }
        if let Some(requester) = was.requester {
            self.judgement.left_queue(requester, was.kind);
            self.judgement.gone(requester);
        }
    }
}

impl<S: Settings, J: Judges<S>> Scheduler for Anticipatory<S, J> {
    fn insert(&mut self, now: Time, request: &Request) {
        let now = self.clock(now);
        let kind = Kind::of(request);
        let requester = self.judgement.arrived(now, request);
        let expires = self.ticks.at(request.arrived) + self.expire(kind);
        self.records.set(request.id, Record { requester, kind, expires });
        self.lists.add(kind, request);
        if self.wait.is_waiting() {
            self.breaks(now, Some(&Queued::of(request, requester)));
        }
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        self.clock(now);
        if growth.was_start != request.start {
            self.lists.moved(self.records[request.id].kind, growth.was_start, request);
        }
        if let Some(absorbed) = growth.absorbed {
            self.absorb(request, absorbed);
        }
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        let now = self.clock(now);
        let [writes, reads] = [Kind::Async, Kind::Sync].map(|kind| self.lists.any(kind));
        self.batches.note_idleness(reads, writes);
        if !reads && !writes {
            return Decision::Idle;
        }
        if let Some(hold) = self.hold() {
            return Decision::Hold(hold);
        }
        match self.choose(now, view) {
            Ok((id, reason)) => {
                self.send(&view.requests[id]);
                Decision::Dispatch { id, reason }
            }
            Err(hold) => Decision::Hold(hold),
        }
    }

    /// `as_completed_request`.
    fn completed(&mut self, now: Time, request: &Request, outcome: Outcome) {
        let now = self.clock(now);
        let Record { requester, kind, .. } = self.records[request.id];
        self.nr_dispatched -= 1;
        if self.nr_dispatched == 0 {
            self.batches.drained(now, &self.timing);
        }
        if outcome == Outcome::GivenBack {
            self.given_back(requester);
        } else {
            self.batches.completed(kind, now, &self.timing);
        }
        let Some(requester) = requester else { return };
        if outcome != Outcome::GivenBack {
            if self.wait.awaited().is_some_and(|awaited| awaited.process == requester.process) {
                self.wait.completed(now);
            }
            self.judgement.completed(now, requester, kind);
        }
        self.judgement.gone(requester);
    }

    fn exited(&mut self, now: Time, process: Process) {
        self.clock(now);
        self.judgement.exited(process);
    }

    /// The awaited process may exceed the limit: it must not block while the device waits for it.
    fn may_queue(
        &self,
        _now: Time,
        process: Option<Process>,
        _direction: Direction,
        _sync: bool,
    ) -> Admission {
        let awaited = self.wait.awaited().filter(|_| self.wait.is_waiting());
        match (awaited, process) {
            (Some(awaited), Some(process)) if self.judgement.is_awaited(awaited, process) => Admission::Must,
            _ => Admission::ByLimit,
        }
    }
}

impl<S: Settings, J: Judges<S>> Capabilities for Anticipatory<S, J> {
    tuned_by_itself!();

    fn inspection(&self) -> Option<&dyn Inspection> {
        Some(self)
    }
}

impl<S: Settings, J: Judges<S>> Tuning for Anticipatory<S, J> {
    fn table(&self) -> &[elevator::Tunable] {
        S::TABLE
    }

    fn value(&self, name: &str) -> Option<Value> {
        self.settings.get(name)
    }

    fn set_value(&mut self, name: &str, value: Value) -> Result<(), TuneError> {
        let hz = self.settings.hz();
        self.settings.set(name, value)?;
        if self.settings.hz() != hz {
            let anew = self.ticks.change_hz(self.now, self.settings.hz());
            self.batches.convert_ticks(anew);
            self.records.values_mut().for_each(|record| anew.apply(&mut record.expires));
        }
        self.timing = self.settings.timing();
        self.judgement.tuned(&self.settings);
        Ok(())
    }
}

impl<S: Settings, J: Judges<S>> Inspection for Anticipatory<S, J> {
    fn inspect(&self, now: Time) -> Vec<Item> {
        let awaited = self.wait.awaited().filter(|_| self.wait.is_waiting());
        self.judgement.inspect(self.ticks.at(now), awaited)
    }
}
