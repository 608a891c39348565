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
//! [`Kinds::window`] reads top to bottom:
//! 1. A window on trial is of the kind that the trial is for, whatever it makes of the load. Any other is of the kind whose shape is the most
//!    [alike](ALIKE), or makes one.
//! 2. Kinds that give way to each other when the scheduler changes are [one load](transitions), and are made one.
//! 3. If the first window after a trial is of another kind the load has changed meanwhile, and [the pair is forgotten](Kinds::doubt), unless
//!    it was the scheduler's first.
//! 4. The window is compared with [the last one before the switch](switch_history); [what is learned of whom](Kinds::compare).
//! 5. Who served a kind answers for it, and for what comes after it, [in the long run](credit).
//! 6. A trial is brought to its end.
//! 7. A kind seen for fewer than [`YOUNG`] windows is served as the kind before it: it may be what a trial made of that.
//! 8. Otherwise the kind says [which scheduler is used](Kind::choose), and [whether one is to be tried](Kind::trial). No trial follows another
//!    without a window in between to compare with, unless the one that was tried is better.
//!
//! What is saved, shown, merged and forgotten by hand is in [`keeping`].
//!
//! # Not for
//! Loads that differ only in how fast they are asked for: shapes do not say that, and they are one kind. Loads that change at every window, as
//! nothing is foreseen: a window is served by what was best for the one before.

mod autocorrelation;
mod credit;
mod keeping;
mod kind;
mod shape;
mod switch_history;
mod transitions;

use serde::{Deserialize, Serialize};

use self::kind::{Arm, Kind, TRIAL, ahead};
pub use self::shape::Shape;
use self::switch_history::SwitchHistory;
use self::transitions::KindTransitions;
use ioanalyzer::Better;
use ioanalyzer::SchedulerId;

/// A window is of a kind if at least this part of its shape is the kind's, too. Much more, and the turns that one load takes are kinds of
/// their own, each with its own favourite, so that none of them ever learns what comes of one scheduler in the long run.
const ALIKE: f64 = 0.5;
/// Windows before anything is tried for a kind: one may be what a trial made of another kind, two its end.
const YOUNG: u64 = 3;
/// More kinds are not kept; a shape then belongs to the nearest.
const MOST: usize = 64;

/// What is to be done for a kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KindDecision {
    /// The kind's number.
    pub kind: usize,
    /// Windows of it so far.
    pub windows: u64,
    /// By which scheduler.
    pub scheduler: SchedulerId,
    /// For how many windows it is tried from here on; 0 if it is the best so far.
    pub trial: u64,
    /// Whether a trial is not the scheduler's first for the kind.
    pub again: bool,
    /// n/(n+1) for the n windows of the kind that the scheduler served; 0 for a trial.
    pub confidence: f64,
    /// How much better it is expected to be than the scheduler in use, as a part of what that one gives; `None` if too little is known, or
    /// if it has its turn to find that out.
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
pub struct Kinds {
    kinds: Vec<Kind>,
    schedulers: usize,
    /// The kind of the latest window, if that was not on trial, and which kinds gave way to which.
    latest: Option<usize>,
    transitions: KindTransitions,
    /// The kind that the latest window was served as.
    served: Option<usize>,
    #[serde(flatten)]
    switch_history: SwitchHistory,
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

    /// A window of this shape ended, in which that scheduler gave that value: finds or makes its kind, learns, and says what is to be
    /// done. `promise` is what else is known of each scheduler for such a window: of those that were in use as little, the most promising is
    /// tried first.
    pub(crate) fn window(
        &mut self,
        shape: &Shape,
        (ran, value): (SchedulerId, f64),
        promise: &[f64],
        better: Better,
    ) -> KindDecision {
        let ran = ran.0;
        let in_a_row = self.switch_history.ran(ran, value);
        let trial = self.trial.take().filter(|trial| trial.scheduler == ran);
        let kind = match trial {
            Some(trial) => {
                self.latest = None;
                trial.kind
            }
            None => {
                let kind = self.find(shape);
                let kind = self.pass(kind, in_a_row == 1);
                self.doubt(kind);
                kind
            }
        };
        self.kinds[kind].used(ran);
        if in_a_row == TRIAL {
            self.compare(kind, ran, trial, better);
        }
        self.answer(kind, value, Some(ran).filter(|_| trial.is_none()));
        if let Some(trial) = trial.filter(|_| in_a_row < TRIAL) {
            return self.go_on(trial, TRIAL - in_a_row);
        }
        self.ended = trial.or(self.ended);
        self.serve(kind, (ran, in_a_row), trial.is_some(), promise, better)
    }

    /// The device refuses a scheduler: to the kind that it was to serve it is one that loses all, and is tried again as late.
    pub(crate) fn rejected(&mut self, scheduler: SchedulerId) {
        self.trial = self.trial.filter(|trial| trial.scheduler != scheduler.0);
        if let Some(kind) = self.served.and_then(|kind| self.kinds.get_mut(kind)) {
            kind.rejected(scheduler.0);
        }
    }

    /// The kind that a window of this shape under that scheduler belongs to, if it is known.
    pub(crate) fn kind_of(&self, shape: &Shape, ran: SchedulerId) -> Option<usize> {
        if let Some(trial) = self.trial.filter(|trial| trial.scheduler == ran.0) {
            return Some(trial.kind);
        }
        let (kind, alike) = self.nearest(shape)?;
        let kind = self.kinds[kind].part_of.unwrap_or(kind);
        (alike >= ALIKE || self.kinds.len() >= MOST).then_some(kind)
    }

