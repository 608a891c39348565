//! Kinds of load: what served windows of this shape best, wherever warping finds them.
//!
//! # Idea
//! The paper notes a window's value for the window's own cluster, and leaves what it does not recognise to one bandit. Both go wrong
//! where processes wait for their answers. A scheduler then decides how much is asked, and in which order, so the same load makes
//! other clusters under each, none of which ever hears how the others do; and the bandit compares what one scheduler gave in one phase
//! with what another gave in the next. Here windows are of a kind by their [`Shape`], which schedulers hardly change, and each kind
//! remembers on its own what every scheduler gave.
//!
//! # Order of decisions
//! 1. A trial is brought to its end; its windows are of the kind that it is made for, whatever it makes of them.
//! 2. A kind seen for fewer than [`YOUNG`] windows is served as the kind before it: it may be what a trial made of that.
//! 3. Otherwise the kind says which scheduler is used or [tried](Kind). No trial follows another without a window in
//!    between to compare with, unless the one that was tried is better.
//! 4. If the first window after a trial is of another kind the load has changed meanwhile, and the pair is forgotten.
//! 5. Kinds that give way to each other when the scheduler changes are [one load](super::passing), and are made one.
//!
//! # Not for
//! Loads that differ only in how fast they are asked for: shapes do not say that, and they are one kind. Loads that change at every window, as
//! nothing is foreseen: a window is served by what was best for the one before.

use serde::{Deserialize, Serialize};

use super::Shape;
use super::kind::{Arm, Kind, TRIAL, ahead};
use super::passing::Passings;
use crate::cluster::SchedulerId;
use crate::metric::Better;
use crate::state::{COUNT_MAX, place_now};

/// A window is of a kind if at least this part of its shape is the kind's, too. Much more, and the turns that one load takes are kinds of
/// their own, each with its own favourite, so that none of them ever learns what comes of one scheduler in the long run.
const ALIKE: f64 = 0.5;
/// Windows before anything is tried for a kind: one may be what a trial made of another kind, two its end.
const YOUNG: u64 = 3;
/// More kinds are not kept; a shape then belongs to the nearest.
const MOST: usize = 64;

/// What is to be done for a kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Served {
    /// The kind's number.
    pub kind: usize,
    /// Windows of it so far.
    pub windows: u64,
    /// By which scheduler.
    pub scheduler: SchedulerId,
    /// For how many windows it is tried from here on; 0 if it is the best so far.
    pub trial: u64,
    /// n/(n+1) for the n windows of the kind that the scheduler served; 0 for a trial.
    pub confidence: f64,
    /// How much better it is expected to be than the scheduler in use, as a part of what that one gives; `None` if too little is known, or
    /// if it has a [turn](super::long_run) to find that out.
    pub gain: Option<f64>,
}

/// A scheduler on trial for a kind.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct Trial {
    kind: usize,
    scheduler: usize,
}

/// All kinds, and what was done last.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Kinds {
    kinds: Vec<Kind>,
    schedulers: usize,
    /// The kind of the latest window, if that was not on trial, and which kinds gave way to which.
    latest: Option<usize>,
    passings: Passings,
    /// The kind that the latest window was served as.
    served: Option<usize>,
    /// The scheduler of the latest window, for how many in a row, and what that window gave.
    ran: Option<(usize, u64)>,
    value: f64,
    /// The scheduler before that one, and what its last window gave.
    left: Option<(usize, f64)>,
    /// The trial under way, and the one that ended with the latest window.
    trial: Option<Trial>,
    ended: Option<Trial>,
    /// What was known before the latest trial's pair.
    doubted: Option<(Trial, Arm)>,
}

impl Kinds {
    /// None yet, for so many schedulers.
    pub(crate) fn new(schedulers: usize) -> Self {
        Self { schedulers, ..Self::default() }
    }

