//! Virtual streams, and the physical stream of each on every member.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use elevator::array::{ArrayRequest, Member};
use elevator::service_time::ServiceCurve;
use elevator::{Request, RequestId, Sector, Span, Time};

use super::Tunables;
use super::trial::Account;

/// The index of a virtual stream.
pub(super) type StreamId = u32;

/// The stream of a request without one.
pub(super) const NO_STREAM: StreamId = u32::MAX;

/// The most virtual streams. The limit bounds the time of an arrival; further requests begin no stream.
const STREAMS_MAX: usize = 64;

/// How often the time doubles for which a stream that breaks again and again is not served.
const DOUBLINGS: u32 = 6;

/// The parameters of the inequality.
pub(super) struct Joining<'a> {
    pub(super) now: Time,
    pub(super) tunables: &'a Tunables,
    pub(super) service_times: &'a ServiceCurve,
    /// The stream in service: its entry is not reused, however long it is quiet.
    pub(super) served: Option<StreamId>,
}

/// A request that may have a child.
#[derive(Clone, Copy)]
struct Parent {
    position: Sector,
    /// The time since its completion; `None` before.
    waited: Option<Span>,
    /// service time(selected pending request).
    budget: Span,
}

impl Joining<'_> {
    /// The service time of the request, if `wait time + service time < service time(selected pending request)`.
    fn satisfies(&self, parent: Parent, start: Sector) -> Option<Span> {
        let left = match parent.waited {
            Some(waited) => parent.budget.saturating_sub(waited),
            None => parent.budget.percent(self.tunables.early_child),
        };
        let service = self.service_times.service_time(parent.position, start, self.tunables.backward_penalty);
        (service < left).then_some(service)
    }
}

/// A virtual stream's part on one member.
#[derive(Clone, Default)]
struct PhysicalStream {
    position: Sector,
    length: u64,
    /// Its requests in the member's queue or device.
    unfinished: u32,
    /// Those in the queue, in order of insertion.
    queued: VecDeque<RequestId>,
    /// The think clock at the latest completion.
    completed: Span,
    budget: Span,
}

/// A sequence of array requests, each the child of the previous one.
#[derive(Clone, Default)]
struct VirtualStream {
    in_use: bool,
    /// The end of the latest request.
    position: Sector,
    /// Parts so far.
    length: u64,
    /// Its unfinished requests.
    unfinished: u32,
    /// Think time so far: time without an unfinished request, up to `quiet_since`.
    thought: Span,
    quiet_since: Time,
    budget: Span,
    /// The distance from which on every request takes at least that long.
    reach: (Span, u64),
    /// A physical stream broke in service: it is not served before this time.
    unusable_until: Option<Time>,
    /// Breaks since the last slice without one.
    breaks: u32,
    /// When it was served last, as an increasing number.
    served: u64,
    /// The work of its services since they were judged last.
    work: Account,
    /// The result of the latest judgement: more throughput than without.
    has_paid: bool,
    physical: Vec<PhysicalStream>,
}

impl PhysicalStream {
    /// Resets the stream, keeping its memory.
    fn begin_anew(&mut self) {
        self.queued.clear();
        (self.position, self.length, self.unfinished) = (Sector(0), 0, 0);
        (self.completed, self.budget) = (Span::ZERO, Span::ZERO);
    }
}

impl VirtualStream {
    /// Resets the stream, keeping its memory.
    fn begin_anew(&mut self) {
        let mut physical = core::mem::take(&mut self.physical);
        physical.iter_mut().for_each(PhysicalStream::begin_anew);
        *self = Self { in_use: true, physical, ..Self::default() };
    }

    /// Whether a request at `start` is too far away to satisfy the inequality, however soon it arrives. This test excludes
    /// most arrivals.
    fn is_out_of_reach(&mut self, judge: &Joining<'_>, patience: Span, start: Sector) -> bool {
        if self.reach.0 != patience {
            self.reach = (patience, judge.service_times.distance_taking(patience));
        }
        self.position.distance(start) >= self.reach.1
    }

    /// The think clock: stands still while a request is unfinished.
    fn think_clock(&self, now: Time) -> Span {
        if self.unfinished > 0 { self.thought } else { self.thought + now.since(self.quiet_since) }
    }

    fn waited(&self, now: Time) -> Option<Span> {
        (self.unfinished == 0).then(|| now.since(self.quiet_since))
    }

    /// How long its latest request may wait for a child, including the second chance.
    fn patience(&self, tunables: &Tunables, threshold: u64) -> Span {
        let is_long = self.length > threshold + threshold * tunables.tolerance_factor / 100;
        if is_long { self.budget.percent(100 + tunables.second_chance) } else { self.budget }
    }
}

