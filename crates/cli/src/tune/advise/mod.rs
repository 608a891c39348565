//! `dwell advise`: watches a device and recommends a scheduler, without trying any.
//!
//! The recommendation rests on the first of these that has an answer: what `tune` learned about this drive and load; the device's profile, if one is
//! given; the drive's or the host's own scheduling; a replay of the observed requests on a model with the device's measured service times; the
//! class of the load.

mod configuration;
mod model;
mod print;
mod running_tuner;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use capture::profile::{Probe, Profile, ServiceTime};
use capture::topology::Kind;
use elevator::text::counted;
use schedulers::registry::Catalogue;
use serde::Serialize;
use tuner::prior::{self, LoadClass};
use tuner::selector::Workload;
use tuner::{
    Analyser, Better, Decision, Estimate, KindDecision, Metric, Observed, SchedulerId, Values, Why,
    is_worth_it,
};
use tuner_live::arms::Arms;
use tuner_live::database::Database;
use tuner_live::outside::Outside;
use tuner_live::{Seen, in_words};

use self::configuration::{Configuration, Host};
use self::model::{Modelled, Recorded, Recording};
use self::running_tuner::RunningTuner;
use super::args::AdviseArguments;
use super::does_not_fit;
use super::setup::{self, Target};
use crate::commands::doctor::{Device, Roots};
use crate::error::Error;
use crate::interrupt;
use evaluation::report::format::{object, time};

/// The confidence of a recommendation that rests on the class of the load alone.
const BY_CLASS: f64 = 0.3;
/// The confidence of a recommendation by the model: if the class of the load favours another scheduler, and if it agrees.
const BY_MODEL: f64 = 0.4;
const BY_BOTH: f64 = 0.6;
/// Of `none` where the drive or the host schedules, and where the model also has no great gain.
const BYPASSED: f64 = 0.6;
const BYPASSED_SURELY: f64 = 0.8;
/// Gains in the model below this are within its error.
const MODEL_ERROR: f64 = 0.1;
/// A load of fewer requests in all windows shows no effect of a scheduler.
const FEWEST: u64 = 50;
/// Nor does one that occupies the device for a smaller part of the time.
const LEAST_BUSY: f64 = 0.001;
/// The time for measuring service times.
const PROBING: Duration = Duration::from_secs(3);

/// What a recommendation rests on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
enum Basis {
    /// The load is too small, or a tuner runs.
    #[default]
    Nothing,
    /// What was measured on this drive before.
    History,
    Profile,
    /// The drive or the host schedules itself.
    Bypass,
    Model,
    /// The class of the load.
    Class,
}

/// What the system reports about the device.
#[derive(Serialize, Default)]
struct Facts {
    /// Mounted file systems: mount points and types.
    file_systems: Vec<String>,
    guest: bool,
    scheduled_by_host: bool,
    capacity_bytes: Option<u64>,
    /// Commands that the device queues itself, if the kernel reports it.
    device_depth: Option<u32>,
    /// Settings of the queue by name.
    settings: BTreeMap<&'static str, String>,
}

impl Facts {
    fn of(target: &Target) -> (Self, Kind) {
        let roots = Roots::at(std::path::Path::new("/"));
        let device = Device::new(&roots, target.stack.clone());
        let of = |name: &str, file: &str| roots.read(&format!("sys/block/{name}/{file}"));
        let read = |file: &str| of(&device.leaf.name, file);
        // An array is observed itself, and scheduled by its members.
        let size = of(&target.layer.name, "size");
        let facts = Self {
            file_systems: device.mounts.iter().map(ToString::to_string).collect(),
            guest: roots.is_guest(),
            scheduled_by_host: device.is_scheduled_by_host(&roots),
            capacity_bytes: size.and_then(|size| size.parse::<u64>().ok()).map(|size| size * 512),
            device_depth: read("device/queue_depth").and_then(|depth| depth.parse().ok()),
            settings: device.settings.clone(),
        };
        (facts, device.leaf.kind)
    }
}

