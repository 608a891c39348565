//! Which kinds are one load: what a scheduler makes of it is not another load.
//!
//! # Idea
//! A shape hardly depends on the scheduler, but of readers who share a cache one scheduler makes other ones than another. A load that
//! is two kinds, each under its own favourite, goes to and fro between them at every window, and neither ever learns what comes of
//! one scheduler. Loads change when they like; kinds that change when the *scheduler* does are one load.
//!
//! # Not for
//! Windows on trial and the ones after them: they are of the kind that the trial is for, and while it lasted the load may have changed.

use serde::{Deserialize, Serialize};

use crate::saved::COUNT_MAX;

/// Times that one kind gave way to another right at a switch, from which on they may be one load: once and twice are chance.
const TIMES: u64 = 3;
/// One in so many of their changes must have been at a switch. Loads that change by themselves meet one as often as there are
/// switches, of which settled kinds make one in some dozens of windows.
const PART: u64 = 4;

/// How often two kinds gave way to each other.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct KindTransition {
    /// The lower number first.
    kinds: (usize, usize),
    times: u64,
    /// Of those with another scheduler from one window to the next.
    switched: u64,
}

/// All of them.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct KindTransitions(Vec<KindTransition>);

impl KindTransitions {
    /// A window was of kind `from` and the next one of `to`. Whether that makes them one load.
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

    /// Whether nothing would overflow.
    pub(super) fn is_sound(&self) -> bool {
        self.0.iter().all(|passing| passing.times.max(passing.switched) <= COUNT_MAX)
    }

    /// Every kind that is named.
    pub(super) fn kinds(&self) -> impl Iterator<Item = usize> {
        self.0.iter().flat_map(|passing| [passing.kinds.0, passing.kinds.1])
    }

    /// Forgets a kind that is none of its own any more.
    pub(super) fn forget(&mut self, kind: usize) {
        self.0.retain(|passing| passing.kinds.0 != kind && passing.kinds.1 != kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_change_with_the_scheduler_are_one_load_and_others_are_not() {
        let mut transitions = KindTransitions::default();
        assert_eq!(
            [(0, 1), (1, 0), (0, 1)].map(|(from, to)| transitions.note(from, to, true)),
            [false, false, true]
        );
        // Loads in turn; at every sixth change the scheduler happens to change, too.
        assert!((0..600).all(|n| !transitions.note(n % 2 + 2, (n + 1) % 2 + 2, n % 6 == 5)));
        transitions.forget(1);
        assert!(transitions.kinds().all(|kind| kind >= 2));
    }
}
