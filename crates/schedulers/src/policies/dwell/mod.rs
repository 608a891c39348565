//! Dwell: one scheduler for disks, without process information.
//!
//! # Idea
//! A program that reads one block after another has no request queued at the moment at which its last one completes. A
//! *work-conserving* scheduler then moves the head to another program's request, and back again 0.1 ms later (*deceptive idleness* in
//! anticipatory scheduling). A *non-work-conserving* one keeps the disk idle for that moment. This policy determines for whom to wait,
//! for how long, and for how long other requests may be delayed by it. It uses requests alone, as stream scheduling does: no process
//! information.
//!
//! **Flows.** A flow is a set of requests near each other in space and time.
//! - A read that begins near the end of a recent one, and soon after it, continues that one's flow. A read that arrives within a
//!   millisecond of a completion continues the flow from farther away: up to twice the distance to the nearest other flow's request. So
//!   a program that reads at random in an area of its own is a flow.
//! - A flow may have two sequences, of reads and of writes: a request near the end of its latest one of the same direction continues
//!   it, too. Otherwise the disk would wait for the next write of a program that waits for its reads.
//! - From `stream_threshold` requests on the flow is *established* and has a queue of its own. All other synchronous requests form one
//!   flow, the *scattered* ones: commits, random reads, the first requests of every program.
//! - Synchronous writes continue flows, too, but are queued in them only after 16 requests without a pause: the next request of a
//!   program that makes each write durable may be anywhere. Other long synchronous writes form one heavy flow.
//!
//! **Waiting.** The disk is dedicated to one flow, its *owner*. If the owner has no request queued, the disk waits for its next one if
//! `expected wait + time of the next request < time of the other flow's request`,
//! the inequality of stream scheduling, with measured means in place of observed children. Beside flows of its own kind a flow is
//! awaited only if requests in time save more, on average, than vain waits cost. After vain waits the disk does not wait for the flow;
//! a vain wait that ended with the asynchronous write for which the program was waiting counts twice.
//!
//! A flush counts as a request of the flows that wrote before it. A program that commits alternates between writes and flushes, and the
//! disk waits for its next write at the end of the flush, not during it.
//!
//! **Light and heavy flows.** A flow is *heavy* while it has transferred more than `light_kib` of contiguous data lately, and at least
//! an eighth of the heaviest flow's; beside a heavy flow, a quarter of `light_kib` is enough. Copies, scans and backups are heavy.
//! Programs that start, look-ups and commits are *light*. A light flow interrupts heavy flows and writes, and is awaited before them
//! even if that costs throughput, so a commit is never behind a stream's slice. Heavy flows take turns of `stream_slice`.
//!
//! **Shares and age.** While heavy flows or asynchronous writes wait, light flows have `light_share` of the time. `credit` is the rest
//! that they may still use; when it is used up, the others have a turn of 60 ms. Writes are charged when the device accepts them, not
//! when it has written them, because a cache for writes delays the reads behind it. The share falls with the age of the oldest waiting
//! request: half of `light_share` at two seconds, a quarter at four. So no kind starves, whatever arrives. Within the turns of the
//! others, asynchronous writes alternate with heavy flows once they have waited for half a second, and precede them once they have
//! waited for four times as long as the oldest synchronous request. Scattered requests and writes that wait for longer than a sweep
//! takes are served in one sweep, wherever the head has been meanwhile. The last resort is an expiry time: a request older than
//! `sync_expire` or `async_expire` is served after at most `fifo_batch` others (`longest_wait` is the bound).
//!
//! **Devices that queue** (NCQ) order requests themselves. They get scattered requests of other light flows without a wait for further
//! ones, and the random requests of all flows of one kind if the measured gain by the number of queued requests exceeds that of
//! dedication. A request in the device can no longer be overtaken. So while synchronous requests are about, the device has few
//! asynchronous writes, and heavy flows pause while it has a request of a light one.
//!
//! **Measured, not assumed.** The drive's service-time curve only gives the first estimates. Measurements correct them: the time of a
//! flow's requests while the device has no others (a drive without a write cache loses a revolution on each of a sequential writer),
//! the time of synchronous writes elsewhere (almost none with a write cache), and the time of random requests by their number in the
//! device.
//!
//! **Priorities.** Requests of the real-time class are a flow that precedes all others. The slices of other flows are proportional to
//! the weight of their priority level, as in BFQ: level 0 has eight times the share of level 7. The idle class is served as
//! asynchronous writes.
//!
//! **Arrays.** Striping hides the next request of a stream: it depends on the other members. On a member of an array the policy follows
//! the coordinator of `array-stream` (`directed.rs`): all members serve one flow for the array's slice.
//!
//! On a device without a head none of this applies: requests are dispatched in order of arrival, synchronous ones first.
//!
//! # State
//! One index by flow and sector, a list by arrival for each flow, and a list by age for synchronous and asynchronous requests. Of each
//! flow: the expected position, mean gaps, mean step, its correction, share of hits, recent contiguous bytes (`flows.rs`). The owner,
//! and since when. Measured times by the number of requests in the device (`gains.rs`); those of flows and of writes relative to
//! estimates (`measured.rs`). `credit`, and the work for which it was charged in advance (`shares.rs`).
//!
//! # Order of decisions
//! 1. The oldest request that has expired, if `fifo_batch` others were dispatched since the last such request. Its flow owns the disk.
//! 2. On a member of an array (`directed.rs`):
//!    - a request of the array's own traffic that the coordinator admits (`pass`). While the device has had such a request for longer than
//!      a positioning time, it gets no other request;
//!    - the coordinator's urgent request (`urgent`), once the device has no request of another flow;
//!    - an adopted flow owns the disk until the array's slice is over (`resume_adopted`). Of rule 3 only real-time requests apply, and
//!      scattered ones if the adopted flow is heavy and light flows have credit.
//! 3. If real-time requests are queued, they own the disk. If a heavy flow or writes own it, and a light flow has requests and credit:
//!    the light flow owns the disk. Any synchronous request ends writes whose turn has not come.
//! 4. The owner's next request in sector order, until its slice is over and another flow has requests.
//! 5. If the owner has none: wait for its requests in the device, or for its next request, if that pays.
//! 6. Another owner (`choice.rs`): a light flow, if there is credit; asynchronous writes in their turn, which comes every
//!    `write_period` or by age; a heavy flow; writes. Of several flows of a kind:
//!    - a flow as near to the head as requests of one flow are to each other, until the area's slice is over;
//!    - if the flow with the oldest request has long moves between its requests, and that request has waited for less than a sweep takes:
//!      the nearest flow with long moves in the direction of the head's movement;
//!    - otherwise the flow with the oldest request.
//!
//! # Where it differs from the source
//! There is no source: the design joins the papers' ideas. From stream scheduling: streams from requests alone, and waiting only if it
//! costs less than a seek. From anticipatory scheduling: measured think times and the frequency of vain waits. From cooperative
//! scheduling: processes that take turns are one flow. From BFQ: privileges for flows with little service, slices and weights. From
//! Deadline: ages. From Kyber: few writes in the device.
//!
//! # Not for
//! Shares by process or control group, which requests do not show: two programs that read near each other are one flow, and the levels
//! of scattered requests and writes have no effect. Real-time requests on a device without a head.
//!
//! # Sources
//! Xu and Jiang, FAST 2011 (streams); Seelam et al., OLS 2005 (cooperation); Linux 2.6.32 `block/as-iosched.c` (think times); Linux
//! 6.18 `block/bfq-iosched.c` (weight raising, weights) and `block/mq-deadline.c` (ages).

