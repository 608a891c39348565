//! Flows: which requests belong together, how much contiguous data they transferred lately, and how long their programs think.

use alloc::boxed::Box;
use alloc::vec;

use elevator::service_time::ServiceCurve;
use elevator::{Op, Request, Sector, Span, Time};

use super::measured::Measured;
use crate::parts::fifo::Fifo;

/// The index of a flow.
pub(super) type FlowId = u8;

/// Synchronous requests of the real-time class.
pub(super) const REAL_TIME: FlowId = 0;
/// Synchronous requests near no other: commits, random reads, the first requests of a stream.
pub(super) const SCATTERED: FlowId = 1;
/// Long synchronous writes: direct writes, and files that are being made durable.
pub(super) const BULK: FlowId = 2;
/// Asynchronous writes, and everything of the idle class.
pub(super) const WRITES: FlowId = 3;
/// The first stream.
const STREAMS: usize = 4;
/// Whether the flow is a stream, and not one of the four for requests of a kind.
pub(super) fn is_stream(flow: FlowId) -> bool {
    usize::from(flow) >= STREAMS
}

/// Flows in the table: a bit of a word each. More streams than this count as scattered requests.
const FLOWS: usize = 32;

/// How far the start of a request may lie behind the end of its predecessor to be contiguous: a page cache skips what it has.
const CONTIGUOUS: u64 = 256;
/// The same before the predecessor has completed: requests that do not wait for each other.
const EARLY: u64 = 2048;
/// Most sectors between the requests of a flow: 1 GiB, a tree of files. Random reads of a large area are rarely nearer.
const NEAR_MAX: u64 = 2 << 20;
/// How long a stream of at least `stream_threshold` requests is remembered after its last request.
const MEMORY: Span = Span::from_secs(1);
/// Time without outstanding requests that halves the amount of contiguous data. A flow that waits for its turn stays as heavy as it is.
const HALF_LIFE: Span = Span::from_secs(1);
/// Most contiguous data that counts.
const BYTES_MAX: u64 = 256 << 20;
/// Flows with less than this share of the heaviest flow's data are light beside it.
const RELATIVE: u64 = 8;
/// Beside a heavy flow, flows with this share of the data from which a flow is heavy are heavy, too: flows of one kind take turns.
const SIMILAR: u64 = 4;
/// One, in the fixed point of shares: of arrivals in time, of waits that were rewarded.
const ONE: u64 = 256;
/// By how much the share of rewarded waits rises with each request that arrived without a wait, so that the disk waits again at times.
const RECOVERY: u64 = ONE / 64;
/// A request this soon after the completion of an asynchronous write was waiting for that write: its program needed memory.
const DEPENDENT: Span = Span::from_micros(50);
/// Requests without a pause from which a stream of synchronous writes has a queue of its own.
const RUN: u64 = 16;
/// A request this soon after its predecessor's completion continues it within `reach`, too.
pub(super) const PROMPT: Span = Span::from_millis(1);
/// A mean move that is longer than this is one between random positions.
const RANDOM_STEP: Span = Span::from_millis(1);

/// Requests that follow each other.
#[derive(Clone, Copy, Default)]
pub(super) struct Flow {
    /// Its queued requests by arrival; empty before it is established.
    pub(super) queued: Fifo,
    /// Its requests in the device.
    pub(super) in_device: u32,
    /// Where its next request is expected: behind its latest request.
    expected: Sector,
    /// Where its latest read, and its latest write, end: a program may read and write two sequences in turn.
    ends: [Sector; 2],
    /// Where it was served last.
    pub(super) position: Sector,
    /// Serial number of its latest request.
    latest: u64,
    /// Priority level of its latest request.
    level: u8,
    /// Number of requests so far.
    length: u64,
    /// Requests that arrived at once after their predecessors.
    run: u64,
    /// A synchronous write of it has completed since the last flush.
    wrote: bool,
    /// Its requests that have not completed, whichever flow they are queued in.
    outstanding: u32,
    /// When the last of them completed.
    pub(super) idle_since: Time,
    /// When it is forgotten without another request.
    expires: Time,
    /// Contiguous bytes, decayed.
    bytes: u64,
    /// Time without outstanding requests by which `bytes` has not decayed.
    idle: Span,
    /// Mean time from a completion to the next request, if nothing is outstanding. Late requests count as just in time.
    mean_gap: Span,
    /// The same of the requests that arrived in time.
    timely_gap: Span,
    /// Share of next requests that arrived in time, in 1/256.
    hits: u64,
    /// Mean estimated time to move to its next request from where its last one ended.
    step: Span,
    /// Mean transfer time of a request.
    transfer: Span,
    /// Times of its requests while the device has no other flow's request.
    alone: Measured,
    /// Times of its reads after a request of another flow: less than estimated if the drive has read ahead.
    after_others: Measured,
    /// Mean number of its requests that have not completed when one arrives, that one included, in 1/256.
    parallel: u64,
    /// Share of the disk's waits in which the next request arrived, in 1/256.
    rewarded: u64,
    /// The disk waits for the next request, or did so in vain.
    wait: Waiting,
    /// A prompt next request may begin this far away: twice the distance of the nearest request of another stream.
    reach: u64,
}

