//! [`Tuner`]: the facts of a window in, one [`Decision`] out.
//!
//! # Order of decisions
//! 1. The [analyser](Analyser) learns from the window and decides. The steps below replace its decision where they have one.
//! 2. If the metric could not be measured, a trial ends: back to the scheduler before it.
//! 3. The [opening](Opening) tries schedulers, or uses the one that was the best for this load before; if none was better than `none`, standby follows.
//! 4. The [significance test](SignificanceTest) measures schedulers, or finds that the choice does not matter: `none`, on standby.
//! 5. A scheduler that is not an arm is replaced by the first arm.
//!
//! Steps 3 and 4 require a decider that allows them, and permission to switch.

use std::collections::BTreeMap;

use observation::{Metric, Performance, SchedulerId, Window};

use crate::analyser::{Analyser, Observed};
use crate::decider::Fact;
use crate::decision::{Decision, Why};
use crate::early_end::EarlyEnd;
use crate::kinds::is_whole;
use crate::load::Load;
use crate::measured::Measured;
use crate::observed_load::observed;
use crate::opening::{Opening, Remembered, Step};
use crate::significance::{SignificanceTest, Verdict};
use crate::state::State;

/// An arm is no longer tried after so many trials in a row that could not be measured: a command may fail because of that arm.
const UNMEASURED_TRIALS: u32 = 3;

/// The facts of a window that ended.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The accesses.
    pub window: &'a Window,
    /// The scheduler that it ran under.
    pub scheduler: &'a str,
    /// The measured metrics.
    pub performance: Performance,
    /// The value of the metric in use, if there is one.
    pub measured: Option<Measured>,
    /// It ended early, by [`Tuner::early_end`].
    pub early: bool,
    /// The metric failed: a command ended with an error, for example.
    pub failed: bool,
}

/// What earlier runs found for a load.
enum Before {
    Unknown,
    /// No scheduler is better than `none`.
    NoneSuffices,
    Best(Remembered),
}

/// Decides what a device uses next.
pub struct Tuner {
    analyser: Analyser,
    /// Whether the host follows the decisions.
    may_switch: bool,
    /// The first trials after a start.
    opening: Option<Opening>,
    /// `None` where only the decider's own trials may measure.
    significance: Option<SignificanceTest>,
    /// The arm in use before the trial under way; `None` if the operator's scheduler is not an arm.
    settled: Option<usize>,
    /// The kind of load of the latest window.
    kind: Option<usize>,
    /// The kind of load whose values the opening compares.
    opening_kind: Option<usize>,
    /// It follows a standby: the load differs from all for which `none` was found to suffice.
    is_after_standby: bool,
    /// The kinds of its windows, which a scheduler's effect on the requests may distinguish.
    opening_kinds: Vec<usize>,
    /// The number of trials in a row that could not be measured, by arm.
    unmeasured_trials: BTreeMap<usize, u32>,
    /// The next window is the first after a switch.
    is_after_switch: bool,
}

impl Tuner {
    /// A tuner whose arms are the analyser's schedulers. `in_use` is the present scheduler; a dry run may not switch.
    pub fn new(analyser: Analyser, in_use: &str, may_switch: bool) -> Self {
        let (arms, metric) = (analyser.schedulers(), analyser.metric);
        let measures = may_switch && analyser.allows_significance_test();
        let opens = measures && arms.len() > 1;
        Self {
            may_switch,
            opening: opens.then(|| Opening::new(arms, metric)),
            significance: measures.then(|| SignificanceTest::new(arms, metric.better())).flatten(),
            settled: arms.iter().position(|arm| arm == in_use),
            kind: None,
            opening_kind: None,
            opening_kinds: Vec::new(),
            is_after_standby: false,
            unmeasured_trials: BTreeMap::new(),
            is_after_switch: false,
            analyser,
        }
    }

    /// The decider and what was learned.
    pub const fn analyser(&self) -> &Analyser {
        &self.analyser
    }

