//! Kinds of load: what served windows of this shape best, wherever warping finds them.
//!
//! # Idea
//! The paper notes a window's value for the window's own cluster, and leaves what it does not recognise to one bandit. Both go wrong
//! where processes wait for their answers. A scheduler then decides how much is asked, and in which order, so the same load makes
//! other clusters under each, none of which ever hears how the others do; and the bandit compares what one scheduler gave in one phase
//! with what another gave in the next. Here windows are of a kind by their [`Shape`], which schedulers hardly change, and each kind
//! remembers on its own what every scheduler gave.
//!
//! # Order of decisions
//! 1. A kind seen for fewer than [`YOUNG`] windows is served as the kind before it: it may be what a trial made of that.
//! 2. A scheduler whose trial is due is tried for one window: see [`Kind::due`].
//! 3. Of the scheduler with the best mean and those [`NEAR`] it the one with the best *long run* is used: what came in the
//!    [`HORIZON`] after it had been chosen, whatever kind that was. Who has not had a long run of [`SURE`] windows has it first.
//!
//! # Why a long run
//! What a scheduler does to the load that comes later does not show in its own window. Readers that it no longer keeps together do not
//! find each other's pages in the cache; whoever it serves first is done early and leaves a slow rest. In one window such schedulers
//! are as good as the others, or better.
//!
//! # State
//! For each kind its shape, and for each scheduler a mean and the mean of its long runs, with how many windows are behind each.
//!
//! # Not for
//! Loads that differ only in how fast they are asked for: shapes do not say that, and they are one kind.

use serde::{Deserialize, Serialize};

use super::Shape;
use crate::cluster::SchedulerId;
use crate::metric::Better;

/// A window is of a kind if at least this part of its shape is the kind's, too. Much more, and the turns that one load takes are kinds of
/// their own, each with its own favourite, so that none of them ever learns what comes of one scheduler in the long run.
const ALIKE: f64 = 0.5;
/// Windows before anything is tried for a kind: one may be what a trial made of another kind, two its end.
const YOUNG: u64 = 3;
/// Windows that a mean goes back; what is older fades. Fewer follow a change faster and are noisier.
const MEMORY: u64 = 100;
/// More kinds are not kept; a shape then belongs to the nearest.
const MOST: usize = 64;
/// Windows behind a mean from which on it is held for sure, as many as the paper keeps values: trials get no rarer then, and a long
/// run can be compared.
const SURE: u64 = 20;
/// Windows that a long run goes on after its kind was last served.
const HORIZON: u64 = 20;
/// The part of all windows' worth that a scheduler's first trials may cost: one in a hundred.
const BUDGET: f64 = 0.01;
/// Schedulers whose mean loses no more than this to the best are not told from it by single windows. As much as the paper finds that
/// the page cache makes of what users see (IV-B: 25.74%).
const NEAR: f64 = 0.25;

/// What is known of a scheduler for a kind.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Arm {
    mean: f64,
    windows: u64,
    /// The kind's windows when it was last in use.
    at: u64,
}

impl Arm {
    fn learn(&mut self, value: f64, at: u64) {
        self.windows += 1;
        self.mean += (value - self.mean) / self.windows.min(MEMORY) as f64;
        self.at = at;
    }
}

/// A kind of load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Kind {
    shape: Shape,
    windows: u64,
    arms: Vec<Arm>,
    /// What came in the [`HORIZON`] from each window on that was served by a scheduler and was no trial, of whatever kind it was.
    long_run: Vec<Arm>,
    /// The scheduler that served it last without being on trial, and the number of that window.
    latest: Option<(usize, u64)>,
}

impl Kind {
    fn known(&self) -> impl Iterator<Item = (usize, &Arm)> {
        self.arms.iter().enumerate().filter(|(_, arm)| arm.windows > 0)
    }

    fn learn(&mut self, scheduler: SchedulerId, value: f64) {
        let windows = self.windows;
        if let Some(arm) = self.arms.get_mut(scheduler.0) {
            arm.learn(value, windows);
        }
    }

