//! A script with its machine and device (`dwell run` and the papers' scripts).

mod store;
mod vmstat;

use std::collections::BTreeMap;
use std::rc::Rc;

use disks::array::Geometry;
use elevator::Random;
use elevator::queue::{Observer, Options};
use elevator::{Span, Time};
use machine::kernel::{Description, Kernel, Sample, Tagging};
use machine::{Cluster, Machine, Measured, Stop};
use schedulers::Spec;
use serde::{Deserialize, Serialize};
use workloads::programs::diary::{Seen, Transactions};
use workloads::programs::os::Session;
use workloads::scenario::Scenario;

use crate::device::Device;
use crate::error::Error;
use crate::interrupt;
use crate::machine_setup::{Listeners, Observed, machine};
use crate::text_file;
pub use vmstat::Vmstat;

/// Virtual time after which a run stops at full scale, unless the script sets another.
const AT_MOST_S: u64 = 4 * 3600;

/// A script that is ready to run.
pub struct RunSetup {
    /// The script.
    pub scenario: Scenario,
    pub machine: Description,
    pub device: Device,
    /// How long before the start the first server's drives were switched on, which sets the phase of the platters.
    pub before: Span,
}

/// Replacements for the machine and device of the script.
#[derive(Clone, Copy, Default)]
pub struct Overrides<'a> {
    pub machine: Option<&'a str>,
    pub drive: Option<&'a str>,
    /// An array of such drives.
    pub array: Option<&'a str>,
}

/// The result of one run above the device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Measurements of each process, by name.
    pub seen: BTreeMap<String, Seen>,
    /// The transactions of processes that have transactions, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub transactions: BTreeMap<String, Transactions>,
    /// The device over time.
    pub vmstat: Vmstat,
    /// The kernel once a second, reduced to at most 600 samples.
    pub kernel: Vec<Moment>,
    /// The cost of hooks and tags.
    #[serde(default)]
    pub tagging: Tagging,
    /// The run stopped before all processes had ended.
    pub cut: bool,
    /// The error, if the run failed.
    pub failure: Option<String>,
}

/// A [`Sample`] of the kernel that can be deserialised.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Moment {
    /// Virtual time.
    pub at_ns: u64,
    pub dirty_pages: u64,
    pub writeback_pages: u64,
    /// Throttled writers.
    pub throttled: u64,
    /// Page reads that read-ahead had fetched, per second.
    pub read_ahead_hits: u64,
    /// Page reads that had to wait for the device, per second.
    pub misses: u64,
    /// Committed transactions of the journal.
    pub commits: u64,
}

impl From<&Sample> for Moment {
    fn from(sample: &Sample) -> Self {
        Self {
            at_ns: sample.at_ns,
            dirty_pages: sample.dirty_pages,
            writeback_pages: sample.writeback_pages,
            throttled: sample.throttled,
            read_ahead_hits: sample.read_ahead_hits,
            misses: sample.misses,
            commits: sample.commits,
        }
    }
}

/// Maximum number of samples in a report.
const MOST_SAMPLES: usize = 600;

fn thinned(samples: &[Sample]) -> Vec<Moment> {
    let step = samples.len().div_ceil(MOST_SAMPLES).max(1);
    samples.iter().step_by(step).map(Moment::from).collect()
}

impl Outcome {
    /// From the first start to the last end of the processes that `of` selects, in nanoseconds.
    pub fn window(&self, of: impl Fn(&str) -> bool) -> Option<(u64, u64)> {
        let seen = || self.seen.iter().filter(|(name, _)| of(name)).map(|(_, seen)| seen);
        Some((seen().map(|seen| seen.from_ns).min()?, seen().map(|seen| seen.to_ns).max()?))
    }
}

/// The complete result of a run.
pub struct Ran {
    /// Measurements of programs and kernel.
    pub outcome: Outcome,
    /// Measurements at the device.
    pub measured: Measured,
    /// Latency in nanoseconds and share of requests, of reads and writes.
    pub distributions: [Vec<(u64, f64)>; 2],
    /// Names of the tasks.
    pub names: BTreeMap<u32, String>,
}

impl RunSetup {
    /// A script on the machine and device that it names, or on those in `overrides`.
    ///
    /// # Errors
    /// An unknown drive, array or machine, or a disk image that does not fit.
    pub fn open(scenario: Scenario, overrides: Overrides<'_>) -> Result<Self, Error> {
        let page = &scenario.script;
        let drive = overrides.drive.or(page.drive.as_deref()).unwrap_or("wd5000aaks");
        let mut device = Device::open(drive)?;
        if let Some(array) = overrides.array.or(page.array.as_deref()) {
            device = device.in_array(array)?;
        }
        let name = overrides.machine.or(page.machine.as_deref()).unwrap_or("linux-6");
        let mut machine = scenario.machine(&description(name)?);
        if let (Some(geometry), None) = (device.geometry(), page.change.read_ahead) {
            machine.read_ahead.max_kib = machine.read_ahead.max_kib.max(two_stripes_kib(&geometry));
        }
        machine.check().map_err(|e| Error::Input(scenario.explain_boot(&e)))?;
        let setup = Self { scenario, machine, device, before: Span::ZERO };
        setup.kernel()?;
        Ok(setup)
    }

