//! Stream scheduling: makes any work-conserving policy wait for requests that are worth waiting for, without process
//! information.
//!
//! # Idea
//! A program that reads block after block issues its next read when the last one has completed. At that moment none of its requests is
//! queued, so a *work-conserving* scheduler moves the head to a request of another program. Example: two programs read files 200 GB
//! apart. A move takes 12 ms; the next read of the same program would arrive after 0.1 ms and take 0.1 ms. Without waiting, the
//! disk serves one request in 12 ms. If it waits 0.1 ms for each request, it serves sixty in that time. So the question at each completion is whether to
//! wait for a request that has not arrived.
//!
//! A decision to wait is *judicious* if a future request R arrives for which
//! `wait time(R) + service time(R) < service time(selected pending request)`. The *selected pending request* is the candidate of the
//! wrapped policy, or, with `pending_in_device` (the default), a request of another stream in the device if that is nearer. Service
//! times are a function of distance, from the host's `Environment`. The framework does not predict arrivals from histories; it
//! observes whether such a request arrived. A request's *child* is the first arrival after its completion that satisfies the
//! inequality. Parents and children form a *stream*. A stream of `stream_threshold` requests is *established*: its next child is
//! expected too, and the disk waits for it. The disk serves one stream for `stream_time_slice`, and then dispatches a pending request.
//!
//! # State
//! The framework stores the length of each stream and the end of its latest request. Streams whose latest request may still get a child are in the
//! *parent-to-be queue*, sorted by *deadline*: completion time + service time(selected pending request), after which no arrival can
//! satisfy the inequality. An arrival extends a stream even if the disk did not wait for it (`forming.rs`).
//!
//! # Order of decisions
//! `next` first sets the deadlines of the streams whose latest requests have completed (`decide` in `selected_pending.rs`, `expect_child` in `forming.rs`). Then it selects:
//!
//! 1. The wrapped policy's candidate, if it is *urgent* (expired): dedicated service is suspended (`suspend_service`). On a member
//!    of an array, if there is no such candidate:
//!    - the array's own requests that the coordinator admits (`pass`). If the device delays one of them by more than a positioning time,
//!      nothing else is dispatched until it completes;
//!    - the request that the coordinator marked urgent (`urgent`), as soon as the device has no request of another stream.
//! 2. If the wrapped policy has no candidate although requests are queued (mq-deadline, for example, keeps a lower class back while
//!    a higher one is in the device): wait for a completion.
//! 3. If an urgent request has moved the head away from the served stream, and that stream has no request: serve the stream at the
//!    head's new position instead (`follow_the_head`).
//! 4. While a stream is served and its slice is not over: its next child, if it has arrived. Otherwise a request of another stream
//!    that arrived while the disk waited, if it satisfies the inequality for the served stream's latest request (*close enough*)
//!    (`dedicated`).
//! 5. While a stream is served and no child has arrived: wait until the deadline or the end of the slice, whichever is earlier
//!    (`wait_for_child`). The disk does not wait after a write (`wait_after_writes`).
//!    - A stream without a child by the deadline is aborted, unless it is longer than `stream_threshold` by more than
//!      `tolerance_factor` per cent (with the defaults: has more than 6 requests).
//!    - Such a stream gets a *second chance* to be extended, for which the disk does not wait.
//! 6. The candidate. If it continues an established stream, that stream is served from now on (`send_selected`).
//!
//! # Where it differs from the source
//! The paper's text is silent on these points (its pseudo code was not available), so the choices are ours:
//! - *Second deadline*: after another `second_chance` per cent of the time from completion to the first deadline. The disk does not wait for it (in the paper the disk
//!   stays idle for at most one service time). The stream can only be extended until then, and must grow from
//!   `stream_threshold` again before it gets another chance.
//! - *Nothing pending*: the text gives no bound. The disk idles at no cost; arrivals are compared with the service time of the
//!   last selected pending request, until a request is pending again.
//! - *Nothing pending on a member of an array* (`late_child`): if the coordinator directs the disk to serve a stream, the stream
//!   accepts a child however late it is, if it is within `early_child` (below). The stream's wait time begins when a request is
//!   pending. Otherwise the stream would break on a member that has idled at no cost, and then end on all members.
//! - *Several parents* for one arrival: the nearest.
//! - *Requests that do not wait for their parent* (several outstanding): a request in the device can have children too. Their wait
//!   time is zero, which would make the inequality too easy, so they must be within `early_child` of the selected pending
//!   request's service time.
//! - *Several children* of one parent: the first extends the stream, and so does any other within `early_child`. Others that
//!   satisfy the inequality begin *branches*, streams as long as their parent's. If readers of nearby files wait for each
//!   other and then each issue a request, each of these requests continues an established stream.
//! - *Writes* form streams, and a queued child of a write is dispatched, but the disk does not wait for the child of a
//!   write (`wait_after_writes`). The gain would be small: a write into the drive's cache costs no seek, and after a write to the
//!   medium the next sector has just passed. The loss would be large: each commit of a database ends with a write to the
//!   journal, which continues with the next commit, so the next commit's first write would be delayed until the stream broke.
//!   The members of an array wait as the coordinator directs.
//! - *Children that arrive when their slice is over* are not dispatched until a request of another stream was dispatched. Otherwise a policy
//!   in sector order would select the stream whose time is over.
//! - *Requests of the lowest priority* (the idle class, and level 7 of the other classes) form no streams: a scrub in order would get
//!   whole slices, and other requests would wait for them.
//! - *Devices that queue* (depth > 1). While a stream is served, no request of another stream is dispatched, except an urgent
//!   or close enough one.
//!   - With `pending_in_device` on (our rule, the default), requests in the device count as pending, and the nearest of them can be
//!     the selected one. A parent's time begins at its actual completion. The head then stays with the stream at any depth.
//!   - With `pending_in_device` off (the paper's tail rule), the request dispatched last counts as completed, and its time starts at
//!     once. If the device can hold everything that waits, nothing is ever pending under that rule, and no stream begins.
//!
//! # Not for
//! Devices without a head. Fairness and priority classes are left to the wrapped policy, and a stream's slice can delay them: a
//! higher class that is not urgent waits until the slice is over. A request's wait in the queue has no bound if the wrapped policy
//! has none, and on members that an array's coordinator directs.
//!
//! # Sources
//! Xu and Jiang, "A Scheduling Framework That Makes Any Disk Schedulers Non-Work-Conserving Solely Based on Request
//! Characteristics", FAST 2011, section 2 (design) and section 3 (evaluation).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use elevator::array::{ArrayMember, Directive, Report};
use elevator::service_time::ServiceCurve;
use elevator::split::Split;
use elevator::{
    Admission, Candidate, Capabilities, Decision, Direction, Growth, Hold, HoldReason, Inspection, Item,
    Load, Outcome, Process, Reason, Request, RequestId, Scheduler, Sector, Side, Span, Time, Tunable,
    TuneError, Tuning, Value, View, Wake, tunables, tuned_by_itself,
};

