//! A policy as data: its name, version, source and tunables, and how it is made.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::fmt;

use elevator::array::Coordinator;
use elevator::service_time::ServiceCurve;
use elevator::{Scheduler, Tunable, WorkConserving};

/// What a policy is told of where it will run, when it is made.
#[derive(Clone, Debug)]
pub struct Environment {
    /// How long the device takes from one place to another: a measurement, or what its model says.
    pub service_times: ServiceCurve,
    /// Whether the device has a head to move. Some policies never idle where there is none.
    pub rotational: bool,
    /// Requests that the queue takes, both directions together, from which some policies derive limits of their own: Linux's
    /// `nr_requests` today, twice that of 2.6.
    pub nr_requests: u32,
}

impl Default for Environment {
    /// A desktop drive behind a stock queue.
    fn default() -> Self {
        Self { service_times: ServiceCurve::default(), rotational: true, nr_requests: 256 }
    }
}

/// A policy, ready to be hosted; hosts may live in other threads.
pub type BoxedScheduler = Box<dyn Scheduler + Send>;

/// A work-conserving policy, ready to be wrapped.
pub type BoxedWorkConserving = Box<dyn WorkConserving + Send>;

/// A coordinator of an array's members.
pub type BoxedCoordinator = Box<dyn Coordinator + Send>;

/// How a policy is made.
#[derive(Clone, Copy)]
pub enum Make {
    /// One that decides about waiting itself.
    Scheduler(fn(&Environment) -> BoxedScheduler),
    /// One that never waits, and that others may wrap.
    WorkConserving(fn(&Environment) -> BoxedWorkConserving),
    /// One that wraps a work-conserving policy.
    Wrapper(fn(&Environment, BoxedWorkConserving) -> BoxedScheduler),
    /// One for disk arrays: a wrapper for the members, and the coordinator of so many of them.
    Array {
        /// The wrapper,
        member: fn(&Environment, BoxedWorkConserving) -> BoxedScheduler,
        /// and what can be tuned there of what can be tuned.
        member_tunables: &'static [Tunable],
        /// The coordinator.
        coordinator: fn(&Environment, u32) -> BoxedCoordinator,
    },
}

/// One policy in one version.
pub struct Listing {
    /// Its name without version.
    pub name: &'static str,
    /// The version of the system that it follows; empty where there is only one form.
    pub version: &'static str,
    /// Whether the plain name means this version.
    pub plain: bool,
    /// What it does, in one line.
    pub about: &'static str,
    /// Where its rules come from.
    pub source: &'static str,
    /// Whether it has a part above the block layer, and so needs a host with hooks there: system calls, page cache, causes.
    pub split: bool,
    /// What can be tuned.
    pub tunables: &'static [Tunable],
    /// How it is made.
    pub make: Make,
}

impl Listing {
    /// The name that means this version and no other: `deadline-2.6.32`, `noop`.
    #[must_use]
    pub fn full_name(&self) -> String {
        if self.version.is_empty() { self.name.to_string() } else { [self.name, self.version].join("-") }
    }

    /// Whether `name` means this version.
    #[must_use]
    pub fn answers_to(&self, name: &str) -> bool {
        (self.plain && name == self.name) || name == self.full_name()
    }

    /// Whether a wrapper may be put around it.
    #[must_use]
    pub const fn is_work_conserving(&self) -> bool {
        matches!(self.make, Make::WorkConserving(_))
    }

    /// Whether it is put around another policy.
    #[must_use]
    pub const fn is_wrapper(&self) -> bool {
        matches!(self.make, Make::Wrapper(_) | Make::Array { .. })
    }

    /// Whether it is for disk arrays only: where nobody coordinates, it is just what its members are.
    #[must_use]
    pub const fn needs_array(&self) -> bool {
        matches!(self.make, Make::Array { .. })
    }

    /// Its tunable of that name.
    #[must_use]
    pub fn tunable(&self, name: &str) -> Option<&'static Tunable> {
        self.tunables.iter().find(|tunable| tunable.name == name)
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full_name())
    }
}

impl PartialEq for Listing {
    fn eq(&self, other: &Self) -> bool {
        (self.name, self.version) == (other.name, other.version)
    }
}