    /// The kernel with the script's disk image.
    fn kernel(&self) -> Result<Kernel, Error> {
        let image = self.scenario.contents.image();
        Kernel::new(&self.machine, self.device.capacity(), &image)
            .map_err(|e| Error::Input(self.scenario.explain_boot(&e)))
    }

    /// The queue as the machine and the script configure it.
    pub fn options(&self) -> Options {
        let options = self.machine.queue();
        let depth = self.scenario.script.change.depth.unwrap_or_else(|| self.device.depth());
        let identity = self.scenario.script.identity.of_queue();
        Options { depth: depth.clamp(1, self.device.depth()), identity, ..options }
    }

    /// When the run stops.
    pub(crate) fn until(&self) -> Time {
        let at_most = self.scenario.script.at_most.map_or(Span::from_secs(AT_MOST_S), |delay| delay.0);
        Time::ZERO + Span::from_nanos((at_most.as_nanos() as f64 * self.scenario.scale.min(1.0)) as u64)
    }

    /// Runs the script under a scheduler. With several servers, `others` observe the queues of the first one and the measurements are of
    /// its device, except for `vmstat`, which covers all devices.
    ///
    /// # Errors
    /// The scheduler does not fit the device.
    pub fn run(&self, spec: &Spec, others: &mut Listeners<'_>) -> Result<Ran, Error> {
        let (listener, vmstat) = Vmstat::listener();
        let store = self.scenario.script.store.as_ref().map(|store| store.get_ref());
        let mut machines = Vec::new();
        for server in 0..store.map_or_else(|| self.scenario.servers(), |store| store.nodes) {
            let mut all = |place| {
                let other = if server == 0 { others(place) } else { None };
                if place == Observed::Array {
                    return other;
                }
                Some(Box::new((listener.clone(), other)) as Box<dyn Observer>)
            };
            machines.push(self.boot(server, spec, &mut all)?);
        }
        if let Some(store) = store {
            return self.run_store(store, machines, &vmstat);
        }
        let mut cluster = Cluster::new(machines);
        let session = self.scenario.start_on(cluster.machines());
        let ended = cluster.run(Stop { at: self.until(), asked: interrupt::requested });
        let Some(machine) = cluster.machines().first_mut() else {
            return Err(Error::Failed("a script needs at least one server".to_owned()));
        };
        let measured = machine.measured();
        let diary = session.diary();
        let outcome = Outcome {
            seen: diary.iter().map(|(name, seen)| (name.to_owned(), *seen)).collect(),
            transactions: diary.transactions().map(|(name, all)| (name.to_owned(), all)).collect(),
            vmstat: vmstat.borrow().clone(),
            kernel: machine.kernel().map(|kernel| thinned(&kernel.samples())).unwrap_or_default(),
            tagging: machine.kernel().map(Kernel::tagging).unwrap_or_default(),
            cut: machine.is_cut(),
            failure: ended.err().map(|failure| self.scenario.explain(&session, &failure)),
        };
        Ok(Ran { outcome, measured, distributions: machine.distributions(), names: machine.names() })
    }

    /// The scheduler, built for this machine and device.
    ///
    /// # Errors
    /// The scheduler does not fit the device.
    pub fn scheduler(&self, spec: &Spec) -> Result<Box<dyn elevator::Scheduler>, Error> {
        let environment = self.device.environment(&self.options().limits);
        spec.build(&environment).map_err(|e| Error::Usage(e.to_string()))
    }

    /// The machine with the script's processes before they run. With several servers: the first.
    ///
    /// # Errors
    /// The scheduler does not fit the device.
    pub fn start(&self, spec: &Spec, observer: Box<dyn Observer>) -> Result<(Machine, Rc<Session>), Error> {
        let mut observer = Some(observer);
        let mut machine = self.boot(0, spec, &mut |_| observer.take())?;
        let session = self.scenario.start_on(std::slice::from_mut(&mut machine));
        Ok((machine, session))
    }

    /// A machine before its processes start. The platters of several servers are out of phase.
    fn boot(&self, server: u32, spec: &Spec, listeners: &mut Listeners<'_>) -> Result<Machine, Error> {
        let mut options = self.options();
        if let Some(limit) = spec.listing().request_limit {
            options.limits.nr_requests = limit;
        }
        let mut machine = machine(&self.device, spec, options, self.before + switched_on(server), listeners)
            .map_err(|e| Error::Usage(e.to_string()))?;
        machine.boot(self.kernel()?);
        Ok(machine)
    }
}

/// Time between the start of a server's drives and the run: random, up to a second.
fn switched_on(server: u32) -> Span {
    match server {
        0 => Span::ZERO,
        _ => Span::from_nanos(Random::new(u64::from(server)).below(1_000_000_000)),
    }
}

/// The read-ahead window that md sets for an array: two full stripes. In KiB, that is the number of sectors of one stripe.
fn two_stripes_kib(geometry: &Geometry) -> u32 {
    u32::try_from(geometry.stripe()).unwrap_or(u32::MAX)
}

/// A machine by name or from a file.
///
/// # Errors
/// No such machine, or an error in the file.
pub fn description(name: &str) -> Result<Description, Error> {
    if !name.ends_with(".toml") {
        return Description::named(name).map_err(|e| Error::Usage(e.to_string()));
    }
    let text = text_file::read(name, "machine's description")?;
    Description::from_toml(&text).map_err(|e| Error::Input(format!("{name}: {e}")))
}
