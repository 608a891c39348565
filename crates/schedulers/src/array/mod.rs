//! Stream scheduling on a disk array: a policy over the members' policies.
//!
//! # Idea
//! Striping hides locality: between two requests of a stream for one disk lie the stream's requests to all other disks, and their
//! duration depends on those disks' decisions. If all disks served one stream at a time, the gaps would shrink to the program's
//! think time. The coordinator treats the array as one large *virtual disk* and finds *virtual streams* there, and for each of
//! them a *physical stream* on every disk. It judges from *optimistic* arrivals whether the physical streams would be worth
//! waiting for: actual arrivals less the response times in between. When every disk has an established physical stream, the
//! coordinator brings all heads to it, and the disks serve it together for a *stream time slice*.
//!
//! # State
//! Of each virtual stream: its latest end, its length, a *think clock* that stands still while any of its requests is
//! unfinished, and per disk the end, length and completion (by the think clock) of the physical stream. The stream that the
//! array serves, until when, and the disks whose heads have reached it.
//!
//! # Order of decisions
//! 1. A request to the array extends the nearest virtual stream for which the inequality holds, in the array's addresses, against
//!    the pending requests of the disk that completed the parent last. Otherwise it begins a virtual stream.
//! 2. Each part extends its disk's physical stream if its optimistic arrival satisfies the inequality there; otherwise that
//!    physical stream starts again.
//! 3. A virtual stream with `stream_threshold` × members parts whose physical streams all have `stream_threshold` is *ready*. If
//!    no stream is served, it is served: its next request to each disk is *urgent*, and each disk *adopts* the stream, by
//!    actual arrivals from then on.
//! 4. When every disk reports the stream *established*, the slice begins, the same for all disks.
//! 5. A *broken* physical stream makes the virtual stream *unusable*. It is kept while it lasts, so that the same requests do not
//!    form another stream and trigger again.
//! 6. When the slice is over, the ready stream that was not served for longest is next.
//! 7. With `trial_slices`: after a stream has broken, the members occasionally do not wait for some slices. If the array is
//!    faster without waiting, it continues so, and occasionally tries waiting (*trials*).
//!
//! # Where it differs from the source
//! - The paper's array had requests of at most a stripe unit, on one disk each. Here a request can span many disks: it counts once
//!   per part, and the response times *in between* are the time in which any request of the stream was unfinished. For
//!   sequential requests this is their sum; read-ahead with several unfinished requests is covered too.
//! - A request that arrives before its parent has completed has no wait time; as on one disk, it must be within `early_child`.
//! - An urgent request waits until its member's device has finished what it has, or the device's own queue would move the head
//!   away again. Until all heads are there, a physical stream cannot break, and every request of the virtual stream is its child. With
//!   a full device queue this gathering takes long, so it may last four slices; between streams it takes one seek.
//! - A disk waits through the second chance of an adopted stream: if it left, all disks would lose the stream.
//! - Members serve streams of their own while none is adopted (`directed` off). With `directed` on, an unusable stream is left to
//!   the wrapped policy; measured on five disks, this loses the gain of single disks.
//! - When no other stream is ready, the stream just served stands back for one slice, so that requests of no stream are served
//!   (*rest*). The paper is silent on this.
//! - Requests in a device count as pending, as on one disk.
//! - The paper judges each wait and keeps a broken stream from triggering again, but not whether waiting together pays at all.
//!   `trial_slices` measures this.
//! - With `retry_slices`, a stream that broke is tried again after some slices: a host that is late by tens of milliseconds breaks
//!   streams that are worth waiting for.
//! - With `retry_slices`, services during which the array transfers less than without one count as a break, and for a time only streams
//!   are served that have paid (`worth`). The paper has no such rule.
//! - With `retry_slices`, the heads gather no longer when the stream has had no request for the longest wait of a member: its program has
//!   ended. The paper does not describe gathering.
//! - A failed member is not waited for, and thresholds count the remaining members.
//!
//! # Not for
//! Arrays of devices without heads. Streams whose requests never reach some member: they never become ready. There is no bound on
//! waiting: the coordinator sets the members' slices.
//!
//! # Sources
//! Xu and Jiang, "A Scheduling Framework That Makes Any Disk Schedulers Non-Work-Conserving Solely Based on Request
//! Characteristics", FAST 2011, section 2 (design, disk arrays).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use elevator::array::{ArrayRequest, ArrayRequestId, Coordinator, Directive, Member, Report};
use elevator::service_time::ServiceCurve;
use elevator::{Op, Request, RequestId, Sector, Sectors, Span, Time, TuneError, Value, tunables};

