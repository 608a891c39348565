//! The algorithm: a window in, a choice for the next window out (the paper's section III-D).
//!
//! # Order of decisions
//! 1. The window is reduced and compared with the clusters of a similar number of requests. The nearest one, if it is similar enough, is hit.
//!    Otherwise the window becomes a cluster.
//! 2. The metric's value is stored for that cluster and the scheduler that the window ran under, and the preceding cluster is linked to it.
//! 3. On a hit: a scheduler that is untested for the most probable next cluster, if there is one; otherwise the best one for the next `d`.
//! 4. On a miss: the armed bandit; or, while nothing is known, the scheduler that the caller names.
//!
//! # Where it differs from the source
//! - The paper does not define for which cluster a scheduler must be untested. Here it is the most probable next one, because the
//!   scheduler will run on that load.
//! - Windows that are not analysed do not change the chain: "it only runs when I/O is active".
//! - A window is compared on one core. A host with several devices runs one instance for each.
//!
//! # Not for
//! It "should not be used where fairness or low latency is important, specifically real-time systems" (section I): trials cost.

use crate::bandit::Bandit;
use crate::chain::{self, Expected};
use crate::cluster::{ClusterId, Values};
use crate::parameters::Parameters;
use crate::ranking::Ranking;
use crate::reduction::CInfo;
use crate::store::{Match, Store};
use elevator::Random;
use observation::{Input, SchedulerId};

/// The clusters with their chain, and the bandit.
pub struct IoAnalyzer {
    parameters: Parameters,
    schedulers: usize,
    store: Store,
    bandit: Bandit,
    /// The cluster of the latest window.
    preceding: Option<ClusterId>,
}

/// The decision after a window.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// The scheduler for the next window; `None` if nothing is known.
    pub scheduler: Option<SchedulerId>,
    /// The reason for the choice.
    pub reason: Reason,
    /// 0 to 1; see [`Ranking::confidence`]. For a draw its probability.
    pub confidence: f64,
    /// The expected improvement of the metric, as a fraction of its value under the current scheduler.
    pub gain: Option<f64>,
    /// The window's cluster.
    pub cluster: ClusterId,
    /// The mean of each scheduler's values in the window's cluster (for a miss: of the bandit), including this window's.
    pub means: Vec<Option<f64>>,
}

/// Why a scheduler was chosen.
#[derive(Clone, PartialEq, Debug)]
pub enum Reason {
    /// A hit, and the best scheduler for the expected clusters, the most probable next one first.
    Best(Match, Vec<Expected>),
    /// A hit, and a scheduler that is untested for the most probable next cluster.
    Untested(Match, Expected),
    /// A hit, but the metric could not be measured in this window, or never in the expected clusters.
    NotMeasured(Match),
    /// A miss; the nearest cluster was not similar enough. Drawn by the bandit with this probability.
    Drawn(Option<Match>, f64),
    /// A miss while nothing is known: [`Input::first`].
    First,
}

impl IoAnalyzer {
    /// Without any measurements; `schedulers` is the number of candidates.
    pub fn new(parameters: Parameters, schedulers: usize) -> Self {
        let (store, bandit) = (Store::new(parameters, schedulers), Bandit::new(schedulers));
        Self { parameters, schedulers, store, bandit, preceding: None }
    }

    /// With the state of an earlier instance.
    pub fn restored(
        parameters: Parameters,
        store: Store,
        bandit: Bandit,
        preceding: Option<ClusterId>,
    ) -> Self {
        Self { parameters, schedulers: bandit.probabilities().len(), store, bandit, preceding }
    }

    /// The clusters.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// The armed bandit.
    pub const fn bandit(&self) -> &Bandit {
        &self.bandit
    }

    /// The cluster of the latest window.
    pub const fn preceding(&self) -> Option<ClusterId> {
        self.preceding
    }

    /// Learns from a window that [counts](observation::Window::counts) and chooses for the next one.
    pub fn window(&mut self, input: &Input<'_>, random: &mut Random) -> Answer {
        let cinfo = CInfo::of(input.window, &self.parameters, random);
        let nearest = self.store.nearest(&cinfo);
        let hit = nearest.filter(|nearest| self.store.is_hit(nearest));
        let cluster = match hit {
            Some(found) => {
                self.store.hit(found.cluster);
                found.cluster
            }
            None => self.store.add(cinfo),
        };
        self.learn(cluster, input);
        if hit.is_none() {
            self.teach_bandit(input);
        }
        let means = if hit.is_some() { self.means(cluster) } else { means(self.bandit.performance()) };
        self.link(cluster);
        let answer = match hit {
            Some(found) => self.known(found, input),
            None => self.unknown(nearest, input, random),
        };
        Answer { cluster, means, ..answer }
    }

