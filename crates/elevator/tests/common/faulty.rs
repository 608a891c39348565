//! A scheduler with one of many faults.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use dwell_elevator::array::{ArrayMember, Directive, Report};
use dwell_elevator::{
    Admission, Capabilities, Decision, Direction, Growth, Hold, HoldReason, Inspection, Item, Load, Outcome,
    Process, Reason, Request, RequestId, Scheduler, Side, Span, Time, Tunable, TuneError, Tuning, Value,
    View, Wake,
};

/// Ids that the schedulers of one test have received.
pub type Shared = Arc<Mutex<VecDeque<RequestId>>>;

/// Suppresses the messages of faulty schedulers' panics, of which there are thousands.
pub fn silence_panics() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload().downcast_ref::<String>().is_some_and(|message| message.starts_with(PANIC)) {
            hook(info);
        }
    }));
}

/// The beginning of the message of a faulty scheduler's panic.
const PANIC: &str = "a panic of a faulty scheduler";

/// The fault of a faulty scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// Never dispatches every hundredth request.
    Forgets,
    /// Never dispatches its hundredth request, and holds if no other one is queued.
    PassesOver,
    /// Returns idle with requests queued.
    Idle,
    /// Returns these holds.
    HoldsWithoutEnd,
    AwaitsNoCompletion,
    HoldsInThePast,
    HoldsAgainAndAgain,
    HoldsForAYear,
    AwaitsAWordFromOutside,
    /// Dispatches ids of these kinds.
    UnknownId,
    DispatchedId,
    AnyIdInView,
    /// Also dispatches ids that earlier schedulers received.
    IdsFromBeforeASwitch,
    Panics(&'static str),
}

/// First come, first served, until the fault begins.
pub struct Faulty {
    fifo: VecDeque<RequestId>,
    wrong: Wrong,
    /// The number of insertions before the fault.
    after: u64,
    pub inserted: u64,
    last: Option<RequestId>,
    /// Ids that the schedulers of one test have received.
    shared: Shared,
}

impl Faulty {
    pub fn new(wrong: Wrong, after: u64, shared: &Shared) -> Box<Self> {
        let shared = Arc::clone(shared);
        Box::new(Self { fifo: VecDeque::new(), wrong, after, inserted: 0, last: None, shared })
    }

    fn is_wrong(&self) -> bool {
        self.inserted > self.after
    }

    fn may_panic(&self, method: &'static str) {
        let panics = self.wrong == Wrong::Panics(method) && self.is_wrong();
        assert!(!panics, "{PANIC} in {method}");
    }

    fn dispatch(id: RequestId) -> Decision {
        Decision::Dispatch { id, reason: Reason::FirstCome }
    }

    fn wrong_decision(&mut self, now: Time, view: &View<'_>) -> Option<Decision> {
        let hold = |until, wake| Some(Decision::Hold(Hold { until, wake, reason: HoldReason::AwaitProcess }));
        match self.wrong {
            Wrong::Idle => Some(Decision::Idle),
            Wrong::PassesOver if self.fifo.is_empty() && !view.requests.is_empty() => {
                hold(Some(now + Span::from_secs(31_536_000)), Wake::Timer)
            }
            Wrong::HoldsWithoutEnd => hold(None, Wake::Timer),
            Wrong::AwaitsNoCompletion if view.device.in_flight == 0 => hold(None, Wake::Completion),
            Wrong::HoldsInThePast => hold(Some(now), Wake::Timer),
            Wrong::HoldsAgainAndAgain => hold(Some(now + Span::from_millis(3)), Wake::Timer),
            Wrong::HoldsForAYear => hold(Some(now + Span::from_secs(31_536_000)), Wake::Timer),
            Wrong::AwaitsAWordFromOutside => hold(None, Wake::External),
            Wrong::UnknownId => Some(Self::dispatch(RequestId(1 << 30))),
            Wrong::DispatchedId => self.last.map(Self::dispatch),
            Wrong::AnyIdInView => view.requests.iter().last().map(|request| Self::dispatch(request.id)),
            Wrong::IdsFromBeforeASwitch => self.shared.lock().unwrap().pop_front().map(Self::dispatch),
            _ => None,
        }
    }
}

impl Scheduler for Faulty {
    fn insert(&mut self, _now: Time, request: &Request) {
        self.inserted += 1;
        self.may_panic("insert");
        self.shared.lock().unwrap().push_back(request.id);
        let keeps_back = match self.wrong {
            Wrong::Forgets => self.inserted.is_multiple_of(100),
            Wrong::PassesOver => self.inserted == 100,
            _ => false,
        };
        if !keeps_back || !self.is_wrong() {
            self.fifo.push_back(request.id);
        }
    }

    fn merged(&mut self, _now: Time, _request: &Request, growth: Growth<'_>) {
        self.may_panic("merged");
        if let Some(absorbed) = growth.absorbed {
            self.fifo.retain(|&id| id != absorbed.id);
        }
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        self.may_panic("next");
        if self.is_wrong()
            && let Some(decision) = self.wrong_decision(now, view)
        {
            return decision;
        }
        let Some(id) = self.fifo.pop_front() else { return Decision::Idle };
        self.last = Some(id);
        Self::dispatch(id)
    }

    fn completed(&mut self, _now: Time, _request: &Request, _outcome: Outcome) {
        self.may_panic("completed");
    }

    fn exited(&mut self, _now: Time, _process: Process) {
        self.may_panic("exited");
    }

    fn may_queue(
        &self,
        _now: Time,
        _process: Option<Process>,
        _direction: Direction,
        _sync: bool,
    ) -> Admission {
        self.may_panic("may_queue");
        Admission::ByLimit
    }

    fn may_merge(&self, _request: &Request, _addition: &Request, _side: Side) -> bool {
        self.may_panic("may_merge");
        true
    }

    fn longest_wait(&self, _load: Load) -> Option<Span> {
        self.may_panic("longest_wait");
        None
    }
}

impl Capabilities for Faulty {
    fn tuning(&self) -> Option<&dyn Tuning> {
        Some(self)
    }

    fn tuning_mut(&mut self) -> Option<&mut dyn Tuning> {
        Some(self)
    }

    fn inspection(&self) -> Option<&dyn Inspection> {
        Some(self)
    }

    fn array_member(&mut self) -> Option<&mut dyn ArrayMember> {
        Some(self)
    }
}

impl Inspection for Faulty {
    fn inspect(&self, _now: Time) -> Vec<Item> {
        self.may_panic("inspect");
        Vec::new()
    }
}

impl Tuning for Faulty {
    fn table(&self) -> &[Tunable] {
        self.may_panic("tunables");
        &[]
    }

    fn value(&self, _name: &str) -> Option<Value> {
        None
    }

    fn set_value(&mut self, name: &str, _value: Value) -> Result<(), TuneError> {
        self.may_panic("tune");
        Err(TuneError::unknown(name))
    }
}

impl ArrayMember for Faulty {
    fn selected(&mut self, _now: Time, _view: &View<'_>) -> Option<RequestId> {
        self.may_panic("selected");
        None
    }

    fn directed(&mut self, _now: Time, _view: &View<'_>, _directive: Directive) {
        self.may_panic("directed");
    }

    fn report(&mut self) -> Option<Report> {
        self.may_panic("report");
        None
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.may_panic("drop");
        }
    }
}
