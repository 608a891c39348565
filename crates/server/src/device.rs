//! The device: one queue, one back end, and the operations between them.
//!
//! It belongs to one thread, has no lock and reads no clock: each call passes the time. Front ends
//! [`submit`](Device::submit) operations and take the [events](Device::next_event); [`advance`](Device::advance) processes
//! everything that is due.

mod recovery;

use std::panic::{self, AssertUnwindSafe};
use std::{fmt, mem};

use disks::Tag;
use elevator::queue::{
    Accepted, Fault, Finished, Notice, Plugging, Queue, Step, Submission, SwitchMode, SwitchReport, Ticket,
    Token,
};
use elevator::{Flags, Op, Outcome, Priority, Process, Scheduler, Sector, Sectors, Span, Time};
use rustix::io::Errno;

use crate::array::{BACKGROUND, Link};
use crate::backend::{Backend, Done, Job, Payload, Piece};
use crate::buffer::Pool;
use crate::operation::{Answer, FrontEndEvent, FrontIndex, NewOperation, Woken};
use crate::split::SplitHost;
use crate::statistics::{Statistics, Watch};
pub use recovery::Overdue;
use recovery::{Salvage, TimedOut};

/// Free memory kept for the next requests, in bytes.
const POOL_BYTES: usize = 64 << 20;

/// An operation that the back end could not execute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The operation.
    pub op: Op,
    /// First sector.
    pub start: Sector,
    /// Length; zero for a flush.
    pub sectors: Sectors,
    pub error: Errno,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, start, sectors, error } = self;
        match op {
            Op::Flush => write!(f, "{op} failed: {error}"),
            _ => write!(f, "{op} of {} bytes at sector {start} failed: {error}", sectors.bytes()),
        }
    }
}

/// An unfinished operation.
struct Operation {
    front: FrontIndex,
    cookie: u64,
    op: Op,
    sectors: Sectors,
    /// It is a flush or includes one: it is never merged, and fails if the flush fails, whatever the result of its data.
    flushes: bool,
    process: Option<Process>,
    payload: Payload,
    /// The back end owns its memory.
    has_data: bool,
    /// Its submitter went on before the queue was full: it is not woken.
    was_held: bool,
    result: Result<(), Errno>,
}

/// Whose an operation is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Traffic {
    Client,
    /// The array's own.
    Array,
    /// The array's own, and it was held before it was submitted to the queue.
    HeldArray,
}

/// The device's record of a job in the back end.
#[derive(Default)]
struct Slot {
    ticket: Option<Ticket>,
    salvage: Option<Salvage>,
    started: Time,
    timed_out: Option<TimedOut>,
}

/// A queue, a back end, and the operations between them.
pub struct Device {
    queue: Queue<Watch>,
    backend: Box<dyn Backend>,
    operations: Vec<Option<Operation>>,
    free: Vec<u32>,
    slots: Vec<Slot>,
    tags: Vec<Tag>,
    /// Lists of pieces for reuse.
    lists: Vec<Vec<Piece>>,
    /// Memory for data.
    pub pool: Pool,
    now: Time,
    held_until: Option<Time>,
    /// Something was submitted since the latest [`advance`](Self::advance).
    has_new: bool,
    /// Model times of the operations completed in this round, to compute their lateness.
    promised: Vec<Time>,
    /// The first failure that was not returned yet.
    failure: Option<Failure>,
    /// Number of slots whose jobs were failed before the back end has returned them.
    unreturned: u32,
    /// A deliberate fault for tests: writes to the sectors of failed jobs are started.
    #[cfg(feature = "simulation")]
    pub(crate) forgets_timed_out: bool,
    /// The host of split-level policies, if causes are observed.
    pub(crate) split: Option<Box<SplitHost>>,
    /// The connection to the array's coordinator, if the device is a member.
    link: Option<Box<Link>>,
}

impl Device {
    /// A device with an empty queue and an idle back end.
    pub fn new(mut queue: Queue<Watch>, backend: Box<dyn Backend>) -> Self {
        queue.contain_panics(contain);
        let depth = queue.options().depth.min(backend.geometry().depth);
        let mut slots = Vec::new();
        slots.resize_with(depth as usize, Slot::default);
        Self {
            queue,
            backend,
            operations: Vec::new(),
            free: Vec::new(),
            slots,
            tags: (0..depth).rev().map(Tag).collect(),
            lists: Vec::new(),
            pool: Pool::new(POOL_BYTES),
            now: Time::ZERO,
            held_until: None,
            has_new: false,
            promised: Vec::new(),
            failure: None,
            unreturned: 0,
            #[cfg(feature = "simulation")]
            forgets_timed_out: false,
            split: None,
            link: None,
        }
    }

