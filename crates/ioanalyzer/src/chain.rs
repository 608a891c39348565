//! The "dynamic pattern probability chain": the expected next clusters.
//!
//! "Once we have a match of a trace in a stored cluster, we store the found cluster id on the preceding cluster. We use this
//! information to create a ranking of the most beneficial schedulers for the next expected workloads. [...] To create this
//! ranking, we define a depth of d clusters and create a dynamic pattern probability chain." (III-A)
//!
//! A link's probability is its share of the cluster's successors, and a chain's the product of its links'. A chain that ends before depth `d` stays
//! at its last cluster, because nothing else is known.

use std::collections::BTreeMap;

use crate::cluster::ClusterId;
use crate::store::Store;

/// The greatest number of clusters followed at each step; the rest is scaled up. Bounds a step of a random workload, in which any cluster may follow.
const MOST_FOLLOWED: usize = 16;

/// An expected cluster.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Expected {
    pub cluster: ClusterId,
    /// Its expected share of the next `d` windows, 0 to 1.
    pub weight: f64,
    /// The probability that it is the next window.
    pub next: f64,
}

/// The clusters expected in the `d` windows after `from`, the most probable next one first. Without successors, `from` itself: "expecting that
/// the next cluster would be similar to the current one" (III-E).
pub fn expected(store: &Store, from: ClusterId, d: u64) -> Vec<Expected> {
    let mut weights: BTreeMap<ClusterId, (f64, f64)> = BTreeMap::new();
    let mut step = vec![(from, 1.0)];
    for depth in 0..d {
        step = followers(store, &step);
        for &(cluster, probability) in &step {
            let (weight, next) = weights.entry(cluster).or_default();
            *weight += probability / d as f64;
            *next += if depth == 0 { probability } else { 0.0 };
        }
    }
    let mut expected: Vec<Expected> =
        weights.into_iter().map(|(cluster, (weight, next))| Expected { cluster, weight, next }).collect();
    expected.sort_by(|a, b| b.next.total_cmp(&a.next).then(b.weight.total_cmp(&a.weight)));
    expected
}

fn followers(store: &Store, step: &[(ClusterId, f64)]) -> Vec<(ClusterId, f64)> {
    let mut next: BTreeMap<ClusterId, f64> = BTreeMap::new();
    for &(from, probability) in step {
        let successors = store.get(from).map_or(&[][..], |cluster| &cluster.successors);
        let total: u64 = successors.iter().map(|successor| successor.count).sum();
        if total == 0 {
            *next.entry(from).or_default() += probability;
        }
        for successor in successors {
            *next.entry(successor.cluster).or_default() +=
                probability * successor.count as f64 / total as f64;
        }
    }
    let mut next: Vec<(ClusterId, f64)> = next.into_iter().collect();
    next.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    next.truncate(MOST_FOLLOWED);
    let kept: f64 = next.iter().map(|&(_, probability)| probability).sum();
    next.iter().map(|&(cluster, probability)| (cluster, probability / kept)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Parameters;
    use crate::reduction::CInfo;

    fn store(clusters: u64, links: &[(u64, u64)]) -> Store {
        let mut store = Store::new(Parameters::default(), 2);
        for _ in 0..clusters {
            store.add(CInfo { requests: 100, points: vec![0.0] });
        }
        for &(from, to) in links {
            store.get_mut(ClusterId(from)).unwrap().followed_by(ClusterId(to));
        }
        store
    }

    #[test]
    fn chains_multiply_their_links() {
        // 1 follows 0 three times of four, otherwise 2 does; 0 always follows 1; 2 has no successor yet.
        let store = store(3, &[(0, 1), (0, 1), (0, 1), (0, 2), (1, 0)]);
        let expected = expected(&store, ClusterId(0), 2);
        let rows: Vec<_> = expected.iter().map(|e| (e.cluster.0, e.weight, e.next)).collect();
        assert_eq!(rows, [(1, 0.375, 0.75), (2, 0.25, 0.25), (0, 0.375, 0.0)]);
    }

    #[test]
    fn without_successors_a_cluster_is_expected_again() {
        let rows = expected(&store(1, &[]), ClusterId(0), 2);
        assert_eq!(rows, [Expected { cluster: ClusterId(0), weight: 1.0, next: 1.0 }]);
    }

    #[test]
    fn a_random_workload_has_a_bounded_step() {
        let links: Vec<(u64, u64)> = (1..200).map(|to| (0, to)).collect();
        let expected = expected(&store(200, &links), ClusterId(0), 1);
        assert_eq!(expected.len(), MOST_FOLLOWED);
        assert!((expected.iter().map(|e| e.weight).sum::<f64>() - 1.0).abs() < 1e-12);
    }
}
