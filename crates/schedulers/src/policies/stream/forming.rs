//! Streams form from arrivals: which arrival is whose child, until when a child can arrive, and when a stream ends.

use core::mem;

use elevator::{Op, Priority, PriorityClass, Reason, Request, Sector, Span, Time};

use super::{
    LEAST_PATIENCE, NO_STREAM, PARENTS_MAX, Parent, ParentToBe, Stream, StreamId, StreamScheduling, Tunables,
};

/// The lowest level of a class.
const LOWEST_LEVEL: u8 = 7;

/// Whether requests of this priority form no streams.
fn is_lowest(priority: Priority) -> bool {
    priority.class == PriorityClass::Idle || priority.level >= LOWEST_LEVEL
}

impl StreamScheduling {
    /// The service time of `request`, arriving now, if it satisfies the inequality for `parent` with `share` per cent of the
    /// selected pending request's service time.
    fn satisfies(&self, now: Time, parent: Parent, share: u64, request: &Request) -> Option<Span> {
        let left = parent.budget.percent(share).saturating_sub(now.since(parent.since));
        if left == Span::ZERO {
            return None;
        }
        let service = self.service_time(parent.position, request.start);
        (service < left).then_some(service)
    }

    /// The service time of `request` if it is a child of the stream's latest request, or another child of the one before.
    pub(super) fn continues(&self, now: Time, id: StreamId, request: &Request) -> Option<Span> {
        let stream = self.stream(id);
        if self.waits_at_no_cost(id) {
            let parent = Parent { since: now, ..stream.parent() };
            return self.satisfies(now, parent, self.tunables.early_child, request);
        }
        if !stream.is_early() {
            return self.satisfies(now, stream.parent(), 100, request);
        }
        self.satisfies(now, stream.parent(), self.tunables.early_child, request)
            .or_else(|| self.satisfies(now, stream.before, 100, request))
    }

    /// The parent-to-be whose child `request` is: the nearest for which the inequality holds, with the service time from
    /// there.
    fn parent_of(&self, now: Time, request: &Request) -> Option<(Span, StreamId)> {
        if request.op == Op::Flush || is_lowest(request.priority) {
            return None;
        }
        let children = self.within_reach(request.start).filter_map(|id| {
            let service = self.continues(now, id, request)?;
            Some((service, id))
        });
        children.min_by_key(|(service, _)| *service)
    }

