//! "A ranking of the most beneficial schedulers for the next expected workloads" (III-A).
//!
//! A scheduler's score is the sum, over the expected clusters, of the mean of its latest values there times the cluster's
//! weight. For a cluster in which it is untested, the mean of the tested ones is used, so that missing knowledge is neutral.

use crate::chain::Expected;
use crate::cluster::Cluster;
use crate::store::Store;
use observation::{Better, SchedulerId};

/// The expected value of each scheduler.
#[derive(Clone, PartialEq, Debug)]
pub struct Ranking {
    better: Better,
    /// The expected value; `None` if a scheduler is untested in all expected clusters.
    scores: Vec<Option<f64>>,
    /// Weight of the clusters in which each scheduler is the best.
    wins: Vec<f64>,
    /// The smallest number of values in one cluster that contribute to a score.
    evidence: Vec<usize>,
}

impl Ranking {
    /// The ranking for the `expected` clusters.
    pub fn of(store: &Store, expected: &[Expected], schedulers: usize, better: Better) -> Self {
        let mut ranking = Self {
            better,
            scores: vec![None; schedulers],
            wins: vec![0.0; schedulers],
            evidence: vec![usize::MAX; schedulers],
        };
        let tried: Vec<(f64, &Cluster)> = expected
            .iter()
            .filter_map(|expected| Some((expected.weight, store.get(expected.cluster)?)))
            .filter(|(_, cluster)| cluster.performance.iter().any(|values| values.count() > 0))
            .collect();
        for index in 0..schedulers {
            if tried.iter().any(|(_, cluster)| cluster.mean(SchedulerId(index)).is_some()) {
                ranking.scores[index] = Some(0.0);
            }
        }
        for (weight, cluster) in tried {
            ranking.add(weight, cluster);
        }
        ranking
    }

    fn add(&mut self, weight: f64, cluster: &Cluster) {
        let means: Vec<f64> = cluster.performance.iter().filter_map(|values| values.mean()).collect();
        let stand_in = means.iter().sum::<f64>() / means.len() as f64;
        for (index, score) in self.scores.iter_mut().enumerate() {
            let Some(score) = score else { continue };
            let values = &cluster.performance[index];
            *score += weight * values.mean().unwrap_or(stand_in);
            if values.count() > 0 {
                self.evidence[index] = self.evidence[index].min(values.count());
            }
        }
        let best = best_of(cluster.performance.iter().map(|values| values.mean()), self.better, None);
        if let Some(best) = best {
            self.wins[best] += weight;
        }
    }

    /// The best scheduler; of equals `current` if it is among them, otherwise the first.
    pub fn best(&self, current: Option<SchedulerId>) -> Option<SchedulerId> {
        best_of(self.scores.iter().copied(), self.better, current.map(|id| id.0)).map(SchedulerId)
    }

    /// The expected value under a scheduler.
    pub fn score(&self, scheduler: SchedulerId) -> Option<f64> {
        *self.scores.get(scheduler.0)?
    }

    /// The expected gain of `to` over `from`, as a fraction of the score of `from`.
    pub fn gain(&self, from: SchedulerId, to: SchedulerId) -> Option<f64> {
        let (from, to) = (self.score(from)?, self.score(to)?);
        (from != 0.0).then(|| self.better.oriented(to - from) / from.abs())
    }

    /// A measure, not a probability, that this is the best scheduler, 0 to 1: the weight of the expected clusters in which it is, times n/(n+1) for the
    /// n values behind that.
    pub fn confidence(&self, scheduler: SchedulerId) -> f64 {
        let Some(&evidence) = self.evidence.get(scheduler.0).filter(|&&n| n != usize::MAX) else {
            return 0.0;
        };
        self.wins[scheduler.0].min(1.0) * evidence as f64 / (evidence + 1) as f64
    }
}

fn best_of(
    values: impl Iterator<Item = Option<f64>>,
    better: Better,
    prefer: Option<usize>,
) -> Option<usize> {
    let known = values.enumerate().filter_map(|(index, value)| Some((index, better.oriented(value?))));
    known
        .reduce(|best, other| {
            let wins = other.1 > best.1 || (other.1 == best.1 && Some(other.0) == prefer);
            if wins { other } else { best }
        })
        .map(|(index, _)| index)
}
