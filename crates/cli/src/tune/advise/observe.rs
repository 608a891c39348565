//! What the command observes: the load of the device, under the scheduler in use.

use std::fs::File;
use std::time::{Duration, Instant};

use elevator::Op;
use elevator::text::counted;
use tuner::prior::{LoadClass, change_share};
use tuner::{Analyser, KindDecision, Observed, SchedulerId, Why};
use tuner_live::outside::Outside;
use tuner_live::{Seen, Traffic, released_within};

use super::history::History;
use super::measure::PROBING;
use super::model::{Recorded, Recording};
use super::{Advice, AdviseArguments, Session};
use crate::error::Error;
use crate::interrupt;

/// What was observed, apart from the figures in the advice.
pub(super) struct Observation {
    /// The requests of all windows.
    pub(super) recording: Recording,
    pub(super) history: History,
    /// The class of the latest window with enough requests.
    pub(super) class: Option<LoadClass>,
}

impl Session<'_> {
    /// Watches the device for the windows that the command line names, or until the command is interrupted.
    pub(super) fn observe(&mut self, advice: &mut Advice, claims: &[File]) -> Result<Observation, Error> {
        let (arguments, metric) = (self.arguments, self.metric);
        let recording = Recording::of(&self.target)?;
        let into = recording.clone();
        let through = move |capture| Recorded(capture, into.clone());
        let mut windows = self.target.watch_through(self.length, metric, through)?;
        announce(arguments, &self.target.name(), self.length, claims);
        let in_use = advice.in_use().to_owned();
        let saved = self.has_history.then(|| self.analyser.kinds().clone());
        let mut history = History::new(self.arms.names(), &advice.scheduler, metric.better()).observed_under(
            &in_use,
            self.arms.names(),
            saved,
        );
        let mut outside = Outside::new(arguments.watching.command.clone());
        let mut counters = self.target.counters();
        // Without counters the load is that of the capture.
        let mut traffic = || counters.as_mut().and_then(|counters| counters.traffic(Instant::now()).ok());
        traffic();
        let (mut class, mut unmeasured) = (None, 0);
        while advice.windows < arguments.windows {
            let seen = windows.next(&mut capture::now, &mut || !interrupt::requested())?;
            let Some(mut seen) = seen else { break };
            let now = self.arms.current()?;
            if now != in_use {
                let device = &advice.device;
                let problem = format!(
                    "{device}: another process changed the scheduler from {in_use} to {now}; run advise again"
                );
                return Err(Error::Failed(problem));
            }
            let problem = outside.measure(metric, &mut seen);
            problem.iter().for_each(|problem| say!("{problem}"));
            unmeasured += u64::from(problem.is_some());
            if seen.torn {
                say!("window discarded: it lasted too long (the machine slept or was overloaded)");
                continue;
            }
            class = seen.window.counts().then(|| LoadClass::of(&seen.window, seen.busy)).or(class);
            advice.add(&seen);
            advice.compare(&mut history, &mut self.analyser, seen);
        }
        if unmeasured > 0 {
            let windows = counted(unmeasured, "window");
            advice.doubts.push(format!("the metric could not be measured in {windows}"));
        }
        traffic().iter().for_each(|traffic| advice.count(traffic));
        // Before the device is measured, so that the measurement is not recorded.
        windows.close();
        Ok(Observation { recording, history, class })
    }
}

/// Notes in the claims how long the command takes, and prints it.
fn announce(arguments: &AdviseArguments, device: &str, length: Duration, claims: &[File]) {
    let watched = length.saturating_mul(arguments.windows);
    let second = Duration::from_secs(1);
    let (measuring, all) = match arguments.no_probe {
        true => ("", watched.saturating_add(second)),
        false => (", then measuring it for at most 4 s", watched.saturating_add(PROBING + 2 * second)),
    };
    released_within(claims, all);
    let windows = counted(u64::from(arguments.windows), "window");
    say!(
        "watching {device} for {windows} of {} s{measuring}; done in {:.0} s; changing nothing",
        length.as_secs_f64(),
        all.as_secs_f64()
    );
}

impl Advice {
    /// Adds a window to the load.
    pub(super) fn add(&mut self, seen: &Seen) {
        let n = f64::from(self.windows);
        let mean = |so_far: f64, value: f64| (so_far * n + value) / (n + 1.0);
        let requests = seen.window.requests() + seen.missed;
        self.requests += requests;
        let rate = requests as f64 / seen.window.length.as_secs_f64();
        self.requests_per_second = mean(self.requests_per_second, rate);
        self.bytes_per_second = mean(self.bytes_per_second, seen.performance.bandwidth);
        let flushes = seen.window.accesses.len() as u64 - seen.window.requests();
        let rate = flushes as f64 / seen.window.length.as_secs_f64();
        self.flushes_per_second = mean(self.flushes_per_second, rate);
        // Of all requests: windows have different numbers of them.
        let share = requests as f64 / self.requests.max(1) as f64;
        self.request_bytes += (seen.window.mean_size() - self.request_bytes) * share;
        self.not_reported += seen.missed;
        self.read_share = mean(self.read_share, seen.window.read_share());
        self.random_share = mean(self.random_share, seen.window.random_share());
        self.change_share = mean(self.change_share, change_share(&seen.window));
        self.busy = mean(self.busy, seen.busy);
        // In the order of `LatencyClass`; the synchronous requests include all reads.
        let of = [Op::Read, Op::Write, Op::Read];
        for (n, occurred) in self.occurred.iter_mut().enumerate() {
            *occurred |= seen.performance.latencies[n].is_some()
                || seen.window.accesses.iter().any(|access| access.op == of[n]);
        }
        self.windows += 1;
    }

    /// Compares a window with those of the history, and notes the result as the reason so far.
    fn compare(&mut self, history: &mut History, analyser: &mut Analyser, seen: Seen) {
        let scheduler = history.in_use.map(SchedulerId);
        let observed = Observed { scheduler, performance: seen.performance };
        let decision = analyser.window(&seen.window, &observed);
        self.analysed += u32::from(decision.is_analysed());
        let has_history = history.learn(analyser, &decision);
        self.recognised += u32::from(has_history);
        self.why = match &decision.why {
            // The decider's line would name its next step, perhaps a trial, and not a reason.
            Why::Kind(KindDecision { kind, windows, .. }) => {
                // `windows` includes those of this command, which `tune` does not store.
                let stored = history.saved.as_ref().and_then(|saved| saved.load(*kind));
                let before = stored.map_or(0, |(_, windows)| windows).min(*windows);
                let now = windows - before;
                let values = format!(" ('dwell patterns show --kind {kind}' has the measured values)");
                let values = if has_history { &*values } else { "" };
                match before {
                    0 => format!("loads of kind {kind}, not observed before; {} now", counted(now, "window")),
                    before => format!(
                        "loads of kind {kind}, observed in {} before and in {now} now{values}",
                        counted(before, "window")
                    ),
                }
            }
            _ => decision.line(analyser.schedulers()),
        };
    }

    /// The load as the kernel counted it, which is what other programs show. Submitted requests are merged, or are discards.
    pub(super) fn count(&mut self, traffic: &Traffic) {
        if traffic.requests_per_second == 0.0 {
            return;
        }
        self.bytes_per_second = traffic.bytes_per_second;
        // The kernel counts a flush without data as a write of no sectors.
        let with_data = traffic.requests_per_second - self.flushes_per_second;
        if with_data > 0.0 {
            self.requests_per_second = with_data;
            self.request_bytes = traffic.bytes_per_second / with_data;
        }
        self.read_share = traffic.read_share;
        self.busy = traffic.busy;
    }
}
