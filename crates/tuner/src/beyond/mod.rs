//! Beyond the paper: [kinds of load](Kinds), which decide unless the parameter `kinds` is off; three restraints, and a search of settings, each
//! off until it is given to the analyser.
//!
//! A restraint looks at what the analysis proposes and may say no. They are asked in this order: [`RegretBound`] (rollback first),
//! [`Hysteresis`], [`SwitchCost`]. [`Search`] adds arms that stand for settings of schedulers.

pub(crate) mod distribution;
mod hysteresis;
mod inertia;
mod kind;
mod kinds;
mod long_run;
mod passing;
mod regret;
mod search;
mod shape;
mod succession;
mod switch_cost;

pub use hysteresis::Hysteresis;
pub use kinds::{Kinds, Served};
pub use regret::RegretBound;
pub use search::{Ladder, Search, Space};
pub use shape::Shape;
pub use switch_cost::SwitchCost;

use elevator::Span;

use crate::cluster::SchedulerId;
use crate::decision::Restraint;
use crate::metric::Better;

/// What the analysis wants.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Proposal {
    /// The scheduler to use.
    pub scheduler: SchedulerId,
    /// The one in use.
    pub current: SchedulerId,
    /// Expected gain as a part of what the current one gives, if both are known.
    pub gain: Option<f64>,
    /// For how many windows it is to be tried from here on; 0 if it is known to be good.
    pub trial: u64,
    /// Whether that is the rest of a trial of several windows. Cut short it would teach nothing, and be made again and again.
    pub under_way: bool,
}

/// The restraints in force.
#[derive(Clone, Debug, Default)]
pub struct Restraints {
    /// A switch counts with its cost.
    pub switch_cost: Option<SwitchCost>,
    /// A switch must be clearly better, and asked for more than once.
    pub hysteresis: Option<Hysteresis>,
    /// Never much below the best fixed scheduler; back again when a switch hurt.
    pub regret: Option<RegretBound>,
}

/// A switch that was made, seen from the first window after it.
pub(crate) struct Switch {
    pub(crate) from: SchedulerId,
    pub(crate) to: SchedulerId,
    /// What the window gave.
    pub(crate) value: f64,
    /// What each of both gives such windows, as far as that is known.
    pub(crate) usual: (Option<f64>, Option<f64>),
    /// For how long it stopped the device, if that was measured,
    pub(crate) drained: Option<Span>,
    /// and how long a window is.
    pub(crate) window: Span,
}

impl Restraints {
    /// Whether there is any.
    pub(crate) const fn are_in_force(&self) -> bool {
        let Self { regret, switch_cost, hysteresis } = self;
        regret.is_some() || switch_cost.is_some() || hysteresis.is_some()
    }

    /// Whether any of them asks what clusters know.
    pub(crate) const fn ask_clusters(&self) -> bool {
        let Self { regret, switch_cost, hysteresis: _ } = self;
        regret.is_some() || switch_cost.is_some()
    }

    /// A scheduler counts as new.
    pub(crate) fn forget(&mut self, scheduler: SchedulerId) {
        if let Some(regret) = &mut self.regret {
            regret.forget(scheduler);
        }
    }

    /// Learns what a switch did. The scheduler to go back to, if it hurt; who does so says that it is [left](Self::leave).
    pub(crate) fn switched(&mut self, switch: &Switch, better: Better) -> Option<(SchedulerId, Restraint)> {
        let (usual_before, usual) = switch.usual;
        if let Some(cost) = &mut self.switch_cost {
            if let Some(drained) = switch.drained {
                cost.drained(drained, switch.window);
            }
            if let Some(usual) = usual {
                cost.first_window(better.oriented(switch.value), better.oriented(usual));
            }
        }
        // Where the first window after any switch is poor, going back hurts as well.
        let regret = self.regret.as_ref().filter(|regret| !regret.has_left(switch.from))?;
        let loss = regret.hurt(switch.value, usual_before?)?;
        Some((switch.from, Restraint::Rollback { wanted: switch.to, loss }))
    }

    /// A scheduler is gone back from, as it hurt.
    pub(crate) fn leave(&mut self, scheduler: SchedulerId) {
        if let Some(regret) = &mut self.regret {
            regret.leave(scheduler);
        }
    }

    /// Lets each have its say, in the order above; what to use instead, and why. A switch has to pay within `d` windows.
    pub(crate) fn review(&mut self, proposal: &Proposal, d: u64) -> Option<(SchedulerId, Restraint)> {
        let stay = |restraint| (proposal.current, restraint);
        let regret = self.regret.as_mut().and_then(|regret| regret.review(proposal));
        regret
            .or_else(|| self.hysteresis.as_mut()?.review(proposal).map(stay))
            .or_else(|| self.switch_cost.as_ref()?.review(proposal, d).map(stay))
    }
}
