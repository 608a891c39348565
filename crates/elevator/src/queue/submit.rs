//! Submission: a submission is merged into a queued request or becomes a new one, or its submitter sleeps.

use super::flush::Then;
use super::limits::may_queue;
use super::parts::{Chain, PartId, Submission};
use super::{Accepted, Barriers, Cache, Event, Meta, Observer, Plugging, Queue, State};
use crate::cold_path;
use crate::request::{Op, Outcome, Request, RequestId};
use crate::time::Time;

impl<O: Observer> Queue<O> {
    /// Accepts a new submission, unless a barrier holds it back.
    pub(super) fn take_in(&mut self, now: Time, part: PartId) -> Accepted {
        if self.order.holds_back(part) {
            return Accepted::Queued;
        }
        let accepted = self.accept(now, part);
        if accepted == Accepted::Asleep {
            self.counts.mark_last_asleep(self.parts.get(part).submission.op.direction());
        }
        if self.order.is_draining() {
            self.settle(now);
        }
        accepted
    }

    /// Accepts a submission without a barrier before it.
    #[inline]
    pub(super) fn accept(&mut self, now: Time, part: PartId) -> Accepted {
        if self.options.barriers == Barriers::Drain && is_ordered(&self.parts.get(part).submission) {
            self.begin_barrier(now, part);
            return Accepted::Queued;
        }
        self.start(now, part)
    }

    /// Starts the first step of a submission: a flush, or the scheduler.
    #[inline]
    pub(super) fn start(&mut self, now: Time, part: PartId) -> Accepted {
        let submission = &self.parts.get(part).submission;
        if submission.op == Op::Flush || submission.flags.preflush {
            self.start_with_flush(now, part)
        } else {
            self.enqueue(now, part)
        }
    }

    #[cold]
    fn start_with_flush(&mut self, now: Time, part: PartId) -> Accepted {
        let cached = self.options.cache != Cache::WriteThrough;
        match self.parts.get(part).submission.op {
            Op::Flush if cached => self.wait_for_flush(part, Then::Finish),
            Op::Flush => self.finish(now, part, Outcome::Done, now),
            _ if cached => self.wait_for_flush(part, Then::Data),
            _ => return self.enqueue(now, part),
        }
        Accepted::Queued
    }

    /// Passes a submission with data on to the scheduler: it is merged, admitted, or waits for room.
    #[inline]
    pub(super) fn enqueue(&mut self, now: Time, part: PartId) -> Accepted {
        if self.try_merge(now, part) {
            return Accepted::Queued;
        }
        let submission = &self.parts.get(part).submission;
        let Submission { token, op, flags, process, .. } = *submission;
        let direction = op.direction();
        let hosted = &mut self.hosted;
        let admission = || may_queue(hosted, now, process, direction, op.is_sync(flags));
        if self.counts.admits(now, direction, process, admission) {
            self.admit(now, part);
            return Accepted::Queued;
        }
        self.counts.push_waiting(direction, part);
        self.observer.event(now, &Event::Slept(token));
        Accepted::Asleep
    }

    #[inline]
    pub(super) fn admit(&mut self, now: Time, part: PartId) {
        let submission = &self.parts.get(part).submission;
        let token = submission.token;
        self.counts.allocate(submission.op.direction());
        let (request, chain) = (submission.as_request(now), Chain::of(part, submission));
        let id = self.add(now, request, chain);
        let request = &self.requests[id];
        self.observer.event(now, &Event::Carried(token, request));
        self.merges.add(request);
        if !self.plugged {
            self.insert(now, id);
            return;
        }
        self.plug.push(id);
        if matches!(self.options.plugging, Plugging::Task { most } if self.plug.len() >= most as usize) {
            self.empty_plug(now);
        }
    }

    /// Passes the requests of a full plug to the scheduler. The plug stays in place for more.
    #[cold]
    fn empty_plug(&mut self, now: Time) {
        self.unplug(now);
        self.plugged = true;
    }

    // Inlined, so that the request is built in place.
    #[inline(always)]
    pub(super) fn add(&mut self, now: Time, request: Request, chain: Chain) -> RequestId {
        let id = self.requests.add(request);
        let meta = Meta {
            state: State::Plugged,
            chain,
            dispatched: Time::ZERO,
            generation: None,
            inserted: now,
            inserted_behind: 0,
        };
        if id.index() == self.meta.len() {
            cold_path();
            self.meta.push(meta);
        } else {
            self.meta[id.index()] = meta;
        }
        id
    }

    #[inline]
    pub(super) fn insert(&mut self, now: Time, id: RequestId) {
        self.plug_itself(now);
        let meta = &mut self.meta[id.index()];
        meta.state = State::Queued;
        (meta.inserted, meta.inserted_behind) = (now, self.watchdog.dispatched);
        self.queued += 1;
        self.note_load();
        let request = &self.requests[id];
        self.observer.event(now, &Event::Inserted(request));
        self.hosted.call("insert", |scheduler| scheduler.insert(now, request));
    }

    /// [`Plugging::Queue`]: begins to delay dispatches at the first request, and ends the delay at the threshold.
    fn plug_itself(&mut self, now: Time) {
        if let Plugging::Queue { threshold, delay } = self.options.plugging {
            if self.queued == 0 && self.in_flight == 0 {
                self.plugged_until = Some(now + delay);
            }
            if self.queued + 1 >= threshold {
                self.plugged_until = None;
            }
        }
    }
}

/// Whether a submission is a flush, or a write with a preflush or forced unit access.
fn is_ordered(submission: &Submission) -> bool {
    submission.op == Op::Flush || submission.flags.preflush || submission.flags.fua
}
