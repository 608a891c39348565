//! Tests any policy against the contract: the model of operations in every setting of the queue.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::model::{Config, Failure, Report, run};
use crate::queue::{Barriers, Cache, Identity, Limits, Options, Plugging};
use crate::scheduler::Scheduler;
use crate::time::Span;

/// The number of operations after which a policy counts as tested.
pub const OPERATIONS: u64 = 10_000_000;

/// A policy violated the contract, in this configuration of the model.
#[derive(Clone, Debug)]
pub struct PolicyFailure {
    /// The configuration; [`run`] with it repeats the failure.
    pub config: Box<Config>,
    /// The violations.
    pub failure: Failure,
}

impl fmt::Display for PolicyFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config { operations, options, most, faults, switches, directs, .. } = &*self.config;
        let setting: String = format!(
            "{operations} operations, at most {most} at once, faults {faults}, switches {switches}, directives {directs}, \
             {options:?}"
        );
        write!(f, "{}\n  in the setting: {setting}", self.failure)
    }
}

impl core::error::Error for PolicyFailure {}

/// The configurations in which [`check_policy`] runs a policy: depths from 1 to 31, processes shown and hidden, small
/// limits, every kind of barrier and plugging, with and without device faults, switches of schedulers and directives.
#[must_use]
pub fn configurations(operations: u64, first_seed: u64) -> Vec<Config> {
    let few = Limits { nr_requests: 4, batch_requests: 2, batch_time: Span::from_millis(20) };
    let itself = Plugging::Queue { threshold: 4, delay: Span::from_millis(3) };
    let base = Options::default();
    let no_fua = Cache::WriteBack { fua: false };
    let settings = [
        (Options { depth: 1, ..base }, false, false),
        (Options { depth: 31, ..base }, false, false),
        (Options { depth: 4, plugging: Plugging::None, barriers: Barriers::Alone, ..base }, true, false),
        (Options { depth: 1, identity: Identity::Same, ..base }, true, true),
        (Options { depth: 4, limits: few, plugging: itself, identity: Identity::Hidden, ..base }, true, true),
        (Options { depth: 2, barriers: Barriers::Drain, cache: no_fua, ..base }, true, true),
        (Options { depth: 31, limits: few, cache: Cache::WriteThrough, ..base }, false, true),
        (Options { depth: 4, barriers: Barriers::Serial, ..base }, true, true),
    ];
    let each = operations / settings.len() as u64;
    let configuration = |(index, (options, faults, switches)): (usize, (Options, bool, bool))| Config {
        seed: first_seed + index as u64,
        operations: each,
        options,
        faults,
        switches,
        directs: index % 2 == 1,
        most: [64, 6, 200][index % 3],
        ..Config::default()
    };
    settings.into_iter().enumerate().map(configuration).collect()
}

/// Runs a policy through `operations` operations of the model ([`OPERATIONS`] are recommended), divided among all
/// [`configurations`], and through one of them twice to verify that equal input gives equal decisions.
///
/// ```
/// # use std::collections::VecDeque;
/// # use dwell_elevator::*;
/// # #[derive(Default)]
/// # struct MyPolicy(VecDeque<RequestId>);
/// # impl Capabilities for MyPolicy {}
/// # impl Scheduler for MyPolicy {
/// #     fn insert(&mut self, _now: Time, request: &Request) { self.0.push_back(request.id); }
/// #     fn merged(&mut self, _now: Time, _request: &Request, growth: Growth<'_>) {
/// #         self.0.retain(|&id| growth.absorbed.is_none_or(|absorbed| absorbed.id != id));
/// #     }
/// #     fn next(&mut self, _now: Time, _view: &View<'_>) -> Decision {
/// #         self.0.pop_front().map_or(Decision::Idle, |id| Decision::Dispatch { id, reason: Reason::FirstCome })
/// #     }
/// # }
/// use dwell_elevator::check_policy::check_policy;
///
/// check_policy(100_000, 1, &mut || Box::<MyPolicy>::default()).unwrap_or_else(|failure| panic!("{failure}"));
/// ```
///
/// # Errors
/// The first failure, with the configuration that repeats it.
pub fn check_policy(
    operations: u64,
    first_seed: u64,
    make: &mut dyn FnMut() -> Box<dyn Scheduler>,
) -> Result<Vec<Report>, PolicyFailure> {
    let mut reports = Vec::new();
    for config in configurations(operations, first_seed) {
        let fail = |failure| PolicyFailure { config: Box::new(config), failure };
        reports.push(run(&config, &mut |_| make()).map_err(fail)?);
    }
    let config = Config { seed: first_seed, operations: 5_000, ..Config::default() };
    let fail = |failure| PolicyFailure { config: Box::new(config), failure };
    let first = run(&config, &mut |_| make()).map_err(fail)?;
    let second = run(&config, &mut |_| make()).map_err(fail)?;
    if first.digest != second.digest {
        let what = String::from("decides differently on the same input");
        return Err(fail(Failure { seed: first_seed, violations: 1, first: Vec::from([what]) }));
    }
    Ok(reports)
}
