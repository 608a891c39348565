//! [`LiveTuner`]: observes a window, decides, switches and reports, window after window.

use elevator::text::counted;
use std::collections::{BTreeMap, BTreeSet};
use tuner::{
    Analyser, Decision, EarlyEnd, Load, Measured, Metric, Observed, Opening, SchedulerId, SignificanceTest,
    State, Step, Verdict, Why, Window,
};

use crate::arms::Arms;
use crate::error::Error;
use crate::observe::Seen;
use crate::outside::Outside;
use crate::status::Status;
use crate::system;

/// Options.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Report decisions and change nothing.
    pub dry_run: bool,
    /// A command that prints the metric; for [`Metric::External`].
    pub command: Option<String>,
}

/// Keeps a device under the scheduler that serves it best.
pub struct LiveTuner {
    analyser: Analyser,
    arms: Box<dyn Arms>,
    metric: Metric,
    dry_run: bool,
    status: Status,
    /// The scheduler that this tuner set last; at first the one that was in use.
    expected: String,
    outside: Outside,
    /// The first trials, while nothing is known.
    opening: Option<Opening>,
    /// The kind of load of the latest window of the opening.
    opens: Option<usize>,
    /// `None` where only the decider's own trials may measure.
    significance: Option<SignificanceTest>,
    /// Arms that could not be set, or whose trials cannot be measured.
    rejected: BTreeSet<usize>,
    /// The arm in use before the trial under way; `None` if the operator's scheduler is not an arm.
    settled: Option<usize>,
    /// The kind of load of the latest window.
    kind: Option<usize>,
    /// The significance test found that the choice does not matter.
    rests: bool,
    /// The number of trials in a row that could not be measured, by arm.
    unmeasured_trials: BTreeMap<usize, u32>,
    /// The present window is the first after a switch.
    is_after_switch: bool,
}

/// An arm is no longer tried after so many trials in a row that could not be measured: a command may fail because of that arm.
const UNMEASURED_TRIALS: u32 = 3;

/// The result of a window.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The decision and its reason, for the log.
    pub line: String,
    /// The arm that was switched to, or would be without a dry run.
    pub switched: Option<String>,
    /// The analyser's decision; `None` if the window was discarded.
    pub decision: Option<Decision>,
}

impl LiveTuner {
    /// `arms` are those that the analyser chooses from, in the same order.
    ///
    /// # Errors
    /// The device was removed.
    pub fn new(
        device: &str,
        analyser: Analyser,
        mut arms: Box<dyn Arms>,
        metric: Metric,
        settings: Settings,
    ) -> Result<Self, Error> {
        let Settings { dry_run, command } = settings;
        let expected = arms.current()?;
        let (pid, started) = capture::this_process();
        let status = Status {
            device: device.to_owned(),
            pid,
            started,
            began: system::unix_seconds(),
            metric: in_words(metric),
            dry_run,
            arms: arms.names().to_vec(),
            current: expected.clone(),
            before: expected.clone(),
            kinds: analyser.kinds().count() as u64,
            clusters: analyser.store().clusters().len() as u64,
            ..Status::default()
        };
        let measures = analyser.allows_significance_test();
        let significance =
            measures.then(|| SignificanceTest::new(analyser.schedulers(), metric.better())).flatten();
        let knows_nothing = analyser.kinds().count() == 0;
        let opening = (measures && knows_nothing && !dry_run && analyser.schedulers().len() > 1)
            .then(|| Opening::new(analyser.schedulers(), metric));
        let (outside, rejected) = (Outside::new(command), BTreeSet::new());
        let settled = arms.names().iter().position(|arm| *arm == expected);
        Ok(Self {
            analyser,
            arms,
            metric,
            dry_run,
            status,
            expected,
            outside,
            opening,
            opens: None,
            significance,
            rejected,
            settled,
            kind: None,
            rests: false,
            unmeasured_trials: BTreeMap::new(),
            is_after_switch: false,
        })
    }

    /// What was learned.
    #[must_use]
    pub const fn analyser(&self) -> &Analyser {
        &self.analyser
    }

