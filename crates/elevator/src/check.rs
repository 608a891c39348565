//! Checks any host and any scheduler against the contract, from the events of a queue alone.
//!
//! The same checker runs in the model of operations, in simulations (if configured), and over a block device's
//! event log. It is written for simplicity, not for speed.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::hash::Hasher;

use fnv::FnvHasher;

use crate::queue::{Barriers, Cache, Event, Fault, Observer, Options, SwitchReport, Token, segments};
use crate::reason::Reason;
use crate::request::{CauseSet, Flags, Op, Outcome, Priority, Request, RequestId};
use crate::scheduler::{Hold, Side, Wake};
use crate::sector::{Sector, Sectors};
use crate::time::{Span, Time};

/// The longest allowed wait between two calls of the scheduler: a scheduler that holds the device for ten
/// seconds is faulty, whatever its reason.
pub const LONGEST_HOLD: Span = Span::from_secs(10);

/// The position of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Plugged,
    Queued,
    InDevice,
    GivenBack,
}

/// The checker's record of a request.
struct Known {
    serial: u64,
    op: Op,
    start: Sector,
    sectors: Sectors,
    parts: Vec<(Token, Sector, Sectors)>,
    place: Place,
    inserted: Time,
    /// When the present scheduler received it, and [`Checker::foreign`] at that time.
    entered: (Time, Span),
}

/// The checker's record of a submission.
struct Submitted {
    op: Op,
    start: Sector,
    sectors: Sectors,
    flags: Flags,
    /// The priority and the causes: submissions that differ in them may not share a request.
    owner: (Priority, Option<CauseSet>),
    at: Time,
    /// The number of earlier submissions.
    turn: u64,
    carried: bool,
    /// When the device completed its data, and the outcome.
    served: Option<(Time, Outcome)>,
}

impl Submitted {
    /// Whether it is a flush, or a write with a preflush or forced unit access.
    fn is_ordered(&self) -> bool {
        self.op == Op::Flush || self.flags.fua || self.flags.preflush
    }
}

/// The checker's record of flushes.
#[derive(Default)]
struct Flushed {
    /// When the running flush was dispatched.
    running: Option<Time>,
    /// When the latest successful flush was dispatched: it covers writes that had completed by then.
    covers: Option<Time>,
    /// Whether the latest one failed.
    failed: bool,
}

/// Checks a queue's events one by one. It collects violations, the first ones as text.
pub struct Checker {
    options: Options,
    flushed: Flushed,
    submissions: BTreeMap<Token, Submitted>,
    submitted: u64,
    requests: BTreeMap<RequestId, Known>,
    /// The longest time that a request may stay in the scheduler, if that is checked.
    bound: Option<Span>,
    /// The bound of the scheduler that takes over next.
    bound_after_switch: Option<Span>,
    /// The device's time so far for flushes and for requests that it gave back: no policy is responsible for it.
    foreign: Span,
    latest_completion: Time,
    longest_wait: Span,
    now: Time,
    queued: u32,
    in_flight: u32,
    /// Faults of schedulers are counted, and are no violation.
    tolerates_faults: bool,
    faults: u64,
    digest: Digest,
    violations: Vec<String>,
    count: u64,
}

