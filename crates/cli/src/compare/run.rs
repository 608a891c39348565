//! One workload under many schedulers, each in a modelled machine of its own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use elevator::queue::{Observer, Options};
use elevator::{Span, Time};
use machine::{Limit, Measured, Stop, Timeline, fairness};
use schedulers::Spec;
use serde::Serialize;
use workloads::Workload;

use super::explain::{Explainer, Explaining};
use super::spool::Spool;
use crate::device::Device;
use crate::format::bytes;
use crate::interrupt;
use crate::modelled::machine;
use crate::scene::Outcome;

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
    pub(crate) explain: Option<Explaining>,
}

/// What one scheduler made of it.
#[derive(Serialize)]
pub(crate) struct Run {
    /// Its full name, with version and tunables that are not the default.
    pub(crate) scheduler: String,
    #[serde(flatten)]
    pub(crate) measured: Measured,
    /// Jain's index over how fast each process got on; on a machine with a kernel nobody knows how fast it could.
    pub(crate) fairness: Option<f64>,
    /// It was cut, so that rates stand but totals do not.
    pub(crate) cut: bool,
    /// Why it could not go on.
    pub(crate) failure: Option<String>,
    /// What the machine saw above the device, where there is a kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<Outcome>,
    /// The physical limit of what was asked for, which is less where a run was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<Limit>,
    /// Whether the device has a head, so that its way means something.
    #[serde(skip)]
    pub(crate) has_head: bool,
    #[serde(skip)]
    pub(crate) distributions: [Vec<(u64, f64)>; 2],
    #[serde(skip)]
    pub(crate) timeline: Timeline,
    /// Names of the tasks in it.
    #[serde(skip)]
    pub(crate) names: BTreeMap<u32, String>,
    /// The decisions in words, if asked for.
    #[serde(skip)]
    pub(crate) explanation: Spool,
}

impl Run {
    /// How far a head travelled, for people; a dash where there is none.
    pub(crate) fn travel(&self, sectors: u64) -> String {
        if self.has_head { bytes(sectors.saturating_mul(512)) } else { "-".to_owned() }
    }

    /// How near it comes to the physical limit, where that is known; 1 is there.
    pub(crate) fn of_limit(&self) -> Option<f64> {
        let limit = self.limit.as_ref()?.elapsed_ns;
        Some(if self.measured.elapsed_ns == 0 { 0.0 } else { limit as f64 / self.measured.elapsed_ns as f64 })
    }
}

/// Runs the plan, on as many threads as there are cores, and calls `done` as each run ends. The results stand in the
/// order of the schedulers, whatever the order in which they ended.
pub(crate) fn run(plan: &Plan<'_>, done: &(dyn Fn(&Run) + Sync)) -> Result<Vec<Run>, String> {
    let next = AtomicUsize::new(0);
    let slots: Vec<Mutex<Option<Result<Run, String>>>> =
        plan.schedulers.iter().map(|_| Mutex::new(None)).collect();
    let take = || {
        let index = next.fetch_add(1, Ordering::Relaxed);
        Some((index, plan.schedulers.get(index)?))
    };
    let work = || {
        while let Some((index, spec)) = take() {
            if interrupt::requested() {
                break;
            }
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
    let (recorder, timeline) = Timeline::recorder(plan.picture);
    let explanation = plan.explain.as_ref().map(|how| Spool::new(&how.folder)).unwrap_or_default();
    let explanation = Rc::new(RefCell::new(explanation));
    let mut recorder = (plan.picture > 0).then_some(recorder);
    // The picture is of one head: an array's first.
    let mut observer = |member: Option<u32>| -> Option<Box<dyn Observer>> {
        let explainer = plan
            .explain
            .as_ref()
            .map(|how| Explainer::new(spec.to_string(), member, how.format, Shared(Rc::clone(&explanation))));
        Some(Box::new((recorder.take(), explainer)))
    };
    let Plan { device, options, .. } = *plan;
    let mut machine = machine(device, spec, options, Span::ZERO, &mut observer).map_err(|e| e.to_string())?;
    machine.record_limit();
    plan.workload.start(&mut machine);
    let at = plan.at_most.map_or(Time::MAX, |span| Time::ZERO + span);
    let ended = machine.run(Stop { at, asked: interrupt::requested });
    let limit = machine.limit();
    let measured = machine.measured();
    let cut = machine.is_cut();
    let distributions = machine.distributions();
    let names = if plan.picture > 0 { machine.names() } else { BTreeMap::new() };
    drop(machine);
    let alone = limit.as_ref().map(|limit| limit.processes_ns.as_slice()).unwrap_or_default();
    Ok(Run {
        scheduler: spec.to_string(),
        fairness: Some(fairness(&measured, alone)),
        measured,
        cut,
        outcome: None,
        failure: ended.err().map(|failure| failure.to_string()),
        limit,
        has_head: device.rotational(),
        distributions,
        names,
        timeline: Rc::try_unwrap(timeline).map(RefCell::into_inner).unwrap_or_default(),
        explanation: Rc::try_unwrap(explanation).map(RefCell::into_inner).unwrap_or_default(),
    })
}

/// A spool that an observer writes to and that outlives it.
pub(crate) struct Shared(pub(crate) Rc<RefCell<Spool>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
