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

use std::collections::HashMap;

use elevator::text::counted;
use observation::Metric;

use crate::kinds::{Shape, are_alike};
use crate::saved::COUNT_MAX;
use crate::state::State;

/// Limit of the pairs that count as a host's weight, so that no host outweighs many others: as many as a rating is the mean of.
const PAIRS_MAX: u64 = 20;
/// Limit of a rating, far above any sum of relative differences, each of which is at most 1. Sums of ratings stay finite.
const RATING_MAX: f64 = 1e6;

/// A scheduler of a [`SharedLoad`].
#[derive(Clone, PartialEq, Debug)]
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
#[derive(Clone, PartialEq, Debug)]
pub struct SharedLoad {
    pub host: String,
    /// The type of the device: its name in the tuner's database.
    pub device: String,
    /// The metric of the ratings.
    pub metric: Metric,
    /// The windows of the kind.
    pub windows: u64,
    /// The shape of these windows.
    pub shape: Shape,
    pub schedulers: Vec<SharedRating>,
}

impl SharedLoad {
    /// Whether both are of the same host, device, metric and kind: a newer export then replaces an older one.
    fn is_same_as(&self, other: &Self) -> bool {
        (&self.host, &self.device, self.metric) == (&other.host, &other.device, other.metric)
            && are_alike(&self.shape, &other.shape)
    }

    /// Checks names and numbers.
    ///
    /// # Errors
    /// The first field that is wrong, with the expected values.
    pub fn check(&self) -> Result<(), String> {
        let names = [("host", &self.host), ("device", &self.device)];
        let schedulers = self.schedulers.iter().map(|of| ("scheduler", &of.scheduler));
        for (field, name) in names.into_iter().chain(schedulers) {
            if name.is_empty() {
                return Err(format!("{field}: is empty"));
            }
            // They would change the terminal that prints the name.
            if name.chars().any(char::is_control) {
                return Err(format!("{field}: {name:?} has control characters"));
            }
        }
        let count = |field: &str, count: u64| {
            let problem = || format!("{field}: {count} is more than {COUNT_MAX}");
            if count <= COUNT_MAX { Ok(()) } else { Err(problem()) }
        };
        count("windows", self.windows)?;
        if !self.shape.is_complete() {
            return Err("shape: expected 48 shares from 0 to 1 with the sum 1".to_owned());
        }
        for of in &self.schedulers {
            count(&format!("pairs of {}", of.scheduler), of.pairs)?;
            count(&format!("windows of {}", of.scheduler), of.windows)?;
            // False for NaN.
            let is_rating = of.rating.abs() <= RATING_MAX;
            if !is_rating {
                let expected = format!("expected -{RATING_MAX} to {RATING_MAX}");
                return Err(format!("rating of {}: {:?}; {expected}", of.scheduler, of.rating));
            }
        }
        Ok(())
    }
}

/// The kinds of load of a type of device and a metric, by what [`Shared::give_to`] did with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Given {
    /// Added to the state.
    pub added: usize,
    /// Left out: the state has such a kind already.
    pub known: usize,
    /// Left out: fewer than two of the state's schedulers have a rating.
    pub unrated: usize,
    /// Left out: the state has the greatest number of kinds.
    pub excess: usize,
}

/// The ratings of several hosts.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Shared {
    /// One entry for each host, type of device, metric and kind of load.
    pub loads: Vec<SharedLoad>,
}