use crate::listing::{BoxedWorkConserving, Listing, Make};
use crate::parts::directives::Directives;
use crate::parts::fifo::{Fifo, Links};
use crate::parts::per_request::PerRequest;

pub(crate) mod directed;
#[cfg(test)]
mod directed_tests;
mod forming;
mod inspection;
mod selected_pending;
#[cfg(test)]
mod tests;

tunables! {
    /// Tunables. Names and defaults are the paper's, except that the paper has no name for `backward_penalty`.
    /// `second_chance`, `early_child`, `wait_after_writes`, `pending_in_device`, `directed` and `late_child` are ours.
    pub struct Tunables {
        /// Length from which a stream is established. Higher: fewer vain waits, a later start.
        stream_threshold: Count = 4, 1, 1_000_000;
        /// By how much a stream must exceed the threshold for a second chance.
        tolerance_factor: Percent = 50, 0, 100_000;
        /// Duration of the second chance, as a share of the first. 0: no second chance.
        second_chance: Percent = 100, 0, 10_000;
        /// How long a stream is served while other requests wait. Throughput grows up to about 100 ms; beyond that only waits
        /// grow.
        stream_time_slice: Span = Span::from_millis(124), Span::ZERO, Span::from_secs(5);
        /// Cost of a distance backward, as a share of the same distance forward.
        backward_penalty: Percent = 150, 100, 10_000;
        /// How near a child must be that arrives before its parent has completed, or is not its first: its service time as a
        /// share of the selected pending request's. Higher: more requests of other readers join a stream. 0: none.
        early_child: Percent = 25, 0, 100;
        /// Whether the disk also waits for the child of a write.
        wait_after_writes: Flag = false, false, true;
        /// Whether requests in the device count as pending, and a parent's time begins when it leaves the device. Off: the
        /// paper's tail rule.
        pending_in_device: Flag = true, false, true;
        /// Whether streams are served only when an array's coordinator directs it. They form in any case.
        directed: Flag = false, false, true;
        /// On a member of an array: whether a child continues the array's slice however late it is, if nothing was pending meanwhile.
        late_child: Flag = false, false, true;
    }
}

