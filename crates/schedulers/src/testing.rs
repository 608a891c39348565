//! Helpers of this crate's tests: requests, a seeded random generator, and a host for decision tables.

use alloc::boxed::Box;
use alloc::vec::Vec;

use elevator::Requests;
use elevator::array::{Directive, Report};
use elevator::{
    Decision, Device, Flags, Growth, HoldReason, Item, LastDispatched, Op, Outcome, Positioning, Priority,
    Process, Reason, Request, RequestId, Scheduler, Sector, Sectors, Span, Time, View,
};

pub(crate) use elevator::Random;

/// A read of `sectors` at `start` by an unknown process; without an id, like a submission.
pub(crate) fn request(start: u64, sectors: u32) -> Request {
    Request {
        id: RequestId(u32::MAX),
        serial: 0,
        op: Op::Read,
        start: Sector(start),
        sectors: Sectors(sectors),
        flags: Flags::default(),
        priority: Priority::default(),
        process: None,
        causes: None,
        arrived: Time::ZERO,
    }
}

/// The point `ms` milliseconds after the origin.
pub(crate) fn at_ms(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

/// A scheduler with its requests and a clock; each method is one line of a decision table. With a type, tests of its module see its state.
pub(crate) struct Table<S: Scheduler + ?Sized = dyn Scheduler> {
    pub(crate) requests: Requests,
    pub(crate) scheduler: Box<S>,
    pub(crate) now: Time,
    pub(crate) depth: u32,
    pub(crate) positioning: Option<Box<dyn Positioning>>,
    in_flight: Vec<RequestId>,
    last_dispatched: Option<LastDispatched>,
}

impl Table {
    pub(crate) fn new(scheduler: impl Scheduler + 'static) -> Self {
        Self::of(Box::new(scheduler))
    }
}

impl<S: Scheduler + ?Sized> Table<S> {
    pub(crate) fn of(scheduler: Box<S>) -> Self {
        Self {
            requests: Requests::default(),
            scheduler,
            now: Time::ZERO,
            depth: 1,
            positioning: None,
            in_flight: Vec::new(),
            last_dispatched: None,
        }
    }

    /// Moves the clock.
    pub(crate) fn at(&mut self, ms: u64) -> &mut Self {
        self.now = at_ms(ms);
        self
    }

    /// A request enters the queue; its arrival is now.
    pub(crate) fn insert(&mut self, request: Request) -> RequestId {
        let id = self.requests.add(Request { arrived: self.now, ..request });
        self.scheduler.insert(self.now, &self.requests[id]);
        id
    }

    /// A read of 8 sectors at `start`.
    pub(crate) fn read(&mut self, start: u64) -> RequestId {
        self.insert(request(start, 8))
    }

    /// A read of 8 sectors at `start`, by a process.
    #[allow(dead_code, reason = "for policies that know processes")]
    pub(crate) fn read_by(&mut self, process: u32, start: u64) -> RequestId {
        self.insert(Request { process: Some(Process::single(process)), ..request(start, 8) })
    }

    /// An asynchronous write of 8 sectors at `start`.
    pub(crate) fn write(&mut self, start: u64) -> RequestId {
        self.insert(Request { op: Op::Write, ..request(start, 8) })
    }

    /// The queued request `id` absorbs the queued request `other`, which is adjacent.
    pub(crate) fn absorb(&mut self, id: RequestId, other: RequestId) {
        let absorbed = self.requests.remove(other);
        let was = self.requests[id];
        let grown = self.requests.get_mut(id);
        grown.start = was.start.min(absorbed.start);
        grown.sectors += absorbed.sectors;
        grown.arrived = was.arrived.min(absorbed.arrived);
        let growth = Growth { was_start: was.start, was_sectors: was.sectors, absorbed: Some(&absorbed) };
        self.scheduler.merged(self.now, &self.requests[id], growth);
    }

    /// The device, without its positions.
    fn device(&self) -> Device<'static> {
        Device {
            depth: self.depth,
            in_flight: self.in_flight.len() as u32,
            last_dispatched: self.last_dispatched,
            positioning: None,
        }
    }

    /// What a scheduler sees at a decision.
    pub(crate) fn view(&self) -> View<'_> {
        View { requests: &self.requests, device: self.device() }
    }

    /// The device has a free slot.
    pub(crate) fn next(&mut self) -> Decision {
        let device = self.device();
        let device = Device { positioning: self.positioning.as_deref(), ..device };
        let view = View { requests: &self.requests, device };
        let decision = self.scheduler.next(self.now, &view);
        if let Decision::Dispatch { id, .. } = decision {
            let r = self.requests[id];
            self.in_flight.push(id);
            self.last_dispatched =
                Some(LastDispatched { serial: r.serial, start: r.start, end: r.end(), at: self.now });
        }
        decision
    }

    /// A directive of an array's coordinator.
    pub(crate) fn direct(&mut self, directive: Directive) {
        let device = self.device();
        let view = View { requests: &self.requests, device };
        self.scheduler.array_member().expect("an array member").directed(self.now, &view, directive);
    }

    /// The scheduler's next report to an array's coordinator.
    pub(crate) fn report(&mut self) -> Option<Report> {
        self.scheduler.array_member()?.report()
    }

    /// The state that the scheduler returns for display.
    pub(crate) fn items(&self) -> Vec<Item> {
        self.scheduler.inspection().map_or(Vec::new(), |inspection| inspection.inspect(self.now))
    }

    /// A dispatched request completes.
    pub(crate) fn complete(&mut self, id: RequestId) {
        self.in_flight.retain(|&other| other != id);
        let request = self.requests.remove(id);
        self.scheduler.completed(self.now, &request, Outcome::Done);
    }

    /// Expects a dispatch of any request, which stays in the device.
    #[track_caller]
    pub(crate) fn dispatches(&mut self) -> RequestId {
        match self.next() {
            Decision::Dispatch { id, .. } => id,
            other => panic!("expected a dispatch at {}, got {other:?}", self.now),
        }
    }

    /// Expects a dispatch of `id`, because of `reason`; it stays in the device.
    #[track_caller]
    pub(crate) fn sends(&mut self, id: RequestId, reason: Reason) {
        assert_eq!(self.next(), Decision::Dispatch { id, reason }, "at {}", self.now);
    }

    /// Expects a dispatch of `id`, because of `reason`, and completes it at once.
    #[track_caller]
    pub(crate) fn serves(&mut self, id: RequestId, reason: Reason) {
        self.sends(id, reason);
        self.complete(id);
    }

    /// Expects a deliberate wait, because of `reason`, until `until` at the latest.
    #[track_caller]
    pub(crate) fn holds(&mut self, reason: HoldReason, until: Option<Time>) {
        match self.next() {
            Decision::Hold(hold) => assert_eq!((hold.reason, hold.until), (reason, until), "at {}", self.now),
            other => panic!("expected to wait ({reason}) at {}, got {other:?}", self.now),
        }
    }

    /// Expects that nothing is queued.
    #[track_caller]
    pub(crate) fn idles(&mut self) {
        assert_eq!(self.next(), Decision::Idle, "at {}", self.now);
    }
}

/// The coordinator of an array and one of its members.
pub(crate) mod member {
    use elevator::array::Directive;
    use elevator::service_time::{MeasuredPoint, ServiceCurve};
    use elevator::{RequestId, Span};

    use super::Table;

    /// A distant position: 10 ms. Distances below 1,000 sectors take 1 ms.
    pub(crate) const ELSEWHERE: u64 = 1_000_000_000;

    pub(crate) fn service_times() -> ServiceCurve {
        let points = [(0, 1), (1_000, 1), (100_000, 10)];
        let points = points.map(|(distance, ms)| MeasuredPoint { distance, time: Span::from_millis(ms) });
        ServiceCurve::fit(&points, Span::ZERO)
    }

    /// Two queued requests: the first of a stream that the coordinator has called, and a distant one.
    pub(crate) fn called(t: &mut Table) -> (RequestId, RequestId) {
        let other = t.read(ELSEWHERE);
        let first = t.read(0);
        t.direct(Directive::Urgent(first));
        t.direct(Directive::Adopt(first));
        (first, other)
    }
}
