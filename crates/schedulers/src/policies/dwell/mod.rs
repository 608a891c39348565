//! Dwell: one scheduler for disks, without process information.
//!
//! # Idea
//! A disk loses its time to seeks, and users lose theirs to requests that wait behind other programs' streams. Both are a question of
//! how long the disk stays where it is. This policy answers it with *flows*: sets of requests near each other, found from requests
//! alone, as in stream scheduling.
//! - A read that begins near the end of a recent one, and soon after it, continues that one's flow. From `stream_threshold` requests on
//!   the flow is *established* and has a queue of its own. All other synchronous requests form one flow, the *scattered* ones: commits,
//!   random reads, the start of every program.
//! - A read that arrives at once after a request of a flow has completed continues that flow also from farther away: up to twice the
//!   distance to the nearest pending request of another one. So programs that read at random, each in an area of its own, are flows.
//! - A flow is *heavy* while it has transferred more than `light_kib` of contiguous data lately, and not less than an eighth of the
//!   heaviest flow's, and otherwise *light*; beside a heavy flow, a quarter of `light_kib` is enough, so that equal flows are alike.
//!   Programs that start, look-ups and commits are light; copies, scans and backups are heavy. A flow whose requests wait does not become
//!   lighter. Long synchronous writes are heavy.
//! - The disk is dedicated to one flow at a time. It waits for the flow's next request if the wait and the move to that request are
//!   expected to take less time than the move to another flow's request. Of each flow, the policy measures the mean time from a completion
//!   to the next request, the mean move, and the share of requests that arrive in time. Beside flows of its own kind, a flow is awaited only
//!   if requests in time save more, on average, than vain waits cost. A light flow is awaited before a heavy one and before writes even if
//!   that costs throughput, unless most of its requests are late. After vain waits, the disk waits no more for the flow; a vain wait
//!   that ended with the write for which the program was waiting counts twice.
//! - A synchronous write continues a flow, too, but is queued in it only after 16 requests without a pause: the next request of a
//!   program that makes its writes durable one by one may be anywhere, so its writes stay among the scattered requests.
//! - All of this compares estimates, which measurements correct: the time of a flow's requests while the device has no others (a drive
//!   without a write cache loses a revolution on each of a sequential writer), the time of synchronous writes elsewhere (almost none on a
//!   drive with a write cache), and the time of random requests by the number that the device has.
//! - A device that queues orders requests itself: it gets scattered requests of other light flows without a wait for further ones, and
//!   all random requests of flows of one kind if that is expected to take less time for each than one flow alone.
//! - A light flow is served at once, whatever is being served, and heavy flows take turns of `stream_slice`. So a commit is never behind
//!   a stream's slice. Among flows of one kind, one that is as near as the requests of a flow is next, until the slice of the area is
//!   over; among those with long moves between their requests the nearest one, unless a request of another one has waited for longer
//!   than a sweep takes. A flow that becomes heavy keeps its slice, except from scattered requests. While heavy flows or writes wait,
//!   light flows together get `light_share` of the time.
//! - Asynchronous writes are served when nothing else is queued or expected, and otherwise for `write_slice` of estimated work every
//!   `write_period`. While synchronous requests are about, the device has few writes at a time, because a request that is in the device
//!   can no longer be overtaken. In their turn, the device has as many as the turn allows, and orders them itself. Heavy flows pause while
//!   the device has a request of a light one, because the device would serve the nearer requests of the heavy flow first.
//! - A request that has waited too long is served next, whatever the flows.
//!
//! On a device without a head none of this applies: requests are dispatched in order of arrival, synchronous ones first.
//!
//! # State
//! One index by flow and sector, a list by arrival for each flow, and a list by age for synchronous and asynchronous requests. Of each
//! flow: the expected position, mean gaps, mean step, its correction, share of hits, recent contiguous bytes. The flow that owns the disk,
//! and since when. `gains`: measured times by the number of requests in the device.
//! `credit`: time that light flows may still take from heavy ones.
//!
//! # Order of decisions
//! 1. The oldest request that has expired, if `fifo_batch` others were dispatched since the last such request. Its flow owns the disk.
//! 2. If a heavy flow or writes own the disk and a light flow has requests and credit: the light flow owns the disk. Any synchronous
//!    request ends writes whose time has not come.
//! 3. The owner's next request in sector order, until its slice is over and another flow has requests.
//! 4. If the owner has none: wait for its requests in the device, or for its next request, if that pays.
//! 5. Another owner: asynchronous writes if their time has come; a light flow, if there is credit; a heavy flow; writes. Among several,
//!    the one whose oldest request is the oldest, or, of light flows with long moves, the nearest in the direction of the head's movement.
//!
//! # Where it differs from the source
//! There is no source: the design joins the papers' ideas. From stream scheduling: streams from requests alone, and waiting only if it
//! costs less than a seek. From anticipatory scheduling: measured think times and the frequency of vain waits. From cooperative
//! scheduling: processes that take turns are one flow. From BFQ: privileges for flows with little service, and slices.
//! From Deadline: ages. From Kyber: few writes in the device.
//!
//! # Not for
//! Priorities: the idle class is served with asynchronous writes, real time as the rest. Shares by process or cgroup: two programs that
//! read near each other are one flow.
//!
//! # Sources
//! Xu and Jiang, FAST 2011 (streams); Seelam et al., OLS 2005 (cooperation); Linux 2.6.32 `block/as-iosched.c` (think times);
//! Linux 6.18 `block/bfq-iosched.c` (weight raising) and `block/mq-deadline.c` (ages).

