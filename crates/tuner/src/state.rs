//! [`State`]: what was learned, as plain data for a file or another machine.

use std::collections::HashMap;

use elevator::Span;
use ioanalyzer::{
    Bandit, CInfo, Cluster, ClusterId, IoAnalyzer, Metric, Parameters, Random, Store, Successor, Values,
};

use serde::{Deserialize, Serialize};

use crate::analyser::Analyser;
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
    pub random: Random,
    /// The clusters.
    pub clusters: Vec<ClusterState>,
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
    const fn by(parameters: &Parameters) -> Self {
        let Parameters { t, x, band, radius, .. } = *parameters;
        Self { t: t.as_nanos(), x, band, radius }
    }

    fn parameters(self) -> Parameters {
        let Self { t, x, band, radius } = self;
        Parameters { t: Span::from_nanos(t), x, band, radius, ..Parameters::default() }
    }

    /// Each parameter in which the windows `asked` for differ from these, in words.
    fn differences(self, asked: Self) -> Vec<String> {
        let (saved, asked) = (self.parameters(), asked.parameters());
        let differs = |&(name, what, unit): &(&str, &str, &str)| {
            let (saved, asked) = (saved.get(name)?, asked.get(name)?);
            (saved != asked).then(|| format!("{what} ({name}) was {saved}{unit} and is {asked}{unit} now"))
        };
        WORDS.iter().filter_map(differs).collect()
    }
}

/// The parameters of [`Made`] with a description and the unit of their values.
const WORDS: [(&str, &str, &str); 4] = [
    ("t", "the length of a window", ""),
    ("x", "what a window is reduced to", " buckets"),
    ("band", "the band of exact warping", ""),
    ("radius", "FastDTW's radius", " points"),
];