impl Checker {
    /// A checker of a queue with these options.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self {
            options: *options,
            flushed: Flushed::default(),
            submissions: BTreeMap::new(),
            submitted: 0,
            requests: BTreeMap::new(),
            bound: None,
            bound_after_switch: None,
            foreign: Span::ZERO,
            latest_completion: Time::ZERO,
            longest_wait: Span::ZERO,
            now: Time::ZERO,
            queued: 0,
            in_flight: 0,
            tolerates_faults: false,
            faults: 0,
            digest: Digest::default(),
            violations: Vec::new(),
            count: 0,
        }
    }

    /// From now on, no request may stay in the scheduler longer than `bound`.
    pub const fn set_bound(&mut self, bound: Option<Span>) {
        self.bound = bound;
    }

    /// From now on a faulty scheduler is no violation, as long as the queue recovers from it.
    pub const fn tolerate_faults(&mut self) {
        self.tolerates_faults = true;
    }

    /// The number of schedulers' faults that the queue has detected.
    #[must_use]
    pub const fn faults(&self) -> u64 {
        self.faults
    }

    /// The bound of the next scheduler, effective from the switch on.
    pub const fn set_bound_after_switch(&mut self, bound: Option<Span>) {
        self.bound_after_switch = bound;
    }

    /// The device's time for a request that completes now, if the device serves one request at a time.
    fn device_time(&mut self, dispatched: Time) -> Span {
        let begun = dispatched.max(self.latest_completion);
        self.latest_completion = self.now;
        self.now.since(begun)
    }

    /// The first twenty violations, as text.
    #[must_use]
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// The number of violations.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The longest time that a request stayed in the scheduler.
    #[must_use]
    pub const fn longest_wait(&self) -> Span {
        self.longest_wait
    }

    /// A digest of every event, its time and its order: equal for equal input.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest.0.finish()
    }

    /// At the end of a run: reports unfinished submissions and requests as lost.
    pub fn finish(&mut self) {
        let lost: Vec<Token> = self.submissions.keys().copied().collect();
        for token in lost {
            self.violated(format!("{token:?} was never finished"));
        }
        if self.queued > 0 {
            self.violated(format!("{} requests are still queued", self.queued));
        }
    }

    fn violated(&mut self, what: String) {
        self.count += 1;
        if self.violations.len() < 20 {
            self.violations.push(format!("at {:?}: {what}", self.now));
        }
    }

    fn submitted(&mut self, token: Token, submission: Submitted) {
        self.submitted += 1;
        if self.submissions.insert(token, submission).is_some() {
            self.violated(format!("{token:?} was submitted while in use"));
        }
    }

    /// A request carries the submission with that token; returns its operation and position.
    fn carry(&mut self, token: Token) -> Option<(Op, Sector, Sectors)> {
        self.check_turn(token);
        match self.submissions.get_mut(&token) {
            Some(submission) if !submission.carried => {
                submission.carried = true;
                Some((submission.op, submission.start, submission.sectors))
            }
            Some(_) => {
                self.violated(format!("{token:?} is carried twice"));
                None
            }
            None => {
                self.violated(format!("{token:?} is carried but was not submitted"));
                None
            }
        }
    }

    /// With draining barriers, no submission may pass an ordered one, and an ordered one may not pass any.
    fn check_turn(&mut self, token: Token) {
        let Some(submission) =
            self.submissions.get(&token).filter(|_| self.options.barriers == Barriers::Drain)
        else {
            return;
        };
        let passed = self.submissions.iter().find(|(_, other)| {
            other.turn < submission.turn && (other.is_ordered() || submission.is_ordered())
        });
        if let Some((passed, _)) = passed {
            let passed = *passed;
            self.violated(format!("{token:?} passed {passed:?} at a draining barrier"));
        }
    }

    fn carried(&mut self, token: Token, request: &Request) {
        let Some((op, start, sectors)) = self.carry(token) else { return };
        let own = self.submissions.get(&token).map(|submission| (submission.flags, submission.owner));
        let there = Some((request.flags, (request.priority, request.causes)));
        if (op, start, sectors, own) != (request.op, request.start, request.sectors, there) {
            self.violated(format!("{:?} does not carry the operation of {token:?}", request.id));
        }
        let known = Known {
            serial: request.serial,
            op,
            start,
            sectors,
            parts: Vec::from([(token, start, sectors)]),
            place: Place::Plugged,
            inserted: self.now,
            entered: (self.now, self.foreign),
        };
        if self.requests.insert(request.id, known).is_some() {
            self.violated(format!("{:?} was used again while alive", request.id));
        }
        let direction = op.direction();
        let alive = self.requests.values().filter(|known| known.op.direction() == direction).count();
        let most = self.options.limits.hard().max(1);
        if alive > most as usize {
            self.violated(format!("{alive} requests of one direction, with room for {most}"));
        }
    }

    fn merged(&mut self, token: Token, request: &Request, side: Side) {
        let Some((op, start, sectors)) = self.carry(token) else { return };
        let Some(known) = self.requests.get_mut(&request.id) else {
            return self.violated(format!("{token:?} was merged into {:?}, which does not live", request.id));
        };
        let adjacent = match side {
            Side::Back => known.start + known.sectors == start,
            Side::Front => start + sectors == known.start,
        };
        let fits = adjacent && known.op == op && matches!(known.place, Place::Plugged | Place::Queued);
        match side {
            Side::Back => known.parts.push((token, start, sectors)),
            Side::Front => known.parts.insert(0, (token, start, sectors)),
        }
        known.start = known.start.min(start);
        known.sectors += sectors;
        if !fits {
            self.violated(format!("{token:?} may not be merged into {:?}", request.id));
        }
        self.check_grown(request);
    }

    fn absorbed(&mut self, request: &Request, other: &Request) {
        let Some(other_known) = self.requests.remove(&other.id) else {
            return self.violated(format!("{:?} was absorbed but does not live", other.id));
        };
        if other_known.place == Place::Queued {
            self.queued -= 1;
        }
        let Some(known) = self.requests.get_mut(&request.id) else {
            return self.violated(format!("{:?} absorbed another but does not live", request.id));
        };
        let behind = known.start + known.sectors == other_known.start;
        let before = other_known.start + other_known.sectors == known.start;
        let fits = (behind || before)
            && known.op == other_known.op
            && known.place == other_known.place
            && matches!(known.place, Place::Plugged | Place::Queued);
        known.start = known.start.min(other_known.start);
        known.sectors += other_known.sectors;
        if behind {
            known.parts.extend(other_known.parts);
        } else {
            known.parts.splice(0..0, other_known.parts);
        }
        known.inserted = known.inserted.min(other_known.inserted);
        if !fits {
            self.violated(format!("{:?} may not absorb {:?}", request.id, other.id));
        }
        self.check_grown(request);
    }

    /// A request that grew must be within its limits, without ordered submissions, and of one priority and one set of causes.
    fn check_grown(&mut self, request: &Request) {
        let Some(known) = self.requests.get(&request.id) else { return };
        let submission = |(token, ..): &(Token, Sector, Sectors)| self.submissions.get(token);
        let ordered = known.parts.iter().filter_map(submission).any(Submitted::is_ordered);
        let owner = (request.priority, request.causes);
        let foreign = known.parts.iter().filter_map(submission).any(|part| part.owner != owner);
        let segments: u32 = known.parts.iter().map(|&(.., sectors)| segments(sectors)).sum();
        let excess = known.sectors > self.options.max_sectors || segments > self.options.max_segments;
        if !self.options.merges || ordered || foreign || excess {
            self.violated(format!("{:?} may not have grown to {:?}", request.id, request.sectors));
        }
    }

    fn inserted(&mut self, request: &Request) {
        self.queued += 1;
        let (now, foreign) = (self.now, self.foreign);
        match self.requests.get_mut(&request.id) {
            Some(known) if known.place == Place::Plugged => {
                (known.place, known.inserted, known.entered) = (Place::Queued, now, (now, foreign));
            }
            _ => self.violated(format!("{:?} was inserted twice or does not live", request.id)),
        }
    }

    /// Compares an event's numbers of requests, queued and in the device, with the checker's.
    fn check_counts(&mut self, queued: u32, in_flight: u32) {
        if (queued, in_flight) != (self.queued, self.in_flight) {
            let (known, there) = (self.queued, self.in_flight);
            self.violated(format!("{queued} queued and {in_flight} in flight, of {known} and {there}"));
        }
        if in_flight > self.options.depth {
            self.violated(format!("{in_flight} requests in a device that takes {}", self.options.depth));
        }
    }

    fn dispatched(&mut self, request: &Request, reason: Reason) {
        if request.op == Op::Flush {
            return self.flush_dispatched();
        }
        let (now, bound, foreign) = (self.now, self.bound, self.foreign);
        let Some(known) = self.requests.get_mut(&request.id) else {
            return self.violated(format!("{:?} was dispatched but does not live", request.id));
        };
        let again = reason == Reason::GivenBack;
        let right_time = known.place == if again { Place::GivenBack } else { Place::Queued };
        let waited = if again { Span::ZERO } else { now.since(known.inserted) };
        let held_back =
            if again { Span::ZERO } else { now.since(known.entered.0) - (foreign - known.entered.1) };
        self.queued -= u32::from(known.place == Place::Queued);
        known.place = Place::InDevice;
        let same = (known.serial, known.op, known.start, known.sectors)
            == (request.serial, request.op, request.start, request.sectors);
        let covered = covers(known);
        let first = known.parts[0].0;
        self.longest_wait = self.longest_wait.max(waited);
        if !right_time {
            self.violated(format!("{:?} was dispatched twice or before its insertion", request.id));
        }
        if !same || !covered {
            self.violated(format!("{:?} does not cover exactly its parts", request.id));
        }
        if request.flags.preflush
            && !self.is_flushed_since(self.submissions.get(&first).map(|submission| submission.at))
        {
            self.violated(format!("{:?} overtook the flush that must go before it", request.id));
        }
        if bound.is_some_and(|bound| held_back > bound) {
            self.violated(format!(
                "{:?} waited {held_back}, longer than the policy's bound {}",
                request.id,
                bound.unwrap_or_default()
            ));
        }
    }

    fn flush_dispatched(&mut self) {
        if self.flushed.running.is_some() {
            self.violated(String::from("a flush was sent while another one runs"));
        }
        self.flushed.running = Some(self.now);
        if self.options.barriers == Barriers::Drain && !self.requests.is_empty() {
            self.violated(format!("a draining flush was sent with {} requests alive", self.requests.len()));
        }
    }

    /// Whether a flush dispatched at `since` or later has succeeded, if the device needs flushes.
    fn is_flushed_since(&self, since: Option<Time>) -> bool {
        self.options.cache == Cache::WriteThrough
            || self.flushed.covers.is_some_and(|covers| Some(covers) >= since)
    }

    fn held(&mut self, hold: Hold, queued: u32, in_flight: u32) {
        if self.tolerates_faults {
            // The queue decides which holds are faults.
            return;
        }
        if queued == 0 && hold.wake == Wake::Timer {
            self.violated(format!("the device is to wait ({}) with nothing queued", hold.reason));
        }
        match (hold.wake, hold.until) {
            (Wake::Completion, _) if in_flight == 0 => {
                self.violated(format!("waits for a completion ({}) with nothing in flight", hold.reason));
            }
            (Wake::Timer, None) => self.violated(format!("waits without end ({})", hold.reason)),
            (_, Some(until)) if until <= self.now => {
                self.violated(format!("waits until a time that has passed ({})", hold.reason));
            }
            (_, Some(until)) if until.since(self.now) > LONGEST_HOLD => {
                self.violated(format!("waits for {} ({})", until.since(self.now), hold.reason));
            }
            _ => {}
        }
    }

    fn completed(&mut self, request: &Request, outcome: Outcome, dispatched: Time) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if request.op == Op::Flush {
            let sent = self.flushed.running.take();
            let time = self.device_time(sent.unwrap_or(self.now));
            self.foreign += time;
            if sent.is_none() {
                self.violated(String::from("a flush completed but none was sent"));
            }
            self.flushed.failed = outcome == Outcome::Failed;
            if outcome == Outcome::Done {
                self.flushed.covers = sent;
            }
            return;
        }
        let time = self.device_time(dispatched);
        if outcome == Outcome::GivenBack {
            self.foreign += time;
        }
        let Some(known) = self.requests.get_mut(&request.id).filter(|known| known.place == Place::InDevice)
        else {
            return self.violated(format!("{:?} completed but was not in the device", request.id));
        };
        if outcome == Outcome::GivenBack {
            known.place = Place::GivenBack;
            return;
        }
        for (token, ..) in &known.parts {
            if let Some(submission) = self.submissions.get_mut(token) {
                submission.served = Some((self.now, outcome));
            }
        }
        self.requests.remove(&request.id);
    }

    fn finished(&mut self, token: Token, outcome: Outcome) {
        let Some(submission) = self.submissions.remove(&token) else {
            return self.violated(format!("{token:?} was finished twice or never submitted"));
        };
        let data_outcome = submission.served.map(|(_, outcome)| outcome);
        if outcome != Outcome::Done {
            let unflushed = submission.is_ordered() && self.flushed.failed;
            if outcome == Outcome::GivenBack || (data_outcome != Some(Outcome::Failed) && !unflushed) {
                self.violated(format!("{token:?} was reported as {outcome:?}, which is not its outcome"));
            }
            return;
        }
        let served = if submission.op == Op::Flush {
            Some(submission.at)
        } else {
            submission.served.map(|(at, _)| at)
        };
        if served.is_none() {
            self.violated(format!("{token:?} was finished without being served"));
        }
        if data_outcome == Some(Outcome::Failed) {
            self.violated(format!("{token:?} was reported as done, but the device failed it"));
        }
        let by_queue = self.options.cache == (Cache::WriteBack { fua: false }) && submission.flags.fua;
        if (by_queue || submission.op == Op::Flush) && !self.is_flushed_since(served) {
            self.violated(format!("{token:?} was reported as durable without a flush behind it"));
        }
    }

    fn faulted(&mut self, fault: Fault, queued: u32) {
        self.faults += 1;
        self.check_counts(queued, self.in_flight);
        if !self.tolerates_faults {
            self.violated(format!("the scheduler {fault}"));
        }
    }

    fn switched(&mut self, report: SwitchReport) {
        // Requests that a new scheduler takes over wait for it from now on.
        self.bound = self.bound_after_switch;
        let entered = (self.now, self.foreign);
        self.requests.values_mut().for_each(|known| known.entered = entered);
        if (report.moved, report.in_flight) != (self.queued, self.in_flight) {
            let (queued, in_flight) = (self.queued, self.in_flight);
            self.violated(format!("{report:?} of {queued} queued requests and {in_flight} in flight"));
        }
    }
}