impl Shared {
    /// A host's ratings for a device.
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
        let loads = state.kinds.learned().into_iter().map(load);
        Self { loads: loads.filter(|load| load.shape.is_complete()).collect() }
    }

    /// Adds the entries of other files. Of two entries about the same load of the same host, the one with more windows stays, so that merging a file
    /// twice changes nothing. Returns the hosts of which two entries differ: an older export, or two hosts with one name.
    pub fn merge(&mut self, other: Self) -> Vec<String> {
        let name = |load: &SharedLoad| (load.host.clone(), load.device.clone());
        // A fleet has hundreds of thousands of entries, a host a few.
        let mut of_host: HashMap<_, Vec<usize>> = HashMap::new();
        for (index, load) in self.loads.iter().enumerate() {
            of_host.entry(name(load)).or_default().push(index);
        }
        let mut differing = Vec::new();
        for load in other.loads {
            let known = of_host.entry(name(&load)).or_default();
            let Some(&index) = known.iter().find(|index| self.loads[**index].is_same_as(&load)) else {
                known.push(self.loads.len());
                self.loads.push(load);
                continue;
            };
            let known = &mut self.loads[index];
            if *known != load {
                differing.push(load.host.clone());
            }
            if known.windows < load.windows {
                *known = load;
            }
        }
        differing
    }

    /// The entries about a type of device and a metric.
    pub fn of_device<'a>(&'a self, device: &'a str, metric: Metric) -> impl Iterator<Item = &'a SharedLoad> {
        self.loads.iter().filter(move |load| load.device == device && load.metric == metric)
    }

    /// Adds the kinds of load that the state lacks, for its type of device and metric.
    pub fn give_to(&self, device: &str, state: &mut State) -> Given {
        let mut loads: Vec<&SharedLoad> =
            self.of_device(device, state.metric).filter(|load| load.check().is_ok()).collect();
        loads.sort_by_key(|load| std::cmp::Reverse(load.windows));
        let mut given = Given::default();
        // The first one leaves the list in any case, so that the loop ends.
        while let Some((&first, rest)) = loads.split_first() {
            let is_alike = |load: &&SharedLoad| are_alike(&first.shape, &load.shape);
            let (same, others): (Vec<_>, Vec<_>) = rest.iter().copied().partition(is_alike);
            let alike = [vec![first], same].concat();
            loads = others;
            let ratings = mean(&alike, &state.schedulers);
            state.kinds.expect(&first.shape, &ratings, &mut given);
        }
        given
    }

    /// The content in one line.
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
            counted(distinct(|load| &load.device), "device type"),
            counted(distinct(|load| &load.host), "host")
        )
    }
}

/// The mean rating of each of these schedulers over several hosts for one load, weighted by comparisons, from 1 to [`PAIRS_MAX`]. The origin of ratings differs between hosts:
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

#[cfg(test)]
mod tests {
    use elevator::{Op, Sector, Sectors, Span, Time};
    use observation::{Access, Window};

    use super::*;

    fn load(host: &str, ratings: &[(&str, f64, u64)]) -> SharedLoad {
        let access =
            |n: u64| Access { time: Time::ZERO, position: Sector(n * 8), op: Op::Read, size: Sectors(8) };
        let window =
            Window { start: Time::ZERO, length: Span::from_secs(5), accesses: (0..9).map(access).collect() };
        let rating = |&(scheduler, rating, pairs): &(&str, f64, u64)| SharedRating {
            scheduler: scheduler.to_owned(),
            rating,
            pairs,
            windows: 1,
        };
        SharedLoad {
            host: host.to_owned(),
            device: "disk".to_owned(),
            metric: Metric::Bandwidth,
            windows: 10,
            shape: Shape::of(&window),
            schedulers: ratings.iter().map(rating).collect(),
        }
    }

    fn mean_of(loads: &[SharedLoad]) -> Vec<Option<f64>> {
        let names = ["none", "bfq", "kyber"].map(str::to_owned);
        let rounded = |of: Option<f64>| of.map(|rating| (rating * 1e6).round() / 1e6);
        mean(&loads.iter().collect::<Vec<_>>(), &names).into_iter().map(rounded).collect()
    }

    #[test]
    fn ratings_of_other_hosts_are_shifted_to_the_origin_of_the_first() {
        let one = load("a", &[("none", 0.0, 10), ("bfq", 0.5, 10)]);
        let other = load("b", &[("none", 1.0, 10), ("bfq", 1.5, 10), ("kyber", 0.8, 10)]);
        assert_eq!(mean_of(&[one.clone(), other]), [Some(0.0), Some(0.5), Some(-0.2)]);
        let stranger = load("c", &[("kyber", 0.9, 10)]);
        assert_eq!(mean_of(&[one, stranger]), [Some(0.0), Some(0.5), None], "no common scheduler");
    }

    #[test]
    fn a_host_counts_by_its_pairs_from_one_to_twenty() {
        let of = |pairs| {
            let one = load("a", &[("none", 0.0, 20), ("bfq", 1.0, 20)]);
            let other = load("b", &[("none", 0.0, 20), ("bfq", -1.0, pairs)]);
            mean_of(&[one, other])[1].unwrap() - mean_of(&[load("a", &[("none", 0.0, 20)])])[0].unwrap()
        };
        // The shift is one, the mean difference of the two common schedulers.
        assert_eq!([of(20), of(1000)], [0.5, 0.5]);
        assert_eq!([of(1), of(0)], [(20.0 / 21.0 * 1e6_f64).round() / 1e6; 2]);
    }

