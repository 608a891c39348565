//! The recommendation: by the first basis that has a result.

use std::path::Path;
use std::time::Duration;

use capture::topology::DeviceType;
use elevator::text::counted;
use evaluation::report::format::bytes;
use tuner::prior::{self, LoadClass};
use tuner::{LatencyClass, Metric, is_worth_it};
use tuner_live::arms::Arms;

use super::configuration::{Configuration, Host, switch_to};
use super::history::History;
use super::measure::Measurement;
use super::model::{self, Modelled, Recording, Row};
use super::observe::Observation;
use super::{Advice, Basis, Session};
use crate::commands::doctor::Roots;
use crate::error::Error;

/// The confidence of a recommendation that rests on the class of the load alone.
pub(super) const BY_CLASS: f64 = 0.3;
/// The confidence of a recommendation by the model: if the class of the load favours another scheduler, and if it agrees.
pub(super) const BY_MODEL: f64 = 0.4;
const BY_BOTH: f64 = 0.6;
/// Of `none` where the drive or the host schedules, and where the model also has no great gain.
const BYPASSED: f64 = 0.6;
const BYPASSED_SURELY: f64 = 0.8;
/// Gains in the model below this are within its error.
const MODEL_ERROR: f64 = 0.1;
/// The gain in the model that counts if the class of the load has a loss.
const AGAINST_CLASS: f64 = 0.25;
/// A load of fewer requests in all windows shows no effect of a scheduler.
const FEWEST: u64 = 50;
/// A scheduler that serves readers in turn, each for a time, moves between them at far fewer requests; one that does not moves at each, or at two of five if
/// it merges each request with the next one.
const ALTERNATING: f64 = 1.0 / 3.0;
/// Nor does one that occupies the device for a smaller part of the time.
const LEAST_BUSY: f64 = 0.001;

impl Session<'_> {
    /// Adds the recommendation and what sets it up.
    pub(super) fn recommend(
        &self,
        advice: &mut Advice,
        kind: DeviceType,
        observation: Observation,
        measurement: Measurement,
    ) -> Result<(), Error> {
        let Observation { recording, mut history, class } = observation;
        let too_small = too_small(advice, class, self.length);
        advice.load = class.filter(|_| too_small.is_none()).map(LoadClass::in_words);
        let unjudged = too_small.or_else(|| without_value(advice, self.metric));
        let class = class.filter(|_| unjudged.is_none());
        if class.is_some() {
            self.replay(advice, &recording, &measurement)?;
        }
        advice.service_times = measurement.probe.filter(|_| !measurement.is_disturbed);
        if let Some(profile) = &self.profile {
            history.keep_significant(profile, self.arms.names(), advice);
        }
        let is_served = self.arguments.watching.control.is_some();
        let bypassed = (kind == DeviceType::Nvme || advice.facts.scheduled_by_host) && !is_served;
        match unjudged {
            Some(why) => advice.why = why + &advice.whatever_the_load(bypassed),
            None => conclude(advice, &history, &*self.arms),
        }
        if let Some(class) = class.filter(|_| self.arms.needs_a_switch(advice.in_use())) {
            let learned = history.mean_in_use().filter(|_| self.metric == Metric::Bandwidth);
            let again = switch_to(&self.command(), advice.in_use());
            let found = set_too_late(advice, class, learned, &again);
            advice.doubts.extend(found);
        }
        if let Some(class) = class {
            expect(advice, class, self.metric, bypassed);
            advice.configuration = Some(self.configuration(advice));
        }
        Ok(())
    }

    /// Replays the observed requests on a model of the device, if its service times were measured.
    fn replay(
        &self,
        advice: &mut Advice,
        recording: &Recording,
        measurement: &Measurement,
    ) -> Result<(), Error> {
        let Some(probe) = &measurement.probe else { return Ok(()) };
        let reported = (advice.requests - advice.not_reported).max(1);
        let observed = model::Observed {
            probe,
            is_disturbed: measurement.is_disturbed,
            busy: advice.busy,
            disks: self.target.queues.len(),
            bytes_per_second: advice.bytes_per_second,
            of_each_reported: advice.requests as f64 / reported as f64,
        };
        // Also if it is not an arm: gains are relative to it.
        let mut names = self.arms.names().to_vec();
        if !names.contains(&advice.scheduler) {
            names.push(advice.scheduler.clone());
        }
        let schedulers = (&*names, &*advice.scheduler);
        let mut replay = model::replay(recording, observed, schedulers, self.metric, self.catalogue)?;
        let in_use = advice.in_use();
        replay.iter_mut().for_each(|model| model.check(in_use, self.arms.needs_a_switch(in_use)));
        advice.replay = replay;
        Ok(())
    }

    /// The scheduler in use with the settings that a switch to `arm` and back loses. Without settings if the disks' settings differ.
    fn present(&self, current: &str, arm: &str) -> String {
        let queues = self.target.queues.iter();
        let arms: Option<Vec<String>> = queues.map(|queue| queue.arm_before(arm).ok()).collect();
        let first = arms.as_deref().and_then(|arms| arms.split_first());
        let same = first.filter(|(first, others)| others.iter().all(|other| other == *first));
        let is_current = |arm: &&String| arm.split('{').next() == current.split('{').next();
        same.map(|(first, _)| first).filter(is_current).cloned().unwrap_or_else(|| current.to_owned())
    }

    /// What to paste.
    fn configuration(&self, advice: &Advice) -> Configuration {
        let current = &*advice.scheduler;
        let arm = advice.better.as_deref().unwrap_or(current);
        let killed = advice.killed_tuner.as_ref();
        let before = killed.map_or_else(|| self.present(current, arm), |killed| killed.complete_arm.clone());
        let host = Host::of(&Roots::at(Path::new("/")));
        let states = [arm, current, &before];
        Configuration::of(states, &self.target.queues, &*self.arms, (&host, &self.command()))
    }

    /// The command that tunes this device.
    pub(super) fn command(&self) -> String {
        let node = self.target.stack.itself().node();
        format!("dwell tune {}{}", node.display(), self.arguments.watching.reached.option())
    }
}