use crate::listing::{Listing, Make};
use crate::parts::per_request::PerRequest;
use crate::policies::stream::StreamScheduling;

mod service;
#[cfg(test)]
mod tests;
mod trial;
mod virtual_streams;
mod worth;

use self::service::Service;
use self::trial::Trials;
use self::virtual_streams::{Joining, NO_STREAM, StreamId, VirtualStreams};
use self::worth::Worth;

tunables! {
    /// Tunables. The members' framework takes the same values for the same names.
    pub struct Tunables {
        /// Length from which a physical stream is established; a virtual stream needs as many per member.
        stream_threshold: Count = 4, 1, 1_000_000;
        /// By how much a stream must exceed the threshold for a second chance.
        tolerance_factor: Percent = 50, 0, 100_000;
        /// Duration of the second chance, as a share of the first. 0: no second chance.
        second_chance: Percent = 100, 0, 10_000;
        /// How long the whole array serves one stream.
        stream_time_slice: Span = Span::from_millis(124), Span::from_millis(1), Span::from_secs(5);
        /// Slices for which waiting and not waiting are each tried before they are compared. 0: no trials, as in the
        /// paper. 8, about a second, gains 3 to 15% with a slow member and costs as much in a run of a few seconds.
        trial_slices: Count = 0, 0, 1_000;
        /// How long a stream that broke is not served, in slices; twice as long after each further break, up to 64 times,
        /// until a slice has passed without one. 0: while the stream lasts, as in the paper.
        retry_slices: Count = 0, 0, 1_000;
        /// By how much the other conduct must be faster to be adopted. Over a second, rates vary by as much without a cause.
        trial_margin: Percent = 10, 0, 1_000;
        /// Cost of a distance backward, as a share of the same distance forward.
        backward_penalty: Percent = 150, 100, 10_000;
        /// How near a child must be that arrives before its parent has completed: its service time as a share of the selected
        /// pending request's.
        early_child: Percent = 25, 0, 100;
        /// Whether members serve only adopted streams. Off: also streams of their own, while none is adopted.
        directed: Flag = false, false, true;
        /// Whether a member for which nothing else is pending accepts the next request of the stream in service however late it is.
        late_child: Flag = false, false, true;
    }
}

const ABOUT: &str = "stream scheduling on a disk array: all members serve one stream at a time if that is faster; around any work-conserving scheduler";

pub(crate) const LISTINGS: &[Listing] = &[Listing::new(
    "array-stream",
    ABOUT,
    Make::Array {
        member: |environment, policy| {
            Box::new(StreamScheduling::member(policy, environment.service_times.clone()))
        },
        member_tunables: crate::policies::stream::Tunables::TABLE,
        coordinator: |environment, members| {
            Box::new(StreamCoordinator::new(environment.service_times.clone(), members))
        },
    },
)
.with_source("FAST 2011, a scheduling framework that makes any disk schedulers non-work-conserving")
.with_tunables(Tunables::TABLE)];

/// A request in a member's queue or device.
#[derive(Clone, Copy)]
struct Known {
    stream: StreamId,
    /// The first sector of its array request.
    logical: Sector,
    /// Its first sector on the member.
    start: Sector,
    /// Whether it is queued or in the device; otherwise the entry is left over from an earlier request with this id.
    is_there: bool,
}

