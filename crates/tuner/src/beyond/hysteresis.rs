//! Hysteresis: switch only for a clear gain that is asked for several times in a row.
//!
//! # Idea
//! Two schedulers that serve a pattern equally well swap places with every noisy value. A gain below `margin` is noise, and so is
//! one that is gone at the next window.
//!
//! # Not for
//! Trials of untested schedulers, which pass: without them nothing would be learned. Nor for phases of a single window, which it
//! would miss; that is why it is off by default.

use super::Proposal;
use crate::decision::Restraint;

/// The rule and its count.
#[derive(Clone, Debug)]
pub struct Hysteresis {
    margin: f64,
    times: u64,
    asked: Option<(crate::SchedulerId, u64)>,
}

impl Default for Hysteresis {
    fn default() -> Self {
        Self::new(0.03, 2)
    }
}

impl Hysteresis {
    /// `margin`: the least gain, as a part of what there is (0.03: three percent). `times`: how often in a row it must be asked
    /// for, from 1.
    #[must_use]
    pub fn new(margin: f64, times: u64) -> Self {
        Self { margin, times, asked: None }
    }

    /// Says no, or counts.
    pub fn review(&mut self, proposal: &Proposal) -> Option<Restraint> {
        let wanted = proposal.scheduler;
        if proposal.trial > 0 || wanted == proposal.current {
            if wanted == proposal.current {
                self.asked = None;
            }
            return None;
        }
        let before = self.asked.filter(|&(scheduler, _)| scheduler == wanted).map_or(0, |(_, asked)| asked);
        let clear = proposal.gain.is_none_or(|gain| gain >= self.margin);
        let asked = if clear { before + 1 } else { 0 };
        self.asked = Some((wanted, asked));
        if asked >= self.times {
            self.asked = None;
            return None;
        }
        Some(Restraint::Hysteresis { wanted, asked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SchedulerId;

    #[test]
    fn a_clear_gain_twice_in_a_row_passes_and_nothing_less() {
        let mut hysteresis = Hysteresis::default();
        let ask = |to, gain| Proposal {
            scheduler: SchedulerId(to),
            current: SchedulerId(0),
            gain: Some(gain),
            trial: 0,
            under_way: false,
        };
        assert!(hysteresis.review(&ask(1, 0.5)).is_some());
        assert!(hysteresis.review(&ask(2, 0.5)).is_some(), "another one begins anew");
        assert!(hysteresis.review(&ask(1, 0.5)).is_some());
        assert!(hysteresis.review(&ask(0, 0.0)).is_none());
        assert!(hysteresis.review(&ask(1, 0.5)).is_some(), "interrupted");
        assert!(hysteresis.review(&ask(1, 0.01)).is_some(), "too little");
        assert!(hysteresis.review(&ask(1, 0.5)).is_some());
        assert!(hysteresis.review(&ask(1, 0.5)).is_none());
        assert!(hysteresis.review(&Proposal { trial: 1, ..ask(3, 0.0) }).is_none());
    }
}