use alloc::boxed::Box;

use elevator::service_time::ServiceCurve;
use elevator::{
    Capabilities, Decision, Growth, Hold, HoldReason, Load, Op, Outcome, PriorityClass, Reason, Request,
    RequestId, Scheduler, Sector, Span, Time, View, Wake, tunables, tuned_by,
};

use crate::listing::{Environment, Listing, Make};
use crate::parts::fifo::{Fifo, Links};
use crate::parts::per_request::PerRequest;
use crate::parts::sorted::{Key, SortedIndex};

mod choice;
mod flows;
mod gains;
#[cfg(test)]
mod tests;

use flows::{BULK, FlowId, Flows, SCATTERED, WRITES};
use gains::Gains;

tunables! {
    /// Tunables.
    pub struct Tunables {
        /// Requests near each other from which a flow has its own queue. Higher: fewer random reads are taken for a flow.
        stream_threshold: Count = 4, 1, 1_000;
        /// How long a heavy flow is served while others wait. Throughput grows up to about 100 ms; beyond that only waits grow.
        stream_slice: Span = Span::from_millis(150), Span::ZERO, Span::from_secs(5);
        /// The same between light flows, one of which is that of the scattered requests: commits wait no longer for a program that starts.
        light_slice: Span = Span::from_millis(80), Span::ZERO, Span::from_secs(5);
        /// Contiguous data of the last seconds from which a flow is heavy, in KiB.
        light_kib: Count = 4096, 0, 1_000_000_000;
        /// Share of the time that light flows may take while heavy flows or writes wait.
        light_share: Percent = 87, 1, 99;
        /// Longest wait for a flow's next request. 0: the disk never waits.
        wait_max: Span = Span::from_millis(20), Span::ZERO, Span::from_secs(1);
        /// Age from which a synchronous request is served before all others.
        sync_expire: Span = Span::from_secs(2), Span::ZERO, Span::from_secs(3_600);
        /// The same for an asynchronous one.
        async_expire: Span = Span::from_secs(5), Span::ZERO, Span::from_secs(3_600);
        /// Requests between two that are served because of their age, so that a backlog does not become a seek for each request.
        fifo_batch: Count = 16, 1, 1_000_000;
        /// How often asynchronous writes are served while there are synchronous requests.
        write_period: Span = Span::from_millis(400), Span::ZERO, Span::from_secs(60);
        /// How much of them, in estimated work of the disk.
        write_slice: Span = Span::from_millis(40), Span::ZERO, Span::from_secs(5);
        /// Estimated work of asynchronous writes in the device while there are synchronous requests.
        write_backlog: Span = Span::from_millis(15), Span::ZERO, Span::from_secs(5);
    }
}

