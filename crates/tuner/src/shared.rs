//! Shares the ratings of schedulers for kinds of load between hosts.
//!
//! # Idea
//! Absolute values depend on the host. The relative difference of two schedulers on one type of device under one kind of load hardly does. Each
//! host exports its ratings with their counts ([`Shared::of`]); files of hosts are merged without loss ([`Shared::merge`]); and a new host begins with
//! the weighted mean of the hosts with its type of device ([`Shared::give_to`]). Such a prior counts as a single trial on the new host: it determines
//! the first scheduler and the order of trials, and the host's own measurements overrule it.
//!
//! # Not for
//! Kinds that the host has measured itself: their ratings stay unchanged.

use elevator::text::counted;
use ioanalyzer::Metric;
use serde::{Deserialize, Serialize};

use crate::kinds::{Shape, are_alike};
use crate::saved::COUNT_MAX;
use crate::state::State;

/// Limit of the pairs that count as a host's weight, so that no host outweighs many others.
const PAIRS_MAX: u64 = 20;

/// A scheduler of a [`SharedLoad`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SharedRating {
    /// Its name.
    pub scheduler: String,
    /// The sum of relative differences to other schedulers; only differences within one load have a meaning.
    pub rating: f64,
    /// The number of comparisons.
    pub pairs: u64,
    /// The windows that it served.
    pub windows: u64,
}

/// One host's ratings for a kind of load on a type of device.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SharedLoad {
    /// The host.
    pub host: String,
    /// The type of the device: its name in the tuner's database.
    pub device: String,
    /// The metric of the ratings.
    pub metric: Metric,
    /// The windows of the kind.
    pub windows: u64,
    /// The shape of these windows.
    pub shape: Shape,
    /// The schedulers.
    pub schedulers: Vec<SharedRating>,
}

impl SharedLoad {
    /// Whether both are of the same host, device, metric and kind: a newer export then replaces an older one.
    fn is_same_as(&self, other: &Self) -> bool {
        (&self.host, &self.device, self.metric) == (&other.host, &other.device, other.metric)
            && are_alike(&self.shape, &other.shape)
    }

    /// Whether all numbers are in range.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let is_sound = |rating: &SharedRating| {
            rating.rating.is_finite() && rating.pairs.max(rating.windows) <= COUNT_MAX
        };
        self.windows <= COUNT_MAX && self.shape.is_sound() && self.schedulers.iter().all(is_sound)
    }
}

/// The ratings of several hosts.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Shared {
    /// One entry for each host, type of device, metric and kind of load.
    pub loads: Vec<SharedLoad>,
}

impl Shared {
    /// A host's ratings for a device.
    #[must_use]
    pub fn of(host: &str, device: &str, state: &State) -> Self {
        let name = |index: usize| state.schedulers.get(index).cloned().unwrap_or_default();
        let load = |(shape, windows, ratings): (Shape, u64, Vec<crate::kinds::Rating>)| SharedLoad {
            host: host.to_owned(),
            device: device.to_owned(),
            metric: state.metric,
            windows,
            shape,
            schedulers: ratings
                .into_iter()
                .map(|of| SharedRating {
                    scheduler: name(of.scheduler),
                    rating: of.rating,
                    pairs: of.pairs,
                    windows: of.windows,
                })
                .collect(),
        };
        Self { loads: state.kinds.learned().into_iter().map(load).collect() }
    }

    /// Adds the entries of another file. Of two entries about the same load of the same host, the one with more windows stays, so that merging a file
    /// twice changes nothing.
    pub fn merge(&mut self, other: Self) {
        for load in other.loads {
            match self.loads.iter_mut().find(|known| known.is_same_as(&load)) {
                Some(known) if known.windows >= load.windows => {}
                Some(known) => *known = load,
                None => self.loads.push(load),
            }
        }
    }

    /// Adds the kinds of load that the state lacks, for its type of device and metric; returns their number.
    pub fn give_to(&self, device: &str, state: &mut State) -> usize {
        let mut loads: Vec<&SharedLoad> = self
            .loads
            .iter()
            .filter(|load| load.device == device && load.metric == state.metric && load.is_sound())
            .collect();
        loads.sort_by_key(|load| std::cmp::Reverse(load.windows));
        let mut added = 0;
        while let Some(&first) = loads.first() {
            let (alike, others) = loads.into_iter().partition(|load| are_alike(&first.shape, &load.shape));
            loads = others;
            let ratings = mean(&alike, &state.schedulers);
            added += usize::from(state.kinds.expect(&first.shape, &ratings));
        }
        added
    }

    /// The content in one line.
    #[must_use]
    pub fn describe(&self) -> String {
        let distinct = |of: fn(&SharedLoad) -> &str| {
            let mut all: Vec<&str> = self.loads.iter().map(of).collect();
            all.sort_unstable();
            all.dedup();
            all.len() as u64
        };
        format!(
            "{} of {} on {}",
            counted(self.loads.len() as u64, "load"),
            counted(distinct(|load| &load.device), "type of device"),
            counted(distinct(|load| &load.host), "host")
        )
    }
}

/// The mean rating of each of these schedulers over several hosts for one load, weighted by comparisons. The origin of ratings differs between hosts:
/// they are shifted so that the common schedulers have the same mean as on the first host.
fn mean(loads: &[&SharedLoad], schedulers: &[String]) -> Vec<Option<f64>> {
    let rating = |load: &SharedLoad, name: &String| {
        load.schedulers.iter().find(|of| of.scheduler == *name).map(|of| (of.rating, of.pairs))
    };
    let mut sums = vec![(0.0, 0.0); schedulers.len()];
    let known = |sums: &[(f64, f64)]| -> Vec<Option<f64>> {
        sums.iter().map(|&(sum, weight)| (weight > 0.0).then(|| sum / weight)).collect()
    };
    for (number, load) in loads.iter().enumerate() {
        let own: Vec<Option<(f64, u64)>> = schedulers.iter().map(|name| rating(load, name)).collect();
        let so_far = known(&sums);
        let common: Vec<f64> =
            so_far.iter().zip(&own).filter_map(|(known, own)| Some((*known)? - (*own)?.0)).collect();
        if number > 0 && common.is_empty() {
            continue;
        }
        let shift = common.iter().sum::<f64>() / common.len().max(1) as f64;
        for (sum, own) in sums.iter_mut().zip(own) {
            if let Some((rating, pairs)) = own {
                let weight = pairs.clamp(1, PAIRS_MAX) as f64;
                *sum = (sum.0 + weight * (rating + shift), sum.1 + weight);
            }
        }
    }
    known(&sums)
}
