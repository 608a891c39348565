//! The host: the requests that the kernel has queued or dispatched, and the policy that orders them.

use alloc::vec::Vec;
use core::fmt;

use elevator::service_time::ServiceCurve;
use elevator::{
    Admission, Decision, Device, Direction, Flags, Growth, Hold, HoldReason, Item, LastDispatched, Op,
    Outcome, Priority, Process, Reason, Request, RequestId, Requests, Sector, Sectors, Side, Span, Time,
    Tunable, TuneError, Value, View, Wake,
};
use schedulers::listing::BoxedScheduler;
use schedulers::{Environment, Spec, SpecError};

/// What the kernel states about a request.
#[derive(Clone, Copy, Debug)]
pub struct Submission {
    /// What the request does.
    pub op: Op,
    /// First sector (512 bytes).
    pub start: Sector,
    /// Length in sectors.
    pub sectors: Sectors,
    /// Synchronous, metadata, read-ahead, FUA.
    pub flags: Flags,
    /// I/O priority.
    pub priority: Priority,
    /// The submitter, if the kernel reports one.
    pub process: Option<Process>,
}

/// What the kernel does with a free tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Dispatch this request.
    Dispatch {
        /// The request.
        id: RequestId,
        /// The cookie with which it was inserted.
        cookie: usize,
        /// Why the policy chose it.
        reason: Reason,
    },
    /// Wait.
    Hold {
        /// When to ask again at the latest; `None`: after the next completion.
        until: Option<Time>,
        /// Why the policy waits.
        reason: HoldReason,
    },
    /// Nothing is queued.
    Idle,
}

/// What a policy did that a host cannot accept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It dispatched a request that is not queued.
    UnknownRequest(RequestId),
    /// It stated that nothing is queued while requests are.
    Lost {
        /// Requests that are queued.
        queued: u32,
    },
    /// It waits for a completion while the device has no request.
    EndlessHold {
        /// Requests that are queued.
        queued: u32,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownRequest(id) => write!(f, "dispatched {id:?}, which is not queued"),
            Self::Lost { queued } => write!(f, "stated that nothing is queued, but {queued} requests are"),
            Self::EndlessHold { queued } => {
                write!(f, "waits for a completion with {queued} requests queued and none at the device")
            }
        }
    }
}

/// Where a request is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Queued,
    Dispatched,
    /// Dispatched by a policy that has been replaced since.
    Inherited,
}

#[derive(Clone, Copy)]
struct Slot {
    state: State,
    cookie: usize,
}

/// A fault that a test makes a host's policy have from the next call on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Injected {
    /// The policy panics.
    Panic,
    /// It dispatches a request that is not queued.
    UnknownRequest,
    /// It holds its requests for an hour, and again.
    EndlessHold,
    /// It forgets the next request, and waits where it would state that nothing is queued.
    Forget,
}

/// The id of a request that is not queued: policies look for the additions to a request among their queued ones.
const NOT_QUEUED: RequestId = RequestId(u32::MAX);

/// How long a policy with [`Injected::Forget`] waits when it has nothing else to dispatch.
const FORGETFUL_HOLD: Span = Span::from_millis(5);
const HOUR: Span = Span::from_secs(3_600);

/// A policy and the requests that it orders.
pub struct Host {
    spec: Spec,
    environment: Environment,
    scheduler: BoxedScheduler,
    requests: Requests,
    slots: Vec<Slot>,
    depth: u32,
    queued: u32,
    in_flight: u32,
    last: Option<LastDispatched>,
    is_light: bool,
    shows_processes: bool,
    injected: Option<Injected>,
    forgotten: Option<RequestId>,
}

