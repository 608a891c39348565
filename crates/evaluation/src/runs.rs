//! One workload under many schedulers, each on its own modelled machine; and one script under one scheduler.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::rc::Rc;

use elevator::queue::{Observer, Options};
use elevator::{Span, Time};
use machine::{Limit, Machine, Measured, Stop, Timeline, fairness};
use schedulers::Spec;
use serde::Serialize;
use workloads::Workload;

use crate::device::Device;
use crate::error::Error;
use crate::explain::{Explainer, Explaining};
use crate::interrupt;
use crate::machine_setup::{Listeners, Observed, machine};
use crate::parallel::in_parallel;
use crate::report::format::bytes;
use crate::run_setup::{Outcome, Ran, RunSetup};
use crate::spool::Spool;

/// What to compare.
pub struct Plan<'a> {
    pub workload: &'a (dyn Workload + Sync),
    pub device: &'a Device,
    pub schedulers: &'a [Spec],
    /// The queue.
    pub options: Options,
    /// How long before the start the drives were switched on, which sets the phase of the platters.
    pub before: Span,
    /// Virtual time after which a run stops.
    pub at_most: Option<Span>,
    /// Number of requests to keep for the chart of the head; 0 for none.
    pub chart_requests: usize,
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
    /// Jain's index over the slowdown of each process; `None` if the undisturbed speed is unknown: on a
    /// machine with a kernel, and on a drive without ideal times.
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
    /// The physical limit of the work, the same for all runs of a plan; `None` if the run was stopped early, or if another run did other work.
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
    pub fn travel(&self, sectors: u64) -> String {
        if self.has_head { bytes(sectors.saturating_mul(512)) } else { "-".to_owned() }
    }

    /// The share of the physical limit that the run reached (1 is the limit), if the limit is known.
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
        let run = one(plan, &plan.schedulers[index], &mut |_| None);
        run.as_ref().into_iter().for_each(done);
        Some(run)
    });
    let mut runs: Vec<Run> = runs.into_iter().flatten().collect::<Result<_, _>>()?;
    share_limit(&mut runs);
    Ok(runs)
}

/// Gives all runs the same limit, if they did the same work. Otherwise none has a limit: it would be that of another work than its neighbour's.
pub fn share_limit(runs: &mut [Run]) {
    let work = |run: &Run| (run.cut, run.measured.requests, run.measured.bytes, run.measured.failed);
    let mut complete = runs.iter().filter(|run| run.failure.is_none());
    let first = complete.next();
    let is_same = first.is_some_and(|first| complete.clone().all(|run| work(run) == work(first)));
    let mut limit = first.filter(|_| is_same).and_then(|run| run.limit.clone());
    for run in complete {
        limit = limit.zip(run.limit.as_ref()).map(|(mut limit, other)| {
            limit.lower(other);
            limit
        });
    }
    runs.iter_mut().for_each(|run| run.limit = limit.clone().filter(|_| run.failure.is_none()));
}

/// Chart and decision log of a run, which observers write.
struct Written {
    timeline: Rc<RefCell<Timeline>>,
    explanation: Rc<RefCell<Spool>>,
}

