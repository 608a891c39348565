//! What the tuner's database and the device's profile show about the arms for the observed load.

use capture::profile::Profile;
use tuner::{Analyser, Better, Decision, Estimate, KindDecision, Kinds, SchedulerId, Values, Why};

use super::Advice;

/// What the database's history shows about the arms, summed over the windows for whose kind of load the arm in use was measured. An arm that was not
/// measured for a window's kind counts as equal in that window.
pub(super) struct History {
    /// The operator's arm; `None` if the operator's scheduler is not an arm.
    pub(super) now: Option<usize>,
    /// The arm in use: another one if a killed tuner has left it.
    pub(super) in_use: Option<usize>,
    better: Better,
    /// What the tuner saved. The windows of this command have values of the scheduler in use only, which would favour or disfavour it by chance.
    pub(super) saved: Option<Kinds>,
    /// The value of the arm in use, summed over the windows.
    pub(super) base: f64,
    arms: Vec<Compared>,
    /// `none`, if it is an arm, and the windows for whose kind of load no arm is better than it: the answer of 'dwell patterns'.
    none: Option<usize>,
    pub(super) none_suffices: u32,
    /// The arm that the device's profile prefers, and the reason. Used if there is no history.
    pub(super) profiled: Option<(usize, String)>,
}

/// An arm compared with the one in use.
#[derive(Clone, Copy, Default)]
pub(super) struct Compared {
    /// Its gain, summed over the windows for which it was measured.
    pub(super) gained: f64,
    /// The significant part of the gain.
    pub(super) surely: f64,
    pub(super) windows: u32,
    /// The number of measurements.
    pub(super) measured: u64,
}

/// The history of each arm for the window's cluster or kind of load. `None` for the first window of its kind.
pub(super) fn history_of(
    analyser: &Analyser,
    decision: &Decision,
    history: &History,
) -> Option<Vec<Option<Estimate>>> {
    match decision.why {
        Why::Kind(KindDecision { kind, windows, .. }) if windows > 1 => {
            let saved = history.saved.as_ref()?;
            let knowledge = saved.compared(kind, history.now.map(SchedulerId), history.better)?;
            // Compared with another scheduler, the figures have no meaning here.
            Some(knowledge.base.0)
                .filter(|base| history.now.is_none_or(|now| now == *base))
                .map(|_| knowledge.estimates)
        }
        Why::Best { .. } | Why::Untested { .. } => {
            let cluster = analyser.store().get(decision.cluster?)?;
            // The paper compares means only.
            let of = |values: &Values| {
                Some(Estimate { value: values.mean()?, windows: values.count() as u64, surely: 1.0 })
            };
            Some(cluster.performance.iter().map(of).collect())
        }
        _ => None,
    }
}

impl History {
    pub(super) fn new(arms: &[String], current: &str, better: Better) -> Self {
        let now = arms.iter().position(|name| name == current);
        let none = arms.iter().position(|name| name == "none");
        let arms = vec![Compared::default(); arms.len()];
        Self {
            now,
            in_use: now,
            better,
            saved: None,
            base: 0.0,
            arms,
            none,
            none_suffices: 0,
            profiled: None,
        }
    }

    /// Of a load that is observed under this arm, with what the tuner saved.
    #[must_use]
    pub(super) fn observed_under(self, in_use: &str, names: &[String], saved: Option<Kinds>) -> Self {
        Self { in_use: names.iter().position(|name| name == in_use), saved, ..self }
    }

    /// Notes a decision after a window of this command. Returns whether the load has a history. Without saved knowledge, a window resembles earlier
    /// windows under the same scheduler only.
    pub(super) fn learn(&mut self, analyser: &Analyser, decision: &Decision) -> bool {
        let known = history_of(analyser, decision, self).filter(|_| self.saved.is_some());
        if let Some(of) = &known {
            self.add(of);
            self.note_none(decision);
        }
        self.note_profile(decision, analyser.schedulers());
        known.is_some()
    }

    pub(super) fn add(&mut self, of: &[Option<Estimate>]) {
        let Some(Estimate { value: base, .. }) = self.now.and_then(|now| of[now]) else { return };
        self.base += base;
        for (arm, of) in self.arms.iter_mut().zip(of) {
            if let Some(Estimate { value, windows, surely }) = *of {
                arm.gained += self.better.oriented(value - base);
                arm.surely += surely;
                arm.windows += 1;
                arm.measured += windows;
            }
        }
    }

    /// Notes a window for whose kind of load no arm is better than `none`.
    fn note_none(&mut self, decision: &Decision) {
        let (Why::Kind(KindDecision { kind, .. }), Some(none)) = (&decision.why, self.none) else {
            return;
        };
        let saved = self.saved.as_ref();
        let known = saved.and_then(|saved| saved.compared(*kind, Some(SchedulerId(none)), self.better));
        self.none_suffices += u32::from(known.is_some_and(|known| known.best() == SchedulerId(none)));
    }

    pub(super) fn note_profile(&mut self, decision: &Decision, names: &[String]) {
        if let (Why::APriori { .. }, Some(best), true) = (&decision.why, decision.scheduler, decision.change)
        {
            self.profiled = Some((best.0, decision.line(names)));
        }
    }

    /// Drops the profile's preference if the confidence intervals of the two schedulers overlap for this load.
    pub(super) fn keep_significant(&mut self, profile: &Profile, names: &[String], advice: &Advice) {
        let Some((best, _)) = &self.profiled else { return };
        let (best, current, load) = (&*names[*best], &*advice.scheduler, advice.load());
        let why = match profile.is_surely_better(best, current, &load) {
            Some(true) => return,
            Some(false) => format!(
                "the profile has no significant difference between {best} and {current} for this load"
            ),
            None => format!(
                "the profile has no confidence intervals for {best} and {current}; measure the device again with 'dwell profile'"
            ),
        };
        say!("{why}");
        self.profiled = None;
    }

    /// The mean value of the arm in use over the windows for whose kind of load it was measured.
    pub(super) fn mean_in_use(&self) -> Option<f64> {
        let windows = self.arms[self.now.filter(|now| self.in_use == Some(*now))?].windows;
        (windows > 0).then(|| self.base / f64::from(windows))
    }

    /// `none`, if another scheduler is in use that is not better than it in most of the windows.
    pub(super) fn none_instead(&self) -> Option<usize> {
        let none = self.none.filter(|none| self.now.is_some_and(|now| now != *none))?;
        (self.none_suffices * 2 > self.arms[none].windows).then_some(none)
    }

    /// The best arm, if another arm than the one in use was measured.
    pub(super) fn best(&self) -> Option<(usize, Compared)> {
        let tried = || self.arms.iter().copied().enumerate().filter(|(_, arm)| arm.windows > 0);
        tried().find(|(arm, _)| Some(*arm) != self.now)?;
        tried().max_by(|a, b| a.1.gained.total_cmp(&b.1.gained))
    }
}
