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
//! Where kinds decide, 3 and 4 are left out unless something else asks what clusters know: a search of settings, the bound on regret, the cost of
//! a switch.
//!
//! # Where it differs from the source
//! - Which cluster an untested scheduler is to be untested for, the paper leaves open. It is the most probable next one, as that
//!   is what the scheduler will run on.
//! - Windows that are not analysed leave the chain as it is: "it only runs when I/O is active".
//! - A window is compared on one core. Hosts that have cores to spare run one analyser per device on each.
//!
//! # Not for
//! "should not be used where fairness or low latency is important, specifically real-time systems" (I): trials cost.

use crate::beyond::{Kinds, Proposal, Restraints, Search, Shape, Space};
use crate::cluster::{ClusterId, SchedulerId};
use crate::decision::{Decision, Restraint, Why};
use crate::metric::{Metric, Performance};
use crate::parameters::Parameters;
use crate::random::Random;
use crate::ranking::Ranking;
use crate::reduction::CInfo;
use crate::selector::{Table, Workload};
use crate::store::{Match, Store};
use crate::window::Window;
use crate::{bandit::Bandit, chain};

use elevator::Span;

/// What was seen of a window beside its accesses.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Observed {
    /// The scheduler that it ran under; `None` if that is not one of the analyser's.
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

