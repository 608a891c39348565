//! The opening: the first trials on a device without history.
//!
//! # Idea
//! Every trial of a poor scheduler costs a window. The scheduler with the [highest expected gain](crate::prior) is therefore tried first, a
//! clearly worse one is abandoned after its first window, and one that needs time to warm up gets two windows. The best one then serves the
//! load for [`STAY`] windows, which earns its gain and measures its value over more than one window.
//!
//! # Order of decisions
//! 1. The first window shows what the scheduler in use gives, and the class of the load, which orders the trials.
//!    It is repeated after the trials, unless the best one has [`PLAIN`] more than `none`: a program may have started in it.
//! 2. A scheduler on trial that is worse by [`ABANDON`] is abandoned. One that warms up gets a second window, which counts alone, because the first
//!    one may have a burst of the switch. If the second one is much worse than the first, a third one decides.
//! 3. Once one is better than `none` by [`CLEAR`], a scheduler is skipped if its expected gain is less than half of that
//!    gain and less than 50%. The decider may try it later.
//! 4. The best one stays for [`STAY`] windows if it is better than `none` by [`WORTH`]. If the latest [`VERIFY`] of them are clearly below the value of
//!    its trial, or no better than `none`, the skipped schedulers are tried, and `none` is measured again. Before that, a scheduler whose settings
//!    follow the switch is set and tried once more. The first window of the stay is not counted.
//! 5. If it was much better than `none`, `none` is measured once more: another program may have disturbed its first window.
//! 6. The results go to the significance test, as its first block or as its answer, and to the decider.
//!
//! Values are compared only if they are of one kind of load ([`Shape`]). Requests of another kind in two windows in a row under one scheduler are
//! another load: the opening begins again. If only the scheduler on trial has such requests, they may be its effect, so the scheduler that it was
//! compared with is measured again. A window in which the load began, ended or changed is repeated once.

use observation::{Better, Metric, Window};

use crate::early_end::{ABANDON, COLD, EarlyEnd};
use crate::kinds::{Shape, are_alike};
use crate::load::Load;
use crate::measured::Measured;
use crate::opened::Opened;
use crate::prior::{self, LoadClass};

/// A loss in the trial for which the significance test that follows leaves a scheduler out from its first block.
const HOPELESS: f64 = -0.4;
/// The least gain over `none` for which the best scheduler stays.
const WORTH: f64 = 0.05;
/// A gain over `none` that needs no further test.
const CLEAR: f64 = 0.3;
/// A gain over `none` at which a disturbance of the first window is no explanation.
const PLAIN: f64 = 1.0;
/// The windows for which the best scheduler stays, as many as a first turn with the decider.
const STAY: usize = 20;
/// Windows of the stay after which the value of the trial is verified, and of which the present value is the mean.
const VERIFY: usize = 3;
/// The number of times that a stay may end because its value has fallen.
const RELAPSES: u32 = 3;
/// The greatest number of schedulers that are tried; the decider tries the others.
const TRIALS: usize = 4;
/// Instances of a scheduler whose settings follow the switch, in one trial: requests that come before the settings make some of them useless.
const INSTANCES: u32 = 3;
/// Windows in a row with requests of another kind after which the load counts as another one: one may have the requests of a single program.
const CHANGED: u32 = 2;
/// The number of times that an opening begins again with another load: loads that alternate would prevent its end.
const RESTARTS: u32 = 3;
/// Accesses of a window from which on its requests have a kind.
const SOME: usize = 20;

/// The schedulers' names, the measure, and the results so far.
#[derive(Debug)]
pub struct Opening {
    names: Vec<String>,
    metric: Metric,
    class: Option<LoadClass>,
    /// The load of the latest window under `none`; without one, the load of the first window.
    load: Load,
    /// The values so far, by scheduler.
    values: Vec<Option<Measured>>,
    /// Schedulers still to be tried, the next one last.
    left: Vec<usize>,
    /// Schedulers whose expected gain is less than half of the best measured gain.
    skipped: Vec<usize>,
    phase: Phase,
    /// The scheduler of the first window, in which a program may have started, until it is measured again.
    provisional: Option<usize>,
    /// A scheduler was much better than `none` before and after its stay.
    clear: bool,
    /// The scheduler whose value was verified in its stay, and lowered if it was too high.
    verified: Option<usize>,
    /// What follows from a rejected scheduler, for the line of the next window.
    rejection: Option<String>,
    /// The scheduler whose trial begins was in use before.
    is_set_again: bool,
    /// The instances of the scheduler on trial.
    instances: u32,
    /// The values of the stay's latest windows, at most [`VERIFY`].
    latest: Vec<f64>,
    /// The number of stays that ended because their value had fallen.
    relapses: u32,
    /// Schedulers that the device rejects.
    unusable: Vec<usize>,
    /// The requests of each scheduler's latest window.
    shapes: Vec<Option<Shape>>,
    /// The latest windows in a row with requests of another kind, and those that were not whole.
    changed: u32,
    parts: u32,
    /// The number of times that it began again, and the results for the load before, until they are taken.
    restarts: u32,
    before: Option<Opened>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    First,
    /// A scheduler is on trial: its index, and its windows so far.
    Trial(usize, u32),
    /// The best scheduler stays: its index, its windows so far, and their mean value.
    Stay(usize, usize, f64),
    /// The scheduler of the first window, which seems the best, is measured again.
    Again(usize),
    /// The best scheduler is measured again, as the one on trial had requests of another kind.
    Reference(usize),
    /// `none` is measured after the stay.
    Check(usize),
    Over,
}

