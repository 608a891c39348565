//! The queue that hosts a scheduler: between submitters and a device with a number of tags.
//!
//! A host calls [`Queue::submit`] for each submission, [`Queue::next`] when the device may take a request, and [`Queue::complete`] when
//! the device has finished one. After each of these calls it drains [`Queue::notice`]. It calls `next` again after `submit`, `complete`,
//! `unplug`, `switch` and `exited`, and at the time that the last [`Step::Wait`] named. The queue has no clock, lock or thread: one owner, events in,
//! decisions out.
//!
//! Preconditions, which the compiler does not check (the checker of the feature `testing` detects the last two):
//!
//! - [`Options::depth`] is at least 1. A queue without tags panics when it is created.
//! - A read or write has at least one sector, and a flush has none ([`Queue::submit`] asserts it in debug builds).
//! - A [`Token`] is not submitted again before [`Notice::Finished`] returns it.
//! - Times never decrease.
//!
//! New variants of [`Event`] and new options may be added: match them with a wildcard. [`Step`], [`Notice`], [`Accepted`] and
//! [`Decision`] are complete, because a host that ignores a variant loses requests: a new one is an incompatible change.
//!
//! | file | contents |
//! |---|---|
//! | `options` | settings: depth, merging, plugging, limits, caches, barriers |
//! | `parts` | submissions as hosts name them; schedulers see them as [`Requests`] |
//! | `submit` | submission: flushed first, merged, admitted, or waiting for room |
//! | `merge` | which requests may be merged, and how a request grows |
//! | `merge_index` | queued requests by start and by end |
//! | `limits` | which submitter may add a request, which sleeps, and when it continues |
//! | `flush` | durability: flushes, which bypass the scheduler, and forced unit access |
//! | `order` | barriers that drain, and the switch of schedulers |
//! | `hosted`, `fault`, `supervision` | calls of the scheduler, and recovery from a faulty one |
//! | `directed` | an array's coordinator and the scheduler |
//! | `event` | what observers receive |

mod directed;
mod event;
mod fault;
mod flush;
mod hosted;
mod limits;
mod merge;
mod merge_index;
mod options;
mod order;
mod parts;
mod submit;
mod supervision;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

pub use event::{Event, Observer, SwitchReport};
pub use fault::{Fault, Supervision};
pub use hosted::Contain;
pub use options::{Barriers, Cache, Identity, Limits, Options, Plugging, SyncWrites};
pub use order::SwitchMode;
pub use parts::Submission;
#[cfg(feature = "testing")]
pub(crate) use parts::segments;

use self::flush::{Flushes, Then};
use self::hosted::Hosted;
use self::limits::RequestCounts;
use self::merge_index::MergeIndex;
use self::order::Order;
use self::parts::{Chain, Part, PartId, Parts};
use self::supervision::Watchdog;
use crate::capability::Item;
use crate::cold_path;
use crate::reason::{HoldReason, Reason};
use crate::request::{Direction, Flags, Op, Outcome, Priority, Process, Request, RequestId};
use crate::requests::Requests;
use crate::scheduler::{Decision, Hold, Scheduler, Wake};
use crate::sector::{Sector, Sectors};
use crate::split::Split;
use crate::time::Time;
use crate::view::{Device, LastDispatched, Positioning, View};

/// A host's identifier of a submission, from [`Queue::submit`] to [`Notice::Finished`]. The queue only returns it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

/// The immediate result of a submission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Accepted {
    /// It is queued, or finished already; its submitter may continue.
    Queued,
    /// The queue keeps it, but its submitter must sleep until [`Notice::Woken`].
    Asleep,
}

/// An event that the queue reports to its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A submission is finished; its token is free.
    Finished(Finished),
    /// The queue has room: the submitter of this one may continue. (The submission itself has not finished.)
    Woken(Token),
}

/// A finished submission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finished {
    /// The host's identifier.
    pub token: Token,
    /// Done or failed.
    pub outcome: Outcome,
    /// When it was submitted.
    pub submitted: Time,
    /// When the request that carried it was dispatched; for a submission without data, the time of the flush.
    pub dispatched: Time,
}

