//! The latest switch: a window is compared with the last one before it.

use serde::{Deserialize, Serialize};

use super::kind::TRIAL;
use crate::saved::{COUNT_MAX, place_now};

/// The scheduler in use and the one before it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct SwitchHistory {
    /// The scheduler of the latest window, for how many windows in a row, and the window's value.
    ran: Option<(usize, u64)>,
    value: f64,
    /// The scheduler before, and the value of its last window, unless that was also its first, which shows the effect of a switch.
    left: Option<(usize, f64)>,
}

impl SwitchHistory {
    /// Records a window; returns for how many windows in a row its scheduler has been in use.
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

    /// The value with which a scheduler on trial is compared, and whether its first window is still to end. `None` if the scheduler before served one
    /// window only.
    pub(super) fn before(&self, scheduler: usize) -> Option<(f64, bool)> {
        match self.ran? {
            (ran, _) if ran == scheduler => self.left.map(|(_, value)| (value, false)),
            (_, in_a_row) => (in_a_row >= TRIAL).then_some((self.value, true)),
        }
    }

    /// The scheduler before, the value of its last window, and the value of the latest window; once per switch.
    pub(super) fn take_pair(&mut self) -> Option<(usize, f64, f64)> {
        self.left.take().map(|(before, then)| (before, then, self.value))
    }

    /// For another list of schedulers: `from[s]` is the present index of scheduler `s`, if it is there.
    pub(super) fn restored(self, from: &[Option<usize>]) -> Self {
        Self {
            ran: self.ran.and_then(|(ran, row)| Some((place_now(ran, from)?, row))),
            left: self.left.and_then(|(left, value)| Some((place_now(left, from)?, value))),
            ..self
        }
    }

    /// Whether the state is valid.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.ran.filter(|ran| ran.1 > COUNT_MAX) {
            Some((_, windows)) => Err(format!("a scheduler ran for {windows} windows in a row")),
            None => Ok(()),
        }
    }
}
