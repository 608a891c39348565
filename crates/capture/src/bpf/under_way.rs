//! Submissions that were reported and have not come back.

use elevator::{Span, Time};
use hashbrown::HashMap;

use super::record::Bio;
use crate::event::{Arrival, Completed};

/// More than this many are not under way: the completions of some were lost.
const LENGTH_MAX: usize = 1 << 16;
/// Then those are forgotten that arrived longer ago than any disk takes (Linux gives up a request after 30 s).
const AGE_MAX: Span = Span::from_secs(60);

/// Joins arrivals with their completions.
#[derive(Default)]
pub(super) struct UnderWay {
    table: HashMap<Bio, Arrival>,
}

impl UnderWay {
    pub(super) fn arrived(&mut self, bio: Bio, arrival: Arrival) {
        if self.table.len() >= LENGTH_MAX {
            self.table.retain(|_, old| arrival.at.since(old.at) < AGE_MAX);
            if self.table.len() >= LENGTH_MAX {
                self.table.clear();
            }
        }
        // An address that is there already is of one whose completion was lost.
        self.table.insert(bio, arrival);
    }

    /// `None` if its arrival was not reported.
    pub(super) fn completed(&mut self, bio: Bio, at: Time, failed: bool) -> Option<Completed> {
        self.table.remove(&bio).map(|arrival| Completed { arrival, at, failed })
    }
}
