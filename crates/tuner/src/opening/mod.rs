//! The opening: the first trials after a start.
//!
//! # Idea
//! Every trial of a poor scheduler costs a window. The scheduler with the [highest expected gain](crate::prior) is therefore tried first, a
//! clearly worse one is abandoned after its first window, and one that needs time to warm up gets two windows. The best one then serves the
//! load for [`STAY`] windows, which earns its gain and measures its value over more than one window.
//!
//! # Order of decisions
//! 1. The first window shows what the scheduler in use gives, and the class of the load, which orders the trials.
//!    It is repeated after the trials, unless the best one has [`PLAIN`] more than `none`: a program may have started in it.
//!    If its settings follow the switch, it may have been set without an effect on these programs, and is set again after a window under `none`.
//! 2. A scheduler on trial that is worse by [`ABANDON`] is abandoned. One that warms up gets a second window, which counts alone, because the first
//!    one may have a burst of the switch. If the second one is much worse than the first, a third one decides. One that is expected to lose and does
//!    so gets no second window, and only one that is expected to gain is set again.
//! 3. Once one is better than `none` by [`CLEAR`], a scheduler is skipped if its expected gain is less than half of that
//!    gain and less than 50%. The decider may try it later.
//! 4. The best one stays for [`STAY`] windows if it is better than `none` by [`WORTH`]. If the latest [`VERIFY`] of them are clearly below the value of
//!    its trial, or no better than `none`, `none` is measured again unless the gain is at least [`PLAIN`], and then the skipped schedulers are tried. Before that, a scheduler whose settings
//!    follow the switch is set and tried once more. The first window of the stay is not counted.
//! 5. If it was much better than `none`, `none` is measured once more: another program may have disturbed its first window.
//! 6. If earlier runs found a scheduler better than `none` for this load, that one is tried first, compared with the values that they measured, and the
//!    others are skipped. It stays as in step 4.
//! 7. The results go to the significance test, as its first block or as its answer, and to the decider.
//!
//! Values are compared only if they are of one load ([`SameLoad`]). With another load the opening begins again. If only the scheduler on trial
//! has other requests, they may be its effect, so the scheduler that it was compared with is measured again. A window in which the load
//! began, ended or changed is repeated once.

use observation::{Better, Metric, Window};

use crate::early_end::{ABANDON, COLD, EarlyEnd};
use crate::load::Load;
use crate::measured::Measured;
use crate::observed_load::observed;
use crate::opened::Opened;
use crate::prior::{self, LoadClass};
use crate::same_load::{Found, SameLoad};

#[cfg(test)]
mod tests;

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
/// The number of times that an opening begins again with another load: loads that alternate would prevent its end.
const RESTARTS: u32 = 3;

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
    /// What earlier runs measured of the load of the window that is added next, and of the load under way.
    remembered: Option<Remembered>,
    earlier: Option<Remembered>,
    /// Schedulers still to be tried, the next one last.
    left: Vec<usize>,
    /// Schedulers whose expected gain is less than half of the best measured gain.
    skipped: Vec<usize>,
    phase: Phase,
    /// The scheduler of the first window, in which a program may have started, until it is measured again.
    provisional: Option<usize>,
    /// The scheduler of the first window, which another process has set, until it is set again.
    inherited: Option<usize>,
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
    /// The requests of the load whose values are compared.
    requests: SameLoad,
    /// The number of times that it began again, and the results for the load before, until they are taken.
    restarts: u32,
    before: Option<Opened>,
}

