//! Request limits: which submitters may add a request, which sleep, and which may add a batch after a wake-up.
//!
//! As in Linux before blk-mq, with these differences:
//! - In Linux the submitter that fills the queue may also add a batch.
//! - In Linux the request with which a submitter slept counts in its batch.
//! - In Linux a submitter that arrives between a wake-up and the sleeper's next run takes the room; here the room is reserved for the
//!   sleeper.
//!
//! blk-mq has tags, and neither batches nor a hard limit.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::hosted::Hosted;
use super::options::Limits;
use super::parts::PartId;
use super::{Notice, Observer, Queue};
use crate::request::{Direction, Process};
use crate::scheduler::Admission;
use crate::time::Time;

/// The counters of one direction.
#[derive(Default)]
struct Counts {
    /// Requests allocated: plugged, queued, dispatched.
    allocated: u32,
    /// Submissions that wait for room, in order of arrival.
    waiting: VecDeque<Waiting>,
}

/// A submission that waits for room.
struct Waiting {
    part: PartId,
    /// Its submitter does not sleep if a barrier or a flush delayed the submission: [`Queue::submit`] has returned before.
    is_submitter_asleep: bool,
}

/// A woken submitter, which may add a batch before it sleeps again.
struct Batcher {
    process: Process,
    left: u32,
    until: Time,
}

/// The counters of both directions.
pub(super) struct RequestCounts {
    limits: Limits,
    counts: [Counts; 2],
    batchers: Vec<Batcher>,
}

impl RequestCounts {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, counts: Default::default(), batchers: Vec::new() }
    }

    /// Whether a request may be allocated now, for a submitter that is not asleep; `admission` is called only below the hard limit.
    #[inline]
    pub(super) fn admits(
        &mut self,
        now: Time,
        direction: Direction,
        process: Option<Process>,
        admission: impl FnOnce() -> Admission,
    ) -> bool {
        let counts = &self.counts[direction as usize];
        if counts.allocated == 0 {
            return true;
        }
        if counts.allocated >= self.limits.hard() {
            return false;
        }
        match admission() {
            Admission::Must => true,
            Admission::No => false,
            Admission::ByLimit if counts.allocated < self.limits.nr_requests && counts.waiting.is_empty() => {
                true
            }
            Admission::ByLimit => self.batching(now, process),
        }
    }

    fn batching(&mut self, now: Time, process: Option<Process>) -> bool {
        let Some(process) = process else { return false };
        self.batchers.retain(|b| b.until >= now && b.left > 0);
        match self.batchers.iter_mut().find(|b| b.process == process) {
            Some(batcher) => {
                batcher.left -= 1;
                true
            }
            None => false,
        }
    }

    pub(super) fn push_waiting(&mut self, direction: Direction, part: PartId) {
        self.counts[direction as usize].waiting.push_back(Waiting { part, is_submitter_asleep: false });
    }

    /// The submitter of the last waiting submission sleeps.
    pub(super) fn mark_last_asleep(&mut self, direction: Direction) {
        if let Some(last) = self.counts[direction as usize].waiting.back_mut() {
            last.is_submitter_asleep = true;
        }
    }

    pub(super) fn has_waiting(&self, direction: Direction) -> bool {
        !self.counts[direction as usize].waiting.is_empty()
    }

    pub(super) fn first_waiting(&self, direction: Direction) -> Option<PartId> {
        self.counts[direction as usize].waiting.front().map(|first| first.part)
    }

    /// Whether the first waiting submission may continue.
    pub(super) fn may_continue(&self, direction: Direction, admission: Admission) -> bool {
        let counts = &self.counts[direction as usize];
        counts.allocated == 0
            || match admission {
                Admission::Must => counts.allocated < self.limits.hard(),
                Admission::No => false,
                Admission::ByLimit => counts.allocated < self.limits.nr_requests,
            }
    }

    /// Removes the first waiting submission and allows its submitter a batch. Returns whether the submitter sleeps.
    pub(super) fn pop_waiting(&mut self, now: Time, direction: Direction, process: Option<Process>) -> bool {
        let first = self.counts[direction as usize].waiting.pop_front();
        if let (Some(process), true) = (process, self.limits.batch_requests > 0) {
            self.batchers.retain(|b| b.process != process && b.until >= now);
            let until = now + self.limits.batch_time;
            self.batchers.push(Batcher { process, left: self.limits.batch_requests, until });
        }
        first.is_some_and(|first| first.is_submitter_asleep)
    }

    pub(super) const fn allocated(&self, direction: Direction) -> u32 {
        self.counts[direction as usize].allocated
    }

    pub(super) fn allocate(&mut self, direction: Direction) {
        self.counts[direction as usize].allocated += 1;
    }

    pub(super) fn free(&mut self, direction: Direction) {
        self.counts[direction as usize].allocated -= 1;
    }
}

impl<O: Observer> Queue<O> {
    /// Continues waiting submissions in order of arrival, as far as there is room.
    #[inline]
    pub(super) fn continue_waiting(&mut self, now: Time) {
        for direction in Direction::BOTH {
            if self.counts.has_waiting(direction) {
                self.continue_waiting_of(now, direction);
            }
        }
    }

    #[cold]
    fn continue_waiting_of(&mut self, now: Time, direction: Direction) {
        while let Some(part) = self.counts.first_waiting(direction)
            && self.continue_first(now, direction, part)
        {}
    }

    /// Continues the first waiting submission if there is room; returns whether there was.
    fn continue_first(&mut self, now: Time, direction: Direction, part: PartId) -> bool {
        let submission = &self.parts.get(part).submission;
        let (token, process) = (submission.token, submission.process);
        let sync = submission.op.is_sync(submission.flags);
        let admission = may_queue(&mut self.hosted, now, process, direction, sync);
        if !self.counts.may_continue(direction, admission) {
            return false;
        }
        if self.counts.pop_waiting(now, direction, process) {
            self.notices.push_back(Notice::Woken(token));
        }
        if !self.try_merge(now, part) {
            self.admit(now, part);
        }
        true
    }
}

/// Whether the scheduler admits a request. If the call panics, the limit decides.
pub(super) fn may_queue(
    hosted: &mut Hosted,
    now: Time,
    process: Option<Process>,
    direction: Direction,
    sync: bool,
) -> Admission {
    let admission = hosted.call("may_queue", |scheduler| scheduler.may_queue(now, process, direction, sync));
    admission.unwrap_or(Admission::ByLimit)
}
