//! Holds any host and any scheduler to the contract, from the events of a queue alone.
//!
//! The same checker runs over fuzzed operations, over every simulation that asks for it, and over a block device's
//! event log. It is written to be obvious, not fast.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::hash::Hasher;

use fnv::FnvHasher;

use crate::queue::{Barriers, Cache, Event, Observer, Options, SwitchReport, Token};
use crate::reason::Reason;
use crate::request::{Flags, Op, Outcome, Request, RequestId};
use crate::scheduler::{Hold, Side, Wake};
use crate::sector::{Sector, Sectors};
use crate::time::{Span, Time};

/// No deliberate wait may be longer than this without being asked again: a scheduler that holds the device for ten
/// seconds is broken, whatever its reason.
pub const LONGEST_HOLD: Span = Span::from_secs(10);

/// A request as the checker remembers it.
struct Known {
    serial: u64,
    op: Op,
    start: Sector,
    sectors: Sectors,
    parts: Vec<(Token, Sector, Sectors)>,
    inserted: Option<Time>,
    dispatched: bool,
}

/// A submission as the checker remembers it.
struct Asked {
    op: Op,
    start: Sector,
    sectors: Sectors,
    flags: Flags,
    at: Time,
    carried: bool,
    /// When the device was done with its data.
    served: Option<Time>,
}

/// What the checker knows of flushes.
#[derive(Default)]
struct Flushed {
    /// The running flush, since when.
    running: Option<Time>,
    /// When the latest flush that succeeded had been sent: it covers what had completed by then.
    covers: Option<Time>,
}

/// Checks a queue's events as they come. Violations are collected, the first ones in words.
pub struct Checker {
    cache: Cache,
    barriers: Barriers,
    flushed: Flushed,
    asked: BTreeMap<Token, Asked>,
    requests: BTreeMap<RequestId, Known>,
    /// How long a request may stay in the scheduler, if that is to be checked.
    bound: Option<Span>,
    longest_wait: Span,
    now: Time,
    queued: u32,
    digest: Digest,
    violations: Vec<String>,
    count: u64,
}

