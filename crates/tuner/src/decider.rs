//! [`Decider`]: chooses the scheduler for the next window.
//!
//! | decider | basis of the decision |
//! |---|---|
//! | [`ByKinds`] | kinds of load; the default |
//! | [`ByIoAnalyzer`] | the paper's clusters, chain and bandit |
//! | [`ByBandit`] | the paper's armed bandit, without patterns (its section V) |

use elevator::Random;
use ioanalyzer::{Answer, ClusterId, IoAnalyzer, Reason};
use observation::{Better, Input, SchedulerId};

use crate::decision::Why;
use crate::early_end::{ABANDON, COLD, EarlyEnd};
use crate::kinds::{Kinds, is_whole};
use crate::measured::Measured;
use crate::opened::Opened;
use crate::prior::LoadClass;

/// What was learned of a device. It is loaded and saved as a whole, whichever decider is in use.
pub struct Learned {
    /// The kinds of load.
    pub kinds: Kinds,
    /// The clusters, their chain and the bandit.
    pub ioanalyzer: IoAnalyzer,
}

/// What the tuner passes to a decider between two windows.
#[derive(Clone, Copy, Debug)]
pub enum Fact<'a> {
    /// The window that is decided next ended early, by [`Decider::early_end`]: its value is the trial's, which is over.
    EndedEarly,
    /// The window that is decided next has the effects of a switch by an [opening](crate::Opening).
    Settling,
    /// The results of an opening that another load interrupted, for the kind of the load before.
    Measured(usize, &'a Opened),
    /// The results of an opening for a kind of load.
    Opened(usize, &'a Opened),
    /// Windows of the second kind are of the load of the first one, by an opening.
    OneLoad(usize, usize),
    /// No scheduler is better than `none` for a kind of load, by the [significance test](crate::SignificanceTest).
    NoneSuffices(usize, SchedulerId),
    /// A scheduler is better than `none` for a kind of load, by the significance test.
    ChoiceMatters(usize),
    /// The device rejects a scheduler.
    Rejected(SchedulerId),
}

/// Learns from one window after the other, and chooses for the next one.
pub trait Decider {
    /// A window with more than one request a second ended.
    fn decide(&mut self, learned: &mut Learned, input: &Input<'_>, random: &mut Random) -> Choice;

    /// The condition that ends the trial under way inside the window that begins now; `None` without a trial, or without a value to compare it with.
    fn early_end(&self, _learned: &Learned, _better: Better) -> Option<EarlyEnd> {
        None
    }

    /// Learns a fact.
    fn learn(&mut self, _learned: &mut Learned, _fact: Fact<'_>, _better: Better) {}

    /// Whether the device's table is used for a window. `is_first`: no window before it was decided.
    fn asks_table(&self, _is_first: bool) -> bool {
        true
    }

    /// Whether an opening and a significance test may measure schedulers in between.
    fn allows_significance_test(&self) -> bool {
        false
    }
}

/// A decider's choice.
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
    /// The window's cluster, if it was compared with clusters.
    pub cluster: Option<ClusterId>,
    /// The mean of each scheduler for such windows, including this one.
    pub means: Vec<Option<f64>>,
}

impl Choice {
    /// Keeps the present scheduler.
    pub const fn keep(why: Why) -> Self {
        Self { scheduler: None, why, confidence: 0.0, gain: None, cluster: None, means: Vec::new() }
    }

    /// The choice of the device's table, if there is no history.
    pub fn first(first: SchedulerId, input: &Input<'_>) -> Self {
        let throughput = input.promise.get(first.0).copied().unwrap_or(0.0);
        let why = Why::APriori { size: input.window.mean_size(), throughput };
        Self { scheduler: Some(first), ..Self::keep(why) }
    }

    fn of(answer: Answer, input: &Input<'_>) -> Self {
        let Answer { scheduler, reason, confidence, gain, cluster, means } = answer;
        let why = match reason {
            Reason::Best(found, expected) => Why::Best { found, expected },
            Reason::Untested(found, next) => Why::Untested { found, next },
            Reason::NotMeasured(found) => Why::NotMeasured { found },
            Reason::Drawn(nearest, probability) => Why::Bandit { nearest, probability },
            Reason::First => {
                let first = Self::first(scheduler.unwrap_or(SchedulerId(0)), input);
                return Self { cluster: Some(cluster), means, ..first };
            }
        };
        Self { scheduler, why, confidence, gain, cluster: Some(cluster), means }
    }
}

/// By the paper's clusters. Its trials last for one window, whose value is compared with those of its cluster, and the window's cluster is known at
/// the end: they do not end early.
pub struct ByIoAnalyzer;

impl Decider for ByIoAnalyzer {
    fn decide(&mut self, learned: &mut Learned, input: &Input<'_>, random: &mut Random) -> Choice {
        Choice::of(learned.ioanalyzer.window(input, random), input)
    }
}

/// By the paper's bandit alone; the clusters stay as they are.
pub struct ByBandit;

impl Decider for ByBandit {
    fn decide(&mut self, learned: &mut Learned, input: &Input<'_>, random: &mut Random) -> Choice {
        Choice { cluster: None, ..Choice::of(learned.ioanalyzer.window_by_bandit(input, random), input) }
    }
}

/// By the kind of load.
pub struct ByKinds;

impl Decider for ByKinds {
    fn decide(&mut self, learned: &mut Learned, input: &Input<'_>, _: &mut Random) -> Choice {
        let Some((current, value)) = input.current.zip(input.value) else {
            return Choice::keep(Why::Unmeasured);
        };
        let kinds = &mut learned.kinds;
        let first = input.first.filter(|&first| kinds.know_nothing() && first != current);
        if let Some(first) = first {
            return Choice::first(first, input);
        }
        let shape = crate::Shape::of(input.window);
        let measured = (current, value, is_whole(input.window));
        kinds.expect_stream(LoadClass::stream_among_random(input.window));
        let decided = kinds.window(&shape, measured, input.promise, input.better);
        Choice {
            scheduler: Some(decided.scheduler),
            why: Why::Kind(decided),
            confidence: decided.confidence,
            gain: decided.gain,
            cluster: None,
            means: kinds.means(Some(decided.kind), input.better),
        }
    }

    fn early_end(&self, learned: &Learned, better: Better) -> Option<EarlyEnd> {
        let (scheduler, reference, is_first) = learned.kinds.on_trial()?;
        // The first window of a trial also has the effects of the switch.
        let limit = if is_first { COLD } else { ABANDON };
        Some(EarlyEnd { scheduler, reference: Measured::throughout(reference), limit, better })
    }

    fn learn(&mut self, learned: &mut Learned, fact: Fact<'_>, better: Better) {
        let kinds = &mut learned.kinds;
        match fact {
            Fact::EndedEarly => kinds.end_trial(),
            Fact::Settling => kinds.settle(),
            Fact::Measured(kind, results) => kinds.rate(kind, results, better),
            Fact::Opened(kind, results) => kinds.opened(kind, results, better),
            Fact::OneLoad(kind, other) => kinds.unite(kind, other),
            Fact::NoneSuffices(kind, none) => kinds.settled(kind, none),
            Fact::ChoiceMatters(kind) => kinds.matters(kind),
            Fact::Rejected(scheduler) => kinds.rejected(scheduler),
        }
    }

    /// Before its first window only: then kinds have values of their own.
    fn asks_table(&self, is_first: bool) -> bool {
        is_first
    }

    fn allows_significance_test(&self) -> bool {
        true
    }
}

/// A decider by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeciderName {
    #[default]
    Kinds,
    IoAnalyzer,
    Bandit,
}

impl From<DeciderName> for Box<dyn Decider> {
    fn from(name: DeciderName) -> Self {
        match name {
            DeciderName::Kinds => Box::new(ByKinds),
            DeciderName::IoAnalyzer => Box::new(ByIoAnalyzer),
            DeciderName::Bandit => Box::new(ByBandit),
        }
    }
}

#[cfg(test)]
mod tests {
    use elevator::{Op, Sector, Sectors, Span, Time};
    use ioanalyzer::Parameters;
    use observation::{Access, Window};

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

    fn learned() -> Learned {
        Learned { kinds: Kinds::new(2), ioanalyzer: IoAnalyzer::new(Parameters::default(), 2) }
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
            cluster: ClusterId(3),
            means: vec![Some(2.0)],
        };
        let choice = Choice::of(answer, &input(&window, 0, 1.0, Some(1)));
        assert_eq!(choice.why, Why::APriori { size: 4096.0, throughput: 9e6 });
        assert_eq!((choice.scheduler, choice.confidence), (Some(SchedulerId(1)), 0.0));
        assert_eq!((choice.cluster, choice.means), (Some(ClusterId(3)), vec![Some(2.0)]));
    }

    #[test]
    fn kinds_use_the_table_before_their_first_window_and_only_to_change_the_scheduler() {
        let (window, mut learned) = (window(), learned());
        let choice = |learned: &mut Learned, scheduler| {
            ByKinds.decide(learned, &input(&window, scheduler, 1.0, Some(1)), &mut Random::new(1))
        };
        let best = choice(&mut learned, 1);
        assert!(matches!(best.why, Why::Kind(_)), "the table's choice is in use: {:?}", best.why);
        let later = choice(&mut learned, 0);
        assert!(matches!(later.why, Why::Kind(_)), "{:?}", later.why);
        let other = choice(&mut self::learned(), 0);
        assert_eq!(other.scheduler, Some(SchedulerId(1)));
        assert!(matches!(other.why, Why::APriori { .. }));
    }

    #[test]
    fn the_bandit_alone_has_one_pattern_and_no_cluster() {
        let (window, mut random, mut learned) = (window(), Random::new(1), learned());
        for value in [10.0, 20.0] {
            let choice = ByBandit.decide(&mut learned, &input(&window, 1, value, None), &mut random);
            assert!(choice.cluster.is_none() && matches!(choice.why, Why::Bandit { .. }), "{choice:?}");
        }
        assert_eq!(learned.ioanalyzer.bandit().performance()[1].mean(), Some(15.0));
    }
}