/// Whether the disk has waited for a flow's next request since the last one completed.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Waiting {
    #[default]
    No,
    Waits,
    InVain,
}

impl Flow {
    /// Mean time from a completion to the next request: of all, or of those in time.
    pub(super) const fn gap(&self, is_timely: bool) -> Span {
        if is_timely { self.timely_gap } else { self.mean_gap }
    }

    /// Mean time of a request if the device has those of this flow only: the estimate, corrected by measurements. `gain`: the expected
    /// correction, in 1/256, as long as there are none.
    pub(super) fn time(&self, gain: u64) -> Span {
        self.alone.corrected(self.step + self.transfer, gain)
    }

    /// The device has served a request of it after another one of it, while it had no others.
    pub(super) fn served(&mut self, actual: Span, estimated: Span) {
        self.alone.add(actual, estimated);
    }

    /// The device has served a read of it after a request of another flow.
    pub(super) fn served_after_others(&mut self, actual: Span, estimated: Span) {
        self.after_others.add(actual, estimated);
    }

    /// The time of its next read after requests of another flow.
    pub(super) fn time_after_others(&self, estimate: Span) -> Span {
        self.after_others.corrected(estimate, ONE)
    }

    /// Its share of the time among its kind, relative to that of the default level in quarters, as in BFQ.
    pub(super) fn weight(&self) -> u64 {
        u64::from(8 - self.level.min(7))
    }

    /// Mean number of its requests that have not completed when one arrives, that one included.
    pub(super) const fn parallel(&self) -> u64 {
        (self.parallel + ONE / 2) / ONE
    }

    /// Whether it keeps the device busy: at least one and a half are outstanding on average.
    pub(super) const fn is_parallel(&self) -> bool {
        self.parallel >= ONE * 3 / 2
    }

    /// Whether its reads have a queue of their own.
    pub(super) const fn is_established(&self, threshold: u64) -> bool {
        self.length > threshold
    }

    /// Whether its writes have a queue of their own: its latest requests arrived at once after their predecessors. Those of a program
    /// that makes its writes durable one by one do not; its next request may be anywhere.
    pub(super) const fn is_run(&self) -> bool {
        self.run > RUN
    }

    /// Whether its latest request was the first in its own queue.
    pub(super) const fn is_new(&self, threshold: u64) -> bool {
        self.length == threshold + 1
    }

    /// Whether next requests arrive in time often enough, and waits for them were rewarded often enough.
    pub(super) const fn is_reliable(&self) -> bool {
        self.hits >= ONE / 4 && self.rewarded >= ONE / 4
    }

    /// The disk waits for its next request.
    pub(super) const fn waits(&mut self) {
        self.wait = Waiting::Waits;
    }

    /// A wait for its next request was in vain.
    pub(super) const fn missed(&mut self) {
        self.hits = self.hits * 3 / 4;
        self.rewarded = self.rewarded * 3 / 4;
        self.wait = Waiting::InVain;
    }

    /// Whether its requests are far from each other, so that its queue has no order of its own.
    pub(super) fn is_random(&self) -> bool {
        self.time(ONE) >= RANDOM_STEP + self.transfer
    }

    /// Whether waiting for so long pays if a request in time saves `saved`. A vain wait lowers `hits` twice, when it ends and when the
    /// late request arrives, so its cost counts half.
    pub(super) fn pays(&self, saved: Span, wait: Span) -> bool {
        saved * self.hits * 2 > wait * (ONE - self.hits)
    }