const ABOUT: &str = "waits for the next request of a stream, whatever process issues it; around any work-conserving scheduler";

pub(crate) const LISTINGS: &[Listing] = &[Listing::new(
    "stream",
    ABOUT,
    Make::Wrapper(|environment, policy| {
        Box::new(StreamScheduling::new(policy, environment.service_times.clone()))
    }),
)
.with_source("FAST 2011, a scheduling framework that makes any disk schedulers non-work-conserving")
.with_tunables(Tunables::TABLE)];

/// The index of a stream.
type StreamId = u32;

/// The stream of a request without one.
const NO_STREAM: StreamId = u32::MAX;

/// The most streams in the parent-to-be queue: one bit of a word each. The queue "is usually very small". The limit bounds
/// the time of an arrival; the stream with the earliest deadline is dropped.
const PARENTS_MAX: usize = 64;

/// A stream whose deadline is suspended (`is_patient`) is checked again after this time at the earliest.
const LEAST_PATIENCE: Span = Span::from_millis(1);

/// A sequence of requests, each the child of the previous one.
#[derive(Clone, Default)]
struct Stream {
    /// The end of the latest request, queued or not: the expected position of its child.
    position: Sector,
    /// The latest request's serial number.
    latest: u64,
    /// The number of requests so far.
    length: u64,
    /// Its queued requests.
    queued: Fifo,
    /// The number of its requests in the device.
    in_device: u32,
    /// When a child's wait time begins; [`Time::MAX`] while the latest request is in the device.
    since: Time,
    /// service time(selected pending request).
    budget: Span,
    /// `since + budget`.
    deadline: Time,
    /// The request before the latest, which may still have other children.
    before: Parent,
    /// Whether it is in the parent-to-be queue.
    is_parent_to_be: bool,
    /// Its latest request has completed, and was not yet compared with a pending request: its deadline is open.
    is_undecided: bool,
    /// It missed its deadline once and has its second chance.
    is_second_chance: bool,
    /// Its latest request is a write.
    writes: bool,
}

/// A request that may have children for `budget` from `since` on.
#[derive(Clone, Copy, Default)]
struct Parent {
    position: Sector,
    since: Time,
    budget: Span,
}

/// An entry of the parent-to-be queue.
#[derive(Clone, Copy)]
struct ParentToBe {
    deadline: Time,
    stream: StreamId,
    /// No request that begins below `low`, or at `high` or above, satisfies the inequality, however soon it arrives. These
    /// two comparisons exclude most arrivals.
    low: u64,
    high: u64,
}

impl ParentToBe {
    const fn reaches(&self, start: Sector) -> bool {
        (self.low <= start.0) & (start.0 < self.high)
    }
}

impl Stream {
    /// Its latest request as a parent.
    fn parent(&self) -> Parent {
        Parent { position: self.position, since: self.since, budget: self.budget }
    }

    /// Whether a child arriving now would arrive before its parent has completed.
    fn is_early(&self) -> bool {
        self.since == Time::MAX
    }
}

/// The stream to which the disk is dedicated.
#[derive(Clone, Copy)]
struct Served {
    stream: StreamId,
    until: Time,
}

/// A request in the device.
#[derive(Clone, Copy)]
struct InDevice {
    id: RequestId,
    start: Sector,
    stream: StreamId,
}