    /// Requests of the array's own traffic that were recognised, on all members.
    #[cfg(test)]
    pub(crate) fn recognised(&self) -> u64 {
        self.link.as_ref().map_or(0, |link| link.recognised())
    }

    /// Makes the device a member of an array.
    pub(crate) fn join(&mut self, link: Link) {
        self.queue.observer().members = Some(Vec::new());
        self.link = Some(Box::new(link));
    }

    /// The queue, for inspection, tuning and switching.
    pub const fn queue(&mut self) -> &mut Queue<Watch> {
        &mut self.queue
    }

    /// The back end.
    pub fn backend(&mut self) -> &mut dyn Backend {
        &mut *self.backend
    }

    pub fn statistics(&mut self) -> &mut Statistics {
        &mut self.queue.observer().statistics
    }

    /// The time of the latest event.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Whether something was submitted since the latest [`advance`](Self::advance).
    pub const fn has_new(&self) -> bool {
        self.has_new
    }

    /// Number of unfinished operations.
    pub fn unfinished(&self) -> usize {
        let held = self.link.as_ref().map_or(0, |link| link.held());
        self.operations.len() - self.free.len() + held
    }

    /// Submits an operation of a front end; returns whether the submitter may continue.
    pub fn submit(&mut self, now: Time, front: FrontIndex, operation: NewOperation) -> Accepted {
        self.now = self.now.max(now);
        self.has_new = true;
        let Some(link) = &mut self.link else { return self.enter(front, operation, Traffic::Client) };
        // A held operation is the array's own: its submitter, a worker of the kernel, goes on.
        link.hold(self.now, front, operation).map_or(Accepted::Queued, |(operation, is_background)| {
            self.enter(front, operation, if is_background { Traffic::Array } else { Traffic::Client })
        })
    }

    /// Submits an operation to the queue.
    fn enter(&mut self, front: FrontIndex, operation: NewOperation, traffic: Traffic) -> Accepted {
        let is_background = traffic != Traffic::Client;
        let NewOperation { cookie, op, start, sectors, flags, process, payload } = operation;
        let (flushes, result) = (op == Op::Flush || flags.fua || flags.preflush, Ok(()));
        let token = self.keep(Operation {
            front,
            cookie,
            op,
            sectors,
            flushes,
            process,
            payload,
            has_data: false,
            was_held: traffic == Traffic::HeldArray,
            result,
        });
        if let Some(link) = &mut self.link {
            link.arrives(self.now, token, (op, start, sectors), is_background);
        }
        let split = self.split.as_mut();
        let (causes, direct) = split
            .map(|split| split.causes(&mut self.queue, self.now, op, start, sectors))
            .unwrap_or_default();
        let flags = Flags { direct, ..flags };
        let priority = if is_background { BACKGROUND } else { Priority::default() };
        let submission = Submission { token, op, start, sectors, flags, priority, process, causes };
        self.queue.submit(self.now, submission)
    }

    fn keep(&mut self, operation: Operation) -> Token {
        if let Some(index) = self.free.pop() {
            self.operations[index as usize] = Some(operation);
            return Token(u64::from(index));
        }
        self.operations.push(Some(operation));
        Token(self.operations.len() as u64 - 1)
    }

    /// Begins a batch of submissions.
    pub fn plug(&mut self) {
        self.queue.plug();
    }

    /// Ends the batch.
    pub fn unplug(&mut self) {
        if matches!(self.queue.options().plugging, Plugging::Task { .. }) {
            self.queue.unplug(self.now);
        }
    }

    /// Another scheduler takes over.
    pub fn switch(
        &mut self,
        now: Time,
        scheduler: Box<dyn Scheduler>,
        mode: SwitchMode,
    ) -> Option<SwitchReport> {
        self.now = self.now.max(now);
        self.has_new = true;
        self.queue.switch(self.now, scheduler, mode)
    }

    /// A process has ended.
    pub fn exited(&mut self, now: Time, process: Process) {
        self.now = self.now.max(now);
        self.queue.exited(self.now, process);
        self.statistics().exited(process);
    }