/// The result.
#[derive(Serialize, Default)]
struct Advice {
    device: String,
    stack: String,
    scheduler: String,
    metric: String,
    windows: u32,
    analysed: u32,
    recognised: u32,
    requests_per_second: f64,
    request_bytes: f64,
    /// Of completed reads and writes, scaled up by the requests that were not reported.
    bytes_per_second: f64,
    /// Requests in all windows.
    requests: u64,
    /// Requests in all windows that the capture counted but did not report.
    not_reported: u64,
    read_share: f64,
    random_share: f64,
    /// The share of the time with a request in flight.
    busy: f64,
    doubts: Vec<String>,
    facts: Facts,
    /// Measured while the load runs; `None` if the measurement failed or was discarded.
    service_times: Option<Probe>,
    /// Why it was discarded.
    #[serde(skip)]
    discarded: Option<String>,
    /// The schedulers to choose from.
    schedulers: Vec<String>,
    /// The class of the load, from which the expectation is derived if there is no history.
    load: Option<&'static str>,
    /// The observed requests on a model of the device.
    replay: Option<Modelled>,
    /// The recommended scheduler, if another one than the present.
    better: Option<String>,
    /// Its gain, as a part of the present scheduler's value, if the basis of the decision has a value.
    expected_gain: Option<f64>,
    basis: Basis,
    confidence: f64,
    why: String,
    /// The tuner that chooses the scheduler at present; then nothing is observed or recommended.
    tuner: Option<RunningTuner>,
    /// What to paste for the better scheduler, or to keep the present one.
    configuration: Option<Configuration>,
}

/// What the database's history shows about the arms, summed over the windows for whose kind of load the arm in use was measured. An arm that was not
/// measured for a window's kind counts as equal in that window.
struct History {
    /// The arm in use; `None` if the scheduler in use is not an arm.
    now: Option<usize>,
    better: Better,
    /// The value of the arm in use, summed over the windows.
    base: f64,
    arms: Vec<Compared>,
    /// The arm that the device's profile prefers, and the reason. Used if there is no history.
    profiled: Option<(usize, String)>,
}

/// An arm compared with the one in use.
#[derive(Clone, Copy, Default)]
struct Compared {
    /// Its gain, summed over the windows for which it was measured.
    gained: f64,
    /// The significant part of the gain.
    surely: f64,
    windows: u32,
    /// The number of measurements.
    measured: u64,
}