/// A dispatched request, whose properties [`Queue::request`] returns. The host must end it with
/// [`Queue::complete`].
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a dispatched request must be completed"]
pub struct Ticket {
    id: RequestId,
}

/// The use of a free tag.
#[derive(PartialEq, Eq, Debug)]
#[must_use]
pub enum Step {
    /// Dispatch this request.
    Dispatch(Ticket),
    /// Dispatch nothing. Call `next` again at the next event, at the latest at the time in the hold.
    Wait(Hold),
    /// Every tag is in use, or a flush in the device must be alone.
    Full,
    /// Nothing is queued.
    Idle,
}

/// The position of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// In the plug; not yet inserted into the scheduler.
    Plugged,
    /// In the scheduler.
    Queued,
    /// In the device, or about to go there again.
    Dispatched,
}

/// The queue's data about a request that schedulers do not receive.
#[derive(Clone, Copy)]
struct Meta {
    state: State,
    chain: Chain,
    dispatched: Time,
    /// Number of the scheduler that dispatched it: only that one receives its completion.
    generation: Option<u32>,
    /// When the present scheduler received it.
    inserted: Time,
    /// Requests that the present scheduler had dispatched by then.
    inserted_behind: u64,
}

/// A queue and the scheduler that it hosts.
pub struct Queue<O: Observer = ()> {
    options: Options,
    hosted: Hosted,
    watchdog: Watchdog,
    generation: u32,
    requests: Requests,
    meta: Vec<Meta>,
    parts: Parts,
    merges: MergeIndex,
    counts: RequestCounts,
    flushes: Flushes,
    order: Order,
    /// Requests gathered in the plug of [`Plugging::Task`].
    plug: Vec<RequestId>,
    plugged: bool,
    /// The time until which [`Plugging::Queue`] delays dispatching.
    plugged_until: Option<Time>,
    given_back: VecDeque<RequestId>,
    queued: u32,
    /// Unfinished writes that [`SyncWrites::counts`].
    short_writes: u32,
    in_flight: u32,
    last_dispatched: Option<LastDispatched>,
    last_hold: Option<Hold>,
    notices: VecDeque<Notice>,
    observer: O,
}

impl Queue {
    /// A queue without an observer.
    ///
    /// # Panics
    /// If [`Options::depth`] is 0: no request could ever be dispatched.
    #[must_use]
    pub fn new(options: Options, scheduler: Box<dyn Scheduler>) -> Self {
        Self::observed(options, scheduler, ())
    }
}

impl<O: Observer> Queue<O> {
    /// A queue that reports every event to `observer`.
    ///
    /// # Panics
    /// As [`Queue::new`].
    pub fn observed(options: Options, scheduler: Box<dyn Scheduler>, observer: O) -> Self {
        assert!(options.depth > 0, "a device of depth 0 takes no request");
        Self {
            options,
            hosted: Hosted::new(scheduler),
            watchdog: Watchdog::default(),
            generation: 0,
            requests: Requests::default(),
            meta: Vec::new(),
            parts: Parts::default(),
            merges: MergeIndex::default(),
            counts: RequestCounts::new(options.limits),
            flushes: Flushes::default(),
            order: Order::default(),
            plug: Vec::new(),
            plugged: false,
            plugged_until: None,
            given_back: VecDeque::new(),
            queued: 0,
            short_writes: 0,
            in_flight: 0,
            last_dispatched: None,
            last_hold: None,
            notices: VecDeque::new(),
            observer,
        }
    }

    /// Its settings.
    #[must_use]
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// The observer.
    pub const fn observer(&mut self) -> &mut O {
        &mut self.observer
    }

    /// The scheduler that it hosts. Panics of calls through this reference are not contained; see [`inspect`](Self::inspect).
    #[must_use]
    pub fn scheduler(&self) -> &dyn Scheduler {
        self.hosted.get()
    }

    /// The scheduler's state for display: streams, groups. Empty if the call panics, which replaces the scheduler.
    pub fn inspect(&mut self, now: Time) -> Vec<Item> {
        let items = self
            .hosted
            .call("inspect", |scheduler| scheduler.inspection().map(|inspection| inspection.inspect(now)));
        self.recover(now);
        items.flatten().unwrap_or_default()
    }

