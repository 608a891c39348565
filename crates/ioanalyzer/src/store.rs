//! The stored clusters: search, insertion, eviction of the least recently used.

use std::collections::HashMap;

use crate::cluster::{Cluster, ClusterId, Values};
use crate::dtw::LANES;
use crate::dtw::band::{BandedDtw, Sixteen};
use crate::dtw::fast::FastDtw;
use crate::dtw::nearest::{Nearest, nearest_banded, nearest_fast};
use crate::parameters::Parameters;
use crate::reduction::CInfo;

/// The nearest cluster of a window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Match {
    pub cluster: ClusterId,
    /// 1 - distance/maxdifference: 1 is equal.
    pub similarity: f64,
    /// The distance, in sectors summed over the warping path.
    pub distance: f64,
}

/// All clusters.
pub struct Store {
    parameters: Parameters,
    schedulers: usize,
    clusters: Vec<Cluster>,
    slots: HashMap<ClusterId, usize>,
    /// The points in single precision in batches of sixteen, for exact warping: slot `s` is lane `s % 16` of batch `s / 16`.
    batches: Vec<Sixteen>,
    fast: FastDtw,
    /// "continuously increased as we cannot know the max difference between clusters of a system" (III-D, footnote 4).
    maxdifference: f64,
    next_id: u64,
    window: u64,
}

impl Store {
    /// An empty store; `schedulers` is the number of candidates.
    pub fn new(parameters: Parameters, schedulers: usize) -> Self {
        Self {
            parameters,
            schedulers,
            clusters: Vec::new(),
            slots: HashMap::new(),
            batches: Vec::new(),
            fast: FastDtw::new(parameters.radius as usize),
            maxdifference: 0.0,
            next_id: 0,
            window: 0,
        }
    }

    /// All clusters, in no particular order.
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// A cluster by its number, if it is still stored.
    pub fn get(&self, id: ClusterId) -> Option<&Cluster> {
        self.clusters.get(*self.slots.get(&id)?)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, id: ClusterId) -> Option<&mut Cluster> {
        self.clusters.get_mut(*self.slots.get(&id)?)
    }

    /// The greatest distance so far.
    pub const fn maxdifference(&self) -> f64 {
        self.maxdifference
    }

    /// The nearest of the clusters with a similar number of requests: "we select always the cluster with minor differences".
    ///
    /// maxdifference grows before the division, so that the first two windows are not similar unless they are equal.
    pub fn nearest(&mut self, cinfo: &CInfo) -> Option<Match> {
        let nearest = match self.parameters.band_width() {
            None => self.nearest_fast(cinfo),
            Some(width) => self.nearest_banded(cinfo, width),
        }?;
        self.maxdifference = self.maxdifference.max(nearest.farthest);
        let apart = if nearest.distance == 0.0 { 0.0 } else { nearest.distance / self.maxdifference };
        let cluster = self.clusters[nearest.index].id;
        Some(Match { cluster, similarity: 1.0 - apart, distance: nearest.distance })
    }

    /// Whether a match is a hit.
    pub fn is_hit(&self, found: &Match) -> bool {
        found.similarity >= self.parameters.similarity as f64 / 100.0
    }

    /// The slots of the clusters that `cinfo` is compared with.
    fn candidates(&self, cinfo: &CInfo) -> Vec<usize> {
        let similar = |cluster: &Cluster| cinfo.has_similar_iops(&cluster.cinfo, self.parameters.iops_within);
        (0..self.clusters.len()).filter(|&slot| similar(&self.clusters[slot])).collect()
    }

    fn nearest_fast(&mut self, cinfo: &CInfo) -> Option<Nearest> {
        let slots = self.candidates(cinfo);
        let stored: Vec<&[f64]> = slots.iter().map(|&slot| &self.clusters[slot].cinfo.points[..]).collect();
        nearest_fast(&mut self.fast, &cinfo.points, &stored)
            .map(|nearest| Nearest { index: slots[nearest.index], ..nearest })
    }

