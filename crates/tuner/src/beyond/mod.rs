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

use crate::cluster::SchedulerId;

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