/// What was learned before decides, or the profile.
pub(super) fn conclude(advice: &mut Advice, history: &History, arms: &dyn Arms) {
    let Some((best, of)) = history.best() else { return by_profile(advice, history, arms) };
    let gain = if history.base == 0.0 { 0.0 } else { of.gained / history.base.abs() };
    let recognised = f64::from(of.windows) / f64::from(advice.analysed.max(1));
    advice.confidence = recognised * of.measured as f64 / (of.measured + 1) as f64;
    advice.expected_gain = Some(gain);
    advice.basis = Basis::History;
    if Some(best) != history.now && is_worth_it(gain, of.surely) {
        advice.better = Some(arms.names()[best].clone());
    } else if let Some(none) = history.none_instead() {
        // As 'tune' and 'patterns'; otherwise the advice would depend on what is set now.
        advice.better = Some(arms.names()[none].clone());
        advice.expected_gain = None;
        advice.why = format!(
            "{}; no scheduler that was tried is better than none beyond chance, and none needs the least processor time",
            advice.why
        );
    } else {
        advice.why = format!("{}; no scheduler that was tried is better", advice.why);
    }
}

/// Recommends the profile's preference if there is no history. The profile does not predict the gain of this load.
fn by_profile(advice: &mut Advice, history: &History, arms: &dyn Arms) {
    if let Some((best, why)) = &history.profiled {
        advice.why = format!("according to the device's profile: {why}");
        advice.basis = Basis::Profile;
        advice.confidence = BY_BOTH;
        advice.better = Some(arms.names()[*best].clone());
    }
}

