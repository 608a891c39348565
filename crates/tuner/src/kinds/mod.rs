//! Kinds of load: learns the best scheduler for windows of similar requests, regardless of the order of requests.
//!
//! # Idea
//! IOAnalyzer stores the metric for the window's cluster, and leaves unknown windows to one bandit. Both go wrong with synchronous processes.
//! There the scheduler determines how much is requested, and in which order. One load therefore forms other clusters under each scheduler, and no
//! cluster learns about all schedulers. And the bandit compares different phases of a program under different schedulers. Here windows are classified by
//! their [`Shape`], which hardly depends on the scheduler, and each kind stores the values of every scheduler.
//!
//! # Order of decisions
//! [`Kinds::window`] reads top to bottom:
//! 1. A window on trial belongs to the kind of the trial, whatever its shape. Any other belongs to the [most similar](ALIKE) kind, or makes a
//!    new one.
//! 2. Kinds that replace each other when the scheduler changes are [one load](transitions) and are merged.
//! 3. If the first window after a trial belongs to another kind, the load has changed during the trial, and [its pair is
//!    forgotten](Kinds::revoke), unless it was the scheduler's first.
//! 4. The window is compared with [the last one before the switch](switch_history); see [`Kinds::compare`].
//! 5. Its value is [credited](credit) to the schedulers that served the kind.
//! 6. An unfinished trial continues, unless it was [ended early](crate::EarlyEnd).
//! 7. A kind with fewer than [`YOUNG`] windows is served like the kind before it: a trial may have produced it.
//! 8. Otherwise the kind selects [the scheduler to use](Kind::choose) or [a scheduler to try](Kind::trial). Between two trials there is a window
//!    for comparison, unless the tried scheduler is better.
//!
//! [`knowledge`] compares the schedulers of a kind; [`keeping`] saves the state, and edits it for `dwell patterns`; [`exchange`] shares it between hosts.
//!
//! # Not for
//! Loads that differ only in their rate: they have the same shape. Loads that change in each window: nothing is predicted, and a window is
//! served by the best scheduler for the one before.

mod autocorrelation;
mod credit;
mod exchange;
mod keeping;
mod kind;
mod knowledge;
mod measured_values;
mod shape;
mod switch_history;
#[cfg(test)]
mod tests;
mod transitions;

use serde::{Deserialize, Serialize};

pub(crate) use self::kind::Rating;
use self::kind::{Arm, Kind, TRIAL, ahead};
pub use self::knowledge::{Estimate, Knowledge, is_worth_it};
pub use self::measured_values::MeasuredValues;
pub(crate) use self::measured_values::is_whole;
use self::shape::ALIKE;
pub use self::shape::Shape;
pub(crate) use self::shape::are_alike;
use self::switch_history::SwitchHistory;
use self::transitions::KindTransitions;
use crate::opened::Opened;
use observation::{Better, SchedulerId};

/// Windows of a kind before the first trial: the first ones may be the effect of another kind's trial.
const YOUNG: u64 = 3;
/// Pairs that count as more than chance.
const CONFIRMED: u64 = 2;
/// The greatest number of kinds; after that a window belongs to the most similar one.
const MOST: usize = 64;

/// The decision for a window of a kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KindDecision {
    /// The kind's number.
    pub kind: usize,
    /// Its windows so far.
    pub windows: u64,
    /// The scheduler to use.
    pub scheduler: SchedulerId,
    /// For how many windows it is tried; 0 if it is the best so far.
    pub trial: u64,
    /// Whether the scheduler was tried for the kind before.
    pub again: bool,
    /// n/(n+1) for the n windows of the kind that the scheduler served; 0 for a trial.
    pub confidence: f64,
    /// Its expected gain over the scheduler in use, as a part of what that one gives; `None` if too little is known, or if it takes its turn to find
    /// that out.
    pub gain: Option<f64>,
}

/// A trial of a scheduler for a kind.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct Trial {
    kind: usize,
    scheduler: usize,
}