    /// What was saved, for other schedulers: `from[s]` is where scheduler `s` stands in the saved lists, if it does.
    pub(crate) fn restored(self, from: &[Option<usize>]) -> Self {
        let place = |saved| place_now(saved, from);
        let trial = |trial: Trial| Some(Trial { scheduler: place(trial.scheduler)?, ..trial });
        Self {
            kinds: self.kinds.iter().map(|kind| kind.restored(from)).collect(),
            schedulers: from.len(),
            ran: self.ran.and_then(|(ran, row)| Some((place(ran)?, row))),
            left: self.left.and_then(|(left, value)| Some((place(left)?, value))),
            trial: self.trial.and_then(trial),
            ended: self.ended.and_then(trial),
            doubted: self.doubted.and_then(|(of, arm)| Some((trial(of)?, arm))),
            ..self
        }
    }

    /// Whether this code can have written it.
    pub(crate) fn check(&self) -> Result<(), String> {
        let trials = self.trial.into_iter().chain(self.ended).chain(self.doubted.map(|doubted| doubted.0));
        let parts = self.kinds.iter().filter_map(|kind| kind.part_of);
        let latest = self.served.into_iter().chain(self.latest).chain(parts).chain(self.passings.kinds());
        let mut named = latest.chain(trials.map(|trial| trial.kind));
        if let Some(unknown) = named.find(|&kind| kind >= self.kinds.len()) {
            return Err(format!("kind {unknown} is named, but is not there"));
        }
        if let Some((_, windows)) = self.ran.filter(|ran| ran.1 > COUNT_MAX) {
            return Err(format!("a scheduler ran for {windows} windows in a row"));
        }
        if !self.passings.is_sound() {
            return Err("kinds gave way to each other more often than can be".to_string());
        }
        match self.kinds.iter().position(|kind| !kind.is_sound()) {
            Some(broken) => Err(format!("kind {broken} has no shape, or holds a number that cannot be")),
            None => Ok(()),
        }
    }

    /// Forgets what was measured of a scheduler, which then counts as new.
    pub(crate) fn forget(&mut self, scheduler: SchedulerId) {
        self.kinds.iter_mut().for_each(|kind| kind.forget(scheduler.0));
        // Nor does what it gave last say anything of what it stands for now.
        self.ran = self.ran.filter(|ran| ran.0 != scheduler.0);
        self.left = self.left.filter(|left| left.0 != scheduler.0);
        self.doubted = self.doubted.filter(|(trial, _)| trial.scheduler != scheduler.0);
    }

    /// What each scheduler is expected to give a kind, by its number in [`Served`], and how many of its windows it served; `None` of one that
    /// was never tried. Nothing if there is no such kind, or no scheduler was in use for it but for trials.
    #[must_use]
    pub fn expected(&self, kind: usize, better: Better) -> Option<Vec<Option<(f64, u64)>>> {
        self.kinds.get(kind)?.expected(better)
    }