    #[test]
    fn numbers_out_of_range_are_not_sound() {
        let sound = load("a", &[("none", 0.0, COUNT_MAX)]);
        assert_eq!(sound.check(), Ok(()));
        let changed = |change: fn(&mut SharedLoad)| {
            let mut load = sound.clone();
            change(&mut load);
            load.check().map_err(|problem| problem.split(':').next().unwrap_or_default().to_owned())
        };
        let wrong = |field: &str| Err(field.to_owned());
        assert_eq!(changed(|load| load.windows = COUNT_MAX), Ok(()));
        assert_eq!(changed(|load| load.windows = COUNT_MAX + 1), wrong("windows"));
        assert_eq!(changed(|load| load.schedulers[0].pairs += 1), wrong("pairs of none"));
        assert_eq!(changed(|load| load.schedulers[0].windows = COUNT_MAX + 1), wrong("windows of none"));
        assert_eq!(changed(|load| load.schedulers[0].rating = f64::NAN), wrong("rating of none"));
        assert_eq!(changed(|load| load.schedulers[0].rating = -1e300), wrong("rating of none"));
        let mut great = sound.clone();
        great.schedulers[0].rating = 1e308;
        assert_eq!(great.check().unwrap_err(), "rating of none: 1e308; expected -1000000 to 1000000");
        assert_eq!(changed(|load| load.shape = shape("[]")), wrong("shape"));
        assert_eq!(changed(|load| load.host.clear()), wrong("host"));
        assert_eq!(changed(|load| load.schedulers[0].scheduler.clear()), wrong("scheduler"));
    }

    /// A shape in JSON.
    fn shape(text: &str) -> Shape {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_load_that_is_not_like_itself_is_not_given() {
        let names = ["none", "bfq"].map(str::to_owned).to_vec();
        let parameters = ioanalyzer::Parameters::default();
        let random = elevator::Random::new(1);
        let mut state = crate::Analyser::new(names, Metric::Bandwidth, parameters, random).unwrap().state();
        let good = load("a", &[("none", 0.0, 10), ("bfq", 0.5, 10)]);
        for first in ["0.0", "-7.0"] {
            let shape = shape(&format!("[{first}{}]", ",0.0".repeat(47)));
            let wrong = SharedLoad { shape, windows: 20, ..good.clone() };
            assert!(!wrong.is_same_as(&wrong));
            assert_eq!(
                Shared { loads: vec![wrong] }.give_to("disk", &mut state),
                Given::default(),
                "{first}"
            );
        }
    }

    #[test]
    fn only_ratings_of_the_metric_and_device_are_given() {
        let shared = Shared { loads: vec![load("a", &[("none", 0.0, 10), ("bfq", 0.5, 10)])] };
        let names = ["none", "bfq"].map(str::to_owned).to_vec();
        let state = |metric| {
            let parameters = ioanalyzer::Parameters::default();
            crate::Analyser::new(names.clone(), metric, parameters, elevator::Random::new(1)).unwrap().state()
        };
        assert_eq!(shared.give_to("disk", &mut state(Metric::Iops)), Given::default());
        assert_eq!(shared.give_to("another", &mut state(Metric::Bandwidth)), Given::default());
        let mut state = state(Metric::Bandwidth);
        assert_eq!(shared.give_to("disk", &mut state), Given { added: 1, ..Given::default() });
        assert_eq!(shared.give_to("disk", &mut state), Given { known: 1, ..Given::default() });
    }

    #[test]
    fn a_load_that_is_left_out_is_counted_by_its_reason() {
        let names = ["none", "bfq"].map(str::to_owned).to_vec();
        let parameters = ioanalyzer::Parameters::default();
        let random = elevator::Random::new(1);
        let mut state = crate::Analyser::new(names, Metric::Bandwidth, parameters, random).unwrap().state();
        let one = Shared { loads: vec![load("a", &[("none", 0.0, 10), ("kyber", 0.5, 10)])] };
        assert_eq!(one.give_to("disk", &mut state), Given { unrated: 1, ..Given::default() });
        // Accesses in three of the 48 classes. No two shapes share more than one class, because all distances between classes differ.
        let of = |first: usize, distances: [usize; 3]| {
            let mut shares = [0.0; 48];
            distances.iter().for_each(|distance| shares[(first + distance) % 48] = 1.0 / 3.0);
            let shape = serde_json::from_str(&serde_json::to_string(&shares.to_vec()).unwrap()).unwrap();
            SharedLoad { shape, ..load("a", &[("none", 0.0, 10), ("bfq", 0.5, 10)]) }
        };
        let many = (0..48).flat_map(|first| [of(first, [0, 1, 3]), of(first, [0, 4, 11])]);
        let many = Shared { loads: many.collect() };
        let given = many.give_to("disk", &mut state);
        assert_eq!(given, Given { added: 64, excess: 32, ..Given::default() });
    }
}