/// The stream scheduling framework around a work-conserving policy.
pub struct StreamScheduling {
    policy: BoxedWorkConserving,
    tunables: Tunables,
    /// The framework's tunables, then those of the policy whose names are not taken.
    table: Vec<Tunable>,
    service_times: ServiceCurve,
    streams: Vec<Stream>,
    free: Vec<StreamId>,
    /// The parent-to-be queue, earliest deadline first.
    parents_to_be: Vec<ParentToBe>,
    stream_of: PerRequest<StreamId>,
    links: Links,
    served: Option<Served>,
    /// The stream of the request dispatched last: the position of the head.
    tail: StreamId,
    /// The streams with `is_undecided`.
    undecided: Vec<StreamId>,
    /// Requests in the device.
    in_device: Vec<InDevice>,
    /// The number of queued requests, including those that stand back.
    queued: usize,
    /// Queued children that were not yet inserted into the policy, because their stream's slice is over.
    stood_back: Vec<RequestId>,
    /// A request of another stream that arrived while the disk waited and satisfies the inequality.
    close_enough: Option<RequestId>,
    /// service time(selected pending request) of the latest decision that had one.
    latest_budget: Span,
    /// Why dedicated service has ended; the next dispatch states it.
    ended: Option<Reason>,
    /// The directives of an array's coordinator.
    directives: Directives<StreamId>,
    /// The number of streams for which memory is reserved.
    prepared: usize,
    /// An array's coordinator sets the slices.
    is_member: bool,
}

impl StreamScheduling {
    /// The framework around `policy`, with nothing queued.
    #[must_use]
    pub fn new(policy: BoxedWorkConserving, service_times: ServiceCurve) -> Self {
        let tunables = Tunables::default();
        let of_policy = policy.tunables().iter().filter(|tunable| tunables.get(tunable.name).is_none());
        let table = Tunables::TABLE.iter().chain(of_policy).copied().collect();
        Self {
            policy,
            tunables,
            table,
            service_times,
            streams: Vec::new(),
            free: Vec::new(),
            parents_to_be: Vec::with_capacity(PARENTS_MAX + 1),
            stream_of: PerRequest::new(),
            links: Links::new(),
            served: None,
            tail: NO_STREAM,
            undecided: Vec::new(),
            in_device: Vec::new(),
            queued: 0,
            stood_back: Vec::new(),
            close_enough: None,
            latest_budget: Span::ZERO,
            ended: None,
            directives: Directives::default(),
            prepared: 0,
            is_member: false,
        }
    }

    /// The framework on a member of an array, whose coordinator directs it.
    #[must_use]
    pub fn member(policy: BoxedWorkConserving, service_times: ServiceCurve) -> Self {
        Self { is_member: true, ..Self::new(policy, service_times) }
    }

    /// Reserves memory for the most streams possible: each has a request, or is in the parent-to-be queue.
    fn prepare(&mut self) {
        let most = self.queued + self.in_device.len() + PARENTS_MAX + 1;
        if most > self.prepared {
            self.prepared = most.next_power_of_two();
            self.streams.reserve(self.prepared - self.streams.len());
            self.free.reserve(self.prepared - self.free.len());
            self.undecided.reserve(self.prepared - self.undecided.len());
            self.stood_back.reserve(self.prepared - self.stood_back.len());
            self.in_device.reserve(self.prepared - self.in_device.len());
        }
    }

    fn stream(&self, id: StreamId) -> &Stream {
        &self.streams[id as usize]
    }

    fn stream_mut(&mut self, id: StreamId) -> &mut Stream {
        &mut self.streams[id as usize]
    }

    fn is_established(&self, id: StreamId) -> bool {
        id != NO_STREAM && self.stream(id).length >= self.tunables.stream_threshold
    }

    /// The paper's `calculate_service_time(disk_pos, req_pos)`.
    fn service_time(&self, disk: Sector, request: Sector) -> Span {
        self.service_times.service_time(disk, request, self.tunables.backward_penalty)
    }

    // Serving streams

    fn end_service_of(&mut self, id: StreamId, reason: Reason) {
        if self.served.is_some_and(|served| served.stream == id) {
            self.served = None;
            self.ended = Some(reason);
        }
    }

    /// If an urgent request moved the head away from the served stream, and that stream has no request to return to, the disk
    /// stays at the new position.
    fn follow_the_head(&mut self, now: Time) {
        let Some(Served { stream, .. }) = self.served else { return };
        let is_adopted = self.directives.slice_of(stream).is_some();
        if stream != self.tail && !is_adopted && self.has_no_request(stream) {
            self.served = None;
            if self.may_be_served(self.tail) {
                self.serve(now, self.tail);
            }
        }
    }