    /// What was learned, for a file: with what an opening that is not over has measured.
    pub fn state(&self) -> State {
        let mut state = self.analyser.state();
        if let (Some(opening), Some(kind)) = (&self.opening, self.opening_kind) {
            state.kinds.rate(kind, &opening.results(), self.analyser.metric.better());
        }
        state
    }

    /// Learns from a window that ended, and decides on the next one.
    pub fn window(&mut self, facts: &Facts<'_>) -> Decision {
        let ran = self.arms().iter().position(|arm| arm == facts.scheduler);
        if facts.early {
            self.analyser.learn(Fact::EndedEarly);
        }
        if std::mem::take(&mut self.is_after_switch) && self.opening.is_some() {
            self.analyser.learn(Fact::Settling);
        }
        let (was_on_standby, was_measuring) = (self.standby().is_some(), self.is_measuring());
        let observed = Observed { scheduler: ran.map(SchedulerId), performance: facts.performance.clone() };
        let mut decision = self.analyser.window(facts.window, &observed);
        let believed = self.believed();
        if let Some(significance) = &mut self.significance {
            significance.believed(believed);
        }
        if let Why::Kind(known) = decision.why {
            self.kind = Some(known.kind);
        }
        let opening = if facts.failed { None } else { self.open(facts, ran) };
        let is_set_again =
            opening.is_some() && self.opening.as_ref().is_some_and(Opening::needs_another_instance);
        let step = match opening {
            None if facts.failed => Some(self.leave_trial(ran)),
            None => self.test(facts, ran, &decision),
            step => step,
        };
        if let Some(Step { scheduler, mut why }) = step {
            if is_set_again {
                why += "; setting it again, because requests may have come before its settings";
            }
            let change = scheduler.is_some_and(|to| is_set_again || ran != Some(to));
            let (scheduler, restraint) = (scheduler.map(SchedulerId), Some(why));
            (decision.confidence, decision.expected_gain) = (0.0, None);
            decision = Decision { scheduler, change, restraint, ..decision };
        }
        if !facts.failed {
            ran.iter().for_each(|ran| _ = self.unmeasured_trials.remove(ran));
            self.settle(&decision, ran);
            // Stored with the kind of load, so that `patterns` and `advise` have it too.
            if let (Some(none), Some(kind), false) = (self.standby(), self.kind, was_on_standby) {
                self.analyser.learn(Fact::NoneSuffices(kind, SchedulerId(none)));
            }
            if let (Verdict::Matters, Some(kind), true) = (self.verdict(), self.kind, was_measuring) {
                self.analyser.learn(Fact::ChoiceMatters(kind));
            }
        }
        self.is_after_switch = decision.change;
        decision
    }

    /// A window on standby ended, of which only the kernel's counters are known. Returns the reason to capture again, if there is one.
    pub fn standby_window(&mut self, load: &Load) -> Option<String> {
        let significance = self.significance.as_mut()?;
        let why = significance.standby_window(load)?;
        if significance.asks_for_another_load() {
            // As at a start: with what is known of this load, or in the order of the expected gains.
            self.opening = Some(Opening::new(self.arms(), self.analyser.metric));
            (self.opening_kind, self.opening_kinds, self.is_after_standby) = (None, Vec::new(), true);
        }
        Some(format!("{why}; testing again whether the choice matters"))
    }

    /// `none`, if no choice matters, so that nothing need be captured under it.
    pub fn standby(&self) -> Option<usize> {
        if let Verdict::Standby(none) = self.verdict() { Some(none) } else { None }
    }

    /// The condition that ends the next window early; `None` if no trial is under way, or if the metric is only known at the end of a window.
    pub fn early_end(&self) -> Option<EarlyEnd> {
        let metric = self.analyser.metric;
        let is_late = matches!(metric, Metric::External(_) | Metric::UserBandwidth | Metric::UserMinusSystem);
        if !self.may_switch || is_late {
            return None;
        }
        match (&self.opening, &self.significance) {
            (Some(opening), _) => opening.early_end(),
            (None, Some(test)) if self.is_measuring() => test.early_end(),
            _ => self.analyser.early_end(),
        }
    }