    /// Of the best one and those near it the one that did best in the long run; who has not had one goes first.
    fn long_run(&self, better: Better) -> Option<usize> {
        let (_, best) = self.best(better)?;
        let near = self.known().filter(|(_, arm)| loss(best, arm.mean, better) <= NEAR);
        let merit = |index: usize| {
            let arm = &self.long_run[index];
            if arm.windows < SURE { f64::INFINITY } else { better.oriented(arm.mean) }
        };
        near.map(|(index, _)| index)
            .reduce(|best, other| if merit(other) > merit(best) { other } else { best })
    }

    /// The scheduler with the best mean; of equals the first.
    fn best(&self, better: Better) -> Option<(usize, f64)> {
        self.known().map(|(index, arm)| (index, arm.mean)).reduce(|best, other| {
            if better.oriented(other.1) > better.oriented(best.1) { other } else { best }
        })
    }

    /// Whether a scheduler is to be tried: at once if it never was; otherwise the later, the more a window under it loses and the
    /// surer that is. The n-th trial of one that loses all waits n/[`BUDGET`] windows, that of an equal one n.
    fn due(&self, arm: &Arm, best: f64, better: Better) -> bool {
        let wait = arm.windows.min(SURE) as f64 * (1.0 + loss(best, arm.mean, better) / BUDGET);
        arm.windows == 0 || (self.windows - arm.at.min(self.windows)) as f64 >= wait
    }

    fn trial(&self, better: Better) -> Option<usize> {
        let (best, mean) = self.best(better)?;
        let due = |&(index, arm): &(usize, &Arm)| index != best && self.due(arm, mean, better);
        self.arms.iter().enumerate().filter(due).min_by_key(|(_, arm)| arm.windows).map(|(index, _)| index)
    }
}

/// What `mean` loses to `best`, as a part of the greater one.
fn loss(best: f64, mean: f64, better: Better) -> f64 {
    let most = best.abs().max(mean.abs());
    if most == 0.0 { 0.0 } else { (better.oriented(best - mean) / most).max(0.0) }
}

/// What is to be done for a kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Served {
    /// The kind's number.
    pub kind: usize,
    /// Windows of it so far.
    pub windows: u64,
    /// By which scheduler.
    pub scheduler: SchedulerId,
    /// Whether that is a trial.
    pub tried: bool,
    /// n/(n+1) for the n windows behind the scheduler's mean; 0 for a trial.
    pub confidence: f64,
    /// How much better that is than the scheduler in use, as a part of it, if both are known.
    pub gain: Option<f64>,
}

/// All kinds, and what was done last.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Kinds {
    kinds: Vec<Kind>,
    schedulers: usize,
    /// Windows so far.
    windows: u64,
    /// The kind of the latest window, that which it was served as, and the scheduler that it ran under.
    preceding: Option<usize>,
    served: Option<usize>,
    ran: Option<SchedulerId>,
}

impl Kinds {
    /// None yet, for so many schedulers.
    pub(crate) fn new(schedulers: usize) -> Self {
        Self { schedulers, ..Self::default() }
    }

    /// What was saved, for other schedulers: `from[s]` is where scheduler `s` stands in the saved lists, if it does.
    pub(crate) fn restored(mut self, from: &[Option<usize>]) -> Self {
        let of = |arms: &[Arm]| -> Vec<Arm> {
            from.iter()
                .map(|place| place.and_then(|place| arms.get(place).copied()).unwrap_or_default())
                .collect()
        };
        let place = |saved: usize| from.iter().position(|place| *place == Some(saved));
        for kind in &mut self.kinds {
            (kind.arms, kind.long_run) = (of(&kind.arms), of(&kind.long_run));
            kind.latest = kind.latest.and_then(|(scheduler, at)| Some((place(scheduler)?, at)));
        }
        let ran = self.ran.and_then(|ran| place(ran.0)).map(SchedulerId);
        Self { ran, schedulers: from.len(), ..self }
    }

