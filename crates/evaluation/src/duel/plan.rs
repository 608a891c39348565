//! The runs of a duel: every benchmark at every depth, with programs visible and hidden, each scheduler in turn.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::io::IsTerminal;

use indicatif::ProgressBar;

use super::comparison::Comparison;
use super::model::Model;
use super::{Benchmark, Duel, DuelError, PathLatency, RequestKind, Scheduler, Size};

/// The runs of a duel.
#[derive(Debug)]
pub struct Plan {
    /// The schedulers to compare.
    pub schedulers: Vec<Scheduler>,
    pub benchmarks: Vec<Benchmark>,
    /// Commands in the drive at once.
    pub depths: Vec<u32>,
    /// Whether one more loop device hides the programs; one comparison for each value.
    pub hidden: Vec<bool>,
    /// Sizes of the benchmarks.
    pub size: Size,
    /// Runs of each scheduler on each benchmark.
    pub repeat: u32,
}

impl Plan {
    /// Runs everything, with a progress bar on a terminal unless `quiet`. Returns the comparisons measured before an error, and the
    /// error.
    pub fn run(
        &self,
        duel: &mut Duel,
        model: &Model<'_>,
        quiet: bool,
    ) -> (Vec<Comparison>, Result<(), DuelError>) {
        let entries = |benchmark: &Benchmark| self.schedulers.len() + usize::from(benchmark.has_yardstick());
        let entries: usize = self.benchmarks.iter().map(entries).sum();
        let runs = entries * self.depths.len() * self.hidden.len() * self.repeat as usize;
        let bar = match !quiet && std::io::stderr().is_terminal() {
            true => ProgressBar::new(runs as u64),
            false => ProgressBar::hidden(),
        };
        let mut comparisons = Vec::new();
        for benchmark in &self.benchmarks {
            for &depth in &self.depths {
                for &hidden in &self.hidden {
                    let mut comparison =
                        Comparison::new(benchmark, &self.size, depth, hidden, &self.schedulers);
                    let compared = self.comparison(duel, model, &mut comparison, &bar);
                    if comparison.has_begun() {
                        comparisons.push(comparison);
                    }
                    if let Err(error) = compared {
                        bar.finish_and_clear();
                        return (comparisons, Err(error));
                    }
                }
            }
        }
        bar.finish_and_clear();
        (comparisons, Ok(()))
    }

    fn comparison(
        &self,
        duel: &mut Duel,
        model: &Model<'_>,
        comparison: &mut Comparison,
        bar: &ProgressBar,
    ) -> Result<(), DuelError> {
        duel.set(comparison.depth, comparison.hidden);
        let kinds = model.kinds(&comparison.benchmark);
        let mut latencies: BTreeMap<(bool, RequestKind), PathLatency> = BTreeMap::new();
        for round in 0..self.repeat as usize {
            // Each round starts with another scheduler, so that other load on the machine affects all of them alike.
            for n in 0..comparison.entries.len() {
                bar.set_message(comparison.title());
                let n = (n + round) % comparison.entries.len();
                let entry = &mut comparison.entries[n];
                let outcome = duel.run(&comparison.benchmark, &entry.scheduler, entry.alone)?;
                entry.outcomes.push(outcome);
                bar.inc(1);
            }
            // Measured in every round, because wake-up latency changes by half within a minute.
            for kernel in [false, true] {
                let mut entries = comparison.entries.iter();
                let Some(entry) = entries.find(|entry| entry.scheduler.is_kernel() == kernel) else {
                    continue;
                };
                for &kind in &kinds {
                    let latency = duel.path_latency(&entry.scheduler, kind)?;
                    match latencies.entry((kernel, kind)) {
                        Slot::Occupied(mut known) => known.get_mut().join(&latency),
                        Slot::Vacant(unknown) => drop(unknown.insert(latency)),
                    }
                }
            }
        }
        for entry in &mut comparison.entries {
            let kernel = entry.scheduler.is_kernel();
            let known =
                kinds.iter().filter_map(|&kind| Some((kind, latencies.get(&(kernel, kind))?.clone())));
            entry.latencies = known.collect();
            let (benchmark, depth, hidden) = (&comparison.benchmark, comparison.depth, comparison.hidden);
            match model.predict(benchmark, entry, depth, hidden) {
                Ok(predicted) => entry.predicted = Some(predicted),
                Err(why) => entry.unpredicted = why,
            }
        }
        Ok(())
    }
}