    /// Dispatches an urgent request at once; the served stream keeps the rest of its slice.
    fn suspend_service(&mut self, now: Time, view: &View<'_>, urgent: Candidate) -> Decision {
        let suspended = self.served.filter(|served| now < served.until);
        let decision = self.dispatch(now, view, urgent.id, urgent.reason);
        self.served = suspended.or(self.served);
        decision
    }

    fn serve(&mut self, now: Time, stream: StreamId) {
        let until = self.directives.slice_of(stream).unwrap_or(now + self.tunables.stream_time_slice);
        self.served = Some(Served { stream, until });
    }

    /// Whether the disk may be dedicated to the stream: it is established, and adopted if an array's coordinator decides.
    fn may_be_served(&self, id: StreamId) -> bool {
        self.is_established(id)
            && !self.directives.is_off
            && (!self.tunables.directed || self.directives.slice_of(id).is_some())
    }

    /// The decision of dedicated service, if a stream is served and its slice is not over.
    fn dedicated(&mut self, now: Time, view: &View<'_>) -> Option<Decision> {
        let Served { stream, until } = self.served?;
        if now >= until {
            self.ended = Some(Reason::StreamSliceOver);
            self.directives.slice_over(stream);
            return None;
        }
        if let Some(child) = self.stream(stream).queued.front() {
            return Some(self.dispatch(now, view, child, Reason::Child));
        }
        if let Some(close) = self.close_enough.take() {
            return Some(self.dispatch(now, view, close, Reason::CloseEnough));
        }
        let wait = self.wait_for_child(stream, until);
        if wait.is_none() {
            self.end_service_of(stream, Reason::StreamBroken);
        }
        wait
    }

    /// Waits, if the stream's next request may still arrive in time and is worth it.
    fn wait_for_child(&self, id: StreamId, slice_end: Time) -> Option<Decision> {
        let stream = self.stream(id);
        let is_worth_it = !stream.is_second_chance && (!stream.writes || self.tunables.wait_after_writes);
        let is_directed = self.directives.slice_of(id).is_some();
        if !stream.is_parent_to_be || !(is_worth_it || is_directed) {
            return None;
        }
        let until = Some(stream.deadline.min(slice_end));
        let wake = if stream.deadline == Time::MAX { Wake::Completion } else { Wake::Timer };
        Some(Decision::Hold(Hold { until, wake, reason: HoldReason::AwaitChild }))
    }

    /// Dispatches the policy's candidate, because no stream is in service.
    fn send_selected(&mut self, now: Time, view: &View<'_>, candidate: Option<Candidate>) -> Decision {
        if let Some(Candidate { id, reason, .. }) = candidate {
            let own = self.served.is_some_and(|served| served.stream == self.stream_of[id]);
            let reason = if own { reason } else { self.ended.take().unwrap_or(reason) };
            return self.dispatch(now, view, id, reason);
        }
        // Only requests that stand back are queued. Those for which they stood back were dispatched or absorbed.
        self.served = None;
        self.step_forward(now, view);
        let candidate = self.policy.candidate(now, view);
        candidate.map_or(Decision::Hold(Hold::CLASS_WAITS), |c| self.dispatch(now, view, c.id, c.reason))
    }

    /// Inserts the requests that stood back into the policy.
    fn step_forward(&mut self, now: Time, view: &View<'_>) {
        for id in self.stood_back.drain(..) {
            self.policy.insert(now, &view.requests[id]);
        }
    }

    /// Whether a request of `stream` that arrives now must wait until another stream's request was dispatched.
    fn must_stand_back(&self, now: Time, stream: StreamId) -> bool {
        let over = self.served.is_some_and(|served| served.stream == stream && now >= served.until);
        over && self.queued > self.stream(stream).queued.len()
    }

    fn dispatch(&mut self, now: Time, view: &View<'_>, id: RequestId, reason: Reason) -> Decision {
        let request = &view.requests[id];
        self.queued -= 1;
        self.policy.take(now, request);
        let stream = self.leave_queue(request);
        if self.directives.dispatched(now, id, stream) {
            self.adopt(now, stream, id);
        }
        if self.served.is_none_or(|served| served.stream != stream) {
            self.step_forward(now, view);
        }
        self.turn_to(now, stream, reason == Reason::CloseEnough);
        self.in_device.push(InDevice { id, start: request.start, stream });
        self.expect_children_of_dispatched(now, view, request, stream);
        Decision::Dispatch { id, reason }
    }