    /// The device rejects an arm: it is not chosen any more.
    pub fn rejected(&mut self, arm: usize) {
        self.is_after_switch = false;
        self.analyser.learn(Fact::Rejected(SchedulerId(arm)));
        if let Some(significance) = &mut self.significance {
            significance.rejected(arm);
        }
        if let Some(opening) = &mut self.opening {
            opening.rejected(arm);
        }
    }

    /// The first arm that the device does not reject.
    pub fn first_arm(&self) -> Option<usize> {
        (0..self.arms().len()).find(|&arm| !self.analyser.rejected.contains(&SchedulerId(arm)))
    }

    fn verdict(&self) -> Verdict {
        self.significance.as_ref().map_or(Verdict::Matters, SignificanceTest::verdict)
    }

    fn is_measuring(&self) -> bool {
        matches!(self.verdict(), Verdict::Measure(_))
    }

    fn arms(&self) -> &[String] {
        self.analyser.schedulers()
    }

    /// Adds this window to the opening. `None`: it is over, or cannot use the window.
    fn open(&mut self, facts: &Facts<'_>, ran: Option<usize>) -> Option<Step> {
        let remembered = self.remembered();
        let opening = self.opening.as_mut()?;
        // `None` for an idle device, or a scheduler that is not an arm and that the decider replaces.
        let (measured, ran) = facts.measured.zip(ran)?;
        let remembered = match remembered {
            Before::NoneSuffices
                if opening.is_at_its_start() && self.significance.is_some() && !self.is_after_standby =>
            {
                self.opening = None;
                self.significance.iter_mut().for_each(SignificanceTest::remember);
                return None;
            }
            Before::Best(remembered) => Some(remembered),
            Before::NoneSuffices | Before::Unknown => None,
        };
        opening.remember(remembered);
        let promised = self.analyser.promised_gains(facts.window);
        // A trial that ended early is part of a window.
        let is_whole = facts.early || is_whole(facts.window);
        let step = opening.window(ran, measured, (facts.window, is_whole), promised.as_deref());
        if let Some((before, kind)) = opening.take_results_before().zip(self.opening_kind) {
            self.analyser.learn(Fact::Measured(kind, &before));
            self.opening_kinds.clear();
        }
        if !opening.is_doubtful() {
            self.opening_kind = self.kind;
            self.opening_kinds.extend(self.kind.filter(|kind| !self.opening_kinds.contains(kind)));
        }
        if opening.has_chosen() {
            // The first window may belong to a trial of an earlier run, and so to another kind.
            let kinds = self.analyser.kinds().without_contradiction(std::mem::take(&mut self.opening_kinds));
            if let Some((&first, others)) = kinds.split_first() {
                others.iter().for_each(|&other| self.analyser.learn(Fact::OneLoad(first, other)));
                (self.kind, self.opening_kind) = (Some(first), Some(first));
            }
            self.opening_kinds = kinds.into_iter().take(1).collect();
        }
        if !opening.is_over() {
            return Some(step);
        }
        let opened = opening.results();
        self.opening = None;
        if let Some(kind) = self.opening_kind {
            self.analyser.learn(Fact::Opened(kind, &opened));
        }
        if let Some(significance) = &mut self.significance {
            significance.opened(&opened);
        }
        // The window is part of the opening's results: it is not measured again, and the decision was made without them.
        let scheduler = match self.verdict() {
            Verdict::Measure(arm) | Verdict::Standby(arm) => arm,
            Verdict::Matters => opened.best.unwrap_or(ran),
        };
        let why = format!("{}; next: {}", step.why, self.arms()[scheduler]);
        Some(Step { scheduler: Some(scheduler), why })
    }

