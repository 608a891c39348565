//! The paper's way: the window's cluster, what is noted for it, and what follows from that.

use super::{Analyser, Choice, Measured, Observed, Rollback};
use crate::beyond::Switch;
use crate::chain;
use crate::cluster::{ClusterId, SchedulerId};
use crate::decision::{Decision, Why};
use crate::ranking::Ranking;
use crate::reduction::CInfo;
use crate::store::Match;
use crate::window::Window;

/// What a window is to the clusters.
pub(super) struct Noted {
    pub(super) cluster: ClusterId,
    hit: Option<Match>,
    nearest: Option<Match>,
    pub(super) rollback: Rollback,
}

impl Analyser {
    /// The paper's way.
    pub(super) fn by_clusters(
        &mut self,
        window: &Window,
        observed: &Observed,
        measured: Measured,
    ) -> Decision {
        let noted = self.note(window, observed, measured);
        let choice = match noted.hit {
            Some(found) => self.known(found, observed, measured.is_some(), window),
            None => self.unknown(noted.nearest, window),
        };
        self.decision(choice, Some(noted.cluster), noted.rollback, observed)
    }

    /// Finds or makes the window's cluster, and notes what it gave.
    pub(super) fn note(&mut self, window: &Window, observed: &Observed, measured: Measured) -> Noted {
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

    /// If this window is the first under its scheduler, tells the restraints of the switch. Comes before the window's value is noted, which
    /// would be compared with itself.
    fn watch_switch(&mut self, cluster: ClusterId, observed: &Observed, measured: Measured) -> Rollback {
        let from = core::mem::replace(&mut self.ran, observed.scheduler)?;
        let (to, value) = measured.filter(|&(to, _)| to != from)?;
        let cluster = self.store.get(cluster)?;
        let switch = Switch {
            from,
            to,
            value,
            usual: (cluster.mean(from), cluster.mean(to)),
            drained: observed.drained,
            window: self.parameters.t,
        };
        self.restraints.switched(&switch, self.metric.better())
    }

    /// "store P inside it" (III-D).
    fn learn(&mut self, cluster: ClusterId, measured: Measured) {
        let (Some((scheduler, value)), Some(cluster)) = (measured, self.store.get_mut(cluster)) else {
            return;
        };
        let hits = cluster.hits;
        if let Some(values) = cluster.performance.get_mut(scheduler.0) {
            values.add(value, self.parameters.values as usize, hits);
        }
    }

    /// Counts the window's value for the cluster that its scheduler was chosen for, too, if it turned out to be another's.
    fn credit_choice(&mut self, cluster: ClusterId, measured: Measured) {
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
    fn account(&mut self, cluster: ClusterId, missed: bool, measured: Measured, window: &Window) {
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

    pub(super) fn teach_bandit(&mut self, measured: Measured) {
        if let Some((scheduler, value)) = measured {
            self.bandit.learn(scheduler, value, self.metric.better(), &self.parameters);
        }
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
            return Choice::leave(Why::NotMeasured { found });
        };
        let confidence = found.similarity * ranking.confidence(best);
        let why = Why::Best { found, expected };
        Choice { scheduler: Some(best), why, confidence, gain: gain(best), trial: 0 }
    }

    /// "If we do not have enough information about the schedulers of a cluster we try to select one of the remaining untested
    /// schedulers" (III-D): the most promising by the device's table, else the first listed.
    fn untested(&self, cluster: ClusterId, window: &Window) -> Option<SchedulerId> {
        let untested = self.store.get(cluster)?.untested(self.parameters.recheck);
        let untested: Vec<SchedulerId> = untested.filter(|arm| !self.refused.contains(arm)).collect();
        let promise = self.promise(window);
        let more = |best: SchedulerId, other: SchedulerId| match promise[other.0] > promise[best.0] {
            true => other,
            false => best,
        };
        untested.into_iter().reduce(more)
    }

    /// On a miss.
    fn unknown(&mut self, nearest: Option<Match>, window: &Window) -> Choice {
        let knows_nothing = self.bandit.knows_nothing() || self.store.clusters().len() == 1;
        let a_priori = if knows_nothing { self.a_priori(window) } else { None };
        a_priori.unwrap_or_else(|| self.drawn(nearest))
    }

    pub(super) fn drawn(&mut self, nearest: Option<Match>) -> Choice {
        let scheduler = self.bandit.draw(&mut self.random);
        let probability = self.bandit.probabilities()[scheduler.0];
        let trial = u64::from(self.bandit.favourite(self.metric.better()) != Some(scheduler));
        let why = Why::Bandit { nearest, probability };
        Choice { scheduler: Some(scheduler), why, confidence: probability, gain: None, trial }
    }
}