    /// Whether this code can have written it.
    pub(crate) fn check(&self) -> Result<(), String> {
        let named = self.preceding.into_iter().chain(self.served);
        if let Some(unknown) = named.into_iter().find(|&kind| kind >= self.kinds.len()) {
            return Err(format!("kind {unknown} was the latest, but is not there"));
        }
        let finite = |arms: &[Arm]| arms.iter().all(|arm| arm.mean.is_finite());
        let sound = |kind: &Kind| kind.shape.is_sound() && finite(&kind.arms) && finite(&kind.long_run);
        match self.kinds.iter().position(|kind| !sound(kind)) {
            Some(broken) => Err(format!("kind {broken} has no shape, or holds a number that is not finite")),
            None => Ok(()),
        }
    }

    /// Forgets what was measured of a scheduler, which then counts as new.
    pub(crate) fn forget(&mut self, scheduler: SchedulerId) {
        let all = self.kinds.iter_mut().flat_map(|kind| [&mut kind.arms, &mut kind.long_run]);
        all.filter_map(|arms| arms.get_mut(scheduler.0)).for_each(|arm| *arm = Arm::default());
    }

    /// A window of this shape ended, in which that scheduler gave that value: finds or makes its kind, learns, and says what is to be
    /// done.
    pub(crate) fn window(
        &mut self,
        shape: &Shape,
        (ran, value): (SchedulerId, f64),
        better: Better,
    ) -> Served {
        let kind = self.find(shape);
        let begun = self.ran.replace(ran) != Some(ran);
        self.kinds[kind].learn(ran, value);
        self.windows += 1;
        for kind in &mut self.kinds {
            let latest = kind.latest.filter(|(_, at)| self.windows - at <= HORIZON);
            if let Some(arm) = latest.and_then(|(scheduler, _)| kind.long_run.get_mut(scheduler)) {
                arm.learn(value, self.windows);
            }
        }
        // What a new scheduler makes of a load may look like another kind, but the one that it was chosen for must hear of it.
        let chosen_for = self.preceding.replace(kind).filter(|&chosen_for| begun && chosen_for != kind);
        if let Some(chosen_for) = chosen_for.and_then(|chosen_for| self.kinds.get_mut(chosen_for)) {
            chosen_for.windows += 1;
            chosen_for.learn(ran, value);
        }
        let young = self.kinds[kind].windows < YOUNG;
        let serving = self.served.filter(|_| young).unwrap_or(kind);
        self.served = Some(serving);
        self.serve(kind, serving, ran, better)
    }

    fn find(&mut self, shape: &Shape) -> usize {
        let alike = self.kinds.iter().map(|kind| kind.shape.similarity(shape)).enumerate();
        let nearest = alike.reduce(|best, other| if other.1 > best.1 { other } else { best });
        match nearest {
            Some((kind, alike)) if alike >= ALIKE || self.kinds.len() >= MOST => {
                let found = &mut self.kinds[kind];
                found.windows += 1;
                found.shape.blend(shape, 1.0 / found.windows.min(MEMORY) as f64);
                kind
            }
            _ => {
                let arms = vec![Arm::default(); self.schedulers];
                let (shape, long_run) = (shape.clone(), arms.clone());
                self.kinds.push(Kind { shape, windows: 1, arms, long_run, latest: None });
                self.kinds.len() - 1
            }
        }
    }

    fn serve(&mut self, kind: usize, serving: usize, ran: SchedulerId, better: Better) -> Served {
        let (of, windows) = (&self.kinds[serving], self.kinds[kind].windows);
        let trial = if windows < YOUNG { None } else { of.trial(better) };
        let scheduler = trial.or_else(|| of.long_run(better)).map_or(ran, SchedulerId);
        let mean = |scheduler: SchedulerId| of.known().find(|(known, _)| *known == scheduler.0);
        let known = mean(scheduler).map_or(0, |(_, arm)| arm.windows) as f64;
        let gain = mean(scheduler).zip(mean(ran)).filter(|(_, (_, from))| from.mean != 0.0);
        let served = Served {
            kind,
            windows,
            scheduler,
            tried: trial.is_some(),
            confidence: if trial.is_some() { 0.0 } else { known / (known + 1.0) },
            gain: gain.map(|((_, to), (_, from))| better.oriented(to.mean - from.mean) / from.mean.abs()),
        };
        if !served.tried {
            self.kinds[serving].latest = Some((scheduler.0, self.windows));
        }
        served
    }
}