use alloc::boxed::Box;

use elevator::array::{ArrayMember, Report};
use elevator::service_time::ServiceCurve;
use elevator::{
    Capabilities, Decision, Growth, Hold, HoldReason, Load, Op, Outcome, PriorityClass, Reason, Request,
    RequestId, Scheduler, Sector, Span, Time, View, Wake, tunables, tuned_by,
};

use crate::listing::{Environment, Listing, Make};
use crate::parts::directives::Directives;
use crate::parts::fifo::{Fifo, Links};
use crate::parts::per_request::PerRequest;
use crate::parts::sorted::{Key, SortedIndex};

mod choice;
#[cfg(test)]
mod choice_tests;
mod directed;
#[cfg(test)]
mod directed_tests;
mod flows;
#[cfg(test)]
mod flows_tests;
mod gains;
mod measured;
mod shares;
#[cfg(test)]
mod tests;

use flows::{BULK, FlowId, Flows, PROMPT, REAL_TIME, SCATTERED, WRITES, is_stream};
use gains::Gains;
use shares::Shares;

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

const ABOUT: &str = "waits where a seek costs more, serves short requests at once, limits writes; without process information";

pub(crate) const LISTINGS: &[Listing] =
    &[Listing::new("dwell", ABOUT, Make::Scheduler(|environment| Box::new(Dwell::new(environment))))
        .with_source(
            "Dwell's own, after anticipatory scheduling (SOSP 2001), stream scheduling (FAST 2011) and BFQ",
        )
        .with_tunables(Tunables::TABLE)
        .with_coordination()];

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
/// The shortest time for which the disk waits, if it waits.
const WAIT_MIN: Span = Span::from_micros(500);
/// Estimated work from which a synchronous write shows whether the device has a cache for writes: it includes a move.
const AWAY: Span = Span::from_millis(2);
/// No limit of a slice: longer than any that can be set.
const UNLIMITED: Span = Span::from_secs(3_600);
/// Without a head: one asynchronous request for so many synchronous ones.
const PASSING: u64 = 4;