impl Host {
    /// A host for `spec` (`stream(deadline){stream_time_slice=80ms}`) with a device that takes `depth` requests at once.
    ///
    /// # Errors
    /// If no such policy exists, a setting is out of range, or the policy needs hooks above the block layer.
    pub fn new(spec: &str, environment: Environment, depth: u32) -> Result<Self, SpecError> {
        let spec = Spec::parse(spec)?.at_the_block()?;
        let mut scheduler = spec.clone().build(&environment)?;
        let slots = Vec::with_capacity(environment.nr_requests as usize);
        let is_light = scheduler.short_path().is_some();
        Ok(Self {
            spec,
            environment,
            scheduler,
            requests: Requests::default(),
            slots,
            depth,
            queued: 0,
            in_flight: 0,
            last: None,
            is_light,
            shows_processes: true,
            injected: None,
            forgotten: None,
        })
    }

    /// The policy's full name with its settings.
    #[must_use]
    pub const fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Requests that are queued, not dispatched.
    #[must_use]
    pub const fn queued(&self) -> u32 {
        self.queued
    }

    /// Whether the policy may hold requests back. Such a policy is also asked with nothing queued, after every event: it may end the
    /// service of a stream or process then, or begin to wait for the next request.
    #[must_use]
    pub const fn may_wait(&self) -> bool {
        !self.spec.listing().is_work_conserving()
    }

    /// Whether decisions depend on the queued requests and the time alone ([`elevator::ShortPath`]). A request of such a policy ends when
    /// it is dispatched, without [`completed`](Self::completed).
    #[must_use]
    pub const fn is_light(&self) -> bool {
        self.is_light
    }

    /// Whether [`pass`](Self::pass) changes nothing, and its reason is always [`Reason::FirstCome`]. A host that does not report decisions may omit
    /// the call.
    #[must_use]
    pub fn passes_freely(&self) -> bool {
        self.spec.listing().name == "noop"
    }

    /// Whether processes do not affect decisions.
    #[must_use]
    pub fn ignores_processes(&self) -> bool {
        self.scheduler.ignores_processes()
    }

    /// Sets how many requests the device takes at once.
    pub const fn set_depth(&mut self, depth: u32) {
        self.depth = depth;
    }

    /// Sets whether the policy sees which process submits a request.
    pub const fn show_processes(&mut self, shows: bool) {
        self.shows_processes = shows;
    }

    fn request(&self, now: Time, submission: &Submission) -> Request {
        Request {
            id: NOT_QUEUED,
            serial: 0,
            op: submission.op,
            start: submission.start,
            sectors: submission.sectors,
            flags: submission.flags,
            priority: submission.priority,
            process: submission.process.filter(|_| self.shows_processes),
            causes: None,
            arrived: now,
        }
    }

    /// A request enters the queue; the answer is its id until it completes or is absorbed.
    pub fn insert(&mut self, now: Time, submission: &Submission, cookie: usize) -> RequestId {
        let id = self.requests.add(self.request(now, submission));
        let slot = Slot { state: State::Queued, cookie };
        match self.slots.get_mut(id.index()) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        self.queued += 1;
        if self.injected == Some(Injected::Forget) && self.forgotten.is_none() {
            self.forgotten = Some(id);
        } else {
            self.scheduler.insert(now, &self.requests[id]);
        }
        id
    }

    /// Makes the policy fail: for tests of the fallback.
    pub const fn inject(&mut self, fault: Injected) {
        self.injected = Some(fault);
    }

    /// A queued request has grown to `sectors` from `start`, by a submission or by the queued request `absorbed`, which ends.
    ///
    /// # Panics
    /// If either is not queued.
    pub fn merged(
        &mut self,
        now: Time,
        id: RequestId,
        start: Sector,
        sectors: Sectors,
        absorbed: Option<RequestId>,
    ) {
        let request = self.requests.get_mut(id);
        let (was_start, was_sectors) = (request.start, request.sectors);
        (request.start, request.sectors) = (start, sectors);
        let absorbed = absorbed.map(|absorbed| self.requests[absorbed]);
        let growth = Growth { was_start, was_sectors, absorbed: absorbed.as_ref() };
        if self.forgotten.is_none() {
            self.scheduler.merged(now, &self.requests[id], growth);
        }
        if let Some(absorbed) = absorbed {
            self.queued -= 1;
            self.free(absorbed.id);
        }
    }

