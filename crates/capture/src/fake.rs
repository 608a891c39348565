//! A source for tests with prepared events.

use std::collections::VecDeque;
use std::time::Duration;

use crate::error::Error;
use crate::event::Batch;
use crate::source::{Backend, Counts, Source};

/// Returns prepared batches, one per call, and then nothing.
#[derive(Clone, Default, Debug)]
pub struct Fake {
    batches: VecDeque<Batch>,
    counts: Counts,
}

impl Fake {
    /// With these batches.
    pub fn new(batches: impl IntoIterator<Item = Batch>) -> Self {
        Self { batches: batches.into_iter().collect(), counts: Counts::default() }
    }

    /// With this many omitted and lost submissions.
    #[must_use]
    pub const fn missing(mut self, skipped: u64, lost: u64) -> Self {
        (self.counts.skipped, self.counts.lost) = (skipped, lost);
        self.counts.arrived += skipped + lost;
        self
    }

    /// With this many lost ends.
    #[must_use]
    pub const fn missing_ends(mut self, lost: u64) -> Self {
        self.counts.ends_lost = lost;
        self
    }
}

impl Source for Fake {
    fn take(&mut self, batch: &mut Batch, _patience: Duration) -> Result<(), Error> {
        let next = self.batches.pop_front().unwrap_or_default();
        self.counts.arrived += next.arrivals.len() as u64;
        batch.arrivals.extend(next.arrivals);
        batch.completed.extend(next.completed);
        batch.exited.extend(next.exited);
        Ok(())
    }

    fn counts(&self) -> Result<Counts, Error> {
        Ok(self.counts)
    }

    fn backend(&self) -> Backend {
        Backend::Fake
    }
}
