//! [`Analyser`]: windows in, decisions out.
//!
//! # Order of decisions
//! 1. A window with at most one request a second is not analysed.
//! 2. The [decider](Decider) learns from the window and chooses.

use elevator::Random;
use ioanalyzer::{Bandit, IoAnalyzer, Parameters, Store};
use observation::throughput::{Table, Workload};
use observation::{Input, Metric, Performance, SchedulerId, Window};

use crate::decider::{Choice, Decider, DeciderName, Fact, Learned};
use crate::decision::{Decision, Why};
use crate::early_end::EarlyEnd;
use crate::kinds::Kinds;
use crate::state::Absent;

/// The observations of a window, except its accesses.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Observed {
    /// The scheduler that it ran under; `None`, or a number without a scheduler, if it is none of the analyser's.
    pub scheduler: Option<SchedulerId>,
    /// The measured metrics.
    pub performance: Performance,
}

/// Learns a device's loads and chooses its scheduler.
pub struct Analyser {
    pub(crate) parameters: Parameters,
    pub(crate) metric: Metric,
    pub(crate) schedulers: Vec<String>,
    decider: Box<dyn Decider>,
    pub(crate) learned: Learned,
    pub(crate) random: Random,
    /// The scheduler of the latest window, and the mean of each scheduler for such windows.
    pub(crate) ran: Option<SchedulerId>,
    pub(crate) means: Vec<Option<f64>>,
    a_priori: Option<Table>,
    /// The stored history of schedulers that are not among the arms.
    pub(crate) absent: Absent,
    /// Schedulers that the device rejects. Not stored.
    pub(crate) rejected: Vec<SchedulerId>,
}

impl Analyser {
    /// An analyser without history. `schedulers` are the names to choose from, `random` draws buckets and arms.
    ///
    /// # Errors
    /// There is no scheduler, two have the same name, or the parameters are out of range or do not fit together.
    pub fn new(
        schedulers: Vec<String>,
        metric: Metric,
        parameters: Parameters,
        random: Random,
    ) -> Result<Self, String> {
        parameters.check()?;
        if schedulers.is_empty() {
            return Err("there is no scheduler to choose from".to_string());
        }
        if let Some(twice) =
            (1..schedulers.len()).find(|&index| schedulers[..index].contains(&schedulers[index]))
        {
            return Err(format!("scheduler '{}' is listed twice", schedulers[twice]));
        }
        let count = schedulers.len();
        Ok(Self {
            parameters,
            metric,
            schedulers,
            decider: DeciderName::default().into(),
            learned: Learned { kinds: Kinds::new(count), ioanalyzer: IoAnalyzer::new(parameters, count) },
            random,
            ran: None,
            means: Vec::new(),
            a_priori: None,
            absent: Absent::default(),
            rejected: Vec::new(),
        })
    }

    /// Replaces the decider: by [name](DeciderName), or by one of your own.
    #[must_use]
    pub fn with_decider(self, decider: impl Into<Box<dyn Decider>>) -> Self {
        Self { decider: decider.into(), ..self }
    }

    /// Sets the device's measured table.
    #[must_use]
    pub fn with_a_priori(self, table: Table) -> Self {
        Self { a_priori: Some(table), ..self }
    }

    /// Passes a fact to the decider. A rejected arm no longer counts as untested.
    pub fn learn(&mut self, fact: Fact<'_>) {
        if let Fact::Rejected(arm) = fact
            && !self.rejected.contains(&arm)
        {
            self.rejected.push(arm);
        }
        self.decider.learn(&mut self.learned, fact, self.metric.better());
    }

    /// The expected gains over `none` for a window's load from the device's measured table, 0 for schedulers without an entry; `None` without a
    /// table or an entry for `none`.
    pub fn promised_gains(&self, window: &Window) -> Option<Vec<f64>> {
        let promise = self.promise(&Workload::of(window));
        let base = promise[self.schedulers.iter().position(|name| name == "none")?];
        let gain = |&value: &f64| if value > 0.0 { value / base - 1.0 } else { 0.0 };
        (base > 0.0).then(|| promise.iter().map(gain).collect())
    }

    /// The condition that ends the decider's trial inside the window that begins now.
    pub fn early_end(&self) -> Option<EarlyEnd> {
        self.decider.early_end(&self.learned, self.metric.better())
    }

    /// The schedulers' names, by [`SchedulerId`].
    pub fn schedulers(&self) -> &[String] {
        &self.schedulers
    }

    /// Whether a significance test may measure arms. It conflicts with the paper's deciders.
    pub(crate) fn allows_significance_test(&self) -> bool {
        self.decider.allows_significance_test()
    }

    /// The clusters.
    pub const fn store(&self) -> &Store {
        self.learned.ioanalyzer.store()
    }

    /// The kinds of load.
    pub const fn kinds(&self) -> &Kinds {
        &self.learned.kinds
    }

    /// The armed bandit.
    pub const fn bandit(&self) -> &Bandit {
        self.learned.ioanalyzer.bandit()
    }

    /// Learns from a window that ended, and decides on the next one.
    pub fn window(&mut self, window: &Window, observed: &Observed) -> Decision {
        self.means.clear();
        if !window.counts() {
            return Decision::keep(Why::TooLittle { requests: window.requests() });
        }
        let current = observed.scheduler.filter(|scheduler| scheduler.0 < self.schedulers.len());
        let value = current.and_then(|_| self.metric.of(&observed.performance));
        let workload = Workload::of(window);
        let promise = self.promise(&workload);
        let table = self.a_priori.as_ref().filter(|_| self.decider.asks_table(self.ran.is_none()));
        let first = table.and_then(|table| table.best(&workload)).map(|(scheduler, _)| scheduler);
        let (better, rejected) = (self.metric.better(), self.rejected.clone());
        let input = Input { window, current, value, better, promise: &promise, first, rejected: &rejected };
        let Choice { scheduler, why, confidence, gain, cluster, means } =
            self.decider.decide(&mut self.learned, &input, &mut self.random);
        (self.ran, self.means) = (current, means);
        let change = scheduler.is_some() && scheduler != current;
        Decision { scheduler, change, cluster, why, restraint: None, confidence, expected_gain: gain }
    }

    /// The device's table for each scheduler and this window; 0 without an entry.
    fn promise(&self, workload: &Workload) -> Vec<f64> {
        let of = |id| self.a_priori.as_ref()?.throughput(SchedulerId(id), workload);
        (0..self.schedulers.len()).map(|id| of(id).unwrap_or(0.0)).collect()
    }
}
