//! Runs a benchmark repeatedly under the tuner, and under fixed schedulers for comparison.

use elevator::Span;
use tuner::{Analyser, DeciderName, Metric, Parameters, Random, SchedulerId, State};

use super::phase::{FIXED, Lab, Phase, Ran, Tuner, fixed};
use crate::error::Error;
use crate::parallel::in_parallel;

/// A benchmark: the phases of its n-th run, in order.
pub(super) type Benchmark = dyn Fn(u64) -> Result<Vec<Phase>, Error> + Sync;

/// Results of a benchmark under each fixed scheduler and under the tuner.
pub(super) struct Outcome {
    /// Mean seconds of each phase, by scheduler.
    pub(super) fixed: [Vec<f64>; 4],
    /// Mean bandwidth of the device, by scheduler, over all phases.
    pub(super) bandwidth: [f64; 4],
    /// The runs under the tuner; for each run, its phases.
    pub(super) tuned: Vec<Vec<Ran>>,
    /// Processor time of the tuner, as a ratio to the virtual time that it observed.
    pub(super) cpu: f64,
    /// Clusters at the end.
    pub(super) clusters: usize,
    /// Bytes of the clusters' points and values.
    pub(super) memory: usize,
}

/// The settings of the tuner, and the number of runs.
#[derive(Clone, Copy)]
pub(super) struct Tuning {
    pub(super) metric: Metric,
    pub(super) parameters: Parameters,
    pub(super) runs: u64,
    /// Number of the first run.
    pub(super) from: u64,
    /// Runs of each fixed scheduler, from run 0 on; 1 where all runs are equal.
    pub(super) fixed_runs: u64,
    pub(super) seed: u64,
    pub(super) decider: DeciderName,
}

impl Tuning {
    /// The tuner's defaults, for `runs` runs.
    pub(super) fn of(runs: u64) -> Self {
        Self {
            metric: Metric::Bandwidth,
            parameters: Parameters::default(),
            runs,
            from: 0,
            fixed_runs: 1,
            seed: 1,
            decider: DeciderName::Kinds,
        }
    }

    /// Windows as much shorter as the phases, but at least half a second, so that a phase has as many windows as at the paper's size. The
    /// duration of a switch is not scaled, so switches cost relatively more than at that size.
    pub(super) fn scaled(runs: u64, scale: f64) -> Self {
        let t = Span::from_millis(((5000.0 * scale) as u64).clamp(500, 5000));
        Self { parameters: Parameters { t, ..Parameters::default() }, ..Self::of(runs) }
    }
}

/// Runs the benchmark under each fixed scheduler and under the tuner.
pub(super) fn measure(lab: &Lab, benchmark: &Benchmark, tuning: Tuning) -> Result<Outcome, Error> {
    let fixed_runs = in_parallel(FIXED.len(), |scheduler| {
        let scheduler = SchedulerId(scheduler);
        let mut runs = Vec::new();
        for n in 0..tuning.fixed_runs {
            let phases = benchmark(n)?;
            runs.push(phases.iter().map(|p| fixed(lab, p, scheduler)).collect::<Result<Vec<Ran>, _>>()?);
        }
        Ok(runs)
    })
    .into_iter()
    .collect::<Result<Vec<_>, Error>>()?;
    let mean = |runs: &Vec<Vec<Ran>>, phase: usize| {
        runs.iter().map(|run| run[phase].seconds).sum::<f64>() / runs.len() as f64
    };
    let of = |runs: &Vec<Vec<Ran>>| (0..runs[0].len()).map(|phase| mean(runs, phase)).collect();
    let mut outcome = trained(lab, benchmark, tuning)?;
    outcome.fixed = std::array::from_fn(|i| of(&fixed_runs[i]));
    outcome.bandwidth = std::array::from_fn(|i| {
        let all = fixed_runs[i].iter().flatten();
        let (bytes, seconds) =
            all.fold((0.0, 0.0), |sum, ran| (sum.0 + ran.bandwidth * ran.seconds, sum.1 + ran.seconds));
        bytes / seconds
    });
    Ok(outcome)
}

/// Runs the benchmark under the tuner only.
pub(super) fn trained(lab: &Lab, benchmark: &Benchmark, tuning: Tuning) -> Result<Outcome, Error> {
    Ok(train(lab, benchmark, tuning, None)?.0)
}