/// What a window's requests are, by those before.
enum Found {
    Same,
    /// They cannot be compared, for this reason.
    Doubtful(String),
    Another,
}

/// A decision of the opening, for the log.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// The scheduler for the next window; `None`: the opening is over.
    pub scheduler: Option<usize>,
    /// The decision with its reason.
    pub why: String,
}

impl Opening {
    /// Before the first window.
    pub fn new(names: &[String], metric: Metric) -> Self {
        Self {
            names: names.to_vec(),
            metric,
            class: None,
            load: Load::default(),
            values: vec![None; names.len()],
            left: Vec::new(),
            skipped: Vec::new(),
            phase: Phase::First,
            provisional: None,
            clear: false,
            verified: None,
            rejection: None,
            is_set_again: false,
            instances: 0,
            latest: Vec::new(),
            relapses: 0,
            unusable: Vec::new(),
            shapes: vec![None; names.len()],
            changed: 0,
            parts: 0,
            restarts: 0,
            before: None,
        }
    }

    /// The device rejects a scheduler; returns what to do instead.
    pub fn rejected(&mut self, arm: usize) -> Step {
        self.left.retain(|&other| other != arm);
        self.unusable.push(arm);
        (self.values[arm], self.shapes[arm]) = (None, None);
        let step = self.next(format!("{} cannot be used and is skipped", self.names[arm]));
        self.rejection = Some(step.why.clone());
        step
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// The condition that ends the trial under way inside the window that begins now.
    pub fn early_end(&self) -> Option<EarlyEnd> {
        let (scheduler, windows) = match self.phase {
            Phase::Trial(arm, windows) => (arm, windows),
            Phase::Again(arm) | Phase::Check(arm) | Phase::Reference(arm) => (arm, 1),
            Phase::First | Phase::Stay(..) | Phase::Over => return None,
        };
        let (_, reference) = self.best_but(Some(scheduler))?;
        let limit = if windows == 0 { self.first_loss(scheduler) } else { ABANDON };
        Some(EarlyEnd { scheduler, reference, limit, better: self.metric.better() })
    }

    /// The loss in the first window of a trial that ends it. A scheduler that warms up may be much worse at first, if it is expected to gain.
    fn first_loss(&self, arm: usize) -> f64 {
        if self.expected(arm) > 0.0 && prior::warms_up(&self.names[arm]) { COLD } else { ABANDON }
    }

    /// The best scheduler, if it was clearly better than `none` also in the windows after its trial, or plainly better in its trial, and `none`.
    fn confirmed(&self) -> Option<(usize, usize)> {
        let (best, _) = self.best()?;
        let gain = self.gain_over_none();
        let none = self.none().filter(|none| *none != best && gain >= CLEAR)?;
        // A slow `none` before the stay was a disturbance, if the one after the stay was not slow.
        let is_refuted = self.phase == Phase::Over && !self.clear;
        let is_in_use = matches!(self.phase, Phase::Stay(..) | Phase::Check(_) | Phase::Over);
        let is_plain = is_in_use && (PLAIN..f64::INFINITY).contains(&gain);
        ((is_plain || self.verified == Some(best)) && !is_refuted).then_some((best, none))
    }

    /// The results so far; complete when it is over.
    pub fn results(&self) -> Opened {
        let (best, better) = (self.best(), self.metric.better());
        let none = self.none().and_then(|none| self.values[none]);
        let is_hopeless = |(arm, value): (usize, &Option<Measured>)| {
            let value = value.as_ref()?;
            let loses = |than: Option<Measured>| than.map(|than| value.gain_over(&than, better));
            let neither = self.expected(arm) <= 0.0 && loses(none).is_some_and(|gain| gain <= 0.0);
            (Some(arm) != self.none() && (neither || loses(best.map(|best| best.1))? <= HOPELESS))
                .then_some(arm)
        };
        let hopeless = self.values.iter().enumerate().filter_map(is_hopeless).collect();
        let best = best.map(|best| best.0);
        let (mut values, confirmed) = (self.values.clone(), self.confirmed());
        if let Phase::Stay(arm, 2.., mean) = self.phase {
            values[arm] = values[arm].map(|of| Measured { value: mean, ..of });
        }
        Opened { values, load: self.load, clear: self.clear, hopeless, best, confirmed }
    }

    /// The results for the load before, if the latest window began the opening again.
    pub fn take_results_before(&mut self) -> Option<Opened> {
        self.before.take()
    }

    /// Whether the latest window has no effect on the results: its load began, ended or changed in it, or is another one.
    pub fn is_doubtful(&self) -> bool {
        self.changed > 0 || self.parts > 0
    }

    /// A window ended under `ran`. `is_whole`: the load neither began, ended nor changed in it. `expected`: the gains that a profile of the device
    /// promises, 0 without one.
    pub fn window(
        &mut self,
        ran: usize,
        value: Measured,
        (window, is_whole): (&Window, bool),
        expected: Option<&[f64]>,
    ) -> Step {
        self.is_set_again = false;
        let rejection = self.rejection.take();
        if self.phase == Phase::First || self.in_use() == Some(ran) {
            match self.load(ran, window, is_whole) {
                Found::Same => {}
                Found::Doubtful(why) => return Step { scheduler: Some(ran), why },
                Found::Another if self.restarts >= RESTARTS => {
                    self.forget_values();
                    return self.over("the load changes too often to compare schedulers".to_owned());
                }
                Found::Another => {
                    self.begin_again();
                    if !is_whole {
                        self.parts = 1;
                        let why = "the load changed; measuring another window".to_owned();
                        return Step { scheduler: Some(ran), why };
                    }
                    let Step { scheduler, why } = self.first(ran, value, window, expected);
                    return Step { scheduler, why: format!("the load changed; {why}") };
                }
            }
        }
        match self.phase {
            Phase::First => self.first(ran, value, window, expected),
            Phase::Trial(arm, windows) if arm == ran => {
                if Some(ran) == self.none() {
                    self.load = Load::of(window);
                }
                self.tried(arm, windows + 1, value)
            }
            Phase::Stay(arm, windows, mean) if arm == ran => {
                // The first one may have the effects of a switch.
                let mean = mean + (value.value - mean) / windows.max(1) as f64;
                if windows == 1 {
                    self.latest.clear();
                }
                self.latest.truncate(VERIFY - 1);
                self.latest.insert(0, value.value);
                self.stayed(arm, windows + 1, Measured { value: mean, ..value })
            }
            Phase::Again(arm) if arm == ran => {
                self.values[arm] = Some(value);
                // Schedulers were skipped by comparison with a value that may have been disturbed.
                self.left.splice(..0, std::mem::take(&mut self.skipped));
                self.next(format!("measured {} again", self.names[arm]))
            }
            Phase::Reference(arm) if arm == ran => {
                self.values[arm] = Some(value);
                self.next(format!("measured {} again: the load has not changed", self.names[arm]))
            }
            Phase::Check(none) if none == ran => {
                let first = self.values[none];
                let gains = self.values.iter().flatten().map(|of| of.gain_over(&value, self.metric.better()));
                self.clear =
                    gains.fold(f64::NEG_INFINITY, f64::max) >= CLEAR && self.gain_over_none() >= CLEAR;
                // The better value of the two: the other one was disturbed.
                let again = first.filter(|first| first.gain_over(&value, self.metric.better()) > 0.0);
                self.values[none] = Some(again.unwrap_or(value));
                self.over(format!("measured {} again", self.names[none]))
            }
            // The switch failed, or the window began before it.
            Phase::Trial(arm, _)
            | Phase::Stay(arm, ..)
            | Phase::Again(arm)
            | Phase::Reference(arm)
            | Phase::Check(arm) => {
                let why = rejection.unwrap_or_else(|| format!("waiting for {}", self.names[arm]));
                Step { scheduler: Some(arm), why }
            }
            Phase::Over => Step { scheduler: None, why: rejection.unwrap_or_default() },
        }
    }

    /// The scheduler whose window is awaited.
    const fn in_use(&self) -> Option<usize> {
        match self.phase {
            Phase::Trial(arm, _)
            | Phase::Stay(arm, ..)
            | Phase::Again(arm)
            | Phase::Reference(arm)
            | Phase::Check(arm) => Some(arm),
            Phase::First | Phase::Over => None,
        }
    }

    /// Whether a window is of the load whose values are compared.
    fn load(&mut self, ran: usize, window: &Window, is_whole: bool) -> Found {
        let shape = (window.accesses.len() >= SOME).then(|| Shape::of(window));
        let is_another = shape.as_ref().zip(self.shapes[ran].as_ref()).is_some_and(|(a, b)| !are_alike(a, b));
        if is_another {
            self.changed += 1;
            return match self.changed < CHANGED {
                true => Found::Doubtful(
                    "the requests differ from those before; measuring another window".to_owned(),
                ),
                false => Found::Another,
            };
        }
        self.changed = 0;
        if !is_whole && self.parts == 0 {
            self.parts += 1;
            return Found::Doubtful(
                "the load began or ended in this window; measuring another one".to_owned(),
            );
        }
        self.parts = 0;
        if shape.is_some() {
            self.shapes[ran] = shape;
        }
        Found::Same
    }

    /// Whether the scheduler on trial had requests of another kind than every other one.
    fn has_other_requests(&self, arm: usize) -> bool {
        let Some(of) = &self.shapes[arm] else { return false };
        let mut others =
            (0..self.names.len()).filter(|&other| other != arm).filter_map(|n| self.shapes[n].as_ref());
        others.clone().next().is_some() && !others.any(|other| are_alike(of, other))
    }

    fn forget_values(&mut self) {
        self.before = Some(self.results());
        self.values.fill(None);
        self.shapes.fill(None);
    }

    /// Begins again with another load.
    fn begin_again(&mut self) {
        self.forget_values();
        let (before, unusable) = (self.before.take(), std::mem::take(&mut self.unusable));
        *self = Self { before, unusable, restarts: self.restarts + 1, ..Self::new(&self.names, self.metric) };
    }

    fn first(&mut self, ran: usize, value: Measured, window: &Window, expected: Option<&[f64]>) -> Step {
        let class = LoadClass::of(window, value.busy);
        (self.class, self.load) = (Some(class), Load::of(window));
        self.values[ran] = Some(value);
        self.provisional = Some(ran);
        let gain = |arm: usize| expected.map_or_else(|| self.expected(arm), |of| of[arm]);
        let mut others: Vec<usize> =
            (0..self.names.len()).filter(|&arm| arm != ran && !self.unusable.contains(&arm)).collect();
        // Stable: of equals the first is tried first.
        others.sort_by(|&a, &b| gain(b).total_cmp(&gain(a)));
        // Every gain is compared with `none`.
        if let Some(none) = others.iter().position(|&arm| Some(arm) == self.none()).filter(|&n| n >= TRIALS) {
            let none = others.remove(none);
            others.insert(TRIALS - 1, none);
        }
        others.truncate(TRIALS);
        others.reverse();
        self.left = others;
        self.next(format!("measured {} for {}", self.names[ran], class.in_words()))
    }

    fn tried(&mut self, arm: usize, windows: u32, value: Measured) -> Step {
        let (name, better) = (self.names[arm].clone(), self.metric.better());
        let Some((best, lead)) = self.best_but(Some(arm)) else {
            self.values[arm] = Some(value);
            return self.next(format!("{name} was tried"));
        };
        // The latest window counts alone.
        let before = self.values[arm].replace(value).filter(|_| windows > 1);
        let gain = value.gain_over(&lead, better);
        let percent = format!("{:+.0}% against {}", gain * 100.0, self.names[best]);
        let another = |why: String| Step { scheduler: Some(arm), why };
        // A useless instance is as slow as `none`. The first one is replaced also if it has less than half of the expected gain.
        let least = if self.instances > 1 { CLEAR } else { f64::INFINITY };
        let is_useless = self.settings_follow_the_switch(arm) && gain < least.min(self.expected(arm) / 2.0);
        if is_useless && gain > ABANDON && self.instances < INSTANCES && !self.has_other_requests(arm) {
            self.instances += 1;
            (self.phase, self.is_set_again) = (Phase::Trial(arm, 0), true);
            return another(format!(
                "{name}: {percent}, less than half of what is expected; trying it again"
            ));
        }
        if windows == 1 && prior::warms_up(&name) && gain > self.first_loss(arm) {
            self.phase = Phase::Trial(arm, windows);
            return another(format!(
                "{name}: {percent} in its first window; measuring a second one, because it needs to warm up"
            ));
        }
        let fell = before.is_some_and(|first| value.gain_over(&first, better) <= ABANDON);
        if windows == 2 && fell && gain > ABANDON {
            self.phase = Phase::Trial(arm, windows);
            return another(format!(
                "{name}: {percent} in its second window, clearly less than in its first; measuring a third one"
            ));
        }
        let what = if gain <= ABANDON { "abandoned" } else { "tried" };
        if self.has_other_requests(arm) {
            // Once more under the other scheduler, and it is another load.
            (self.phase, self.changed) = (Phase::Reference(best), CHANGED - 1);
            let reference = &self.names[best];
            return Step {
                scheduler: Some(best),
                why: format!(
                    "{what} {name}: {percent}, with other requests than before; measuring {reference} again"
                ),
            };
        }
        self.next(format!("{what} {name}: {percent}"))
    }

    /// Starts the next trial, or the stay.
    fn next(&mut self, before: String) -> Step {
        // After a relapse the value of `none` is as old as the one that has fallen.
        if self.relapses > 0
            && let Some(step) = self.again(&before)
        {
            return step;
        }
        while let Some(arm) = self.left.pop() {
            if !self.is_worth_a_trial(arm) {
                self.skipped.insert(0, arm);
                continue;
            }
            (self.phase, self.instances) = (Phase::Trial(arm, 0), 1);
            let gain = self.expected(arm) * 100.0;
            let why = format!("{before}; trying {} (expected {gain:+.0}% over none)", self.names[arm]);
            return Step { scheduler: Some(arm), why };
        }
        let Some((best, _)) = self.best() else { return self.over(before) };
        if let Some(step) = self.again(&before) {
            return step;
        }
        if Some(best) == self.none() || self.gain_over_none() < WORTH {
            return self.over(before);
        }
        let stays = matches!(self.phase, Phase::Stay(arm, ..) if arm == best);
        self.phase = Phase::Stay(best, 0, 0.0);
        let using = if stays { "still using" } else { "using" };
        let why = format!("{before}; {using} {}, the best of those tried", self.names[best]);
        Step { scheduler: Some(best), why }
    }

    /// Measures the scheduler of the first window again if its value is in doubt.
    fn again(&mut self, before: &str) -> Option<Step> {
        let (best, _) = self.best()?;
        let several = self.values.iter().flatten().count() > 1;
        let gain = self.gain_over_none();
        let is_doubtful = |arm: &usize| several && (*arm == best || gain < PLAIN);
        let first = self.provisional.take().filter(is_doubtful)?;
        self.phase = Phase::Again(first);
        let why = match self.relapses {
            0 => "its first window may have been disturbed",
            _ => "its value is old",
        };
        let why = format!("{before}; measuring {} again, as {why}", self.names[first]);
        Some(Step { scheduler: Some(first), why })
    }

    /// Whether a scheduler's expected gain is worth a trial. `none` is always measured, because gains are relative to it.
    fn is_worth_a_trial(&self, arm: usize) -> bool {
        let (gained, expected) = (self.gain_over_none(), self.expected(arm));
        // Without a value of `none` the gain is infinite, and every scheduler is tried.
        !(CLEAR..f64::INFINITY).contains(&gained)
            || Some(arm) == self.none()
            || expected >= f64::min(gained / 2.0, 0.5)
    }

    /// The gain of the best one over `none`; infinite if `none` was not measured.
    fn gain_over_none(&self) -> f64 {
        let none = self.none().and_then(|none| self.values[none]);
        let gain =
            |((_, best), none): ((usize, Measured), Measured)| best.gain_over(&none, self.metric.better());
        self.best().zip(none).map_or(f64::INFINITY, gain)
    }

    fn stayed(&mut self, arm: usize, windows: usize, mean: Measured) -> Step {
        let better = self.metric.better();
        let promised = self.values[arm].unwrap_or(mean);
        if windows == VERIFY {
            self.verified = Some(arm);
        }
        if windows >= VERIFY && self.relapses < RELAPSES {
            let recent =
                Measured { value: self.latest.iter().sum::<f64>() / self.latest.len() as f64, ..mean };
            let none = self.none().and_then(|none| self.values[none]);
            let has_fallen = recent.gain_over(&promised, better) <= ABANDON;
            if has_fallen || none.is_some_and(|none| recent.gain_over(&none, better) < WORTH) {
                let than =
                    if has_fallen { "worse than in its trial" } else { "no better than none any more" };
                // The skipped schedulers are tried as well, and `none` may have become as good, or as bad.
                self.relapses += 1;
                self.values[arm] = Some(recent);
                self.left = std::mem::take(&mut self.skipped);
                self.provisional = self.none();
                let why = format!("{} is {than}", self.names[arm]);
                if self.settings_follow_the_switch(arm) && self.relapses == 1 {
                    (self.phase, self.is_set_again) = (Phase::Trial(arm, 0), true);
                    self.instances = 1;
                    return Step { scheduler: Some(arm), why: format!("{why}; trying it again") };
                }
                return self.next(why);
            }
        }
        if windows < STAY {
            self.phase = Phase::Stay(arm, windows, mean.value);
            let why = format!("stay with {}, the best of those tried", self.names[arm]);
            return Step { scheduler: Some(arm), why };
        }
        self.values[arm] = Some(mean);
        // A `none` without a value cannot be set, or not be measured.
        let none = self.none().filter(|none| self.values[*none].is_some());
        match none.filter(|_| self.gain_over_none() >= CLEAR) {
            Some(none) => {
                self.phase = Phase::Check(none);
                let why = format!(
                    "{} was the best of those tried; measuring {} again",
                    self.names[arm], self.names[none]
                );
                Step { scheduler: Some(none), why }
            }
            None => self.over(format!("{} was the best of those tried", self.names[arm])),
        }
    }

    fn over(&mut self, why: String) -> Step {
        self.phase = Phase::Over;
        Step { scheduler: None, why }
    }

    fn expected(&self, arm: usize) -> f64 {
        self.class.map_or(0.0, |class| prior::gain(&self.names[arm], class, self.metric))
    }

    /// Whether the scheduler of the next window is to be set again: it has less than half of the expected gain, or its value has fallen in its stay, and
    /// its settings follow the switch, so that `bfq` may have merged the queues of programs whose requests came between.
    pub fn needs_another_instance(&self) -> bool {
        self.is_set_again
    }

    /// Whether requests between the switch and the setting have a lasting effect.
    fn settings_follow_the_switch(&self, arm: usize) -> bool {
        self.names[arm].contains("low_latency=0")
    }

    fn none(&self) -> Option<usize> {
        ["none", "noop"].iter().find_map(|plain| self.names.iter().position(|name| name == plain))
    }

    fn best(&self) -> Option<(usize, Measured)> {
        self.best_but(None)
    }

    fn best_but(&self, without: Option<usize>) -> Option<(usize, Measured)> {
        let better: Better = self.metric.better();
        let measured = self.values.iter().enumerate().filter_map(|(arm, value)| Some((arm, (*value)?)));
        let measured = measured.filter(|&(arm, _)| Some(arm) != without);
        measured.reduce(|best, other| if other.1.gain_over(&best.1, better) > 0.0 { other } else { best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elevator::{Op, Sector, Sectors, Span, Time};
    use observation::Access;

    const NAMES: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq{low_latency=0}"];

    /// Four sequential readers of a disk, or requests at random.
    fn window(streams: bool) -> Window {
        let access = |n: u64| Access {
            time: Time::ZERO,
            position: Sector(if streams {
                n % 4 * (1 << 28) + n / 4 * 8
            } else {
                n * 99_999_999 % (1 << 30)
            }),
            op: Op::Read,
            size: Sectors(8),
        };
        Window { start: Time::ZERO, length: Span::from_secs(5), accesses: (0..600).map(access).collect() }
    }

    /// The schedulers of 40 windows on a device where window `n` under a scheduler has this value, and the results.
    fn opened(streams: bool, value: impl Fn(usize, usize) -> f64) -> (Vec<usize>, Opened) {
        let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
        let (mut ran, mut all) = (0, Vec::new());
        while !opening.is_over() && all.len() < 40 {
            all.push(ran);
            let measured = Measured::throughout(value(ran, all.len()));
            let step = opening.window(ran, measured, (&window(streams), true), None);
            ran = step.scheduler.unwrap_or(ran);
        }
        (all, opening.results())
    }

    #[test]
    fn the_highest_expected_gain_is_tried_first_and_lower_bounds_are_skipped() {
        let (all, opened) = opened(true, |arm, _| [0.5, 0.5, 0.5, 36.0][arm]);
        assert_eq!(all, [&[0, 3, 3][..], &[3; STAY], &[0]].concat());
        assert!(opened.clear && opened.best == Some(3) && opened.confirmed == Some((3, 0)), "{opened:?}");
    }

    #[test]
    fn a_gain_is_confirmed_by_the_windows_of_the_stay_or_by_its_size() {
        let confirmed = |value: fn(usize, usize) -> f64| {
            let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
            let (mut ran, mut confirmed) = (0, Vec::new());
            for n in 0..12 {
                let measured = Measured::throughout(value(ran, n));
                ran = opening.window(ran, measured, (&window(true), true), None).scheduler.unwrap_or(ran);
                confirmed.push(opening.results().confirmed);
            }
            confirmed
        };
        let first = |all: &[Option<(usize, usize)>]| all.iter().position(Option::is_some);
        let plain = confirmed(|ran, _| [0.5, 0.5, 0.5, 36.0][ran]);
        assert_eq!((first(&plain), plain[2]), (Some(2), Some((3, 0))), "after the two windows of its trial");
        // Less than PLAIN: the first window is measured again before the stay. Less than expected: a second instance is tried.
        let clear = confirmed(|ran, _| [10.0, 10.0, 10.0, 18.0][ran]);
        assert_eq!(first(&clear), Some(4 + VERIFY), "{clear:?}");
        // The trial's value was too high, and the scheduler is still the best.
        let overstated = confirmed(|ran, n| [10.0, 10.0, 10.0, if n < 4 { 19.5 } else { 14.0 }][ran]);
        assert_eq!(first(&overstated), Some(4 + VERIFY), "{overstated:?}");
        // It was not better in the stay.
        let refuted = confirmed(|ran, n| [10.0, 10.0, 10.0, if n < 4 { 19.5 } else { 9.0 }][ran]);
        assert_eq!(first(&refuted), None, "{refuted:?}");
    }

    #[test]
    fn a_gain_is_clear_only_if_none_is_as_slow_after_the_stay() {
        let (all, opened) = opened(true, |arm, n| match arm {
            3 => 36.0,
            0 if n > 1 => 30.0,
            _ => 0.5,
        });
        assert_eq!(all.last(), Some(&0));
        assert!(!opened.clear && opened.best == Some(3) && opened.confirmed.is_none(), "{opened:?}");
    }

    #[test]
    fn a_clearly_worse_scheduler_is_abandoned_after_one_window() {
        let (all, opened) = opened(false, |arm, _| [100.0, 101.0, 100.0, 30.0][arm]);
        assert_eq!(all, [0, 1, 2, 3, 0]);
        assert_eq!((opened.clear, opened.hopeless), (false, vec![3]));
    }

    #[test]
    fn a_trial_ends_inside_a_window_by_the_same_limits() {
        let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
        assert_eq!(opening.early_end(), None, "the first window is no trial");
        // A scheduler that waits for readers may lose three fifths at first, as it is expected to gain.
        let mut to_end = |ran, value| {
            opening.window(ran, Measured::throughout(value), (&window(true), true), None);
            opening.early_end().map(|end| (end.scheduler, end.reference.value, end.limit))
        };
        assert_eq!(to_end(0, 10.0), Some((3, 10.0, COLD)));
        assert_eq!(to_end(3, 8.0), Some((3, 10.0, COLD)), "a second instance");
        assert_eq!(to_end(3, 30.0), Some((3, 10.0, ABANDON)), "its second window");
        assert_eq!(to_end(3, 30.0), None, "it stays");
    }

    #[test]
    fn a_scheduler_whose_settings_may_have_come_too_late_is_set_again() {
        let again = |first: f64, names: [&str; 2]| {
            let mut opening = Opening::new(&names.map(str::to_owned), Metric::Bandwidth);
            let mut window = |ran, value| {
                let step = opening.window(ran, Measured::throughout(value), (&window(true), true), None);
                (step.scheduler, opening.needs_another_instance())
            };
            [window(0, 10.0), window(1, first), window(1, first), window(1, first)].map(|(_, again)| again)
        };
        let bfq = ["none", "bfq{low_latency=0}"];
        assert_eq!(again(9.5, bfq), [false, true, true, false], "expected: three times as much");
        assert_eq!(again(30.0, bfq), [false; 4]);
        assert_eq!(again(9.5, ["none", "bfq"]), [false; 4], "it has no settings of its own");
    }

    /// Regression: the burst after the switch counted by half, and the scheduler stayed without a gain.
    #[test]
    fn a_burst_after_the_switch_is_no_gain() {
        let none = |n: usize| 0.48 + (n % 3) as f64 / 100.0;
        let (all, opened) = opened(true, |arm, n| if arm == 3 && n == 2 { 8.8 } else { none(n) });
        assert_eq!(all[..6], [0, 3, 3, 3, 3, 3], "three instances");
        assert!(all.len() <= 9 && !opened.clear && opened.confirmed.is_none(), "{all:?} {opened:?}");
        let value = opened.values[3].map(|of| of.value).expect("tried");
        assert!(value < 0.51, "{value}");
    }

    /// Regression: `none` was never measured again after the value had fallen to its level.
    #[test]
    fn a_value_that_falls_to_that_of_none_ends_the_stay() {
        for end in [6, 10, 15] {
            let (all, opened) = opened(true, |arm, n| if arm == 3 && n < end { 9.0 } else { 0.5 });
            let fell = all.iter().rposition(|arm| *arm == 3).expect("it stayed");
            assert!(fell <= end + 2 * VERIFY && all[fell..].contains(&0), "{end}: {all:?}");
            assert!(!opened.clear && opened.confirmed.is_none(), "{end}: {opened:?}");
            assert!(opened.values[3].is_some_and(|of| of.value < 0.6), "{end}: {opened:?}");
        }
        // The load changed, under each scheduler.
        let (all, opened) = opened(true, |arm, n| [0.5, 0.5, 0.5, 9.0][arm] * if n < 10 { 1.0 } else { 0.2 });
        assert_eq!((all.last(), opened.best, opened.clear), (Some(&0), Some(3), true), "{all:?}");
    }

    /// `bfq` merges the queues of running programs at some switches and not at others.
    #[test]
    fn a_scheduler_whose_value_fell_is_set_again_once() {
        // The second instance gains, or none does for long.
        for (lasting, expected) in [(1, true), (9, false)] {
            let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
            let (mut ran, mut instance, mut windows) = (0, 0, Vec::new());
            while !opening.is_over() && windows.len() < 60 {
                let gains = ran == 3 && (instance == lasting || windows.len() < 4);
                let step = opening.window(
                    ran,
                    Measured::throughout(if gains { 9.0 } else { 0.5 }),
                    (&window(true), true),
                    None,
                );
                windows.push(ran);
                instance += usize::from(opening.needs_another_instance());
                ran = step.scheduler.unwrap_or(ran);
            }
            assert_eq!(windows[..8], [0, 3, 3, 3, 3, 3, 3, 3], "{windows:?}");
            let opened = opening.results();
            assert_eq!(
                (opened.clear, opened.best == Some(3)),
                (expected, expected),
                "{windows:?} {opened:?}"
            );
            assert!(instance <= 5 && windows.len() < 35, "{instance} {windows:?}");
        }
    }

    /// Regression: the burst of a second instance counted as its value, and the scheduler stayed for three windows at the level of `none`.
    #[test]
    fn a_useless_instance_takes_two_windows_also_if_it_is_not_the_first() {
        let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
        let (mut ran, mut instance, mut of_instance, mut values) = (0, 0, 0, Vec::new());
        for _ in 0..8 {
            // MB/s of a measured run: two instances that were useless after a burst.
            let value = match (ran, instance, of_instance) {
                (3, 0 | 1, 0) => 1.7,
                (3, 2, _) => 20.0,
                _ => 0.48,
            };
            of_instance += 1;
            values.push(value);
            let step = opening.window(ran, Measured::throughout(value), (&window(true), true), None);
            if opening.needs_another_instance() {
                (instance, of_instance) = (instance + 1, 0);
            }
            if step.scheduler.is_some_and(|next| next != ran) {
                (ran, of_instance) = (step.scheduler.unwrap(), 0);
            }
        }
        assert_eq!(values, [0.48, 1.7, 0.48, 1.7, 0.48, 20.0, 20.0, 20.0]);
    }

    #[test]
    fn stays_whose_values_keep_falling_are_limited() {
        let (all, _) = opened(true, |arm, n| if arm == 3 { 0.7_f64.powi(n as i32 / 4) } else { 1e-9 });
        assert!(
            all.len() < 40 && all.iter().filter(|arm| **arm == 0).count() <= 2 + RELAPSES as usize,
            "{all:?}"
        );
    }

    #[test]
    fn a_disturbed_first_window_is_measured_again() {
        let (all, opened) =
            opened(false, |arm, n| if n == 1 { 50.0 } else { [100.0, 99.0, 100.0, 60.0][arm] });
        assert_eq!((all, opened.best), (vec![0, 1, 0, 2, 3], Some(0)));
    }

    #[test]
    fn after_a_lucky_trial_the_other_schedulers_are_tried() {
        let (all, opened) =
            opened(true, |arm, n| if arm == 3 && n > 3 { 5.0 } else { [10.0, 12.0, 10.0, 90.0][arm] });
        assert_eq!(
            all[..11],
            [0, 3, 3, 3, 3, 3, 3, 3, 0, 1, 2],
            "it is set and tried again first, then `none`"
        );
        assert_eq!(opened.best, Some(1));
    }

    #[test]
    fn a_rejected_scheduler_is_not_tried_again() {
        let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
        let first = opening.window(0, Measured::throughout(1.0), (&window(true), true), None);
        assert_eq!(first.scheduler, Some(3));
        assert_eq!(opening.rejected(3).scheduler, Some(1));
        assert!(opening.results().values[3].is_none());
        let next = opening.window(0, Measured::throughout(1.0), (&window(true), true), None);
        assert_eq!(next.scheduler, Some(1));
        assert!(
            next.why.starts_with("bfq{low_latency=0} cannot be used and is skipped; trying mq-"),
            "{next:?}"
        );
    }

    /// Regression: the line had no reason.
    #[test]
    fn an_opening_whose_last_scheduler_is_rejected_ends_with_a_reason() {
        let mut opening = Opening::new(&["none", "kyber"].map(str::to_owned), Metric::Bandwidth);
        opening.window(0, Measured::throughout(1.0), (&window(true), true), None);
        opening.rejected(1);
        let last = opening.window(0, Measured::throughout(1.0), (&window(true), true), None);
        let why = "kyber cannot be used and is skipped".to_owned();
        assert_eq!((opening.is_over(), last), (true, Step { scheduler: None, why }));
    }

    #[test]
    fn none_is_tried_even_if_four_others_promise_more() {
        let names =
            ["bfq", "none", "kyber", "dwell", "cfq", "anticipatory", "mq-deadline"].map(str::to_owned);
        let mut opening = Opening::new(&names, Metric::Bandwidth);
        let (mut ran, mut all) = (0, Vec::new());
        while !opening.is_over() && all.len() < 9 {
            all.push(ran);
            let measured = Measured::throughout(10.0);
            ran = opening.window(ran, measured, (&window(true), true), None).scheduler.unwrap_or(ran);
        }
        assert!(all.contains(&1), "{all:?}");
        assert!(opening.left.is_empty() && opening.results().values.iter().flatten().count() <= 1 + TRIALS);
    }

    #[test]
    fn the_load_is_that_of_the_latest_window_under_none() {
        let names = ["mq-deadline", "none"].map(str::to_owned);
        let mut opening = Opening::new(&names, Metric::Bandwidth);
        let (one, mut other) = (window(true), window(true));
        other.accesses.truncate(300);
        assert_eq!(opening.window(0, Measured::throughout(1.0), (&one, true), None).scheduler, Some(1));
        assert_eq!(opening.results().load, Load::of(&one));
        opening.window(1, Measured::throughout(1.0), (&other, true), None);
        assert_eq!(opening.results().load, Load::of(&other));
        opening.window(0, Measured::throughout(1.0), (&one, true), None);
        assert_eq!(opening.results().load, Load::of(&other), "another scheduler changes what is requested");
    }

    /// The windows of an opening whose load is that of `streams` for each window, with the reasons.
    fn opened_under(
        streams: impl Fn(usize, usize) -> bool,
        value: impl Fn(usize, bool) -> f64,
    ) -> (Opening, Vec<(usize, String)>) {
        let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
        let (mut ran, mut all) = (0, Vec::new());
        while !opening.is_over() && all.len() < 60 {
            let of_streams = streams(ran, all.len());
            let measured = Measured::throughout(value(ran, of_streams));
            let step = opening.window(ran, measured, (&window(of_streams), true), None);
            all.push((ran, step.why));
            ran = step.scheduler.unwrap_or(ran);
        }
        (opening, all)
    }

    /// Regression: schedulers that were equal for random reads were compared with the value of `none` for streams, and abandoned.
    #[test]
    fn no_value_is_compared_with_one_of_another_load() {
        // kB/s of a measured run.
        let value =
            |arm: usize, streams: bool| if streams { [742.0, 750.0, 745.0, 15e3][arm] } else { 430.0 };
        for change in [4, 8, 15] {
            let (opening, all) = opened_under(|_, n| n < change, value);
            let after: Vec<&str> = all[change..].iter().map(|(_, why)| &**why).collect();
            assert!(after[0].starts_with("the requests differ from those before"), "{change}: {after:?}");
            let began = "the load changed; measured bfq{low_latency=0} for random reads; trying mq-deadline";
            assert!(after[1].starts_with(began), "{change}: {after:?}");
            let compared: Vec<&&str> = after.iter().filter(|why| why.contains("against")).collect();
            assert!(compared.len() >= 2, "{change}: {after:?}");
            assert!(compared.iter().all(|why| why.contains("+0% against")), "{change}: {after:?}");
            assert_eq!(opening.results().values, [Some(Measured::throughout(430.0)); 4], "{change}");
        }
    }

    #[test]
    fn a_load_that_changes_in_a_trial_is_another_one_if_the_reference_has_it_too() {
        let value =
            |arm: usize, streams: bool| if streams { [742.0, 750.0, 745.0, 15e3][arm] } else { 430.0 };
        let (_, all) = opened_under(|_, n| n == 0, value);
        let whys: Vec<&str> = all.iter().map(|(_, why)| &**why).collect();
        assert!(whys[1].contains("-42% against none in its first window"), "it is not known yet: {whys:?}");
        assert!(whys[2].ends_with("with other requests than before; measuring none again"), "{whys:?}");
        assert!(whys[3].starts_with("the load changed; measured none for random reads; trying"), "{whys:?}");
        assert!(
            whys[4..].iter().filter(|why| why.contains("against")).all(|why| why.contains("+0%")),
            "{whys:?}"
        );
    }

    #[test]
    fn requests_that_differ_under_one_scheduler_only_are_its_effect() {
        let (opening, all) = opened_under(|arm, _| arm != 3, |arm, _| [10.0, 10.0, 10.0, 36.0][arm]);
        let order: Vec<usize> = all.iter().map(|(arm, _)| *arm).collect();
        assert_eq!(order[..5], [0, 3, 3, 0, 3], "{all:?}");
        assert!(all[3].1.starts_with("measured none again: the load has not changed; using bfq"), "{all:?}");
        assert!(opening.results().clear, "{all:?}");
    }

    #[test]
    fn an_opening_of_loads_that_alternate_ends() {
        let (opening, all) = opened_under(|_, n| n / 3 % 2 == 0, |_, _| 10.0);
        assert!(all.len() < 30 && opening.is_over(), "{all:?}");
        assert_eq!(
            all.last().map(|(_, why)| &**why),
            Some("the load changes too often to compare schedulers")
        );
        assert_eq!(opening.results().values, [None; 4]);
    }

    /// Regression: `tune` compared a scheduler with a window of `none` in which the readers started, which `patterns` does not count.
    #[test]
    fn a_window_in_which_the_load_begins_is_measured_again() {
        let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
        let mut ended = |ran, value, is_whole| {
            opening.window(ran, Measured::throughout(value), (&window(true), is_whole), None)
        };
        let first = ended(0, 0.2, false);
        assert_eq!(
            (first.scheduler, &*first.why),
            (Some(0), "the load began or ended in this window; measuring another one")
        );
        assert_eq!(ended(0, 0.5, true).scheduler, Some(3));
        assert_eq!(ended(3, 1.6, false).scheduler, Some(3));
        // A load with pauses has no other windows.
        assert!(ended(3, 1.6, false).why.contains("+220% against none in its first window"));
    }

    /// The better value of the two windows under `none` counts: the other one was disturbed.
    #[test]
    fn a_repeated_window_of_none_counts_if_it_was_better() {
        for (again, expected) in [(0.6, 0.6), (0.4, 0.5)] {
            let (all, opened) = opened(true, |arm, n| match arm {
                3 => 36.0,
                0 if n > 1 => again,
                _ => 0.5,
            });
            assert_eq!(all.last(), Some(&0));
            assert_eq!(opened.values[0].map(|of| of.value), Some(expected));
        }
    }
}
