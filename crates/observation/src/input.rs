//! What a decider gets after a window.

use serde::{Deserialize, Serialize};

use crate::metric::Better;
use crate::window::Window;

/// A scheduler, by its index in the list of names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct SchedulerId(pub usize);

/// A window and the information about it that is not in its accesses.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The accesses.
    pub window: &'a Window,
    /// The scheduler that was in use during the window; `None` if it is not a candidate.
    pub current: Option<SchedulerId>,
    /// The metric's value, if it was measured and `current` is known.
    pub value: Option<f64>,
    /// Which direction of the metric is better.
    pub better: Better,
    /// Each scheduler's expected throughput, from a source outside the algorithm: of several untested schedulers the one with the greatest
    /// value is tried first.
    pub promise: &'a [f64],
    /// The scheduler to use on a miss while nothing is known, instead of the bandit's.
    pub first: Option<SchedulerId>,
    /// Schedulers that the device rejects, which do not count as untested.
    pub rejected: &'a [SchedulerId],
}