/// The same, with the learned state of another machine's tuner, if any; also returns this tuner's state at the end.
pub(super) fn train(
    lab: &Lab,
    benchmark: &Benchmark,
    tuning: Tuning,
    before: Option<State>,
) -> Result<(Outcome, State), Error> {
    let mut analyser = analyser(lab, tuning).map_err(Error::Failed)?;
    if let Some(state) = before {
        analyser.restore(state).map_err(Error::Failed)?;
    }
    let mut tuner = Tuner::new(analyser, tuning.parameters.t);
    let mut tuned = Vec::new();
    for n in tuning.from..tuning.from + tuning.runs {
        tuned.push(benchmark(n)?.iter().map(|phase| tuner.run(lab, phase)).collect::<Result<_, _>>()?);
    }
    let store = tuner.analyser.store();
    let outcome = Outcome {
        fixed: Default::default(),
        bandwidth: [0.0; 4],
        tuned,
        cpu: tuner.busy.as_secs_f64() / tuner.before.as_secs_f64().max(1e-9),
        clusters: store.clusters().len(),
        memory: store.clusters().iter().map(memory).sum(),
    };
    Ok((outcome, tuner.analyser.state()))
}

fn analyser(lab: &Lab, tuning: Tuning) -> Result<Analyser, String> {
    let random = Random::new(tuning.seed);
    Ok(Analyser::new(lab.names(), tuning.metric, tuning.parameters, random)?.with_decider(tuning.decider))
}

/// Bytes of a cluster's points and values.
fn memory(cluster: &tuner::Cluster) -> usize {
    let values: usize = cluster.performance.iter().map(tuner::Values::count).sum();
    (cluster.cinfo.points.len() + values) * size_of::<f64>()
}

impl Outcome {
    /// Seconds of the whole benchmark under each fixed scheduler.
    pub(super) fn fixed_seconds(&self) -> [f64; 4] {
        std::array::from_fn(|i| self.fixed[i].iter().sum())
    }

    /// The index in [`FIXED`] of the fastest scheduler.
    pub(super) fn best(&self) -> usize {
        let seconds = self.fixed_seconds();
        (0..4).min_by(|&a, &b| seconds[a].total_cmp(&seconds[b])).unwrap_or_default()
    }

    pub(super) fn best_seconds(&self) -> f64 {
        self.fixed_seconds()[self.best()]
    }

    /// Seconds of the n-th run under the tuner.
    pub(super) fn tuned_seconds(&self, n: usize) -> f64 {
        self.tuned[n].iter().map(|ran| ran.seconds).sum()
    }

    /// Mean seconds of the last third of the runs under the tuner, when it is trained.
    pub(super) fn trained_seconds(&self) -> f64 {
        let last = self.last_third();
        last.clone().map(|n| self.tuned_seconds(n)).sum::<f64>() / last.len() as f64
    }

    /// Mean seconds of all runs, the cost of learning included.
    pub(super) fn mean_seconds(&self) -> f64 {
        (0..self.tuned.len()).map(|n| self.tuned_seconds(n)).sum::<f64>() / self.tuned.len() as f64
    }

    /// Mean seconds for which a switch stopped the device.
    pub(super) fn drain(&self) -> f64 {
        let all = self.tuned.iter().flatten();
        let (stopped, switches) = all.fold((0.0, 0), |sum, ran| (sum.0 + ran.stopped, sum.1 + ran.switches));
        stopped / f64::from(switches.max(1))
    }

    /// Mean seconds of a phase in the last third of the runs under the tuner.
    pub(super) fn trained_phase(&self, phase: usize) -> f64 {
        let last = self.last_third();
        last.clone().map(|n| self.tuned[n][phase].seconds).sum::<f64>() / last.len() as f64
    }

    fn last_third(&self) -> std::ops::Range<usize> {
        let runs = self.tuned.len();
        runs - runs.div_ceil(3)..runs
    }

    /// The first run, counted from 1, from which on no run was slower than the second best fixed scheduler: "Results are gathered
    /// when they are stable, this is when they do not go down the second best scheduler". `None` if the last run was slower.
    pub(super) fn steady_from(&self) -> Option<usize> {
        let mut seconds = self.fixed_seconds();
        seconds.sort_by(f64::total_cmp);
        let slow = (0..self.tuned.len()).rev().find(|&n| self.tuned_seconds(n) > seconds[1]);
        let from = slow.map_or(1, |n| n + 2);
        (from <= self.tuned.len()).then_some(from)
    }

    /// Switches of the last run.
    pub(super) fn switches(&self) -> u32 {
        self.tuned.last().map_or(0, |run| run.iter().map(|ran| ran.switches).sum())
    }

    /// Mean windows of a phase in the last third of the runs.
    pub(super) fn windows_of(&self, phase: usize) -> f64 {
        let last = self.last_third();
        last.clone().map(|n| f64::from(self.tuned[n][phase].windows)).sum::<f64>() / last.len() as f64
    }

    /// Windows that the tuner received.
    pub(super) fn windows(&self) -> u32 {
        self.tuned.iter().flatten().map(|ran| ran.windows).sum()
    }
}