pub(crate) const LISTINGS: &[Listing] = &[Listing {
    name: "dwell",
    version: "",
    plain: true,
    about: "waits where a seek costs more, serves short requests at once, limits writes; without process information",
    source: "Dwell's own, from the ideas of the five papers",
    split: false,
    tunables: Tunables::TABLE,
    make: Make::Scheduler(|environment| Box::new(Dwell::new(environment))),
}];

/// Cost of a distance backward, as a share of the same distance forward.
const BACKWARD_PENALTY: u64 = 150;
/// Longer synchronous writes are [`BULK`].
const SHORT_WRITE: u32 = 128;
/// Sectors of a key's order; the flow is above.
const SECTOR_BITS: u32 = 56;
/// Asynchronous requests by which their slice grows by `write_slice`.
const BACKLOG: u64 = 32;
/// Synchronous requests are about if the last one was this recent.
const RECENT: Span = Span::from_millis(200);
/// Most time that light flows can save up.
const CREDIT_MAX: i64 = 1_000_000_000;
/// The shortest time for which the disk waits, if it waits.
const WAIT_MIN: Span = Span::from_micros(500);
/// Estimated work from which a synchronous write shows whether the device has a cache for writes: it includes a move.
const AWAY: Span = Span::from_millis(2);
/// Without a head: one asynchronous request for so many synchronous ones.
const PASSING: u64 = 4;

/// What is stored of a request.
#[derive(Clone, Copy, Default)]
struct Stored {
    /// The flow in which it is queued.
    flow: FlowId,
    /// The stream that it continues.
    track: FlowId,
    /// When it expires.
    expires: Time,
    /// Estimated work, from its dispatch on.
    work: Span,
    is_async: bool,
    /// It is in the device, and its flow was light when it was dispatched.
    is_light: bool,
}

/// The flow to which the disk is dedicated.
#[derive(Clone, Copy)]
struct Owner {
    flow: FlowId,
    /// When its slice began.
    since: Time,
    /// Estimated work that its slice still allows.
    work: Span,
    /// Asynchronous writes beside synchronous requests, which cannot end the slice.
    is_turn: bool,
    /// It was light then: a flow that becomes heavy keeps its slice.
    is_light: bool,
}

/// The scheduler.
pub struct Dwell {
    tunables: Tunables,
    service_times: ServiceCurve,
    has_head: bool,
    index: SortedIndex,
    flows: Flows,
    stored: PerRequest<Stored>,
    by_flow: Links,
    by_age: Links,
    /// Synchronous and asynchronous requests by age.
    ages: [Fifo; 2],
    owner: Option<Owner>,
    /// Dispatches since the last expired request.
    since_expired: u64,
    /// Nanoseconds that light flows may still take.
    credit: i64,
    /// The credit was used up, and heavy flows have not had a slice since.
    is_exhausted: bool,
    /// Until when `credit` is up to date.
    updated: Time,
    /// When the last synchronous request arrived or completed.
    last_sync: Time,
    /// When asynchronous writes were served last, or began to wait.
    last_writes: Time,
    /// Estimated work of asynchronous writes in the device.
    writing: Span,
    /// Requests of light flows in the device.
    light_in_device: u32,
    /// The end of the request dispatched last.
    head: Sector,
    /// Since when the disk has served flows near each other.
    area: Time,
    /// The flow of the request that completed last.
    last_completed: FlowId,
    /// How much faster the device serves what it can order itself.
    gains: Gains,
}

impl Dwell {
    /// For this device, with nothing queued.
    #[must_use]
    pub fn new(environment: &Environment) -> Self {
        Self {
            tunables: Tunables::default(),
            service_times: environment.service_times.clone(),
            has_head: environment.rotational,
            index: SortedIndex::new(),
            flows: Flows::new(&environment.service_times),
            stored: PerRequest::new(),
            by_flow: Links::new(),
            by_age: Links::new(),
            ages: [Fifo::new(); 2],
            owner: None,
            since_expired: u64::MAX / 2,
            credit: CREDIT_MAX,
            is_exhausted: false,
            updated: Time::ZERO,
            last_sync: Time::ZERO,
            last_writes: Time::ZERO,
            writing: Span::ZERO,
            light_in_device: 0,
            head: Sector(0),
            area: Time::ZERO,
            last_completed: WRITES,
            gains: Gains::new(),
        }
    }

