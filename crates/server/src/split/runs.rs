//! The causes of requests: what was submitted to the attached device is joined with what arrives by sector.

use std::collections::VecDeque;

use elevator::{CauseSet, Sector, Sectors};

/// Submissions that are remembered: many times those in flight.
const REMEMBERED: usize = 8192;

/// A submission.
struct Run {
    is_read: bool,
    start: Sector,
    end: Sector,
    causes: CauseSet,
}

/// The latest submissions.
#[derive(Default)]
pub(super) struct Runs(VecDeque<Run>);

impl Runs {
    pub(super) fn add(&mut self, is_read: bool, start: Sector, sectors: Sectors, causes: CauseSet) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(Run { is_read, start, end: start + sectors, causes });
    }

    /// The causes of a request: those of the latest submissions of its sectors.
    pub(super) fn causes(&self, is_read: bool, start: Sector, sectors: Sectors) -> Vec<CauseSet> {
        let (end, mut found, mut left) = (start + sectors, Vec::new(), u64::from(sectors.0));
        let overlapping =
            self.0.iter().rev().filter(|run| run.is_read == is_read && run.start < end && run.end > start);
        for run in overlapping {
            if !found.contains(&run.causes) {
                found.push(run.causes);
            }
            left = left.saturating_sub(run.end.min(end).0 - run.start.max(start).0);
            if left == 0 {
                break;
            }
        }
        found
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_causes_of_the_latest_submissions_of_its_sectors() {
        let mut runs = Runs::default();
        runs.add(false, Sector(0), Sectors(16), CauseSet(1));
        runs.add(false, Sector(0), Sectors(8), CauseSet(2));
        runs.add(true, Sector(0), Sectors(8), CauseSet(3));
        let causes = |start, sectors| runs.causes(false, Sector(start), Sectors(sectors));
        assert_eq!(causes(0, 8), [CauseSet(2)]);
        assert_eq!(causes(8, 8), [CauseSet(1)]);
        assert_eq!(causes(4, 8), [CauseSet(2), CauseSet(1)]);
        assert_eq!(causes(100, 8), []);
        assert_eq!(runs.causes(true, Sector(0), Sectors(8)), [CauseSet(3)]);
    }
}