/// All kinds, and the latest window.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Kinds {
    kinds: Vec<Kind>,
    schedulers: usize,
    /// The kind of the latest window, unless it was on trial, and the transitions between kinds.
    latest: Option<usize>,
    transitions: KindTransitions,
    /// The kind that chose the scheduler for the next window.
    served: Option<usize>,
    #[serde(flatten)]
    switch_history: SwitchHistory,
    /// The trial under way, and the one that ended with the latest window.
    trial: Option<Trial>,
    ended: Option<Trial>,
    /// The window that is decided next ended the trial under way early.
    #[serde(skip)]
    cut: bool,
    /// Whether its random requests have a sequential reader among them.
    #[serde(skip)]
    has_stream: Option<bool>,
    /// The window that is decided next has the effects of a switch by an opening.
    #[serde(skip)]
    settling: bool,
    /// The knowledge before the latest trial's pair, in case it is revoked.
    revocable: Option<(Trial, Arm)>,
    /// The kind and scheduler of a first window after a switch, and the tally before it.
    #[serde(skip)]
    provisional: Option<(usize, usize, MeasuredValues)>,
    /// The latest trial, and its scheduler's tally before it, in case the load changes during the trial.
    #[serde(skip)]
    before_trial: Option<(Trial, MeasuredValues)>,
}

impl Kinds {
    /// No kinds yet, for so many schedulers.
    pub(crate) fn new(schedulers: usize) -> Self {
        Self { schedulers, ..Self::default() }
    }