    fn key(flow: FlowId, start: Sector, serial: u64) -> Key {
        Key::by(Self::order(flow, start), serial)
    }

    const fn order(flow: FlowId, start: Sector) -> u64 {
        (flow as u64) << SECTOR_BITS | start.0 & ((1 << SECTOR_BITS) - 1)
    }

    fn is_async(request: &Request) -> bool {
        !request.is_sync() || request.priority.class == PriorityClass::Idle
    }

    // Arrivals

    /// The flow in which a request is queued, and the stream that it continues.
    fn classify(&mut self, now: Time, request: &Request) -> (FlowId, FlowId) {
        if Self::is_async(request) {
            self.flows.joins(now, request, WRITES, &self.service_times);
            return (WRITES, WRITES);
        }
        let threshold = self.tunables.stream_threshold;
        let track = self.flows.tracked(now, request, &self.service_times);
        let flow = match request.op {
            Op::Read if self.flows.get(track).is_established(threshold) => track,
            Op::Write if self.flows.get(track).is_run() => track,
            Op::Read => SCATTERED,
            _ if request.sectors.0 > SHORT_WRITE => BULK,
            _ => SCATTERED,
        };
        if track != flow {
            self.flows.joins(now, request, flow, &self.service_times);
        }
        (flow, track)
    }

    /// Removes a request, as it was with that first sector, from the queues.
    fn unqueue(&mut self, id: RequestId, start: Sector, serial: u64) {
        let Stored { flow, is_async, .. } = self.stored[id];
        if self.has_head {
            self.index.remove_key(Self::key(flow, start, serial));
        }
        self.by_flow.remove(&mut self.flows.get_mut(flow).queued, id);
        self.by_age.remove(&mut self.ages[usize::from(is_async)], id);
    }

    /// A request has left the device, or was absorbed.
    fn ended(&mut self, now: Time, id: RequestId) {
        let Stored { flow, track, .. } = self.stored[id];
        let threshold = self.tunables.stream_threshold;
        self.flows.ended(now, track, threshold);
        if flow != track {
            self.flows.ended(now, flow, threshold);
        }
    }

    // Light and heavy flows

    fn is_light(&self, now: Time, flow: FlowId) -> bool {
        match flow {
            SCATTERED => true,
            BULK | WRITES => false,
            _ => !self.flows.is_heavy(now, flow, self.tunables.light_kib << 10),
        }
    }

    /// Brings `credit` up to date.
    fn pass_time(&mut self, now: Time) {
        let passed = now.since(self.updated).as_nanos().min(10_000_000_000) as i64;
        self.updated = now;
        let share = self.tunables.light_share as i64;
        let is_light = self.owner.is_some_and(|owner| self.is_light(now, owner.flow));
        if !is_light {
            self.credit = (self.credit + passed * share / 100).min(CREDIT_MAX);
        } else if self.flows.queued().any(|flow| !self.is_light(now, flow)) {
            self.credit -= passed * (100 - share) / 100;
        }
        let slice = self.tunables.stream_slice.as_nanos() as i64 * share / 100;
        self.is_exhausted = self.credit <= if self.is_exhausted { slice.min(CREDIT_MAX - 1) } else { 0 };
    }

    /// Whether synchronous requests are queued, or were lately.
    fn is_sync_about(&self, now: Time) -> bool {
        !self.ages[0].is_empty() || now.since(self.last_sync) < RECENT && self.last_sync > Time::ZERO
    }

    // Choosing

    /// The oldest expired request, if it may be served.
    fn expired(&self, now: Time) -> Option<RequestId> {
        if self.since_expired < self.tunables.fifo_batch {
            return None;
        }
        let oldest = self.ages.iter().filter_map(Fifo::front);
        oldest.filter(|&id| self.stored[id].expires <= now).min_by_key(|&id| self.stored[id].expires)
    }

