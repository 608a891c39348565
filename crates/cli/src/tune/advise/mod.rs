//! `dwell advise`: watches a device and recommends a scheduler, without trying any.
//!
//! The basis of the recommendation is the first of these that has a result:
//! 1. the state that `tune` learned about this drive and load;
//! 2. the device's profile, if one is given;
//! 3. the drive's or the host's own scheduling;
//! 4. a replay of the observed requests on a model with the device's measured service times;
//! 5. the class of the load.

mod configuration;
mod history;
mod measure;
mod model;
mod observe;
mod print;
mod recommend;
mod running_tuner;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use capture::profile::{Probe, Profile};
use capture::topology::{DeviceType, Layer};
use schedulers::registry::Catalogue;
use serde::Serialize;
use tuner::throughput::Workload;
use tuner::{Analyser, Metric};
use tuner_live::arms::Arms;
use tuner_live::database::Database;
use tuner_live::in_words;
use tuner_live::settings_backup::LeftBehind;

use self::configuration::Configuration;
use self::model::Modelled;
use self::running_tuner::RunningTuner;
use super::args::AdviseArguments;
use super::does_not_fit;
use super::setup::{self, Target};
use crate::commands::doctor::{Device, Roots, settings};
use crate::error::Error;
use crate::interrupt;
use evaluation::report::format::object;

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
        // An array is observed itself, and scheduled by its members; without a device of its own it has the size of all.
        let watched =
            if target.members.is_empty() { std::slice::from_ref(&target.layer) } else { &target.members };
        let sectors = |layer: &Layer| of(&layer.name, "size").and_then(|size| size.parse::<u64>().ok());
        let size = watched.iter().map(sectors).sum::<Option<u64>>();
        let facts = Self {
            file_systems: device.mounts.iter().map(ToString::to_string).collect(),
            guest: roots.is_guest(),
            scheduled_by_host: device.is_scheduled_by_host(&roots),
            capacity_bytes: size.map(|size| size * 512),
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
    /// Flushes without data, which are not among the requests above.
    flushes_per_second: f64,
    /// Submitted requests in all windows.
    requests: u64,
    /// Whether the windows have requests of each [`LatencyClass`](tuner::LatencyClass).
    #[serde(skip)]
    occurred: [bool; 3],
    /// The requests whose latency is the metric, if the load has none of them.
    #[serde(skip)]
    absent: Option<&'static str>,
    /// Requests in all windows that the capture counted but did not report.
    not_reported: u64,
    read_share: f64,
    random_share: f64,
    /// The share of requests that move to another place.
    #[serde(skip)]
    change_share: f64,
    /// The share of the time with a request in flight.
    busy: f64,
    doubts: Vec<String>,
    facts: Facts,
    /// Measured while the load runs; `None` if the measurement failed or was discarded.
    service_times: Option<Probe>,
    /// Why it was discarded, or which parts of it.
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
    /// With all settings.
    #[serde(skip)]
    complete_arm: String,
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
            complete_arm: first.complete_arm(),
            remedy: first.remedy(),
        })
    }
}

/// What every step of the command needs.
struct Session<'a> {
    arguments: &'a AdviseArguments,
    catalogue: Catalogue,
    target: Target,
    metric: Metric,
    arms: Box<dyn Arms>,
    profile: Option<Profile>,
    /// The length of a window.
    length: Duration,
    analyser: Analyser,
    /// The analyser has what `tune` learned about the device.
    has_history: bool,
    /// Why it does not have what `tune` learned, if that cannot be used.
    unusable: Option<String>,
}

impl<'a> Session<'a> {
    fn new(arguments: &'a AdviseArguments, catalogue: Catalogue) -> Result<Self, Error> {
        let watching = &arguments.watching;
        let target = Target::holding(&arguments.device, watching)?;
        target.has_profile(watching)?;
        let metric = setup::metric(watching);
        setup::measurable(metric, watching)?;
        let arms = setup::arms(&target, watching, catalogue, Vec::new())?;
        let (length, mut analyser) = setup::analyser(arms.names(), watching, 1)?;
        let database = Database::open_existing(&watching.database)?;
        let learned = database.map(|database| with_history(&mut analyser, &database, arguments, &target));
        let (has_history, unusable) = match learned.unwrap_or(Ok(false)) {
            Ok(has_history) => (has_history, None),
            Err(problem) => (false, Some(format!("advice without what 'dwell tune' learned: {problem}"))),
        };
        let profile = watching.profile.as_deref().map(crate::commands::profile::read_steady).transpose()?;
        Ok(Self {
            arguments,
            catalogue,
            target,
            metric,
            arms,
            profile,
            length,
            analyser,
            has_history,
            unusable,
        })
    }

    /// The advice before the first window, for a device with this scheduler in use.
    fn begin(&self, facts: Facts, in_use: &str) -> Advice {
        let watching = &self.arguments.watching;
        let (left, of_no_use) = self.target.left_behind();
        let killed = Killed::of(&left, in_use).filter(|_| watching.control.is_none());
        // The load is observed under the scheduler in use, and the advice is about the operator's.
        let scheduler = killed.as_ref().map_or(in_use, |killed| &killed.before).to_owned();
        let doubts = self.target.doubts(watching).into_iter().chain(self.unusable.clone()).chain(of_no_use);
        Advice {
            device: self.arguments.device.display().to_string(),
            stack: self.target.describe(),
            scheduler,
            metric: in_words(self.metric),
            doubts: doubts.collect(),
            schedulers: self.arms.names().to_vec(),
            facts,
            killed_tuner: killed,
            ..Advice::default()
        }
    }
}

pub(crate) fn run(arguments: &AdviseArguments, catalogue: Catalogue) -> Result<(), Error> {
    let mut session = Session::new(arguments, catalogue)?;
    let (facts, kind) = Facts::of(&session.target);
    if facts.capacity_bytes == Some(0) {
        let device = arguments.device.display();
        return Err(Error::Usage(format!(
            "{device}: has no sectors: insert a medium or attach a file first"
        )));
    }
    // Reads and observation would count as the load of a tuner, whose switches would spoil the observation.
    let claims = match session.target.claim() {
        Ok(claims) => claims,
        Err(claimed) => return running_tuner::report(arguments, &session.target, facts, claimed),
    };
    let in_use = session.arms.current()?;
    let mut advice = session.begin(facts, &in_use);
    let observation = session.observe(&mut advice, &claims)?;
    let measurement = session.measure(&mut advice);
    session.recommend(&mut advice, kind, observation, measurement)?;
    publish(advice, arguments.json)?;
    if interrupt::requested() { Err(Error::Interrupted) } else { Ok(()) }
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

/// Prints the advice.
fn publish(mut advice: Advice, as_json: bool) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    if as_json {
        advice.doubts.extend(advice.discarded.take());
        advice.doubts.extend(advice.replay.iter_mut().filter_map(|model| model.unfit.take()));
        return Ok(writeln!(out, "{}", object(&advice)?)?);
    }
    Ok(print::print(&advice, &mut out)?)
}

impl Advice {
    /// The scheduler under which the load is observed.
    fn in_use(&self) -> &str {
        self.killed_tuner.as_ref().map_or(&self.scheduler, |killed| &killed.in_use)
    }

    /// The observed load, for a profile's table.
    fn load(&self) -> Workload {
        Workload { size: self.request_bytes, read_share: self.read_share, random_share: self.random_share }
    }
}
