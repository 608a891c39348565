//! `dwell advise`: watches a device and recommends a scheduler, without trying any.
//!
//! The basis of the recommendation is the first of these that has a result:
//! 1. the state that `tune` learned about this drive and load;
//! 2. the device's profile, if one is given;
//! 3. the drive's or the host's own scheduling;
//! 4. a replay of the observed requests on a model with the device's measured service times;
//! 5. the class of the load.

mod configuration;
mod model;
mod print;
mod running_tuner;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use capture::profile::{Probe, Profile, ServiceTime};
use capture::topology::DeviceType;
use elevator::text::counted;
use schedulers::registry::Catalogue;
use serde::Serialize;
use tuner::prior::{self, LoadClass};
use tuner::throughput::Workload;
use tuner::{
    Analyser, Better, Decision, Estimate, KindDecision, Kinds, Metric, Observed, SchedulerId, Values, Why,
    is_worth_it,
};
use tuner_live::arms::Arms;
use tuner_live::database::Database;
use tuner_live::outside::Outside;
use tuner_live::settings_backup::LeftBehind;
use tuner_live::{Counters, Seen, Traffic, in_words, released_within};

use self::configuration::{Configuration, Host};
use self::model::{Modelled, Recorded, Recording, Row};
use self::running_tuner::RunningTuner;
use super::args::AdviseArguments;
use super::does_not_fit;
use super::setup::{self, Target};
use crate::commands::doctor::{Device, Roots, settings};
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
    fn of(target: &Target) -> (Self, DeviceType) {
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
            // With `--here`, the queue is not that of the disk below.
            settings: target
                .queues
                .first()
                .map_or_else(|| device.settings.clone(), |queue| settings(&roots, queue.name())),
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
    /// These four, and `busy`, are the kernel's counters of reads and writes, or else those of the capture.
    requests_per_second: f64,
    request_bytes: f64,
    bytes_per_second: f64,
    /// Submitted requests in all windows.
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
    /// The killed tuner whose settings the device still has. Then `scheduler` is the one before them.
    killed_tuner: Option<Killed>,
    /// What to paste for the better scheduler, or to keep the present one.
    configuration: Option<Configuration>,
}

/// A tuner that was killed before it could restore the settings.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
struct Killed {
    pid: u32,
    /// The scheduler that it left.
    in_use: String,
    /// The operator's scheduler.
    before: String,
    /// With the settings that differ.
    arm: String,
    /// Restores them.
    remedy: String,
}

impl Killed {
    /// By what is left on the queues of a device or array.
    fn of(left: &[LeftBehind], in_use: &str) -> Option<Self> {
        let first = left.first()?;
        Some(Self {
            pid: first.pid,
            in_use: in_use.to_owned(),
            before: first.scheduler.clone(),
            arm: first.arm(),
            remedy: first.remedy(),
        })
    }
}

