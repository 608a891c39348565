//! The published values: the project's own table, copied from the papers.

use crate::papers::verdict::Bound;

/// The table. `bound` is empty for a value; `at least`, `at most` or `same` (as the base, without a number) otherwise. `role` is
/// empty, or a [`Role`].
const TABLE: &str = include_str!("published.csv");

/// How a published value counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// It is a published value.
    Value,
    /// The same published value as others of this name: counts once.
    Once(&'static str),
    /// A statement to which the paper gives no number: judged, but no published value.
    Statement,
    /// It set up a drive, a machine or a workload: never counts.
    Calibration,
    /// Its scheduler is not modelled: never counts.
    NotJudged,
}

/// A published value.
#[derive(Clone, Debug)]
pub(super) struct Published {
    pub(super) paper: &'static str,
    pub(super) experiment: &'static str,
    /// The paper's word.
    pub(super) scheduler: &'static str,
    pub(super) figure: &'static str,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    pub(super) bound: Bound,
    pub(super) role: Role,
}

impl Published {
    /// The name under which it counts, if it does.
    pub(super) fn counts_as(&self) -> Option<String> {
        match self.role {
            Role::Statement | Role::NotJudged => None,
            Role::Once(name) => Some(format!("{}/{name}", self.paper)),
            Role::Value | Role::Calibration => {
                Some(format!("{}/{}/{}/{}", self.paper, self.experiment, self.scheduler, self.figure))
            }
        }
    }
}

/// All of them, in the order of the table. Lines that are no such row are none; a test counts them.
pub(super) fn all() -> impl Iterator<Item = Published> {
    TABLE.lines().skip(1).filter_map(|line| {
        let [paper, experiment, scheduler, figure, value, unit, bound, role] =
            line.split(',').collect::<Vec<_>>().try_into().ok()?;
        let bound = match bound {
            "" => Bound::Value,
            "at least" => Bound::AtLeast,
            "at most" => Bound::AtMost,
            "same" => Bound::Same,
            _ => return None,
        };
        let role = match role {
            "" => Role::Value,
            "statement" => Role::Statement,
            "calibration" => Role::Calibration,
            "not judged" => Role::NotJudged,
            once => Role::Once(once.strip_prefix("once ")?),
        };
        Some(Published {
            paper,
            experiment,
            scheduler,
            figure,
            value: value.parse().ok()?,
            unit,
            bound,
            role,
        })
    })
}

/// The value of one figure under one scheduler.
pub(super) fn value(paper: &str, experiment: &str, scheduler: &str, figure: &str) -> Option<Published> {
    all().find(|p| (p.paper, p.experiment, p.scheduler, p.figure) == (paper, experiment, scheduler, figure))
}

#[cfg(test)]
mod tests {
    use workloads::scenario::{Scenario, papers};

    use super::*;

    #[test]
    fn every_line_is_a_row() {
        assert_eq!(all().count(), TABLE.lines().count() - 1);
    }

    #[test]
    fn every_row_belongs_to_an_experiment() {
        let papers: Vec<_> = papers::SCRIPTS
            .iter()
            .filter_map(|(name, text)| Scenario::parse(name, text, 0.01).ok()?.script.paper)
            .collect();
        for row in all() {
            let paper = papers.iter().find(|p| p.name == row.paper && p.experiment == row.experiment);
            let paper = paper.unwrap_or_else(|| panic!("no experiment for {row:?}"));
            assert!(paper.schedulers.contains_key(row.scheduler), "{row:?}");
            assert!(paper.figures.contains_key(row.figure), "{row:?}");
        }
    }
}
