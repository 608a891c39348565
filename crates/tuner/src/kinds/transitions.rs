//! Transitions between kinds: kinds that change together with the scheduler are one load.
//!
//! # Idea
//! A shape hardly depends on the scheduler, but readers that share a cache look different under another scheduler. Such a load would alternate
//! between two kinds, each with its own best scheduler, and neither kind would learn the long-term effect of one scheduler. Loads change at
//! any time; kinds that change when the *scheduler* does are one load.
//!
//! # Not for
//! Windows on trial and the first after them: they belong to the kind of the trial, during which the load may have changed.

use serde::{Deserialize, Serialize};

use crate::saved::COUNT_MAX;

/// Transitions at a switch from which on two kinds may be one load; fewer may be chance.
const TIMES: u64 = 3;
/// At least one in so many transitions must be at a switch. Loads that change by themselves coincide with switches as often as those occur: once in
/// some dozens of windows for a settled kind.
const PART: u64 = 4;

/// The transitions between two kinds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct KindTransition {
    /// The lower number first.
    kinds: (usize, usize),
    times: u64,
    /// Those at a switch of the scheduler.
    switched: u64,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct KindTransitions(Vec<KindTransition>);

impl KindTransitions {
    /// Records a transition; returns whether the two kinds are one load.
    pub(super) fn note(&mut self, from: usize, to: usize, switched: bool) -> bool {
        let kinds = (from.min(to), from.max(to));
        let place = self.0.iter().position(|passing| passing.kinds == kinds).unwrap_or_else(|| {
            self.0.push(KindTransition { kinds, times: 0, switched: 0 });
            self.0.len() - 1
        });
        let passing = &mut self.0[place];
        passing.times += 1;
        passing.switched += u64::from(switched);
        passing.switched >= TIMES && passing.switched * PART >= passing.times
    }

    /// Whether no count would overflow.
    pub(super) fn is_sound(&self) -> bool {
        self.0.iter().all(|passing| passing.times.max(passing.switched) <= COUNT_MAX)
    }

    /// Every kind that is named.
    pub(super) fn kinds(&self) -> impl Iterator<Item = usize> {
        self.0.iter().flat_map(|passing| [passing.kinds.0, passing.kinds.1])
    }

    /// Forgets a merged kind.
    pub(super) fn forget(&mut self, kind: usize) {
        self.0.retain(|passing| passing.kinds.0 != kind && passing.kinds.1 != kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kinds_that_change_with_the_scheduler_are_one_load() {
        let mut transitions = KindTransitions::default();
        assert_eq!(
            [(0, 1), (1, 0), (0, 1)].map(|(from, to)| transitions.note(from, to, true)),
            [false, false, true]
        );
        // Alternating loads; at each sixth transition the scheduler changes by coincidence.
        assert!((0..600).all(|n| !transitions.note(n % 2 + 2, (n + 1) % 2 + 2, n % 6 == 5)));
        transitions.forget(1);
        assert!(transitions.kinds().all(|kind| kind >= 2));
    }
}
