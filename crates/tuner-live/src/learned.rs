//! Edits of what was learned: merging two clusters, forgetting one.

use tuner::State;

/// Merges cluster `other` into `into`: hits, values of the metric, and links in both directions.
///
/// # Errors
/// One of them does not exist, or both are the same.
pub fn merge(state: &mut State, into: u64, other: u64) -> Result<(), String> {
    if into == other {
        return Err(format!("cluster {into} cannot be merged with itself"));
    }
    place(state, into)?;
    let gone = state.clusters.remove(place(state, other)?);
    let at = place(state, into)?;
    let kept = &mut state.clusters[at];
    let hits = kept.hits + gone.hits;
    for ((mine, at_hit), (theirs, their_hit)) in kept.performance.iter_mut().zip(gone.performance) {
        // The later of the two values keeps its age in hits.
        let ages = [(&*mine, kept.hits, *at_hit), (&theirs, gone.hits, their_hit)];
        let ages = ages.into_iter().filter(|(values, ..)| !values.is_empty());
        let age = ages.map(|(_, hits, at)| hits.saturating_sub(at)).min();
        *at_hit = hits - age.unwrap_or(hits);
        // The values of `other` count as older. The parameter `values` limits them when the next one is added.
        mine.splice(..0, theirs);
    }
    (kept.hits, kept.used) = (hits, kept.used.max(gone.used));
    for (next, count) in gone.successors {
        link(&mut kept.successors, next, count);
    }
    for cluster in &mut state.clusters {
        if let Some(at) = cluster.successors.iter().position(|(next, _)| *next == other) {
            let (_, count) = cluster.successors.remove(at);
            link(&mut cluster.successors, into, count);
        }
    }
    if state.preceding == Some(other) {
        state.preceding = Some(into);
    }
    Ok(())
}

/// Removes a cluster and all links to it.
pub fn forget(state: &mut State, cluster: u64) -> Result<(), String> {
    state.clusters.remove(place(state, cluster)?);
    for other in &mut state.clusters {
        other.successors.retain(|(next, _)| *next != cluster);
    }
    if state.preceding == Some(cluster) {
        state.preceding = None;
    }
    Ok(())
}

fn place(state: &State, cluster: u64) -> Result<usize, String> {
    let place = state.clusters.iter().position(|other| other.id == cluster);
    place.ok_or_else(|| format!("no cluster {cluster}; 'dwell patterns list' shows all"))
}

fn link(links: &mut Vec<(u64, u64)>, next: u64, count: u64) {
    match links.iter_mut().find(|(known, _)| *known == next) {
        Some((_, known)) => *known += count,
        None => links.push((next, count)),
    }
}

#[cfg(test)]
mod tests {
    use tuner::{Analyser, ClusterState, Metric, Parameters, Random};

    use super::*;

    fn state() -> State {
        let names = ["none", "bfq"].map(str::to_owned).to_vec();
        let analyser =
            Analyser::new(names, Metric::Bandwidth, Parameters::default(), Random::new(1)).unwrap();
        let cluster = |id: u64, successors: &[(u64, u64)]| ClusterState {
            id,
            requests: 100,
            points: vec![id as f64; 1000],
            hits: 10 + id,
            used: id,
            performance: vec![(vec![id as f64], 1), (Vec::new(), 0)],
            successors: successors.to_vec(),
        };
        let clusters =
            vec![cluster(0, &[(1, 2), (2, 1)]), cluster(1, &[(0, 3)]), cluster(2, &[(1, 1), (2, 5)])];
        State { clusters, next_cluster: 3, preceding: Some(1), ..analyser.state() }
    }

    #[test]
    fn merging_joins_hits_values_and_links() {
        let mut state = state();
        merge(&mut state, 2, 1).unwrap();
        let of = |id: u64| state.clusters.iter().find(|cluster| cluster.id == id).unwrap();
        assert_eq!((of(2).hits, of(2).performance[0].0.clone()), (23, vec![1.0, 2.0]));
        assert_eq!(of(2).successors, [(2, 6), (0, 3)]);
        assert_eq!(of(0).successors, [(2, 3)]);
        assert_eq!((state.preceding, state.clusters.len()), (Some(2), 2));
    }

    /// One cluster was just tried under both schedulers, the other not since its first windows.
    #[test]
    fn a_merge_keeps_the_later_trial() {
        for (into, other) in [(0, 1), (1, 0)] {
            let mut state = state();
            for (id, performance) in
                [(0, vec![(vec![3.0], 299), (vec![4.0], 300)]), (1, vec![(vec![1.0], 1), (Vec::new(), 0)])]
            {
                let cluster = state.clusters.iter_mut().find(|cluster| cluster.id == id).unwrap();
                (cluster.hits, cluster.performance) = (300, performance);
            }
            merge(&mut state, into, other).unwrap();
            let merged = state.clusters.iter().find(|cluster| cluster.id == into).unwrap();
            let since = |of: &(Vec<f64>, u64)| merged.hits - of.1;
            assert_eq!(
                merged.performance.iter().map(since).collect::<Vec<_>>(),
                [1, 0],
                "{into} and {other}"
            );
        }
    }

    #[test]
    fn merging_keeps_all_values() {
        let mut state = state();
        state.clusters[1].performance[0].0 = vec![1.0; 50];
        merge(&mut state, 2, 1).unwrap();
        let merged = state.clusters.iter().find(|cluster| cluster.id == 2).unwrap();
        assert_eq!(merged.performance[0].0, [vec![1.0; 50], vec![2.0]].concat());
    }

    #[test]
    fn forgetting_removes_links_and_unknown_clusters_are_errors() {
        let mut state = state();
        forget(&mut state, 1).unwrap();
        assert!(state.clusters.iter().all(|cluster| cluster.successors.iter().all(|(next, _)| *next != 1)));
        assert_eq!(state.preceding, None);
        assert!(forget(&mut state, 1).unwrap_err().contains("no cluster 1"));
        assert!(merge(&mut state, 0, 0).is_err() && merge(&mut state, 0, 9).is_err());
    }
}
