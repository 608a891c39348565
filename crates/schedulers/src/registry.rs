//! Every policy of this crate as data: names, versions, sources, tunables, and how one is made. Help, documentation and
//! error messages come from here. A program with policies of its own puts them beside these in a [`Catalogue`].

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::fmt;

use elevator::array::Coordinator;
use elevator::service_time::ServiceCurve;
use elevator::{Scheduler, Tunable, WorkConserving};

use crate::{
    anticipatory, array, bfq, c_scan, cfq_2_6_9, cfq_2_6_32, cfq_2003, cooperative, deadline, elevator_2_4,
    kyber, look, mq_deadline, noop, split, sptf, sstf, stream,
};

/// What a policy is told of where it will run, when it is made.
#[derive(Clone, Debug)]
pub struct Environment {
    /// How long the device takes from one place to another: a measurement, or what its model says.
    pub service_times: ServiceCurve,
    /// Whether the device has a head to move. Some policies never idle where there is none.
    pub rotational: bool,
    /// The queue's request limit (`nr_requests`), from which some policies derive limits of their own.
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
    /// One that decides about waiting itself when alone, and leaves that to a wrapper around it.
    Either {
        /// With its own waiting.
        alone: fn(&Environment) -> BoxedScheduler,
        /// Without.
        wrapped: fn(&Environment) -> BoxedWorkConserving,
    },
    /// One that wraps a work-conserving policy.
    Wrapper(fn(&Environment, BoxedWorkConserving) -> BoxedScheduler),
    /// One for disk arrays: a wrapper for the members, and the coordinator of so many of them.
    Array {
        /// The wrapper.
        member: fn(&Environment, BoxedWorkConserving) -> BoxedScheduler,
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
        matches!(self.make, Make::WorkConserving(_) | Make::Either { .. })
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

    /// Whether it has a part above the block layer, and so needs a host with hooks there: system calls, page cache, causes.
    #[must_use]
    pub fn is_split(&self) -> bool {
        SPLIT_FILES.iter().copied().flatten().any(|split| split == self)
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

/// Each policy file's versions, in the order in which help shows them.
const FILES: &[&[Listing]] = &[
    noop::LISTINGS,
    deadline::LISTINGS,
    mq_deadline::LISTINGS,
    look::LISTINGS,
    c_scan::LISTINGS,
    elevator_2_4::LISTINGS,
    sstf::LISTINGS,
    sptf::LISTINGS,
    anticipatory::LISTINGS,
    cooperative::LISTINGS,
    cfq_2003::LISTINGS,
    cfq_2_6_9::LISTINGS,
    cfq_2_6_32::LISTINGS,
    kyber::LISTINGS,
    bfq::LISTINGS,
    stream::LISTINGS,
    array::LISTINGS,
];

/// Policies with a part above the block layer, which not every host can offer.
const SPLIT_FILES: &[&[Listing]] = &[
    split::afq::LISTINGS,
    split::split_deadline::LISTINGS,
    split::split_token::LISTINGS,
    split::plain_token::LISTINGS,
];

/// What a wrapper wraps when it is named without one.
pub const WRAPPED_BY_DEFAULT: &str = "deadline";

/// Every policy of this crate in every version.
pub fn all() -> impl Iterator<Item = &'static Listing> {
    Catalogue::default().all()
}

/// The policy of this crate that `name` means: a full name, or a plain one for its stated default version.
#[must_use]
pub fn find(name: &str) -> Option<&'static Listing> {
    Catalogue::default().find(name)
}

/// The policies that a program knows by name: this crate's, and whatever it adds. By default, this crate's alone.
#[derive(Clone, Copy, Default, Debug)]
pub struct Catalogue {
    own: &'static [Listing],
}

/// Two policies of a catalogue answer to this name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameTaken(pub String);

impl fmt::Display for NameTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "two schedulers are called '{}'", self.0)
    }
}

impl core::error::Error for NameTaken {}

impl Catalogue {
    /// This crate's policies and `own`.
    ///
    /// # Errors
    /// If a name of `own` is already another policy's: it would hide one of the two.
    pub fn with(own: &'static [Listing]) -> Result<Self, NameTaken> {
        let catalogue = Self { own };
        let plain = own.iter().filter(|listing| listing.plain).map(|listing| listing.name.to_string());
        let mut names = own.iter().map(Listing::full_name).chain(plain);
        let taken = names.find(|name| catalogue.all().filter(|listing| listing.answers_to(name)).count() > 1);
        taken.map_or(Ok(catalogue), |name| Err(NameTaken(name)))
    }

    /// Every policy in every version, the added ones last.
    pub fn all(self) -> impl Iterator<Item = &'static Listing> {
        FILES.iter().chain(SPLIT_FILES).copied().flatten().chain(self.own)
    }

    /// The policy that `name` means: a full name, or a plain one for its stated default version.
    #[must_use]
    pub fn find(self, name: &str) -> Option<&'static Listing> {
        self.all().find(|listing| listing.answers_to(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_means_one_policy() {
        for listing in all() {
            assert_eq!(find(&listing.full_name()), Some(listing));
            let plain = all().filter(|other| other.name == listing.name && other.plain).count();
            assert_eq!(plain, 1, "'{}' must mean exactly one version", listing.name);
            assert!(!listing.about.is_empty() && !listing.source.is_empty(), "{listing:?}");
        }
    }

    #[test]
    fn every_policy_is_made_with_the_defaults_that_its_table_states() {
        for listing in all() {
            let scheduler = crate::Spec::of(listing).build(&Environment::default()).unwrap();
            for tunable in listing.tunables {
                assert_eq!(
                    scheduler.tunable(tunable.name),
                    Some(tunable.default),
                    "{listing:?} {}",
                    tunable.name
                );
                tunable.check(tunable.default).unwrap();
            }
        }
    }
    const fn own(name: &'static str, version: &'static str) -> Listing {
        let make = Make::WorkConserving(|_| Box::<noop::Noop>::default());
        Listing { name, version, plain: true, about: "a test", source: "here", tunables: &[], make }
    }

    #[test]
    fn a_policy_of_ones_own_stands_beside_the_others() {
        static OWN: &[Listing] = &[own("own", "2")];
        let catalogue = Catalogue::with(OWN).unwrap();
        assert_eq!(catalogue.find("own"), OWN.first());
        assert_eq!(catalogue.find("own-2"), OWN.first());
        assert_eq!(catalogue.find("noop"), find("noop"));
        assert_eq!(find("own"), None);
        assert_eq!(catalogue.all().count(), all().count() + 1);
    }

    #[test]
    fn a_name_that_is_taken_is_refused() {
        static PLAIN: &[Listing] = &[own("deadline", "of-ones-own")];
        static FULL: &[Listing] = &[own("deadline-2.6.32", "")];
        static TWICE: &[Listing] = &[own("own", "1"), own("own", "2")];
        assert_eq!(Catalogue::with(PLAIN).unwrap_err(), NameTaken("deadline".to_string()));
        assert!(Catalogue::with(TWICE).is_err());
        assert!(Catalogue::with(FULL).is_err());
    }
}