    /// The bandit alone, without patterns (the paper's section V, "RANDOM" in its figure 6).
    pub fn window_by_bandit(&mut self, input: &Input<'_>, random: &mut Random) -> Answer {
        self.teach_bandit(input);
        Answer { means: means(self.bandit.performance()), ..self.drawn(None, random) }
    }

    fn means(&self, cluster: ClusterId) -> Vec<Option<f64>> {
        self.store.get(cluster).map_or_else(Vec::new, |cluster| means(&cluster.performance))
    }

    /// "store P inside it" (III-D).
    fn learn(&mut self, cluster: ClusterId, input: &Input<'_>) {
        let Some(cluster) = self.store.get_mut(cluster) else { return };
        let hits = cluster.hits;
        let values = input.current.and_then(|current| cluster.performance.get_mut(current.0));
        if let Some((values, value)) = values.zip(input.value) {
            values.add(value, self.parameters.values as usize, hits);
        }
    }

    /// "In every case, we store in the preceding cluster a pointer to the new found cluster" (III-D).
    fn link(&mut self, cluster: ClusterId) {
        if let Some(preceding) = self.preceding.replace(cluster).and_then(|id| self.store.get_mut(id)) {
            preceding.followed_by(cluster);
        }
    }

    fn teach_bandit(&mut self, input: &Input<'_>) {
        if let Some((scheduler, value)) = input.current.zip(input.value) {
            self.bandit.learn(scheduler, value, input.better, &self.parameters);
        }
    }

    /// On a hit.
    fn known(&self, found: Match, input: &Input<'_>) -> Answer {
        let expected = chain::expected(&self.store, found.cluster, self.parameters.d);
        let ranking = Ranking::of(&self.store, &expected, self.schedulers, input.better);
        let gain = |to| input.current.and_then(|from| ranking.gain(from, to));
        let next = expected.first().filter(|_| input.value.is_some());
        let untested = next.and_then(|next| Some((*next, self.untested(next.cluster, input)?)));
        if let Some((next, scheduler)) = untested {
            let answer = Answer::of(Some(scheduler), Reason::Untested(found, next));
            return Answer { gain: gain(scheduler), ..answer };
        }
        let Some(best) = ranking.best(input.current) else {
            return Answer::of(None, Reason::NotMeasured(found));
        };
        let confidence = found.similarity * ranking.confidence(best);
        Answer { confidence, gain: gain(best), ..Answer::of(Some(best), Reason::Best(found, expected)) }
    }

    /// "If we do not have enough information about the schedulers of a cluster we try to select one of the remaining untested schedulers"
    /// (III-D): the most promising, else the first listed.
    fn untested(&self, cluster: ClusterId, input: &Input<'_>) -> Option<SchedulerId> {
        let untested = self.store.get(cluster)?.untested(self.parameters.recheck);
        let promise = |scheduler: SchedulerId| input.promise.get(scheduler.0).copied().unwrap_or(0.0);
        untested
            .filter(|scheduler| !input.rejected.contains(scheduler))
            .reduce(|best, other| if promise(other) > promise(best) { other } else { best })
    }

    /// On a miss.
    fn unknown(&self, nearest: Option<Match>, input: &Input<'_>, random: &mut Random) -> Answer {
        let knows_nothing = self.bandit.knows_nothing() || self.store.clusters().len() == 1;
        match input.first.filter(|_| knows_nothing) {
            Some(first) => Answer::of(Some(first), Reason::First),
            None => self.drawn(nearest, random),
        }
    }

    fn drawn(&self, nearest: Option<Match>, random: &mut Random) -> Answer {
        let scheduler = self.bandit.draw(random);
        let confidence = self.bandit.probabilities()[scheduler.0];
        Answer { confidence, ..Answer::of(Some(scheduler), Reason::Drawn(nearest, confidence)) }
    }
}

impl Answer {
    fn of(scheduler: Option<SchedulerId>, reason: Reason) -> Self {
        let (cluster, means) = (ClusterId(0), Vec::new());
        Self { scheduler, reason, confidence: 0.0, gain: None, cluster, means }
    }
}

fn means(performance: &[Values]) -> Vec<Option<f64>> {
    performance.iter().map(Values::mean).collect()
}