pub(crate) fn run(arguments: &AdviseArguments, catalogue: Catalogue) -> Result<(), Error> {
    let target = Target::holding(&arguments.device, arguments.watching.reached.reach())?;
    target.has_profile(&arguments.watching)?;
    let metric = setup::metric(&arguments.watching);
    setup::measurable(metric)?;
    let mut outside = Outside::new(arguments.watching.command.clone());
    let mut arms = setup::arms(&target, &arguments.watching, catalogue, Vec::new())?;
    let (length, mut analyser) = setup::analyser(arms.names(), &arguments.watching, 1)?;
    let database = Database::open_existing(&arguments.watching.database)?;
    let learned = database.map(|database| with_history(&mut analyser, &database, arguments, &target));
    let (has_history, unusable) = match learned.unwrap_or(Ok(false)) {
        Ok(has_history) => (has_history, None),
        Err(problem) => (false, Some(format!("advice without what 'dwell tune' learned: {problem}"))),
    };
    let (facts, kind) = Facts::of(&target);
    if facts.capacity_bytes == Some(0) {
        let device = arguments.device.display();
        return Err(Error::Usage(format!(
            "{device}: has no sectors: insert a medium or attach a file first"
        )));
    }
    // Reads and observation would count as the load of a tuner, whose switches would spoil the observation.
    let _claims = match target.claim() {
        Ok(claims) => claims,
        Err(claimed) => return running_tuner::report(arguments, &target, facts, claimed),
    };
    let recording = Recording::of(&target)?;
    let into = recording.clone();
    let mut windows = target.watch_through(length, metric, move |capture| Recorded(capture, into.clone()))?;
    announce(arguments, &target.layer.name, length);
    let current = arms.current()?;
    let doubts = target.left_behind().into_iter().chain(target.doubts(&arguments.watching));
    let mut advice = Advice {
        device: arguments.device.display().to_string(),
        stack: target.stack.describe(),
        scheduler: current.clone(),
        metric: in_words(metric),
        doubts: doubts.chain(unusable).collect(),
        schedulers: arms.names().to_vec(),
        facts,
        ..Advice::default()
    };
    let mut history = History::new(arms.names(), &current, metric.better());
    let profile =
        arguments.watching.profile.as_deref().map(crate::commands::profile::read_steady).transpose()?;
    let mut class = None;
    while advice.windows < arguments.windows {
        let Some(mut seen) = windows.next(&mut capture::now, &mut || !interrupt::requested())? else { break };
        let now = arms.current()?;
        if now != current {
            let device = arguments.device.display();
            let problem = format!(
                "{device}: another process changed the scheduler from {current} to {now}; run advise again"
            );
            return Err(Error::Failed(problem));
        }
        outside.measure(metric, &mut seen).iter().for_each(|problem| say!("{problem}"));
        if seen.torn {
            say!("window discarded: it lasted too long (the machine slept or was overloaded)");
            continue;
        }
        class = seen.window.counts().then(|| LoadClass::of(&seen.window, seen.busy)).or(class);
        look(&mut advice, &mut history, has_history, &mut analyser, seen);
    }
    // Before the device is measured, so that the measurement is not recorded.
    windows.close();
    let measured = match arguments.no_probe || interrupt::requested() {
        true => Ok(None),
        false => Probe::measure(&target.layer, PROBING, &interrupt::requested),
    };
    // What was observed is worth a report without a measurement.
    let failure = measured.as_ref().err().map(|error| format!("service times: not measured: {error}"));
    let probe = measured.unwrap_or_default();
    let is_useless = |of: &ServiceTime| of.points.is_empty() || of.is_disturbed();
    let is_disturbed = probe.as_ref().is_some_and(|probe| is_useless(&probe.service_time));
    advice.discarded = probe.as_ref().filter(|_| is_disturbed).map(why_discarded).or(failure);
    let too_small = too_small(&advice, class, length);
    let class = class.filter(|_| too_small.is_none());
    if let (Some(probe), true) = (&probe, class.is_some()) {
        let schedulers = (arms.names(), &*current);
        let observed = model::Observed {
            probe,
            is_disturbed,
            busy: advice.busy,
            disks: target.queues.len(),
            bytes_per_second: advice.bytes_per_second,
            of_each_reported: advice.requests as f64 / (advice.requests - advice.not_reported).max(1) as f64,
        };
        advice.replay = model::replay(&recording, observed, schedulers, metric, catalogue)?;
        let misfit = advice.replay.as_ref().and_then(|model| model.misfit(&current));
        advice.doubts.extend(misfit);
    }
    advice.service_times = probe.filter(|_| !is_disturbed);
    if let Some(profile) = &profile {
        history.keep_significant(profile, &current, arms.names(), &advice);
    }
    match too_small {
        Some(why) => advice.why = why,
        None => conclude(&mut advice, &history, &*arms),
    }
    if let Some(class) = class {
        advice.load = Some(class.in_words());
        let bypassed =
            (kind == Kind::Nvme || advice.facts.scheduled_by_host) && arguments.watching.control.is_none();
        expect(&mut advice, class, metric, bypassed);
        let arm = advice.better.clone().unwrap_or_else(|| current.clone());
        let host = Host::of(&Roots::at(std::path::Path::new("/")));
        advice.configuration = Some(Configuration::of(&arm, &current, &target.queues, &*arms, &host));
    }
    publish(advice, arguments.json)?;
    if interrupt::requested() { Err(Error::Interrupted) } else { Ok(()) }
}

/// Why the load does not show which scheduler is better, if it is so small.
fn too_small(advice: &Advice, class: Option<LoadClass>, window: Duration) -> Option<String> {
    let Advice { requests, busy, .. } = *advice;
    // A device may be busy with few large requests.
    let is_small = (requests < FEWEST && busy < model::BUSY) || busy < LEAST_BUSY || class.is_none();
    is_small.then(|| {
        format!(
            "{} in {:.0} s, busy {:.2}% of the time: a scheduler orders requests that wait for each other; run this while the load of interest runs",
            if requests == 0 { "no requests".to_owned() } else { counted(requests, "request") },
            window.as_secs_f64() * f64::from(advice.windows),
            busy * 100.0
        )
    })
}

/// Prints the advice.
fn publish(mut advice: Advice, as_json: bool) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    if as_json {
        advice.doubts.extend(advice.discarded.take());
        return Ok(writeln!(out, "{}", object(&advice)?)?);
    }
    Ok(print::print(&advice, &mut out)?)
}

/// Prints how long the command takes.
fn announce(arguments: &AdviseArguments, device: &str, length: Duration) {
    let watched = length.saturating_mul(arguments.windows).as_secs_f64();
    let (measuring, all) = match arguments.no_probe {
        true => ("", watched + 1.0),
        false => (", then measuring it for at most 4 s", watched + PROBING.as_secs_f64() + 2.0),
    };
    let windows = counted(u64::from(arguments.windows), "window");
    say!(
        "watching {device} for {windows} of {} s{measuring}; done in {all:.0} s; changing nothing",
        length.as_secs_f64()
    );
}