    /// Learns from a window with its shape, scheduler and value, and decides on the next one. `whole`: the load neither began, ended nor changed
    /// within it. `promise` is an expectation of each scheduler from
    /// elsewhere: among schedulers with equally few windows, the most promising is tried first.
    pub(crate) fn window(
        &mut self,
        shape: &Shape,
        (ran, value, whole): (SchedulerId, f64, bool),
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
                let kind = self.transition(kind, in_a_row == 1);
                self.revoke(kind);
                kind
            }
        };
        self.kinds[kind].used(ran);
        let cut = std::mem::take(&mut self.cut) && trial.is_some();
        if in_a_row == TRIAL || (cut && in_a_row < TRIAL) {
            self.compare(kind, ran, trial, better);
        }
        let settling = std::mem::take(&mut self.settling);
        let is_first = in_a_row == 1 || settling;
        self.tally(kind, (ran, value), (whole, is_first, trial));
        self.credit(kind, value, Some(ran).filter(|_| trial.is_none() && !settling));
        if let Some(trial) = trial.filter(|_| in_a_row < TRIAL && !cut) {
            return self.go_on(trial, TRIAL - in_a_row);
        }
        self.ended = trial.or(self.ended);
        self.serve(kind, (ran, in_a_row), trial.is_some(), promise, better)
    }

    /// The scheduler on trial, the value of the last window before the trial, and whether no window of the trial has ended yet.
    pub(crate) fn on_trial(&self) -> Option<(usize, f64, bool)> {
        let scheduler = self.trial?.scheduler;
        let (reference, is_first) = self.switch_history.before(scheduler)?;
        Some((scheduler, reference, is_first))
    }

    /// The next window ends the trial under way.
    pub(crate) fn end_trial(&mut self) {
        self.cut = true;
    }

    /// Of the next window: whether its random requests have a sequential reader among them; `None` for other requests.
    pub(crate) fn expect_stream(&mut self, has_stream: Option<bool>) {
        self.has_stream = has_stream;
    }

    /// These kinds, the latest last, without those that have a sequential reader among random requests where the latest one has none, or the reverse.
    pub(crate) fn without_contradiction(&self, mut kinds: Vec<usize>) -> Vec<usize> {
        let stream = |kind: usize| self.kinds.get(kind).and_then(Kind::has_stream);
        let latest = kinds.iter().rev().find_map(|&kind| stream(kind));
        kinds.retain(|&kind| stream(kind).is_none_or(|of| Some(of) == latest));
        kinds
    }

    /// Windows of the second kind are of the load of the first one.
    pub(crate) fn unite(&mut self, kept: usize, part: usize) {
        let is_load = |kind: usize| self.kinds.get(kind).is_some_and(|of| of.part_of.is_none());
        if kept != part && is_load(kept) && is_load(part) {
            self.merge_into(kept, part);
        }
    }

    /// The next window has the effects of a switch by an opening, so that no scheduler is credited with it.
    pub(crate) fn settle(&mut self) {
        self.settling = true;
    }

    /// Rates the schedulers by the values that an opening measured, and postpones the turns of those that it found behind.
    pub(crate) fn opened(&mut self, kind: usize, opened: &Opened, better: Better) {
        self.rate(kind, opened, better);
        if let Some(of) = self.kinds.get_mut(kind).filter(|_| opened.values.iter().any(Option::is_some)) {
            of.opened();
        }
    }

    /// Rates the schedulers by the values that an opening has measured so far.
    pub(crate) fn rate(&mut self, kind: usize, opened: &Opened, better: Better) {
        let Some(of) = self.kinds.get_mut(kind) else { return };
        let value = |arm: usize| opened.values.get(arm).copied().flatten().map(|of| of.value);
        let mut known = (0..opened.values.len()).filter_map(|arm| Some((arm, value(arm)?)));
        let Some((base, of_base)) = known.next() else { return };
        for (arm, of_arm) in known {
            of.pair(arm, base, ahead(of_arm, of_base, better));
        }
        // One pair may be chance; this scheduler was measured in many windows.
        let confirmed = opened.confirmed.and_then(|(arm, none)| Some((arm, none, value(arm)?, value(none)?)));
        if let Some((arm, none, of_arm, of_none)) = confirmed {
            for _ in of.arm(arm).pairs..CONFIRMED {
                of.pair(arm, none, ahead(of_arm, of_none, better));
            }
        }
    }

    /// The [significance test](crate::SignificanceTest) found no scheduler better than `none` for a kind.
    pub(crate) fn settled(&mut self, kind: usize, none: SchedulerId) {
        if let Some(of) = self.kinds.get_mut(kind) {
            of.settled(none.0);
        }
    }

    /// The significance test found a scheduler that is better than `none` for a kind.
    pub(crate) fn matters(&mut self, kind: usize) {
        if let Some(of) = self.kinds.get_mut(kind) {
            of.none_suffices = false;
        }
    }

    /// Whether the latest significance test for a kind found no scheduler better than `none`.
    pub(crate) fn none_suffices(&self, kind: usize) -> bool {
        self.kinds.get(kind).is_some_and(|of| of.none_suffices)
    }

    /// The device rejects a scheduler: counted as a total loss for the kind, and retried after the same delay.
    pub(crate) fn rejected(&mut self, scheduler: SchedulerId) {
        self.trial = self.trial.filter(|trial| trial.scheduler != scheduler.0);
        if let Some(kind) = self.served.and_then(|kind| self.kinds.get_mut(kind)) {
            kind.rejected(scheduler.0);
        }
    }

    /// What each scheduler is known to give a kind.
    pub(crate) fn means(&self, kind: Option<usize>, better: Better) -> Vec<Option<f64>> {
        let expected = kind.and_then(|kind| self.expected(kind, better)).unwrap_or_default();
        expected.into_iter().map(|known| known.map(|(mean, _)| mean)).collect()
    }

    /// The kind whose shape is the most alike, and how much.
    fn nearest(&self, shape: &Shape) -> Option<(usize, f64)> {
        let alike = |kind: &Kind| if kind.may_have(self.has_stream) { kind.similarity(shape) } else { 0.0 };
        let alike = self.kinds.iter().map(alike).enumerate();
        alike.reduce(|best, other| if other.1 > best.1 { other } else { best })
    }

    /// The kind of a window of this shape.
    fn find(&mut self, shape: &Shape) -> usize {
        match self.nearest(shape) {
            Some((kind, alike)) if alike >= ALIKE || self.kinds.len() >= MOST => {
                self.kinds[kind].blend(shape);
                self.kinds[kind].set_stream(self.has_stream);
                self.kinds[kind].part_of.unwrap_or(kind)
            }
            _ => {
                self.kinds.push(Kind::new(shape.clone(), self.schedulers));
                let kind = self.kinds.len() - 1;
                self.kinds[kind].set_stream(self.has_stream);
                kind
            }
        }
    }

    /// Records the transition from the latest kind to this one, and merges the two if they are one load; returns the kind.
    fn transition(&mut self, kind: usize, switched: bool) -> usize {
        let before = self.latest.replace(kind).filter(|&before| before != kind);
        let Some(before) = before.filter(|&before| self.transitions.note(before, kind, switched)) else {
            return kind;
        };
        let known_longer = self.kinds[before].windows >= self.kinds[kind].windows;
        let (kept, part) = if known_longer { (before, kind) } else { (kind, before) };
        self.merge_into(kept, part);
        kept
    }

    /// Merges `part` into `kept`, about which more is known.
    fn merge_into(&mut self, kept: usize, part: usize) {
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

    fn forget_trials(&mut self, kind: usize) {
        self.trial = self.trial.filter(|trial| trial.kind != kind);
        self.ended = self.ended.filter(|trial| trial.kind != kind);
        self.revocable = self.revocable.filter(|(trial, _)| trial.kind != kind);
        self.before_trial = self.before_trial.filter(|(trial, _)| trial.kind != kind);
        self.provisional = self.provisional.filter(|of| of.0 != kind);
    }

    /// If the first window after a trial belongs to another kind, the load has changed, and the trial's pair is forgotten.
    fn revoke(&mut self, kind: usize) {
        if let Some((trial, before)) = self.before_trial.take().filter(|(trial, _)| trial.kind != kind)
            && let Some(tally) = self.kinds[trial.kind].tally_mut(trial.scheduler)
        {
            *tally = before;
        }
        if let Some((trial, before)) = self.revocable.take().filter(|(trial, _)| trial.kind != kind) {
            self.kinds[trial.kind].rate_again(trial.scheduler, before);
            self.ended = None;
        }
    }

    /// Adds a window to its scheduler's tally. `is_first`: it is the first one after a switch.
    fn tally(
        &mut self,
        kind: usize,
        (ran, value): (usize, f64),
        (whole, is_first, trial): (bool, bool, Option<Trial>),
    ) {
        let Some(tally) = self.kinds[kind].tally_mut(ran) else { return };
        if let Some(trial) = trial.filter(|_| is_first) {
            self.before_trial = Some((trial, *tally));
        }
        let provisional = self.provisional.take().filter(|of| (of.0, of.1) == (kind, ran));
        if !whole {
            self.provisional = provisional;
            return;
        }
        if is_first {
            self.provisional = Some((kind, ran, *tally));
        } else if let Some((.., before)) = provisional {
            *tally = before;
        }
        tally.add(value);
    }

    /// Compares the scheduler in use with the one before. The result goes to the one that is or was on trial, otherwise to the less known one.
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
        // The first comparison is kept: there was no knowledge before it.
        self.revocable = trial.filter(|_| mine.pairs > 0).map(|trial| (trial, mine));
    }

    /// Credits a window to the schedulers that are responsible for it in each kind; a window on trial counts for no scheduler of its kind.
    fn credit(&mut self, kind: usize, value: f64, by: Option<usize>) {
        for (index, of) in self.kinds.iter_mut().enumerate() {
            match by {
                _ if index != kind => of.credits.afterwards(value),
                Some(scheduler) => of.credits.served(scheduler, value),
                None => {}
            }
        }
    }

    /// Goes on with a trial for so many windows.
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

    /// Chooses the scheduler for the next window. `ran` has been in use for `in_a_row` windows; `tried`: it ended a trial.
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