    /// What was learned, for the database: with what an opening that is not over has measured.
    #[must_use]
    pub fn state(&self) -> State {
        let state = self.analyser.state();
        match (&self.opening, self.opens) {
            (Some(opening), Some(kind)) => state.with_opening(kind, &opening.results()),
            _ => state,
        }
    }

    /// The status for `dwell tune --status`.
    #[must_use]
    pub const fn status(&self) -> &Status {
        &self.status
    }

    /// Learns from a window and switches if that is decided.
    ///
    /// # Errors
    /// The device was removed, or another process has changed its scheduler. A switch that the kernel rejects is reported in the line; it is an
    /// error only if no arm is left.
    pub fn window(&mut self, mut seen: Seen) -> Result<Outcome, Error> {
        let current = self.begin()?;
        self.status.missed += seen.missed;
        self.arms.used_by(&seen.tasks);
        let problem = self.outside.measure(self.metric, &mut seen);
        self.status.unmeasured += u64::from(problem.is_some());
        if seen.torn {
            return Ok(Self::line(
                "window discarded: it lasted too long (the machine slept or was overloaded)".to_owned(),
            ));
        }
        let measured = seen.measured(self.metric);
        self.status.value = measured.map(|of| of.value);
        let observed =
            Observed { scheduler: self.index(&current).map(SchedulerId), performance: seen.performance };
        let ran = observed.scheduler;
        if seen.early {
            self.analyser.ended_early();
        }
        if std::mem::take(&mut self.is_after_switch) && self.opening.is_some() {
            self.analyser.settles();
        }
        let decision = self.analyser.window(&seen.window, &observed);
        self.count(&decision);
        let believed = self.believed(&decision);
        if let Some(significance) = &mut self.significance {
            significance.believed(believed);
        }
        let (to, line) = if problem.is_some() {
            self.leave_trial(ran.map(|ran| ran.0))
        } else {
            let (to, line) = match self.open(measured, ran, &seen.window, &decision) {
                Some(Step { scheduler, why }) => (scheduler, why),
                None => {
                    let verdict = self.matters(measured, ran, &Load::of(&seen.window));
                    self.choose(verdict, &decision, &current, seen.window.counts())
                }
            };
            ran.iter().for_each(|ran| _ = self.unmeasured_trials.remove(&ran.0));
            self.settle(to.or(ran.map(|ran| ran.0)), &decision);
            self.learn_rest(&decision);
            (to, line)
        };
        let mut outcome = Self::line(line);
        let again = self.opening.as_ref().is_some_and(Opening::needs_another_instance);
        let to = to.filter(|&to| again || ran != Some(SchedulerId(to)));
        if again {
            outcome.line += "; setting it again, because requests may have come before its settings";
        }
        if let Some(to) = to {
            self.switch(to, &mut outcome)?;
        }
        if seen.early {
            let seconds = seen.window.length.as_secs_f64();
            outcome.line += &format!("; the window ended early, after {seconds:.1} s");
        }
        if seen.missed > 0 {
            outcome.line += &format!("; {} not reported", counted(seen.missed, "request"));
        }
        if let Some(problem) = problem {
            outcome.line += &format!("; {problem}");
        }
        self.status.latest.clone_from(&outcome.line);
        Ok(Outcome { decision: Some(decision), ..outcome })
    }

    /// The condition that ends the next window early; `None` if no trial is under way, or if the metric is only known at the end of a window.
    #[must_use]
    pub fn early_end(&self) -> Option<EarlyEnd> {
        let is_of_device = matches!(
            self.metric,
            Metric::Bandwidth
                | Metric::Iops
                | Metric::Latency(..)
                | Metric::Fairness
                | Metric::CgroupFairness
        );
        if self.dry_run || !is_of_device {
            return None;
        }
        let measuring = |test: &SignificanceTest| matches!(test.verdict(), Verdict::Measure(_));
        let end = match (&self.opening, &self.significance) {
            (Some(opening), _) => opening.early_end(),
            (None, Some(test)) if measuring(test) => test.early_end(),
            _ => self.analyser.early_end(),
        };
        end.filter(|end| self.index(&self.expected) == Some(end.scheduler))
    }

