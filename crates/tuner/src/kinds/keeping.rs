//! Saves and restores kinds of load; shows, merges and forgets them for `dwell patterns`.

use super::measured_values::MeasuredValues;
use super::shape::Shape;
use super::{Kinds, Trial};
use crate::saved::place_now;
use observation::Better;

impl Kinds {
    /// The saved kinds for another list of schedulers: `from[s]` is the index of scheduler `s` in the saved lists, if it is there.
    pub(crate) fn restored(self, from: &[Option<usize>]) -> Self {
        let trial = |trial: Trial| Some(Trial { scheduler: place_now(trial.scheduler, from)?, ..trial });
        Self {
            kinds: self.kinds.iter().map(|kind| kind.restored(from)).collect(),
            schedulers: from.len(),
            switch_history: self.switch_history.restored(from),
            trial: self.trial.and_then(trial),
            ended: self.ended.and_then(trial),
            revocable: self.revocable.and_then(|(of, arm)| Some((trial(of)?, arm))),
            ..self
        }
    }

    /// Appends the knowledge about other schedulers to each kind.
    pub(crate) fn put_beside(&mut self, others: Self) {
        self.schedulers += others.schedulers;
        let mut of = others.kinds.into_iter();
        self.kinds.iter_mut().for_each(|kind| kind.put_beside(of.next(), self.schedulers));
    }

    /// Whether the state is valid.
    pub(crate) fn check(&self) -> Result<(), String> {
        let trials =
            self.trial.into_iter().chain(self.ended).chain(self.revocable.map(|revocable| revocable.0));
        let parts = self.kinds.iter().filter_map(|kind| kind.part_of);
        let latest = self.served.into_iter().chain(self.latest).chain(parts).chain(self.transitions.kinds());
        let mut named = latest.chain(trials.map(|trial| trial.kind));
        if let Some(unknown) = named.find(|&kind| kind >= self.kinds.len()) {
            return Err(format!("kind {unknown} is named but does not exist"));
        }
        self.switch_history.check()?;
        if !self.transitions.is_sound() {
            return Err("a transition between kinds has an impossible count".to_string());
        }
        match self.kinds.iter().position(|kind| !kind.is_sound()) {
            Some(broken) => Err(format!("kind {broken} has no valid shape or holds an impossible number")),
            None => Ok(()),
        }
    }

    /// The expected value of each scheduler for a kind, and the number of windows that it served; `None` for one that was never tried. Nothing if there
    /// is no such kind, or only trials took place.
    pub fn expected(&self, kind: usize, better: Better) -> Option<Vec<Option<(f64, u64)>>> {
        self.kinds.get(kind)?.expected(better)
    }

    /// What was measured of each scheduler for a kind; `None` without a whole window. Nothing if there is no such kind.
    pub fn tallies(&self, kind: usize) -> Option<Vec<Option<MeasuredValues>>> {
        Some(self.kinds.get(kind)?.tallies())
    }

    /// The number of kinds; merged ones count once.
    pub fn count(&self) -> usize {
        self.loads().count()
    }

    /// The numbers of the kinds that were not merged into another.
    pub fn loads(&self) -> impl Iterator<Item = usize> {
        (0..self.kinds.len()).filter(|&kind| self.kinds[kind].part_of.is_none())
    }

    /// The shape and the number of windows of a kind.
    pub fn load(&self, kind: usize) -> Option<(&Shape, u64)> {
        let of = self.kinds.get(kind).filter(|of| of.part_of.is_none())?;
        Some((of.shape(), of.windows))
    }

    /// Whether no window was added yet.
    pub(crate) const fn know_nothing(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Merges two kinds; the knowledge of `into` holds for both.
    ///
    /// # Errors
    /// One of them does not exist, or both are the same.
    pub fn merge(&mut self, into: usize, other: usize) -> Result<(), String> {
        self.must_be_a_load(into)?;
        self.must_be_a_load(other)?;
        if into == other {
            return Err(format!("kind {into} cannot be merged with itself"));
        }
        self.merge_into(into, other);
        Ok(())
    }

    /// Forgets each scheduler's measurements for a kind. Its windows are still recognised.
    pub fn forget_load(&mut self, kind: usize) -> Result<(), String> {
        self.must_be_a_load(kind)?;
        self.kinds[kind] = self.kinds[kind].unlearned();
        self.forget_trials(kind);
        Ok(())
    }

    fn must_be_a_load(&self, kind: usize) -> Result<(), String> {
        let missing = || format!("no kind {kind}; 'dwell patterns list' shows all");
        self.load(kind).map(|_| ()).ok_or_else(missing)
    }
}
