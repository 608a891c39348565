//! Workloads and their measure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use elevator::queue::{Identity, Options};
use elevator::{Sector, Span, Time};
use machine::kernel::Description;
use schedulers::Spec;
use schedulers::registry::Catalogue;
use workloads::Workload as Requests;
use workloads::fio::JobFile;
use workloads::programs::diary::Transactions;
use workloads::scenario::{self, Scenario};

use crate::device::Device;
use crate::duel::model::Model;
use crate::duel::{Benchmark, Score, Size};
use crate::error::Error;
use crate::run_setup::{Overrides, RunSetup};
use crate::runs::{Plan, run as run_plan};

/// The result of one run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measure {
    /// The workload's time: less is better. Only comparable within a cell.
    pub time: f64,
    /// The longest wait of a foreground program, in nanoseconds.
    pub longest_wait_ns: u64,
    /// The run was stopped before its foreground programs had ended, so the time is a lower bound.
    pub cut: bool,
}

/// A workload.
#[derive(Clone)]
pub enum Workload {
    /// Programs that submit requests: a recording, fio jobs, a built-in workload.
    Requests(Arc<dyn Requests>),
    /// A script on the modelled machine.
    Script {
        /// The script.
        text: &'static str,
        /// Size of files, operations and memory; 1 is full size.
        scale: f64,
    },
    /// A benchmark of the duel.
    Duel(Benchmark),
}

/// Programs without an end stop after this virtual time.
const TIME: Duration = Duration::from_secs(6);

/// Sizes of the duel's benchmarks: those of a `dwell duel` that takes minutes.
const SIZE: Size =
    Size { time: TIME, patience: Duration::from_secs(180), tree_files: 1000, transactions: 200 };

/// Foreground programs of scripts stop after this virtual time, unless the script sets another limit.
const SCRIPT_AT_MOST: Span = Span::from_secs(600);

/// What the project's scripts need of a drive.
const SCRIPT_BYTES: u64 = 150 << 30;

/// Fio jobs of the project: random requests at several depths, beside streams, and overwritten files.
pub(super) const JOBS: [(&str, &str); 9] = [
    (
        "fio-randread-1",
        "[a]\ndirect=1\nioengine=libaio\nrw=randread\nbs=4k\nsize=200g\nnumber_ios=500\niodepth=1\n",
    ),
    (
        "fio-randread-4x1",
        "[a]\ndirect=1\nioengine=libaio\nrw=randread\nbs=16k\nsize=40g\nnumber_ios=200\nnumjobs=4\niodepth=1\n",
    ),
    (
        "fio-randread-32",
        "[a]\ndirect=1\nioengine=libaio\nrw=randread\nbs=4k\nsize=200g\nnumber_ios=2000\niodepth=32\n",
    ),
    (
        "fio-randrw-1",
        "[a]\ndirect=1\nioengine=libaio\nrw=randrw\nbs=4k\nsize=200g\nnumber_ios=500\niodepth=1\n",
    ),
    (
        "fio-randrw-8",
        "[a]\ndirect=1\nioengine=libaio\nrw=randrw\nbs=4k\nsize=200g\nnumber_ios=1000\niodepth=8\n",
    ),
    (
        "fio-randrw-32",
        "[a]\ndirect=1\nioengine=libaio\nrw=randrw\nbs=8k\nsize=200g\nnumber_ios=2000\niodepth=32\n",
    ),
    (
        "fio-randwrite-16",
        "[a]\ndirect=1\nioengine=libaio\nrw=randwrite\nbs=4k\nsize=200g\nnumber_ios=1500\niodepth=16\n",
    ),
    (
        "fio-stream-and-random",
        "[global]\ndirect=1\nioengine=libaio\n[stream]\nrw=read\nbs=128k\nsize=10g\nio_size=384m\niodepth=2\n\
         [random]\nrw=randread\nbs=4k\nsize=40g\nnumber_ios=300\niodepth=1\n",
    ),
    (
        "fio-streams-4",
        "[global]\ndirect=1\nioengine=libaio\nbs=64k\nsize=40g\nio_size=128m\niodepth=2\n[r]\nrw=read\nnumjobs=3\n[w]\nrw=write\n",
    ),
];

