//! Recovery from failed jobs, which are repeated piece by piece, and from jobs that the back end does not return in time.

use std::mem;

use elevator::queue::Ticket;
use elevator::{Op, Outcome, Sector, Span, Time};
use rustix::io::Errno;

use super::{Device, Failure};
use crate::backend::{Job, Payload, Piece};
use crate::buffer::Pool;

/// A job that was failed before the back end has returned it.
#[derive(Clone, Copy)]
pub(super) struct TimedOut {
    op: Op,
    start: Sector,
    end: Sector,
}

/// Requests that exceeded the time limit in the back end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overdue {
    pub first: Failure,
    /// Their number.
    pub count: u32,
}

/// A failed job that is repeated piece by piece, so that one bad sector fails one operation.
pub(super) struct Salvage {
    todo: std::vec::IntoIter<Piece>,
    /// The piece in the back end, up to `next`.
    running: Sector,
    next: Sector,
    ended: Vec<Piece>,
}

impl Device {
    /// Fails requests that have been in the back end for `limit` or longer. The back end keeps their tags and memory until it returns them.
    /// Meanwhile writes to the same sectors fail too: a write that is executed late must not replace a newer one. If no tag is left,
    /// every request fails.
    pub fn expire(&mut self, now: Time, limit: Span) -> Option<Overdue> {
        self.now = self.now.max(now);
        let mut overdue: Option<Overdue> = None;
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            let Some(ticket) = slot.ticket.take_if(|_| now.since(slot.started) >= limit) else { continue };
            let request = self.queue.request(&ticket);
            let (op, start, sectors) = (request.op, request.start, request.sectors);
            let salvage = slot.salvage.take();
            let (begin, end) =
                salvage.as_ref().map_or((start, start + sectors), |salvage| (salvage.running, salvage.next));
            slot.timed_out = Some(TimedOut { op, start: begin, end });
            self.unreturned += 1;
            if let Some(salvage) = salvage {
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

    /// Number of failed requests that the back end has not returned.
    pub const fn unreturned(&self) -> u32 {
        self.unreturned
    }

    /// Whether a request must not be passed to the back end.
    pub(super) fn is_blocked(&self, ticket: &Ticket) -> bool {
        #[cfg(feature = "simulation")]
        if self.forgets_timed_out {
            return self.tags.is_empty();
        }
        let request = self.queue.request(ticket);
        self.tags.is_empty() || self.is_closed(request.op, request.start, request.end())
    }

    /// Whether the back end has not returned a failed write to some of these sectors, so that this operation must not change them.
    fn is_closed(&self, op: Op, start: Sector, end: Sector) -> bool {
        #[cfg(feature = "simulation")]
        if self.forgets_timed_out {
            return false;
        }
        let changes = |op| matches!(op, Op::Write | Op::Discard);
        let overlaps =
            |late: TimedOut| changes(late.op) && changes(op) && late.start < end && start < late.end;
        self.slots.iter().filter_map(|slot| slot.timed_out).any(overlaps)
    }

    /// Completes a request with an error without the back end. The front end gets its memory back.
    pub(super) fn fail(&mut self, ticket: Ticket) {
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
    pub(super) fn returned_late(&mut self, mut job: Job) {
        self.unreturned -= 1;
        job.pieces.drain(..).for_each(|piece| recycle(&mut self.pool, piece));
        self.lists.push(job.pieces);
        self.tags.push(job.tag);
    }

    /// Executes a job piece by piece: one that has failed, or of which some sectors are closed.
    pub(super) fn salvage(&mut self, mut job: Job) {
        self.statistics().salvaged += 1;
        let pieces = mem::take(&mut job.pieces);
        let ended = Vec::with_capacity(pieces.len());
        self.slots[job.tag.0 as usize].salvage =
            Some(Salvage { todo: pieces.into_iter(), running: job.start, next: job.start, ended });
        self.next_of_salvage(job, self.now);
    }

    pub(super) fn salvage_goes_on(&mut self, mut job: Job, at: Time) {
        if let Some(salvage) = &mut self.slots[job.tag.0 as usize].salvage {
            salvage.ended.append(&mut job.pieces);
        }
        self.next_of_salvage(job, at);
    }

    fn end_salvage(&mut self, mut job: Job, at: Time) {
        if let Some(mut salvage) = self.slots[job.tag.0 as usize].salvage.take() {
            job.pieces = mem::take(&mut salvage.ended);
        }
        let result = job.pieces.iter().find_map(|piece| piece.result.err()).map_or(Ok(()), Err);
        self.end(job, at, result);
    }

    /// Starts the next piece whose sectors are not closed; ends the job after the last piece.
    fn next_of_salvage(&mut self, mut job: Job, at: Time) {
        let slot = job.tag.0 as usize;
        loop {
            let Some(salvage) = &mut self.slots[slot].salvage else { return };
            let Some(mut piece) = salvage.todo.next() else { return self.end_salvage(job, at) };
            let start = salvage.next;
            (salvage.running, salvage.next) = (start, start + piece.sectors);
            if !self.is_closed(job.op, start, start + piece.sectors) {
                piece.result = Ok(());
                (job.start, job.sectors) = (start, piece.sectors);
                job.pieces.push(piece);
                break;
            }
            piece.result = Err(Errno::IO);
            if let Some(salvage) = &mut self.slots[slot].salvage {
                salvage.ended.push(piece);
            }
        }
        self.backend.start(self.now, job);
        self.backend.submit();
    }
}

/// Returns a piece's memory to the pool.
fn recycle(pool: &mut Pool, piece: Piece) {
    if let Payload::Data(buffer) = piece.payload {
        pool.put(buffer);
    }
}