    /// How many loads there are; shapes that turned out to be of one load are one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.loads().count()
    }

    /// The numbers of the kinds that are loads of their own.
    pub fn loads(&self) -> impl Iterator<Item = usize> {
        (0..self.kinds.len()).filter(|&kind| self.kinds[kind].part_of.is_none())
    }

    /// The shape of a load and how many of its windows were seen, by its number.
    #[must_use]
    pub fn load(&self, kind: usize) -> Option<(&Shape, u64)> {
        let of = self.kinds.get(kind).filter(|of| of.part_of.is_none())?;
        Some((of.shape(), of.windows))
    }

    /// Makes two loads one: what is known of `into` holds for both.
    ///
    /// # Errors
    /// If one of them is not there, or both are the same.
    pub fn merge(&mut self, into: usize, other: usize) -> Result<(), String> {
        self.must_be_a_load(into)?;
        self.must_be_a_load(other)?;
        if into == other {
            return Err(format!("kind {into} cannot be merged with itself"));
        }
        self.make_one(into, other);
        Ok(())
    }

    /// Forgets what each scheduler made of a load; its windows are known by their shape still, and begin anew.
    ///
    /// # Errors
    /// If it is not there.
    pub fn forget_load(&mut self, kind: usize) -> Result<(), String> {
        self.must_be_a_load(kind)?;
        self.kinds[kind] = self.kinds[kind].unlearned();
        self.trial = self.trial.filter(|trial| trial.kind != kind);
        self.ended = self.ended.filter(|trial| trial.kind != kind);
        self.doubted = self.doubted.filter(|(trial, _)| trial.kind != kind);
        Ok(())
    }

    fn must_be_a_load(&self, kind: usize) -> Result<(), String> {
        let missing = || format!("there is no kind {kind}; 'dwell patterns list' shows which there are");
        self.load(kind).map(|_| ()).ok_or_else(missing)
    }

    /// Whether no window was seen so far.
    pub(crate) const fn know_nothing(&self) -> bool {
        self.kinds.is_empty()
    }

    /// A window of this shape ended, in which that scheduler gave that value: finds or makes its kind, learns, and says what is to be
    /// done. `promise` is what else is known of each scheduler for such a window: of those that were in use as little, the most promising is
    /// tried first.
    pub(crate) fn window(
        &mut self,
        shape: &Shape,
        (ran, value): (SchedulerId, f64),
        promise: &[f64],
        better: Better,
    ) -> Served {
        let ran = ran.0;
        let in_a_row = self.in_a_row(ran, value);
        let trial = self.trial.take().filter(|trial| trial.scheduler == ran);
        let kind = trial.map_or_else(|| self.find(shape), |trial| trial.kind);
        let kind = self.pass(kind, in_a_row == 1, trial.is_some());
        if trial.is_none() {
            self.doubt(kind);
        }
        self.kinds[kind].used(ran);
        if in_a_row == TRIAL {
            self.compare(kind, ran, trial, better);
        }
        for (index, of) in self.kinds.iter_mut().enumerate() {
            match trial {
                _ if index != kind => of.long_runs.afterwards(value),
                None => of.long_runs.served(ran, value),
                Some(_) => {}
            }
        }
        let windows = self.kinds[kind].windows;
        if trial.is_some() && in_a_row < TRIAL {
            self.trial = trial;
            let scheduler = SchedulerId(ran);
            let trial = TRIAL - in_a_row;
            return Served { kind, windows, scheduler, trial, confidence: 0.0, gain: None };
        }
        self.ended = trial.or(self.ended);
        let serving = self.served.filter(|_| windows < YOUNG).unwrap_or(kind);
        self.served = Some(serving);
        self.serve((kind, serving), (ran, in_a_row), trial, promise, better)
    }

    /// For how many windows this scheduler has been in use. What the one before gave last is kept, unless that was its first window.
    fn in_a_row(&mut self, ran: usize, value: f64) -> u64 {
        let in_a_row = match self.ran {
            Some((same, row)) if same == ran => row + 1,
            before => {
                self.left = before.filter(|before| before.1 >= TRIAL).map(|before| (before.0, self.value));
                1
            }
        };
        (self.ran, self.value) = (Some((ran, in_a_row)), value);
        in_a_row
    }

    /// A window of a kind follows the latest one. If that shows that the two are one load, they are made one kind; returns which.
    fn pass(&mut self, kind: usize, switched: bool, on_trial: bool) -> usize {
        let before = core::mem::replace(&mut self.latest, Some(kind).filter(|_| !on_trial));
        let Some(before) = before.filter(|&before| before != kind && !on_trial) else { return kind };
        if !self.passings.note(before, kind, switched) {
            return kind;
        }
        let known_longer = self.kinds[before].windows >= self.kinds[kind].windows;
        let (kept, part) = if known_longer { (before, kind) } else { (kind, before) };
        self.make_one(kept, part);
        kept
    }

    /// `part` turned out to be another shape of `kept`, of which more is known.
    fn make_one(&mut self, kept: usize, part: usize) {
        self.passings.forget(part);
        for (number, kind) in self.kinds.iter_mut().enumerate() {
            if number == part || kind.part_of == Some(part) {
                kind.part_of = Some(kept);
            }
        }
        let all = [&mut self.latest, &mut self.served];
        all.into_iter().filter(|of| **of == Some(part)).for_each(|of| *of = Some(kept));
        self.trial = self.trial.filter(|trial| trial.kind != part);
        self.ended = self.ended.filter(|trial| trial.kind != part);
        self.doubted = self.doubted.filter(|(trial, _)| trial.kind != part);
    }

    /// If the first window after a trial is not of its kind, the load has changed, and what the trial said is forgotten.
    fn doubt(&mut self, kind: usize) {
        if let Some((trial, before)) = self.doubted.take().filter(|(trial, _)| trial.kind != kind) {
            self.kinds[trial.kind].rate_again(trial.scheduler, before);
            self.ended = None;
        }
    }

    /// The scheduler in use against the one before it. What is learned is learned of the one that is or was on trial, or else of the one that
    /// is known less.
    fn compare(&mut self, kind: usize, ran: usize, trial: Option<Trial>, better: Better) {
        let ended = self.ended.take();
        let Some((other, then)) = self.left.take().filter(|_| self.served == Some(kind)) else { return };
        let of = &mut self.kinds[kind];
        let ahead = ahead(self.value, then, better);
        let (mine, its) = (of.arm(ran), of.arm(other));
        let returned = ended.is_some_and(|ended| ended.scheduler == other);
        if trial.is_none() && (returned || mine.windows > its.windows) {
            return of.pair(other, ran, -ahead);
        }
        of.pair(ran, other, ahead);
        // One that was never compared has nothing better to go back to.
        self.doubted = trial.filter(|_| mine.pairs > 0).map(|trial| (trial, mine));
    }

    fn find(&mut self, shape: &Shape) -> usize {
        let alike = self.kinds.iter().map(|kind| kind.similarity(shape)).enumerate();
        let nearest = alike.reduce(|best, other| if other.1 > best.1 { other } else { best });
        match nearest {
            Some((kind, alike)) if alike >= ALIKE || self.kinds.len() >= MOST => {
                self.kinds[kind].blend(shape);
                self.kinds[kind].part_of.unwrap_or(kind)
            }
            _ => {
                self.kinds.push(Kind::new(shape.clone(), self.schedulers));
                self.kinds.len() - 1
            }
        }
    }

    fn serve(
        &mut self,
        (kind, serving): (usize, usize),
        (ran, in_a_row): (usize, u64),
        tried: Option<Trial>,
        promise: &[f64],
        better: Better,
    ) -> Served {
        let windows = self.kinds[kind].windows;
        let of = &mut self.kinds[serving];
        let used = of.choose(better).unwrap_or(ran);
        let settled = if tried.is_some() { used == ran } else { in_a_row >= TRIAL };
        let trial = if windows < YOUNG || !settled { None } else { of.trial(used, promise) };
        let trial = trial.filter(|&scheduler| scheduler != ran);
        self.trial = trial.map(|scheduler| Trial { kind: serving, scheduler });
        let scheduler = trial.unwrap_or(used);
        let served = of.arm(scheduler).windows as f64;
        Served {
            kind,
            windows,
            scheduler: SchedulerId(scheduler),
            trial: trial.map_or(0, |_| TRIAL),
            confidence: if trial.is_some() { 0.0 } else { served / (served + 1.0) },
            gain: of.gain(scheduler, ran, better),
        }
    }
}

#[cfg(test)]
mod tests {
    use elevator::{Op, Sector, Sectors, Span, Time};

    use super::*;
    use crate::window::{Access, Window};

    #[test]
    fn an_arm_that_gets_other_settings_as_it_is_left_is_not_judged_by_the_old_ones() {
        let (time, op) = (Time::ZERO, Op::Read);
        let access = |n: u64| Access { time, position: Sector(n * 8), op, size: Sectors(8) };
        let accesses = (0..100).map(access).collect();
        let shape = Shape::of(&Window { start: time, length: Span::from_secs(5), accesses });
        let mut kinds = Kinds::new(2);
        let ran = |kinds: &mut Kinds, scheduler, value| {
            for _ in 0..4 {
                kinds.window(&shape, (SchedulerId(scheduler), value), &[0.0; 2], Better::Higher);
            }
        };
        ran(&mut kinds, 0, 10.0);
        ran(&mut kinds, 1, 1.0);
        kinds.forget(SchedulerId(1));
        ran(&mut kinds, 0, 10.0);
        assert_eq!(kinds.kinds[0].arm(1), Arm::default());
    }
}