/// Without history and profile: the drive's own scheduling, the model, or the class of the load. None of them was measured on this device.
pub(super) fn expect(advice: &mut Advice, class: LoadClass, metric: Metric, bypassed: bool) {
    if advice.basis != Basis::Nothing {
        return;
    }
    let model = advice.replay.as_ref().filter(|model| model.unfit.is_none());
    // In the other classes the recording has enough of each reader's requests.
    let is_random =
        matches!(class, LoadClass::RandomReads | LoadClass::RandomMix | LoadClass::StreamAmongRandom);
    let starved = model.and_then(|model| model.starved.as_ref()).filter(|_| is_random);
    let judges = model.is_some() && (starved.is_none() || class != LoadClass::StreamAmongRandom);
    let starved = starved.map(|process| {
        format!(
            "; {process} reads in sequence, but waits for random reads, so that the recording has few of its reads and the model may \
             underestimate a scheduler that serves it"
        )
    });
    let model = model.and_then(Modelled::best).map(|(name, gain)| (name.to_owned(), gain));
    let least = MODEL_ERROR * 100.0;
    let greatest = model.as_ref().filter(|(_, gain)| *gain >= 0.005);
    let greatest = greatest.map(|(name, gain)| format!(" ({:+.0}% for {name})", gain * 100.0));
    let greatest = greatest.unwrap_or_default();
    let gain = |name: &str| prior::gain(name, class, metric);
    let ahead = |name: &str| gain(name) - gain(&advice.scheduler) >= MODEL_ERROR;
    let expected = advice.schedulers.iter().max_by(|a, b| gain(a).total_cmp(&gain(b)).then_with(|| b.cmp(a)));
    // Of equals within the error the one that needs the least processor time.
    let none = advice.schedulers.iter().find(|name| *name == "none").cloned();
    let is_enough = |name: &&String| none.as_ref().filter(|none| gain(name) - gain(none) < MODEL_ERROR);
    let expected = expected.map(|name| is_enough(&name).unwrap_or(name));
    let expected = expected.filter(|name| ahead(name)).cloned();
    let no_measurement =
        "not measured on this device: 'dwell tune' tries it and restores the present one at its end";
    // A small gain counts if the class favours the same scheduler: think times in a recording of a busy machine reduce it.
    let is_expected = |name: &String| expected.as_ref() == Some(name);
    // The model has no order of the device's own, which a scheduler that waits may prevent: where the class has a loss, a small gain does not count.
    let least_of = |name: &str| if gain(name) < 0.0 { AGAINST_CLASS } else { MODEL_ERROR };
    let is_gain = |(name, gain): &&(String, f64)| {
        *gain >= least_of(name) || (is_worth_it(*gain, 1.0) && is_expected(name))
    };
    let in_model = model.as_ref().filter(is_gain);
    let (basis, better, gained, confidence, why) = match (none, in_model, expected) {
        (Some(none), ..) if bypassed => {
            let who = advice.below();
            let against = in_model.map(|(name, gain)| {
                format!(
                    "; the model, which has no such scheduler below, has {:+.0}% for {name}: if programs in this guest compete and the host \
                     has none, measure with 'dwell tune'",
                    gain * 100.0
                )
            });
            let confidence = if in_model.is_some() { BYPASSED } else { BYPASSED_SURELY };
            let why = format!("{who} orders the requests itself{}", against.unwrap_or_default());
            (Basis::Bypass, none, None, confidence, why)
        }
        (_, Some((name, gain)), expected) => {
            let agrees = expected.is_some() && ahead(name);
            let confidence = if agrees && *gain >= MODEL_ERROR { BY_BOTH } else { BY_MODEL };
            let by = match agrees {
                true => format!("the model and the class of the load ({})", class.in_words()),
                false => "the model".to_owned(),
            };
            let why = format!("expected by {by}{}; {no_measurement}", starved.unwrap_or_default());
            (Basis::Model, name.clone(), Some(*gain), confidence, why)
        }
        // The scheduler in use is not kept for its own sake: the advice would depend on what is set now.
        (Some(none), None, expected)
            if (judges || expected.as_ref().is_none_or(|name| *name == none))
                && is_no_better(advice, &none, model.is_some(), &gain) =>
        {
            let model = if model.is_some() { "neither the model nor " } else { "" };
            let not = if model.is_empty() { "does not predict" } else { "predicts" };
            let (class, in_use) = (class.in_words(), &advice.scheduler);
            let others = expected.filter(|name| *name != none);
            let others =
                others.map(|name| format!("; {name} often gains for this class")).unwrap_or_default();
            let why = format!(
                "{model}the class of the load ({class}) {not} a gain of {in_use} over {none} of at least {least:.0}%, which needs the least processor time{others}; {no_measurement}"
            );
            (Basis::Class, none, None, BY_CLASS, why)
        }
        (_, None, expected) if judges => {
            let (confidence, why) = match expected {
                None => {
                    let against = model.as_ref().filter(|(_, gain)| *gain >= MODEL_ERROR);
                    let class = class.in_words();
                    let why = match against {
                        Some((name, gain)) => format!(
                            "the model has {:+.0}% for {name}, which often loses for the class of the load ({class})",
                            gain * 100.0
                        ),
                        None => format!(
                            "neither the model{greatest} nor the class of the load ({class}) predicts a gain of at least {least:.0}%"
                        ),
                    };
                    if against.is_some() || starved.is_some() {
                        (BY_CLASS, format!("{why}{}; {no_measurement}", starved.unwrap_or_default()))
                    } else {
                        (BY_BOTH, why)
                    }
                }
                Some(name) => (
                    BY_CLASS,
                    format!(
                        "the model{greatest} predicts no gain of at least {least:.0}% for this load, though {name} often gains for its class; {no_measurement}"
                    ),
                ),
            };
            (Basis::Model, advice.scheduler.clone(), None, confidence, why)
        }
        (_, None, Some(name)) => {
            let why = format!(
                "expected from the class of the load ({}){}; {no_measurement}",
                class.in_words(),
                starved.unwrap_or_default()
            );
            (Basis::Class, name, None, BY_CLASS, why)
        }
        (_, None, None) => {
            let why = "no other scheduler is expected to be better for this class of load".to_owned();
            (Basis::Class, advice.scheduler.clone(), None, BY_CLASS, why)
        }
    };
    (advice.basis, advice.confidence, advice.why) = (basis, confidence, why);
    if better != advice.scheduler {
        (advice.better, advice.expected_gain) = (Some(better), gained);
    }
}

