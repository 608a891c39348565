//! A switch counted with its cost.
//!
//! # Idea
//! The block layer drains the queue before it changes schedulers, and the new one knows nothing yet of who is worth waiting for.
//! Both cost part of a window. A switch pays if the gain, over the `d` windows that are looked ahead, is more.
//!
//! # State
//! - `drain`: running mean of the reported time from the order to the first dispatch under the new scheduler, in windows.
//! - `cold`: running mean of how much worse the first window after a switch is than the scheduler's mean for that cluster.
//!
//! # Not for
//! Trials of untested schedulers, which pass. Off by default until it has beaten the paper's way.

use elevator::Span;

use super::Proposal;
use crate::decision::Restraint;

/// Weight of the latest observation in the running means: about the last ten switches count.
const WEIGHT: f64 = 0.1;

/// What a switch costs, learned from the switches so far.
#[derive(Clone, Debug, Default)]
pub struct SwitchCost {
    drain: Option<f64>,
    cold: Option<f64>,
}

impl SwitchCost {
    /// Free until measured.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A switch stopped the device for `stopped`, in windows of `window`.
    pub fn drained(&mut self, stopped: Span, window: Span) {
        let part = stopped.as_nanos() as f64 / window.as_nanos().max(1) as f64;
        blend(&mut self.drain, part);
    }

    /// The first window after a switch gave `first` (more is better), where the scheduler's mean is `usual`.
    pub fn first_window(&mut self, first: f64, usual: f64) {
        if usual != 0.0 {
            blend(&mut self.cold, (usual - first) / usual.abs());
        }
    }

    /// In windows; never below 0.
    #[must_use]
    pub fn cost(&self) -> f64 {
        // A drain is part of the first window, so its loss is in `cold` already, if that is known.
        self.cold.or(self.drain).unwrap_or(0.0).max(self.drain.unwrap_or(0.0)).max(0.0)
    }

    /// Says no if the gain over `d` windows is less than the cost.
    #[must_use]
    pub fn review(&self, proposal: &Proposal, d: u64) -> Option<Restraint> {
        if proposal.trial > 0 || proposal.scheduler == proposal.current {
            return None;
        }
        let (gain, cost) = (proposal.gain? * d as f64, self.cost());
        (gain < cost).then_some(Restraint::SwitchCost { wanted: proposal.scheduler, gain, cost })
    }
}

fn blend(mean: &mut Option<f64>, value: f64) {
    *mean = Some(mean.map_or(value, |mean| mean + WEIGHT * (value - mean)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SchedulerId;

    #[test]
    fn a_small_gain_does_not_pay_for_a_dear_switch() {
        let mut cost = SwitchCost::new();
        let proposal = Proposal {
            scheduler: SchedulerId(1),
            current: SchedulerId(0),
            gain: Some(0.04),
            trial: 0,
            under_way: false,
        };
        assert_eq!(cost.review(&proposal, 2), None, "free until measured");
        cost.drained(Span::from_millis(500), Span::from_secs(5));
        assert!((cost.cost() - 0.1).abs() < 1e-12);
        assert!(cost.review(&proposal, 2).is_some());
        assert_eq!(cost.review(&Proposal { gain: Some(0.06), ..proposal }, 2), None);
        cost.first_window(60.0, 100.0);
        assert!((cost.cost() - 0.4).abs() < 1e-12);
        assert_eq!(cost.review(&Proposal { trial: 1, ..proposal }, 2), None);
    }
}