    /// Whether the queued request `id` may grow by `submission` on that side.
    ///
    /// # Panics
    /// If `id` is not queued.
    #[must_use]
    pub fn may_merge(&self, now: Time, id: RequestId, submission: &Submission, side: Side) -> bool {
        let addition = self.request(now, submission);
        self.forgotten.is_none() && self.scheduler.may_merge(&self.requests[id], &addition, side)
    }

    /// Whether the queued request `id` may absorb the queued request `addition` on that side.
    ///
    /// # Panics
    /// If either is not queued.
    #[must_use]
    pub fn may_absorb(&self, id: RequestId, addition: RequestId, side: Side) -> bool {
        self.forgotten.is_none()
            && self.scheduler.may_merge(&self.requests[id], &self.requests[addition], side)
    }

    /// Whether the submitter may have one more tag.
    #[must_use]
    pub fn may_queue(
        &self,
        now: Time,
        process: Option<Process>,
        direction: Direction,
        sync: bool,
    ) -> Admission {
        self.scheduler.may_queue(now, process.filter(|_| self.shows_processes), direction, sync)
    }

    /// What the kernel does with a free tag. A hold with nothing queued only states when to ask again.
    ///
    /// # Errors
    /// If the policy's answer cannot be followed. The policy must not be called again.
    pub fn next(&mut self, now: Time) -> Result<Next, Fault> {
        let device = Device {
            depth: self.depth,
            in_flight: self.in_flight,
            last_dispatched: self.last,
            positioning: None,
        };
        let decision = match self.injected {
            None | Some(Injected::Forget) => {
                self.scheduler.next(now, &View { requests: &self.requests, device })
            }
            Some(fault) => faulty(fault, now),
        };
        match decision {
            Decision::Idle if self.forgotten.is_some() && self.queued > 0 => {
                Ok(Next::Hold { until: Some(now + FORGETFUL_HOLD), reason: HoldReason::AwaitChild })
            }
            Decision::Dispatch { id, reason } => self.dispatch(now, id, reason),
            Decision::Hold(hold) if hold.until.is_none() && self.in_flight == 0 && self.queued > 0 => {
                Err(Fault::EndlessHold { queued: self.queued })
            }
            Decision::Hold(hold) => Ok(Next::Hold { until: hold.until, reason: hold.reason }),
            Decision::Idle if self.queued > 0 => Err(Fault::Lost { queued: self.queued }),
            Decision::Idle => Ok(Next::Idle),
        }
    }

    /// A light policy dispatches a request that arrived in the empty queue at `arrived` and is still the only one: what
    /// [`insert`](Self::insert) and [`next`](Self::next) do, without their cost.
    ///
    /// # Panics
    /// If the policy is not [light](Self::is_light).
    pub fn pass(
        &mut self,
        now: Time,
        arrived: Time,
        direction: Direction,
        start: Sector,
        sectors: Sectors,
    ) -> Reason {
        self.last = Some(LastDispatched { serial: 0, start, end: start + sectors, at: now });
        self.scheduler.short_path().expect("the host asks first").dispatch_alone(now, arrived, direction)
    }

    fn dispatch(&mut self, now: Time, id: RequestId, reason: Reason) -> Result<Next, Fault> {
        let slot = self.slots.get_mut(id.index()).filter(|slot| slot.state == State::Queued);
        let slot = slot.ok_or(Fault::UnknownRequest(id))?;
        slot.state = State::Dispatched;
        let cookie = slot.cookie;
        let request = &self.requests[id];
        self.last = Some(LastDispatched {
            serial: request.serial,
            start: request.start,
            end: request.end(),
            at: now,
        });
        self.queued -= 1;
        if self.is_light {
            self.free(id);
        } else {
            self.in_flight += 1;
        }
        Ok(Next::Dispatch { id, cookie, reason })
    }

