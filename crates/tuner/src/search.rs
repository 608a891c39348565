//! A search of schedulers' settings with further arms.
//!
//! # Idea
//! "Finally, each I/O scheduler has a big number of parameters, and they can affect performance. [...] However, expanding the parameter space,
//! increases the time to test every possible combination" (IOAnalyzer, VII). So not every combination is tried. A few *open* arms each stand for a
//! scheduler with some settings. The decider tries and remembers them like other arms. After measurements, an optimiser (TPE, the crate `tpe`) gets
//! the arm's score, and unless the arm is the best for some load, the optimiser's next proposal takes its place.
//!
//! # Order of decisions
//! 1. At most one open arm gets new settings in five windows.
//! 2. Never the arm in use.
//! 3. An arm that the device rejects; that was tried and is the best for no load; or that was not used for two hundred windows.
//!
//! The score is the gain over the best plain scheduler, averaged over the loads with values for both and weighted with the number of values: a single
//! value depends more on the load than on the settings.

use std::convert::Infallible;

use ioanalyzer::{Better, Random, SchedulerId};
use tpe::TpeOptimizer;
use tpe::density_estimation::DefaultEstimatorBuilder;

use crate::decider::Known;

/// Windows between two proposals.
const EVERY: u64 = 5;
/// Windows since an arm's latest value after which it is scored, because the decider's trial is over.
const TRIED: u64 = 10;
/// Windows without a value after which an arm is replaced.
const PATIENCE: u64 = 200;
/// Scores before the optimiser is used: with fewer it stays near the first one.
const STARTUP: u64 = 6;
/// The least gain over every plain scheduler for which an arm is kept.
const WORTH: f64 = 0.02;

/// A setting and its ordered values; neighbours are expected to perform alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ladder {
    /// Its name, as in an arm's braces.
    pub setting: String,
    pub values: Vec<String>,
}

/// A scheduler and its settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Space {
    /// The plain scheduler's name.
    pub scheduler: String,
    /// The settings.
    pub ladders: Vec<Ladder>,
}

impl Space {
    /// `bfq{slice_idle=0,low_latency=0}`.
    fn name(&self, places: &[usize]) -> String {
        let setting =
            |(ladder, &place): (&Ladder, &usize)| format!("{}={}", ladder.setting, ladder.values[place]);
        let settings: Vec<String> = self.ladders.iter().zip(places).map(setting).collect();
        format!("{}{{{}}}", self.scheduler, settings.join(","))
    }

    /// The indexes of the values in an arm's name, if it belongs to this space.
    fn places(&self, name: &str) -> Option<Vec<usize>> {
        let settings = name.strip_prefix(&self.scheduler)?.strip_prefix('{')?.strip_suffix('}')?;
        let settings: Vec<&str> = settings.split(',').collect();
        let place = |(ladder, setting): (&Ladder, &&str)| {
            let (name, value) = setting.split_once('=')?;
            ladder.values.iter().position(|known| known == value).filter(|_| name == ladder.setting)
        };
        let places: Option<Vec<usize>> = self.ladders.iter().zip(&settings).map(place).collect();
        places.filter(|places| settings.len() == self.ladders.len() && !places.is_empty())
    }
}

/// A space with its optimisers.
struct Searched {
    space: Space,
    optimisers: Vec<TpeOptimizer<DefaultEstimatorBuilder>>,
    /// The number of scores so far.
    scores: u64,
}

impl Searched {
    fn new(space: Space) -> Result<Self, String> {
        if space.ladders.is_empty() {
            return Err(format!("{}: there is nothing to set", space.scheduler));
        }
        let optimiser = |ladder: &Ladder| {
            let range = tpe::range(0.0, ladder.values.len() as f64)
                .map_err(|_| format!("{}: there is no value for '{}'", space.scheduler, ladder.setting))?;
            Ok(TpeOptimizer::new(tpe::parzen_estimator(), range))
        };
        let optimisers = space.ladders.iter().map(optimiser).collect::<Result<_, String>>()?;
        Ok(Self { space, optimisers, scores: 0 })
    }

    fn propose(&mut self, random: &mut Random) -> Option<Vec<usize>> {
        let mut chance = OptimiserRandom(random);
        let place = |(optimiser, ladder): (&mut TpeOptimizer<_>, &Ladder)| {
            let at = optimiser.ask(&mut chance).ok()?;
            Some((at as usize).min(ladder.values.len() - 1))
        };
        self.optimisers.iter_mut().zip(&self.space.ladders).map(place).collect()
    }