/// What the database's history shows about the arms, summed over the windows for whose kind of load the arm in use was measured. An arm that was not
/// measured for a window's kind counts as equal in that window.
struct History {
    /// The operator's arm; `None` if the operator's scheduler is not an arm.
    now: Option<usize>,
    /// The arm in use: another one if a killed tuner has left it.
    in_use: Option<usize>,
    better: Better,
    /// What the tuner saved. The windows of this command have values of the scheduler in use only, which would favour or disfavour it by chance.
    saved: Option<Kinds>,
    /// The value of the arm in use, summed over the windows.
    base: f64,
    arms: Vec<Compared>,
    /// `none`, if it is an arm, and the windows for whose kind of load no arm is better than it: the answer of 'dwell patterns'.
    none: Option<usize>,
    none_suffices: u32,
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
    setup::measurable(metric, &arguments.watching)?;
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
    let claims = match target.claim() {
        Ok(claims) => claims,
        Err(claimed) => return running_tuner::report(arguments, &target, facts, claimed),
    };
    let recording = Recording::of(&target)?;
    let into = recording.clone();
    let mut windows = target.watch_through(length, metric, move |capture| Recorded(capture, into.clone()))?;
    announce(arguments, &target.layer.name, length, &claims);
    let in_use = arms.current()?;
    let (left, of_no_use) = target.left_behind();
    let killed = Killed::of(&left, &in_use).filter(|_| arguments.watching.control.is_none());
    // The load is observed under the scheduler in use, and the advice is about the operator's.
    let current = killed.as_ref().map_or(&in_use, |killed| &killed.before).clone();
    let mut advice = Advice {
        device: arguments.device.display().to_string(),
        stack: target.stack.describe(),
        scheduler: current.clone(),
        metric: in_words(metric),
        doubts: target.doubts(&arguments.watching).into_iter().chain(unusable).chain(of_no_use).collect(),
        schedulers: arms.names().to_vec(),
        facts,
        killed_tuner: killed,
        ..Advice::default()
    };
    let mut history = History::new(arms.names(), &current, metric.better());
    history.in_use = arms.names().iter().position(|name| *name == in_use);
    history.saved = has_history.then(|| analyser.kinds().clone());
    let profile =
        arguments.watching.profile.as_deref().map(crate::commands::profile::read_steady).transpose()?;
    let mut counters = Counters::within(std::path::Path::new("/sys/block"), &target.layer.name);
    // Without counters the load is that of the capture.
    let mut traffic = || counters.as_mut().and_then(|counters| counters.traffic(Instant::now()).ok());
    traffic();
    let (mut class, mut unmeasured) = (None, 0);
    while advice.windows < arguments.windows {
        let Some(mut seen) = windows.next(&mut capture::now, &mut || !interrupt::requested())? else { break };
        let now = arms.current()?;
        if now != in_use {
            let device = arguments.device.display();
            let problem = format!(
                "{device}: another process changed the scheduler from {in_use} to {now}; run advise again"
            );
            return Err(Error::Failed(problem));
        }
        let problem = outside.measure(metric, &mut seen);
        problem.iter().for_each(|problem| say!("{problem}"));
        unmeasured += u64::from(problem.is_some());
        if seen.torn {
            say!("window discarded: it lasted too long (the machine slept or was overloaded)");
            continue;
        }
        class = seen.window.counts().then(|| LoadClass::of(&seen.window, seen.busy)).or(class);
        look(&mut advice, &mut history, has_history, &mut analyser, seen);
    }
    if unmeasured > 0 {
        advice.doubts.push(format!("the metric could not be measured in {}", counted(unmeasured, "window")));
    }
    traffic().iter().for_each(|traffic| advice.count(traffic));
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
        let misfit = advice.replay.as_ref().and_then(|model| model.misfit(&in_use));
        advice.doubts.extend(misfit);
    }
    advice.service_times = probe.filter(|_| !is_disturbed);
    if let Some(profile) = &profile {
        history.keep_significant(profile, &current, arms.names(), &advice);
    }
    let bypassed =
        (kind == DeviceType::Nvme || advice.facts.scheduled_by_host) && arguments.watching.control.is_none();
    match too_small {
        Some(why) => advice.why = why + &advice.whatever_the_load(bypassed),
        None => conclude(&mut advice, &history, &*arms),
    }
    if let Some(class) = class {
        advice.load = Some(class.in_words());
        expect(&mut advice, class, metric, bypassed);
        let arm = advice.better.clone().unwrap_or_else(|| current.clone());
        let host = Host::of(&Roots::at(std::path::Path::new("/")));
        let before = advice.killed_tuner.as_ref().map_or(&current, |killed| &killed.arm);
        let states = [&*arm, &current, before];
        advice.configuration = Some(Configuration::of(states, &target.queues, &*arms, &host));
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
            "{} in {} s, busy {:.2}% of the time: a scheduler orders requests that wait for each other; run this while the load of interest runs",
            if requests == 0 { "no requests".to_owned() } else { counted(requests, "request") },
            window.saturating_mul(advice.windows).as_secs_f64(),
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

/// Notes in the claims how long the command takes, and prints it.
fn announce(arguments: &AdviseArguments, device: &str, length: Duration, claims: &[File]) {
    let watched = length.saturating_mul(arguments.windows);
    let second = Duration::from_secs(1);
    let (measuring, all) = match arguments.no_probe {
        true => ("", watched.saturating_add(second)),
        false => (", then measuring it for at most 4 s", watched.saturating_add(PROBING + 2 * second)),
    };
    released_within(claims, all);
    let windows = counted(u64::from(arguments.windows), "window");
    say!(
        "watching {device} for {windows} of {} s{measuring}; done in {:.0} s; changing nothing",
        length.as_secs_f64(),
        all.as_secs_f64()
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
    // Of all requests: windows have different numbers of them.
    let share = requests as f64 / advice.requests.max(1) as f64;
    advice.request_bytes += (seen.window.mean_size() - advice.request_bytes) * share;
    advice.not_reported += seen.missed;
    advice.read_share = mean(advice.read_share, seen.window.read_share());
    advice.random_share = mean(advice.random_share, seen.window.random_share());
    advice.busy = mean(advice.busy, seen.busy);
    advice.windows += 1;
    let scheduler = history.in_use.map(SchedulerId);
    let observed = Observed { scheduler, performance: seen.performance };
    let decision = analyser.window(&seen.window, &observed);
    advice.analysed += u32::from(decision.is_analysed());
    // Without history, a window resembles earlier windows under the same scheduler only.
    if let Some(of) = history_of(analyser, &decision, history).filter(|_| has_history) {
        advice.recognised += 1;
        history.add(&of);
        history.note_none(&decision);
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
            let saved = history.saved.as_ref()?;
            let knowledge = saved.compared(kind, history.now.map(SchedulerId), history.better)?;
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
        let none = arms.iter().position(|name| name == "none");
        let arms = vec![Compared::default(); arms.len()];
        Self {
            now,
            in_use: now,
            better,
            saved: None,
            base: 0.0,
            arms,
            none,
            none_suffices: 0,
            profiled: None,
        }
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

    /// Notes a window for whose kind of load no arm is better than `none`.
    fn note_none(&mut self, decision: &Decision) {
        let (Why::Kind(KindDecision { kind, .. }), Some(none)) = (&decision.why, self.none) else {
            return;
        };
        let saved = self.saved.as_ref();
        let known = saved.and_then(|saved| saved.compared(*kind, Some(SchedulerId(none)), self.better));
        self.none_suffices += u32::from(known.is_some_and(|known| known.best() == SchedulerId(none)));
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

    /// `none`, if another scheduler is in use that is not better than it in most of the windows.
    fn none_instead(&self) -> Option<usize> {
        let none = self.none.filter(|none| self.now.is_some_and(|now| now != *none))?;
        (self.none_suffices * 2 > self.arms[none].windows).then_some(none)
    }

    /// The best arm, if another arm than the one in use was measured.
    fn best(&self) -> Option<(usize, Compared)> {
        let tried = || self.arms.iter().copied().enumerate().filter(|(_, arm)| arm.windows > 0);
        tried().find(|(arm, _)| Some(*arm) != self.now)?;
        tried().max_by(|a, b| a.1.gained.total_cmp(&b.1.gained))
    }
}

impl Advice {
    /// What orders the requests below the scheduler, if `none` is recommended therefore.
    const fn below(&self) -> &'static str {
        if self.facts.scheduled_by_host { "the host of this virtual machine" } else { "the drive" }
    }

    /// The load as the kernel counted it, which is what other programs show. Submitted requests are merged, or are discards.
    fn count(&mut self, traffic: &Traffic) {
        if traffic.requests_per_second == 0.0 {
            return;
        }
        self.requests_per_second = traffic.requests_per_second;
        self.bytes_per_second = traffic.bytes_per_second;
        self.request_bytes = traffic.mean_bytes;
        self.read_share = traffic.read_share;
        self.busy = traffic.busy;
    }

    /// What holds without a load, as the end of a sentence.
    fn whatever_the_load(&self, bypassed: bool) -> String {
        let has_none = self.schedulers.iter().any(|name| name == "none");
        if !bypassed || !has_none || self.scheduler == "none" {
            return String::new();
        }
        format!(
            "; {} orders the requests itself, so that none is usually better than {} for any load",
            self.below(),
            self.scheduler
        )
    }

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
    } else if let Some(none) = history.none_instead() {
        // As 'tune' and 'patterns'; otherwise the advice would depend on what is set now.
        advice.better = Some(arms.names()[none].clone());
        advice.expected_gain = None;
        advice.why = format!(
            "{}; no scheduler that was tried is better than none beyond chance, and none needs the least processor time",
            advice.why
        );
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
    let in_use = advice.killed_tuner.as_ref().map_or(&advice.scheduler, |killed| &killed.in_use);
    let model = advice.replay.as_ref().filter(|model| model.misfit(in_use).is_none());
    let model = model.and_then(Modelled::best).map(|(name, gain)| (name.to_owned(), gain));
    let gain = |name: &str| prior::gain(name, class, metric);
    let ahead = |name: &str| gain(name) - gain(&advice.scheduler) >= MODEL_ERROR;
    let expected = advice.schedulers.iter().max_by(|a, b| gain(a).total_cmp(&gain(b)).then_with(|| b.cmp(a)));
    // Of equals within the error the one that needs the least processor time.
    let none = advice.schedulers.iter().find(|name| *name == "none").cloned();
    let is_enough = |name: &&String| none.as_ref().filter(|none| gain(name) - gain(none) < MODEL_ERROR);
    let expected = expected.map(|name| is_enough(&name).unwrap_or(name));
    let expected = expected.filter(|name| ahead(name)).cloned();
    let no_measurement =
        "not measured on this device: 'dwell tune' tries it and restores the present one at its end";
    // A small gain counts if the class favours the same scheduler: think times in a recording of a busy machine reduce it.
    let is_expected = |name: &String| expected.as_ref() == Some(name);
    let is_gain = |(name, gain): &&(String, f64)| {
        *gain >= MODEL_ERROR || (is_worth_it(*gain, 1.0) && is_expected(name))
    };
    let in_model = model.as_ref().filter(is_gain);
    let (basis, better, gained, confidence, why) = match (none, in_model, expected) {
        (Some(none), ..) if bypassed => {
            let who = advice.below();
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
            let confidence = if agrees && *gain >= MODEL_ERROR { BY_BOTH } else { BY_MODEL };
            let by = match agrees {
                true => format!("the model and the class of the load ({})", class.in_words()),
                false => "the model".to_owned(),
            };
            let why = format!("expected by {by}; {no_measurement}");
            (Basis::Model, name.clone(), Some(*gain), confidence, why)
        }
        // The scheduler in use is not kept for its own sake: the advice would depend on what is set now.
        (Some(none), None, expected)
            if (model.is_some() || expected.as_ref().is_none_or(|name| *name == none))
                && is_no_better(advice, &none, model.is_some(), &gain) =>
        {
            let model = if model.is_some() { "neither the model nor " } else { "" };
            let not = if model.is_empty() { "does not predict" } else { "predicts" };
            let (class, in_use) = (class.in_words(), &advice.scheduler);
            let others = expected.filter(|name| *name != none);
            let others =
                others.map(|name| format!("; {name} often gains for this class")).unwrap_or_default();
            let why = format!(
                "{model}the class of the load ({class}) {not} a gain of {in_use} over {none}, which needs the least processor time{others}; {no_measurement}"
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

/// Whether the scheduler in use is no better than `none`, beyond the error: by the class of the load, and in the model if it fits.
fn is_no_better(advice: &Advice, none: &str, has_model: bool, gain: &impl Fn(&str) -> f64) -> bool {
    let rows = advice.replay.iter().filter(|_| has_model).flat_map(|model| &model.results);
    let is_worse = |row: &Row| row.scheduler == none && row.gain.is_some_and(|gain| gain <= -MODEL_ERROR);
    let in_use = &*advice.scheduler;
    in_use != none && gain(in_use) - gain(none) < MODEL_ERROR && !rows.clone().any(is_worse)
}
