//! One window after the other: watch, decide, act, say.

use std::collections::BTreeSet;
use std::time::Duration;

use elevator::Span;
use elevator::text::counted;
use tuner::{Analyser, Decision, Metric, Observed, SchedulerId, Why};

use crate::arms::Arms;
use crate::blocks::Measured;
use crate::error::Error;
use crate::load::Load;
use crate::observe::Seen;
use crate::outside::Outside;
use crate::significance::{SignificanceTest, Verdict};
use crate::status::Status;
use crate::system;

/// What is to be kept how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Say what would be done, and do nothing.
    pub dry_run: bool,
    /// A command that prints the metric; for [`Metric::External`].
    pub command: Option<String>,
}

/// Keeps a device on the scheduler that serves it best.
pub struct LiveTuner {
    analyser: Analyser,
    arms: Box<dyn Arms>,
    metric: Metric,
    dry_run: bool,
    status: Status,
    /// What was set here last; until then what was found.
    expected: String,
    drained: Option<Duration>,
    outside: Outside,
    /// `None` where nothing is to be measured but by the analyser's own trials.
    indifference: Option<SignificanceTest>,
    /// Arms that could not be set.
    refused: BTreeSet<usize>,
}

/// What one window led to, for the journal of the system.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// A line that says what was decided, and why.
    pub line: String,
    /// The arm that was switched to, or would have been.
    pub switched: Option<String>,
    /// The analyser's own answer; `None` if the window was not shown to it.
    pub decision: Option<Decision>,
}

impl LiveTuner {
    /// Over these arms, which must be those that the analyser chooses from, in order; those that it searches are added.
    ///
    /// # Errors
    /// The device is gone, or what is searched is no arm.
    pub fn new(
        device: &str,
        analyser: Analyser,
        mut arms: Box<dyn Arms>,
        metric: Metric,
        settings: Settings,
    ) -> Result<Self, Error> {
        let Settings { dry_run, command } = settings;
        let expected = arms.current()?;
        for name in &analyser.schedulers()[arms.names().len()..] {
            arms.add(name)?;
        }
        let (pid, started) = capture::this_process();
        let status = Status {
            device: device.to_owned(),
            pid,
            started,
            metric: in_words(metric),
            dry_run,
            arms: arms.names().to_vec(),
            current: expected.clone(),
            before: expected.clone(),
            kinds: analyser.kinds().count() as u64,
            clusters: analyser.store().clusters().len() as u64,
            ..Status::default()
        };
        let measures = analyser.tries_freely();
        let indifference =
            measures.then(|| SignificanceTest::new(analyser.plain(), metric.better())).flatten();
        let (drained, outside, refused) = (None, Outside::new(command), BTreeSet::new());
        Ok(Self {
            analyser,
            arms,
            metric,
            dry_run,
            status,
            expected,
            drained,
            outside,
            indifference,
            refused,
        })
    }

    /// What was learned.
    #[must_use]
    pub const fn analyser(&self) -> &Analyser {
        &self.analyser
    }

    /// How it is doing.
    #[must_use]
    pub const fn status(&self) -> &Status {
        &self.status
    }

    /// The arms.
    #[must_use]
    pub fn arms(&self) -> &dyn Arms {
        &*self.arms
    }