/// Loads what the tuner learned about the device, if anything. A state that cannot be used changes nothing.
fn with_history(
    analyser: &mut Analyser,
    database: &Database,
    arguments: &AdviseArguments,
    target: &Target,
) -> Result<bool, Error> {
    let AdviseArguments { watching, .. } = arguments;
    let Some(state) = database.load(&target.drive, setup::metric(watching))? else { return Ok(false) };
    analyser.restore(state).map_err(|problem| does_not_fit("--database", &watching.database, &problem))?;
    Ok(true)
}

/// The reason for not using a measurement that other requests delayed.
fn why_discarded(probe: &Probe) -> String {
    let Some((near, far)) = probe.service_time.near_and_far() else {
        return format!(
            "service times: none, because no read ended within {} s: the drive preferred requests of the load",
            PROBING.as_secs()
        );
    };
    let [near, far] = [near, far].map(|span| time(span.as_nanos()));
    format!(
        "service times: discarded, because reads in sequence took longer ({near}) than across the device ({far}): other requests delayed them"
    )
}

fn look(advice: &mut Advice, history: &mut History, has_history: bool, analyser: &mut Analyser, seen: Seen) {
    let n = f64::from(advice.windows);
    let mean = |so_far: f64, value: f64| (so_far * n + value) / (n + 1.0);
    let requests = seen.window.requests() + seen.missed;
    advice.requests += requests;
    let rate = requests as f64 / seen.window.length.as_secs_f64();
    advice.requests_per_second = mean(advice.requests_per_second, rate);
    advice.bytes_per_second = mean(advice.bytes_per_second, seen.performance.bandwidth);
    advice.request_bytes = mean(advice.request_bytes, seen.window.mean_size());
    advice.not_reported += seen.missed;
    advice.read_share = mean(advice.read_share, seen.window.read_share());
    advice.random_share = mean(advice.random_share, seen.window.random_share());
    advice.busy = mean(advice.busy, seen.busy);
    advice.windows += 1;
    let scheduler = history.now.map(SchedulerId);
    let observed = Observed { scheduler, performance: seen.performance };
    let decision = analyser.window(&seen.window, &observed);
    advice.analysed += u32::from(decision.is_analysed());
    // Without history, a window resembles earlier windows under the same scheduler only.
    if let Some(of) = history_of(analyser, &decision, history).filter(|_| has_history) {
        advice.recognised += 1;
        history.add(&of);
    }
    history.note_profile(&decision, analyser.schedulers());
    advice.why = match &decision.why {
        // The decider's line would name its next step, perhaps a trial, and not a reason.
        Why::Kind(KindDecision { kind, windows, .. }) => {
            format!("loads of kind {kind}, observed in {}", counted(*windows, "window"))
        }
        _ => decision.line(analyser.schedulers()),
    };
}

/// The history of each arm for the window's cluster or kind of load. `None` for the first window of its kind.
fn history_of(analyser: &Analyser, decision: &Decision, history: &History) -> Option<Vec<Option<Estimate>>> {
    match decision.why {
        Why::Kind(KindDecision { kind, windows, .. }) if windows > 1 => {
            let knowledge = analyser.kinds().compared(kind, history.now.map(SchedulerId), history.better)?;
            // Compared with another scheduler, the figures have no meaning here.
            Some(knowledge.base.0)
                .filter(|base| history.now.is_none_or(|now| now == *base))
                .map(|_| knowledge.estimates)
        }
        Why::Best { .. } | Why::Untested { .. } => {
            let cluster = analyser.store().get(decision.cluster?)?;
            // The paper compares means only.
            let of = |values: &Values| {
                Some(Estimate { value: values.mean()?, windows: values.count() as u64, surely: 1.0 })
            };
            Some(cluster.performance.iter().map(of).collect())
        }
        _ => None,
    }
}

impl History {
    fn new(arms: &[String], current: &str, better: Better) -> Self {
        let now = arms.iter().position(|name| name == current);
        Self { now, better, base: 0.0, arms: vec![Compared::default(); arms.len()], profiled: None }
    }

    fn add(&mut self, of: &[Option<Estimate>]) {
        let Some(Estimate { value: base, .. }) = self.now.and_then(|now| of[now]) else { return };
        self.base += base;
        for (arm, of) in self.arms.iter_mut().zip(of) {
            if let Some(Estimate { value, windows, surely }) = *of {
                arm.gained += self.better.oriented(value - base);
                arm.surely += surely;
                arm.windows += 1;
                arm.measured += windows;
            }
        }
    }

    fn note_profile(&mut self, decision: &Decision, names: &[String]) {
        if let (Why::APriori { .. }, Some(best), true) = (&decision.why, decision.scheduler, decision.change)
        {
            self.profiled = Some((best.0, decision.line(names)));
        }
    }