/// All virtual streams.
pub(super) struct VirtualStreams {
    streams: Vec<VirtualStream>,
    /// Unused entries.
    free: Vec<StreamId>,
    /// Whether each member works,
    present: Vec<bool>,
    /// and the number of those.
    there: u64,
    /// service time(selected pending request) of the latest decision that had one: by the members' addresses and by the
    /// array's.
    latest_budgets: (Span, Span),
    services: u64,
}

impl VirtualStreams {
    pub(super) fn new(members: usize) -> Self {
        let latest_budgets = (Span::ZERO, Span::ZERO);
        let (streams, free) = (Vec::with_capacity(STREAMS_MAX), Vec::with_capacity(STREAMS_MAX));
        Self {
            streams,
            free,
            present: vec![true; members],
            there: members as u64,
            latest_budgets,
            services: 0,
        }
    }

    /// The member failed.
    pub(super) fn lose(&mut self, member: Member) {
        if core::mem::take(&mut self.present[member.index()]) {
            self.there -= 1;
        }
        for stream in &mut self.streams {
            stream.physical[member.index()].begin_anew();
        }
    }

    /// The member, or its replacement, works.
    pub(super) fn regain(&mut self, member: Member) {
        if !core::mem::replace(&mut self.present[member.index()], true) {
            self.there += 1;
        }
    }

    /// Whether each member works, in order.
    pub(super) fn present(&self) -> &[bool] {
        &self.present
    }

    /// The length from which a virtual stream is established.
    fn threshold(&self, tunables: &Tunables) -> u64 {
        tunables.stream_threshold * self.there
    }

    fn get(&mut self, id: StreamId) -> Option<&mut VirtualStream> {
        self.streams.get_mut(id as usize)
    }

    fn physical(&mut self, id: StreamId, member: Member) -> Option<&mut PhysicalStream> {
        self.get(id).map(|stream| &mut stream.physical[member.index()])
    }

    /// The ends of the latest requests: of the physical stream on that member, and of the virtual stream.
    pub(super) fn ends(&self, id: StreamId, member: Member) -> (Sector, Sector) {
        let stream = self.streams.get(id as usize);
        stream.map_or_else(Default::default, |stream| {
            (stream.physical[member.index()].position, stream.position)
        })
    }

    /// A request arrived at the array; returns its stream.
    pub(super) fn arrived(&mut self, judge: &Joining<'_>, request: &ArrayRequest) -> StreamId {
        let parent = self.parent_of(judge, request.start);
        let Some(id) = parent.or_else(|| self.begin()) else { return NO_STREAM };
        let threshold = self.threshold(judge.tunables);
        let stream = &mut self.streams[id as usize];
        if stream.unfinished == 0 && parent.is_some() {
            let waited = judge.now.since(stream.quiet_since);
            stream.thought += waited;
            if waited > stream.budget {
                // Its second chance: it must grow from the threshold again before it gets another one.
                stream.length = stream.length.min(threshold);
            }
        }
        stream.unfinished += 1;
        stream.length += u64::from(request.parts);
        stream.position = request.start + request.sectors;
        id
    }

    /// The stream whose child a request at `start` is: the nearest for which the inequality holds. Removes streams that have
    /// missed their deadlines.
    fn parent_of(&mut self, judge: &Joining<'_>, start: Sector) -> Option<StreamId> {
        let (latest, threshold) = (self.latest_budgets.1, self.threshold(judge.tunables));
        let mut nearest: Option<(Span, StreamId)> = None;
        for (id, stream) in self.streams.iter_mut().enumerate().filter(|(_, stream)| stream.in_use) {
            if stream.budget == Span::ZERO {
                stream.budget = latest;
            }
            let waited = stream.waited(judge.now);
            let budget = stream.patience(judge.tunables, threshold);
            if waited.is_some_and(|waited| waited >= budget) && judge.served != Some(id as StreamId) {
                stream.in_use = false;
                self.free.push(id as StreamId);
                continue;
            }
            if stream.is_out_of_reach(judge, budget, start) {
                continue;
            }
            let parent = Parent { position: stream.position, waited, budget };
            if let Some(service) = judge.satisfies(parent, start)
                && nearest.is_none_or(|(least, _)| service < least)
            {
                nearest = Some((service, id as StreamId));
            }
        }
        nearest.map(|(_, id)| id)
    }

    fn begin(&mut self) -> Option<StreamId> {
        let id = match self.free.pop() {
            Some(id) => id,
            None if self.streams.len() < STREAMS_MAX => {
                let physical = vec![PhysicalStream::default(); self.present.len()];
                self.streams.push(VirtualStream { physical, ..VirtualStream::default() });
                self.streams.len() as StreamId - 1
            }
            None => return None,
        };
        self.streams[id as usize].begin_anew();
        Some(id)
    }