    fn nearest_banded(&mut self, cinfo: &CInfo, width: usize) -> Option<Nearest> {
        let query = single(&cinfo.points);
        let mut banded = BandedDtw::new(width);
        let slots = self.candidates(cinfo);
        if slots.len() * 2 > self.clusters.len() {
            let wanted = |slot: usize| slots.binary_search(&slot).is_ok();
            return nearest_banded(&mut banded, &query, &self.batches, wanted);
        }
        // Few candidates are copied into batches of their own; otherwise most lanes would be computed without need.
        let singles: Vec<Vec<f32>> =
            slots.iter().map(|&slot| single(&self.clusters[slot].cinfo.points)).collect();
        let rows: Vec<&[f32]> = singles.iter().map(Vec::as_slice).collect();
        let batches: Vec<Sixteen> = rows.chunks(LANES).map(Sixteen::of).collect();
        nearest_banded(&mut banded, &query, &batches, |_| true)
            .map(|nearest| Nearest { index: slots[nearest.index], ..nearest })
    }

    /// Adds a cluster for a window; evicts the least recently used one if there are too many.
    pub fn add(&mut self, cinfo: CInfo) -> ClusterId {
        let id = ClusterId(self.next_id);
        self.next_id += 1;
        let performance = vec![Values::default(); self.schedulers];
        self.window += 1;
        let cluster = Cluster { id, cinfo, hits: 1, used: self.window, performance, successors: Vec::new() };
        if self.clusters.len() as u64 >= self.parameters.clusters {
            self.replace_oldest(cluster);
        } else {
            self.push(cluster);
        }
        id
    }

    /// Counts a hit.
    pub fn hit(&mut self, id: ClusterId) {
        self.window += 1;
        let window = self.window;
        if let Some(cluster) = self.get_mut(id) {
            cluster.hits += 1;
            cluster.used = window;
        }
    }

    /// Adds a cluster that was saved.
    pub fn push(&mut self, cluster: Cluster) {
        let slot = self.clusters.len();
        self.slots.insert(cluster.id, slot);
        self.next_id = self.next_id.max(cluster.id.0 + 1);
        self.window = self.window.max(cluster.used);
        self.lay(slot, &cluster.cinfo);
        self.clusters.push(cluster);
    }

    /// "a mechanism to limit the number of clusters (6000 in our evaluation) in the database and remove the old ones (following
    /// an LRU algorithm)" (III-E). Links to the evicted cluster are removed.
    fn replace_oldest(&mut self, cluster: Cluster) {
        let oldest =
            (0..self.clusters.len()).min_by_key(|&slot| self.clusters[slot].used).expect("a cluster");
        let gone = self.clusters[oldest].id;
        for other in &mut self.clusters {
            other.successors.retain(|successor| successor.cluster != gone);
        }
        self.slots.remove(&gone);
        self.slots.insert(cluster.id, oldest);
        self.lay(oldest, &cluster.cinfo);
        self.clusters[oldest] = cluster;
    }

    /// Stores a cluster's points in the layout of exact warping.
    fn lay(&mut self, slot: usize, cinfo: &CInfo) {
        if self.parameters.band == 0 {
            return;
        }
        let (batch, lane) = (slot / LANES, slot % LANES);
        if batch == self.batches.len() {
            self.batches.push(Sixteen::default());
        }
        self.batches[batch].set(lane, &single(&cinfo.points));
    }

    /// Raises `maxdifference` to a saved value.
    pub fn grow_maxdifference(&mut self, difference: f64) {
        self.maxdifference = self.maxdifference.max(difference);
    }

    /// The number of the next new cluster.
    pub const fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Numbers of new clusters will be at least `id`.
    pub fn reserve_ids_below(&mut self, id: u64) {
        self.next_id = self.next_id.max(id);
    }
}

fn single(points: &[f64]) -> Vec<f32> {
    points.iter().map(|&point| point as f32).collect()
}