/// Scripts of the project that are no paper's experiment.
pub(super) const SCRIPTS: [(&str, &str); 10] = [
    ("start-up", include_str!("workloads/start-up.toml")),
    ("start-up-readers", include_str!("workloads/start-up-readers.toml")),
    ("start-up-readers-writers", include_str!("workloads/start-up-readers-writers.toml")),
    ("five-readers-five-writers", include_str!("workloads/five-readers-five-writers.toml")),
    ("git-status", include_str!("workloads/git-status.toml")),
    ("untar", include_str!("workloads/untar.toml")),
    ("log-appends", include_str!("workloads/log-appends.toml")),
    ("scrub-beside-database", include_str!("workloads/scrub-beside-database.toml")),
    ("mail-server", include_str!("workloads/mail-server.toml")),
    ("guest-image", include_str!("workloads/guest-image.toml")),
];

/// Built-in workloads at the level of requests, by name, with settings.
pub(super) const BUILT_IN: [(&str, &[(&str, &str)]); 6] = [
    ("multi-threads", &[]),
    ("chunk-reads", &[("files", "400")]),
    ("strided", &[]),
    ("kernel-read", &[]),
    ("tpc-e", &[]),
    ("tpc-h", &[]),
];

impl Workload {
    /// A fio job file.
    pub(super) fn job(name: &str, text: &str) -> Result<Self, Error> {
        let jobs = JobFile::parse(name, text).map_err(|e| Error::Failed(e.to_string()))?;
        Ok(Self::Requests(Arc::new(jobs)))
    }

    /// Whether the drive can hold the workload.
    #[must_use]
    pub fn fits(&self, device: &Device) -> bool {
        match self {
            Self::Requests(requests) => requests.end() <= device.capacity(),
            // A paper's script runs on its own drive only.
            Self::Script { scale, .. } => *scale < 1.0 || device.capacity().bytes() >= SCRIPT_BYTES,
            Self::Duel(benchmark) => Sector(benchmark.end_bytes(&SIZE) / 512) <= device.capacity(),
        }
    }

    /// Runs the workload under a scheduler.
    ///
    /// # Errors
    /// The reason why there is no result.
    pub(super) fn run(
        &self,
        (device, depth, identity): (&Device, u32, Identity),
        spec: &Spec,
        catalogue: Catalogue,
    ) -> Result<Measure, String> {
        match self {
            Self::Requests(requests) => run_requests(&**requests, (device, depth, identity), spec),
            Self::Script { text, scale } => {
                let mut scenario =
                    Scenario::parse("script", text, *scale).map_err(|error| error.to_string())?;
                scenario.script.change.depth = Some(depth);
                if identity != Identity::Shown {
                    scenario.script.identity = scenario::Identity::Hidden;
                }
                run_script(scenario, device, spec)
            }
            Self::Duel(benchmark) => {
                let model = Model { device, catalogue, size: SIZE, level: 4 };
                let predicted = model.without_testbed(benchmark, spec.clone(), depth, identity)?;
                let score = match benchmark.score() {
                    Score::Megabytes => predicted.megabytes_per_second,
                    Score::Operations => predicted.operations_per_second,
                };
                // A program that has done nothing by the end takes at least the whole time for one operation.
                let time = 1.0 / score.max(1.0 / SIZE.patience.as_secs_f64());
                Ok(Measure { time, longest_wait_ns: predicted.longest_wait_ns, cut: score == 0.0 })
            }
        }
    }
}

fn run_requests(
    requests: &dyn Requests,
    (device, depth, identity): (&Device, u32, Identity),
    spec: &Spec,
) -> Result<Measure, String> {
    let plan = Plan {
        workload: requests,
        device,
        schedulers: std::slice::from_ref(spec),
        options: Options { depth, identity, ..Options::default() },
        before: Span::ZERO,
        at_most: Some(SCRIPT_AT_MOST),
        chart_requests: 0,
        explain: None,
    };
    let run = run_plan(&plan, &|_| ())?.pop().ok_or("interrupted")?;
    if let Some(failure) = run.failure {
        return Err(failure);
    }
    let measured = &run.measured;
    let time = match run.cut {
        false => measured.elapsed_ns as f64,
        true => measured.elapsed_ns as f64 / measured.bytes.max(1) as f64 * requests.end().bytes() as f64,
    };
    Ok(Measure { time, longest_wait_ns: measured.latency.max_ns, cut: run.cut })
}

