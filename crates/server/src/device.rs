//! The heart of the server: one queue, one back end, and the operations on their way between them.
//!
//! It belongs to one thread, has no lock and reads no clock: times come in with each call. Front ends
//! [`submit`](Device::submit) operations and take the [`news`](Device::news); [`advance`](Device::advance) does
//! everything that is due in between.

use std::panic::{self, AssertUnwindSafe};
use std::{fmt, mem};

use disks::Tag;
use elevator::queue::{
    Accepted, Fault, Finished, Notice, Plugging, Queue, Step, Submission, SwitchMode, SwitchReport, Ticket,
    Token,
};
use elevator::{Flags, Op, Outcome, Priority, Process, Scheduler, Sector, Sectors, Span, Time};
use rustix::io::Errno;

use crate::backend::{Backend, Done, Job, Payload, Piece};
use crate::buffer::Pool;
use crate::statistics::{Statistics, Watch};

/// Free memory kept for the next requests, in bytes.
const POOL_BYTES: usize = 64 << 20;

/// A front end's place among the device's.
pub type FrontIndex = u8;

/// What a front end asks for.
pub struct Ask {
    /// The front end's own name for it, handed back with the answer.
    pub cookie: u64,
    /// What to do.
    pub op: Op,
    /// First sector.
    pub start: Sector,
    /// Length; zero only for a flush.
    pub sectors: Sectors,
    /// What is said of it.
    pub flags: Flags,
    /// Who asks, if that is known.
    pub process: Option<Process>,
    /// Data to write, or memory to read into, as long as `sectors`.
    pub payload: Payload,
}

/// What becomes of an operation.
pub struct Answer {
    /// Whose it is.
    pub front: FrontIndex,
    /// The front end's name for it.
    pub cookie: u64,
    /// How it went.
    pub result: Result<(), Errno>,
    /// Its memory, with the data that was read.
    pub payload: Payload,
}

/// A front end may have somebody submit again.
pub struct Woken {
    /// Whose.
    pub front: FrontIndex,
    /// The operation after which it was put to sleep.
    pub cookie: u64,
}

/// What a front end must hear of.
pub enum News {
    /// An operation ended.
    Answer(Answer),
    /// The submitter of one may go on.
    Woken(Woken),
}

/// Something that the back end could not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What.
    pub op: Op,
    /// First sector.
    pub start: Sector,
    /// Length; zero for a flush.
    pub sectors: Sectors,
    /// Why.
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

/// An operation on its way.
struct Operation {
    front: FrontIndex,
    cookie: u64,
    op: Op,
    sectors: Sectors,
    /// It takes a flush, or is one: never merged, and failed if the queue says so, whatever became of its data.
    flushes: bool,
    process: Option<Process>,
    payload: Payload,
    /// The back end has its data.
    has_data: bool,
    result: Result<(), Errno>,
}

/// What a job was to do that was answered before the back end has returned it.
#[derive(Clone, Copy)]
struct Lost {
    op: Op,
    start: Sector,
    end: Sector,
}

/// Requests that the back end has had for too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overdue {
    /// The first of them.
    pub first: Failure,
    /// How many.
    pub count: u32,
}

/// A job that failed as a whole and is tried again piece by piece, so that one bad sector fails one request.
struct Salvage {
    todo: std::vec::IntoIter<Piece>,
    next: Sector,
    ended: Vec<Piece>,
}

/// What the device knows of a job that the back end has.
#[derive(Default)]
struct Slot {
    ticket: Option<Ticket>,
    salvage: Option<Salvage>,
    started: Time,
    lost: Option<Lost>,
}

/// A queue, a back end, and everything between them.
pub struct Device {
    queue: Queue<Watch>,
    backend: Box<dyn Backend>,
    operations: Vec<Option<Operation>>,
    free: Vec<u32>,
    slots: Vec<Slot>,
    tags: Vec<Tag>,
    /// Lists of pieces to be used again.
    lists: Vec<Vec<Piece>>,
    /// Memory for data.
    pub pool: Pool,
    now: Time,
    held_until: Option<Time>,
    /// Something was submitted since the latest [`advance`](Self::advance).
    has_new: bool,
    /// Model times of what has been answered in this round, to tell how late it was.
    promised: Vec<Time>,
    /// The first failure that nobody has heard of.
    failure: Option<Failure>,
    /// Slots whose jobs were answered before the back end has returned them.
    lost: u32,
}

