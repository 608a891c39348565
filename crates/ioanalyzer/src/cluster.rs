//! A cluster: a recurring pattern with its measurements.

use std::collections::VecDeque;

use observation::SchedulerId;
use serde::{Deserialize, Serialize};

use crate::reduction::CInfo;

/// A cluster's number; never reused, also across saved states.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ClusterId(pub u64);

/// Latest values of the metric under one scheduler: "we hold the last 20 values for each scheduler, to be able to detect changes
/// in performance and overcome a possible overtraining" (III-D).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Values {
    latest: VecDeque<f64>,
    /// The cluster's hit count at the latest value.
    at_hit: u64,
}

impl Values {
    /// Saved values, oldest first.
    pub fn restored(latest: Vec<f64>, at_hit: u64) -> Self {
        Self { latest: latest.into(), at_hit }
    }

    /// Adds a value; drops the oldest beyond `kept`.
    pub fn add(&mut self, value: f64, kept: usize, at_hit: u64) {
        self.latest.push_back(value);
        self.at_hit = at_hit;
        while self.latest.len() > kept {
            self.latest.pop_front();
        }
    }

    /// The number of values.
    pub fn count(&self) -> usize {
        self.latest.len()
    }

    pub fn mean(&self) -> Option<f64> {
        (!self.latest.is_empty()).then(|| self.latest.iter().sum::<f64>() / self.latest.len() as f64)
    }

    /// The values, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = f64> {
        self.latest.iter().copied()
    }

    /// The cluster's hit count at the latest value.
    pub const fn at_hit(&self) -> u64 {
        self.at_hit
    }
}

/// A link to a following cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Successor {
    /// The following cluster.
    pub cluster: ClusterId,
    /// Number of times that it followed.
    pub count: u64,
}

/// A stored pattern: the window that made it, the values of each scheduler, and its successors.
#[derive(Clone, PartialEq, Debug)]
pub struct Cluster {
    /// Its number.
    pub id: ClusterId,
    /// The window that made it.
    pub cinfo: CInfo,
    /// Windows that hit it, including the first.
    pub hits: u64,
    /// The number of the window that last hit it.
    pub used: u64,
    /// The values of each scheduler.
    pub performance: Vec<Values>,
    /// Its successors, in the order of their first occurrence.
    pub successors: Vec<Successor>,
}

impl Cluster {
    /// A scheduler's mean, if it was tried.
    pub fn mean(&self, scheduler: SchedulerId) -> Option<f64> {
        self.performance.get(scheduler.0)?.mean()
    }

    /// Counts a successor.
    pub fn followed_by(&mut self, cluster: ClusterId) {
        match self.successors.iter_mut().find(|successor| successor.cluster == cluster) {
            Some(successor) => successor.count += 1,
            None => self.successors.push(Successor { cluster, count: 1 }),
        }
    }

    /// The schedulers that were never tried, or not in the last `recheck` hits (0: no limit).
    pub fn untested(&self, recheck: u64) -> impl Iterator<Item = SchedulerId> {
        let stale = move |values: &Values| recheck > 0 && self.hits - values.at_hit.min(self.hits) >= recheck;
        let untested = move |(_, values): &(usize, &Values)| values.count() == 0 || stale(values);
        self.performance.iter().enumerate().filter(untested).map(|(index, _)| SchedulerId(index))
    }
}