impl Default for Known {
    fn default() -> Self {
        Self { stream: NO_STREAM, logical: Sector(0), start: Sector(0), is_there: false }
    }
}

/// The state of a member.
#[derive(Clone, Default)]
struct MemberState {
    requests: PerRequest<Known>,
    in_device: Vec<RequestId>,
}

impl MemberState {
    fn known(&self, id: RequestId) -> Option<Known> {
        self.requests.get(id).copied().filter(|known| known.is_there)
    }

    /// The request ended; returns its stream.
    fn forget(&mut self, id: RequestId) -> Option<StreamId> {
        let known = self.known(id)?;
        self.requests[id].is_there = false;
        Some(known.stream)
    }
}

/// An unfinished array request.
#[derive(Clone, Copy)]
struct Job {
    stream: StreamId,
    start: Sector,
    sectors: Sectors,
}

/// The coordinator of stream scheduling.
pub struct StreamCoordinator {
    tunables: Tunables,
    service_times: ServiceCurve,
    members: Vec<MemberState>,
    jobs: Vec<Job>,
    streams: VirtualStreams,
    service: Option<Service>,
    /// The stream that was served last, and until when it stands back if no other is ready.
    resting: Option<(StreamId, Time)>,
    trials: Trials,
    worth: Worth,
    directives: VecDeque<(Member, Directive)>,
}

impl StreamCoordinator {
    /// A coordinator of `members` members with these service times.
    #[must_use]
    pub fn new(service_times: ServiceCurve, members: u32) -> Self {
        Self {
            tunables: Tunables::default(),
            service_times,
            members: vec![MemberState::default(); members as usize],
            jobs: Vec::new(),
            streams: VirtualStreams::new(members as usize),
            service: None,
            resting: None,
            trials: Trials::new(),
            worth: Worth::default(),
            directives: VecDeque::new(),
        }
    }

    fn served(&self) -> Option<StreamId> {
        self.service.as_ref().map(Service::stream)
    }

    fn set_job(&mut self, id: ArrayRequestId, job: Job) {
        let index = id.0 as usize;
        if index >= self.jobs.len() {
            self.jobs.resize((index + 1).next_power_of_two(), job);
        }
        self.jobs[index] = job;
    }

    fn direct(&mut self, member: Member, directive: Directive) {
        self.directives.push_back((member, directive));
    }

    /// service time(selected pending request) for a stream on a member, by the members' addresses and by the array's, from
    /// these ends of its latest requests: the policy's candidate or the device's nearest request. `None` if only the stream's
    /// own requests are pending there.
    fn selected_pending(
        &self,
        member: Member,
        stream: StreamId,
        selected: Option<RequestId>,
    ) -> Option<(Span, Span)> {
        let state = &self.members[member.index()];
        let (physical, logical) = self.streams.ends(stream, member);
        let penalty = self.tunables.backward_penalty;
        let pending = selected.iter().chain(&state.in_device).filter_map(|&id| state.known(id));
        let others = pending.filter(|known| known.stream != stream);
        let costs = others.map(|known| {
            let on_member = self.service_times.service_time(physical, known.start, penalty);
            (on_member, self.service_times.service_time(logical, known.logical, penalty))
        });
        costs.reduce(|a, b| (a.0.min(b.0), a.1.min(b.1)))
    }
}

impl Coordinator for StreamCoordinator {
    fn lost(&mut self, now: Time, member: Member) {
        self.streams.lose(member);
        // A replacement has a queue of its own, whose ids begin anew.
        self.members[member.index()] = MemberState::default();
        // The remaining members suffice, but this member's head was expected.
        self.end_service(now);
    }

    fn returned(&mut self, now: Time, member: Member) {
        self.streams.regain(member);
        // It did not adopt the stream in service.
        self.end_service(now);
    }