impl Observer for Checker {
    fn event(&mut self, now: Time, event: &Event<'_>) {
        if now < self.now {
            self.violated(format!("time ran backwards to {now:?}"));
        }
        self.now = now;
        self.digest.add(now, event);
        match *event {
            Event::Submitted { token, op, start, sectors, flags, priority, causes, .. } => {
                let (owner, at, turn) = ((priority, causes), now, self.submitted);
                let (carried, served) = (false, None);
                self.submitted(
                    token,
                    Submitted { op, start, sectors, flags, owner, at, turn, carried, served },
                );
            }
            Event::Carried(token, request) => self.carried(token, request),
            Event::Merged(token, request, side) => self.merged(token, request, side),
            Event::Absorbed(request, other) => self.absorbed(request, other),
            Event::Inserted(request) => self.inserted(request),
            Event::Dispatched { request, reason, queued, in_flight } => {
                let flush = request.op == Op::Flush || self.flushed.running.is_some();
                if self.options.barriers.flushes_alone() && flush && in_flight > 1 {
                    self.violated(format!("a flush shares the device with {} others", in_flight - 1));
                }
                self.in_flight += 1;
                self.dispatched(request, reason);
                self.check_counts(queued, in_flight);
            }
            Event::Held { hold, queued, in_flight } => {
                self.check_counts(queued, in_flight);
                self.held(hold, queued, in_flight);
            }
            Event::Idle { queued } => {
                self.check_counts(queued, self.in_flight);
                if queued > 0 {
                    self.violated(format!("the scheduler returned idle, but has {queued} requests"));
                }
            }
            Event::Completed { request, outcome, dispatched } => self.completed(request, outcome, dispatched),
            Event::Finished(token, outcome) => self.finished(token, outcome),
            Event::Switched(report) => self.switched(report),
            Event::Faulted { fault, queued } => self.faulted(fault, queued),
            Event::Slept(_) | Event::Exited(_) => {}
        }
    }
}

