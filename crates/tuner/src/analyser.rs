//! The analyser: windows in, decisions out.
//!
//! # Idea
//! IOAnalyzer (Nou, Giralt, Cortes, "Automatic I/O scheduler selection through online workload analysis"): patterns of access
//! repeat, and follow one another in patterns too. What a window looks like says which windows to expect, and what is remembered of
//! those says which scheduler serves them best. Section III-D is the flow below.
//!
//! # Order of decisions
//! 1. A window with no more than one request a second is not analysed.
//! 2. As preset, [the kind of load](crate::beyond::Kinds) says what is used or tried, and only 7 follows. With the parameter `kinds` off it goes
//!    the paper's way:
//! 3. The window is reduced and compared with the clusters of a similar number of requests; the nearest one, if similar enough, is hit.
//!    Otherwise it becomes a cluster.
//! 4. The metric is noted for that cluster and the scheduler that the window ran under, and the preceding cluster gets a link.
//! 5. On a hit: an untested scheduler for the most probable next cluster, if there is one; else the best for the next `d`.
//! 6. On a miss: the armed bandit; or, while nothing is known at all, the device's table.
//! 7. What was found goes through the [restraints](crate::beyond) that are in force; by default none.
//!
//! The paper's way, 3 to 6, is in `clusters`. Where kinds decide, 3 and 4 are left out unless something else asks what clusters know: a search
//! of settings, the bound on regret, the cost of a switch.
//!
//! # Where it differs from the source
//! - Which cluster an untested scheduler is to be untested for, the paper leaves open. It is the most probable next one, as that
//!   is what the scheduler will run on.
//! - Windows that are not analysed leave the chain as it is: "it only runs when I/O is active".
//! - A window is compared on one core. Hosts that have cores to spare run one analyser per device on each.
//!
//! # Not for
//! "should not be used where fairness or low latency is important, specifically real-time systems" (I): trials cost.

mod clusters;

use crate::bandit::Bandit;
use crate::beyond::{Kinds, Proposal, Restraints, Search, Shape, Space};
use crate::cluster::{ClusterId, SchedulerId};
use crate::decision::{Decision, Restraint, Why};
use crate::metric::{Metric, Performance};
use crate::parameters::Parameters;
use crate::random::Random;
use crate::selector::{Table, Workload};
use crate::state::Absent;
use crate::store::Store;
use crate::window::Window;

use elevator::Span;

/// What was seen of a window beside its accesses.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Observed {
    /// The scheduler that it ran under; `None`, or a number that none has, if that is not one of the analyser's.
    pub scheduler: Option<SchedulerId>,
    /// How it went.
    pub performance: Performance,
    /// For how long a switch at its beginning stopped the device, if there was one and it was measured.
    pub drained: Option<Span>,
}

/// Learns a device's patterns and chooses its scheduler.
pub struct Analyser {
    pub(crate) parameters: Parameters,
    pub(crate) metric: Metric,
    pub(crate) schedulers: Vec<String>,
    pub(crate) store: Store,
    pub(crate) bandit: Bandit,
    pub(crate) kinds: Kinds,
    pub(crate) random: Random,
    /// The cluster of the latest window.
    pub(crate) preceding: Option<ClusterId>,
    /// The scheduler of the latest window.
    ran: Option<SchedulerId>,
    /// What was decided last: for which cluster, which scheduler.
    chosen: Option<(ClusterId, SchedulerId)>,
    a_priori: Option<Table>,
    restraints: Restraints,
    pub(crate) search: Option<Search>,
    /// What is kept of schedulers that are not chosen from.
    pub(crate) absent: Absent,
    /// Those that the device refuses, which clusters do not count as untested. Not kept.
    refused: Vec<SchedulerId>,
}

/// A choice before the restraints.
struct Choice {
    scheduler: Option<SchedulerId>,
    why: Why,
    confidence: f64,
    gain: Option<f64>,
    /// For how many windows the scheduler is tried; 0: it is known to be good.
    trial: u64,
}

impl Choice {
    /// Leaves what there is.
    const fn leave(why: Why) -> Self {
        Self { scheduler: None, why, confidence: 0.0, gain: None, trial: 0 }
    }

    /// Whether it goes on with a trial under the scheduler in use. Trials by clusters are of one window, and each is another.
    fn is_under_way(&self, current: Option<SchedulerId>) -> bool {
        matches!(self.why, Why::Kind(_)) && self.trial > 0 && self.scheduler == current
    }
}

/// The scheduler that a window ran under and the metric's value, if that was measured.
type Measured = Option<(SchedulerId, f64)>;