    /// Whether the present window is lost, whose first `part` (0 to 1) is this.
    #[must_use]
    pub fn is_lost(&self, so_far: &Seen, part: f64) -> bool {
        let end = self.early_end().zip(so_far.measured(self.metric));
        end.is_some_and(|(end, value)| end.is_due(&value, part))
    }

    /// The arm for the next window, if it is to be set, and the line for the log.
    fn choose(
        &self,
        verdict: Verdict,
        decision: &Decision,
        current: &str,
        counts: bool,
    ) -> (Option<usize>, String) {
        let names = self.arms.names();
        match verdict {
            Verdict::Standby(none) => {
                (Some(none), "no scheduler is better than none for this load; using none".to_owned())
            }
            Verdict::Measure(arm) => {
                let (place, all) = self.significance.as_ref().map_or((1, 1), SignificanceTest::progress);
                let name = &names[arm];
                (Some(arm), format!("measuring {name} ({place} of {all}) to see whether the choice matters"))
            }
            // A scheduler that is not an arm cannot be compared with the arms.
            Verdict::Matters if self.index(current).is_none() && decision.scheduler.is_none() && counts => {
                let first = (0..names.len()).find(|arm| !self.rejected.contains(arm)).unwrap_or(0);
                (Some(first), format!("start with {}: {current} is not one of the arms", names[first]))
            }
            Verdict::Matters => {
                let wanted = decision.scheduler.filter(|_| decision.change);
                (wanted.map(|id| id.0), decision.line(names))
            }
        }
    }

    /// Updates the arm that is no trial. `next` is the arm of the next window.
    fn settle(&mut self, next: Option<usize>, decision: &Decision) {
        if let Some(opening) = &self.opening {
            self.settled = opening.results().best.or(self.settled);
            return;
        }
        let verdict = self.significance.as_ref().map(SignificanceTest::verdict);
        let is_trial = match &decision.why {
            _ if matches!(verdict, Some(Verdict::Measure(_))) => true,
            Why::Kind(known) => known.trial > 0,
            Why::Untested { .. } | Why::Bandit { .. } => true,
            _ => false,
        };
        if !is_trial {
            self.settled = next.or(self.settled);
        }
    }

    /// Stores the result of the significance test with the kind of load, so that `patterns` and `advise` have it too.
    fn learn_rest(&mut self, decision: &Decision) {
        if let Why::Kind(known) = decision.why {
            self.kind = Some(known.kind);
        }
        let verdict = self.significance.as_ref().map(SignificanceTest::verdict);
        let none = if let Some(Verdict::Standby(none)) = verdict { Some(none) } else { None };
        if let (Some(none), Some(kind), false) = (none, self.kind, self.rests) {
            self.analyser.settled(kind, SchedulerId(none));
        }
        self.rests = none.is_some();
    }

    /// The metric could not be measured under `ran`: a trial ends without a result, and none begins.
    fn leave_trial(&mut self, ran: Option<usize>) -> (Option<usize>, String) {
        let unmeasured = "the metric was not measured".to_owned();
        let names = self.arms.names();
        let (Some(ran), Some(settled)) = (ran, self.settled) else { return (None, unmeasured) };
        if ran == settled || self.dry_run {
            return (None, unmeasured);
        }
        let mut line = format!("{unmeasured}; the trial of {} ends, back to {}", names[ran], names[settled]);
        let failed = self.unmeasured_trials.entry(ran).or_default();
        *failed += 1;
        if *failed >= UNMEASURED_TRIALS {
            line += &format!("; {} is skipped from now on, after {failed} such trials", names[ran]);
            self.rejected.insert(ran);
            self.forbid(ran);
        }
        (Some(settled), line)
    }

