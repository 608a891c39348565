//! Who was in use after whom: what a scheduler's windows are compared with is the last window before it.

use serde::{Deserialize, Serialize};

use super::kind::TRIAL;
use crate::saved::{COUNT_MAX, place_now};

/// The scheduler in use and the one before it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct SwitchHistory {
    /// The scheduler of the latest window, for how many in a row, and what that window gave.
    ran: Option<(usize, u64)>,
    value: f64,
    /// The scheduler before that one, and what its last window gave, unless that was its first, too: a switch shows in that.
    left: Option<(usize, f64)>,
}

impl SwitchHistory {
    /// A window ended in which this scheduler gave that; for how many windows it has been in use.
    pub(super) fn ran(&mut self, scheduler: usize, value: f64) -> u64 {
        let in_a_row = match self.ran {
            Some((same, row)) if same == scheduler => row + 1,
            before => {
                self.left = before.filter(|before| before.1 >= TRIAL).map(|before| (before.0, self.value));
                1
            }
        };
        (self.ran, self.value) = (Some((scheduler, in_a_row)), value);
        in_a_row
    }

    /// The scheduler before the one in use, what it gave last, and what the latest window gave; once.
    pub(super) fn take_pair(&mut self) -> Option<(usize, f64, f64)> {
        self.left.take().map(|(before, then)| (before, then, self.value))
    }

    /// For other schedulers: `from[s]` is where scheduler `s` stands so far, if it does.
    pub(super) fn restored(self, from: &[Option<usize>]) -> Self {
        Self {
            ran: self.ran.and_then(|(ran, row)| Some((place_now(ran, from)?, row))),
            left: self.left.and_then(|(left, value)| Some((place_now(left, from)?, value))),
            ..self
        }
    }

    /// A scheduler counts as new: what it gave last says nothing of what it stands for now.
    pub(super) fn forget(&mut self, scheduler: usize) {
        self.ran = self.ran.filter(|ran| ran.0 != scheduler);
        self.left = self.left.filter(|left| left.0 != scheduler);
    }

    /// Whether this code can have written it.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.ran.filter(|ran| ran.1 > COUNT_MAX) {
            Some((_, windows)) => Err(format!("a scheduler ran for {windows} windows in a row")),
            None => Ok(()),
        }
    }
}