/// What to go back to, if the switch before a window hurt.
type Rollback = Option<(SchedulerId, Restraint)>;

impl Analyser {
    /// Knows nothing yet. `schedulers` are the names to choose from, `random` draws buckets and arms.
    ///
    /// # Errors
    /// If there is no scheduler, two have the same name, or the parameters are out of range or do not fit together.
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
            store: Store::new(parameters, count),
            bandit: Bandit::new(count),
            kinds: Kinds::new(count),
            random,
            preceding: None,
            ran: None,
            chosen: None,
            a_priori: None,
            restraints: Restraints::default(),
            search: None,
            absent: Absent::default(),
            refused: Vec::new(),
        })
    }

    /// Gives it the device's measured table.
    #[must_use]
    pub fn with_a_priori(mut self, table: Table) -> Self {
        self.a_priori = Some(table);
        self
    }

    /// Puts restraints in force.
    #[must_use]
    pub fn with_restraints(mut self, restraints: Restraints) -> Self {
        self.restraints = restraints;
        self
    }

    /// Adds `open` arms behind the schedulers, which stand for settings of theirs that are searched in `spaces`. Comes before
    /// anything is learned or restored. What the arms stand for changes: see [`schedulers`](Self::schedulers) after each window.
    ///
    /// # Errors
    /// If there is nothing to search, or an arm would have the name of another.
    pub fn with_search(mut self, spaces: Vec<Space>, open: usize) -> Result<Self, String> {
        let search = Search::new(spaces, self.schedulers.len(), open, &mut self.random)?;
        let mut schedulers = self.schedulers;
        schedulers.extend(search.names());
        let made = Self::new(schedulers, self.metric, self.parameters, self.random)?;
        Ok(Self { a_priori: self.a_priori, restraints: self.restraints, search: Some(search), ..made })
    }

    /// The device refuses this arm: it no longer counts as untested, and if it stands for settings that are searched, they make room for
    /// others.
    pub fn refused(&mut self, arm: SchedulerId) {
        self.kinds.refused(arm);
        if !self.refused.contains(&arm) {
            self.refused.push(arm);
        }
        if let Some(search) = &mut self.search {
            search.refused(arm);
        }
    }

    /// What was last is of another past than what was learned.
    pub(crate) fn forget_latest(&mut self) {
        (self.ran, self.chosen) = (None, None);
        self.refused.clear();
    }

    /// The schedulers' names, by [`SchedulerId`]; behind them what the arms that are searched stand for at the moment.
    #[must_use]
    pub fn schedulers(&self) -> &[String] {
        &self.schedulers
    }

    /// Whether it is left to itself what is tried, and when: neither the paper's way nor a restraint says so. Whoever measures schedulers
    /// beside it asks this first.
    #[must_use]
    pub const fn tries_freely(&self) -> bool {
        let Parameters { kinds, bandit_alone, .. } = self.parameters;
        kinds && !bandit_alone && !self.restraints.are_in_force()
    }

    /// Whether windows are compared with patterns. By the bandit alone they are not, and a search, the bound on regret and the cost of a switch
    /// have nothing to go by: whoever asks for one of them asks this first.
    #[must_use]
    pub const fn knows_patterns(&self) -> bool {
        !self.parameters.bandit_alone
    }

    /// The names of the schedulers without the arms that are searched.
    #[must_use]
    pub fn plain(&self) -> &[String] {
        let searched = self.search.as_ref().map_or(0, |search| search.names().count());
        &self.schedulers[..self.schedulers.len() - searched]
    }

    /// What was learned.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// The kinds of load.
    #[must_use]
    pub const fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The armed bandit.
    #[must_use]
    pub const fn bandit(&self) -> &Bandit {
        &self.bandit
    }

    /// A window ended: learns from it and decides on the next one.
    pub fn window(&mut self, window: &Window, observed: &Observed) -> Decision {
        if !window.counts() {
            let why = Why::TooLittle { requests: window.requests() };
            return Decision {
                scheduler: None,
                change: false,
                cluster: None,
                why,
                restraint: None,
                confidence: 0.0,
                expected_gain: None,
            };
        }
        let scheduler = observed.scheduler.filter(|scheduler| scheduler.0 < self.schedulers.len());
        let observed = &Observed { scheduler, ..observed.clone() };
        let measured = scheduler.zip(self.metric.of(&observed.performance));
        self.search_on(measured, scheduler);
        if self.parameters.bandit_alone {
            self.teach_bandit(measured);
            let choice = self.drawn(None);
            return self.decision(choice, None, None, observed);
        }
        match self.parameters.kinds {
            true => self.by_kinds(window, observed, measured),
            false => self.by_clusters(window, observed, measured),
        }
    }

    /// By the kind of load.
    fn by_kinds(&mut self, window: &Window, observed: &Observed, measured: Measured) -> Decision {
        let first = self.ran.is_none();
        // To compare a window with all of them is most of what it costs.
        let asks = self.search.is_some() || self.restraints.ask_clusters();
        let noted = asks.then(|| self.note(window, observed, measured));
        self.ran = observed.scheduler;
        let choice = match measured {
            Some(measured) => self.by_kind(window, measured, first),
            None => Choice::leave(Why::Unmeasured),
        };
        let (cluster, rollback) = noted.map(|noted| (noted.cluster, noted.rollback)).unzip();
        self.decision(choice, cluster, rollback.flatten(), observed)
    }

    /// What its kind says of a measured window. If the device's table says so of the first window of all, kinds begin with the scheduler that it names.
    fn by_kind(&mut self, window: &Window, measured: (SchedulerId, f64), first: bool) -> Choice {
        if first && self.kinds.know_nothing() {
            let another = self.a_priori(window).filter(|choice| choice.scheduler != Some(measured.0));
            if let Some(choice) = another {
                return choice;
            }
        }
        let promise = self.promise(window);
        let served = self.kinds.window(&Shape::of(window), measured, &promise, self.metric.better());
        Choice {
            scheduler: Some(served.scheduler),
            why: Why::Kind(served),
            confidence: served.confidence,
            gain: served.gain,
            trial: served.trial,
        }
    }

    /// Lets the restraints have their say.
    fn decision(
        &mut self,
        choice: Choice,
        cluster: Option<ClusterId>,
        rollback: Rollback,
        observed: &Observed,
    ) -> Decision {
        let under_way = choice.is_under_way(observed.scheduler);
        let Choice { scheduler, why, confidence, gain, trial } = choice;
        let proposal = scheduler.zip(observed.scheduler).map(|(scheduler, current)| Proposal {
            scheduler,
            current,
            gain,
            trial,
            under_way,
        });
        let rollback = rollback.filter(|_| !under_way);
        if let Some((_, Restraint::Rollback { wanted, .. })) = rollback {
            self.restraints.leave(wanted);
        }
        let restrained = rollback.or_else(|| self.restraints.review(&proposal?, self.parameters.d));
        let (scheduler, restraint) = match restrained {
            Some((instead, restraint)) => (Some(instead), Some(restraint)),
            None => (scheduler, None),
        };
        let followed = restraint.is_none();
        self.chosen = scheduler.filter(|_| followed).and_then(|scheduler| {
            let chosen_for = match &why {
                Why::Untested { next, .. } => next.cluster,
                Why::Best { expected, .. } => expected.first()?.cluster,
                _ => return None,
            };
            Some((chosen_for, scheduler))
        });
        Decision {
            scheduler,
            change: scheduler.is_some() && scheduler != observed.scheduler,
            cluster,
            why,
            restraint,
            confidence: if followed { confidence } else { 0.0 },
            expected_gain: gain.filter(|_| followed),
        }
    }

    /// Gives another arm other settings, if it is time. What was learned of the arm goes with the old ones.
    fn search_on(&mut self, measured: Measured, in_use: Option<SchedulerId>) {
        let Some(search) = &mut self.search else { return };
        search.measured(measured.map(|(scheduler, _)| scheduler));
        let next = search.next(in_use, &self.store, self.metric.better(), &mut self.random);
        if let Some((arm, name)) = next {
            self.schedulers[arm.0] = name;
            self.store.forget(arm);
            self.bandit.forget(arm);
            self.kinds.forget(arm);
            self.restraints.forget(arm);
            self.refused.retain(|&refused| refused != arm);
        }
    }

    /// What the device's table says of each scheduler for such a window; 0 where there is none.
    fn promise(&self, window: &Window) -> Vec<f64> {
        let workload = Workload::of(window);
        let of = |id| self.a_priori.as_ref()?.throughput(SchedulerId(id), &workload);
        (0..self.schedulers.len()).map(|id| of(id).unwrap_or(0.0)).collect()
    }

    /// What the device's table says is best.
    fn a_priori(&self, window: &Window) -> Option<Choice> {
        let workload = Workload::of(window);
        let (scheduler, throughput) = self.a_priori.as_ref()?.best(&workload)?;
        let why = Why::APriori { size: workload.size, throughput };
        Some(Choice { scheduler: Some(scheduler), why, confidence: 0.0, gain: None, trial: 1 })
    }
}