    /// No decider chooses this arm any more.
    fn forbid(&mut self, arm: usize) {
        self.analyser.rejected(SchedulerId(arm));
        if let Some(significance) = &mut self.significance {
            significance.rejected(arm);
        }
        if let Some(opening) = &mut self.opening {
            opening.rejected(arm);
        }
    }

    /// Whether no choice matters, so that nothing need be captured until [`standby_window`](Self::standby_window) returns a reason.
    #[must_use]
    pub fn is_on_standby(&self) -> bool {
        let verdict = self.significance.as_ref().map(SignificanceTest::verdict);
        let at = |arm: usize| self.arms.names()[arm] == self.expected;
        !self.dry_run && matches!(verdict, Some(Verdict::Standby(none)) if at(none))
    }

    /// A window on standby ended, of which only the kernel's counters are known. Returns the reason to capture again, if there is one.
    ///
    /// # Errors
    /// As [`window`](Self::window).
    pub fn standby_window(&mut self, load: &Load) -> Result<Option<String>, Error> {
        self.begin()?;
        // Measurements of the window before do not belong to the next captured one.
        self.outside.forget();
        self.status.value = match self.metric {
            Metric::Bandwidth => Some(load.bandwidth),
            Metric::Iops => Some(load.iops),
            _ => None,
        };
        let why = self.significance.as_mut().and_then(|significance| significance.standby_window(load));
        let Some(why) = why else { return Ok(None) };
        self.status.latest = format!("{why}; testing again whether the choice matters");
        Ok(Some(self.status.latest.clone()))
    }

    /// The scheduler in use at the end of a window, unless another process has changed it.
    fn begin(&mut self) -> Result<String, Error> {
        let current = self.arms.current()?;
        if current != self.expected {
            return Err(Error::Foreign {
                device: self.status.device.clone(),
                ours: std::mem::replace(&mut self.expected, current.clone()),
                theirs: current,
            });
        }
        self.status.windows += 1;
        self.status.processor_seconds = system::processor_seconds();
        Ok(current)
    }

    /// Adds this window to the opening. `None`: it is over, or cannot use the window.
    fn open(
        &mut self,
        measured: Option<Measured>,
        ran: Option<SchedulerId>,
        window: &Window,
        decision: &Decision,
    ) -> Option<Step> {
        let opening = self.opening.as_mut()?;
        let (Some(measured), Some(ran)) = (measured, ran) else {
            // An idle device, or a scheduler that is not an arm and that the decider replaces.
            return None;
        };
        let promised = self.analyser.promised_gains(window);
        let step = opening.window(ran.0, measured, window, promised.as_deref());
        if let Why::Kind(known) = &decision.why {
            self.opens = Some(known.kind);
        }
        if !opening.is_over() {
            return Some(step);
        }
        let opened = opening.results();
        self.opening = None;
        if let Why::Kind(known) = decision.why {
            self.analyser.opened(known.kind, &opened);
        }
        if let Some(significance) = &mut self.significance {
            significance.opened(&opened);
        }
        // The window is part of the opening's results: it is not measured again, and the decision was made without them.
        let verdict = self.significance.as_ref().map_or(Verdict::Matters, SignificanceTest::verdict);
        let scheduler = match verdict {
            Verdict::Measure(arm) | Verdict::Standby(arm) => arm,
            Verdict::Matters => opened.best.unwrap_or(ran.0),
        };
        let (name, of) = (&self.arms.names()[scheduler], step.why);
        Some(Step { scheduler: Some(scheduler), why: format!("{of}; next: {name}") })
    }

    /// Adds this window to the significance test. A dry run never measures another arm, so it has no test.
    fn matters(&mut self, measured: Option<Measured>, ran: Option<SchedulerId>, load: &Load) -> Verdict {
        let Some(significance) = self.significance.as_mut().filter(|_| !self.dry_run) else {
            return Verdict::Matters;
        };
        if let (Some(measured), Some(ran)) = (measured, ran) {
            significance.learn(ran.0, measured, load);
        }
        match significance.verdict() {
            // The device was idle: there is nothing to measure.
            Verdict::Measure(_) if measured.is_none() => Verdict::Matters,
            verdict => verdict,
        }
    }

