//! The published values: the project's own table, copied from the papers.

/// The table; `bound` is empty for a value, `at least` or `at most` where the paper gives a bound.
const TABLE: &str = include_str!("published.csv");

/// What kind of statement a published value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bound {
    /// A value.
    Value,
    /// It is at least so much.
    AtLeast,
    /// It is at most so much.
    AtMost,
}

/// A published value.
#[derive(Clone, Debug)]
pub(super) struct Published {
    pub(super) paper: &'static str,
    pub(super) experiment: &'static str,
    /// The paper's word.
    pub(super) scheduler: &'static str,
    /// The figure.
    pub(super) figure: &'static str,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    pub(super) bound: Bound,
}

/// All of them, in the order of the table. Lines that are no such row are none; a test counts them.
pub(super) fn all() -> impl Iterator<Item = Published> {
    TABLE.lines().skip(1).filter_map(|line| {
        let [paper, experiment, scheduler, figure, value, unit, bound] =
            line.split(',').collect::<Vec<_>>().try_into().ok()?;
        let bound = match bound {
            "at least" => Bound::AtLeast,
            "at most" => Bound::AtMost,
            _ => Bound::Value,
        };
        Some(Published { paper, experiment, scheduler, figure, value: value.parse().ok()?, unit, bound })
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
            .filter_map(|(name, text)| Scenario::parse(name, text, 0.01).ok()?.page.paper)
            .collect();
        for row in all() {
            let paper = papers.iter().find(|p| p.name == row.paper && p.experiment == row.experiment);
            let paper = paper.unwrap_or_else(|| panic!("no experiment for {row:?}"));
            assert!(paper.schedulers.contains_key(row.scheduler), "{row:?}");
            assert!(paper.figures.contains_key(row.figure), "{row:?}");
        }
    }
}
