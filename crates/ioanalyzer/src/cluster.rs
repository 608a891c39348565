//! What is known of one recurring pattern.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::reduction::CInfo;

/// A cluster's name for good: never used again, also not across saved states.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ClusterId(pub u64);

/// A scheduler, by its place in the list that the analyser was made with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct SchedulerId(pub usize);

/// Latest values of the metric under one scheduler: "we hold the last 20 values for each scheduler, to be able to detect changes
/// in performance and overcome a possible overtraining" (III-D).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Values {
    latest: VecDeque<f64>,
    /// The cluster's hits when the latest came.
    at_hit: u64,
}

impl Values {
    /// Those, oldest first, the latest of which came at that hit.
    #[must_use]
    pub fn restored(latest: Vec<f64>, at_hit: u64) -> Self {
        Self { latest: latest.into(), at_hit }
    }

    /// Adds one; the oldest beyond `kept` go.
    pub fn add(&mut self, value: f64, kept: usize, at_hit: u64) {
        self.latest.push_back(value);
        self.at_hit = at_hit;
        while self.latest.len() > kept {
            self.latest.pop_front();
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.latest.len()
    }

    /// Their mean, if there are any.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (!self.latest.is_empty()).then(|| self.latest.iter().sum::<f64>() / self.latest.len() as f64)
    }

    /// Oldest first.
    pub fn iter(&self) -> impl Iterator<Item = f64> {
        self.latest.iter().copied()
    }

    /// The cluster's hits when the latest came.
    #[must_use]
    pub const fn at_hit(&self) -> u64 {
        self.at_hit
    }
}

/// How often a cluster was followed by another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Successor {
    /// The other.
    pub cluster: ClusterId,
    /// How often.
    pub count: u64,
}

/// A stored pattern: the window that made it, how it went under each scheduler, and what came after it.
#[derive(Clone, PartialEq, Debug)]
pub struct Cluster {
    /// Its name.
    pub id: ClusterId,
    /// The window that made it.
    pub cinfo: CInfo,
    /// Windows that were found similar, the first one included.
    pub hits: u64,
    /// The number of the window that last hit it.
    pub used: u64,
    /// For each scheduler what was measured.
    pub performance: Vec<Values>,
    /// What followed it, in order of first appearance.
    pub successors: Vec<Successor>,
}

impl Cluster {
    /// The mean under a scheduler, if it was tried.
    #[must_use]
    pub fn mean(&self, scheduler: SchedulerId) -> Option<f64> {
        self.performance.get(scheduler.0)?.mean()
    }

    /// Notes that `cluster` followed.
    pub fn followed_by(&mut self, cluster: ClusterId) {
        match self.successors.iter_mut().find(|successor| successor.cluster == cluster) {
            Some(successor) => successor.count += 1,
            None => self.successors.push(Successor { cluster, count: 1 }),
        }
    }

    /// Schedulers of which not enough is known: never tried here, or not for `recheck` hits (0: that never matters).
    pub fn untested(&self, recheck: u64) -> impl Iterator<Item = SchedulerId> {
        let stale = move |values: &Values| recheck > 0 && self.hits - values.at_hit.min(self.hits) >= recheck;
        let untested = move |(_, values): &(usize, &Values)| values.count() == 0 || stale(values);
        self.performance.iter().enumerate().filter(untested).map(|(index, _)| SchedulerId(index))
    }
}