    /// How much better than `none` the best other arm is expected to be for the window's kind of load, as a part of what `none` gives.
    fn believed(&self, decision: &Decision) -> Option<f64> {
        let Why::Kind(known) = decision.why else { return None };
        let better = self.metric.better();
        let expected = self.analyser.kinds().expected(known.kind, better)?;
        let none = self.index("none")?;
        let (base, _) = (*expected.get(none)?)?;
        let others = expected.iter().enumerate().filter(|&(arm, _)| arm != none);
        let gains = others.filter_map(|(_, of)| Some(better.oriented((*of)?.0 - base) / base.abs()));
        gains.reduce(f64::max).filter(|gain| gain.is_finite())
    }

    fn switch(&mut self, to: usize, outcome: &mut Outcome) -> Result<(), Error> {
        let name = self.arms.names()[to].clone();
        if self.dry_run {
            outcome.line = format!("would {}", outcome.line);
            outcome.switched = Some(name);
            return Ok(());
        }
        match self.arms.switch(to) {
            Ok(took) => {
                self.is_after_switch = true;
                self.status.switches += 1;
                self.status.switching_seconds += took.as_secs_f64();
                self.status.current.clone_from(&name);
                self.expected.clone_from(&name);
                outcome.line += &format!("; the switch took {:.0} ms", took.as_secs_f64() * 1e3);
                outcome.switched = Some(name);
            }
            // A removed device says nothing about the scheduler.
            Err(gone @ Error::Gone(_)) => return Err(gone),
            Err(error) => {
                outcome.line += &format!("; {error}");
                self.rejected.insert(to);
                // The previous scheduler is back, but not the settings of its arm.
                if let Some(before) = self.index(&self.expected)
                    && self.arms.current().is_ok_and(|now| now != self.expected)
                    && let Err(error) = self.arms.switch(before)
                {
                    outcome.line += &format!("; {error}");
                }
                // The next window runs under whatever is in use now.
                if let Ok(now) = self.arms.current() {
                    self.status.current.clone_from(&now);
                    self.expected = now;
                }
                self.forbid(to);
                // Each further attempt would stop the device for nothing.
                if self.rejected.len() == self.arms.names().len() && self.index(&self.expected).is_none() {
                    let device = self.status.device.clone();
                    return Err(Error::NoArm { device, last: Box::new(error) });
                }
            }
        }
        Ok(())
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.arms.names().iter().position(|arm| arm == name)
    }

    fn count(&mut self, decision: &Decision) {
        self.status.analysed += u64::from(decision.is_analysed());
        self.status.hits += u64::from(decision.is_recognised());
        self.status.kinds = self.analyser.kinds().count() as u64;
        self.status.clusters = self.analyser.store().clusters().len() as u64;
    }

    fn line(line: String) -> Outcome {
        Outcome { line, switched: None, decision: None }
    }
}

/// A metric's name, as on the command line.
#[must_use]
pub fn in_words(metric: Metric) -> String {
    use tuner::{Better, LatencyClass, LatencyStatistic};
    match metric {
        Metric::Bandwidth => "bandwidth".to_owned(),
        Metric::Iops => "iops".to_owned(),
        Metric::Fairness => "fairness".to_owned(),
        Metric::CgroupFairness => "cgroup-fairness".to_owned(),
        Metric::UserBandwidth => "user-bandwidth".to_owned(),
        Metric::UserMinusSystem => "user-minus-system".to_owned(),
        Metric::External(Better::Higher) => "command, more is better".to_owned(),
        Metric::External(Better::Lower) => "command, less is better".to_owned(),
        Metric::Latency(which, of) => {
            let which = if which == LatencyStatistic::Mean { "mean" } else { "p99" };
            let of = match of {
                LatencyClass::Reads => "read",
                LatencyClass::Writes => "write",
                LatencyClass::Synchronous => "sync",
            };
            format!("{which}-{of}-latency")
        }
    }
}