fn machine(scenario: Scenario, device: &Device) -> Result<RunSetup, Error> {
    RunSetup::open(scenario, Overrides { drive: Some(device.name()), ..Overrides::default() })
}

fn run_script(mut scenario: Scenario, device: &Device, spec: &Spec) -> Result<Measure, String> {
    let whole = 1.0 / scenario.scale.min(1.0);
    if scenario.script.at_most.is_none() {
        let limit = Span::from_nanos((SCRIPT_AT_MOST.as_nanos() as f64 * whole) as u64);
        scenario.script.at_most = Some(workloads::programs::units::Delay(limit));
    }
    let beside = scenario.beside();
    let setup = machine(scenario, device).map_err(|error| error.to_string())?;
    let stops_at = setup.until().since(Time::ZERO).as_nanos();
    let outcome = setup.run(spec, &mut |_| None).map_err(|error| error.to_string())?.outcome;
    if let Some(failure) = outcome.failure {
        return Err(failure);
    }
    let foreground = |name: &str| !beside.iter().any(|other| name.split('/').next() == Some(other.as_str()));
    let (from, ended) = outcome.window(foreground).ok_or("no foreground program ran")?;
    let count: u64 = transactions(&outcome.transactions, foreground);
    // A program that had not ended when the run stopped takes at least until then.
    let to = if outcome.cut && count == 0 { ended.max(stops_at) } else { ended };
    let elapsed = to.saturating_sub(from).max(1) as f64;
    let calls =
        outcome.seen.iter().filter(|(name, _)| foreground(name)).map(|(_, seen)| seen.worst_ns()).max();
    // The call in which the run stopped counts, too.
    let unfinished = if outcome.cut && count == 0 { stops_at.saturating_sub(ended) } else { 0 };
    Ok(Measure {
        time: if count > 0 { elapsed / count as f64 } else { elapsed },
        longest_wait_ns: calls.unwrap_or(0).max(unfinished),
        cut: outcome.cut,
    })
}

fn transactions(all: &BTreeMap<String, Transactions>, foreground: impl Fn(&str) -> bool) -> u64 {
    all.iter().filter(|(name, _)| foreground(name)).map(|(_, transactions)| transactions.count).sum()
}

/// Whether a paper's script fits the comparison: one machine with one drive, and nothing that only split-level policies have.
pub(super) fn is_comparable(scenario: &Scenario) -> bool {
    let page = &scenario.script;
    let one = page.array.is_none() && page.servers.is_none() && page.store.is_none();
    let plain = page
        .process
        .iter()
        .map(|process| process.get_ref())
        .all(|process| process.rate.is_none() && process.fsync_deadline.is_none());
    one && plain && Description::named(page.machine.as_deref().unwrap_or("linux-6")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_fits_the_default_drive() {
        let device = Device::open("wd5000aaks").unwrap();
        for (name, text) in SCRIPTS {
            let scenario = Scenario::parse(name, text, 1.0).unwrap_or_else(|error| panic!("{error}"));
            assert!(machine(scenario, &device).is_ok(), "{name}");
        }
        for (name, text) in JOBS {
            assert!(Workload::job(name, text).is_ok_and(|job| job.fits(&device)), "{name}");
        }
    }

    #[test]
    fn a_start_up_alone_has_the_same_time_in_each_run() {
        let device = Device::open("wd5000aaks").unwrap();
        let start_up = Workload::Script { text: SCRIPTS[0].1, scale: 1.0 };
        let spec = Spec::parse("deadline").unwrap();
        let run = || start_up.run((&device, 31, Identity::Hidden), &spec, Catalogue::default()).unwrap();
        let (once, again) = (run(), run());
        assert_eq!(once, again);
        assert!(!once.cut && once.time > 0.0 && once.longest_wait_ns > 0);
    }
}
