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
use crate::measured::Measured;

/// Learns from one window after the other, and chooses for the next one.
pub trait Decider {
    /// A window with more than one request a second ended.
    fn decide(&mut self, input: &Input<'_>, random: &mut Random) -> Choice;

    /// The condition that ends the trial under way inside the window that begins now; `None` without a trial, or without a value to compare it with.
    fn early_end(&self, _better: Better) -> Option<EarlyEnd> {
        None
    }

    /// The window that is decided next ended early, by [`early_end`](Self::early_end): its value is the trial's, which is over.
    fn ended_early(&mut self) {}
}

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
    /// The mean of each scheduler for such windows before this window.
    pub before: Vec<Option<f64>>,
    /// The mean of each scheduler for such windows including this window.
    pub after: Vec<Option<f64>>,
}

impl Choice {
    /// Keeps the present scheduler.
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

/// Its trials last for one window, whose value is compared with those of its cluster, and the window's cluster is known at the end: they do not end early.
impl Decider for IoAnalyzer {
    fn decide(&mut self, input: &Input<'_>, random: &mut Random) -> Choice {
        Choice::of(self.window(input, random), input)
    }
}

/// The bandit of an [`IoAnalyzer`], whose clusters stay as they are.
pub struct BanditAlone<'a>(pub &'a mut IoAnalyzer);

impl Decider for BanditAlone<'_> {
    fn decide(&mut self, input: &Input<'_>, random: &mut Random) -> Choice {
        Choice { cluster: None, ..Choice::of(self.0.window_by_bandit(input, random), input) }
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
}

/// A decider by its name, as on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeciderName {
    #[default]
    Kinds,
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

#[cfg(test)]
mod tests {
    use elevator::{Op, Sector, Sectors, Span, Time};
    use ioanalyzer::{Access, Parameters, Window};

    use super::*;

    fn window() -> Window {
        let access = |n: u64| Access {
            time: Time::ZERO + Span::from_millis(n),
            position: Sector(n * 8),
            op: Op::Read,
            size: Sectors(8),
        };
        Window { start: Time::ZERO, length: Span::from_secs(5), accesses: (0..100).map(access).collect() }
    }

    fn input<'a>(window: &'a Window, scheduler: usize, value: f64, first: Option<usize>) -> Input<'a> {
        let (current, first) = (Some(SchedulerId(scheduler)), first.map(SchedulerId));
        let promise = &[5e6, 9e6];
        Input { window, current, value: Some(value), better: Better::Higher, promise, first, rejected: &[] }
    }

    #[test]
    fn a_choice_by_the_table_has_the_cluster_and_the_means_of_the_answer() {
        let window = window();
        let answer = Answer {
            scheduler: Some(SchedulerId(1)),
            reason: Reason::First,
            confidence: 0.5,
            gain: None,
            is_trial: true,
            cluster: ClusterId(3),
            before: vec![Some(1.0)],
            after: vec![Some(2.0)],
        };
        let choice = Choice::of(answer, &input(&window, 0, 1.0, Some(1)));
        assert_eq!(choice.why, Why::APriori { size: 4096.0, throughput: 9e6 });
        assert_eq!((choice.scheduler, choice.trial, choice.confidence), (Some(SchedulerId(1)), 1, 0.0));
        assert_eq!(
            (choice.cluster, choice.before, choice.after),
            (Some(ClusterId(3)), vec![Some(1.0)], vec![Some(2.0)])
        );
    }

    #[test]
    fn kinds_use_the_table_before_their_first_window_and_only_to_change_the_scheduler() {
        let (window, mut random) = (window(), Random::new(1));
        let choice = |kinds: &mut Kinds, input: &Input<'_>| kinds.decide(input, &mut Random::new(1));
        let mut kinds = Kinds::new(2);
        let best = choice(&mut kinds, &input(&window, 1, 1.0, Some(1)));
        assert!(matches!(best.why, Why::Kind(_)), "the table's choice is in use: {:?}", best.why);
        let later = choice(&mut kinds, &input(&window, 0, 1.0, Some(1)));
        assert!(matches!(later.why, Why::Kind(_)), "{:?}", later.why);
        let other = Kinds::new(2).decide(&input(&window, 0, 1.0, Some(1)), &mut random);
        assert_eq!((other.scheduler, other.trial), (Some(SchedulerId(1)), 1));
        assert!(matches!(other.why, Why::APriori { .. }));
    }

    #[test]
    fn the_bandit_alone_has_one_pattern_and_no_cluster() {
        let (window, mut random) = (window(), Random::new(1));
        let mut ioanalyzer = IoAnalyzer::new(Parameters::default(), 2);
        let mut bandit = BanditAlone(&mut ioanalyzer);
        for value in [10.0, 20.0] {
            let choice = bandit.decide(&input(&window, 1, value, None), &mut random);
            assert!(choice.cluster.is_none() && matches!(choice.why, Why::Bandit { .. }), "{choice:?}");
        }
        assert_eq!(bandit.0.bandit().performance()[1].mean(), Some(15.0));
    }

    #[test]
    fn deciders_have_the_names_of_the_command_line() {
        let names =
            [DeciderName::Kinds, DeciderName::IoAnalyzer, DeciderName::Bandit].map(|of| of.to_string());
        assert_eq!(names, ["kinds", "ioanalyzer", "bandit"]);
    }
}
