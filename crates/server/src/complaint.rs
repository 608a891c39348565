//! What may happen as often as others like, and is told to people seldom.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the same thing is not told again.
const QUIET: Duration = Duration::from_secs(60);

/// One kind of complaint: the first is told at once, then one a minute at most, with how many were not.
#[derive(Default)]
pub(crate) struct Complaint(Mutex<Told>);

#[derive(Default)]
struct Told {
    last: Option<Instant>,
    kept: u64,
}

impl Complaint {
    /// Tells it on standard error, or counts it.
    pub(crate) fn tell(&self, what: impl Display) {
        if let Some(kept) = self.due(Instant::now()) {
            let more =
                if kept > 0 { format!(" (and {kept} more since the last such line)") } else { String::new() };
            say!("{what}{more}");
        }
    }

    /// How many were kept back, if it is time to tell another.
    pub(crate) fn due(&self, now: Instant) -> Option<u64> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.last.is_some_and(|last| now.duration_since(last) < QUIET) {
            told.kept += 1;
            return None;
        }
        told.last = Some(now);
        Some(std::mem::take(&mut told.kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_and_of_those_after_it_one_a_minute() {
        let (complaint, began) = (Complaint::default(), Instant::now());
        let told = [0, 1, 59, 60, 61, 180].map(|second| complaint.due(began + Duration::from_secs(second)));
        assert_eq!(told, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