    /// Whether most next requests arrive in time, and most waits were rewarded.
    pub(super) const fn is_steady(&self) -> bool {
        self.hits >= ONE / 2 && self.rewarded >= ONE / 2
    }

    /// The next request arrives. `written`: when an asynchronous write completed last.
    fn learn(&mut self, now: Time, limit: Span, written: Time) {
        self.run += 1;
        if self.outstanding == 0 && self.length > 0 {
            let gap = now.since(self.idle_since);
            if gap > PROMPT {
                self.run = 0;
            }
            self.rewarded = match core::mem::take(&mut self.wait) {
                Waiting::Waits => (self.rewarded * 3 + ONE) / 4,
                Waiting::InVain if now.since(written) <= DEPENDENT => self.rewarded * 3 / 4,
                Waiting::No | Waiting::InVain => (self.rewarded + RECOVERY).min(ONE),
            };
            let is_hit = gap <= limit;
            let is_first = self.length == 1;
            let mean = |of: Span, gap: Span| if is_first { gap } else { (of * 3 + gap) / 4 };
            self.mean_gap = mean(self.mean_gap, gap.min(limit));
            if is_hit {
                self.timely_gap = mean(self.timely_gap, gap);
            }
            self.hits = (self.hits * 7 + if is_hit { ONE } else { 0 }) / 8;
        }
    }

    /// Contiguous bytes that it had lately.
    pub(super) fn recent_bytes(&self, now: Time) -> u64 {
        if self.outstanding > 0 {
            return self.bytes;
        }
        let idle = self.idle + now.since(self.idle_since);
        self.bytes >> (idle.as_nanos() / HALF_LIFE.as_nanos()).min(63)
    }

    fn decay(&mut self, now: Time) {
        if self.outstanding == 0 && self.length > 0 {
            self.bytes = self.recent_bytes(now);
            let idle = self.idle + now.since(self.idle_since);
            self.idle = Span::from_nanos(idle.as_nanos() % HALF_LIFE.as_nanos());
        }
    }

    /// The next request arrives: how far it is from the latest one.
    fn moves(&mut self, request: &Request, service_times: &ServiceCurve) {
        let step = service_times.at_distance(self.expected.distance(request.start));
        let transfer = service_times.transfer(request.sectors);
        self.transfer = if self.length <= 1 { transfer } else { (self.transfer * 3 + transfer) / 4 };
        self.step = if self.length <= 1 { step } else { (self.step * 3 + step) / 4 };
    }

    /// How far a request is from where the flow's next one is expected: behind its latest request, or near the end of the latest one of
    /// the same direction. Backward counts twice.
    fn distance(&self, request: &Request) -> u64 {
        let from = |end: Sector| match request.start >= end {
            true => request.start.0 - end.0,
            false => (end.0 - request.start.0).saturating_mul(2),
        };
        let (latest, alike) = (from(self.expected), from(self.ends[direction(request)]));
        if alike <= EARLY { latest.min(alike) } else { latest }
    }

    /// Whether a request begins where the latest one of the same direction ends.
    fn is_contiguous(&self, request: &Request) -> bool {
        request.start.0.wrapping_sub(self.ends[direction(request)].0) <= CONTIGUOUS
    }

    fn adds(&mut self, now: Time, request: &Request, is_contiguous: bool) {
        self.decay(now);
        if is_contiguous {
            self.bytes = (self.bytes + request.sectors.bytes()).min(BYTES_MAX);
        }
        self.length += 1;
        self.outstanding += 1;
        self.parallel = (self.parallel * 7 + u64::from(self.outstanding) * ONE) / 8;
        self.latest = request.serial;
        self.level = request.priority.level;
        self.ends_at(request);
    }

    /// Its latest request ends there.
    fn ends_at(&mut self, request: &Request) {
        self.expected = request.end();
        self.ends[direction(request)] = request.end();
    }
}

/// The place of a request's direction in [`Flow::ends`].
fn direction(request: &Request) -> usize {
    usize::from(request.op == Op::Write)
}

/// The numbers of the bits that are set, lowest first.
fn bits(mut word: u32) -> impl Iterator<Item = FlowId> + Clone {
    core::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < u32::BITS).then_some(bit as FlowId)
    })
}

