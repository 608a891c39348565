//! Standby: if the choice of a scheduler has no significant effect, the tuner stops the capture and reads only the kernel's counters.
//!
//! The capture resumes when several windows in a row have a load that differs from every load for which the test was negative.

use crate::load::Load;

/// Consecutive windows of untested loads after which the test is repeated.
const IN_A_ROW: u32 = 3;
/// Limit of stored loads; beyond it, the oldest is dropped.
const KEPT: usize = 16;
/// The loads for which the test was negative.
#[derive(Clone, Default, Debug)]
pub(crate) struct Known {
    loads: Vec<Load>,
    /// The load for which the test is repeated.
    asked_for: Option<Load>,
    /// The next window shows the load of the latest test.
    settling: bool,
    strange: u32,
}

impl Known {
    /// The test was negative for its load, and for the load of the next window.
    pub(crate) fn answered(&mut self) {
        (self.settling, self.strange) = (true, 0);
        if let Some(load) = self.asked_for.take() {
            self.keep(load);
        }
    }

    /// The test was positive.
    pub(crate) const fn refuted(&mut self) {
        self.asked_for = None;
    }

    /// A window on standby. Returns how its load differs, if the test is to be repeated.
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
        // Compared with the latest stored load.
        others.pop().filter(|_| again)
    }

    /// Whether a load was found for which the test is repeated.
    pub(crate) const fn asks(&self) -> bool {
        self.asked_for.is_some()
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

    const SMALL: Load = Load::SMALL;

    #[test]
    fn three_windows_of_an_unknown_load_start_one_test() {
        let large = Load { size: 131_072.0, ..SMALL };
        let mut known = Known::default();
        known.answered();
        let watched = [SMALL, large, large, SMALL, large, large].map(|load| known.watch(&load));
        assert!(watched.iter().all(Option::is_none));
        assert!(known.watch(&large).is_some(), "the third in a row");
        known.answered();
        for load in [large, SMALL, SMALL, SMALL, large, large, large] {
            assert_eq!(known.watch(&load), None, "both loads were tested");
        }
    }
}
