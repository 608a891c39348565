//! [`State`]: the knowledge of an analyser, as plain data for a file or another machine.

use std::collections::HashMap;

use elevator::Random;
use elevator::Span;
use ioanalyzer::{CInfo, Cluster, ClusterId, Parameters, Successor, Values};
use observation::Metric;

use serde::{Deserialize, Serialize};

use crate::kinds::Kinds;
use crate::saved::{COUNT_MAX, carried_over};

/// The version that this code writes, and the only one that it reads.
pub const VERSION: u32 = 1;

/// Everything that an analyser has learned.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct State {
    /// The [`VERSION`] that wrote it.
    pub version: u32,
    /// Names of the schedulers, in the order of all lists per scheduler below.
    pub schedulers: Vec<String>,
    /// The metric of all values.
    pub metric: Metric,
    /// The parameters of the points; clusters with other parameters cannot be compared.
    pub made: Made,
    /// The greatest difference between windows seen.
    pub maxdifference: f64,
    /// The number of the next new cluster.
    pub next_cluster: u64,
    /// The cluster of the latest window.
    pub preceding: Option<u64>,
    /// The bandit's probability and values for each scheduler.
    pub bandit: Vec<(f64, Vec<f64>)>,
    /// The kinds of load.
    pub kinds: Kinds,
    /// The random generator, so that a restored analyser goes on as the saved one would have.
    #[serde(with = "RandomState")]
    pub random: Random,
    pub clusters: Vec<ClusterState>,
}

/// The stored form of a random generator.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Random")]
struct RandomState {
    #[serde(getter = "Random::state")]
    state: u64,
}

impl From<RandomState> for Random {
    fn from(RandomState { state }: RandomState) -> Self {
        Self::new(state)
    }
}

/// The parameters that decide whether two clusters can be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Made {
    /// Nanoseconds of a window.
    pub t: u64,
    /// Buckets.
    pub x: u64,
    /// Band in percent, 0 for FastDTW.
    pub band: u64,
    /// FastDTW's radius.
    pub radius: u64,
}

impl Made {
    pub(crate) const fn by(parameters: &Parameters) -> Self {
        let Parameters { t, x, band, radius, .. } = *parameters;
        Self { t: t.as_nanos(), x, band, radius }
    }

    fn parameters(self) -> Parameters {
        let Self { t, x, band, radius } = self;
        Parameters { t: Span::from_nanos(t), x, band, radius, ..Parameters::default() }
    }

    /// Each parameter in which these windows differ from the `requested` ones, in words.
    pub(crate) fn differences(self, requested: Self) -> Vec<String> {
        let (saved, requested) = (self.parameters(), requested.parameters());
        let differs = |&(name, what, unit): &(&str, &str, &str)| {
            let (saved, requested) = (saved.get(name)?, requested.get(name)?);
            (saved != requested)
                .then(|| format!("{what} ({name}) was {saved}{unit} and is {requested}{unit} now"))
        };
        WORDS.iter().filter_map(differs).collect()
    }
}

/// The parameters of [`Made`] with a description and the unit of their values.
const WORDS: [(&str, &str, &str); 4] = [
    ("t", "the length of a window", ""),
    ("x", "the number of points of a window", " buckets"),
    ("band", "the band of exact warping", ""),
    ("radius", "FastDTW's radius", " points"),
];

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClusterState {
    /// Its number, which is never reused.
    pub id: u64,
    /// Requests in the window that made it.
    pub requests: u64,
    /// Sector jumps.
    #[serde(serialize_with = "integers")]
    pub points: Vec<f64>,
    /// Windows that hit it.
    pub hits: u64,
    /// The number of the latest window that hit it; the least is evicted first.
    pub used: u64,
    /// For each scheduler its latest values, oldest first, and the hit count at the latest.
    pub performance: Vec<(Vec<f64>, u64)>,
    /// The clusters that followed, and how often.
    pub successors: Vec<(u64, u64)>,
}

/// Jumps are whole numbers of sectors, which take fewer characters than floats.
fn integers<S: serde::Serializer>(points: &[f64], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(points.iter().map(|&point| point as i64))
}