/// What a window is to the clusters.
struct Noted {
    cluster: ClusterId,
    hit: Option<Match>,
    nearest: Option<Match>,
    /// What to go back to, if the switch before it hurt.
    rollback: Option<(SchedulerId, Restraint)>,
}

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

    /// The device refuses this arm: if it stands for settings that are searched, they make room for others.
    pub fn refused(&mut self, arm: SchedulerId) {
        if let Some(search) = &mut self.search {
            search.refused(arm);
        }
    }

    /// The schedulers' names, by [`SchedulerId`]; behind them what the arms that are searched stand for at the moment.
    #[must_use]
    pub fn schedulers(&self) -> &[String] {
        &self.schedulers
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
        let measured = observed.scheduler.zip(self.metric.of(&observed.performance));
        self.search_on(measured, observed.scheduler);
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

    /// The paper's way.
    fn by_clusters(
        &mut self,
        window: &Window,
        observed: &Observed,
        measured: Option<(SchedulerId, f64)>,
    ) -> Decision {
        let noted = self.note(window, observed, measured);
        let choice = match noted.hit {
            Some(found) => self.known(found, observed, measured.is_some(), window),
            None => self.unknown(noted.nearest, window),
        };
        self.decision(choice, Some(noted.cluster), noted.rollback, observed)
    }

    /// By the kind of load.
    fn by_kinds(
        &mut self,
        window: &Window,
        observed: &Observed,
        measured: Option<(SchedulerId, f64)>,
    ) -> Decision {
        let first = self.ran.is_none();
        let noted = self.asks_clusters().then(|| self.note(window, observed, measured));
        self.ran = observed.scheduler;
        let unmeasured =
            Choice { scheduler: None, why: Why::Unmeasured, confidence: 0.0, gain: None, trial: 0 };
        let choice = measured.map_or(unmeasured, |measured| self.by_kind(window, measured, first));
        // A trial is of several windows and ends by itself; cut short it would teach nothing, and be made again and again.
        let on_trial = choice.trial > 0 && choice.scheduler == observed.scheduler;
        let rollback = noted.as_ref().and_then(|noted| noted.rollback).filter(|_| !on_trial);
        self.decision(choice, noted.map(|noted| noted.cluster), rollback, observed)
    }

    /// Whether anything asks what clusters know, where they do not decide: to compare a window with all of them is most of what it costs.
    fn asks_clusters(&self) -> bool {
        let Restraints { regret, switch_cost, hysteresis: _ } = &self.restraints;
        self.search.is_some() || regret.is_some() || switch_cost.is_some()
    }

    /// Finds or makes the window's cluster, and notes what it gave.
    fn note(&mut self, window: &Window, observed: &Observed, measured: Option<(SchedulerId, f64)>) -> Noted {
        let cinfo = CInfo::of(window, &self.parameters, &mut self.random);
        let nearest = self.store.nearest(&cinfo);
        let hit = nearest.filter(|nearest| self.store.is_hit(nearest));
        let hit = hit.or_else(|| self.store.alike(&cinfo));
        let cluster = match hit {
            Some(found) => {
                self.store.hit(found.cluster);
                found.cluster
            }
            None => self.store.add(cinfo),
        };
        let rollback = self.watch_switch(cluster, observed, measured);
        self.learn(cluster, measured);
        self.credit_choice(cluster, measured);
        if hit.is_none() {
            self.teach_bandit(measured);
        }
        self.account(cluster, hit.is_none(), measured, window);
        self.link(cluster);
        Noted { cluster, hit, nearest, rollback }
    }

    /// Gives another arm other settings, if it is time. What was learned of the arm goes with the old ones.
    fn search_on(&mut self, measured: Option<(SchedulerId, f64)>, in_use: Option<SchedulerId>) {
        let Some(search) = &mut self.search else { return };
        search.measured(measured.map(|(scheduler, _)| scheduler));
        let next = search.next(in_use, &self.store, self.metric.better(), &mut self.random);
        if let Some((arm, name)) = next {
            self.schedulers[arm.0] = name;
            self.store.forget(arm);
            self.bandit.forget(arm);
            self.kinds.forget(arm);
            if let Some(regret) = &mut self.restraints.regret {
                regret.forget(arm);
            }
        }
    }

    fn teach_bandit(&mut self, measured: Option<(SchedulerId, f64)>) {
        if let Some((scheduler, value)) = measured {
            self.bandit.learn(scheduler, value, self.metric.better(), &self.parameters);
        }
    }

    /// "store P inside it" (III-D).
    fn learn(&mut self, cluster: ClusterId, measured: Option<(SchedulerId, f64)>) {
        let (Some((scheduler, value)), Some(cluster)) = (measured, self.store.get_mut(cluster)) else {
            return;
        };
        let hits = cluster.hits;
        if let Some(values) = cluster.performance.get_mut(scheduler.0) {
            values.add(value, self.parameters.values as usize, hits);
        }
    }

    /// Counts the window's value for the cluster that its scheduler was chosen for, too, if it turned out to be another's.
    fn credit_choice(&mut self, cluster: ClusterId, measured: Option<(SchedulerId, f64)>) {
        let chosen = self.chosen.take().filter(|_| self.parameters.credit_choices);
        if let Some((chosen_for, scheduler)) = chosen
            && chosen_for != cluster
            && measured.is_some_and(|(ran, _)| ran == scheduler)
        {
            self.learn(chosen_for, measured);
        }
    }

    /// Notes for the bound on regret what this window gave and what others would have: by its cluster's values, or, if it missed,
    /// by what the bandit knows of such windows.
    fn account(
        &mut self,
        cluster: ClusterId,
        missed: bool,
        measured: Option<(SchedulerId, f64)>,
        window: &Window,
    ) {
        let (Some(regret), Some((_, value)), Some(cluster)) =
            (&mut self.restraints.regret, measured, self.store.get(cluster))
        else {
            return;
        };
        let of = if missed { self.bandit.performance() } else { &cluster.performance };
        let means: Vec<Option<f64>> = of.iter().map(|values| values.mean()).collect();
        regret.record(window.start, value, &means);
    }

    /// "In every case, we store in the preceding cluster a pointer to the new found cluster" (III-D).
    fn link(&mut self, cluster: ClusterId) {
        if let Some(preceding) = self.preceding.replace(cluster).and_then(|id| self.store.get_mut(id)) {
            preceding.followed_by(cluster);
        }
    }

    /// If this window is the first under its scheduler, teaches the restraints what the switch did. Returns the scheduler to go
    /// back to, if it hurt. Comes before the window's value is noted, which would be compared with itself.
    fn watch_switch(
        &mut self,
        cluster: ClusterId,
        observed: &Observed,
        measured: Option<(SchedulerId, f64)>,
    ) -> Option<(SchedulerId, Restraint)> {
        let before = core::mem::replace(&mut self.ran, observed.scheduler)?;
        let (now, value) = measured.filter(|&(now, _)| now != before)?;
        let cluster = self.store.get(cluster)?;
        if let Some(cost) = &mut self.restraints.switch_cost {
            if let Some(drained) = observed.drained {
                cost.drained(drained, self.parameters.t);
            }
            if let Some(usual) = cluster.mean(now) {
                let better = self.metric.better();
                cost.first_window(better.oriented(value), better.oriented(usual));
            }
        }
        let regret = self.restraints.regret.as_mut()?;
        let loss = regret.hurt(value, cluster.mean(before)?)?;
        regret.leave(now);
        Some((before, Restraint::Rollback { wanted: now, loss }))
    }

    /// On a hit.
    fn known(&mut self, found: Match, observed: &Observed, measured: bool, window: &Window) -> Choice {
        let expected = chain::expected(&self.store, found.cluster, self.parameters.d);
        let ranking = Ranking::of(&self.store, &expected, self.schedulers.len(), self.metric.better());
        let gain = |to| observed.scheduler.and_then(|from| ranking.gain(from, to));
        let untested = expected.first().filter(|_| measured);
        if let Some((next, scheduler)) =
            untested.and_then(|next| Some((*next, self.untested(next.cluster, window)?)))
        {
            let gain = gain(scheduler);
            let why = Why::Untested { found, next };
            return Choice { scheduler: Some(scheduler), why, confidence: 0.0, gain, trial: 1 };
        }
        let Some(best) = ranking.best(observed.scheduler) else {
            let why = Why::NotMeasured { found };
            return Choice { scheduler: None, why, confidence: 0.0, gain: None, trial: 0 };
        };
        let confidence = found.similarity * ranking.confidence(best);
        let why = Why::Best { found, expected };
        Choice { scheduler: Some(best), why, confidence, gain: gain(best), trial: 0 }
    }

    /// "If we do not have enough information about the schedulers of a cluster we try to select one of the remaining untested
    /// schedulers" (III-D): the most promising by the device's table, else the first listed.
    fn untested(&self, cluster: ClusterId, window: &Window) -> Option<SchedulerId> {
        let untested: Vec<SchedulerId> = self.store.get(cluster)?.untested(self.parameters.recheck).collect();
        let promise = self.promise(window);
        let more = |best: SchedulerId, other: SchedulerId| match promise[other.0] > promise[best.0] {
            true => other,
            false => best,
        };
        untested.into_iter().reduce(more)
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

    /// On a miss.
    fn unknown(&mut self, nearest: Option<Match>, window: &Window) -> Choice {
        let knows_nothing = self.bandit.knows_nothing() || self.store.clusters().len() == 1;
        let a_priori = if knows_nothing { self.a_priori(window) } else { None };
        a_priori.unwrap_or_else(|| self.drawn(nearest))
    }

    fn drawn(&mut self, nearest: Option<Match>) -> Choice {
        let scheduler = self.bandit.draw(&mut self.random);
        let probability = self.bandit.probabilities()[scheduler.0];
        let trial = u64::from(self.bandit.favourite(self.metric.better()) != Some(scheduler));
        let why = Why::Bandit { nearest, probability };
        Choice { scheduler: Some(scheduler), why, confidence: probability, gain: None, trial }
    }

    /// Lets the restraints have their say.
    fn decision(
        &mut self,
        choice: Choice,
        cluster: Option<ClusterId>,
        rollback: Option<(SchedulerId, Restraint)>,
        observed: &Observed,
    ) -> Decision {
        let Choice { scheduler, why, confidence, gain, trial } = choice;
        let proposal = scheduler.zip(observed.scheduler).map(|(scheduler, current)| Proposal {
            scheduler,
            current,
            gain,
            trial,
        });
        let restrained = rollback.or_else(|| self.restrained(&proposal?));
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

    fn restrained(&mut self, proposal: &Proposal) -> Option<(SchedulerId, Restraint)> {
        let stay = |restraint| (proposal.current, restraint);
        let restraints = &mut self.restraints;
        if let Some(no) = restraints.regret.as_mut().and_then(|regret| regret.review(proposal)) {
            return Some(no);
        }
        if let Some(no) = restraints.hysteresis.as_mut().and_then(|hysteresis| hysteresis.review(proposal)) {
            return Some(stay(no));
        }
        restraints.switch_cost.as_ref().and_then(|cost| cost.review(proposal, self.parameters.d)).map(stay)
    }
}
