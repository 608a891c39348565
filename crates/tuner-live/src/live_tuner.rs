//! [`LiveTuner`]: measures a window, asks the [`Tuner`], switches and reports, window after window.

use elevator::text::counted;
use tuner::{Analyser, EarlyEnd, Facts, Load, Metric, State, Tuner};

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
    tuner: Tuner,
    arms: Box<dyn Arms>,
    metric: Metric,
    dry_run: bool,
    status: Status,
    /// The scheduler that this tuner set last; at first the one that was in use.
    expected: String,
    outside: Outside,
}

/// The result of a window.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The decision and its reason, for the log.
    pub line: String,
    /// The arm that was switched to, or would be without a dry run.
    pub switched: Option<String>,
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
        let tuner = Tuner::new(analyser, &expected, !dry_run);
        Ok(Self { tuner, arms, metric, dry_run, status, expected, outside: Outside::new(command) })
    }

    /// What was learned, for the database: with what an opening that is not over has measured.
    #[must_use]
    pub fn state(&self) -> State {
        self.tuner.state()
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
            let line =
                "window discarded: it lasted too long (the machine slept or was overloaded)".to_owned();
            return Ok(Outcome { line, switched: None });
        }
        let measured = seen.measured(self.metric);
        self.status.value = measured.map(|of| of.value);
        let Seen { window, performance, early, missed, .. } = seen;
        let failed = problem.is_some();
        let facts = Facts { window: &window, scheduler: &current, performance, measured, early, failed };
        let decision = self.tuner.window(&facts);
        self.status.analysed += u64::from(decision.is_analysed());
        self.status.hits += u64::from(decision.is_recognised());
        self.status.kinds = self.tuner.analyser().kinds().count() as u64;
        self.status.clusters = self.tuner.analyser().store().clusters().len() as u64;
        let mut outcome = Outcome { line: decision.line(self.arms.names()), switched: None };
        if let Some(to) = decision.scheduler.filter(|_| decision.change) {
            self.switch(to.0, &mut outcome)?;
        }
        if early {
            let seconds = window.length.as_secs_f64();
            outcome.line += &format!("; the window ended early, after {seconds:.1} s");
        }
        if missed > 0 {
            outcome.line += &format!("; {} not reported", counted(missed, "request"));
        }
        if let Some(problem) = problem {
            outcome.line += &format!("; {problem}");
        }
        self.status.latest.clone_from(&outcome.line);
        Ok(outcome)
    }

    /// The condition that ends the next window early; `None` if no trial is under way, or if the metric is only known at the end of a window.
    #[must_use]
    pub fn early_end(&self) -> Option<EarlyEnd> {
        self.tuner.early_end().filter(|end| self.index(&self.expected) == Some(end.scheduler))
    }

    /// Whether the present window is lost, whose first `part` (0 to 1) is this.
    #[must_use]
    pub fn is_lost(&self, so_far: &Seen, part: f64) -> bool {
        let end = self.early_end().zip(so_far.measured(self.metric));
        end.is_some_and(|(end, value)| end.is_due(&value, part))
    }

    /// Whether no choice matters, so that nothing need be captured until [`standby_window`](Self::standby_window) returns a reason.
    #[must_use]
    pub fn is_on_standby(&self) -> bool {
        self.tuner.standby().is_some_and(|none| self.arms.names()[none] == self.expected)
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
        let why = self.tuner.standby_window(load);
        why.iter().for_each(|why| self.status.latest.clone_from(why));
        Ok(why)
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
                self.expected.clone_from(&name);
                outcome.line += &format!("; the switch took {:.0} ms", took.as_secs_f64() * 1e3);
                outcome.switched = Some(name);
            }
            // A removed device says nothing about the scheduler.
            Err(gone @ Error::Gone(_)) => return Err(gone),
            Err(error) => {
                outcome.line += &format!("; {error}");
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
                self.tuner.rejected(to);
                // Each further attempt would stop the device for nothing.
                if self.tuner.first_arm().is_none() && self.index(&self.expected).is_none() {
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