impl ClusterState {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        Self {
            id: cluster.id.0,
            requests: cluster.cinfo.requests,
            points: cluster.cinfo.points.clone(),
            hits: cluster.hits,
            used: cluster.used,
            performance: cluster
                .performance
                .iter()
                .map(|values| (values.iter().collect(), values.at_hit()))
                .collect(),
            successors: cluster.successors.iter().map(|next| (next.cluster.0, next.count)).collect(),
        }
    }

    /// `from[s]` is the index of scheduler `s` in the saved lists.
    pub(crate) fn restored(self, from: &[Option<usize>]) -> Cluster {
        let values = |(latest, at_hit)| Values::restored(latest, at_hit);
        let successor = |&(id, count): &(u64, u64)| Successor { cluster: ClusterId(id), count };
        Cluster {
            id: ClusterId(self.id),
            performance: carried_over(&self.performance, from).into_iter().map(values).collect(),
            successors: self.successors.iter().map(successor).collect(),
            cinfo: CInfo { requests: self.requests, points: self.points },
            hits: self.hits,
            used: self.used,
        }
    }

    pub(crate) fn check(&self, x: u64) -> Result<(), String> {
        if x > 0 && self.points.len() as u64 != x {
            return Err(format!("cluster {} has {} points, not {x}", self.id, self.points.len()));
        }
        let followed = self.successors.iter().map(|&(_, times)| times);
        if let Some(count) = followed.chain([self.id, self.hits, self.used]).find(|&count| count > COUNT_MAX)
        {
            return Err(format!("cluster {} holds a count of {count}", self.id));
        }
        let values = self.performance.iter().flat_map(|(values, _)| values);
        if !self.points.iter().chain(values).all(|number| number.is_finite()) {
            return Err(format!("cluster {} holds a number that is not finite", self.id));
        }
        Ok(())
    }
}

/// The knowledge about schedulers that are not among the present ones; saved with the rest.
#[derive(Default)]
pub(crate) struct Absent {
    schedulers: Vec<String>,
    bandit: Vec<(f64, Vec<f64>)>,
    kinds: Kinds,
    /// By the clusters' numbers.
    performance: HashMap<u64, Vec<(Vec<f64>, u64)>>,
}

impl Absent {
    /// The saved knowledge about schedulers that are not `present`.
    pub(crate) fn of(state: &State, present: &[String]) -> Self {
        let from = places_beside(present, &state.schedulers);
        if from.is_empty() {
            return Self::default();
        }
        let of = |cluster: &ClusterState| (cluster.id, carried_over(&cluster.performance, &from));
        Self {
            schedulers: carried_over(&state.schedulers, &from),
            bandit: carried_over(&state.bandit, &from),
            kinds: state.kinds.clone().restored(&from),
            performance: state.clusters.iter().map(of).collect(),
        }
    }

    /// Adds the knowledge to a state, except for a scheduler whose name an open arm has taken since.
    pub(crate) fn put_beside(&self, state: &mut State) {
        let from = places_beside(&state.schedulers, &self.schedulers);
        state.schedulers.extend(carried_over(&self.schedulers, &from));
        state.bandit.extend(carried_over(&self.bandit, &from));
        state.kinds.put_beside(self.kinds.clone().restored(&from));
        for cluster in &mut state.clusters {
            let saved = self.performance.get(&cluster.id).map_or(&[][..], Vec::as_slice);
            cluster.performance.extend(carried_over(saved, &from));
        }
    }
}

/// The indexes in `all` of the names that are not in `present`.
fn places_beside(present: &[String], all: &[String]) -> Vec<Option<usize>> {
    (0..all.len()).filter(|&place| !present.contains(&all[place])).map(Some).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_has_the_points_of_its_windows_and_counts_within_range() {
        let cluster = ClusterState {
            id: COUNT_MAX,
            requests: 10,
            points: vec![0.0; 100],
            hits: COUNT_MAX,
            used: COUNT_MAX,
            performance: vec![(vec![1.0], 1)],
            successors: vec![(1, COUNT_MAX)],
        };
        assert_eq!(cluster.check(100), Ok(()));
        assert_eq!(cluster.check(0), Ok(()), "without buckets, a point per request");
        assert!(cluster.check(99).unwrap_err().contains("100 points, not 99"));
        let broken = [
            ClusterState { id: COUNT_MAX + 1, ..cluster.clone() },
            ClusterState { hits: COUNT_MAX + 1, ..cluster.clone() },
            ClusterState { used: COUNT_MAX + 1, ..cluster.clone() },
            ClusterState { successors: vec![(1, COUNT_MAX + 1)], ..cluster.clone() },
            ClusterState { performance: vec![(vec![f64::NAN], 1)], ..cluster.clone() },
        ];
        assert!(broken.iter().all(|cluster| cluster.check(100).is_err()));
    }

    #[test]
    fn only_parameters_that_differ_are_named() {
        let made = Made::by(&Parameters::default());
        assert_eq!(made.differences(made), Vec::<String>::new());
        let other = Made { radius: made.radius + 1, ..made };
        assert_eq!(made.differences(other), ["FastDTW's radius (radius) was 1 points and is 2 points now"]);
    }
}
