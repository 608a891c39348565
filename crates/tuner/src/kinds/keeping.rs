//! What is saved of kinds and taken over, shown, and merged or forgotten by hand.

use super::Shape;
use super::{Kinds, Trial};
use crate::saved::place_now;
use ioanalyzer::Better;
use ioanalyzer::SchedulerId;

impl Kinds {
    /// What was saved, for other schedulers: `from[s]` is where scheduler `s` stands in the saved lists, if it does.
    pub(crate) fn restored(self, from: &[Option<usize>]) -> Self {
        let trial = |trial: Trial| Some(Trial { scheduler: place_now(trial.scheduler, from)?, ..trial });
        Self {
            kinds: self.kinds.iter().map(|kind| kind.restored(from)).collect(),
            schedulers: from.len(),
            switch_history: self.switch_history.restored(from),
            trial: self.trial.and_then(trial),
            ended: self.ended.and_then(trial),
            doubted: self.doubted.and_then(|(of, arm)| Some((trial(of)?, arm))),
            ..self
        }
    }

    /// Appends to each kind what is known of other schedulers; of a kind that is not among `others`, nothing.
    pub(crate) fn put_beside(&mut self, others: Self) {
        self.schedulers += others.schedulers;
        let mut of = others.kinds.into_iter();
        self.kinds.iter_mut().for_each(|kind| kind.put_beside(of.next(), self.schedulers));
    }

    /// Whether this code can have written it.
    pub(crate) fn check(&self) -> Result<(), String> {
        let trials = self.trial.into_iter().chain(self.ended).chain(self.doubted.map(|doubted| doubted.0));
        let parts = self.kinds.iter().filter_map(|kind| kind.part_of);
        let latest = self.served.into_iter().chain(self.latest).chain(parts).chain(self.transitions.kinds());
        let mut named = latest.chain(trials.map(|trial| trial.kind));
        if let Some(unknown) = named.find(|&kind| kind >= self.kinds.len()) {
            return Err(format!("kind {unknown} is named, but is not there"));
        }
        self.switch_history.check()?;
        if !self.transitions.is_sound() {
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
        self.switch_history.forget(scheduler.0);
        self.doubted = self.doubted.filter(|(trial, _)| trial.scheduler != scheduler.0);
    }

    /// What each scheduler is expected to give a kind, by its number in [`KindDecision`](super::KindDecision), and how many of its windows it served; `None`
    /// of one that was never tried. Nothing if there is no such kind, or no scheduler was in use for it but for trials.
    #[must_use]
    pub fn expected(&self, kind: usize, better: Better) -> Option<Vec<Option<(f64, u64)>>> {
        self.kinds.get(kind)?.expected(better)
    }

    /// By how much `to` is ahead of `from` for a kind beyond what chance explains, as a part of the greater value; 0 if that is not known.
    #[must_use]
    pub fn surely_ahead(&self, kind: usize, to: SchedulerId, from: SchedulerId, better: Better) -> f64 {
        self.kinds.get(kind).map_or(0.0, |kind| kind.surely_ahead(to.0, from.0, better))
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

    /// Whether no window was seen so far.
    pub(crate) const fn know_nothing(&self) -> bool {
        self.kinds.is_empty()
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
        self.forget_trials(kind);
        Ok(())
    }

    fn must_be_a_load(&self, kind: usize) -> Result<(), String> {
        let missing = || format!("there is no kind {kind}; 'dwell patterns list' shows which there are");
        self.load(kind).map(|_| ()).ok_or_else(missing)
    }
}