    fn draw(&self, random: &mut Random) -> Vec<usize> {
        let place = |ladder: &Ladder| random.below(ladder.values.len() as u64) as usize;
        self.space.ladders.iter().map(place).collect()
    }

    /// Reports an arm's gain to the optimiser, which minimises: as a loss.
    fn report(&mut self, places: &[usize], gain: f64) {
        self.scores += 1;
        for (optimiser, &place) in self.optimisers.iter_mut().zip(places) {
            // The middle of the chosen step. The optimiser rejects only values outside of the range and NaN, so the result is ignored.
            let _ = optimiser.tell(place as f64 + 0.5, -gain);
        }
    }
}

/// A search of one space by measurements that repeat exactly, such as those of a model.
pub struct Optimiser(Searched);

impl Optimiser {
    /// A search of this space.
    ///
    /// # Errors
    /// The space has no setting, or a setting has no values.
    pub fn new(space: Space) -> Result<Self, String> {
        Searched::new(space).map(Self)
    }

    /// The next settings to measure, as indexes of each ladder's values. The first ones are drawn.
    pub fn propose(&mut self, random: &mut Random) -> Vec<usize> {
        let proposed = if self.0.scores < STARTUP { None } else { self.0.propose(random) };
        proposed.unwrap_or_else(|| self.0.draw(random))
    }

    /// Adds a measurement; less is better.
    pub fn report(&mut self, places: &[usize], loss: f64) {
        self.0.report(places, -loss);
    }

    /// Names and values of these settings.
    pub fn settings<'a>(&'a self, places: &'a [usize]) -> impl Iterator<Item = (&'a str, &'a str)> {
        let of = |(ladder, &place): (&'a Ladder, &usize)| (&*ladder.setting, &*ladder.values[place]);
        self.0.space.ladders.iter().zip(places).map(of)
    }
}

/// An open arm.
#[derive(Clone, Debug)]
struct Open {
    space: usize,
    places: Vec<usize>,
    /// The number of values since it got these settings or was judged, and the window of the latest.
    values: usize,
    latest: u64,
    rejected: bool,
}

/// Searches for settings that are better than the defaults.
pub struct Search {
    searched: Vec<Searched>,
    open: Vec<Open>,
    /// The index of the first open arm, after the plain ones.
    first: usize,
    windows: u64,
    proposed_at: u64,
    turn: usize,
}

impl Search {
    /// Searches these spaces with `open` arms after `plain` ones; `random` draws the first settings.
    ///
    /// # Errors
    /// There is nothing to search, or a setting has no values.
    pub fn new(spaces: Vec<Space>, plain: usize, open: usize, random: &mut Random) -> Result<Self, String> {
        if spaces.is_empty() || open == 0 {
            return Err("there is nothing to search".to_string());
        }
        let searched = spaces.into_iter().map(Searched::new).collect::<Result<_, _>>()?;
        let mut search =
            Self { searched, open: Vec::new(), first: plain, windows: 0, proposed_at: 0, turn: 0 };
        for _ in 0..open {
            let fresh = search.fresh(random).ok_or("there are fewer settings than arms to search them")?;
            search.open.push(fresh);
        }
        Ok(search)
    }