/// Whether the scheduler in use is no better than `none`, beyond the error: by the class of the load, and in the model if it fits.
fn is_no_better(advice: &Advice, none: &str, has_model: bool, gain: &impl Fn(&str) -> f64) -> bool {
    let rows = advice.replay.iter().filter(|_| has_model).flat_map(|model| &model.results);
    let is_worse = |row: &Row| row.scheduler == none && row.gain.is_some_and(|gain| gain <= -MODEL_ERROR);
    let in_use = &*advice.scheduler;
    in_use != none && gain(in_use) - gain(none) < MODEL_ERROR && !rows.clone().any(is_worse)
}

/// A note if the scheduler in use gives less than half of what it gave a tuner (`learned`, in bytes a second), or else in the model, or, without
/// windows of a tuner, moves between readers at a third of their requests: requests may have come between its switch and its settings, so that it has no effect on
/// programs that ran then.
pub(super) fn set_too_late(
    advice: &Advice,
    class: LoadClass,
    learned: Option<f64>,
    again: &str,
) -> Option<String> {
    let (in_use, observed) = (advice.in_use(), advice.bytes_per_second);
    let fitting = advice.replay.iter().filter(|model| model.unfit.is_none());
    let mut rows = fitting.flat_map(|model| &model.results);
    let modelled = rows.find(|row| row.scheduler == in_use).map(|row| row.megabytes_per_second * 1e6);
    let less_than = |expected: f64, by: &str| {
        let rates = [observed, expected].map(|rate| bytes(rate as u64));
        (observed * 2.0 < expected)
            .then(|| format!("{in_use} gives {}/s instead of {}/s {by}", rates[0], rates[1]))
    };
    // The model may underestimate the scheduler. On a device that is often idle the readers pause.
    let alternates =
        class == LoadClass::Streams && advice.change_share >= ALTERNATING && advice.busy >= model::BUSY;
    let found = match learned {
        Some(learned) => less_than(learned, "in the windows of 'dwell tune'"),
        None => modelled.and_then(|rate| less_than(rate, "in the model")).or_else(|| {
            let share = advice.change_share * 100.0;
            alternates.then(|| {
                format!(
                    "{in_use} serves sequential readers, and moves between them at {share:.0}% of the requests"
                )
            })
        }),
    };
    found.map(|found| {
        format!(
            "{found}: it may have been set while these programs ran, which has no effect on them; to set it for them, too: {again}"
        )
    })
}

/// Why the load does not show which scheduler is better, if it is so small.
pub(super) fn too_small(advice: &Advice, class: Option<LoadClass>, window: Duration) -> Option<String> {
    let Advice { requests, busy, .. } = *advice;
    // A device may be busy with few large requests.
    let is_small = (requests < FEWEST && busy < model::BUSY) || busy < LEAST_BUSY || class.is_none();
    is_small.then(|| {
        format!(
            "{} in {} s, busy {:.2}% of the time: a scheduler orders requests that wait for each other; run this while the load of interest runs",
            if requests == 0 { "no requests".to_owned() } else { counted(requests, "request") },
            window.saturating_mul(advice.windows).as_secs_f64(),
            busy * 100.0
        )
    })
}

/// Why the metric has no value, if it is the latency of requests that the load does not have. Notes these requests.
pub(super) fn without_value(advice: &mut Advice, metric: Metric) -> Option<String> {
    let Metric::Latency(_, of) = metric else { return None };
    if advice.occurred[of as usize] {
        return None;
    }
    let requests = match of {
        LatencyClass::Reads => "reads",
        LatencyClass::Writes => "writes",
        LatencyClass::Synchronous => "synchronous requests",
    };
    advice.absent = Some(requests);
    let metric = &advice.metric;
    Some(format!(
        "{metric} has no value without {requests}: run this while the load of interest runs, or use another --metric"
    ))
}

impl Advice {
    /// What orders the requests below the scheduler, if `none` is recommended therefore.
    const fn below(&self) -> &'static str {
        if self.facts.scheduled_by_host { "the host of this virtual machine" } else { "the drive" }
    }

    /// What holds without a load, as the end of a sentence.
    pub(super) fn whatever_the_load(&self, bypassed: bool) -> String {
        let has_none = self.schedulers.iter().any(|name| name == "none");
        if !bypassed || !has_none || self.scheduler == "none" {
            return String::new();
        }
        format!(
            "; {} orders the requests itself, so that none is usually better than {} for any load",
            self.below(),
            self.scheduler
        )
    }
}