impl Checker {
    /// A checker of a queue that is set up like this.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self {
            cache: options.cache,
            barriers: options.barriers,
            flushed: Flushed::default(),
            asked: BTreeMap::new(),
            requests: BTreeMap::new(),
            bound: None,
            longest_wait: Span::ZERO,
            now: Time::ZERO,
            queued: 0,
            digest: Digest::default(),
            violations: Vec::new(),
            count: 0,
        }
    }

    /// From now on, no request may stay in the scheduler longer than `bound`.
    pub const fn set_bound(&mut self, bound: Option<Span>) {
        self.bound = bound;
    }

    /// What was violated, in words: the first twenty.
    #[must_use]
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// How many violations there were.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The longest that a request stayed in the scheduler.
    #[must_use]
    pub const fn longest_wait(&self) -> Span {
        self.longest_wait
    }

    /// A number that depends on every event, its time and its order: the same for the same input.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest.0.finish()
    }

    /// At the end, when nothing should be outstanding: what is, counts as lost.
    pub fn finish(&mut self) {
        let lost: Vec<Token> = self.asked.keys().copied().collect();
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

    fn submitted(&mut self, token: Token, op: Op, start: Sector, sectors: Sectors, flags: Flags) {
        let asked = Asked { op, start, sectors, flags, at: self.now, carried: false, served: None };
        if self.asked.insert(token, asked).is_some() {
            self.violated(format!("{token:?} was submitted while in use"));
        }
    }

    /// The submission with that token goes into a request; where it lies.
    fn carry(&mut self, token: Token) -> Option<(Op, Sector, Sectors)> {
        match self.asked.get_mut(&token) {
            Some(asked) if !asked.carried => {
                asked.carried = true;
                Some((asked.op, asked.start, asked.sectors))
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

    fn carried(&mut self, token: Token, request: &Request) {
        let Some((op, start, sectors)) = self.carry(token) else { return };
        if (op, start, sectors) != (request.op, request.start, request.sectors) {
            self.violated(format!("{:?} does not carry what {token:?} asked for", request.id));
        }
        let known = Known {
            serial: request.serial,
            op,
            start,
            sectors,
            parts: Vec::from([(token, start, sectors)]),
            inserted: None,
            dispatched: false,
        };
        if self.requests.insert(request.id, known).is_some() {
            self.violated(format!("{:?} was used again while alive", request.id));
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
        let fits = adjacent && known.op == op && !known.dispatched;
        match side {
            Side::Back => known.parts.push((token, start, sectors)),
            Side::Front => known.parts.insert(0, (token, start, sectors)),
        }
        known.start = known.start.min(start);
        known.sectors += sectors;
        if !fits {
            self.violated(format!("{token:?} may not be merged into {:?}", request.id));
        }
    }

    fn absorbed(&mut self, request: &Request, other: &Request) {
        let Some(other_known) = self.requests.remove(&other.id) else {
            return self.violated(format!("{:?} was absorbed but does not live", other.id));
        };
        if other_known.inserted.is_some() {
            self.queued -= 1;
        }
        let Some(known) = self.requests.get_mut(&request.id) else {
            return self.violated(format!("{:?} absorbed another but does not live", request.id));
        };
        let behind = known.start + known.sectors == other_known.start;
        let before = other_known.start + other_known.sectors == known.start;
        let fits = (behind || before)
            && known.op == other_known.op
            && known.inserted.is_some() == other_known.inserted.is_some();
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
    }

    fn inserted(&mut self, request: &Request) {
        self.queued += 1;
        let now = self.now;
        match self.requests.get_mut(&request.id) {
            Some(known) if known.inserted.is_none() => known.inserted = Some(now),
            _ => self.violated(format!("{:?} was inserted twice or does not live", request.id)),
        }
    }

    fn dispatched(&mut self, request: &Request, reason: Reason) {
        if request.op == Op::Flush {
            return self.flush_dispatched();
        }
        let (now, bound) = (self.now, self.bound);
        let Some(known) = self.requests.get_mut(&request.id) else {
            return self.violated(format!("{:?} was dispatched but does not live", request.id));
        };
        let again = reason == Reason::GivenBack;
        let right_time = known.inserted.is_some() && known.dispatched == again;
        known.dispatched = true;
        let same = (known.serial, known.op, known.start, known.sectors)
            == (request.serial, request.op, request.start, request.sectors);
        let covered = covers(known);
        let first = known.parts[0].0;
        let waited = if again { Span::ZERO } else { now.since(known.inserted.unwrap_or(now)) };
        self.longest_wait = self.longest_wait.max(waited);
        if !again {
            self.queued -= 1;
        }
        if !right_time {
            self.violated(format!("{:?} was dispatched twice or before its insertion", request.id));
        }
        if !same || !covered {
            self.violated(format!("{:?} does not cover exactly its parts", request.id));
        }
        if request.flags.preflush && !self.is_flushed_since(self.asked.get(&first).map(|asked| asked.at)) {
            self.violated(format!("{:?} overtook the flush that must go before it", request.id));
        }
        if bound.is_some_and(|bound| waited > bound) {
            self.violated(format!(
                "{:?} waited {waited}, longer than the policy's bound {}",
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
        if self.barriers == Barriers::Drain && !self.requests.is_empty() {
            self.violated(format!("a draining flush was sent with {} requests alive", self.requests.len()));
        }
    }

    /// Whether a flush that was sent at `since` or later has succeeded, if the device needs one at all.
    fn is_flushed_since(&self, since: Option<Time>) -> bool {
        self.cache == Cache::WriteThrough || self.flushed.covers.is_some_and(|covers| Some(covers) >= since)
    }

    fn held(&mut self, hold: Hold, queued: u32, in_flight: u32) {
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

    fn completed(&mut self, request: &Request, outcome: Outcome) {
        if request.op == Op::Flush {
            let sent = self.flushed.running.take();
            if outcome == Outcome::Done {
                self.flushed.covers = sent;
            }
            return;
        }
        if outcome == Outcome::GivenBack {
            return;
        }
        match self.requests.remove(&request.id) {
            Some(known) if known.dispatched => {
                for (token, ..) in known.parts {
                    if let Some(asked) = self.asked.get_mut(&token) {
                        asked.served = Some(self.now);
                    }
                }
            }
            _ => self.violated(format!("{:?} completed but was not in the device", request.id)),
        }
    }

    fn finished(&mut self, token: Token, outcome: Outcome) {
        let Some(asked) = self.asked.remove(&token) else {
            return self.violated(format!("{token:?} was finished twice or never submitted"));
        };
        if outcome != Outcome::Done {
            return;
        }
        let served = if asked.op == Op::Flush { Some(asked.at) } else { asked.served };
        if served.is_none() {
            self.violated(format!("{token:?} was finished without being served"));
        }
        let by_queue = self.cache == (Cache::WriteBack { fua: false }) && asked.flags.fua;
        if (by_queue || asked.op == Op::Flush) && !self.is_flushed_since(served) {
            self.violated(format!("{token:?} was called durable without a flush behind it"));
        }
    }

    fn switched(&mut self, report: SwitchReport) {
        if report.moved != self.queued {
            self.violated(format!("a switch moved {} of {} queued requests", report.moved, self.queued));
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
            Event::Submitted { token, op, start, sectors, flags, .. } => {
                self.submitted(token, op, start, sectors, flags);
            }
            Event::Carried(token, request) => self.carried(token, request),
            Event::Merged(token, request, side) => self.merged(token, request, side),
            Event::Absorbed(request, other) => self.absorbed(request, other),
            Event::Inserted(request) => self.inserted(request),
            Event::Dispatched { request, reason, in_flight, .. } => {
                let flush = request.op == Op::Flush || self.flushed.running.is_some();
                if self.barriers == Barriers::Alone && flush && in_flight > 1 {
                    self.violated(format!("a flush shares the device with {} others", in_flight - 1));
                }
                self.dispatched(request, reason);
            }
            Event::Held { hold, queued, in_flight } => self.held(hold, queued, in_flight),
            Event::Idle { queued } if queued > 0 => {
                self.violated(format!("the scheduler says idle, but has {queued} requests"));
            }
            Event::Completed { request, outcome, .. } => self.completed(request, outcome),
            Event::Finished(token, outcome) => self.finished(token, outcome),
            Event::Switched(report) => self.switched(report),
            Event::Slept(_) | Event::Idle { .. } | Event::Exited(_) => {}
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

/// FNV-1a over what events say: the same on every machine.
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
            Event::Dispatched { request, reason, .. } => (7 | (reason as u64) << 8, request.serial),
            Event::Held { hold, .. } => (8 | (hold.reason as u64) << 8, hold.until.map_or(0, Time::as_nanos)),
            Event::Idle { .. } => (9, 0),
            Event::Completed { request, .. } => (10, request.serial),
            Event::Finished(token, _) => (11, token.0),
            Event::Exited(process) => (12, u64::from(process.task)),
            Event::Switched(report) => (13, u64::from(report.moved)),
        };
        self.word(now.as_nanos());
        self.word(kind);
        self.word(what);
    }
}