    /// When the owner's slice is over if `other` is next.
    fn end(&self, now: Time, owner: Owner, other: FlowId) -> Time {
        let Tunables { stream_slice, light_slice, .. } = self.tunables;
        let is_scattered = owner.flow == SCATTERED || other == SCATTERED;
        let slice = match owner.flow {
            WRITES => Span::from_secs(3_600),
            _ if is_scattered && self.is_light(now, owner.flow) => light_slice,
            _ => stream_slice,
        };
        // A wait ends with the slice, and a shorter slice would have the host call at every nanosecond of a long wait.
        owner.since + if slice == Span::ZERO { slice } else { slice.max(WAIT_MIN) }
    }

    fn own(&mut self, now: Time, flow: FlowId, view: &View<'_>) {
        let start = self.next_of(flow).map(|id| view.requests[id].start);
        if start.is_none_or(|start| self.head.distance(start) > self.flows.near()) {
            self.area = now;
        }
        let work = match flow {
            // More of a backlog, because seeks between many are shorter.
            WRITES => self.tunables.write_slice * (1 + self.flows.get(WRITES).queued.len() as u64 / BACKLOG),
            _ => Span::from_secs(3_600),
        };
        let is_turn = flow == WRITES && self.is_turn_of_writes(now);
        let is_light = self.is_light(now, flow);
        self.owner = Some(Owner { flow, since: now, work, is_turn, is_light });
    }

    /// The flow's next request: behind its last one, or its first.
    fn next_of(&self, flow: FlowId) -> Option<RequestId> {
        if !self.has_head {
            return self.flows.get(flow).queued.front();
        }
        let from = if flow <= WRITES { self.head } else { self.flows.get(flow).position };
        let own = |id: &RequestId| self.stored[*id].flow == flow;
        let ahead = self.index.at_or_after(Sector(Self::order(flow, from))).filter(own);
        ahead.or_else(|| self.index.at_or_after(Sector(Self::order(flow, Sector(0)))).filter(own))
    }

    /// Waits for the owner's requests in the device, or for its next request.
    fn wait(&mut self, now: Time, view: &View<'_>, owner: Owner, other: FlowId) -> Option<Decision> {
        let flow = self.flows.get(owner.flow);
        let end = self.end(now, owner, other);
        if owner.flow == WRITES || owner.flow == BULK || now >= end || !flow.is_reliable() {
            return None;
        }
        let request = &view.requests[self.next_of(other)?];
        let cost = self.time_elsewhere(request);
        // Behind a heavy flow's long requests, or writes, a light flow would wait longer than the disk does now.
        let precedes = self.is_light(now, owner.flow) && !self.is_light(now, other);
        // The flow's next request takes time, too; a light flow is awaited even if that costs throughput.
        let own = if precedes { Span::ZERO } else { self.time_alone(view, flow) };
        let limit = cost.saturating_sub(own).min(self.tunables.wait_max);
        let gap = flow.gap(precedes);
        if gap >= limit {
            return None;
        }
        // A device that queues orders scattered requests itself, and saves more by it than the disk would by a wait.
        if !precedes && owner.flow == SCATTERED && view.device.depth > 1 {
            return None;
        }
        let longest = match precedes && flow.is_steady() {
            true => limit,
            false => (gap * 3 + WAIT_MIN).min(limit.max(WAIT_MIN)),
        };
        if !precedes && !flow.pays(limit - gap, longest) {
            return None;
        }
        if flow.in_device > 0 {
            return Some(hold(None, Wake::Completion, HoldReason::AwaitCompletion));
        }
        let until = flow.idle_since + longest;
        if until <= now {
            self.flows.get_mut(owner.flow).missed();
            return None;
        }
        self.flows.get_mut(owner.flow).waits();
        Some(hold(Some(until.min(end)), Wake::Timer, HoldReason::AwaitChild))
    }

    /// Whether the device has as many asynchronous writes as it may have now.
    fn is_written_enough(&self, now: Time) -> bool {
        self.writing > Span::ZERO && self.writing >= self.tunables.write_backlog && self.is_sync_about(now)
    }

