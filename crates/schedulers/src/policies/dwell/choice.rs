//! Which flow owns the disk next, and which flows the device may have at once.

use elevator::{Op, Reason, Request, Sector, Span, Time, View};

use super::flows::{Flow, FlowId, REAL_TIME, SCATTERED, WRITES, is_stream};
use super::{BACKWARD_PENALTY, Dwell, Owner};

/// Age from which random requests are served in the order of age instead of position.
const PATIENCE: Span = Span::from_millis(100);
/// Age from which asynchronous requests take turns with heavy flows.
const AGED: Span = Span::from_millis(500);
/// No process waits for an asynchronous request at once: it may wait for so many times as long as a synchronous one.
const LATER: u64 = 4;
/// The time by which a sweep over all requests grows with each, on a slow disk.
const SWEEP: Span = Span::from_millis(8);

impl Dwell {
    /// Whether moves from one of the flow's requests to the next take long.
    pub(super) fn is_random(&self, flow: FlowId) -> bool {
        flow == SCATTERED || flow != WRITES && self.flows.get(flow).is_random()
    }

    /// The light, or the heavy, flows with queued requests, except `but`, [`WRITES`] and [`REAL_TIME`].
    fn alike(
        &self,
        now: Time,
        is_light: bool,
        but: Option<FlowId>,
    ) -> impl Iterator<Item = FlowId> + Clone + '_ {
        let others =
            self.flows.queued().filter(move |&flow| flow != WRITES && flow != REAL_TIME && Some(flow) != but);
        others.filter(move |&flow| self.is_light(now, flow) == is_light)
    }

    /// The one whose oldest request is the oldest.
    fn oldest(&self, flows: impl Iterator<Item = FlowId>) -> Option<FlowId> {
        flows.min_by_key(|&flow| self.flows.get(flow).queued.front().map(|id| self.stored[id].expires))
    }

    /// Where the flow's next request is: behind the head, and how far away.
    fn place(&self, view: &View<'_>, flow: FlowId) -> (bool, u64) {
        let start = self.next_of(flow).map_or(Sector(0), |id| view.requests[id].start);
        (start < self.head, self.head.distance(start))
    }

    /// Age from which a request's turn has come, whatever its position: at least a sweep over all.
    pub(super) fn patience(&self) -> Span {
        PATIENCE + SWEEP * self.ages[0].len() as u64
    }

    /// Of flows that are as light or as heavy as the one with the oldest request:
    /// - one that is as near as the requests of one flow, until the slice of this area is over;
    /// - if the oldest one has no position that would be worth keeping, because its requests are far from each other, and its oldest
    ///   request is not old: the nearest such flow in the direction of the head's movement;
    /// - otherwise the oldest.
    fn nearest(&self, now: Time, view: &View<'_>, oldest: FlowId, but: Option<FlowId>) -> FlowId {
        let alike = self.alike(now, self.is_light(now, oldest), but);
        if is_stream(oldest) && now < self.area + self.tunables.stream_slice {
            let streams = alike.clone().filter(|&flow| is_stream(flow));
            let places = streams.map(|flow| (self.place(view, flow), flow));
            let near = places.filter(|((_, distance), _)| *distance <= self.flows.near()).min();
            if let Some((_, near)) = near {
                return near;
            }
        }
        let front = self.flows.get(oldest).queued.front();
        let waited = front.map(|id| now.since(view.requests[id].arrived));
        if !self.is_random(oldest) || waited.is_some_and(|waited| waited >= self.patience()) {
            return oldest;
        }
        let random = alike.filter(|&flow| self.is_random(flow));
        random.min_by_key(|&flow| self.place(view, flow)).unwrap_or(oldest)
    }

    /// The flow of the next request if the device may have all random flows that are as light or as heavy as `owner`.
    pub(super) fn next_of_all(&self, now: Time, view: &View<'_>, owner: FlowId) -> FlowId {
        let alike = self.alike(now, self.is_light(now, owner), None);
        let oldest = self.oldest(alike.filter(|&flow| self.is_random(flow)));
        oldest.map_or(owner, |oldest| self.nearest(now, view, oldest, None))
    }

    /// The time of a request of another flow: move and transfer, or less if the device has a cache for writes.
    pub(super) fn time_elsewhere(&self, request: &Request) -> Span {
        let move_there = self.service_times.service_time(self.head, request.start, BACKWARD_PENALTY);
        let estimate = move_there + self.service_times.transfer(request.sectors);
        let is_cached = request.op == Op::Write && self.stored[request.id].flow != WRITES;
        if is_cached { self.gains.written(estimate) } else { estimate }
    }

    /// The mean time of a flow's requests if the device has no others.
    pub(super) fn time_alone(&self, view: &View<'_>, flow: &Flow) -> Span {
        flow.time(self.gains.share(flow.parallel().min(u64::from(view.device.depth))))
    }

    /// Whether the device, which orders what it has, serves requests of both flows together faster than those of one.
    pub(super) fn mixes(&self, now: Time, view: &View<'_>, owner: FlowId, other: FlowId) -> bool {
        if view.device.depth <= 1 || !self.is_random(owner) || !self.is_random(other) {
            return false;
        }
        if owner == REAL_TIME || other == REAL_TIME {
            return false;
        }
        let is_light = self.is_light(now, owner);
        let Some(id) = self.next_of(other).filter(|_| is_light == self.is_light(now, other)) else {
            return false;
        };
        let unfinished = |flow: FlowId| {
            let flow = self.flows.get(flow);
            u64::from(flow.in_device) + flow.queued.len() as u64
        };
        let random = self.flows.used().filter(|&flow| self.is_random(flow));
        let all: u64 = random.filter(|&flow| self.is_light(now, flow) == is_light).map(unfinished).sum();
        let own = unfinished(owner).min(all);
        let flow = self.flows.get(owner);
        let alone = self.time_alone(view, flow);
        let gap = if flow.is_parallel() { Span::ZERO } else { flow.gap(false) };
        let together = (self.time_elsewhere(&view.requests[id]) * (all - own) + alone * own) / all.max(1);
        self.gains.time(together, all.min(u64::from(view.device.depth))) < alone + gap
    }

    /// The flow that owns the disk next.
    pub(super) fn choose(&self, now: Time, view: &View<'_>, but: Option<FlowId>) -> Option<FlowId> {
        if but != Some(REAL_TIME) && !self.flows.get(REAL_TIME).queued.is_empty() {
            return Some(REAL_TIME);
        }
        let light = self.oldest(self.alike(now, true, but));
        if light.is_some() && !self.shares.is_exhausted {
            return light.map(|oldest| self.nearest(now, view, oldest, but));
        }
        let writes = !self.flows.get(WRITES).queued.is_empty() && but != Some(WRITES);
        let heavy = self.oldest(self.alike(now, false, but));
        let is_turn_of_heavy =
            self.shares.is_exhausted && heavy.is_some() && self.last_heavy < self.last_writes;
        let is_turn = self.is_turn_of_writes(now) && (!is_turn_of_heavy || self.are_writes_older(now));
        if writes && is_turn {
            return Some(WRITES);
        }
        let writes = writes.then_some(WRITES);
        let heavy = heavy.map(|oldest| self.nearest(now, view, oldest, but));
        heavy.or(if self.shares.is_exhausted { writes.or(light) } else { writes })
    }

    /// Whether the oldest asynchronous request has waited for [`LATER`] times as long as the oldest synchronous one, and for long.
    fn are_writes_older(&self, now: Time) -> bool {
        let sync = self.ages[0].front().map_or(Span::ZERO, |id| now.since(self.stored[id].arrived));
        self.age_in(now, WRITES).is_some_and(|age| age > AGED && age > sync * LATER)
    }

    /// Whether writes have a turn: after a period, or in alternation with heavy flows once they have waited for long.
    pub(super) fn is_turn_of_writes(&self, now: Time) -> bool {
        let is_alternate =
            self.last_writes < self.last_heavy && self.age_in(now, WRITES).is_some_and(|age| age >= AGED);
        is_alternate
            || self.are_writes_older(now)
            || now.since(self.last_writes) >= self.tunables.write_period
    }

    /// Whether another flow replaces the owner although the owner could go on, and why.
    pub(super) fn successor(&self, now: Time, owner: Owner, other: FlowId) -> Option<(FlowId, Reason)> {
        if other == REAL_TIME {
            return Some((other, Reason::Urgent));
        }
        if owner.flow == REAL_TIME || other == WRITES && !self.is_turn_of_writes(now) {
            return None;
        }
        let (from, to) = (self.is_light(now, owner.flow), self.is_light(now, other));
        let from = from || owner.is_light && other != SCATTERED;
        if to && !from && !self.shares.is_exhausted
            || owner.flow == WRITES && !owner.is_turn && other != WRITES
        {
            return Some((other, Reason::Urgent));
        }
        let is_over = now >= self.end(now, owner, other) || owner.work == Span::ZERO;
        (is_over && (to || !from || self.shares.is_exhausted)).then_some((other, Reason::StreamSliceOver))
    }
}