    /// A window ended: learns from it, and acts.
    ///
    /// # Errors
    /// The device is gone, or somebody else has changed its scheduler. A switch that is refused is no error, unless that leaves no arm:
    /// it is said, and the device stays as it is.
    pub fn window(&mut self, mut seen: Seen) -> Result<Outcome, Error> {
        let current = self.begin()?;
        self.status.missed += seen.missed;
        let problem = self.outside.measure(self.metric, &mut seen);
        if seen.torn {
            self.drained = None;
            return Ok(self.said(
                "this window lasted too long to say anything (the machine slept, or was too busy)".to_owned(),
            ));
        }
        self.status.value = self.metric.of(&seen.performance).filter(|_| seen.window.counts());
        let observed = Observed {
            scheduler: self.place(&current).map(SchedulerId),
            performance: seen.performance,
            drained: self.drained.take().map(|took| Span::from_nanos(took.as_nanos() as u64)),
        };
        let ran = observed.scheduler;
        let measured = self.status.value.map(|value| match self.metric.is_rate() {
            true => Measured::rate(value, seen.busy),
            false => Measured::throughout(value),
        });
        let decision = self.analyser.window(&seen.window, &observed);
        self.rename_arms()?;
        self.count(&decision);
        let believed = self.believed(&decision);
        if let Some(indifference) = &mut self.indifference {
            indifference.believed(believed);
        }
        let verdict = self.matters(measured, ran, &Load::of(&seen.window));
        let (to, line) = self.choose(verdict, &decision, &current, seen.window.counts());
        let mut outcome = self.said(line);
        let to = to.filter(|&to| ran != Some(SchedulerId(to)));
        if let Some(to) = to {
            self.switch(to, &mut outcome)?;
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

    /// Which arm is to serve the next window, if one is, and why.
    fn choose(
        &self,
        verdict: Verdict,
        decision: &Decision,
        current: &str,
        counts: bool,
    ) -> (Option<usize>, String) {
        let names = self.arms.names();
        match verdict {
            Verdict::Rest(none) => {
                (Some(none), "no scheduler is better than none here, so none it is".to_owned())
            }
            Verdict::Measure(arm) => {
                let why = "is to be measured, to find out whether a choice matters here";
                (Some(arm), format!("{} {why}", names[arm]))
            }
            // What is none of the arms is not compared with them.
            Verdict::Matters if self.place(current).is_none() && decision.scheduler.is_none() && counts => {
                let first = (0..names.len()).find(|arm| !self.refused.contains(arm)).unwrap_or(0);
                (Some(first), format!("{} to begin with, as {current} is not one of the arms", names[first]))
            }
            Verdict::Matters => {
                let wanted = decision.scheduler.filter(|_| decision.change);
                (wanted.map(|id| id.0), decision.line(names))
            }
        }
    }

    /// Whether no choice matters, so that it costs nothing to look away until [`rested`](Self::rested) says otherwise.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let resting = self.indifference.as_ref().map(SignificanceTest::verdict);
        let at = |arm: usize| self.arms.names()[arm] == self.expected;
        !self.dry_run && matches!(resting, Some(Verdict::Rest(none)) if at(none))
    }

    /// A window at rest ended, at which nobody looked but for the kernel's counters. Why to look again, if there is a reason.
    ///
    /// # Errors
    /// As [`window`](Self::window).
    pub fn rested(&mut self, load: &Load) -> Result<Option<String>, Error> {
        self.begin()?;
        // What was measured then is not of the window that is looked at next.
        self.drained = None;
        self.outside.forget();
        self.status.value = match self.metric {
            Metric::Bandwidth => Some(load.bandwidth),
            Metric::Iops => Some(load.iops),
            _ => None,
        };
        let why = self.indifference.as_mut().and_then(|indifference| indifference.rest(load));
        let Some(why) = why else { return Ok(None) };
        self.status.latest = format!("{why}, so whether a choice matters here is asked again");
        Ok(Some(self.status.latest.clone()))
    }

    /// What is in use at the end of a window, if it is what was set here.
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

    /// Whether a choice matters here, after this window. In a dry run nothing but the arm at hand is ever measured, so it cannot be
    /// found out.
    fn matters(&mut self, measured: Option<Measured>, ran: Option<SchedulerId>, load: &Load) -> Verdict {
        let Some(indifference) = self.indifference.as_mut().filter(|_| !self.dry_run) else {
            return Verdict::Matters;
        };
        if let (Some(measured), Some(ran)) = (measured, ran) {
            indifference.learn(ran.0, measured, load);
        }
        match indifference.verdict() {
            // Nothing was asked of the device: it can wait.
            Verdict::Measure(_) if measured.is_none() => Verdict::Matters,
            verdict => verdict,
        }
    }

    /// How much better than `none` the best other arm is by what the analyser knows of the window's kind of load, as a part of what that
    /// gives.
    fn believed(&self, decision: &Decision) -> Option<f64> {
        let Why::Kind(served) = decision.why else { return None };
        let better = self.metric.better();
        let expected = self.analyser.kinds().expected(served.kind, better)?;
        let none = self.place("none")?;
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
                self.status.switches += 1;
                self.status.switching_seconds += took.as_secs_f64();
                self.status.current.clone_from(&name);
                self.drained = Some(took);
                self.expected.clone_from(&name);
                outcome.line += &format!("; the switch took {:.0} ms", took.as_secs_f64() * 1e3);
                outcome.switched = Some(name);
            }
            // That is nothing to be learned of the scheduler.
            Err(gone @ Error::Gone(_)) => return Err(gone),
            Err(error) => {
                outcome.line += &format!("; {error}");
                self.refused.insert(to);
                // The scheduler of before is back, but not what that arm had set beside it.
                if let Some(before) = self.place(&self.expected)
                    && self.arms.current().is_ok_and(|now| now != self.expected)
                    && let Err(error) = self.arms.switch(before)
                {
                    outcome.line += &format!("; {error}");
                }
                // Whatever it is at now is what the next window is of.
                if let Ok(now) = self.arms.current() {
                    self.status.current.clone_from(&now);
                    self.expected = now;
                }
                self.analyser.refused(SchedulerId(to));
                if let Some(indifference) = &mut self.indifference {
                    indifference.refused(to);
                }
                // Each further try would stop the device for nothing.
                if self.refused.len() == self.arms.names().len() && self.place(&self.expected).is_none() {
                    let device = self.status.device.clone();
                    return Err(Error::NoArm { device, last: Box::new(error) });
                }
            }
        }
        Ok(())
    }

    /// Arms that are searched may stand for other settings after each window.
    fn rename_arms(&mut self) -> Result<(), Error> {
        for (arm, name) in self.analyser.schedulers().iter().enumerate() {
            if self.arms.names()[arm] != *name {
                self.arms.rename(arm, name)?;
                self.refused.remove(&arm);
                self.status.arms[arm].clone_from(name);
            }
        }
        Ok(())
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.arms.names().iter().position(|arm| arm == name)
    }

    fn count(&mut self, decision: &Decision) {
        self.status.analysed += u64::from(decision.is_analysed());
        self.status.hits += u64::from(decision.is_recognised());
        self.status.kinds = self.analyser.kinds().count() as u64;
        self.status.clusters = self.analyser.store().clusters().len() as u64;
    }

    fn said(&self, what: String) -> Outcome {
        Outcome { line: what, switched: None, decision: None }
    }
}

/// A metric's name, as on the command line.
#[must_use]
pub fn in_words(metric: Metric) -> String {
    use tuner::{Better, Of, Which};
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
            let which = if which == Which::Mean { "mean" } else { "p99" };
            let of = match of {
                Of::Reads => "read",
                Of::Writes => "write",
                Of::Synchronous => "sync",
            };
            format!("{which}-{of}-latency")
        }
    }
}