    /// The device is done with a dispatched request, or the kernel queues it again without the policy
    /// ([`Outcome::GivenBack`]). Not for a light policy.
    ///
    /// # Panics
    /// If the request is not dispatched.
    pub fn completed(&mut self, now: Time, id: RequestId, outcome: Outcome) {
        self.in_flight -= 1;
        if self.slots[id.index()].state == State::Dispatched {
            self.scheduler.completed(now, &self.requests[id], outcome);
        }
        self.free(id);
    }

    fn free(&mut self, id: RequestId) {
        self.requests.remove(id);
        self.slots[id.index()] = Slot { state: State::Free, cookie: 0 };
    }

    /// A process and its I/O context ended.
    pub fn exited(&mut self, now: Time, process: Process) {
        if !self.shows_processes {
            return;
        }
        self.scheduler.exited(now, process);
        // Policies that consider contexts end one with the task of the same number, since several tasks may share it.
        if process.context != process.task {
            self.scheduler.exited(now, Process { task: process.context, ..process });
        }
    }

    /// Replaces the assumed service times by `curve`: the policy is made anew with its present settings and receives the
    /// queued requests in order of arrival. Requests at the device stay there.
    ///
    /// # Errors
    /// If the policy cannot be made; the present one stays.
    pub fn set_service_times(&mut self, now: Time, curve: ServiceCurve) -> Result<(), SpecError> {
        let environment = Environment { service_times: curve, ..self.environment.clone() };
        let mut scheduler = self.spec.clone().build(&environment)?;
        for tunable in self.scheduler.tunables() {
            if let Some(value) = self.scheduler.tunable(tunable.name) {
                // Same policy, so the value is in range.
                let _ = scheduler.tune(tunable.name, value);
            }
        }
        let mut queued: Vec<&Request> = self
            .requests
            .iter()
            .filter(|request| self.slots[request.id.index()].state == State::Queued)
            .collect();
        queued.sort_unstable_by_key(|request| request.serial);
        for request in queued {
            scheduler.insert(now, request);
        }
        for slot in &mut self.slots {
            if slot.state == State::Dispatched {
                slot.state = State::Inherited;
            }
        }
        (self.scheduler, self.environment) = (scheduler, environment);
        Ok(())
    }

    /// The policy's tunables: its own, then those of what it wraps.
    #[must_use]
    pub fn tunables(&self) -> &[Tunable] {
        self.scheduler.tunables()
    }

    /// The present value of a tunable.
    #[must_use]
    pub fn tunable(&self, name: &str) -> Option<Value> {
        self.scheduler.tunable(name)
    }

    /// Sets a tunable.
    ///
    /// # Errors
    /// If no such tunable exists, or the value is out of range.
    pub fn tune(&mut self, name: &str, value: Value) -> Result<(), TuneError> {
        self.scheduler.tune(name, value)
    }

    /// Sets a tunable to what a text states, with the unit that [`tunable`](Self::tunable) prints or without `sectors`.
    ///
    /// # Errors
    /// As [`tune`](Self::tune), and if the text is no value of the tunable.
    pub fn tune_text(&mut self, tunable: &Tunable, text: &str) -> Result<(), TuneError> {
        // Printed with their unit, which the parser does not take back.
        let value = tunable.parse(text.trim().trim_end_matches(" sectors"))?;
        self.tune(tunable.name, value)
    }

    /// What the policy keeps: streams, groups. Allocates.
    #[must_use]
    pub fn inspect(&self, now: Time) -> Vec<Item> {
        self.scheduler.inspection().map_or_else(Vec::new, |inspection| inspection.inspect(now))
    }
}

fn faulty(fault: Injected, now: Time) -> Decision {
    match fault {
        Injected::Panic => panic!("injected"),
        Injected::UnknownRequest => {
            Decision::Dispatch { id: RequestId(u32::MAX / 2), reason: Reason::FirstCome }
        }
        Injected::EndlessHold | Injected::Forget => Decision::Hold(Hold {
            until: Some(now + HOUR),
            wake: Wake::Timer,
            reason: HoldReason::AwaitChild,
        }),
    }
}