    /// Drops the profile's preference if the confidence intervals of the two schedulers overlap for this load.
    fn keep_significant(&mut self, profile: &Profile, current: &str, names: &[String], advice: &Advice) {
        let Some((best, _)) = &self.profiled else { return };
        let (best, load) = (&names[*best], advice.load());
        let why = match profile.is_surely_better(best, current, &load) {
            Some(true) => return,
            Some(false) => format!(
                "the profile has no significant difference between {best} and {current} for this load"
            ),
            None => format!(
                "the profile has no confidence intervals for {best} and {current}; measure the device again with 'dwell profile'"
            ),
        };
        say!("{why}");
        self.profiled = None;
    }

    /// The best arm, if another arm than the one in use was measured.
    fn best(&self) -> Option<(usize, Compared)> {
        let tried = || self.arms.iter().copied().enumerate().filter(|(_, arm)| arm.windows > 0);
        tried().find(|(arm, _)| Some(*arm) != self.now)?;
        tried().max_by(|a, b| a.1.gained.total_cmp(&b.1.gained))
    }
}

impl Advice {
    /// The observed load, for a profile's table.
    fn load(&self) -> Workload {
        Workload { size: self.request_bytes, read_share: self.read_share, random_share: self.random_share }
    }
}

/// What was learned before decides, or the profile.
fn conclude(advice: &mut Advice, history: &History, arms: &dyn Arms) {
    let Some((best, of)) = history.best() else { return by_profile(advice, history, arms) };
    let gain = if history.base == 0.0 { 0.0 } else { of.gained / history.base.abs() };
    let recognised = f64::from(of.windows) / f64::from(advice.analysed.max(1));
    advice.confidence = recognised * of.measured as f64 / (of.measured + 1) as f64;
    advice.expected_gain = Some(gain);
    advice.basis = Basis::History;
    if Some(best) != history.now && is_worth_it(gain, of.surely) {
        advice.better = Some(arms.names()[best].clone());
    } else {
        advice.why = format!("{}; no scheduler that was tried is better", advice.why);
    }
}

/// Recommends the profile's preference if there is no history. The profile does not predict the gain of this load.
fn by_profile(advice: &mut Advice, history: &History, arms: &dyn Arms) {
    if let Some((best, why)) = &history.profiled {
        advice.why = format!("according to the device's profile: {why}");
        advice.basis = Basis::Profile;
        advice.confidence = BY_BOTH;
        advice.better = Some(arms.names()[*best].clone());
    }
}

/// Without history and profile: the drive's own scheduling, the model, or the class of the load. None of them was measured on this device.
fn expect(advice: &mut Advice, class: LoadClass, metric: Metric, bypassed: bool) {
    if advice.basis != Basis::Nothing {
        return;
    }
    let model = advice.replay.as_ref().filter(|model| model.misfit(&advice.scheduler).is_none());
    let model = model.and_then(Modelled::best).map(|(name, gain)| (name.to_owned(), gain));
    let gain = |name: &str| prior::gain(name, class, metric);
    let ahead = |name: &str| gain(name) - gain(&advice.scheduler) >= MODEL_ERROR;
    let expected = advice.schedulers.iter().max_by(|a, b| gain(a).total_cmp(&gain(b)).then_with(|| b.cmp(a)));
    let expected = expected.filter(|name| ahead(name)).cloned();
    let no_measurement =
        "not measured on this device: 'dwell tune' tries it and restores the present one at its end";
    let in_model = model.as_ref().filter(|(_, gain)| *gain >= MODEL_ERROR);
    let none = advice.schedulers.iter().find(|name| *name == "none").cloned();
    let (basis, better, gained, confidence, why) = match (none, in_model, expected) {
        (Some(none), ..) if bypassed => {
            let who =
                if advice.facts.scheduled_by_host { "the host of this virtual machine" } else { "the drive" };
            let against = in_model.map(|(name, gain)| {
                format!(
                    "; the model, which has no such scheduler below, has {:+.0}% for {name}: if programs in this guest compete and the host \
                     has none, measure with 'dwell tune'",
                    gain * 100.0
                )
            });
            let confidence = if in_model.is_some() { BYPASSED } else { BYPASSED_SURELY };
            let why = format!("{who} orders the requests itself{}", against.unwrap_or_default());
            (Basis::Bypass, none, None, confidence, why)
        }
        (_, Some((name, gain)), expected) => {
            let agrees = expected.is_some() && ahead(name);
            let (confidence, by) = match agrees {
                true => (BY_BOTH, format!("the model and the class of the load ({})", class.in_words())),
                false => (BY_MODEL, "the model".to_owned()),
            };
            let why = format!("expected by {by}; {no_measurement}");
            (Basis::Model, name.clone(), Some(*gain), confidence, why)
        }
        // Without a difference in the model, the scheduler in use is not kept for its own sake: it would have the advice depend on what is set now.
        (Some(none), None, _) if model.is_some() && ahead(&none) && !is_worse_in_model(advice, &none) => {
            let why = format!(
                "the model has no difference for this load, and for its class ({}) {none} is expected to be better than {}; {no_measurement}",
                class.in_words(),
                advice.scheduler
            );
            (Basis::Class, none, None, BY_CLASS, why)
        }
        (_, None, expected) if model.is_some() => {
            let (confidence, why) = match expected {
                None => (BY_BOTH, "neither the model nor the class of the load predicts a gain".to_owned()),
                Some(name) => (
                    BY_CLASS,
                    format!(
                        "the model has no gain for this load, though {name} often gains for its class; {no_measurement}"
                    ),
                ),
            };
            (Basis::Model, advice.scheduler.clone(), None, confidence, why)
        }
        (_, None, Some(name)) => {
            let why = format!("expected from the class of the load ({}); {no_measurement}", class.in_words());
            (Basis::Class, name, None, BY_CLASS, why)
        }
        (_, None, None) => {
            let why = "no other scheduler is expected to be better for this class of load".to_owned();
            (Basis::Class, advice.scheduler.clone(), None, BY_CLASS, why)
        }
    };
    (advice.basis, advice.confidence, advice.why) = (basis, confidence, why);
    if better != advice.scheduler {
        (advice.better, advice.expected_gain) = (Some(better), gained);
    }
}