/// What earlier runs measured of a load.
#[derive(Clone, PartialEq, Debug)]
pub struct Remembered {
    /// The mean value of each scheduler, if it was measured.
    pub values: Vec<Option<f64>>,
    /// The best one: better than `none` beyond chance.
    pub best: usize,
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
            remembered: None,
            earlier: None,
            left: Vec::new(),
            skipped: Vec::new(),
            phase: Phase::First,
            provisional: None,
            inherited: None,
            clear: false,
            verified: None,
            rejection: None,
            is_set_again: false,
            instances: 0,
            latest: Vec::new(),
            relapses: 0,
            unusable: Vec::new(),
            requests: SameLoad::new(names.len()),
            restarts: 0,
            before: None,
        }
    }

    /// The device rejects a scheduler; returns what to do instead.
    pub fn rejected(&mut self, arm: usize) -> Step {
        self.left.retain(|&other| other != arm);
        self.unusable.push(arm);
        self.values[arm] = None;
        self.earlier.iter_mut().for_each(|earlier| earlier.values[arm] = None);
        self.requests.forget(arm);
        let step = self.next(format!("{} cannot be used and is skipped", self.names[arm]));
        self.rejection = Some(step.why.clone());
        step
    }

    /// What earlier runs measured of the load of the window that is added next, if that decides which scheduler is best.
    pub fn remember(&mut self, remembered: Option<Remembered>) {
        self.remembered = remembered;
    }

    /// Whether no window was added yet.
    pub fn is_at_its_start(&self) -> bool {
        self.phase == Phase::First
    }

    /// Whether it has found the best scheduler: its windows were of one load.
    pub fn has_chosen(&self) -> bool {
        matches!(self.phase, Phase::Stay(..) | Phase::Check(_) | Phase::Over)
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
        let none = self.none().and_then(|none| self.value(none));
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
        let clear = self.clear || self.is_as_remembered();
        Opened { values, load: self.load, clear, hopeless, best, confirmed }
    }

    /// The scheduler that was the best in earlier runs was so in its stay.
    fn is_as_remembered(&self) -> bool {
        let best = self.earlier.as_ref().map(|earlier| earlier.best);
        best.is_some()
            && best == self.verified
            && best == self.best().map(|best| best.0)
            && self.gain_over_none() >= WORTH
    }

    /// The value of a scheduler: measured here, or else by earlier runs.
    fn value(&self, arm: usize) -> Option<Measured> {
        let earlier = || self.earlier.as_ref()?.values[arm].map(Measured::throughout);
        self.values[arm].or_else(earlier)
    }

    /// The results for the load before, if the latest window began the opening again.
    pub fn take_results_before(&mut self) -> Option<Opened> {
        self.before.take()
    }

    /// Whether the latest window has no effect on the results: its load began, ended or changed in it, or is another one.
    pub fn is_doubtful(&self) -> bool {
        self.requests.is_doubtful()
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
            match self.requests.window(ran, window, is_whole) {
                Found::Same => {}
                Found::Doubtful(why) => return Step { scheduler: Some(ran), why: why.to_owned() },
                Found::Another if self.restarts >= RESTARTS => {
                    self.before = Some(self.results());
                    self.values.fill(None);
                    self.requests.forget_all();
                    return self.over("the load changes too often to compare schedulers".to_owned());
                }
                Found::Another => {
                    self.begin_again();
                    if !is_whole {
                        self.requests.began_in_part();
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
                    self.load = observed(window, None);
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
                let first = self.value(none);
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

    /// Begins again with another load.
    fn begin_again(&mut self) {
        let (before, unusable) = (Some(self.results()), std::mem::take(&mut self.unusable));
        let remembered = self.remembered.take();
        let new = Self::new(&self.names, self.metric);
        *self = Self { before, unusable, remembered, restarts: self.restarts + 1, ..new };
    }

    fn first(&mut self, ran: usize, value: Measured, window: &Window, expected: Option<&[f64]>) -> Step {
        let class = LoadClass::of(window, value.busy);
        (self.class, self.load) = (Some(class), observed(window, None));
        if let Some(step) = self.recall(ran, value) {
            return step;
        }
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
        // What is in use may have been set while the programs ran, without an effect on them. It is set again after `none`, with which it is compared.
        if self.restarts == 0 && self.settings_follow_the_switch(ran) && self.expected(ran) > 0.0 {
            let none = others.iter().position(|&arm| Some(arm) == self.none()).map(|at| others.remove(at));
            others.splice(..0, none.into_iter().chain([ran]));
            self.inherited = Some(ran);
        }
        others.reverse();
        self.left = others;
        self.next(format!("measured {} for {}", self.names[ran], class.in_words()))
    }

    /// Begins with the scheduler that earlier runs found to be the best for this load, if there is one.
    fn recall(&mut self, ran: usize, value: Measured) -> Option<Step> {
        let remembered = self.remembered.take().filter(|of| !self.unusable.contains(&of.best))?;
        let (best, better) = (remembered.best, self.metric.better());
        self.earlier = Some(remembered);
        // The first window may be disturbed, so that an earlier value is preferred to it.
        if self.value(ran).is_none() {
            self.values[ran] = Some(value);
        }
        let none = self.none().and_then(|none| self.value(none));
        let known = |arm: usize| Some(self.value(arm)?.gain_over(&none?, better));
        let gain = |arm: usize| known(arm).unwrap_or_else(|| self.expected(arm));
        let mut others: Vec<usize> =
            (0..self.names.len()).filter(|&arm| arm != best && !self.unusable.contains(&arm)).collect();
        others.sort_by(|&a, &b| gain(a).total_cmp(&gain(b)));
        let promised = self.value(best)?;
        let has_fallen = value.gain_over(&promised, better) <= ABANDON;
        let what = self.class.map_or("this load", LoadClass::in_words);
        let (name, percent) = (&self.names[best], gain(best) * 100.0);
        let why = format!("measured {} for {what}", self.names[ran]);
        let was_best = format!(
            "{name}, which was the best for this load before ({percent:+.0}% over none, means of earlier runs)"
        );
        self.skipped = others;
        if ran == best && !(has_fallen && self.settings_follow_the_switch(best)) {
            self.phase = Phase::Stay(best, 0, 0.0);
            return Some(Step { scheduler: Some(best), why: format!("{why}; still using {was_best}") });
        }
        self.is_set_again = ran == best;
        (self.phase, self.instances) = (Phase::Trial(best, 0), 1);
        Some(Step { scheduler: Some(best), why: format!("{why}; trying {was_best}") })
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
        let of = if self.values[best].is_some() { "a window of" } else { "the earlier mean of" };
        let percent = format!("{:+.0}% against {of} {}", gain * 100.0, self.names[best]);
        let another = |why: String| Step { scheduler: Some(arm), why };
        // A useless instance is as slow as `none`. The first one is replaced also if it has less than half of the expected gain.
        let least = if self.instances > 1 { CLEAR } else { f64::INFINITY };
        let expected = self.expected(arm);
        let is_useless =
            expected > 0.0 && self.settings_follow_the_switch(arm) && gain < least.min(expected / 2.0);
        if is_useless && gain > ABANDON && self.instances < INSTANCES && !self.requests.is_alone(arm) {
            self.instances += 1;
            (self.phase, self.is_set_again) = (Phase::Trial(arm, 0), true);
            return another(format!(
                "{name}: {percent}, less than half of what is expected; trying it again"
            ));
        }
        let loses_as_expected = expected < 0.0 && gain < 0.0;
        if windows == 1 && prior::warms_up(&name) && gain > self.first_loss(arm) && !loses_as_expected {
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
        if self.requests.is_alone(arm) {
            // Once more under the other scheduler, and it is another load.
            self.phase = Phase::Reference(best);
            self.requests.expect_change();
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
            if self.inherited == Some(arm) {
                (self.inherited, self.provisional, self.is_set_again) = (None, None, true);
            }
            let gain = self.expected(arm) * 100.0;
            let why = format!(
                "{before}; trying {} (expected {gain:+.0}% over none for this class)",
                self.names[arm]
            );
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
        let none = self.none().and_then(|none| self.value(none));
        let gain =
            |((_, best), none): ((usize, Measured), Measured)| best.gain_over(&none, self.metric.better());
        self.best().zip(none).map_or(f64::INFINITY, gain)
    }

    fn stayed(&mut self, arm: usize, windows: usize, mean: Measured) -> Step {
        let better = self.metric.better();
        let promised = self.value(arm).unwrap_or(mean);
        if windows == VERIFY {
            self.verified = Some(arm);
        }
        if windows >= VERIFY && self.relapses < RELAPSES {
            let recent =
                Measured { value: self.latest.iter().sum::<f64>() / self.latest.len() as f64, ..mean };
            let none = self.none().and_then(|none| self.value(none));
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
        let none = self.none().filter(|none| self.value(*none).is_some());
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

    /// Whether the scheduler of the next window is to be set again: it has less than half of an expected gain, or its value has fallen in its stay, and
    /// its settings follow the switch, so that `bfq` may have merged the queues of programs whose requests came between.
    pub fn needs_another_instance(&self) -> bool {
        self.is_set_again
    }

    /// Whether requests between the switch and the setting have a lasting effect.
    fn settings_follow_the_switch(&self, arm: usize) -> bool {
        self.names[arm].contains("low_latency=0")
    }

    /// The scheduler that gains are relative to: `noop` among the policies of a served device, which have no significance test and no standby.
    fn none(&self) -> Option<usize> {
        ["none", "noop"].iter().find_map(|plain| self.names.iter().position(|name| name == plain))
    }

    fn best(&self) -> Option<(usize, Measured)> {
        self.best_but(None)
    }

    fn best_but(&self, without: Option<usize>) -> Option<(usize, Measured)> {
        let better: Better = self.metric.better();
        let measured = (0..self.names.len()).filter_map(|arm| Some((arm, self.value(arm)?)));
        let measured = measured.filter(|&(arm, _)| Some(arm) != without);
        measured.reduce(|best, other| if other.1.gain_over(&best.1, better) > 0.0 { other } else { best })
    }
}
