//! One workload under many schedulers, each on its own modelled machine.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::rc::Rc;

use elevator::queue::{Observer, Options};
use elevator::{Span, Time};
use machine::{Limit, Measured, Stop, Timeline, fairness};
use schedulers::Spec;
use serde::Serialize;
use workloads::Workload;

use crate::device::Device;
use crate::explain::{Explainer, Explaining};
use crate::interrupt;
use crate::machine_setup::machine;
use crate::parallel::in_parallel;
use crate::report::format::bytes;
use crate::run_setup::Outcome;
use crate::spool::Spool;

/// What to compare.
pub struct Plan<'a> {
    /// The workload.
    pub workload: &'a (dyn Workload + Sync),
    /// The device.
    pub device: &'a Device,
    /// The schedulers.
    pub schedulers: &'a [Spec],
    /// The queue.
    pub options: Options,
    /// Virtual time after which a run stops.
    pub at_most: Option<Span>,
    /// Number of requests to keep for the chart of the head; 0 for none.
    pub picture: usize,
    /// The decision log, if wanted.
    pub explain: Option<Explaining>,
}

/// The result of one scheduler.
#[derive(Serialize)]
pub struct Run {
    /// Full name, with version and the tunables that differ from the default.
    pub scheduler: String,
    /// What the device did.
    #[serde(flatten)]
    pub measured: Measured,
    /// Jain's index over the slowdown of each process; `None` on a machine with a kernel, where the undisturbed speed is unknown.
    pub fairness: Option<f64>,
    /// The run was stopped early, so rates are valid and totals are not.
    pub cut: bool,
    /// Why the run failed.
    pub failure: Option<String>,
    /// What the machine's kernel and programs measured, if there is a kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Bytes that the measured programs read and wrote by system calls, if there is a kernel. Background programs are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work_bytes: Option<u64>,
    /// The physical limit of the requested I/O, which is less if the run was stopped early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Whether the device has a head, so that head travel has a meaning.
    #[serde(skip)]
    pub has_head: bool,
    /// Latency in nanoseconds and share of requests, of reads and writes.
    #[serde(skip)]
    pub distributions: [Vec<(u64, f64)>; 2],
    /// Requests and waits over time.
    #[serde(skip)]
    pub timeline: Timeline,
    /// Names of the tasks in `timeline`.
    #[serde(skip)]
    pub names: BTreeMap<u32, String>,
    /// The decision log.
    #[serde(skip)]
    pub explanation: Spool,
}

impl Run {
    /// Head travel with its unit; a dash for a device without a head.
    #[must_use]
    pub fn travel(&self, sectors: u64) -> String {
        if self.has_head { bytes(sectors.saturating_mul(512)) } else { "-".to_owned() }
    }

    /// The share of the physical limit that the run reached (1 is the limit), if the limit is known.
    #[must_use]
    pub fn of_limit(&self) -> Option<f64> {
        let limit = self.limit.as_ref()?.elapsed_ns;
        Some(if self.measured.elapsed_ns == 0 { 0.0 } else { limit as f64 / self.measured.elapsed_ns as f64 })
    }
}

/// Runs the plan on one thread per core and calls `done` when a run ends. The results are in the order of the schedulers.
///
/// # Errors
/// A scheduler cannot be built.
pub fn run(plan: &Plan<'_>, done: &(dyn Fn(&Run) + Sync)) -> Result<Vec<Run>, String> {
    let runs = in_parallel(plan.schedulers.len(), |index| {
        if interrupt::requested() {
            return None;
        }
        let run = one(plan, &plan.schedulers[index]);
        run.as_ref().into_iter().for_each(done);
        Some(run)
    });
    runs.into_iter().flatten().collect()
}

fn one(plan: &Plan<'_>, spec: &Spec) -> Result<Run, String> {
    let (recorder, timeline) = Timeline::recorder(plan.picture);
    let explanation = plan.explain.as_ref().map(|how| Spool::new(&how.folder)).unwrap_or_default();
    let explanation = Rc::new(RefCell::new(explanation));
    let mut recorder = (plan.picture > 0).then_some(recorder);
    // The chart shows one head: that of an array's first member.
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
        work_bytes: None,
        failure: ended.err().map(|failure| failure.to_string()),
        limit,
        has_head: device.rotational(),
        distributions,
        names,
        timeline: Rc::try_unwrap(timeline).map(RefCell::into_inner).unwrap_or_default(),
        explanation: Rc::try_unwrap(explanation).map(RefCell::into_inner).unwrap_or_default(),
    })
}

/// A spool that outlives the observer that writes to it.
pub struct Shared(pub Rc<RefCell<Spool>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