    /// The present names of the open arms.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.open.iter().map(|open| self.searched[open.space].space.name(&open.places))
    }

    /// Counts a window with a value under that arm.
    pub(crate) fn measured(&mut self, arm: Option<SchedulerId>) {
        self.windows += 1;
        let open = arm.and_then(|arm| arm.0.checked_sub(self.first)).and_then(|n| self.open.get_mut(n));
        if let Some(open) = open {
            open.values += 1;
            open.latest = self.windows;
        }
    }

    /// The device rejects the arm's settings.
    pub(crate) fn rejected(&mut self, arm: SchedulerId) {
        let open = arm.0.checked_sub(self.first).and_then(|n| self.open.get_mut(n));
        if let Some(open) = open.filter(|open| !open.rejected) {
            open.rejected = true;
            self.searched[open.space].report(&open.places, -1.0);
        }
    }

    /// Restores open arms by their names.
    pub(crate) fn adopt(&mut self, names: &[String]) {
        let known = |name: &String| {
            let of = |(n, searched): (usize, &Searched)| Some((n, searched.space.places(name)?));
            self.searched.iter().enumerate().find_map(of)
        };
        let known: Vec<_> = names.iter().filter_map(known).collect();
        for (n, (space, places)) in known.into_iter().take(self.open.len()).enumerate() {
            // Another arm may have drawn the same settings: swapped, so that no name occurs twice.
            let same = |open: &Open| open.space == space && open.places == places;
            if let Some(there) = self.open.iter().position(same) {
                self.open.swap(n, there);
            }
            self.open[n] = Open { space, places, values: 1, latest: self.windows, rejected: false };
        }
    }

    /// Whether another arm may get new settings.
    pub(crate) const fn is_due(&self) -> bool {
        self.windows >= self.proposed_at + EVERY
    }

    /// The open arm that gets new settings now, and its new name. `known`: each scheduler's mean for each pattern.
    pub(crate) fn next(
        &mut self,
        in_use: Option<SchedulerId>,
        known: &[Vec<Known>],
        better: Better,
        random: &mut Random,
    ) -> Option<(SchedulerId, String)> {
        if !self.is_due() {
            return None;
        }
        let free = |n: &usize| in_use != Some(SchedulerId(self.first + n));
        let n = (0..self.open.len()).filter(free).find(|&n| self.makes_room(n, known, better))?;
        self.proposed_at = self.windows;
        self.judge(n, known, better);
        let fresh = self.fresh(random)?;
        let name = self.searched[fresh.space].space.name(&fresh.places);
        self.open[n] = fresh;
        Some((SchedulerId(self.first + n), name))
    }

    /// Settings of the next space in turn that has unused ones.
    fn fresh(&mut self, random: &mut Random) -> Option<Open> {
        (0..self.searched.len()).find_map(|_| self.fresh_in_turn(random))
    }

    /// The proposal of the next space's optimiser, if no open arm has it already; drawn at random while there are few scores.
    fn fresh_in_turn(&mut self, random: &mut Random) -> Option<Open> {
        const PROPOSALS: u64 = 10;
        const DRAWN: u64 = 100;
        let space = self.turn;
        self.turn = (self.turn + 1) % self.searched.len();
        let searched = &mut self.searched[space];
        let known =
            |places: &Vec<usize>| self.open.iter().any(|open| open.space == space && open.places == *places);
        let proposals = if searched.scores < STARTUP { 0 } else { PROPOSALS };
        let proposed = (0..proposals).find_map(|_| searched.propose(random).filter(|places| !known(places)));
        let drawn = || (0..DRAWN).map(|_| searched.draw(random)).find(|places| !known(places));
        let places = proposed.or_else(drawn)?;
        Some(Open { space, places, values: 0, latest: self.windows, rejected: false })
    }

    fn makes_room(&self, n: usize, known: &[Vec<Known>], better: Better) -> bool {
        let (open, arm) = (&self.open[n], self.first + n);
        let leads = |pattern: &[Known]| {
            let all = pattern.iter().flatten().map(|&(mean, _)| better.oriented(mean));
            pattern[arm].map(|(mean, _)| better.oriented(mean)) == all.reduce(f64::max)
        };
        let wins = |pattern: &Vec<Known>| {
            self.gain(pattern, arm, better).is_some_and(|gain| gain > WORTH) && leads(pattern)
        };
        let idle = self.windows - open.latest;
        let tried = open.values > 0 && idle >= TRIED;
        open.rejected || idle >= PATIENCE || (tried && !known.iter().any(wins))
    }

    /// Gives the optimiser the arm's score, if it is known, once: the arm stays if no other settings are left.
    fn judge(&mut self, n: usize, known: &[Vec<Known>], better: Better) {
        let arm = self.first + n;
        let (mut sum, mut weights) = (0.0, 0.0);
        for pattern in known {
            if let Some((gain, (_, count))) = self.gain(pattern, arm, better).zip(pattern[arm]) {
                sum += gain * count as f64;
                weights += count as f64;
            }
        }
        let open = &mut self.open[n];
        let values = core::mem::take(&mut open.values);
        if values > 0 && weights > 0.0 && !open.rejected {
            self.searched[open.space].report(&open.places, sum / weights);
        }
    }

    /// The gain of an arm over the best plain one for a load.
    fn gain(&self, pattern: &[Known], arm: usize, better: Better) -> Option<f64> {
        let (own, _) = pattern[arm]?;
        let plain = pattern[..self.first].iter().flatten().map(|&(mean, _)| mean);
        let best = plain.reduce(|a, b| if better.oriented(b) > better.oriented(a) { b } else { a })?;
        (best != 0.0).then(|| better.oriented(own - best) / best.abs())
    }
}

/// The analyser's random numbers for the optimiser.
struct OptimiserRandom<'a>(&'a mut Random);