/// Whether a request's extent is exactly its parts, end to end.
fn covers(known: &Known) -> bool {
    let mut at = known.start;
    for &(_, start, sectors) in &known.parts {
        if start != at {
            return false;
        }
        at = start + sectors;
    }
    at == known.start + known.sectors
}

/// FNV-1a over the fields of events: the same on every machine.
#[derive(Default)]
struct Digest(FnvHasher);

impl Digest {
    fn word(&mut self, word: u64) {
        self.0.write(&word.to_le_bytes());
    }

    fn add(&mut self, now: Time, event: &Event<'_>) {
        let (kind, what) = match *event {
            Event::Submitted { token, .. } => (1, token.0),
            Event::Slept(token) => (2, token.0),
            Event::Carried(token, _) => (3, token.0),
            Event::Merged(token, ..) => (4, token.0),
            Event::Absorbed(request, _) => (5, request.serial),
            Event::Inserted(request) => (6, request.serial),
            Event::Dispatched { request, reason, .. } => (7 | reason.code() << 8, request.serial),
            Event::Held { hold, .. } => (8 | hold.reason.code() << 8, hold.until.map_or(0, Time::as_nanos)),
            Event::Idle { .. } => (9, 0),
            Event::Completed { request, .. } => (10, request.serial),
            Event::Finished(token, _) => (11, token.0),
            Event::Exited(process) => (12, u64::from(process.task)),
            Event::Switched(report) => (13, u64::from(report.moved)),
            Event::Faulted { queued, .. } => (14, u64::from(queued)),
        };
        self.word(now.as_nanos());
        self.word(kind);
        self.word(what);
    }
}