    /// The part of the hosted scheduler that works above the block layer, if it has one. Its panics are not contained.
    pub fn split(&mut self) -> Option<&mut dyn Split> {
        self.hosted.get_mut().split()
    }

    /// Submissions not yet finished.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.parts.len()
    }

    /// Requests in the scheduler.
    #[must_use]
    pub const fn queued(&self) -> u32 {
        self.queued
    }

    /// Requests in the device.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The number of requests of this direction that count against the limit: gathered, queued or in flight. A kernel
    /// determines congestion from it.
    #[must_use]
    pub const fn allocated(&self, direction: Direction) -> u32 {
        self.counts.allocated(direction)
    }

    /// Whether there is a notice for the host.
    #[must_use]
    #[inline]
    pub fn has_notice(&self) -> bool {
        !self.notices.is_empty()
    }

    /// The next notice for the host.
    #[inline]
    pub fn notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Accepts a submission.
    ///
    /// # Panics
    /// In debug builds, if a read or write has no sectors, or a flush has some.
    // Inlined up to the storage of the submission, so that it is built in place.
    #[inline(always)]
    pub fn submit(&mut self, now: Time, submission: Submission) -> Accepted {
        let Submission { token, op, start, sectors, flags, priority, process, causes } = submission;
        debug_assert_eq!(op == Op::Flush, sectors == Sectors::ZERO, "{token:?}: {op:?} of {sectors:?}");
        let flags = match self.options.sync_writes {
            SyncWrites::Guessed if op == Op::Write => self.guess(sectors, flags),
            _ => flags,
        };
        self.observer
            .event(now, &Event::Submitted { token, op, start, sectors, flags, priority, process, causes });
        let part = self.parts.add(Submission { process: self.shown(process), flags, ..submission }, now);
        let accepted = self.take_in(now, part);
        self.recover(now);
        accepted
    }

    /// The flags of a write: a short one is synchronous while few are unfinished.
    fn guess(&mut self, sectors: Sectors, flags: Flags) -> Flags {
        let is_short = self.options.sync_writes.counts(Op::Write, sectors);
        self.short_writes += u32::from(is_short);
        Flags { sync: is_short && self.short_writes <= SyncWrites::MANY, ..flags }
    }

    /// Begins to gather submissions, because more follow immediately. Only for [`Plugging::Task`].
    pub fn plug(&mut self) {
        self.plugged = matches!(self.options.plugging, Plugging::Task { .. });
    }

    /// Passes the gathered requests to the scheduler. Also unplugs a queue that plugged itself, because a process waits.
    #[inline]
    pub fn unplug(&mut self, now: Time) {
        self.plugged = false;
        self.plugged_until = None;
        for at in 0..self.plug.len() {
            self.insert(now, self.plug[at]);
        }
        self.plug.clear();
        self.recover(now);
    }

    /// The next step if the device may have a free tag. `positioning` is the device's oracle, if it has one.
    #[inline]
    pub fn next(&mut self, now: Time, positioning: Option<&dyn Positioning>) -> Step {
        if self.in_flight >= self.options.depth || self.is_kept_for_a_flush() {
            return Step::Full;
        }
        if !self.given_back.is_empty() || self.flushes.wanted() {
            return Step::Dispatch(self.dispatch_first(now));
        }
        if let Some(until) = self.plugged_until {
            cold_path();
            if now < until {
                let hold = Hold { until: Some(until), wake: Wake::Timer, reason: HoldReason::Plugged };
                self.report_hold(now, hold);
                return Step::Wait(hold);
            }
            self.plugged_until = None;
        }
        self.call_scheduler(now, positioning)
    }

    fn is_kept_for_a_flush(&self) -> bool {
        self.options.barriers.flushes_alone() && self.in_flight > 0 && !self.flushes.is_quiet()
    }

    /// Calls the scheduler. If it is faulty, replaces it and calls its successor.
    #[inline]
    fn call_scheduler(&mut self, now: Time, positioning: Option<&dyn Positioning>) -> Step {
        loop {
            match self.decide(now, positioning) {
                Some(step) => return step,
                None => self.recover(now),
            }
        }
    }

    /// `None` if the scheduler is faulty.
    #[inline]
    fn decide(&mut self, now: Time, positioning: Option<&dyn Positioning>) -> Option<Step> {
        if let Err(fault) = self.check_ages(now) {
            self.hosted.fault = Some(fault);
            return None;
        }
        let device = Device {
            depth: self.options.depth,
            in_flight: self.in_flight,
            last_dispatched: self.last_dispatched,
            positioning,
        };
        let view = View { requests: &self.requests, device };
        let decision = self.hosted.call("next", |scheduler| scheduler.next(now, &view))?;
        let checked = match decision {
            Decision::Dispatch { id, reason } => self.check_dispatch(id).map(|()| {
                self.watchdog.progressed();
                self.watchdog.dispatched += 1;
                self.queued -= 1;
                self.merges.remove(&self.requests[id]);
                Step::Dispatch(self.dispatch(now, id, reason, Some(self.generation)))
            }),
            Decision::Hold(hold) => self.check_hold(now, hold).map(|bounded| {
                self.report_hold(now, hold);
                Step::Wait(bounded)
            }),
            Decision::Idle if self.queued > 0 => Err(Fault::Idle { queued: self.queued }),
            Decision::Idle => {
                self.watchdog.progressed();
                self.observer.event(now, &Event::Idle { queued: self.queued });
                Ok(Step::Idle)
            }
        };
        checked.map_err(|fault| self.hosted.fault = Some(fault)).ok()
    }

    #[inline(never)]
    fn report_hold(&mut self, now: Time, hold: Hold) {
        if self.last_hold != Some(hold) {
            self.last_hold = Some(hold);
            let (queued, in_flight) = (self.queued, self.in_flight);
            self.observer.event(now, &Event::Held { hold, queued, in_flight });
        }
    }

    #[inline]
    fn dispatch(&mut self, now: Time, id: RequestId, reason: Reason, generation: Option<u32>) -> Ticket {
        let request = &self.requests[id];
        if request.op != Op::Flush {
            let Request { serial, start, .. } = *request;
            self.last_dispatched = Some(LastDispatched { serial, start, end: request.end(), at: now });
        }
        let meta = &mut self.meta[id.index()];
        meta.state = State::Dispatched;
        meta.dispatched = now;
        meta.generation = generation;
        self.in_flight += 1;
        self.last_hold = None;
        let (queued, in_flight) = (self.queued, self.in_flight);
        self.observer.event(now, &Event::Dispatched { request, reason, queued, in_flight });
        Ticket { id }
    }

    /// Dispatches a request that bypasses the scheduler: first those that the device gave back, then a flush.
    #[cold]
    fn dispatch_first(&mut self, now: Time) -> Ticket {
        match self.given_back.pop_front() {
            Some(id) => self.dispatch(now, id, Reason::GivenBack, None),
            None => self.dispatch_flush(now),
        }
    }

    fn dispatch_flush(&mut self, now: Time) -> Ticket {
        self.flushes.started();
        self.hosted.call("flushing", |scheduler| scheduler.flushing(now));
        let flush = Request {
            id: RequestId(u32::MAX),
            serial: 0,
            op: Op::Flush,
            start: Sector(0),
            sectors: Sectors::ZERO,
            flags: Flags { sync: true, ..Flags::default() },
            priority: Priority::default(),
            process: None,
            causes: None,
            arrived: now,
        };
        let id = self.add(now, flush, Chain::EMPTY);
        self.dispatch(now, id, Reason::Flush, None)
    }

    /// The dispatched request.
    #[must_use]
    #[inline]
    pub fn request(&self, ticket: &Ticket) -> &Request {
        &self.requests[ticket.id]
    }

    /// Whether a dispatched request needs forced unit access. For a device without it, the queue dispatches a
    /// flush behind the request instead.
    #[must_use]
    #[inline]
    pub fn is_forced(&self, ticket: &Ticket) -> bool {
        let request = self.request(ticket);
        request.flags.fua && request.op == Op::Write && !self.flushes_behind()
    }

    /// The submissions of a dispatched request in order of sectors. None for a flush, which may cover many.
    pub fn submissions(&self, ticket: &Ticket) -> impl Iterator<Item = &Submission> {
        self.parts.submissions(self.meta[ticket.id.index()].chain)
    }

    /// The device has completed a request.
    #[inline]
    pub fn complete(&mut self, now: Time, ticket: Ticket, outcome: Outcome) {
        let Ticket { id } = ticket;
        let request = &self.requests[id];
        let meta = self.meta[id.index()];
        self.in_flight -= 1;
        self.observer.event(now, &Event::Completed { request, outcome, dispatched: meta.dispatched });
        if request.op != Op::Flush {
            self.watchdog.served(now.since(meta.dispatched));
        }
        if meta.generation == Some(self.generation) {
            self.hosted.call("completed", |scheduler| scheduler.completed(now, request, outcome));
        }
        match (request.op, outcome) {
            (Op::Flush, _) => self.flushed(now, id, meta, outcome),
            (_, Outcome::GivenBack) => {
                cold_path();
                self.given_back.push_back(id);
            }
            _ => self.finish_request(now, id, meta, outcome),
        }
        self.settle(now);
        self.recover(now);
    }

    #[cold]
    fn flushed(&mut self, now: Time, id: RequestId, meta: Meta, outcome: Outcome) {
        self.requests.remove(id);
        self.hosted.call("flushed", |scheduler| scheduler.flushed(now));
        if outcome == Outcome::GivenBack {
            self.flushes.given_back();
            return;
        }
        while let Some((part, then)) = self.flushes.next_covered() {
            match (outcome, then) {
                (Outcome::Done, Then::Data) => {
                    let _ = self.enqueue(now, part);
                }
                _ => self.finish(now, part, outcome, meta.dispatched),
            }
        }
    }

    #[inline]
    fn finish_request(&mut self, now: Time, id: RequestId, meta: Meta, outcome: Outcome) {
        let request = self.requests.remove(id);
        let flush_behind = request.flags.fua && outcome == Outcome::Done && self.flushes_behind();
        let mut chain = meta.chain;
        if flush_behind {
            cold_path();
            // Forced unit access is never merged: the chain is one part.
            if let Some(part) = self.parts.first(chain) {
                self.wait_for_flush(part, Then::Finish);
            }
        } else {
            while let Some(part) = self.parts.take_first(&mut chain) {
                self.notify_finished(now, &part, outcome, meta.dispatched);
            }
        }
        self.counts.free(request.direction());
    }

    /// Whether forced unit access is replaced by a flush behind the write.
    fn flushes_behind(&self) -> bool {
        self.options.cache == Cache::WriteBack { fua: false }
    }

    fn finish(&mut self, now: Time, part: PartId, outcome: Outcome, dispatched: Time) {
        let part = self.parts.remove(part);
        self.notify_finished(now, &part, outcome, dispatched);
    }

    #[inline]
    fn notify_finished(&mut self, now: Time, part: &Part, outcome: Outcome, dispatched: Time) {
        let Submission { token, op, sectors, .. } = part.submission;
        self.short_writes -= u32::from(self.options.sync_writes.counts(op, sectors));
        self.observer.event(now, &Event::Finished(token, outcome));
        let submitted = part.submitted;
        self.notices.push_back(Notice::Finished(Finished { token, outcome, submitted, dispatched }));
    }

    /// A process ended.
    pub fn exited(&mut self, now: Time, process: Process) {
        if self.options.identity == Identity::Shown {
            self.observer.event(now, &Event::Exited(process));
            self.hosted.call("exited", |scheduler| scheduler.exited(now, process));
            self.recover(now);
        }
    }

    #[inline]
    fn shown(&self, process: Option<Process>) -> Option<Process> {
        match self.options.identity {
            Identity::Shown => process,
            Identity::Hidden => {
                cold_path();
                None
            }
            Identity::Same => {
                cold_path();
                Some(Process::single(1))
            }
        }
    }
}
