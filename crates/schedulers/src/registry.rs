//! The policies by name. Help, documentation and error messages are generated from these lists. A program adds policies of
//! its own with a [`Catalogue`].

use alloc::string::{String, ToString};
use core::fmt;

use crate::listing::Listing;
use crate::policies::{
    anticipatory, bfq, c_scan, cfq_2_6_9, cfq_2_6_32, cfq_2003, cooperative, deadline, dwell, elevator_2_4,
    kyber, look, mq_deadline, noop, sptf, sstf, stream,
};
use crate::{array, baselines, split};

/// The versions of each policy file, in the order of listings.
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
    dwell::LISTINGS,
    array::LISTINGS,
    split::afq::LISTINGS,
    split::split_deadline::LISTINGS,
    split::split_token::LISTINGS,
    baselines::plain_token::LISTINGS,
    baselines::split_noop::LISTINGS,
];

/// The policy that a wrapper named alone wraps.
pub const WRAPPED_BY_DEFAULT: &str = "deadline";

/// Every policy of this crate in every version.
pub fn all() -> impl Iterator<Item = &'static Listing> {
    Catalogue::default().all()
}

/// The policy of this crate that `name` means: a full name, or a plain name for its default version.
#[must_use]
pub fn find(name: &str) -> Option<&'static Listing> {
    Catalogue::default().find(name)
}

/// The policies that a program can select by name: those of this crate, and those that the program adds.
#[derive(Clone, Copy, Default, Debug)]
pub struct Catalogue {
    own: &'static [Listing],
}

/// Two policies of a catalogue have this name.
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
    /// If another policy already has a name of `own`.
    pub fn with(own: &'static [Listing]) -> Result<Self, NameTaken> {
        let catalogue = Self { own };
        let plain = own.iter().filter(|listing| listing.plain).map(|listing| listing.name.to_string());
        let mut names = own.iter().map(Listing::full_name).chain(plain);
        let taken = names.find(|name| catalogue.all().filter(|listing| listing.answers_to(name)).count() > 1);
        taken.map_or(Ok(catalogue), |name| Err(NameTaken(name)))
    }

    /// Every policy in every version, the added ones last.
    pub fn all(self) -> impl Iterator<Item = &'static Listing> {
        FILES.iter().copied().flatten().chain(self.own)
    }

    /// The policy that `name` means: a full name, or a plain name for its default version.
    #[must_use]
    pub fn find(self, name: &str) -> Option<&'static Listing> {
        self.all().find(|listing| listing.answers_to(name))
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;

    use super::*;
    use crate::listing::{Environment, Make};

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
            // The rest of an array's is its coordinator's.
            let own = match listing.make {
                Make::Array { member_tunables, .. } => member_tunables,
                _ => listing.tunables,
            };
            for tunable in own {
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
        Listing::new(name, "a test", make).with_version(version).with_source("here")
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
