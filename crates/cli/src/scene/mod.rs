//! A script, a machine and a drive: what `run` and `reproduce` set going.

mod store;
mod vmstat;

use std::collections::BTreeMap;
use std::rc::Rc;

use disks::array::Geometry;
use elevator::Random;
use elevator::queue::{Identity, Observer, Options};
use elevator::{Span, Time};
use machine::kernel::{Description, Kernel, Sample, Tagging};
use machine::{Cluster, Machine, Measured, Stop};
use schedulers::Spec;
use serde::{Deserialize, Serialize};
use workloads::programs::diary::{Seen, Transactions};
use workloads::programs::os::Session;
use workloads::scenario::{self, Scenario};

use crate::device::Device;
use crate::error::Error;
use crate::interrupt;
use crate::modelled::{Listeners, machine};
use crate::text_file;
pub(crate) use vmstat::Vmstat;

/// Virtual time after which a run is cut at the full scale, where the script does not say.
const AT_MOST_S: u64 = 4 * 3600;

/// What is to be run.
pub(crate) struct Scene {
    pub(crate) scenario: Scenario,
    pub(crate) machine: Description,
    pub(crate) device: Device,
}

/// What takes the place of what a script names.
#[derive(Clone, Copy, Default)]
pub(crate) struct Chosen<'a> {
    /// The machine.
    pub(crate) machine: Option<&'a str>,
    /// The drive.
    pub(crate) drive: Option<&'a str>,
    /// Such drives as an array.
    pub(crate) array: Option<&'a str>,
}

/// What came of one run, beside what is measured at the device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// What processes saw, by name.
    pub(crate) seen: BTreeMap<String, Seen>,
    /// The transactions of those who had any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) transactions: BTreeMap<String, Transactions>,
    /// The device over time.
    pub(crate) vmstat: Vmstat,
    /// The kernel once a second, thinned out to at most [`MOST_SAMPLES`].
    pub(crate) kernel: Vec<Moment>,
    /// What hooks and tags cost.
    #[serde(default)]
    pub(crate) tagging: Tagging,
    /// It was cut before everybody had ended.
    pub(crate) cut: bool,
    /// Why it could not go on.
    pub(crate) failure: Option<String>,
}

/// The kernel at one moment: a [`Sample`] that can be read again.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Moment {
    pub(crate) at_ns: u64,
    pub(crate) dirty_pages: u64,
    pub(crate) writeback_pages: u64,
    pub(crate) throttled: u64,
    pub(crate) read_ahead_hits: u64,
    pub(crate) misses: u64,
    pub(crate) commits: u64,
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

/// Moments that a report holds.
const MOST_SAMPLES: usize = 600;

fn thinned(samples: &[Sample]) -> Vec<Moment> {
    let step = samples.len().div_ceil(MOST_SAMPLES).max(1);
    samples.iter().step_by(step).map(Moment::from).collect()
}

impl Outcome {
    /// From the first start to the last end of these processes, in nanoseconds.
    pub(crate) fn window(&self, of: impl Fn(&str) -> bool) -> Option<(u64, u64)> {
        let seen = || self.seen.iter().filter(|(name, _)| of(name)).map(|(_, seen)| seen);
        Some((seen().map(|seen| seen.from_ns).min()?, seen().map(|seen| seen.to_ns).max()?))
    }
}

/// All that a run gives.
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    pub(crate) measured: Measured,
    pub(crate) distributions: [Vec<(u64, f64)>; 2],
    /// Of the tasks.
    pub(crate) names: BTreeMap<u32, String>,
}

impl Scene {
    /// A script on the machine and the drive that it names, unless others are chosen.
    pub(crate) fn open(scenario: Scenario, chosen: Chosen<'_>) -> Result<Self, Error> {
        let page = &scenario.page;
        let drive = chosen.drive.or(page.drive.as_deref()).unwrap_or("wd5000aaks");
        let mut device = Device::open(drive)?;
        if let Some(array) = chosen.array.or(page.array.as_deref()) {
            device = device.in_array(array)?;
        }
        let name = chosen.machine.or(page.machine.as_deref()).unwrap_or("linux-6");
        let mut machine = scenario.machine(&description(name)?);
        if let (Some(geometry), None) = (device.geometry(), page.change.read_ahead) {
            machine.read_ahead.max_kib = machine.read_ahead.max_kib.max(two_stripes_kib(&geometry));
        }
        machine.check().map_err(|e| Error::Input(scenario.explain_boot(&e)))?;
        let scene = Self { scenario, machine, device };
        scene.kernel()?;
        Ok(scene)
    }