    /// Processes everything that is due at `now`: completions at their own times, and their consequences.
    pub fn advance(&mut self, now: Time) {
        self.has_new = false;
        loop {
            while let Some(done) = self.backend.poll(now) {
                self.now = self.now.max(done.at);
                self.done(done);
                self.fill();
            }
            self.now = self.now.max(now);
            self.release();
            if !self.fill() {
                return;
            }
        }
    }

    /// Passes dispatched requests to the back end; returns whether there were any.
    fn fill(&mut self) -> bool {
        let mut any = false;
        self.held_until = None;
        self.coordinate();
        while !self.tags.is_empty() || self.unreturned as usize == self.slots.len() {
            if let Some(until) = self.link.as_ref().and_then(|link| link.reserved(self.now)) {
                self.held_until = Some(until);
                break;
            }
            match self.queue.next(self.now, self.backend.positioning()) {
                Step::Dispatch(ticket) => self.start(ticket),
                Step::Wait(hold) => {
                    self.held_until = hold.until;
                    break;
                }
                Step::Full | Step::Idle => break,
            }
            any = true;
            self.coordinate();
        }
        if any {
            self.backend.submit();
        }
        any
    }

    /// Exchanges events, reports and directives with the array's coordinator. At the end of a slice a turn of the array's own traffic begins before the
    /// next stream's first request.
    fn coordinate(&mut self) {
        if let Some(link) = &mut self.link {
            link.settle(self.now, &mut self.queue, self.backend.positioning());
            if self.release()
                && let Some(link) = &mut self.link
            {
                link.settle(self.now, &mut self.queue, self.backend.positioning());
            }
        }
    }

    /// Submits held operations that may go; returns whether there were any.
    fn release(&mut self) -> bool {
        let mut any = false;
        while let Some((front, operation)) = self.link.as_mut().and_then(|link| link.release(self.now)) {
            let _ = self.enter(front, operation, Traffic::HeldArray);
            any = true;
        }
        any
    }

    fn start(&mut self, ticket: Ticket) {
        let is_blocked = self.unreturned > 0 && self.is_blocked(&ticket);
        // Of merged operations, only those with closed sectors fail.
        let is_one = self.queue.submissions(&ticket).nth(1).is_none();
        if is_blocked && (is_one || self.tags.is_empty()) {
            return self.fail(ticket);
        }
        let Some(tag) = self.tags.pop() else { unreachable!("called only with a free tag") };
        let mut pieces = self.lists.pop().unwrap_or_default();
        for part in self.queue.submissions(&ticket) {
            let operation = self.operations[part.token.0 as usize].as_mut().expect("an unfinished operation");
            let payload = mem::take(&mut operation.payload);
            operation.has_data = matches!(payload, Payload::Data(_));
            pieces.push(Piece { owner: part.token.0, sectors: part.sectors, payload, result: Ok(()) });
        }
        let request = self.queue.request(&ticket);
        let (op, start, sectors) = (request.op, request.start, request.sectors);
        let fua = self.queue.is_forced(&ticket);
        let slot = &mut self.slots[tag.0 as usize];
        (slot.ticket, slot.started) = (Some(ticket), self.now);
        let job = Job { tag, op, start, sectors, fua, pieces };
        if is_blocked { self.salvage(job) } else { self.backend.start(self.now, job) }
    }

    /// The back end has completed a job.
    fn done(&mut self, done: Done) {
        let Done { mut job, at, result } = done;
        if self.slots[job.tag.0 as usize].timed_out.take().is_some() {
            return self.returned_late(job);
        }
        for piece in &mut job.pieces {
            piece.result = result;
        }
        if self.slots[job.tag.0 as usize].salvage.is_some() {
            return self.salvage_goes_on(job, at);
        }
        let moves = matches!(job.op, Op::Read | Op::Write);
        if result.is_err() && moves && job.pieces.len() > 1 {
            return self.salvage(job);
        }
        let result = job.pieces.iter().fold(result, |whole, piece| whole.and(piece.result));
        self.end(job, at, result);
    }