impl Device {
    /// A device of an empty queue and a back end that has nothing to do.
    #[must_use]
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
            lost: 0,
        }
    }

    /// The queue, to look at, tune or switch.
    pub const fn queue(&mut self) -> &mut Queue<Watch> {
        &mut self.queue
    }

    /// The back end.
    pub fn backend(&mut self) -> &mut dyn Backend {
        &mut *self.backend
    }

    /// The accounts.
    pub fn statistics(&mut self) -> &mut Statistics {
        &mut self.queue.observer().statistics
    }

    /// The time of the latest event.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Whether something was submitted since the latest [`advance`](Self::advance).
    #[must_use]
    pub const fn has_new(&self) -> bool {
        self.has_new
    }

    /// Operations that were submitted and not answered.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.operations.len() - self.free.len()
    }

    /// A front end asks for something; whether its submitter may go on.
    pub fn submit(&mut self, now: Time, front: FrontIndex, ask: Ask) -> Accepted {
        self.now = self.now.max(now);
        self.has_new = true;
        let Ask { cookie, op, start, sectors, flags, process, payload } = ask;
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
            result,
        });
        let submission = Submission {
            token,
            op,
            start,
            sectors,
            flags,
            priority: Priority::default(),
            process,
            causes: None,
        };
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

    /// Several submissions follow at once.
    pub fn plug(&mut self) {
        self.queue.plug();
    }

    /// They were all.
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

    /// A process is gone.
    pub fn exited(&mut self, now: Time, process: Process) {
        self.now = self.now.max(now);
        self.queue.exited(self.now, process);
        self.statistics().exited(process);
    }

    /// Does everything that is due at `now`: completions at their own times, and what follows from each.
    pub fn advance(&mut self, now: Time) {
        self.has_new = false;
        loop {
            while let Some(done) = self.backend.poll(now) {
                self.now = self.now.max(done.at);
                self.done(done);
                self.fill();
            }
            self.now = self.now.max(now);
            if !self.fill() {
                return;
            }
        }
    }

    /// Gives the back end what the scheduler lets go; whether there was any.
    fn fill(&mut self) -> bool {
        let mut any = false;
        self.held_until = None;
        while !self.tags.is_empty() || self.lost as usize == self.slots.len() {
            match self.queue.next(self.now, self.backend.positioning()) {
                Step::Dispatch(ticket) => self.start(ticket),
                Step::Wait(hold) => {
                    self.held_until = hold.until;
                    break;
                }
                Step::Full | Step::Idle => break,
            }
            any = true;
        }
        if any {
            self.backend.submit();
        }
        any
    }

    fn start(&mut self, ticket: Ticket) {
        if self.lost > 0 && self.is_blocked(&ticket) {
            return self.fail(ticket);
        }
        let Some(tag) = self.tags.pop() else { unreachable!("asked only with a free tag") };
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
        self.backend.start(self.now, Job { tag, op, start, sectors, fua, pieces });
    }

    /// The back end is done with a job.
    fn done(&mut self, done: Done) {
        let Done { mut job, at, result } = done;
        if self.slots[job.tag.0 as usize].lost.take().is_some() {
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

    /// Fails what the back end has had for `limit` or longer. It keeps the tags and the memory of those requests until it returns them.
    /// Meanwhile writes to the same sectors fail too: a write that is carried out late must not replace a newer one. When no tag is left,
    /// every request fails.
    pub fn expire(&mut self, now: Time, limit: Span) -> Option<Overdue> {
        self.now = self.now.max(now);
        let mut overdue: Option<Overdue> = None;
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            let Some(ticket) = slot.ticket.take_if(|_| now.since(slot.started) >= limit) else { continue };
            let request = self.queue.request(&ticket);
            let (op, start, sectors) = (request.op, request.start, request.sectors);
            slot.lost = Some(Lost { op, start, end: start + sectors });
            self.lost += 1;
            if let Some(salvage) = slot.salvage.take() {
                salvage.todo.chain(salvage.ended).for_each(|piece| recycle(&mut self.pool, piece));
            }
            self.fail(ticket);
            let first = Failure { op, start, sectors, error: Errno::TIMEDOUT };
            overdue.get_or_insert(Overdue { first, count: 0 }).count += 1;
        }
        if let Some(overdue) = overdue {
            self.statistics().timed_out += u64::from(overdue.count);
            self.has_new = true;
        }
        overdue
    }

    /// Requests that were failed and that the back end has not returned.
    #[must_use]
    pub const fn lost(&self) -> u32 {
        self.lost
    }

    /// Whether a request cannot be given to the back end.
    fn is_blocked(&self, ticket: &Ticket) -> bool {
        let request = self.queue.request(ticket);
        let changes = |op| matches!(op, Op::Write | Op::Discard);
        let overlaps = |lost: Lost| {
            changes(lost.op) && changes(request.op) && lost.start < request.end() && request.start < lost.end
        };
        self.tags.is_empty() || self.slots.iter().filter_map(|slot| slot.lost).any(overlaps)
    }

    /// Completes a request with an error without the back end. A front end gets as much memory back as it gave.
    fn fail(&mut self, ticket: Ticket) {
        for part in self.queue.submissions(&ticket) {
            let operation = self.operations[part.token.0 as usize].as_mut().expect("an unfinished operation");
            operation.result = Err(Errno::IO);
            if mem::take(&mut operation.has_data) {
                operation.payload = Payload::Data(self.pool.take(operation.sectors.bytes() as usize));
            }
        }
        self.queue.complete(self.now, ticket, Outcome::Failed);
    }

    /// The back end has returned a job that was failed.
    fn returned_late(&mut self, mut job: Job) {
        self.lost -= 1;
        job.pieces.drain(..).for_each(|piece| recycle(&mut self.pool, piece));
        self.lists.push(job.pieces);
        self.tags.push(job.tag);
    }

    /// Tries a failed job again, piece by piece.
    fn salvage(&mut self, mut job: Job) {
        self.statistics().salvaged += 1;
        let pieces = mem::take(&mut job.pieces);
        let ended = Vec::with_capacity(pieces.len());
        self.slots[job.tag.0 as usize].salvage =
            Some(Salvage { todo: pieces.into_iter(), next: job.start, ended });
        self.next_of_salvage(job);
    }

    fn salvage_goes_on(&mut self, mut job: Job, at: Time) {
        if let Some(salvage) = &mut self.slots[job.tag.0 as usize].salvage {
            salvage.ended.append(&mut job.pieces);
            if salvage.todo.len() > 0 {
                return self.next_of_salvage(job);
            }
            job.pieces = mem::take(&mut salvage.ended);
        }
        self.slots[job.tag.0 as usize].salvage = None;
        let result = job.pieces.iter().find_map(|piece| piece.result.err()).map_or(Ok(()), Err);
        self.end(job, at, result);
    }

    fn next_of_salvage(&mut self, mut job: Job) {
        let Some(salvage) = &mut self.slots[job.tag.0 as usize].salvage else { return };
        let Some(mut piece) = salvage.todo.next() else { return };
        piece.result = Ok(());
        job.start = salvage.next;
        job.sectors = piece.sectors;
        salvage.next = salvage.next + piece.sectors;
        job.pieces.push(piece);
        self.backend.start(self.now, job);
        self.backend.submit();
    }

    /// A job has ended for good.
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

    /// The first thing that the back end could not do since this was asked.
    pub const fn failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// The next thing that a front end must hear of, which it does at `now`: what an operation took ends there. The device's own time
    /// stands still while a round lasts, in which a disk in memory has done everything.
    pub fn news(&mut self, now: Time) -> Option<News> {
        match self.queue.notice()? {
            Notice::Finished(finished) => Some(News::Answer(self.finish(now, finished))),
            Notice::Woken(token) => {
                let operation = self.operations[token.0 as usize].as_ref().expect("an unfinished operation");
                Some(News::Woken(Woken { front: operation.front, cookie: operation.cookie }))
            }
        }
    }

    fn finish(&mut self, now: Time, finished: Finished) -> Answer {
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
    #[must_use]
    pub fn due(&self) -> (Option<Time>, Option<Time>) {
        (self.backend.next_event(), self.held_until)
    }

    /// The answers of this round went out at `now`: how late each was is recorded, if the back end keeps a clock. Whether there
    /// were any.
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

    /// How long a span the queue has been draining for a switch, if it is.
    #[must_use]
    pub fn draining_for(&self) -> Option<Span> {
        self.queue.draining_for(self.now)
    }
}

/// Runs a call of a scheduler; whether it ended without a panic. Schedulers are untrusted: a panic in one must not end the device's
/// thread. This needs panics that unwind, which no profile of the workspace changes.
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

/// Gives a piece's memory back.
fn recycle(pool: &mut Pool, piece: Piece) {
    if let Payload::Data(buffer) = piece.payload {
        pool.put(buffer);
    }
}