    fn dispatch(&mut self, now: Time, view: &View<'_>, id: RequestId, reason: Reason) -> Decision {
        let request = &view.requests[id];
        self.unqueue(id, request.start, request.serial);
        let work = self.service_times.service_time(self.head, request.start, BACKWARD_PENALTY)
            + self.service_times.transfer(request.sectors);
        let flow = self.stored[id].flow;
        let is_light = self.is_light(now, flow);
        self.gains.sent(now);
        self.light_in_device += u32::from(is_light);
        let stored = &mut self.stored[id];
        (stored.work, stored.is_light) = (work, is_light);
        let entry = self.flows.get_mut(flow);
        entry.in_device += 1;
        entry.position = request.end();
        self.head = request.end();
        if flow == WRITES {
            self.writing += work;
            if let Some(owner) = &mut self.owner {
                owner.work = owner.work.saturating_sub(work);
                if owner.work == Span::ZERO || self.flows.get(WRITES).queued.is_empty() {
                    self.last_writes = now;
                }
            }
        }
        self.since_expired = if reason == Reason::Expired { 0 } else { self.since_expired + 1 };
        Decision::Dispatch { id, reason }
    }

    /// Without a head: in order of arrival, synchronous requests first.
    fn next_without_head(&mut self, now: Time, view: &View<'_>) -> Decision {
        let [sync, others] = [SCATTERED, WRITES].map(|flow| self.flows.get(flow).queued.front());
        let long = self.flows.get(BULK).queued.front();
        let sync = match (sync, long) {
            (Some(a), Some(b)) => Some(if view.requests[a].serial < view.requests[b].serial { a } else { b }),
            (a, b) => a.or(b),
        };
        let reason = Reason::FirstCome;
        if let Some(expired) = self.expired(now) {
            return self.dispatch(now, view, expired, Reason::Expired);
        }
        let turn = self.since_expired.is_multiple_of(PASSING);
        match (sync, others) {
            (Some(_), Some(id)) if turn => self.dispatch(now, view, id, Reason::Starved),
            (Some(id), _) | (None, Some(id)) => self.dispatch(now, view, id, reason),
            (None, None) => Decision::Idle,
        }
    }
}

const fn hold(until: Option<Time>, wake: Wake, reason: HoldReason) -> Decision {
    Decision::Hold(Hold { until, wake, reason })
}