/// All flows.
pub(super) struct Flows {
    /// On the heap: a kernel's stack has no room for the table.
    all: Box<[Flow]>,
    /// Streams and candidates in use, a bit each.
    used: u32,
    /// Flows with queued requests, a bit each.
    occupied: u32,
    /// A request farther than this from its predecessor does not continue it.
    near: u64,
    /// A request that arrives later than this after its predecessor does not continue it.
    far_cost: Span,
    /// Recent bytes of the heaviest flow.
    heaviest: u64,
    /// When an asynchronous write completed last.
    written: Time,
    /// Flows that wait for the flush in the device, a bit each.
    flushing: u32,
}

impl Flows {
    pub(super) fn new(service_times: &ServiceCurve) -> Self {
        let longest = service_times.longest();
        let mut all = vec![Flow::default(); FLOWS].into_boxed_slice();
        for flow in &mut all[..STREAMS] {
            (flow.hits, flow.rewarded) = (ONE / 2, ONE);
        }
        let near = service_times.distance_taking(longest / 3).min(NEAR_MAX);
        let far_cost = longest / 2;
        Self { all, used: 0, occupied: 0, near, far_cost, heaviest: 0, written: Time::ZERO, flushing: 0 }
    }

    /// A request farther than this from its predecessor does not continue it.
    pub(super) const fn near(&self) -> u64 {
        self.near
    }

    pub(super) fn get(&self, id: FlowId) -> &Flow {
        &self.all[usize::from(id)]
    }

    pub(super) fn get_mut(&mut self, id: FlowId) -> &mut Flow {
        &mut self.all[usize::from(id)]
    }

    /// All flows in use.
    pub(super) fn used(&self) -> impl Iterator<Item = FlowId> + Clone + use<> {
        bits(self.used | ((1 << STREAMS) - 1))
    }

    /// Whether the stream is in the table.
    pub(super) const fn is_used(&self, id: FlowId) -> bool {
        self.used & 1 << id != 0
    }