    fn end(&mut self, mut job: Job, at: Time, result: Result<(), Errno>) {
        if let Err(error) = result {
            self.failed(&job, error);
        }
        for piece in job.pieces.drain(..) {
            if let Some(operation) = &mut self.operations[piece.owner as usize] {
                operation.payload = piece.payload;
                operation.result = piece.result;
            }
        }
        self.lists.push(job.pieces);
        self.tags.push(job.tag);
        self.promised.push(at);
        let outcome = if result.is_ok() { Outcome::Done } else { Outcome::Failed };
        if let Some(ticket) = self.slots[job.tag.0 as usize].ticket.take() {
            self.queue.complete(self.now, ticket, outcome);
        }
    }

    /// A job has failed, or the first of its pieces that has a result of its own.
    fn failed(&mut self, job: &Job, error: Errno) {
        let Some(ticket) = &self.slots[job.tag.0 as usize].ticket else { return };
        let mut start = self.queue.request(ticket).start;
        let mut sectors = job.sectors;
        for piece in &job.pieces {
            sectors = piece.sectors;
            if piece.result.is_err() {
                break;
            }
            start = start + sectors;
        }
        self.failure.get_or_insert(Failure { op: job.op, start, sectors, error });
    }

    /// The latest fault of a scheduler since this was called, and how many requests were queued then.
    pub(crate) const fn fault(&mut self) -> Option<(Fault, u32)> {
        self.queue.observer().fault.take()
    }

    /// The first failure since the last call.
    pub const fn failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// The next event for a front end. An operation's latency ends at `now`: the device's own time does not advance within a round, in which a
    /// disk in memory completes everything.
    pub fn next_event(&mut self, now: Time) -> Option<FrontEndEvent> {
        loop {
            match self.queue.notice()? {
                Notice::Finished(finished) => {
                    return Some(FrontEndEvent::Answer(self.finish(now, finished)));
                }
                Notice::Woken(token) => {
                    let operation =
                        self.operations[token.0 as usize].as_ref().expect("an unfinished operation");
                    let &Operation { front, cookie, was_held, .. } = operation;
                    if !was_held {
                        return Some(FrontEndEvent::Woken(Woken { front, cookie }));
                    }
                }
            }
        }
    }

    fn finish(&mut self, now: Time, finished: Finished) -> Answer {
        if let Some(link) = &mut self.link {
            link.finished(now, finished.token);
        }
        let index = finished.token.0 as usize;
        let operation = self.operations[index].take().expect("an unfinished operation");
        self.free.push(index as u32);
        let Operation { front, cookie, op, sectors, flushes, process, payload, result, .. } = operation;
        let result = match finished.outcome {
            Outcome::Failed | Outcome::GivenBack if flushes => result.and(Err(Errno::IO)),
            _ => result,
        };
        let own =
            Finished { outcome: if result.is_ok() { Outcome::Done } else { Outcome::Failed }, ..finished };
        self.statistics().finished(now, op, sectors.bytes(), process, &own);
        Answer { front, cookie, result, payload }
    }

    /// When [`advance`](Self::advance) must be called again at the latest, if nothing else happens: the back end's next
    /// event, and the end of a deliberate wait.
    pub fn due(&self) -> (Option<Time>, Option<Time>) {
        let coordination = self.link.as_ref().and_then(|link| link.next_event(self.now));
        (self.backend.next_event(), self.held_until.into_iter().chain(coordination).min())
    }

    /// The results of this round were passed on at `now`: records their lateness if the back end completes jobs at given times. Returns whether
    /// there were any.
    pub fn answered(&mut self, now: Time, keeps_time: bool) -> bool {
        let promised = mem::take(&mut self.promised);
        if keeps_time {
            for &at in &promised {
                self.statistics().lateness.record(now.since(at));
            }
        }
        self.promised = promised;
        let any = !self.promised.is_empty();
        self.promised.clear();
        any
    }

    /// The time for which the queue has been draining for a switch, if it is.
    pub fn draining_for(&self) -> Option<Span> {
        self.queue.draining_for(self.now)
    }
}

/// Calls a scheduler; returns whether the call ended without a panic. Schedulers are untrusted: a panic must not end the device's
/// thread. This requires panics that unwind, the default, which no profile of the workspace changes.
fn contain(call: &mut dyn FnMut()) -> bool {
    // A scheduler whose call has panicked is not called again, so nothing observes the state in which the panic has left it.
    match panic::catch_unwind(AssertUnwindSafe(call)) {
        Ok(()) => true,
        Err(payload) => {
            // The payload is the scheduler's: dropping it could panic again.
            mem::forget(payload);
            false
        }
    }
}