    /// A part of the stream's latest request was queued at a member: the child of the previous part there, or the first of a
    /// new physical stream. Its optimistic arrival is read from the think clock.
    pub(super) fn inserted(&mut self, judge: &Joining<'_>, id: StreamId, member: Member, request: &Request) {
        let latest = self.latest_budgets.0;
        let Some(stream) = self.get(id) else { return };
        let clock = stream.think_clock(judge.now);
        let physical = &mut stream.physical[member.index()];
        if physical.budget == Span::ZERO {
            physical.budget = latest;
        }
        let waited = (physical.unfinished == 0).then(|| clock.saturating_sub(physical.completed));
        let parent = Parent { position: physical.position, waited, budget: physical.budget };
        let is_child = physical.length > 0 && judge.satisfies(parent, request.start).is_some();
        physical.length = if is_child { physical.length + 1 } else { 1 };
        physical.position = request.end();
        physical.unfinished += 1;
        physical.queued.push_back(request.id);
    }

    /// A queued request of the stream grew.
    pub(super) fn grown(&mut self, id: StreamId, member: Member, request: &Request) {
        if let Some(physical) = self.physical(id, member) {
            physical.position = physical.position.max(request.end());
        }
    }

    /// A request of the stream left the member's queue.
    pub(super) fn left_queue(&mut self, id: StreamId, member: Member, request: RequestId) {
        if let Some(physical) = self.physical(id, member) {
            physical.queued.retain(|&queued| queued != request);
        }
    }

    /// A request of the stream left the member's queue and device.
    pub(super) fn left_member(&mut self, id: StreamId, member: Member) {
        if let Some(physical) = self.physical(id, member) {
            physical.unfinished -= 1;
        }
    }

    /// A part completed, with these service times of the selected pending request, if one is pending there: by the members'
    /// addresses and by the array's.
    pub(super) fn part_completed(
        &mut self,
        now: Time,
        id: StreamId,
        member: Member,
        budgets: Option<(Span, Span)>,
    ) {
        if let Some(budgets) = budgets {
            self.latest_budgets = budgets;
        }
        let Some(stream) = self.get(id) else { return };
        let clock = stream.think_clock(now);
        let physical = &mut stream.physical[member.index()];
        physical.completed = clock;
        if let Some((on_member, on_array)) = budgets {
            (physical.budget, stream.budget) = (on_member, on_array);
        }
    }

    /// An array request of the stream completed.
    pub(super) fn completed(&mut self, now: Time, id: StreamId) {
        let Some(stream) = self.get(id) else { return };
        stream.unfinished -= 1;
        if stream.unfinished == 0 {
            stream.quiet_since = now;
        }
    }

    /// Its requests in a member's queue, oldest first.
    pub(super) fn queued(&self, id: StreamId, member: Member) -> impl Iterator<Item = &RequestId> + Clone {
        let stream = self.streams.get(id as usize);
        stream.into_iter().flat_map(move |stream| &stream.physical[member.index()].queued)
    }

    /// Whether it is established, usable, and has an established physical stream on every working member.
    pub(super) fn is_ready(&self, now: Time, id: StreamId, tunables: &Tunables) -> bool {
        let is_established = |(physical, &there): (&PhysicalStream, &bool)| {
            physical.length >= tunables.stream_threshold || !there
        };
        self.streams.get(id as usize).is_some_and(|stream| {
            stream.in_use
                && stream.unusable_until.is_none_or(|until| until <= now)
                && stream.length >= self.threshold(tunables)
                && stream.physical.iter().zip(&self.present).all(is_established)
        })
    }

    /// The ready stream other than `beside` that was not served for longest, of those with a queued request.
    pub(super) fn longest_unserved(
        &self,
        beside: StreamId,
        is_ready: impl Fn(StreamId) -> bool,
    ) -> Option<StreamId> {
        let is_queued = |id: StreamId| {
            self.streams[id as usize].physical.iter().any(|physical| !physical.queued.is_empty())
        };
        let ready =
            (0..self.streams.len() as StreamId).filter(|&id| id != beside && is_ready(id) && is_queued(id));
        ready.min_by_key(|&id| self.streams[id as usize].served)
    }

    /// The stream was served.
    pub(super) fn served(&mut self, id: StreamId) {
        self.services += 1;
        let services = self.services;
        if let Some(stream) = self.get(id) {
            stream.served = services;
        }
    }

    /// A physical stream of it broke in service: it is unusable for a time that doubles from break to break, or for good.
    pub(super) fn broke(&mut self, now: Time, id: StreamId, tunables: &Tunables) {
        let Some(stream) = self.get(id) else { return };
        let slices = tunables.retry_slices << stream.breaks.min(DOUBLINGS);
        stream.breaks += 1;
        stream.unusable_until =
            Some(if slices == 0 { Time::MAX } else { now + tunables.stream_time_slice * slices });
    }