    /// The kernel with the script's disk, before anything runs.
    fn kernel(&self) -> Result<Kernel, Error> {
        let image = self.scenario.contents.image();
        Kernel::new(&self.machine, self.device.capacity(), &image)
            .map_err(|e| Error::Input(self.scenario.explain_boot(&e)))
    }

    /// The queue, as the machine's block layer and the script have it.
    pub(crate) fn options(&self) -> Options {
        let options = self.machine.queue();
        let depth = self.scenario.page.change.depth.unwrap_or_else(|| self.device.depth());
        let identity = match self.scenario.page.identity {
            scenario::Identity::Shown => Identity::Shown,
            scenario::Identity::Hidden => Identity::Hidden,
            scenario::Identity::Same => Identity::Same,
        };
        Options { depth: depth.clamp(1, self.device.depth()), identity, ..options }
    }

    /// When a run is cut.
    fn until(&self) -> Time {
        let at_most = self.scenario.page.at_most.map_or(Span::from_secs(AT_MOST_S), |delay| delay.0);
        Time::ZERO + Span::from_nanos((at_most.as_nanos() as f64 * self.scenario.scale.min(1.0)) as u64)
    }

    /// Runs it under a scheduler; `others` hear the events of the queues, of the first server's where there are several. So is
    /// what is measured at the device, except what it did over time, which is that of all of them together.
    pub(crate) fn run(&self, spec: &Spec, others: &mut Listeners<'_>) -> Result<Ran, Error> {
        let (listener, vmstat) = Vmstat::listener();
        let store = self.scenario.page.store.as_ref().map(|store| store.get_ref());
        let mut machines = Vec::new();
        for server in 0..store.map_or_else(|| self.scenario.servers(), |store| store.nodes) {
            let mut all = |member| {
                let other = if server == 0 { others(member) } else { None };
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

    /// The scheduler, told what the machine and the drive are.
    pub(crate) fn scheduler(&self, spec: &Spec) -> Result<Box<dyn elevator::Scheduler>, Error> {
        let environment = self.device.environment(&self.options().limits);
        Ok(spec.build(&environment).map_err(|e| Error::Usage(e.to_string()))?)
    }

    /// The machine with the script's processes, before they run; the first server, where there are several.
    pub(crate) fn start(
        &self,
        spec: &Spec,
        observer: Box<dyn Observer>,
    ) -> Result<(Machine, Rc<Session>), Error> {
        let mut observer = Some(observer);
        let mut machine = self.boot(0, spec, &mut |_| observer.take())?;
        let session = self.scenario.start_on(std::slice::from_mut(&mut machine));
        Ok((machine, session))
    }

    /// A machine of the scene, before its processes are started. No two servers' platters turn in step.
    fn boot(&self, server: u32, spec: &Spec, listeners: &mut Listeners<'_>) -> Result<Machine, Error> {
        let mut machine = machine(&self.device, spec, self.options(), switched_on(server), listeners)
            .map_err(|e| Error::Usage(e.to_string()))?;
        machine.boot(self.kernel()?);
        Ok(machine)
    }
}

/// How long before the run a server's drives were switched on: drawn, up to a second.
fn switched_on(server: u32) -> Span {
    match server {
        0 => Span::ZERO,
        _ => Span::from_nanos(Random::new(u64::from(server)).below(1_000_000_000)),
    }
}

/// The window that md gives an array: two full stripes, in KiB as many as one has sectors.
fn two_stripes_kib(geometry: &Geometry) -> u32 {
    u32::try_from(geometry.stripe()).unwrap_or(u32::MAX)
}

/// A machine by name, or from a file.
fn description(name: &str) -> Result<Description, Error> {
    if !name.ends_with(".toml") {
        return Description::named(name).map_err(|e| Error::Usage(e.to_string()));
    }
    let text = text_file::read(name, "machine's description")?;
    Description::from_toml(&text).map_err(|e| Error::Input(format!("{name}: {e}")))
}
