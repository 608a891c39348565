//! [`Decider`]: chooses the scheduler for the next window.
//!
//! | decider | basis of the decision |
//! |---|---|
//! | [`Kinds`] | kinds of load; the default |
//! | [`IoAnalyzer`] | the paper's clusters, chain and bandit |
//! | [`BanditAlone`] | the paper's armed bandit, without patterns (its section V) |

use std::fmt;

use ioanalyzer::{Answer, Better, ClusterId, Input, IoAnalyzer, Random, Reason, SchedulerId};

use crate::decision::Why;
use crate::early_end::{ABANDON, COLD, EarlyEnd};
use crate::kinds::Kinds;
use crate::significance::Measured;

/// Learns from one window after the other, and chooses for the next one.
pub trait Decider {
    /// A window with more than one request a second ended.
    fn decide(&mut self, input: &Input<'_>, random: &mut Random) -> Choice;

    /// The condition that ends the trial under way inside the window that begins now; `None` without a trial, or without a value to compare it with.
    fn early_end(&self, better: Better) -> Option<EarlyEnd>;

    /// The window that is decided next ended early, by [`early_end`](Self::early_end): its value is the trial's, which is over.
    fn ended_early(&mut self);

    /// The mean of each scheduler for each pattern.
    fn knowledge(&self, input: &Input<'_>) -> Vec<Vec<Known>>;
}

/// A scheduler's mean for one pattern and the number of values behind it; `None` if it was never tried there.
pub type Known = Option<(f64, u64)>;

/// A decider's choice, before restraints.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The scheduler to use; `None`: keep the present one.
    pub scheduler: Option<SchedulerId>,
    /// The reason.
    pub why: Why,
    /// 0 to 1; see [`Decision::confidence`](crate::Decision::confidence).
    pub confidence: f64,
    /// How much better the metric is expected to be, as a part of the present scheduler's value, if both are known.
    pub gain: Option<f64>,
    /// Windows of the trial that begins here; 0 if this is no trial.
    pub trial: u64,
    /// The window's cluster, if it was compared with clusters.
    pub cluster: Option<ClusterId>,
    /// The mean of each scheduler for such windows, without this window
    pub before: Vec<Option<f64>>,
    /// and with it.
    pub after: Vec<Option<f64>>,
}

impl Choice {
    /// Keeps the present scheduler.
    #[must_use]
    pub const fn keep(why: Why) -> Self {
        Self {
            scheduler: None,
            why,
            confidence: 0.0,
            gain: None,
            trial: 0,
            cluster: None,
            before: Vec::new(),
            after: Vec::new(),
        }
    }

    /// The choice of the device's table, if there is no history.
    #[must_use]
    pub fn first(first: SchedulerId, input: &Input<'_>) -> Self {
        let throughput = input.promise.get(first.0).copied().unwrap_or(0.0);
        let why = Why::APriori { size: input.window.mean_size(), throughput };
        Self { scheduler: Some(first), trial: 1, ..Self::keep(why) }
    }

    fn of(answer: Answer, input: &Input<'_>) -> Self {
        let Answer { scheduler, reason, confidence, gain, is_trial, cluster, before, after } = answer;
        let why = match reason {
            Reason::Best(found, expected) => Why::Best { found, expected },
            Reason::Untested(found, next) => Why::Untested { found, next },
            Reason::NotMeasured(found) => Why::NotMeasured { found },
            Reason::Drawn(nearest, probability) => Why::Bandit { nearest, probability },
            Reason::First => {
                let first = Self::first(scheduler.unwrap_or(SchedulerId(0)), input);
                return Self { cluster: Some(cluster), before, after, ..first };
            }
        };
        let trial = u64::from(is_trial);
        Self { scheduler, why, confidence, gain, trial, cluster: Some(cluster), before, after }
    }
}

impl Decider for IoAnalyzer {
    fn decide(&mut self, input: &Input<'_>, random: &mut Random) -> Choice {
        Choice::of(self.window(input, random), input)
    }

    /// Its trials last for one window, whose value is compared with those of its cluster, and the window's cluster is known at the end.
    fn early_end(&self, _: Better) -> Option<EarlyEnd> {
        None
    }

    fn ended_early(&mut self) {}

    fn knowledge(&self, _: &Input<'_>) -> Vec<Vec<Known>> {
        let known = |cluster: &ioanalyzer::Cluster| {
            let values = cluster.performance.iter();
            values.map(|values| Some((values.mean()?, values.count() as u64))).collect()
        };
        self.store().clusters().iter().map(known).collect()
    }
}

/// The bandit of an [`IoAnalyzer`], whose clusters stay as they are.
pub struct BanditAlone<'a>(pub &'a mut IoAnalyzer);

impl Decider for BanditAlone<'_> {
    fn decide(&mut self, input: &Input<'_>, random: &mut Random) -> Choice {
        Choice { cluster: None, ..Choice::of(self.0.window_by_bandit(input, random), input) }
    }

    fn early_end(&self, better: Better) -> Option<EarlyEnd> {
        self.0.early_end(better)
    }

    fn ended_early(&mut self) {}

    fn knowledge(&self, _: &Input<'_>) -> Vec<Vec<Known>> {
        let values = self.0.bandit().performance().iter();
        vec![values.map(|values| Some((values.mean()?, values.count() as u64))).collect()]
    }
}

impl Decider for Kinds {
    fn decide(&mut self, input: &Input<'_>, _: &mut Random) -> Choice {
        let Some(measured @ (current, _)) = input.current.zip(input.value) else {
            return Choice::keep(Why::Unmeasured);
        };
        let first = input.first.filter(|&first| self.know_nothing() && first != current);
        if let Some(first) = first {
            return Choice::first(first, input);
        }
        let shape = crate::Shape::of(input.window);
        let before = self.means(self.kind_of(&shape, current), input.better);
        let decided = self.window(&shape, measured, input.promise, input.better);
        Choice {
            scheduler: Some(decided.scheduler),
            why: Why::Kind(decided),
            confidence: decided.confidence,
            gain: decided.gain,
            trial: decided.trial,
            cluster: None,
            before,
            after: self.means(Some(decided.kind), input.better),
        }
    }

    fn early_end(&self, better: Better) -> Option<EarlyEnd> {
        let (scheduler, reference, is_first) = self.on_trial()?;
        // The first window of a trial also has the effects of the switch.
        let limit = if is_first { COLD } else { ABANDON };
        Some(EarlyEnd { scheduler, reference: Measured::throughout(reference), limit, better })
    }

    fn ended_early(&mut self) {
        self.end_trial();
    }

    fn knowledge(&self, input: &Input<'_>) -> Vec<Vec<Known>> {
        self.loads().filter_map(|kind| self.expected(kind, input.better)).collect()
    }
}

/// A decider by its name, as on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeciderName {
    /// [`Kinds`].
    #[default]
    Kinds,
    /// [`IoAnalyzer`].
    IoAnalyzer,
    /// [`BanditAlone`].
    Bandit,
}

impl fmt::Display for DeciderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kinds => "kinds",
            Self::IoAnalyzer => "ioanalyzer",
            Self::Bandit => "bandit",
        })
    }
}