    /// When it has had no unfinished request for `patience`; `None` while it has one.
    pub(super) fn quiet_until(&self, id: StreamId, patience: Span) -> Option<Time> {
        let stream = self.streams.get(id as usize)?;
        (stream.unfinished == 0).then(|| stream.quiet_since + patience)
    }

    /// The work of its services since they were judged last.
    pub(super) fn work(&mut self, id: StreamId) -> Option<&mut Account> {
        self.get(id).map(|stream| &mut stream.work)
    }

    /// Whether its latest services have paid.
    pub(super) fn has_paid(&self, id: StreamId) -> bool {
        self.streams.get(id as usize).is_some_and(|stream| stream.has_paid)
    }

    /// Its services have paid, or not, which counts as a break.
    pub(super) fn judged(&mut self, now: Time, id: StreamId, pays: bool, tunables: &Tunables) {
        let Some(stream) = self.get(id) else { return };
        stream.has_paid = pays;
        if !pays && stream.unusable_until.is_none_or(|until| until <= now) {
            self.broke(now, id, tunables);
        }
    }

    /// It was served for a whole slice.
    pub(super) fn served_without_break(&mut self, now: Time, id: StreamId) {
        if let Some(stream) = self.get(id)
            && stream.unusable_until.is_none_or(|until| until <= now)
        {
            stream.breaks = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_takes_less_time_than_the_selected_request_with_the_wait() {
        let tunables = Tunables { early_child: 50, ..Tunables::default() };
        let service_times = ServiceCurve::default();
        let judge =
            Joining { now: Time::ZERO, tunables: &tunables, service_times: &service_times, served: None };
        let (position, start) = (Sector(0), Sector(1_000_000));
        let service = service_times.service_time(position, start, tunables.backward_penalty);
        let (ns, waited) = (Span::from_nanos(1), Span::from_millis(3));
        for (waited, budget, is_child) in [
            (Some(waited), waited + service, false),
            (Some(waited), waited + service + ns, true),
            (Some(waited), waited - ns, false),
            (None, service * 2, false),
            (None, service * 2 + ns * 2, true),
        ] {
            let found = judge.satisfies(Parent { position, waited, budget }, start);
            assert_eq!(found, is_child.then_some(service), "{waited:?}, {budget}");
        }
    }

    #[test]
    fn a_program_does_not_think_while_it_waits_for_a_request() {
        let ms = Span::from_millis;
        for (unfinished, clock) in [(1, 5), (0, 15)] {
            let stream = VirtualStream { unfinished, thought: ms(5), ..VirtualStream::default() };
            assert_eq!(stream.think_clock(Time::ZERO + ms(10)), ms(clock));
        }
    }

    /// The requests of a failed member end there; those of an earlier stream are none of the next one's.
    #[test]
    fn a_stream_has_no_requests_on_a_member_that_failed_or_from_an_earlier_stream() {
        for fails in [true, false] {
            let tunables = Tunables { stream_threshold: 1, ..Tunables::default() };
            let service_times = ServiceCurve::default();
            let judge =
                |now| Joining { now, tunables: &tunables, service_times: &service_times, served: None };
            let request = |n| ArrayRequest {
                id: elevator::array::ArrayRequestId(n),
                op: elevator::Op::Read,
                start: Sector(u64::from(n) * 1_000_000_000),
                sectors: elevator::Sectors(8),
                parts: 1,
            };
            let mut streams = VirtualStreams::new(1);
            let now = Time::ZERO;
            let id = streams.arrived(&judge(now), &request(0));
            streams.inserted(&judge(now), id, Member(0), &crate::testing::request(0, 8));
            assert!(streams.is_ready(now, id, &tunables));
            if fails {
                streams.lose(Member(0));
                streams.regain(Member(0));
            } else {
                streams.completed(now, id);
                let later = now + Span::from_secs(10);
                assert_eq!(streams.arrived(&judge(later), &request(1)), id, "its entry is used again");
            }
            assert_eq!(streams.queued(id, Member(0)).count(), 0);
            assert_eq!(streams.ends(id, Member(0)).0, Sector(0));
            assert!(!streams.is_ready(now, id, &tunables), "no request has arrived there");
        }
    }

    #[test]
    fn the_threshold_counts_members_that_work() {
        let mut streams = VirtualStreams::new(3);
        let tunables = Tunables { stream_threshold: 4, ..Tunables::default() };
        let threshold = |streams: &VirtualStreams| streams.threshold(&tunables);
        streams.regain(Member(0));
        assert_eq!(threshold(&streams), 12, "it was not lost");
        (0..2).for_each(|_| streams.lose(Member(1)));
        assert_eq!(threshold(&streams), 8);
        (0..2).for_each(|_| streams.regain(Member(1)));
        assert_eq!(threshold(&streams), 12);
    }
}