/// What is stored of a request.
#[derive(Clone, Copy, Default)]
struct Stored {
    /// The flow in which it is queued.
    flow: FlowId,
    /// The stream that it continues.
    track: FlowId,
    /// When it arrived.
    arrived: Time,
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
    /// A turn of asynchronous writes: synchronous requests do not end it.
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
    /// When the last synchronous request arrived or completed.
    last_sync: Time,
    /// When asynchronous writes were served last, or began to wait.
    last_writes: Time,
    /// When a heavy flow was served last.
    last_heavy: Time,
    shares: Shares,
    /// Estimated work of asynchronous writes in the device.
    writing: Span,
    /// Requests of light flows in the device, and flushes for which they wait.
    light_in_device: u32,
    /// Light flows that wait for the flush in the device.
    light_flushing: u32,
    /// The end of the request dispatched last.
    head: Sector,
    /// Since when the disk has served flows near each other.
    area: Time,
    /// The flow of the request that completed last.
    last_completed: FlowId,
    /// How much faster the device serves what it can order itself.
    gains: Gains,
    /// What an array's coordinator has it do.
    directives: Directives<FlowId>,
    /// When the slice of the adopted flow began: waits begin then or later.
    slice_since: Time,
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
            last_sync: Time::ZERO,
            last_writes: Time::ZERO,
            last_heavy: Time::ZERO,
            shares: Shares::new(Tunables::default().light_share),
            writing: Span::ZERO,
            light_in_device: 0,
            light_flushing: 0,
            head: Sector(0),
            area: Time::ZERO,
            last_completed: WRITES,
            gains: Gains::new(),
            directives: Directives::default(),
            slice_since: Time::ZERO,
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
        if request.priority.class == PriorityClass::RealTime {
            self.flows.joins(now, request, REAL_TIME, &self.service_times);
            return (REAL_TIME, REAL_TIME);
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
        self.flows.requeued(flow);
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

    /// Only the contiguous data of streams makes them heavy; real-time and scattered requests are light.
    fn is_light(&self, now: Time, flow: FlowId) -> bool {
        match flow {
            BULK | WRITES => false,
            _ => !self.flows.is_heavy(now, flow, self.tunables.light_kib << 10),
        }
    }

    /// Brings `shares` up to date.
    fn pass_time(&mut self, now: Time) {
        let is_light = self.owner.is_some_and(|owner| self.is_light(now, owner.flow));
        let age = self.age_of_others(now);
        self.shares.pass_time(now, is_light, age, self.tunables.light_share);
    }

    /// The age of the oldest queued request that is not of a light flow.
    fn age_of_others(&self, now: Time) -> Option<Span> {
        let others = self.flows.queued().filter(|&flow| !self.is_light(now, flow));
        others.filter_map(|flow| self.age_in(now, flow)).max()
    }

    /// The age of the flow's oldest queued request.
    fn age_in(&self, now: Time, flow: FlowId) -> Option<Span> {
        self.flows.get(flow).queued.front().map(|id| now.since(self.stored[id].arrived))
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
        if let Some(until) = self.directives.slice_of(owner.flow) {
            return until;
        }
        let Tunables { stream_slice, light_slice, .. } = self.tunables;
        let is_scattered = owner.flow == SCATTERED || other == SCATTERED;
        let slice = match owner.flow {
            WRITES | REAL_TIME => UNLIMITED,
            _ if is_scattered && self.is_light(now, owner.flow) => light_slice,
            SCATTERED | BULK => stream_slice,
            flow => stream_slice * self.flows.get(flow).weight() / 4,
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
            _ => UNLIMITED,
        };
        let is_turn = flow == WRITES && self.is_turn_of_writes(now);
        let is_light = self.is_light(now, flow);
        if is_light {
            self.shares.end_prepaid();
        }
        self.owner = Some(Owner { flow, since: now, work, is_turn, is_light });
    }

    /// The flow's next request: behind its last one, or its first.
    fn next_of(&self, flow: FlowId) -> Option<RequestId> {
        if !self.has_head {
            return self.flows.get(flow).queued.front();
        }
        // Requests ahead of a head that moves elsewhere between could be passed over again and again.
        let resumes = match flow {
            SCATTERED | BULK => {
                self.age_in(self.shares.updated(), flow).is_some_and(|age| age >= self.patience())
            }
            _ => true,
        };
        let from = if resumes { self.flows.get(flow).position } else { self.head };
        let own = |id: &RequestId| self.stored[*id].flow == flow;
        let ahead = self.index.at_or_after(Sector(Self::order(flow, from))).filter(own);
        ahead.or_else(|| self.index.at_or_after(Sector(Self::order(flow, Sector(0)))).filter(own))
    }

    /// Waits for the owner's requests in the device, or for its next request.
    fn wait(&mut self, now: Time, view: &View<'_>, owner: Owner, other: FlowId) -> Option<Decision> {
        if let Some(decision) = self.wait_adopted(now, view, owner.flow, other) {
            return decision;
        }
        if self.directives.is_off {
            return None;
        }
        let flow = self.flows.get(owner.flow);
        let end = self.end(now, owner, other);
        if owner.flow == WRITES || owner.flow == BULK || now >= end || !flow.is_reliable() {
            return None;
        }
        let request = &view.requests[self.next_of(other)?];
        // Behind a heavy flow's long requests, or writes, a light flow would wait longer than the disk does now.
        let precedes =
            owner.flow == REAL_TIME || self.is_light(now, owner.flow) && !self.is_light(now, other);
        let gap = flow.gap(precedes);
        let cost = match self.time_elsewhere(request) {
            // What the drive has read ahead takes no move, but it soon ends: a prompt flow is not left for it.
            cost if request.op == Op::Read && !precedes && gap > PROMPT => {
                self.flows.get(other).time_after_others(cost)
            }
            cost => cost,
        };
        // The flow's next request takes time, too; a light flow is awaited even if that costs throughput.
        let own = if precedes { Span::ZERO } else { self.time_alone(view, flow) };
        let limit = cost.saturating_sub(own).min(self.tunables.wait_max);
        if gap >= limit {
            return None;
        }
        // A device that queues orders scattered requests itself, and saves more by it than the disk would by a wait.
        if !precedes && owner.flow == SCATTERED && view.device.depth > 1 {
            return None;
        }
        // Next requests are often a little later than any before: a stream's requests grow, and its program thinks longer about long ones.
        let longest = match precedes && flow.is_steady() {
            true => limit,
            false => (gap * 3 + WAIT_MIN.max(limit / 8)).min(limit.max(WAIT_MIN)),
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
        self.directed_dispatch(now, id);
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
        if flow != WRITES && !is_light {
            self.last_heavy = now;
        }
        if !is_light {
            self.shares.prepay(work);
        }
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
        self.stored.set(
            request.id,
            Stored { flow, track, arrived: now, expires, work: Span::ZERO, is_async, is_light: false },
        );
        if self.has_head {
            self.index.insert_key(Self::key(flow, request.start, request.serial), request.id);
        }
        self.by_flow.push_back(&mut self.flows.get_mut(flow).queued, request.id);
        self.flows.requeued(flow);
        self.by_age.push_back(&mut self.ages[usize::from(is_async)], request.id);
        // The first requests of the flow were served as scattered ones; it is the flow for which the disk waits.
        let is_new = is_stream(flow) && self.flows.get(flow).is_new(self.tunables.stream_threshold);
        if is_new && self.owner.is_some_and(|owner| owner.flow == SCATTERED) {
            self.area = now;
            let (work, is_light) = (UNLIMITED, self.is_light(now, flow));
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
            self.directives.absorbed(absorbed.id, request.id);
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
        if let Some(decision) = self.pass(now, view) {
            return decision;
        }
        if let Some(decision) = self.urgent(now, view) {
            return decision;
        }
        self.resume_adopted(now, view);
        let mut reason = Reason::SliceOwner;
        let other = self.owner.and_then(|owner| self.choose(now, view, Some(owner.flow)));
        if self.directives.adopted.is_some() {
            // The array's slice, not the flow's own.
        } else if let (Some(owner), Some(other)) = (self.owner, other)
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
        let Stored { flow, track, work, is_async, is_light, .. } = self.stored[request.id];
        let entry = self.flows.get_mut(flow);
        let busy = self.gains.busy(now);
        if flow != WRITES && self.last_completed == flow && self.gains.in_device() == entry.in_device {
            entry.served(busy, work);
        } else if request.op == Op::Read && self.last_completed != flow && work >= AWAY {
            entry.served_after_others(busy, work);
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
        self.directives.has_left(now, request.id, self.service_times.longest());
        if self.directives.has_brought(request.id) {
            self.directives.report = Some(Report::Established);
        }
        self.ended(now, request.id);
        if request.op == Op::Write && !is_async {
            self.flows.wrote(flow);
            self.flows.wrote(track);
        }
    }

    fn flushing(&mut self, now: Time) {
        if !self.has_head {
            return;
        }
        self.pass_time(now);
        let flows = self.flows.flushing(now);
        self.light_flushing = flows.filter(|&flow| self.is_light(now, flow)).count() as u32;
        self.light_in_device += self.light_flushing;
    }

    fn flushed(&mut self, now: Time) {
        self.pass_time(now);
        self.light_in_device -= core::mem::take(&mut self.light_flushing);
        self.flows.flushed(now, self.tunables.stream_threshold);
    }

    /// An expired request is dispatched when those that expired before have been, each after at most `fifo_batch` others. Before each
    /// dispatch the device may have to complete what it has, and the disk may wait once. A member of an array has no bound: the
    /// coordinator sets its slices.
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

    fn array_member(&mut self) -> Option<&mut dyn ArrayMember> {
        if self.has_head { Some(self) } else { None }
    }
}