    /// The flows with queued requests.
    pub(super) fn queued(&self) -> impl Iterator<Item = FlowId> + Clone + '_ {
        bits(self.occupied)
    }

    /// A request entered the flow's queue, or left it.
    pub(super) fn requeued(&mut self, id: FlowId) {
        let bit = 1 << id;
        self.occupied =
            if self.get(id).queued.is_empty() { self.occupied & !bit } else { self.occupied | bit };
    }

    /// A synchronous request arrives: the stream that it continues or begins.
    pub(super) fn tracked(&mut self, now: Time, request: &Request, service_times: &ServiceCurve) -> FlowId {
        let Some(track) = self.continued(now, request) else {
            return self.begin(now, request, service_times);
        };
        let (near, limit, written) = (self.near, self.far_cost, self.written);
        let flow = self.get_mut(track);
        flow.learn(now, limit, written);
        flow.moves(request, service_times);
        flow.adds(now, request, flow.is_contiguous(request));
        // A sequence that the program has left does not attract others' requests.
        let other = &mut flow.ends[1 - direction(request)];
        if other.distance(request.end()) > near {
            *other = request.end();
        }
        track
    }

    /// A request arrives in one of the flows that always exist.
    pub(super) fn joins(&mut self, now: Time, request: &Request, id: FlowId, service_times: &ServiceCurve) {
        let (limit, written) = (self.far_cost, self.written);
        let flow = self.get_mut(id);
        flow.learn(now, limit, written);
        flow.moves(request, service_times);
        flow.adds(now, request, false);
    }

    /// The nearest stream that a request continues. [`forget`](Self::forget) has removed those that are over.
    fn continued(&self, now: Time, request: &Request) -> Option<FlowId> {
        let mut best = None;
        for id in bits(self.used) {
            let flow = self.get(id);
            let distance = flow.distance(request);
            let reach = match flow.outstanding > 0 {
                true => EARLY,
                false if now.since(flow.idle_since) <= PROMPT => self.near.max(flow.reach),
                false => self.near,
            };
            if distance <= reach && best.is_none_or(|(least, _)| distance < least) {
                best = Some((distance, id));
            }
        }
        best.map(|(_, id)| id)
    }

    /// A stream of one request so far, in the place of one that is over; [`SCATTERED`] if all places are taken.
    fn begin(&mut self, now: Time, request: &Request, service_times: &ServiceCurve) -> FlowId {
        // Places that are not in use have expired: they precede those that will.
        let idle = (STREAMS..FLOWS).filter(|&id| self.all[id].outstanding == 0);
        let Some(free) = idle.min_by_key(|&id| self.all[id].expires) else {
            self.joins(now, request, SCATTERED, service_times);
            return SCATTERED;
        };
        self.used |= 1 << free;
        // The first requests of a stream are in time, or it would not become one.
        let ends = [request.end(); 2];
        self.all[free] = Flow { hits: ONE / 2, rewarded: ONE, parallel: ONE, ends, ..Flow::default() };
        self.all[free].adds(now, request, false);
        free as FlowId
    }

    /// The latest request of a stream grew.
    pub(super) fn grew(&mut self, track: FlowId, request: &Request) {
        let flow = self.get_mut(track);
        if flow.latest == request.serial {
            flow.ends_at(request);
        }
    }

    /// The stream has a queue of its own from now on, also for writes.
    pub(super) fn establish(&mut self, track: FlowId, threshold: u64) {
        let flow = self.get_mut(track);
        flow.length = flow.length.max(threshold + 1);
        flow.run = flow.run.max(RUN + 1);
    }

    /// A request of the stream has ended.
    pub(super) fn ended(&mut self, now: Time, track: FlowId, threshold: u64) {
        let candidate = self.far_cost;
        let flow = self.get_mut(track);
        flow.outstanding -= 1;
        if flow.outstanding == 0 {
            let position = flow.expected;
            let reach = self.nearest_pending(track, position).saturating_mul(2);
            let flow = self.get_mut(track);
            flow.reach = reach;
            flow.idle_since = now;
            flow.expires = now + if flow.length > threshold { MEMORY } else { candidate };
        }
    }

    /// The distance from there to the nearest request of another stream that has not completed, which the disk would serve instead of the
    /// next one of `track`. 0 without any.
    fn nearest_pending(&self, track: FlowId, from: Sector) -> u64 {
        let others = bits(self.used & !(1 << track)).map(|id| self.get(id));
        let pending = others.filter(|flow| flow.outstanding > 0);
        pending.map(|flow| flow.expected.distance(from)).min().unwrap_or(0)
    }

    /// A synchronous write of the flow has completed.
    pub(super) fn wrote(&mut self, id: FlowId) {
        self.get_mut(id).wrote = true;
    }

    /// The device begins a flush, which counts as a request of each flow that has written lately: its program waits for it. Returns these
    /// flows.
    pub(super) fn flushing(&mut self, now: Time) -> impl Iterator<Item = FlowId> + use<> {
        let (limit, written) = (self.far_cost, self.written);
        for id in self.used() {
            let flow = self.get_mut(id);
            let is_lately = flow.outstanding > 0 || now.since(flow.idle_since) <= limit;
            if core::mem::take(&mut flow.wrote) && is_lately {
                flow.learn(now, limit, written);
                flow.decay(now);
                // The next write may be anywhere.
                flow.run = 0;
                flow.outstanding += 1;
                flow.in_device += 1;
                self.flushing |= 1 << id;
            }
        }
        bits(self.flushing)
    }

    /// The flush has ended.
    pub(super) fn flushed(&mut self, now: Time, threshold: u64) {
        for id in bits(core::mem::take(&mut self.flushing)) {
            self.get_mut(id).in_device -= 1;
            self.ended(now, id, threshold);
        }
    }

    /// An asynchronous write has completed.
    pub(super) const fn written(&mut self, now: Time) {
        self.written = now;
    }

    /// Forgets streams that are over.
    pub(super) fn forget(&mut self, now: Time) {
        self.heaviest = 0;
        for id in bits(self.used) {
            let flow = self.get(id);
            if flow.outstanding == 0 && flow.expires <= now {
                self.used &= !(1 << id);
            } else {
                self.heaviest = self.heaviest.max(flow.recent_bytes(now));
            }
        }
    }

    /// Whether a stream has transferred more than `limit` bytes, and not little beside the heaviest one.
    pub(super) fn is_heavy(&self, now: Time, id: FlowId, limit: u64) -> bool {
        let bytes = self.get(id).recent_bytes(now);
        self.heaviest > limit && bytes > limit / SIMILAR && bytes >= self.heaviest / RELATIVE
    }
}