    /// Removes the request from all lists. A request without a parent begins a stream.
    fn leave_queue(&mut self, request: &Request) -> StreamId {
        let mut id = self.stream_of[request.id];
        if id == NO_STREAM {
            id = self.begin(request);
        } else {
            self.links.remove(&mut self.streams[id as usize].queued, request.id);
        }
        let stream = self.stream_mut(id);
        stream.in_device += 1;
        if stream.latest == request.serial {
            stream.position = request.end();
        }
        id
    }

    /// The head moves to `stream`: determines the stream that is served from now on. A stream that is close enough continues
    /// the slice.
    fn turn_to(&mut self, now: Time, stream: StreamId, is_close_enough: bool) {
        self.tail = stream;
        self.close_enough = None;
        match self.served {
            Some(served) if served.stream == stream => {}
            Some(served) if is_close_enough && self.directives.slice_of(served.stream).is_some() => {}
            Some(served) if is_close_enough && self.is_established(stream) => {
                self.served = Some(Served { stream, ..served });
            }
            _ if self.may_be_served(stream) => self.serve(now, stream),
            _ => self.served = None,
        }
    }

    /// The device finished a request of the stream. When none is left there, the wait time of its child begins.
    fn leave_device(&mut self, now: Time, id: StreamId) {
        let stream = self.stream_mut(id);
        stream.in_device -= 1;
        if stream.in_device > 0 {
            return;
        }
        if stream.since == Time::MAX {
            stream.since = now;
            stream.is_undecided = true;
            self.undecided.push(id);
        } else {
            self.abort_if_over(id);
        }
    }

    /// The absorbed request's place in its stream goes to the absorbing request, unless that has one already.
    fn inherit(&mut self, request: &Request, absorbed: &Request) {
        let id = mem::replace(&mut self.stream_of[absorbed.id], NO_STREAM);
        if id == NO_STREAM {
            return;
        }
        self.links.remove(&mut self.streams[id as usize].queued, absorbed.id);
        if self.stream_of[request.id] == NO_STREAM {
            self.stream_of[request.id] = id;
            let stream = &mut self.streams[id as usize];
            self.links.push_back(&mut stream.queued, request.id);
            if stream.latest == absorbed.serial {
                stream.latest = request.serial;
            }
        } else {
            self.abort_if_over(id);
        }
    }

    /// Reports growth to the policy. Requests that stand back are not known to the policy.
    fn forward_growth(&mut self, now: Time, request: &Request, mut growth: Growth<'_>) {
        if let Some(absorbed) = growth.absorbed
            && self.forget_stood_back(absorbed.id)
        {
            growth.absorbed = None;
        }
        if self.stood_back.contains(&request.id) {
            if growth.absorbed.is_none() {
                return;
            }
            self.forget_stood_back(request.id);
            let before = Request { start: growth.was_start, sectors: growth.was_sectors, ..*request };
            self.policy.insert(now, &before);
        }
        self.policy.merged(now, request, growth);
    }

    fn forget_stood_back(&mut self, id: RequestId) -> bool {
        let place = self.stood_back.iter().position(|&other| other == id);
        place.map(|place| self.stood_back.remove(place)).is_some()
    }
}