    fn arrived(&mut self, now: Time, request: &ArrayRequest) {
        let mut stream = NO_STREAM;
        if matches!(request.op, Op::Read | Op::Write) {
            let judge = Joining {
                now,
                tunables: &self.tunables,
                service_times: &self.service_times,
                served: self.served(),
            };
            stream = self.streams.arrived(&judge, request);
        }
        self.set_job(request.id, Job { stream, start: request.start, sectors: request.sectors });
        let was = self.trials.conduct();
        self.trials.arrived(now, &self.tunables);
        self.take_up(now, was);
    }

    fn inserted(&mut self, now: Time, member: Member, request: &Request, of: ArrayRequestId) {
        let Job { stream, start, .. } = self.jobs[of.0 as usize];
        let known = Known { stream, logical: start, start: request.start, is_there: true };
        self.members[member.index()].requests.set(request.id, known);
        if stream == NO_STREAM {
            return;
        }
        let judge = Joining {
            now,
            tunables: &self.tunables,
            service_times: &self.service_times,
            served: self.served(),
        };
        self.streams.inserted(&judge, stream, member, request);
        self.has_come(stream, member, request.id);
        self.serve_if_ready(now, stream);
    }

    fn grown(&mut self, _now: Time, member: Member, request: &Request, absorbed: Option<&Request>) {
        let state = &mut self.members[member.index()];
        let Some(Known { stream, .. }) = state.known(request.id) else { return };
        self.streams.grown(stream, member, request);
        if let Some(absorbed) = absorbed
            && let Some(other) = state.forget(absorbed.id)
        {
            self.streams.left_queue(other, member, absorbed.id);
            self.streams.left_member(other, member);
        }
    }

    fn dispatched(&mut self, _now: Time, member: Member, request: &Request) {
        let state = &mut self.members[member.index()];
        // Counted once, although requests that the device gave back are dispatched again.
        if !state.in_device.contains(&request.id) {
            state.in_device.push(request.id);
        }
        if let Some(Known { stream, .. }) = state.known(request.id) {
            self.streams.left_queue(stream, member, request.id);
        }
    }

    fn part_completed(&mut self, now: Time, member: Member, request: &Request, selected: Option<RequestId>) {
        let state = &mut self.members[member.index()];
        if let Some(place) = state.in_device.iter().position(|&id| id == request.id) {
            state.in_device.swap_remove(place);
        }
        let Some(stream) = state.forget(request.id).filter(|&stream| stream != NO_STREAM) else { return };
        let budgets = self.selected_pending(member, stream, selected);
        self.streams.left_member(stream, member);
        self.streams.part_completed(now, stream, member, budgets);
    }

    fn completed(&mut self, now: Time, id: ArrayRequestId) {
        let Job { stream, sectors, .. } = self.jobs[id.0 as usize];
        self.streams.completed(now, stream);
        self.trials.completed(now, sectors);
        self.conduct_trials(now);
    }

    fn reported(&mut self, now: Time, member: Member, report: Report) {
        match report {
            Report::Established => self.established(now, member),
            Report::Broken => self.broken(now),
        }
    }

    fn missed(&mut self, _now: Time, member: Member) {
        self.call_again(member);
    }

    fn next_event(&self) -> Option<Time> {
        let service = self.service.as_ref().map(|service| service.until);
        service.into_iter().chain(self.gathers_until()).chain(self.trials.next_event()).min()
    }

    fn pass(&mut self, now: Time) {
        if self.service.as_ref().is_some_and(|service| service.until <= now) {
            self.slice_over(now);
        } else if self.gathers_until().is_some_and(|until| until <= now) {
            self.end_service(now);
        }
        self.conduct_trials(now);
    }

    fn directive(&mut self) -> Option<(Member, Directive)> {
        self.directives.pop_front()
    }

    fn tune(&mut self, name: &str, value: Value) -> Result<(), TuneError> {
        self.tunables.set(name, value)
    }
}
