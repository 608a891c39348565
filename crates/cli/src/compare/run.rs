//! One workload under many schedulers, each in a modelled machine of its own.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use elevator::queue::{Observer, Options};
use elevator::{Span, Time};
use machine::{Limit, Machine, Measured, Setup, Stop, Timeline, fairness};
use schedulers::Spec;
use serde::Serialize;
use workloads::Workload;

use super::explain::{Explainer, Format};
use crate::device::Device;
use crate::interrupt;

/// What is to be compared.
pub(crate) struct Plan<'a> {
    pub(crate) workload: &'a (dyn Workload + Sync),
    pub(crate) device: &'a Device,
    pub(crate) schedulers: &'a [Spec],
    pub(crate) options: Options,
    /// Virtual time after which a run is cut.
    pub(crate) at_most: Option<Span>,
    /// Requests kept for the picture; 0 for no picture.
    pub(crate) picture: usize,
    pub(crate) explain: Option<Format>,
}

/// What one scheduler made of it.
#[derive(Serialize)]
pub(crate) struct Run {
    /// Its full name, with version and tunables that are not the default.
    pub(crate) scheduler: String,
    #[serde(flatten)]
    pub(crate) measured: Measured,
    /// Jain's index over how fast each process got on.
    pub(crate) fairness: f64,
    /// It was cut, so that rates stand but totals do not.
    pub(crate) cut: bool,
    /// Why it could not go on.
    pub(crate) failure: Option<String>,
    #[serde(skip)]
    pub(crate) limit: Limit,
    #[serde(skip)]
    pub(crate) distributions: [Vec<(u64, f64)>; 2],
    #[serde(skip)]
    pub(crate) timeline: Timeline,
    /// The decisions in words, if asked for.
    #[serde(skip)]
    pub(crate) explanation: Vec<u8>,
}

impl Run {
    /// How near it comes to the physical limit; 1 is there.
    pub(crate) fn of_limit(&self) -> f64 {
        if self.measured.elapsed_ns == 0 {
            0.0
        } else {
            self.limit.elapsed_ns as f64 / self.measured.elapsed_ns as f64
        }
    }
}

/// Runs the plan, on as many threads as there are cores, and calls `done` as each run ends. The results stand in the
/// order of the schedulers, whatever the order in which they ended.
pub(crate) fn run(plan: &Plan<'_>, done: &(dyn Fn(&Run) + Sync)) -> Result<Vec<Run>, String> {
    let next = AtomicUsize::new(0);
    let slots: Vec<Mutex<Option<Result<Run, String>>>> =
        plan.schedulers.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some(spec) = plan.schedulers.get(next.fetch_add(1, Ordering::Relaxed)) {
            if interrupt::requested() {
                break;
            }
            let index = plan.schedulers.iter().position(|s| std::ptr::eq(s, spec)).unwrap_or_default();
            let run = one(plan, spec);
            if let Ok(run) = &run {
                done(run);
            }
            *slots[index].lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(run);
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(plan.schedulers.len());
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    slots
        .into_iter()
        .filter_map(|slot| slot.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
        .collect()
}

fn one(plan: &Plan<'_>, spec: &Spec) -> Result<Run, String> {
    let scheduler = spec.build(&plan.device.environment()).map_err(|e| e.to_string())?;
    let (recorder, timeline) = Timeline::recorder(plan.picture);
    let explanation = Rc::new(RefCell::new(Vec::new()));
    let explainer =
        plan.explain.map(|format| Explainer::new(spec.to_string(), format, Shared(Rc::clone(&explanation))));
    let observer: Box<dyn Observer> = Box::new(((plan.picture > 0).then_some(recorder), explainer));
    let mut machine = Machine::new(Setup {
        options: plan.options,
        scheduler,
        drive: plan.device.build(),
        observer: Some(observer),
    });
    machine.witness();
    plan.workload.start(&mut machine);
    let at = plan.at_most.map_or(Time::MAX, |span| Time::ZERO + span);
    let ended = machine.run(Stop { at, asked: interrupt::requested });
    let limit = machine.limit().unwrap_or_default();
    let measured = machine.measured();
    let cut = machine.is_cut();
    let distributions = machine.distributions();
    drop(machine);
    Ok(Run {
        scheduler: spec.to_string(),
        fairness: fairness(&measured, &limit.processes_ns),
        measured,
        cut,
        failure: ended.err().map(|failure| failure.to_string()),
        limit,
        distributions,
        timeline: Rc::try_unwrap(timeline).map(RefCell::into_inner).unwrap_or_default(),
        explanation: Rc::try_unwrap(explanation).map(RefCell::into_inner).unwrap_or_default(),
    })
}

/// A buffer that an observer writes to and that outlives it.
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