/// One cluster.
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
    fn of(cluster: &Cluster) -> Self {
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
    fn restored(self, from: &[Option<usize>]) -> Cluster {
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

    fn check(&self, x: u64) -> Result<(), String> {
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

/// The knowledge about schedulers that are not among the present ones, kept to be saved with the rest.
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
    fn of(state: &State, present: &[String]) -> Self {
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

    /// Adds it to a state, except for a scheduler whose name an open arm has got since.
    fn put_beside(&self, state: &mut State) {
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

/// The indexes in `all` of those that are not `present`.
fn places_beside(present: &[String], all: &[String]) -> Vec<Option<usize>> {
    (0..all.len()).filter(|&place| !present.contains(&all[place])).map(Some).collect()
}

impl Analyser {
    /// Everything that was learned, also about restored schedulers that are not chosen from. The bound on regret, the device's table and a search's
    /// optimisers are not part of it.
    #[must_use]
    pub fn state(&self) -> State {
        let mut state = self.of_present();
        self.absent.put_beside(&mut state);
        state
    }

    fn of_present(&self) -> State {
        let values = self.bandit().performance().iter().map(|values| values.iter().collect());
        State {
            version: VERSION,
            schedulers: self.schedulers.clone(),
            metric: self.metric,
            made: Made::by(&self.parameters),
            maxdifference: self.store().maxdifference(),
            next_cluster: self.store().next_id(),
            preceding: self.ioanalyzer.preceding().map(|id| id.0),
            bandit: self.bandit().probabilities().iter().copied().zip(values).collect(),
            kinds: self.kinds.clone(),
            random: self.random,
            clusters: self.store().clusters().iter().map(ClusterState::of).collect(),
        }
    }

    /// Replaces what was learned. Schedulers are matched by name: knowledge about others is kept for [`state`](Self::state), and schedulers without
    /// knowledge count as untested. Clusters beyond the parameter `clusters` are dropped, the least recently used first. Rejected arms are forgotten.
    ///
    /// # Errors
    /// It has another version or metric, its clusters cannot be compared with this analyser's windows, or it is damaged. Then nothing changes.
    pub fn restore(&mut self, mut state: State) -> Result<(), String> {
        self.check(&state)?;
        if let Some(search) = &mut self.search {
            search.adopt(&state.schedulers);
            let names: Vec<String> = search.names().collect();
            let plain = self.schedulers.len() - names.len();
            self.schedulers.splice(plain.., names);
        }
        let place = |name: &String| state.schedulers.iter().position(|saved| saved == name);
        let from: Vec<Option<usize>> = self.schedulers.iter().map(place).collect();
        state.clusters.sort_by_key(|cluster| core::cmp::Reverse(cluster.used));
        state.clusters.truncate(self.parameters.clusters as usize);
        self.absent = Absent::of(&state, &self.schedulers);
        let mut store = Store::new(self.parameters, self.schedulers.len());
        let kept: std::collections::HashSet<u64> = state.clusters.iter().map(|cluster| cluster.id).collect();
        for mut cluster in state.clusters {
            cluster.successors.retain(|(id, count)| kept.contains(id) && *count > 0);
            store.push(cluster.restored(&from));
        }
        store.reserve_ids_below(state.next_cluster);
        store.grow_maxdifference(state.maxdifference);
        let bandit = restored_bandit(&state.bandit, &from);
        let preceding = state.preceding.map(ClusterId);
        self.ioanalyzer = IoAnalyzer::restored(self.parameters, store, bandit, preceding);
        self.kinds = state.kinds.restored(&from);
        self.random = state.random;
        self.forget_latest();
        Ok(())
    }

    fn check(&self, state: &State) -> Result<(), String> {
        if state.version != VERSION {
            return Err(format!(
                "the saved state has version {}, this program reads {VERSION}",
                state.version
            ));
        }
        if state.metric != self.metric {
            return Err(format!("what was learned is of {:?} and not of {:?}", state.metric, self.metric));
        }
        let made = Made::by(&self.parameters);
        if state.made != made {
            let differences = state.made.differences(made);
            return Err(format!("what was learned cannot be compared: {}", differences.join(", and ")));
        }
        if !state.maxdifference.is_finite() || state.maxdifference < 0.0 {
            return Err(format!("maxdifference is {}", state.maxdifference));
        }
        if state.next_cluster > COUNT_MAX {
            return Err(format!("the next cluster would be {}", state.next_cluster));
        }
        if !state.bandit.iter().flat_map(|(_, values)| values).all(|value| value.is_finite()) {
            return Err("the bandit holds a number that is not finite".to_string());
        }
        state.kinds.check()?;
        let mut ids = std::collections::HashSet::new();
        if let Some(twice) = state.clusters.iter().find(|cluster| !ids.insert(cluster.id)) {
            return Err(format!("cluster {} is there twice", twice.id));
        }
        state.clusters.iter().try_for_each(|cluster| cluster.check(made.x))
    }
}

fn restored_bandit(saved: &[(f64, Vec<f64>)], from: &[Option<usize>]) -> Bandit {
    let equal = 1.0 / from.len() as f64;
    let saved = |place: &Option<usize>| {
        place.and_then(|index| saved.get(index).cloned()).unwrap_or((equal, Vec::new()))
    };
    let (probabilities, values): (Vec<f64>, Vec<Vec<f64>>) = from.iter().map(saved).unzip();
    Bandit::restored(&probabilities, values.into_iter().map(|latest| Values::restored(latest, 0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_with_other_parameters_is_rejected_with_a_reason() {
        let analyser = |parameters| {
            Analyser::new(vec!["one".to_string()], Metric::Iops, parameters, Random::seeded(1)).unwrap()
        };
        let parameters = Parameters::default();
        let learned = analyser(Parameters { t: Span::from_secs(1), ..parameters }).state();
        assert_eq!(
            analyser(parameters).restore(learned.clone()).unwrap_err(),
            "what was learned cannot be compared: the length of a window (t) was 1 s and is 5 s now"
        );
        let other = Parameters { x: 500, band: 10, radius: 2, ..parameters };
        let message = analyser(other).restore(learned).unwrap_err();
        for part in [
            "(t) was 1 s and is 5 s now, and ",
            "(x) was 1000 buckets and is 500 buckets now",
            "(band) was 0% and is 10% now",
            "(radius) was 1 points and is 2 points now",
        ] {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_damaged_state_is_rejected_without_any_change() {
        let names = || vec!["one".to_string(), "other".to_string()];
        let analyser =
            || Analyser::new(names(), Metric::Iops, Parameters::default(), Random::seeded(1)).unwrap();
        let cluster = ClusterState {
            id: 7,
            requests: 10,
            points: vec![0.0; 1000],
            hits: 1,
            used: 1,
            performance: Vec::new(),
            successors: Vec::new(),
        };
        let sound = State { clusters: vec![cluster.clone()], ..analyser().state() };
        assert_eq!(analyser().restore(sound.clone()), Ok(()));
        let huge = u64::MAX;
        let damaged = [
            ClusterState { id: huge, ..cluster.clone() },
            ClusterState { used: huge, ..cluster.clone() },
            ClusterState { hits: huge, ..cluster.clone() },
            ClusterState { successors: vec![(7, huge), (7, huge)], ..cluster },
        ];
        let with = |cluster| State { clusters: vec![cluster], ..sound.clone() };
        let states = damaged.into_iter().map(with).chain([
            State { next_cluster: huge, ..sound.clone() },
            State { bandit: vec![(0.5, vec![f64::INFINITY]); 2], ..sound.clone() },
        ]);
        for state in states {
            let mut analyser = analyser();
            let before = analyser.state();
            assert!(analyser.restore(state.clone()).is_err(), "{state:?}");
            assert_eq!(analyser.state(), before);
        }
    }
}