    /// The parents-to-be that could have a child at `start`, in the queue's order. All entries are compared before any is
    /// evaluated: a branch for each entry could not be predicted.
    fn within_reach(&self, start: Sector) -> impl Iterator<Item = StreamId> + '_ {
        let compared = self.parents_to_be.iter().enumerate();
        let mut within = compared
            .fold(0_u64, |within, (place, parent)| within | u64::from(parent.reaches(start)) << place);
        core::iter::from_fn(move || {
            let place = within.trailing_zeros() as usize;
            within &= within.wrapping_sub(1);
            self.parents_to_be.get(place).map(|parent| parent.stream)
        })
    }

    /// The stream that an arrival joins, if it has a parent: the parent's stream, or a branch of it.
    pub(super) fn join(&mut self, now: Time, request: &Request) -> Option<StreamId> {
        let (service, parent) = self.parent_of(now, request)?;
        let stream = self.stream(parent);
        let is_first = stream.queued.is_empty() && !stream.is_early();
        let is_near = service < stream.budget.percent(self.tunables.early_child);
        let id = if is_first || is_near { parent } else { self.branch(parent) };
        self.extend(id, request);
        Some(id)
    }

    /// A stream that begins with another child of the same parent, and has the parent stream's length.
    fn branch(&mut self, parent: StreamId) -> StreamId {
        let Stream { length, budget, .. } = *self.stream(parent);
        self.new_stream(Stream { length, budget, ..Stream::default() })
    }

    /// A queued request becomes the latest one of a stream.
    pub(super) fn extend(&mut self, id: StreamId, request: &Request) {
        self.stream_of.set(request.id, id);
        let stream = &mut self.streams[id as usize];
        if stream.queued.is_empty() && !stream.is_early() {
            stream.before = stream.parent();
        }
        stream.length += 1;
        stream.latest = request.serial;
        stream.position = request.end();
        stream.writes = request.op == Op::Write;
        stream.is_second_chance = false;
        self.links.push_back(&mut stream.queued, request.id);
        self.move_reach(id);
    }

    /// A new stream of one request, which is being dispatched.
    pub(super) fn begin(&mut self, request: &Request) -> StreamId {
        let writes = request.op == Op::Write;
        let id = self.new_stream(Stream { latest: request.serial, length: 1, writes, ..Stream::default() });
        self.stream_of.set(request.id, id);
        id
    }

    // Inlined, so that the stream is built in place.
    #[inline(always)]
    pub(super) fn new_stream(&mut self, stream: Stream) -> StreamId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.streams.push(Stream::default());
            self.streams.len() as StreamId - 1
        });
        *self.stream_mut(id) = stream;
        id
    }

    /// The stream's latest request may have a child for `budget` from `since` on. [`Time::MAX`]: the deadline is open.
    pub(super) fn expect_child(&mut self, id: StreamId, since: Time, budget: Span) {
        let deadline = since + budget;
        let stream = self.stream_mut(id);
        (stream.since, stream.budget, stream.deadline) = (since, budget, deadline);
        // Comparing every arrival with the only request in the device costs less than computing its reach.
        let (low, high) =
            if since == Time::MAX && self.in_device.len() <= 1 { (0, u64::MAX) } else { self.reach(id) };
        self.queue_parent(ParentToBe { deadline, stream: id, low, high });
        if self.parents_to_be.len() > PARENTS_MAX {
            let first = self.take_first_parent();
            self.abort_if_over(first);
        }
    }

    /// Inserts or moves a parent-to-be behind those with earlier or equal deadlines. The queue is short, and the place is
    /// usually near the end, so the entry is swapped with its neighbours.
    fn queue_parent(&mut self, parent: ParentToBe) {
        let was = mem::replace(&mut self.stream_mut(parent.stream).is_parent_to_be, true);
        let queue = &mut self.parents_to_be;
        let known = if was { queue.iter().rposition(|other| other.stream == parent.stream) } else { None };
        let mut place = known.unwrap_or(queue.len());
        if known.is_none() {
            queue.push(parent);
        }
        while place > 0 && queue[place - 1].deadline > parent.deadline {
            queue[place] = queue[place - 1];
            place -= 1;
        }
        while place + 1 < queue.len() && queue[place + 1].deadline <= parent.deadline {
            queue[place] = queue[place + 1];
            place += 1;
        }
        queue[place] = parent;
    }

    /// Where a child of the stream's latest request can begin at all; until that request has completed, also another child of
    /// the one before.
    fn reach(&self, id: StreamId) -> (u64, u64) {
        let stream = self.stream(id);
        let latest = self.reach_of(stream.parent());
        if stream.before.budget == Span::ZERO || !stream.is_early() {
            return latest;
        }
        let before = self.reach_of(stream.before);
        (latest.0.min(before.0), latest.1.max(before.1))
    }

    fn reach_of(&self, parent: Parent) -> (u64, u64) {
        let distance = self.service_times.distance_taking(parent.budget);
        let position = parent.position.0;
        (position.saturating_sub(distance), position.saturating_add(distance))
    }

    /// Updates the reach of a stream in the parent-to-be queue, after its latest request has changed.
    pub(super) fn move_reach(&mut self, id: StreamId) {
        if self.stream(id).is_parent_to_be {
            let (low, high) = self.reach(id);
            for parent in self.parents_to_be.iter_mut().filter(|parent| parent.stream == id) {
                (parent.low, parent.high) = (low, high);
            }
        }
    }

    /// Removes the stream with the earliest deadline from the parent-to-be queue, which must not be empty.
    fn take_first_parent(&mut self) -> StreamId {
        let ParentToBe { stream, .. } = self.parents_to_be.remove(0);
        self.stream_mut(stream).is_parent_to_be = false;
        stream
    }

    /// Removes streams whose deadlines have passed from the parent-to-be queue.
    pub(super) fn pass_deadlines(&mut self, now: Time) {
        while self.parents_to_be.first().is_some_and(|first| first.deadline <= now) {
            let id = self.take_first_parent();
            if !self.has_no_request(id) {
                continue;
            }
            if self.directives.is_patient(now, id) {
                let budget = self.stream(id).budget.max(LEAST_PATIENCE);
                self.expect_child(id, now, budget);
            } else {
                self.miss_deadline(id);
            }
        }
    }

    pub(super) fn has_no_request(&self, id: StreamId) -> bool {
        self.stream(id).queued.is_empty() && self.stream(id).in_device == 0
    }

    /// No child arrived in time. A long stream gets a second chance; the others abort.
    fn miss_deadline(&mut self, id: StreamId) {
        let Tunables { stream_threshold: threshold, tolerance_factor, second_chance, .. } = self.tunables;
        let tolerated = threshold + threshold * tolerance_factor / 100;
        let has_another = self.stream(id).length > tolerated && !self.stream(id).is_second_chance;
        // An array's disks continue to wait: if one left, all disks would lose the stream.
        if !has_another || self.directives.slice_of(id).is_none() {
            self.end_service_of(id, Reason::StreamBroken);
        }
        let stream = self.stream_mut(id);
        if has_another {
            stream.is_second_chance = true;
            stream.length = threshold;
            let (since, budget) = (stream.deadline, stream.budget.percent(second_chance));
            self.expect_child(id, since, budget);
        } else {
            self.abort_if_over(id);
        }
    }

    /// Removes a stream that can get no child any more and has no request left.
    pub(super) fn abort_if_over(&mut self, id: StreamId) {
        if !self.stream(id).is_parent_to_be && self.has_no_request(id) {
            self.end_service_of(id, Reason::StreamBroken);
            if self.tail == id {
                self.tail = NO_STREAM;
            }
            self.drop_decision(id);
            self.directives.aborted(id);
            self.free.push(id);
        }
    }
}
