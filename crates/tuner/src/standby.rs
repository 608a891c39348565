//! Standby: where a choice does not matter, the tuner stops watching and looks only at the kernel's counters.
//!
//! A device at standby is watched again when several windows in a row have a load unlike every load for which no choice mattered.

use crate::load::Load;

/// Windows in a row that are like nothing known before it is a reason.
const IN_A_ROW: u32 = 3;
/// Loads that are remembered; beyond them the oldest goes.
const KEPT: usize = 16;
/// The loads for which no choice mattered.
#[derive(Clone, Default, Debug)]
pub(crate) struct Known {
    loads: Vec<Load>,
    /// What the question is asked for again.
    asked_for: Option<Load>,
    /// The next one is what the answer was found for.
    settling: bool,
    strange: u32,
}

impl Known {
    /// Nothing matters for what it was asked for, nor for what comes next.
    pub(crate) fn answered(&mut self) {
        (self.settling, self.strange) = (true, 0);
        if let Some(load) = self.asked_for.take() {
            self.keep(load);
        }
    }

    /// It does matter.
    pub(crate) const fn refuted(&mut self) {
        self.asked_for = None;
    }

    /// A window at rest: why to ask again, if there is a reason.
    pub(crate) fn watch(&mut self, load: &Load) -> Option<String> {
        let others: Option<Vec<String>> = self.loads.iter().map(|known| load.differs_from(known)).collect();
        let Some(mut others) = others else {
            (self.settling, self.strange) = (false, 0);
            return None;
        };
        if std::mem::take(&mut self.settling) {
            self.keep(*load);
            return None;
        }
        self.strange += 1;
        let again = self.strange >= IN_A_ROW;
        self.asked_for = again.then_some(*load);
        // The latest one known is what it was asked for before.
        others.pop().filter(|_| again)
    }

    fn keep(&mut self, load: Load) {
        if self.loads.len() == KEPT {
            self.loads.remove(0);
        }
        self.loads.push(load);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Load =
        Load { iops: 8000.0, bandwidth: 32768e3, size: 4096.0, reads: 1.0, under_way: 8.0, latency: 1e-3 };

    #[test]
    fn it_takes_three_in_a_row_and_what_was_asked_about_is_known() {
        let large = Load { size: 131_072.0, ..SMALL };
        let mut known = Known::default();
        known.answered();
        let watched = [SMALL, large, large, SMALL, large, large].map(|load| known.watch(&load));
        assert!(watched.iter().all(Option::is_none));
        assert!(known.watch(&large).is_some(), "the third in a row");
        known.answered();
        for load in [large, SMALL, SMALL, SMALL, large, large, large] {
            assert_eq!(known.watch(&load), None, "both were asked about");
        }
    }
}