impl Written {
    /// Calls `run` with the observers of chart and log, and those of `others`, in each queue.
    fn by<T>(
        spec: &Spec,
        chart_requests: usize,
        explain: Option<&Explaining>,
        others: &mut Listeners<'_>,
        run: impl FnOnce(&mut Listeners<'_>) -> T,
    ) -> (Self, T) {
        let (recorder, timeline) = Timeline::recorder(chart_requests);
        let explanation = explain.map(|how| Spool::new(&how.folder)).unwrap_or_default();
        let explanation = Rc::new(RefCell::new(explanation));
        let mut recorder = (chart_requests > 0).then_some(recorder);
        // The chart shows one head: that of an array's first member.
        let mut observer = |place: Observed| -> Option<Box<dyn Observer>> {
            let member = match place {
                Observed::Array => return others(place),
                Observed::Member(member) => Some(member),
                Observed::Queue => None,
            };
            let log = || Shared(Rc::clone(&explanation));
            let explainer = explain.map(|how| Explainer::new(spec.to_string(), member, how.format, log()));
            Some(Box::new(((recorder.take(), explainer), others(place))))
        };
        let ran = run(&mut observer);
        (Self { timeline, explanation }, ran)
    }
}

/// Runs the plan's workload under one scheduler; `others` observe the queues, too.
///
/// # Errors
/// The scheduler cannot be built for the device.
pub fn one(plan: &Plan<'_>, spec: &Spec, others: &mut Listeners<'_>) -> Result<Run, String> {
    let (written, run) = Written::by(spec, plan.chart_requests, plan.explain.as_ref(), others, |observers| {
        machine(plan.device, spec, plan.options, plan.before, observers)
            .map(|machine| measured(plan, spec, machine))
    });
    let (timeline, explanation) = (written.timeline.take(), written.explanation.take());
    run.map(|run| Run { timeline, explanation, ..run }).map_err(|error| error.to_string())
}

fn measured(plan: &Plan<'_>, spec: &Spec, mut machine: Machine) -> Run {
    machine.record_limit();
    plan.workload.start(&mut machine);
    let at = plan.at_most.map_or(Time::MAX, |span| Time::ZERO + span);
    let ended = machine.run(Stop { at, asked: interrupt::requested });
    let (limit, measured) = (machine.limit(), machine.measured());
    // The times alone are those of all requests that were submitted.
    let is_of_more =
        |limit: &Limit| machine.is_cut() && limit.alone_ns.iter().any(|&alone| alone > measured.elapsed_ns);
    Run {
        scheduler: spec.to_string(),
        fairness: limit
            .as_ref()
            .filter(|limit| !is_of_more(limit))
            .map(|limit| fairness(&measured, &limit.alone_ns)),
        // The limit is that of all requests that were submitted, of which a stopped run has completed an unknown part.
        limit: limit.filter(|_| !machine.is_cut()),
        measured,
        cut: machine.is_cut(),
        outcome: None,
        work_bytes: None,
        failure: ended.err().map(|failure| failure.to_string()).or_else(|| plan.workload.failure()),
        has_head: plan.device.rotational(),
        distributions: machine.distributions(),
        names: if plan.chart_requests > 0 { machine.names() } else { BTreeMap::new() },
        timeline: Timeline::default(),
        explanation: Spool::default(),
    }
}

/// Runs a script under one scheduler, with a chart of `chart_requests` requests and a decision log; `others` observe the queues, too.
///
/// # Errors
/// The scheduler does not fit the device.
pub fn script(
    setup: &RunSetup,
    spec: &Spec,
    chart_requests: usize,
    explain: Option<&Explaining>,
    others: &mut Listeners<'_>,
) -> Result<Run, Error> {
    let (written, ran) =
        Written::by(spec, chart_requests, explain, others, |observers| setup.run(spec, observers));
    let Ran { outcome, mut measured, distributions, names } = ran?;
    // The result is the time until the measured processes have ended, and the bytes that the device has moved by then.
    let beside = setup.scenario.beside();
    let is_beside = |name: &str| {
        beside.iter().any(|process| {
            name.strip_prefix(process.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    if let Some((_, to)) = outcome.window(|name| !is_beside(name)) {
        measured.elapsed_ns = to;
        measured.bytes = outcome.vmstat.bytes(to);
    }
    let work = outcome.seen.iter().filter(|(name, _)| !is_beside(name)).map(|(_, seen)| seen);
    let work_bytes = Some(work.map(|seen| seen.read_bytes + seen.written_bytes).sum());
    Ok(Run {
        scheduler: spec.to_string(),
        measured,
        fairness: None,
        cut: outcome.cut,
        failure: outcome.failure.clone(),
        outcome: Some(outcome),
        work_bytes,
        limit: None,
        has_head: setup.device.rotational(),
        distributions,
        names,
        timeline: written.timeline.take(),
        explanation: written.explanation.take(),
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
