//! A policy as data: its name, version, source, tunables and constructor.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::fmt;

use elevator::array::Coordinator;
use elevator::service_time::ServiceCurve;
use elevator::{Scheduler, Tunable, WorkConserving};

/// The properties of the device and the queue that a policy's constructor receives.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Service times by distance: measured, or from a model of the drive.
    pub service_times: ServiceCurve,
    /// Whether the device has a head to move. Some policies never idle without one.
    pub rotational: bool,
    /// The queue's request limit for both directions together, from which some policies derive limits of their own: Linux's
    /// `nr_requests` today, twice that of 2.6.
    pub nr_requests: u32,
}

impl Default for Environment {
    /// A desktop drive behind a queue with Linux's defaults.
    fn default() -> Self {
        Self { service_times: ServiceCurve::default(), rotational: true, nr_requests: 256 }
    }
}

/// A policy for a host.
pub type BoxedScheduler = Box<dyn Scheduler>;

/// A work-conserving policy for a wrapper.
pub type BoxedWorkConserving = Box<dyn WorkConserving>;

/// A coordinator of an array's members.
pub type BoxedCoordinator = Box<dyn Coordinator + Send>;

/// How a policy is constructed.
#[derive(Clone, Copy)]
pub enum Make {
    /// A policy that may wait.
    Scheduler(fn(&Environment) -> BoxedScheduler),
    /// A policy that never waits, and that wrappers accept.
    WorkConserving(fn(&Environment) -> BoxedWorkConserving),
    /// A wrapper around a work-conserving policy.
    Wrapper(fn(&Environment, BoxedWorkConserving) -> BoxedScheduler),
    /// A policy for disk arrays: a wrapper for the members, and a coordinator for a number of members.
    Array {
        /// The wrapper.
        member: fn(&Environment, BoxedWorkConserving) -> BoxedScheduler,
        /// The tunables of the wrapper, a subset of the listing's.
        member_tunables: &'static [Tunable],
        /// The coordinator.
        coordinator: fn(&Environment, u32) -> BoxedCoordinator,
    },
}

/// One policy in one version.
#[non_exhaustive]
pub struct Listing {
    /// The name without version.
    pub name: &'static str,
    /// The version of the system that the policy follows; empty if there is only one.
    pub version: &'static str,
    /// Whether the plain name means this version.
    pub plain: bool,
    /// A description of one line.
    pub about: &'static str,
    /// The source of its rules.
    pub source: &'static str,
    /// Whether it needs a host with hooks above the block layer: system calls, page cache, causes.
    pub split: bool,
    /// The table of tunables.
    pub tunables: &'static [Tunable],
    /// The request limit that the policy's source sets for its queue, if it does.
    pub request_limit: Option<u32>,
    /// Whether it follows an array's coordinator itself, so that `array-stream` needs no wrapper around it.
    pub is_coordinated: bool,
    /// The constructor.
    pub make: Make,
}

impl Listing {
    /// A policy with one version, without tunables.
    #[must_use]
    pub const fn new(name: &'static str, about: &'static str, make: Make) -> Self {
        Self {
            name,
            version: "",
            plain: true,
            about,
            source: "",
            split: false,
            tunables: &[],
            request_limit: None,
            is_coordinated: false,
            make,
        }
    }

    /// Sets the version of the system that the policy follows.
    #[must_use]
    pub const fn with_version(self, version: &'static str) -> Self {
        Self { version, ..self }
    }

    /// The plain name means another version.
    #[must_use]
    pub const fn superseded(self) -> Self {
        Self { plain: false, ..self }
    }

    /// Sets the source of its rules.
    #[must_use]
    pub const fn with_source(self, source: &'static str) -> Self {
        Self { source, ..self }
    }

    /// It needs a host with hooks above the block layer.
    #[must_use]
    pub const fn with_split(self) -> Self {
        Self { split: true, ..self }
    }

    /// Sets the table of tunables.
    #[must_use]
    pub const fn with_tunables(self, tunables: &'static [Tunable]) -> Self {
        Self { tunables, ..self }
    }

    /// Sets the request limit of its queue.
    #[must_use]
    pub const fn with_request_limit(self, limit: u32) -> Self {
        Self { request_limit: Some(limit), ..self }
    }

    /// It follows an array's coordinator itself.
    #[must_use]
    pub const fn with_coordination(self) -> Self {
        Self { is_coordinated: true, ..self }
    }

    /// The name of this version alone: `deadline-2.6.32`, `noop`.
    #[must_use]
    pub fn full_name(&self) -> String {
        if self.version.is_empty() { self.name.to_string() } else { [self.name, self.version].join("-") }
    }

    /// Whether `name` means this version.
    #[must_use]
    pub fn answers_to(&self, name: &str) -> bool {
        (self.plain && name == self.name) || name == self.full_name()
    }

    /// Whether a wrapper accepts it.
    #[must_use]
    pub const fn is_work_conserving(&self) -> bool {
        matches!(self.make, Make::WorkConserving(_))
    }

    /// Whether it is a wrapper.
    #[must_use]
    pub const fn is_wrapper(&self) -> bool {
        matches!(self.make, Make::Wrapper(_) | Make::Array { .. })
    }

    /// Whether it is for disk arrays only. Without a coordinator, its members work like the wrapper.
    #[must_use]
    pub const fn needs_array(&self) -> bool {
        matches!(self.make, Make::Array { .. })
    }

    /// Whether this wrapper accepts `inside`.
    #[must_use]
    pub const fn wraps(&self, inside: &Self) -> bool {
        inside.is_work_conserving() || self.needs_array() && inside.is_coordinated
    }

    /// The tunable with that name.
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