    /// What earlier runs found for the load of the latest window: what `patterns` and `advise` report.
    fn remembered(&self) -> Before {
        let better = self.analyser.metric.better();
        let none = self.arms().iter().position(|arm| arm == "none").map(SchedulerId);
        let known =
            self.kind.and_then(|kind| Some((kind, self.analyser.kinds().compared(kind, none, better)?)));
        let Some((kind, known)) = known.filter(|(_, known)| none.is_some_and(|none| known.base == none))
        else {
            return Before::Unknown;
        };
        if self.analyser.kinds().none_suffices(kind) {
            return Before::NoneSuffices;
        }
        let best = known.best();
        if best == known.base || self.analyser.rejected.contains(&best) {
            return Before::Unknown;
        }
        let values = known.estimates.iter().map(|of| of.map(|of| of.value)).collect();
        Before::Best(Remembered { values, best: best.0 })
    }

    /// Adds this window to the significance test. `None`: the decider chooses.
    fn test(&mut self, facts: &Facts<'_>, ran: Option<usize>, decision: &Decision) -> Option<Step> {
        if let (Some(test), Some((measured, ran))) = (&mut self.significance, facts.measured.zip(ran)) {
            test.learn(ran, measured, &observed(facts.window, Some(&facts.performance)));
        }
        let step = |scheduler, why| Some(Step { scheduler: Some(scheduler), why });
        match self.verdict() {
            Verdict::Standby(none) => {
                step(none, "no scheduler is better than none for this load; using none".to_owned())
            }
            // On an idle device there is nothing to measure.
            Verdict::Measure(arm) if facts.measured.is_some() => {
                let (place, all) = self.significance.as_ref()?.progress();
                let name = &self.arms()[arm];
                step(arm, format!("measuring {name} ({place} of {all}) to see whether the choice matters"))
            }
            // A scheduler that is not an arm cannot be compared with the arms.
            _ if ran.is_none() && decision.scheduler.is_none() && facts.window.counts() => {
                let first = self.first_arm().unwrap_or(0);
                let (name, other) = (&self.arms()[first], facts.scheduler);
                step(first, format!("start with {name}: {other} is not one of the arms"))
            }
            _ => None,
        }
    }

    /// Updates the arm that is no trial.
    fn settle(&mut self, decision: &Decision, ran: Option<usize>) {
        if let Some(opening) = &self.opening {
            self.settled = opening.results().best.or(self.settled);
            return;
        }
        let is_trial = match &decision.why {
            Why::Kind(known) => known.trial > 0,
            why => matches!(why, Why::Untested { .. } | Why::Bandit { .. }),
        };
        if !is_trial && !self.is_measuring() {
            self.settled = decision.scheduler.map(|next| next.0).or(ran).or(self.settled);
        }
    }

    /// The metric failed under `ran`: a trial ends without a result, and none begins.
    fn leave_trial(&mut self, ran: Option<usize>) -> Step {
        let mut why = "the metric was not measured".to_owned();
        let trial = ran.zip(self.settled).filter(|(ran, settled)| ran != settled && self.may_switch);
        let Some((ran, settled)) = trial else { return Step { scheduler: None, why } };
        let names = [ran, settled].map(|arm| self.arms()[arm].clone());
        why += &format!("; the trial of {} ends, back to {}", names[0], names[1]);
        let failed = self.unmeasured_trials.entry(ran).or_default();
        *failed += 1;
        if *failed >= UNMEASURED_TRIALS {
            why += &format!("; {} is skipped from now on, after {failed} such trials", names[0]);
            self.rejected(ran);
        }
        Step { scheduler: Some(settled), why }
    }

    /// How much better than `none` the best other arm is expected to be for the window's kind of load, as a part of what `none` gives.
    fn believed(&self) -> Option<f64> {
        let means = &self.analyser.means;
        let none = self.arms().iter().position(|arm| arm == "none")?;
        let base = (*means.get(none)?)?;
        let others = means.iter().enumerate().filter(|&(arm, _)| arm != none);
        let better = self.analyser.metric.better();
        let gains = others.filter_map(|(_, of)| Some(better.oriented((*of)? - base) / base.abs()));
        gains.reduce(f64::max).filter(|gain| gain.is_finite())
    }
}
