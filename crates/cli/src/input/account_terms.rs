//! The terms of an account, as options of a command line or annotations of a container give them.

use server::control::protocol::AccountTerms;

use super::quantity::{size, some_time};
use crate::error::Error;

/// The options by which an account has terms, and the schedulers that use them.
const USES: [(&str, &[&str]); 3] = [
    ("--weight", &["afq"]),
    ("--rate", &["split-token", "token-block", "token-call"]),
    ("--fsync-deadline", &["split-deadline"]),
];

/// Terms by the names of the options, as a command line or a container's annotations have them.
pub(crate) fn terms(
    weight: Option<u8>,
    fsync_deadline: Option<&str>,
    rate: Option<&str>,
) -> Result<AccountTerms, Error> {
    let rate = rate.map(|text| size(text).map_err(|error| Error::Usage(format!("--rate: {error}"))));
    let rate = rate.transpose()?;
    if rate == Some(0) {
        return Err(Error::Usage("--rate: must be greater than 0".to_owned()));
    }
    let deadline = fsync_deadline.map(|text| some_time("--fsync-deadline", text)).transpose()?;
    Ok(AccountTerms { weight, rate, fsync_deadline_ns: deadline.map(|deadline| deadline.as_nanos() as u64) })
}

/// The options that a scheduler does not use, in a line each.
pub(crate) fn without_effect(scheduler: &str, terms: AccountTerms) -> Vec<String> {
    let is_given = [terms.weight.is_some(), terms.rate.is_some(), terms.fsync_deadline_ns.is_some()];
    // Also inside a wrapper, and before tunables.
    let names: Vec<_> = scheduler.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
    let name = scheduler.split('{').next().unwrap_or(scheduler);
    let uses = |users: &[&str]| users.iter().any(|user| names.contains(user));
    let given = USES.iter().zip(is_given).filter(|&(_, is_given)| is_given).map(|(of, _)| of);
    let unused = given.filter(|(_, users)| !uses(users));
    unused
        .map(|(option, users)| format!("{option} has no effect under '{name}'; '{}' uses it", users[0]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_without_effect_are_named_with_the_scheduler_that_uses_them() {
        let all = AccountTerms { weight: Some(3), rate: Some(5), fsync_deadline_ns: Some(7) };
        let notes = without_effect("split-token{idle=5ms}", all);
        assert_eq!(
            notes,
            [
                "--weight has no effect under 'split-token'; 'afq' uses it",
                "--fsync-deadline has no effect under 'split-token'; 'split-deadline' uses it"
            ]
        );
        assert_eq!(without_effect("deadline", all).len(), 3);
        assert_eq!(without_effect("stream(afq)", all).len(), 2, "not that of the weight");
        assert!(without_effect("deadline", AccountTerms::default()).is_empty());
    }

    /// A policy above the block layer that uses none of the terms is for comparison only.
    #[test]
    fn every_split_level_scheduler_uses_an_option() {
        let split = schedulers::registry::all().filter(|listing| listing.split).map(|listing| listing.name);
        let without: Vec<_> =
            split.filter(|name| USES.iter().all(|(_, users)| !users.contains(name))).collect();
        assert_eq!(without, ["split-noop"]);
    }
}