impl Scheduler for Dwell {
    fn insert(&mut self, now: Time, request: &Request) {
        self.pass_time(now);
        let is_async = Self::is_async(request);
        let (flow, track) = if self.has_head {
            self.flows.forget(now);
            self.classify(now, request)
        } else {
            let flow = if is_async { WRITES } else { SCATTERED };
            self.flows.joins(now, request, flow, &self.service_times);
            (flow, flow)
        };
        if is_async {
            if self.flows.get(WRITES).queued.is_empty() {
                self.last_writes = now;
            }
        } else {
            self.last_sync = now;
        }
        let Tunables { sync_expire, async_expire, .. } = self.tunables;
        let expires = now + if is_async { async_expire } else { sync_expire };
        self.stored
            .set(request.id, Stored { flow, track, expires, work: Span::ZERO, is_async, is_light: false });
        if self.has_head {
            self.index.insert_key(Self::key(flow, request.start, request.serial), request.id);
        }
        self.by_flow.push_back(&mut self.flows.get_mut(flow).queued, request.id);
        self.by_age.push_back(&mut self.ages[usize::from(is_async)], request.id);
        // The first requests of the flow were served as scattered ones; it is the flow for which the disk waits.
        let is_new = flow > WRITES && self.flows.get(flow).is_new(self.tunables.stream_threshold);
        if is_new && self.owner.is_some_and(|owner| owner.flow == SCATTERED) {
            self.area = now;
            let (work, is_light) = (Span::from_secs(3_600), self.is_light(now, flow));
            self.owner = Some(Owner { flow, since: now, work, is_turn: false, is_light });
        }
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        let Stored { flow, track, .. } = self.stored[request.id];
        if self.has_head && growth.was_start != request.start {
            self.index.remove_key(Self::key(flow, growth.was_start, request.serial));
            self.index.insert_key(Self::key(flow, request.start, request.serial), request.id);
        }
        if let Some(absorbed) = growth.absorbed {
            self.unqueue(absorbed.id, absorbed.start, absorbed.serial);
            self.ended(now, absorbed.id);
        }
        self.flows.grew(track, request);
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        if self.ages.iter().all(Fifo::is_empty) {
            self.pass_time(now);
            return Decision::Idle;
        }
        if !self.has_head {
            return self.next_without_head(now, view);
        }
        self.pass_time(now);
        if let Some(id) = self.expired(now) {
            self.own(now, self.stored[id].flow, view);
            return self.dispatch(now, view, id, Reason::Expired);
        }
        let mut reason = Reason::SliceOwner;
        let other = self.owner.and_then(|owner| self.choose(now, view, Some(owner.flow)));
        if let (Some(owner), Some(other)) = (self.owner, other)
            && self.mixes(now, view, owner.flow, other)
        {
            self.owner = Some(Owner { flow: self.next_of_all(now, view, owner.flow), ..owner });
        } else if let Some(owner) = self.owner {
            if let Some((other, why)) = other.and_then(|other| self.successor(now, owner, other)) {
                self.own(now, other, view);
                reason = why;
            } else if now >= self.end(now, owner, other.unwrap_or(owner.flow)) || owner.work == Span::ZERO {
                self.own(now, owner.flow, view);
            }
        }
        if let Some(owner) = self.owner.filter(|owner| self.flows.get(owner.flow).queued.is_empty()) {
            if let Some(wait) = other.and_then(|other| self.wait(now, view, owner, other)) {
                return wait;
            }
            self.owner = None;
        }
        if self.owner.is_none() {
            let Some(flow) = self.choose(now, view, None) else { return Decision::Idle };
            self.own(now, flow, view);
            reason = Reason::NewSlice;
        }
        let Some(Owner { flow, is_turn, .. }) = self.owner else { return Decision::Idle };
        // The device would serve the heavy flow first: its next request is nearer.
        if self.light_in_device > 0 && !self.is_light(now, flow) {
            return hold(None, Wake::Completion, HoldReason::SyncFirst);
        }
        if flow == WRITES && !is_turn && self.is_written_enough(now) {
            return hold(None, Wake::Completion, HoldReason::DepthLimit);
        }
        match self.next_of(flow) {
            Some(id) => self.dispatch(now, view, id, reason),
            None => Decision::Idle,
        }
    }

    fn completed(&mut self, now: Time, request: &Request, _outcome: Outcome) {
        self.pass_time(now);
        let Stored { flow, work, is_async, is_light, .. } = self.stored[request.id];
        let entry = self.flows.get_mut(flow);
        if flow != WRITES && self.last_completed == flow && self.gains.in_device() == entry.in_device {
            entry.served(self.gains.busy(now), work);
        }
        if request.op == Op::Write && !is_async && work >= AWAY {
            self.gains.wrote(now, work);
        }
        self.last_completed = flow;
        let counts = self.has_head && self.is_random(flow) && self.flows.get(WRITES).in_device == 0;
        self.gains.ended(now, counts.then_some(work));
        self.light_in_device -= u32::from(is_light);
        self.flows.get_mut(flow).in_device -= 1;
        if flow == WRITES {
            self.writing = self.writing.saturating_sub(work);
            self.flows.written(now);
        }
        if !is_async {
            self.last_sync = now;
        }
        self.ended(now, request.id);
    }

    /// An expired request is dispatched when those that expired before have been, each after at most `fifo_batch` others. Before each
    /// dispatch the device may have to complete what it has, and the disk may wait once.
    fn longest_wait(&self, load: Load) -> Option<Span> {
        let Tunables { sync_expire, async_expire, fifo_batch, wait_max, .. } = self.tunables;
        let in_device = u64::from(load.depth.min(load.requests));
        let dispatch = load.service * (1 + in_device) + wait_max.max(WAIT_MIN);
        let passing = (fifo_batch + 1).saturating_mul(u64::from(load.requests) + 1);
        Some(sync_expire.max(async_expire) + dispatch * passing)
    }
}

impl Capabilities for Dwell {
    tuned_by!(tunables);
}