/// Whether the model has a lower result for this scheduler than for the present one, beyond its error.
fn is_worse_in_model(advice: &Advice, scheduler: &str) -> bool {
    let rows = advice.replay.iter().flat_map(|model| &model.results);
    rows.filter(|row| row.scheduler == scheduler).any(|row| row.gain.is_some_and(|gain| gain <= -MODEL_ERROR))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use elevator::{Op, Sector, Sectors, Span, Time};
    use tuner::{Access, Parameters, Performance, Random, Window};

    use super::model::Row;
    use super::*;

    struct Two(Vec<String>);

    impl Arms for Two {
        fn names(&self) -> &[String] {
            &self.0
        }

        fn add(&mut self, _: &str) -> Result<(), tuner_live::Error> {
            panic!("advise searches nothing")
        }

        fn rename(&mut self, _: usize, _: &str) -> Result<(), tuner_live::Error> {
            panic!("advise searches nothing")
        }

        fn current(&mut self) -> Result<String, tuner_live::Error> {
            Ok(self.0[0].clone())
        }

        fn switch(&mut self, _: usize) -> Result<Duration, tuner_live::Error> {
            panic!("advise changes nothing")
        }

        fn by_hand(&self, arm: &str) -> (String, Option<String>) {
            (format!("set {arm}"), None)
        }
    }

    /// So much, measured so often, beyond chance.
    fn of(value: f64, windows: u64) -> Option<Estimate> {
        Some(Estimate { value, windows, surely: 0.1 })
    }

    /// Of `none`, which is in use, and `bfq`, in each window.
    fn advice(windows: &[[Option<Estimate>; 2]], better: Better) -> Advice {
        let mut advice = Advice { scheduler: "none".to_owned(), analysed: 4, ..Advice::default() };
        let arms = Two(["none", "bfq"].map(str::to_owned).to_vec());
        let mut history = History::new(arms.names(), "none", better);
        windows.iter().for_each(|of| history.add(of));
        conclude(&mut advice, &history, &arms);
        advice
    }

    /// The advice for a load of this class, under `none` or another scheduler, where the model has that gain for bfq.
    fn expected(class: LoadClass, bypassed: bool, scheduler: &str, model: Option<f64>) -> Advice {
        let row = |(name, gain): (&str, f64)| Row {
            scheduler: name.to_owned(),
            gain: Some(gain),
            megabytes_per_second: 1.0,
            read_mean_ns: 1,
            read_p99_ns: 1,
            write_mean_ns: 0,
        };
        let rows = |gain: f64| [("none", 0.0), ("bfq", gain)].map(row).to_vec();
        let replay = model.map(|gain| Modelled { requests: 100, results: rows(gain), ..Modelled::default() });
        let schedulers = ["none", "bfq"].map(str::to_owned).to_vec();
        let mut advice = Advice { scheduler: scheduler.to_owned(), schedulers, replay, ..Advice::default() };
        expect(&mut advice, class, Metric::Bandwidth, bypassed);
        advice
    }

    #[test]
    fn without_history_and_model_the_class_of_the_load_decides() {
        let by = |class, bypassed, scheduler: &str| expected(class, bypassed, scheduler, None).better;
        assert_eq!(by(LoadClass::Streams, false, "none").as_deref(), Some("bfq"));
        assert_eq!(by(LoadClass::Streams, true, "none"), None, "the host schedules");
        assert_eq!(by(LoadClass::Streams, true, "bfq").as_deref(), Some("none"));
        assert_eq!(by(LoadClass::Fast, false, "bfq").as_deref(), Some("none"));
        assert_eq!(by(LoadClass::RandomReads, false, "none"), None);
    }

    /// Regression: a request a second, of a file system's writeback, was classed as writes, for which another scheduler was recommended.
    #[test]
    fn a_small_load_is_not_judged() {
        let why = |requests, busy, class| {
            let advice = Advice { requests, busy, windows: 3, ..Advice::default() };
            too_small(&advice, class, Duration::from_secs(5))
        };
        let small = why(15, 0.0003, Some(LoadClass::Writes)).expect("a request a second");
        assert!(small.starts_with("15 requests in 15 s, busy 0.03% of the time: "), "{small}");
        assert!(why(0, 0.0, None).expect("idle").starts_with("no requests in 15 s"));
        assert!(why(60_000, 0.0005, Some(LoadClass::Fast)).is_some(), "the device is hardly busy");
        for (requests, busy) in [(50, 0.001), (30, 0.6), (20_000, 1.0)] {
            assert_eq!(why(requests, busy, Some(LoadClass::Writes)), None, "{requests}, {busy}");
        }
    }

    #[test]
    fn the_model_decides_before_the_class_and_both_are_surer() {
        let both = expected(LoadClass::Streams, false, "none", Some(2.0));
        assert_eq!((both.better.as_deref(), both.expected_gain), (Some("bfq"), Some(2.0)));
        let alone = expected(LoadClass::RandomReads, false, "none", Some(2.0));
        assert_eq!(alone.better.as_deref(), Some("bfq"));
        assert!(both.confidence > alone.confidence);
        let neither = expected(LoadClass::RandomReads, false, "none", Some(0.02));
        assert_eq!((neither.better, neither.basis), (None, Basis::Model));
        let against = expected(LoadClass::Streams, false, "none", Some(0.0));
        assert!(against.better.is_none() && against.confidence < neither.confidence, "{}", against.why);
        // The class favours none, which the model does not contradict.
        for (class, better) in [(LoadClass::Fast, Some("none")), (LoadClass::Writes, None)] {
            assert_eq!(expected(class, false, "bfq", Some(0.0)).better.as_deref(), better);
        }
        let in_a_guest = expected(LoadClass::Streams, true, "none", Some(2.0));
        assert_eq!((in_a_guest.better, in_a_guest.basis), (None, Basis::Bypass));
        assert!(in_a_guest.why.contains("+200% for bfq"), "{}", in_a_guest.why);
    }

    #[test]
    fn a_better_one_is_named() {
        let found = advice(&[[of(10.0, 1), of(20.0, 3)]; 3], Better::Higher);
        assert_eq!((found.better.as_deref(), found.basis), (Some("bfq"), Basis::History));
        assert_eq!((found.expected_gain, found.confidence), (Some(1.0), 0.75 * 0.9));
    }

    #[test]
    fn what_is_no_better_or_not_known_is_not_recommended() {
        let found = |bfq: f64, better| advice(&[[of(30.0, 3), of(bfq, 9)]], better);
        assert!(found(30.5, Better::Higher).better.is_none(), "too little");
        assert!(found(60.0, Better::Lower).better.is_none(), "less is better");
        let by_chance = of(60.0, 9).map(|of| Estimate { surely: 0.0, ..of });
        assert!(advice(&[[of(30.0, 3), by_chance]], Better::Higher).better.is_none(), "it may be chance");
        let unknown = advice(&[[None, of(60.0, 9)]], Better::Higher);
        assert!(unknown.expected_gain.is_none(), "nothing to compare with");
        let alone = advice(&[[of(30.0, 3), None]], Better::Higher);
        assert!(alone.expected_gain.is_none(), "as good as any is no word for the only one that was tried");
    }

    #[test]
    fn while_nothing_is_known_the_profile_decides() {
        use tuner::selector::{Curve, Kind, Table};
        let names = ["none", "bfq"].map(str::to_owned).to_vec();
        let curve = |rate| Curve { kind: Kind { reads: None, random: None }, points: vec![(4096.0, rate)] };
        let by = |rates: [f64; 2]| {
            let table = Table { curves: rates.map(|rate| vec![curve(rate)]).to_vec() };
            let (parameters, random) = (Parameters::default(), Random::seeded(1));
            let analyser = Analyser::new(names.clone(), Metric::Bandwidth, parameters, random).unwrap();
            let mut analyser = analyser.with_a_priori(table);
            let mut history = History::new(&names, "none", Better::Higher);
            let mut advice = Advice { scheduler: "none".to_owned(), ..Advice::default() };
            for _ in 0..3 {
                let decision = reads(&mut analyser, SchedulerId(0), 30e6);
                history.note_profile(&decision, &names);
            }
            conclude(&mut advice, &history, &Two(names.clone()));
            advice
        };
        let better = by([1e6, 2e6]);
        assert_eq!((better.better.as_deref(), better.expected_gain), (Some("bfq"), None));
        assert!(better.why.contains("the device's table has 2.0 MB/s"), "{}", better.why);
        assert!(by([2e6, 1e6]).better.is_none(), "it is in use");
    }

    /// Sums over different windows cannot be compared: the arm that was measured in fewer windows would have the lower sum of latencies.
    #[test]
    fn each_is_compared_where_it_is_known() {
        let windows = [[of(10.0, 5), of(15.0, 5)], [of(10.0, 5), None]];
        let slower = advice(&windows, Better::Lower);
        assert_eq!((slower.better, slower.expected_gain), (None, Some(0.0)));
        let faster = advice(&windows, Better::Higher);
        assert_eq!((faster.better.as_deref(), faster.expected_gain), (Some("bfq"), Some(0.25)));
        assert_eq!(faster.confidence, 0.25 * 5.0 / 6.0, "known in one of four");
    }

    /// Windows of one reader in sequence under a scheduler that gives so much, by kinds of load.
    fn reads(analyser: &mut Analyser, scheduler: SchedulerId, bandwidth: f64) -> Decision {
        let access = |n: u64| Access {
            time: Time::from_nanos(n * 1_000_000),
            position: Sector(n * 8),
            op: Op::Read,
            size: Sectors(8),
        };
        let accesses = (0..500).map(access).collect();
        let window = Window { start: Time::ZERO, length: Span::from_secs(5), accesses };
        let performance = Performance { bandwidth, ..Performance::default() };
        analyser.window(&window, &Observed { scheduler: Some(scheduler), performance })
    }

    #[test]
    fn what_is_known_by_kinds_of_load_is_recommended() {
        let names = ["none", "bfq"].map(str::to_owned).to_vec();
        let parameters = Parameters::default();
        let mut analyser =
            Analyser::new(names.clone(), Metric::Bandwidth, parameters, Random::seeded(1)).unwrap();
        let mut scheduler = SchedulerId(0);
        let first = reads(&mut analyser, scheduler, 30e6);
        let mut history = History::new(&names, "none", Better::Higher);
        assert!(history_of(&analyser, &first, &history).is_none(), "the first of its like");
        for _ in 0..200 {
            let decision = reads(&mut analyser, scheduler, [30e6, 60e6][scheduler.0]);
            scheduler = decision.scheduler.unwrap_or(scheduler);
        }
        // From here on nothing is changed, whatever is decided.
        let mut advice = Advice { scheduler: "none".to_owned(), ..Advice::default() };
        for _ in 0..5 {
            let decision = reads(&mut analyser, SchedulerId(0), 30e6);
            let of = history_of(&analyser, &decision, &history).expect("a kind that is known");
            history.add(&of);
            (advice.analysed, advice.recognised) = (advice.analysed + 1, advice.recognised + 1);
        }
        conclude(&mut advice, &history, &Two(names));
        assert_eq!(advice.better.as_deref(), Some("bfq"));
        let gain = advice.expected_gain.unwrap();
        assert!((0.8..1.2).contains(&gain), "twice as much: {gain}");
        // What 'patterns' lists and what 'tune' uses.
        let state = analyser.state();
        let kind = state.kinds.loads().next().expect("a kind");
        assert_eq!(super::super::kinds::best(&state, kind), Some("bfq"));
        assert_eq!(scheduler, SchedulerId(1));
    }
}
