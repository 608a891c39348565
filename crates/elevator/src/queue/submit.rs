//! Submission: a submission is merged into a queued request or becomes a new one, or its submitter sleeps.

use super::flush::Then;
use super::hosted::Hosted;
use super::merge::alike;
use super::parts::{Chain, PartId, Submission};
use super::{Accepted, Barriers, Cache, Event, Meta, Notice, Observer, Plugging, Queue, State};
use crate::cold_path;
use crate::request::{Direction, Op, Outcome, Process, Request, RequestId};
use crate::scheduler::{Admission, Growth, Side};
use crate::time::Time;

impl<O: Observer> Queue<O> {
    /// Accepts a new submission, unless a barrier holds it back.
    pub(super) fn take_in(&mut self, now: Time, part: PartId) -> Accepted {
        if self.order.holds_back(part) {
            return Accepted::Queued;
        }
        let accepted = self.accept(now, part);
        if accepted == Accepted::Asleep {
            self.counts.sleeps(self.parts.get(part).submission.op.direction());
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
        self.counts.sleep(direction, part);
        self.observer.event(now, &Event::Slept(token));
        Accepted::Asleep
    }

    #[inline]
    fn admit(&mut self, now: Time, part: PartId) {
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

    /// Merges a part into a queued request, if one is adjacent and may grow.
    #[inline]
    fn try_merge(&mut self, now: Time, part: PartId) -> bool {
        if self.merges.is_empty() {
            return false;
        }
        let submission = &self.parts.get(part).submission;
        let (op, start, end) = (submission.op, submission.start, submission.start + submission.sectors);
        for side in [Side::Back, Side::Front] {
            if let Some(id) = self.merges.neighbour(op, start, end, side)
                && self.merge(now, id, part, side)
            {
                return true;
            }
        }
        false
    }

    /// Merges a part into the adjacent queued request, if that may grow.
    fn merge(&mut self, now: Time, id: RequestId, part: PartId, side: Side) -> bool {
        let submission = &self.parts.get(part).submission;
        let token = submission.token;
        let (addition, chain) = (submission.as_request(now), Chain::of(part, submission));
        if !self.may_grow(id, &addition, chain, side) {
            return false;
        }
        self.grow(now, id, &addition, chain, side, None);
        self.observer.event(now, &Event::Merged(token, &self.requests[id], side));
        self.absorb_neighbour(now, id, side);
        true
    }

    fn may_grow(&mut self, id: RequestId, addition: &Request, chain: Chain, side: Side) -> bool {
        let request = &self.requests[id];
        let meta = &self.meta[id.index()];
        self.options.merges
            && alike(request, addition)
            && request.sectors.0.saturating_add(addition.sectors.0) <= self.options.max_sectors.0
            && meta.chain.segments + chain.segments <= self.options.max_segments
            && (meta.state == State::Plugged
                || self
                    .hosted
                    .call("may_merge", |scheduler| scheduler.may_merge(request, addition, side))
                    .unwrap_or(false))
    }

    fn grow(
        &mut self,
        now: Time,
        id: RequestId,
        addition: &Request,
        chain: Chain,
        side: Side,
        absorbed: Option<&Request>,
    ) {
        let was = self.requests[id];
        self.merges.remove(&was);
        let meta = &mut self.meta[id.index()];
        let request = self.requests.get_mut(id);
        request.sectors += addition.sectors;
        request.arrived = was.arrived.min(addition.arrived);
        meta.chain = match side {
            Side::Back => self.parts.join(meta.chain, chain),
            Side::Front => {
                request.start = addition.start;
                self.parts.join(chain, meta.chain)
            }
        };
        let request = *request;
        self.merges.add(&request);
        if self.meta[id.index()].state == State::Queued {
            let growth = Growth { was_start: was.start, was_sectors: was.sectors, absorbed };
            self.hosted.call("merged", |scheduler| scheduler.merged(now, &request, growth));
        }
    }

    /// Merges a grown request with a queued neighbour that is now adjacent.
    fn absorb_neighbour(&mut self, now: Time, id: RequestId, side: Side) {
        let request = self.requests[id];
        let Some(other) = self.merges.beyond(&request, side) else { return };
        let (neighbour, meta) = (self.requests[other], self.meta[other.index()]);
        let same_state = self.meta[id.index()].state == meta.state;
        if other == id || !same_state || !self.may_grow(id, &neighbour, meta.chain, side) {
            return;
        }
        self.merges.remove(&neighbour);
        self.grow(now, id, &neighbour, meta.chain, side, Some(&neighbour));
        self.observer.event(now, &Event::Absorbed(&self.requests[id], &neighbour));
        let grown = &mut self.meta[id.index()];
        grown.inserted = grown.inserted.min(meta.inserted);
        grown.inserted_behind = grown.inserted_behind.min(meta.inserted_behind);
        match meta.state {
            State::Queued => self.queued -= 1,
            _ => self.plug.retain(|&plugged| plugged != other),
        }
        self.requests.remove(other);
        self.counts.free(neighbour.direction());
        self.wake_sleepers(now);
    }

    /// Continues sleepers in order of arrival, as far as there is room.
    #[inline]
    pub(super) fn wake_sleepers(&mut self, now: Time) {
        for direction in Direction::BOTH {
            if self.counts.anybody_sleeps(direction) {
                self.wake_sleepers_of(now, direction);
            }
        }
    }

    #[cold]
    fn wake_sleepers_of(&mut self, now: Time, direction: Direction) {
        while let Some(part) = self.counts.first_sleeper(direction)
            && self.wake_sleeper(now, direction, part)
        {}
    }

    /// Continues the first sleeper if there is room; returns whether there was.
    fn wake_sleeper(&mut self, now: Time, direction: Direction, part: PartId) -> bool {
        let submission = &self.parts.get(part).submission;
        let (token, process) = (submission.token, submission.process);
        let sync = submission.op.is_sync(submission.flags);
        let admission = may_queue(&mut self.hosted, now, process, direction, sync);
        if !self.counts.may_wake(direction, admission) {
            return false;
        }
        if self.counts.wake(now, direction, process) {
            self.notices.push_back(Notice::Woken(token));
        }
        if !self.try_merge(now, part) {
            self.admit(now, part);
        }
        true
    }
}

/// Whether the scheduler admits a request. If the call panics, the limit decides.
fn may_queue(
    hosted: &mut Hosted,
    now: Time,
    process: Option<Process>,
    direction: Direction,
    sync: bool,
) -> Admission {
    let admission = hosted.call("may_queue", |scheduler| scheduler.may_queue(now, process, direction, sync));
    admission.unwrap_or(Admission::ByLimit)
}

/// Whether a submission is a flush, or a write with a preflush or forced unit access.
fn is_ordered(submission: &Submission) -> bool {
    submission.op == Op::Flush || submission.flags.preflush || submission.flags.fua
}