impl Scheduler for StreamScheduling {
    fn insert(&mut self, now: Time, request: &Request) {
        self.pass_deadlines(now);
        self.queued += 1;
        self.prepare();
        self.stream_of.set(request.id, NO_STREAM);
        let joined = self.join(now, request);
        if let Some(stream) = joined
            && self.must_stand_back(now, stream)
        {
            self.stood_back.push(request.id);
            return;
        }
        if let Some(Served { stream, .. }) = self.served
            && joined != Some(stream)
            && self.close_enough.is_none()
            && self.stream(stream).since <= now
            && self.continues(now, stream, request).is_some()
        {
            self.close_enough = Some(request.id);
        }
        self.policy.insert(now, request);
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        if let Some(absorbed) = growth.absorbed {
            self.queued -= 1;
            self.inherit(request, absorbed);
            if self.close_enough == Some(absorbed.id) {
                self.close_enough = Some(request.id);
            }
            self.directives.absorbed(absorbed.id, request.id);
        }
        let id = self.stream_of[request.id];
        if id != NO_STREAM && self.stream(id).latest == request.serial {
            self.stream_mut(id).position = request.end();
            self.move_reach(id);
        }
        self.forward_growth(now, request, growth);
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        let candidate = self.policy.candidate(now, view);
        self.decide(now, candidate.map(|candidate| &view.requests[candidate.id]));
        self.pass_deadlines(now);
        if self.queued == 0 {
            return Decision::Idle;
        }
        if let Some(urgent) = candidate.filter(|candidate| candidate.urgent) {
            return self.suspend_service(now, view, urgent);
        }
        if let Some(passing) = self.pass(now, view) {
            return passing;
        }
        if let Some(urgent) = self.urgent(now, view) {
            return urgent;
        }
        if candidate.is_none() && self.stood_back.len() < self.queued {
            return Decision::Hold(Hold::CLASS_WAITS);
        }
        self.follow_the_head(now);
        self.dedicated(now, view).unwrap_or_else(|| self.send_selected(now, view, candidate))
    }

    fn completed(&mut self, now: Time, request: &Request, outcome: Outcome) {
        self.policy.completed(now, request, outcome);
        self.pass_deadlines(now);
        self.directives.completed(now, request.id, self.service_times.longest());
        if let Some(place) = self.in_device.iter().position(|other| other.id == request.id) {
            let InDevice { stream, .. } = self.in_device.swap_remove(place);
            self.leave_device(now, stream);
        }
    }

    fn may_queue(&self, now: Time, process: Option<Process>, direction: Direction, sync: bool) -> Admission {
        self.policy.may_queue(now, process, direction, sync)
    }

    fn ignores_processes(&self) -> bool {
        self.policy.ignores_processes()
    }

    fn may_merge(&self, request: &Request, addition: &Request, side: Side) -> bool {
        self.policy.may_merge(request, addition, side)
    }

    /// `turn` bounds the time between two dispatches of the wrapped policy: the service of its request, a slice, in which only children
    /// of the served stream are dispatched, and the service of the requests that the device then has. The result is the wrapped
    /// policy's bound for such service times, plus `turn` for each request: a child that stands back first waits until the policy
    /// has dispatched its requests of the same stream. A member that an array's coordinator directs has no bound, because the
    /// coordinator sets the slices.
    fn longest_wait(&self, load: Load) -> Option<Span> {
        let in_device = u64::from(load.depth.min(load.requests));
        let turn = load.service * (1 + in_device) + self.tunables.stream_time_slice;
        let bound = self.policy.longest_wait(Load { service: turn, ..load })?;
        (!self.is_member && !self.tunables.directed).then_some(bound + turn * u64::from(load.requests))
    }
}

impl Capabilities for StreamScheduling {
    tuned_by_itself!();

    fn split(&mut self) -> Option<&mut dyn Split> {
        self.policy.split()
    }

    fn inspection(&self) -> Option<&dyn Inspection> {
        Some(self)
    }

    fn array_member(&mut self) -> Option<&mut dyn ArrayMember> {
        Some(self)
    }
}

impl Tuning for StreamScheduling {
    fn table(&self) -> &[Tunable] {
        &self.table
    }

    fn value(&self, name: &str) -> Option<Value> {
        self.tunables.get(name).or_else(|| self.policy.tunable(name))
    }

    fn set_value(&mut self, name: &str, value: Value) -> Result<(), TuneError> {
        match self.tunables.get(name) {
            Some(_) => self.tunables.set(name, value),
            None => self.policy.tune(name, value),
        }
    }
}

impl Inspection for StreamScheduling {
    fn inspect(&self, now: Time) -> Vec<Item> {
        self.items(now)
    }
}

impl ArrayMember for StreamScheduling {
    fn selected(&mut self, now: Time, view: &View<'_>) -> Option<RequestId> {
        self.policy.candidate(now, view).map(|candidate| candidate.id)
    }

    fn directed(&mut self, now: Time, view: &View<'_>, directive: Directive) {
        self.apply(now, view, directive);
    }

    fn report(&mut self) -> Option<Report> {
        self.take_report()
    }
}