    /// What each scheduler is known to give a kind.
    pub(crate) fn means(&self, kind: Option<usize>, better: Better) -> Vec<Option<f64>> {
        let expected = kind.and_then(|kind| self.expected(kind, better)).unwrap_or_default();
        expected.into_iter().map(|known| known.map(|(mean, _)| mean)).collect()
    }

    /// The kind whose shape is the most alike, and how much.
    fn nearest(&self, shape: &Shape) -> Option<(usize, f64)> {
        let alike = self.kinds.iter().map(|kind| kind.similarity(shape)).enumerate();
        alike.reduce(|best, other| if other.1 > best.1 { other } else { best })
    }

    /// The kind of a window of this shape.
    fn find(&mut self, shape: &Shape) -> usize {
        match self.nearest(shape) {
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

    /// A window of a kind follows the latest one. If that shows that the two are one load, they are made one kind; returns which.
    fn pass(&mut self, kind: usize, switched: bool) -> usize {
        let before = self.latest.replace(kind).filter(|&before| before != kind);
        let Some(before) = before.filter(|&before| self.transitions.note(before, kind, switched)) else {
            return kind;
        };
        let known_longer = self.kinds[before].windows >= self.kinds[kind].windows;
        let (kept, part) = if known_longer { (before, kind) } else { (kind, before) };
        self.make_one(kept, part);
        kept
    }

    /// `part` turned out to be another shape of `kept`, of which more is known.
    fn make_one(&mut self, kept: usize, part: usize) {
        self.transitions.forget(part);
        for (number, kind) in self.kinds.iter_mut().enumerate() {
            if number == part || kind.part_of == Some(part) {
                kind.part_of = Some(kept);
            }
        }
        let all = [&mut self.latest, &mut self.served];
        all.into_iter().filter(|of| **of == Some(part)).for_each(|of| *of = Some(kept));
        self.forget_trials(part);
    }

    /// No trial for this kind is under way, ended or doubted.
    fn forget_trials(&mut self, kind: usize) {
        self.trial = self.trial.filter(|trial| trial.kind != kind);
        self.ended = self.ended.filter(|trial| trial.kind != kind);
        self.doubted = self.doubted.filter(|(trial, _)| trial.kind != kind);
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
        let pair = self.switch_history.take_pair().filter(|_| self.served == Some(kind));
        let Some((other, then, now)) = pair else { return };
        let of = &mut self.kinds[kind];
        let ahead = ahead(now, then, better);
        let (mine, its) = (of.arm(ran), of.arm(other));
        let returned = ended.is_some_and(|ended| ended.scheduler == other);
        if trial.is_none() && (returned || mine.windows > its.windows) {
            return of.pair(other, ran, -ahead);
        }
        of.pair(ran, other, ahead);
        // One that was never compared has nothing better to go back to.
        self.doubted = trial.filter(|_| mine.pairs > 0).map(|trial| (trial, mine));
    }

    /// Of each kind those answer for a window who have to: whoever served it, unless it was on trial, or served another kind before.
    fn answer(&mut self, kind: usize, value: f64, by: Option<usize>) {
        for (index, of) in self.kinds.iter_mut().enumerate() {
            match by {
                _ if index != kind => of.credits.afterwards(value),
                Some(scheduler) => of.credits.served(scheduler, value),
                None => {}
            }
        }
    }

    /// The trial under way lasts for so many windows yet.
    fn go_on(&mut self, trial: Trial, left: u64) -> KindDecision {
        let Trial { kind, scheduler } = trial;
        self.trial = Some(trial);
        let windows = self.kinds[kind].windows;
        KindDecision {
            kind,
            windows,
            scheduler: SchedulerId(scheduler),
            trial: left,
            again: self.kinds[kind].arm(scheduler).pairs > 0,
            confidence: 0.0,
            gain: None,
        }
    }

    /// Which scheduler serves the next window, after one of a kind in which `ran` was in use for so many in a row, and ended a trial or not.
    fn serve(
        &mut self,
        kind: usize,
        (ran, in_a_row): (usize, u64),
        tried: bool,
        promise: &[f64],
        better: Better,
    ) -> KindDecision {
        let windows = self.kinds[kind].windows;
        let is_young = windows < YOUNG;
        let serving = self.served.filter(|_| is_young).unwrap_or(kind);
        self.served = Some(serving);
        let of = &mut self.kinds[serving];
        let used = of.choose(better).unwrap_or(ran);
        let settled = if tried { used == ran } else { in_a_row >= TRIAL };
        let due = if is_young || !settled { None } else { of.trial(used, promise) };
        let trial = due.filter(|&scheduler| scheduler != ran);
        self.trial = trial.map(|scheduler| Trial { kind, scheduler });
        let scheduler = trial.unwrap_or(used);
        let arm = of.arm(scheduler);
        let served = arm.windows as f64;
        KindDecision {
            kind,
            windows,
            scheduler: SchedulerId(scheduler),
            trial: trial.map_or(0, |_| TRIAL),
            again: trial.is_some() && arm.pairs > 0,
            confidence: if trial.is_some() { 0.0 } else { served / (served + 1.0) },
            gain: of.gain(scheduler, ran, better),
        }
    }
}

#[cfg(test)]
mod tests {
    use elevator::{Op, Sector, Sectors, Span, Time};

    use super::*;
    use ioanalyzer::{Access, Window};

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