impl rand::TryRng for OptimiserRandom<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.0.bits() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.bits())
    }

    fn try_fill_bytes(&mut self, destination: &mut [u8]) -> Result<(), Infallible> {
        for chunk in destination.chunks_mut(8) {
            chunk.copy_from_slice(&self.0.bits().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        let ladder = |setting: &str, values: &[&str]| Ladder {
            setting: setting.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        Space {
            scheduler: "cfq".to_owned(),
            ladders: vec![ladder("slice_idle", &["0 ns", "4 ms", "8 ms"]), ladder("quantum", &["1", "4"])],
        }
    }

    #[test]
    fn names_and_indexes_correspond() {
        let space = space();
        assert_eq!(space.name(&[2, 0]), "cfq{slice_idle=8 ms,quantum=1}");
        assert_eq!(space.places("cfq{slice_idle=8 ms,quantum=1}"), Some(vec![2, 0]));
        for other in [
            "cfq",
            "cfq{}",
            "cfq{quantum=1}",
            "cfq{slice_idle=9 ms,quantum=1}",
            "as{slice_idle=8 ms,quantum=1}",
            "cfq{slice_idle=8 ms}",
            "cfq{slice_idle=8 ms,quantum=1,back_seek=2}",
        ] {
            assert_eq!(space.places(other), None, "{other}");
        }
    }

    #[test]
    fn a_gain_is_relative_to_the_best_plain_arm() {
        let search = Search::new(vec![space()], 2, 1, &mut Random::seeded(3)).unwrap();
        let pattern = [Some((10.0, 1)), Some((8.0, 1)), Some((15.0, 1))];
        assert_eq!(search.gain(&pattern, 2, Better::Higher), Some(0.5));
        assert_eq!(search.gain(&pattern, 2, Better::Lower), Some(-7.0 / 8.0));
        assert_eq!(search.gain(&[Some((10.0, 1)), None, None], 2, Better::Higher), None);
        assert_eq!(search.gain(&[None, None, Some((15.0, 1))], 2, Better::Higher), None);
        assert_eq!(search.gain(&[Some((0.0, 1)), None, Some((15.0, 1))], 2, Better::Higher), None);
    }

    #[test]
    fn an_optimiser_proposes_an_index_of_each_ladder() {
        let mut random = Random::seeded(3);
        let mut optimiser = Optimiser::new(space()).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..50 {
            let places = optimiser.propose(&mut random);
            assert!(places.len() == 2 && places[0] < 3 && places[1] < 2, "{places:?}");
            optimiser.report(&places, (places[0] + places[1]) as f64);
            let names: Vec<&str> = optimiser.settings(&places).map(|(name, _)| name).collect();
            assert_eq!(names, ["slice_idle", "quantum"]);
            seen.insert(places);
        }
        assert!(seen.contains(&vec![0, 0]) && seen.len() > 3, "{seen:?}");
    }

    #[test]
    fn open_arms_differ_and_invalid_spaces_are_errors() {
        let mut random = Random::seeded(3);
        let search = Search::new(vec![space()], 4, 6, &mut random).unwrap();
        let names: std::collections::BTreeSet<String> = search.names().collect();
        assert_eq!(names.len(), 6, "all that there are: {names:?}");
        assert!(Search::new(vec![space()], 4, 7, &mut random).err().unwrap().contains("fewer settings"));
        assert!(Search::new(Vec::new(), 4, 1, &mut random).is_err());
        let empty =
            Space { ladders: vec![Ladder { setting: "x".to_owned(), values: Vec::new() }], ..space() };
        assert!(Search::new(vec![empty], 4, 1, &mut random).err().unwrap().contains("no value for 'x'"));
    }

    #[test]
    fn a_used_up_space_is_skipped() {
        let small = Space { scheduler: "bfq".to_owned(), ladders: vec![space().ladders[1].clone()] };
        let search = |open| Search::new(vec![small.clone(), space()], 4, open, &mut Random::seeded(3));
        let names: Vec<String> = search(8).expect("two and six").names().collect();
        assert_eq!(names.iter().filter(|name| name.starts_with("bfq")).count(), 2, "{names:?}");
        assert!(search(9).err().unwrap().contains("fewer settings"));
    }

    #[test]
    fn a_score_counts_once_if_no_other_settings_are_left() {
        let mut random = Random::seeded(3);
        let mut search = Search::new(vec![space()], 1, 6, &mut random).unwrap();
        let mut known = vec![vec![None; 7]];
        (known[0][0], known[0][1]) = (Some((10.0, 1)), Some((5.0, 1)));
        search.measured(Some(SchedulerId(1)));
        for _ in 0..300 {
            search.measured(Some(SchedulerId(0)));
            assert_eq!(search.next(None, &known, Better::Higher, &mut random), None, "all six are open");
        }
        assert_eq!(search.searched[0].scores, 1);
    }

    #[test]
    fn restored_settings_do_not_occur_twice() {
        let mut random = Random::seeded(3);
        let mut search = Search::new(vec![space()], 4, 3, &mut random).unwrap();
        let drawn: Vec<String> = search.names().collect();
        search.adopt(&["noop".to_owned(), drawn[2].clone()]);
        assert_eq!(search.names().collect::<Vec<_>>(), [&*drawn[2], &*drawn[1], &*drawn[0]]);
    }

    #[test]
    fn rejected_settings_are_replaced_and_the_arm_in_use_is_not() {
        let mut random = Random::seeded(3);
        let mut search = Search::new(vec![space()], 4, 2, &mut random).unwrap();
        (0..EVERY).for_each(|_| search.measured(None));
        let mut next = |search: &mut Search, in_use| search.next(in_use, &[], Better::Higher, &mut random);
        assert_eq!(next(&mut search, None), None, "the arms have no values yet");
        search.rejected(SchedulerId(5));
        assert_eq!(next(&mut search, Some(SchedulerId(5))), None);
        assert_eq!(next(&mut search, None).unwrap().0, SchedulerId(5));
        assert_eq!(next(&mut search, None), None, "one at a time");
    }

    #[test]
    fn an_arm_stays_only_for_more_than_a_fiftieth() {
        let kept = |value: f64, better: Better, base: f64| {
            let mut random = Random::seeded(3);
            let mut search = Search::new(vec![space()], 1, 1, &mut random).unwrap();
            search.measured(Some(SchedulerId(1)));
            (0..TRIED).for_each(|_| search.measured(Some(SchedulerId(0))));
            let known = vec![vec![Some((base, 5)), Some((value, 5))]];
            search.next(None, &known, better, &mut random).is_none()
        };
        let higher = |value| kept(value, Better::Higher, 100.0);
        assert_eq!([99.0, 102.0, 102.5].map(higher), [false, false, true]);
        let lower = |value| kept(value, Better::Lower, 100.0);
        assert_eq!([101.0, 98.0, 97.5].map(lower), [false, false, true]);
        assert!(!kept(1.0, Better::Higher, 0.0), "no gain over nothing");
    }

    #[test]
    fn an_arm_without_values_is_replaced_after_two_hundred_windows() {
        let mut random = Random::seeded(3);
        let mut search = Search::new(vec![space()], 1, 1, &mut random).unwrap();
        let windows = (1..=300).find(|_| {
            search.measured(Some(SchedulerId(0)));
            search.next(None, &[], Better::Higher, &mut random).is_some()
        });
        assert_eq!(windows, Some(PATIENCE));
        let after = (1..=300).find(|_| {
            search.measured(Some(SchedulerId(0)));
            search.next(None, &[], Better::Higher, &mut random).is_some()
        });
        assert_eq!(after, Some(PATIENCE), "counted from the new settings");
    }

    #[test]
    fn the_score_is_the_mean_gain_weighted_by_values() {
        let mut random = Random::seeded(3);
        let mut search = Search::new(vec![space()], 2, 1, &mut random).unwrap();
        let known = vec![
            vec![Some((10.0, 5)), Some((20.0, 5)), Some((10.0, 3))],
            vec![Some((10.0, 1)), None, Some((20.0, 1))],
        ];
        let gains = known.iter().map(|pattern| search.gain(pattern, 2, Better::Higher)).collect::<Vec<_>>();
        assert_eq!(gains, [Some(-0.5), Some(1.0)]);
        search.open[0].values = 1;
        search.judge(0, &known, Better::Higher);
        assert_eq!((search.searched[0].scores, search.open[0].values), (1, 0));
        search.judge(0, &known, Better::Higher);
        assert_eq!(search.searched[0].scores, 1, "no new value");
    }

    #[test]
    fn the_optimiser_s_random_numbers_are_the_analyser_s() {
        use rand::TryRng;
        let (mut one, mut other) = (Random::seeded(5), Random::seeded(5));
        let mut bytes = [0; 12];
        let mut chance = OptimiserRandom(&mut one);
        chance.try_fill_bytes(&mut bytes).unwrap();
        assert_eq!(bytes[..8], other.bits().to_le_bytes());
        assert_eq!(bytes[8..], other.bits().to_le_bytes()[..4]);
        assert_eq!(chance.try_next_u64(), Ok(other.bits()));
        assert_eq!(chance.try_next_u32(), Ok((other.bits() >> 32) as u32));
    }
}
