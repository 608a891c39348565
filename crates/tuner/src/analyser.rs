//! [`Analyser`]: windows in, decisions out.
//!
//! # Order of decisions
//! 1. A window with at most one request a second is not analysed.
//! 2. The [decider](Decider) learns from the window and chooses.
//! 3. The [bound on regret](RegretBound), if it is in force, may reject the choice.

use ioanalyzer::{
    Bandit, Input, IoAnalyzer, Metric, Parameters, Performance, Random, SchedulerId, Store, Window,
};

use crate::decider::{BanditAlone, Choice, Decider, DeciderName};
use crate::decision::{Decision, Restraint, Why};
use crate::early_end::EarlyEnd;
use crate::kinds::Kinds;
use crate::opening::Opened;
use crate::regret::{Proposal, RegretBound};
use crate::selector::{Table, Workload};
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
    decider: DeciderName,
    pub(crate) ioanalyzer: IoAnalyzer,
    pub(crate) kinds: Kinds,
    pub(crate) random: Random,
    /// The scheduler of the latest window.
    ran: Option<SchedulerId>,
    a_priori: Option<Table>,
    regret: Option<RegretBound>,
    /// The stored history of schedulers that are not among the arms.
    pub(crate) absent: Absent,
    /// Schedulers that the device rejects. Not stored.
    rejected: Vec<SchedulerId>,
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
            decider: DeciderName::default(),
            ioanalyzer: IoAnalyzer::new(parameters, count),
            kinds: Kinds::new(count),
            random,
            ran: None,
            a_priori: None,
            regret: None,
            absent: Absent::default(),
            rejected: Vec::new(),
        })
    }

    /// Replaces the decider.
    #[must_use]
    pub fn with_decider(self, decider: DeciderName) -> Self {
        Self { decider, ..self }
    }

    /// Sets the device's measured table.
    #[must_use]
    pub fn with_a_priori(self, table: Table) -> Self {
        Self { a_priori: Some(table), ..self }
    }

    /// Enables the bound on regret.
    #[must_use]
    pub fn with_regret_bound(self, bound: RegretBound) -> Self {
        Self { regret: Some(bound), ..self }
    }

    /// The device rejects this arm: it no longer counts as untested.
    pub fn rejected(&mut self, arm: SchedulerId) {
        self.kinds.rejected(arm);
        if !self.rejected.contains(&arm) {
            self.rejected.push(arm);
        }
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
        let better = self.metric.better();
        match self.decider {
            DeciderName::Kinds => self.kinds.early_end(better),
            DeciderName::IoAnalyzer | DeciderName::Bandit => self.ioanalyzer.early_end(better),
        }
    }

    /// The window that is [learned from](Self::window) next ended early.
    pub fn ended_early(&mut self) {
        self.kinds.ended_early();
    }

    /// The window that is [learned from](Self::window) next has the effects of a switch by an [opening](crate::Opening).
    pub fn settles(&mut self) {
        self.kinds.settle();
    }

    /// Learns the results of an opening for a kind of load.
    pub fn opened(&mut self, kind: usize, opened: &Opened) {
        self.kinds.opened(kind, opened, self.metric.better());
    }

    /// Learns that no scheduler is better than `none` for a kind of load, from the [significance test](crate::SignificanceTest).
    pub fn settled(&mut self, kind: usize, none: SchedulerId) {
        self.kinds.settled(kind, none);
    }

    /// Drops the latest window, which belongs to the history before the restore.
    pub(crate) fn forget_latest(&mut self) {
        self.ran = None;
        self.rejected.clear();
    }

    /// The schedulers' names, by [`SchedulerId`].
    pub fn schedulers(&self) -> &[String] {
        &self.schedulers
    }

    /// Whether a significance test may measure arms. It conflicts with the paper's deciders and with the bound on regret.
    pub fn allows_significance_test(&self) -> bool {
        self.decider == DeciderName::Kinds && self.regret.is_none()
    }

    /// The clusters.
    pub const fn store(&self) -> &Store {
        self.ioanalyzer.store()
    }

    /// The kinds of load.
    pub const fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The armed bandit.
    pub const fn bandit(&self) -> &Bandit {
        self.ioanalyzer.bandit()
    }

    /// Learns from a window that ended, and decides on the next one.
    pub fn window(&mut self, window: &Window, observed: &Observed) -> Decision {
        if !window.counts() {
            return Decision::keep(Why::TooLittle { requests: window.requests() });
        }
        let current = observed.scheduler.filter(|scheduler| scheduler.0 < self.schedulers.len());
        let value = current.and_then(|_| self.metric.of(&observed.performance));
        let workload = Workload::of(window);
        let promise = self.promise(&workload);
        // Kinds use the table before their first window only.
        let asks_table = self.decider != DeciderName::Kinds || self.ran.is_none();
        let first = self.a_priori.as_ref().filter(|_| asks_table).and_then(|table| table.best(&workload));
        let (first, better) = (first.map(|(scheduler, _)| scheduler), self.metric.better());
        let rejected = self.rejected.clone();
        let input = Input { window, current, value, better, promise: &promise, first, rejected: &rejected };
        let mut alone;
        let decider: &mut dyn Decider = match self.decider {
            DeciderName::Kinds => &mut self.kinds,
            DeciderName::IoAnalyzer => &mut self.ioanalyzer,
            DeciderName::Bandit => {
                alone = BanditAlone(&mut self.ioanalyzer);
                &mut alone
            }
        };
        let choice = decider.decide(&input, &mut self.random);
        self.restrain(choice, &input)
    }

    /// Applies the bound on regret, which may reject the choice.
    fn restrain(&mut self, choice: Choice, input: &Input<'_>) -> Decision {
        let before = core::mem::replace(&mut self.ran, input.current);
        let under_way = choice.is_under_way(input.current);
        let restrained = self.regret.as_mut().and_then(|regret| {
            let usual = |from: SchedulerId| choice.before.get(from.0).copied().flatten();
            let switched = before.filter(|&from| Some(from) != input.current);
            let hurt = switched.zip(input.current.zip(input.value)).and_then(|(from, (to, value))| {
                let loss = regret.loss_by_switch(from, value, usual(from)?)?;
                Some((from, Restraint::Rollback { wanted: to, loss }))
            });
            if let Some(value) = input.value {
                regret.record(input.window.start, value, &choice.after);
            }
            if let Some((back, rollback)) = hurt.filter(|_| !under_way) {
                regret.leave(input.current?);
                return Some((back, rollback));
            }
            let (scheduler, current) = choice.scheduler.zip(input.current)?;
            regret.review(&Proposal { scheduler, current, trial: choice.trial, under_way })
        });
        let Choice { scheduler, why, confidence, gain, cluster, .. } = choice;
        let (scheduler, restraint) = match restrained {
            Some((instead, restraint)) => (Some(instead), Some(restraint)),
            None => (scheduler, None),
        };
        let is_followed = restraint.is_none();
        Decision {
            scheduler,
            change: scheduler.is_some() && scheduler != input.current,
            cluster,
            why,
            restraint,
            confidence: if is_followed { confidence } else { 0.0 },
            expected_gain: gain.filter(|_| is_followed),
        }
    }

    /// The device's table for each scheduler and this window; 0 without an entry.
    fn promise(&self, workload: &Workload) -> Vec<f64> {
        let of = |id| self.a_priori.as_ref()?.throughput(SchedulerId(id), workload);
        (0..self.schedulers.len()).map(|id| of(id).unwrap_or(0.0)).collect()
    }
}

impl Choice {
    /// Whether it continues a trial under the present scheduler. Trials by clusters take one window, and each is another.
    fn is_under_way(&self, current: Option<SchedulerId>) -> bool {
        matches!(self.why, Why::Kind(_)) && self.trial > 0 && self.scheduler == current
    }
}
