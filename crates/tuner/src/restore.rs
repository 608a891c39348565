//! Saves an analyser as a [`State`], and restores it from one.

use std::collections::HashSet;

use ioanalyzer::{Bandit, ClusterId, IoAnalyzer, Store, Values};

use crate::analyser::Analyser;
use crate::decider::Learned;
use crate::saved::COUNT_MAX;
use crate::state::{Absent, ClusterState, Made, State, VERSION};

impl Analyser {
    /// The analyser's knowledge, also about restored schedulers that are not chosen from. The device's table is not part of it.
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
            preceding: self.learned.ioanalyzer.preceding().map(|id| id.0),
            bandit: self.bandit().probabilities().iter().copied().zip(values).collect(),
            kinds: self.learned.kinds.clone(),
            random: self.random,
            clusters: self.store().clusters().iter().map(ClusterState::of).collect(),
        }
    }

    /// Replaces the knowledge. Schedulers are matched by name: knowledge about others is kept for [`state`](Self::state), and schedulers without
    /// knowledge count as untested. Clusters beyond the parameter `clusters` are dropped, the least recently used first. Rejected arms are forgotten.
    ///
    /// # Errors
    /// The state has another version or metric, its clusters cannot be compared with this analyser's windows, or it is damaged. Then nothing changes.
    pub fn restore(&mut self, mut state: State) -> Result<(), String> {
        self.check(&state)?;
        let place = |name: &String| state.schedulers.iter().position(|saved| saved == name);
        let from: Vec<Option<usize>> = self.schedulers.iter().map(place).collect();
        state.clusters.sort_by_key(|cluster| core::cmp::Reverse(cluster.used));
        state.clusters.truncate(self.parameters.clusters as usize);
        self.absent = Absent::of(&state, &self.schedulers);
        let mut store = Store::new(self.parameters, self.schedulers.len());
        let kept: HashSet<u64> = state.clusters.iter().map(|cluster| cluster.id).collect();
        for mut cluster in state.clusters {
            cluster.successors.retain(|(id, count)| kept.contains(id) && *count > 0);
            store.push(cluster.restored(&from));
        }
        store.reserve_ids_below(state.next_cluster);
        store.grow_maxdifference(state.maxdifference);
        let bandit = restored_bandit(&state.bandit, &from);
        let preceding = state.preceding.map(ClusterId);
        self.learned = Learned {
            kinds: state.kinds.restored(&from),
            ioanalyzer: IoAnalyzer::restored(self.parameters, store, bandit, preceding),
        };
        self.random = state.random;
        // They belong to the history before.
        self.ran = None;
        self.rejected.clear();
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
            return Err(format!(
                "the learned values are of the metric {:?}, not {:?}",
                state.metric, self.metric
            ));
        }
        let made = Made::by(&self.parameters);
        if state.made != made {
            let differences = state.made.differences(made);
            return Err(format!("the learned state cannot be used: {}", differences.join(", and ")));
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
        let mut ids = HashSet::new();
        if let Some(twice) = state.clusters.iter().find(|cluster| !ids.insert(cluster.id)) {
            return Err(format!("cluster {} occurs twice", twice.id));
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
    use elevator::Random;
    use elevator::Span;
    use ioanalyzer::Parameters;
    use observation::Metric;

    use super::*;

    fn analyser(parameters: Parameters) -> Analyser {
        Analyser::new(vec!["one".to_string()], Metric::Iops, parameters, Random::new(1)).unwrap()
    }

    fn cluster(id: u64, used: u64, successors: Vec<(u64, u64)>) -> ClusterState {
        let (points, performance) = (vec![0.0; 1000], Vec::new());
        ClusterState { id, requests: 10, points, hits: 1, used, performance, successors }
    }

    #[test]
    fn state_with_other_parameters_is_rejected_with_a_reason() {
        let parameters = Parameters::default();
        let learned = analyser(Parameters { t: Span::from_secs(1), ..parameters }).state();
        assert_eq!(
            analyser(parameters).restore(learned.clone()).unwrap_err(),
            "the learned state cannot be used: the length of a window (t) was 1 s and is 5 s now"
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
        let analyser = || {
            let names = vec!["one".to_string(), "other".to_string()];
            Analyser::new(names, Metric::Iops, Parameters::default(), Random::new(1)).unwrap()
        };
        let cluster = cluster(7, 1, Vec::new());
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

    #[test]
    fn counts_at_the_limit_are_restored_and_successors_without_cluster_or_count_are_dropped() {
        let new = || analyser(Parameters::default());
        let clusters = vec![cluster(7, 7, vec![(8, 0), (9, 3), (8, 2)]), cluster(8, 8, vec![(7, 1)])];
        let state = State { clusters, next_cluster: COUNT_MAX, maxdifference: 0.0, ..new().state() };
        let mut analyser = new();
        assert_eq!(analyser.restore(state.clone()), Ok(()));
        let restored = analyser.state();
        let successors = |id| restored.clusters.iter().find(|of| of.id == id).unwrap().successors.clone();
        assert_eq!((successors(7), successors(8)), (vec![(8, 2)], vec![(7, 1)]));
        assert!(new().restore(State { next_cluster: COUNT_MAX + 1, ..state.clone() }).is_err());
        assert!(new().restore(State { maxdifference: -1.0, ..state }).is_err());
    }

    #[test]
    fn the_least_recently_used_clusters_are_dropped_beyond_the_parameter() {
        let parameters = Parameters { clusters: 2, ..Parameters::default() };
        let mut analyser = analyser(parameters);
        let clusters = [(1, 5), (2, 1), (3, 9)].map(|(id, used)| cluster(id, used, Vec::new()));
        let state = State { clusters: clusters.to_vec(), ..analyser.state() };
        analyser.restore(state).unwrap();
        let mut ids: Vec<u64> = analyser.state().clusters.iter().map(|of| of.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 3]);
    }
}
