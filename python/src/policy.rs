//! A policy that is a Python object, as a [`Scheduler`].
//!
//! An exception in a method, and a decision that breaks the contract, end the run: the exception is stored, and the stack of the run unwinds to
//! [`catching`], which returns it. Such runs are therefore on the caller's thread, which has the GIL.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

use elevator::check::LONGEST_HOLD;
use elevator::{
    Capabilities, Decision, Hold, HoldReason, Load, Outcome, Process, Reason, RequestId, Scheduler, Side,
    Span, Time, Wake,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use schedulers::listing::{BoxedScheduler, Environment, Listing, Make};

use crate::error;
use crate::exit;
use crate::objects;
use crate::waits::Waits;

/// The policy of Python objects. [`catching`] sets which.
pub(crate) static LISTING: Listing =
    Listing::new("python", "a policy written in Python", Make::Scheduler(make)).with_source("docs/python.md");

thread_local! {
    /// The class or function that makes the policies of the present run, and how they are verified.
    static FACTORY: RefCell<Option<(Py<PyAny>, Verify)>> = const { RefCell::new(None) };
    /// The exception that ends the present run.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Who verifies the decisions of a policy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verify {
    /// The policy's host here, so that a run ends with the first violation.
    Here,
    /// The checker, which reports what it finds.
    Checker,
}

/// Ends the run with an exception.
fn raise(error: PyErr) -> ! {
    RAISED.set(Some(error));
    // Unlike a panic, this prints nothing.
    resume_unwind(Box::new("a policy raised an exception"))
}

/// Calls `work`, which may build policies with `factory`.
///
/// # Errors
/// The exception of a policy, or a defect.
pub(crate) fn catching<T>(
    factory: Py<PyAny>,
    verify: Verify,
    work: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    exit::check()?;
    let _call = exit::Call::begin();
    let before = FACTORY.replace(Some((factory, verify)));
    let result = catch_unwind(AssertUnwindSafe(work));
    FACTORY.set(before);
    result.unwrap_or_else(|panic| Err(RAISED.take().unwrap_or_else(|| error::internal(&*panic))))
}

fn make(_: &Environment) -> BoxedScheduler {
    Box::new(PythonPolicy::new())
}

/// Holds in a row, without an event, after which the policy is wrong: a run of short holds would practically not end.
const HOLDS_MAX: u32 = 100_000;

const HOLDS_NOTHING: &str = "it holds with nothing queued; return None";

/// A policy of the present factory.
pub(crate) struct PythonPolicy {
    object: Py<PyAny>,
    name: String,
    queued: BTreeSet<u32>,
    verify: Verify,
    /// Holds since the last dispatch, arrival or completion.
    holds: u32,
    /// If the policy states a bound, and is verified here.
    waits: Option<Waits>,
    completed: bool,
    exited: bool,
    may_merge: bool,
    longest_wait: bool,
}

impl PythonPolicy {
    /// # Panics
    /// Outside [`catching`].
    pub(crate) fn new() -> Self {
        Python::attach(|py| Self::made(py).unwrap_or_else(|error| raise(error)))
    }

    fn made(py: Python<'_>) -> PyResult<Self> {
        let (factory, verify) = FACTORY
            .with_borrow(|factory| factory.as_ref().map(|(factory, verify)| (factory.clone_ref(py), *verify)))
            .expect("a factory");
        let object = factory.bind(py).call0()?;
        let name = object.get_type().name()?.to_string();
        for method in ["insert", "merged", "next"] {
            if !object.hasattr(method)? {
                return Err(error::input(format!(
                    "policy {name}: it has no method '{method}'; derive the class from dwell.Policy, which documents all methods"
                )));
            }
        }
        let has = |method| {
            Ok::<bool, PyErr>(object.hasattr(method)? && !object.getattr(method)?.hasattr("_dwell_default")?)
        };
        let longest_wait = has("longest_wait")?;
        Ok(Self {
            waits: (longest_wait && verify == Verify::Here).then(Waits::default),
            completed: has("completed")?,
            exited: has("exited")?,
            may_merge: has("may_merge")?,
            longest_wait,
            object: object.unbind(),
            name,
            queued: BTreeSet::new(),
            verify,
            holds: 0,
        })
    }

    /// Calls a method and converts its result; ends the run if it raises an exception.
    fn call<R>(&self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<R>) -> R {
        Python::attach(|py| {
            let answer = exit::check().and_then(|()| call(self.object.bind(py)));
            answer.unwrap_or_else(|error| raise(error))
        })
    }

    fn violation(&self, method: &str, now: Time, problem: &str) -> ! {
        let (name, at) = (&self.name, Span::from_nanos(now.as_nanos()));
        raise(error::policy(format!("policy {name}: {method}() at {at}: {problem}")))
    }

    /// The decision in Python's answer.
    fn decision(&self, answer: &Bound<'_, PyAny>) -> PyResult<Decision> {
        if answer.is_none() {
            return Ok(Decision::Idle);
        }
        if let Ok(dispatch) = answer.cast::<objects::Dispatch>() {
            let dispatch = dispatch.get();
            return Ok(Decision::Dispatch { id: RequestId(dispatch.id), reason: reason(&dispatch.reason) });
        }
        if let Ok(hold) = answer.cast::<objects::Hold>() {
            let hold = hold.get();
            let wake = if hold.until.is_some() { Wake::Timer } else { Wake::Completion };
            let until = hold.until.map(Time::from_nanos);
            return Ok(Decision::Hold(Hold { until, wake, reason: hold_reason(&hold.reason) }));
        }
        let is_id = || !answer.is_instance_of::<PyBool>() && answer.extract::<u32>().is_ok();
        if answer.is_instance_of::<objects::Request>() || is_id() {
            let id = RequestId(objects::request_id(answer)?);
            return Ok(Decision::Dispatch { id, reason: Reason::FirstCome });
        }
        Err(self.wrong_answer("next", answer, "a Request or its id, a Dispatch, a Hold or None"))
    }

    /// The error for an answer that is no `expected`.
    fn wrong_answer(&self, method: &str, answer: &Bound<'_, PyAny>, expected: &str) -> PyErr {
        let found = answer.repr().map_or_else(|_| answer.get_type().to_string(), |text| text.to_string());
        PyTypeError::new_err(format!("policy {}: {method}() returned {found}; return {expected}", self.name))
    }

    /// Verifies the bound that the policy states.
    fn verify_waits(&mut self, now: Time, depth: u32) {
        let Some(mut waits) = self.waits.take() else { return };
        if let Some(wait) = waits.called(now, depth) {
            let bound = self.longest_wait(wait.load);
            if waits.exceeds(&wait, bound) {
                let Load { requests, depth, service } = wait.load;
                let problem = format!(
                    "request {} waited {}, longer than the policy's bound {}: longest_wait({requests}, {depth}, {})",
                    wait.request,
                    wait.waited,
                    bound.unwrap_or_default(),
                    service.as_nanos()
                );
                self.violation("next", now, &problem);
            }
        }
        self.waits = Some(waits);
    }

    /// Verifies what the queue would otherwise answer by replacing the policy.
    fn verify(&self, now: Time, view: &elevator::View<'_>, decision: Decision) {
        let queued = self.queued.len();
        match decision {
            Decision::Dispatch { id, .. } if !self.queued.contains(&id.0) => {
                self.violation("next", now, &format!("it dispatched request {}, which is not queued", id.0));
            }
            Decision::Idle if queued > 0 => {
                let problem =
                    format!("it returned None with {queued} requests queued; return a Dispatch or a Hold");
                self.violation("next", now, &problem);
            }
            Decision::Hold(Hold { until: Some(until), .. }) if until <= now => {
                self.violation("next", now, "it holds until a time that has passed");
            }
            Decision::Hold(Hold { until: Some(until), .. }) if until.since(now) > LONGEST_HOLD => {
                let problem =
                    format!("it holds for {}; a hold lasts at most {LONGEST_HOLD}", until.since(now));
                self.violation("next", now, &problem);
            }
            Decision::Hold(Hold { wake: Wake::Timer, .. }) if queued == 0 => {
                self.violation("next", now, HOLDS_NOTHING);
            }
            Decision::Hold(Hold { until: None, .. }) if view.device.in_flight == 0 => {
                let problem = "it holds for a completion, and no request is in flight; give Hold a time";
                self.violation("next", now, problem);
            }
            _ => {}
        }
    }
}

impl Capabilities for PythonPolicy {}

impl Scheduler for PythonPolicy {
    fn insert(&mut self, now: Time, request: &elevator::Request) {
        self.holds = 0;
        self.queued.insert(request.id.0);
        if let Some(waits) = &mut self.waits {
            waits.insert(now, request.id.0);
        }
        self.call(|policy| {
            policy.call_method1("insert", (now.as_nanos(), objects::Request::from(request))).map(drop)
        });
    }

    fn merged(&mut self, now: Time, request: &elevator::Request, growth: elevator::Growth<'_>) {
        if let Some(absorbed) = growth.absorbed {
            self.queued.remove(&absorbed.id.0);
            if let Some(waits) = &mut self.waits {
                waits.remove(absorbed.id.0);
            }
        }
        self.call(|policy| {
            let (request, growth) = (objects::Request::from(request), objects::Growth::from(&growth));
            policy.call_method1("merged", (now.as_nanos(), request, growth)).map(drop)
        });
    }

    fn next(&mut self, now: Time, view: &elevator::View<'_>) -> Decision {
        self.verify_waits(now, view.device.depth);
        let decision = self.call(|policy| {
            self.decision(&policy.call_method1("next", (now.as_nanos(), objects::View::from(view)))?)
        });
        if self.verify == Verify::Here {
            self.verify(now, view, decision);
        }
        match decision {
            Decision::Dispatch { id, .. } => {
                self.holds = 0;
                self.queued.remove(&id.0);
            }
            Decision::Hold(Hold { until: Some(until), .. }) => {
                self.holds += 1;
                if self.holds == HOLDS_MAX {
                    let each = until.since(now);
                    let problem = match self.queued.is_empty() {
                        true => HOLDS_NOTHING.to_owned(),
                        false => format!(
                            "it held {HOLDS_MAX} times without a dispatch or a new request, the last time for {each}; times are nanoseconds"
                        ),
                    };
                    self.violation("next", now, &problem);
                }
            }
            _ => {}
        }
        match (&mut self.waits, decision) {
            (Some(waits), Decision::Dispatch { id, .. }) => waits.dispatched(now, id.0),
            (Some(waits), Decision::Hold(hold)) => waits.held(hold.until),
            _ => {}
        }
        decision
    }

    fn completed(&mut self, now: Time, request: &elevator::Request, outcome: Outcome) {
        self.holds = 0;
        if let Some(waits) = &mut self.waits {
            waits.ended(now, request.id.0);
        }
        if self.completed {
            let outcome = match outcome {
                Outcome::Done => "done",
                Outcome::Failed => "failed",
                Outcome::GivenBack => "given back",
            };
            let request = objects::Request::from(request);
            self.call(|policy| {
                policy.call_method1("completed", (now.as_nanos(), request, outcome)).map(drop)
            });
        }
    }

    fn exited(&mut self, now: Time, process: Process) {
        if self.exited {
            self.call(|policy| policy.call_method1("exited", (now.as_nanos(), process.task)).map(drop));
        }
    }

    fn may_merge(&self, request: &elevator::Request, addition: &elevator::Request, side: Side) -> bool {
        if !self.may_merge {
            return true;
        }
        let side = if side == Side::Front { "front" } else { "back" };
        let (request, addition) = (objects::Request::from(request), objects::Request::from(addition));
        self.call(|policy| {
            let answer = policy.call_method1("may_merge", (request, addition, side))?;
            answer.extract().map_err(|_| self.wrong_answer("may_merge", &answer, "True or False"))
        })
    }

    fn longest_wait(&self, load: Load) -> Option<Span> {
        if !self.longest_wait {
            return None;
        }
        let load = (load.requests, load.depth, load.service.as_nanos());
        let bound = self.call(|policy| {
            let bound = policy.call_method1("longest_wait", load)?;
            let expected = "nanoseconds as a whole number from 0 to 2^64-1, or None";
            bound.extract::<Option<u64>>().map_err(|_| self.wrong_answer("longest_wait", &bound, expected))
        });
        bound.map(Span::from_nanos)
    }
}

/// Upper bound for the different reasons of all policies of a process; they are kept for its life.
const REASONS_MAX: usize = 1024;

/// A text that lives as long as the process; the first [`REASONS_MAX`] different ones, and then one for all others.
fn lasting(text: &str) -> &'static str {
    static KNOWN: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(text) = known.get(text) {
        return text;
    }
    if known.len() >= REASONS_MAX {
        return "another reason";
    }
    let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
    known.insert(text);
    text
}

fn reason(text: &str) -> Reason {
    let known = Reason::ALL.iter().find(|reason| reason.as_str() == text);
    known.copied().unwrap_or_else(|| Reason::Custom(lasting(text)))
}

fn hold_reason(text: &str) -> HoldReason {
    let known = HoldReason::ALL.iter().find(|reason| reason.as_str() == text);
    known.copied().unwrap_or_else(|| HoldReason::Custom(lasting(text)))
}

/// The name of a policy in results: its class attribute `name`, or the name of the class.
pub(crate) fn name_of(factory: &Bound<'_, PyAny>) -> PyResult<String> {
    for attribute in ["name", "__name__"] {
        if let Ok(name) = factory.getattr(attribute)
            && let Ok(name) = name.cast::<PyString>()
        {
            return Ok(name.to_string());
        }
    }
    Ok(factory.get_type().name()?.to_string())
}
