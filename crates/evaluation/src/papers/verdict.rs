//! Verdicts on published values, and their counts.
//!
//! | rule | consequence |
//! |---|---|
//! | the paper has a gain and ours is a loss, or the reverse | misses, however close the ratio |
//! | the paper has a difference and ours is none | misses |
//! | the same direction, but farther than the published ratio by more than the tolerance | exceeds: listed, does not hold |
//! | a bound (*at least*, *at most*) is passed by more than the tolerance | exceeds |
//! | published as equal | ours within a tenth (or the paper's own deviation); a tie, which does not count as holding |
//! | a published value that several experiments judge | counts once, with the worst of their verdicts |
//! | a value with which a drive or a machine was set up | calibration, which never counts |

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Ratios may differ by this factor.
const FACTOR: f64 = 1.5;
/// The same for published ratios above [`LARGE`].
const FACTOR_OF_LARGE: f64 = 2.0;
/// Ratios above this may differ by [`FACTOR_OF_LARGE`].
const LARGE: f64 = 10.0;
/// Values published as equal may differ by this share, or by the paper's deviation if that is larger.
const EQUAL: f64 = 0.1;
/// Smaller differences count as equal. Our results repeat to the digit.
const NOTHING: f64 = 0.005;

/// How a result compares with a published value; the worst comes last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// The published value was used to set up the drive, the machine or the workload.
    Calibration,
    /// It holds, but all schedulers are equal, so that the value distinguishes none.
    Tie,
    Holds,
    /// The direction is as published, the size is larger by more than the tolerance.
    Exceeds,
    /// It does not hold.
    Misses,
}

impl Verdict {
    /// A table's cell.
    pub(crate) const fn cell(self) -> &'static str {
        match self {
            Self::Calibration => "calibration",
            Self::Tie => "tie",
            Self::Holds => "yes",
            Self::Exceeds => "exceeds",
            Self::Misses => "NO",
        }
    }
}

/// What kind of statement a published value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bound {
    Value,
    /// At least this.
    AtLeast,
    /// At most this.
    AtMost,
    /// As the other, without a number.
    Same,
}

/// The factor within which `ratio` must be met.
pub(crate) fn factor(ratio: f64) -> f64 {
    if ratio.max(1.0 / ratio) > LARGE { FACTOR_OF_LARGE } else { FACTOR }
}

/// Whether two values are too close for their order to be significant; `deviation` in percent.
pub(crate) fn equal(a: f64, b: f64, deviation: f64) -> bool {
    (a - b).abs() / a.min(b).max(f64::MIN_POSITIVE) <= deviation / 100.0
}

/// Compares a ratio with a published one: direction first, then size.
pub(crate) fn ratio(published: f64, ours: f64, deviation: f64) -> (Verdict, String) {
    if equal(published, 1.0, deviation) {
        let slack = EQUAL.max(deviation / 100.0);
        let verdict = if equal(ours, 1.0, 100.0 * slack) { Verdict::Holds } else { Verdict::Misses };
        return (verdict, format!("equal within {:.0}%", 100.0 * slack));
    }
    let factor = factor(published);
    let expected = format!("in that direction, within a factor of {factor}");
    let (far, farther) = if published > 1.0 {
        (ours > 1.0 + NOTHING, ours > published * factor)
    } else {
        (ours < 1.0 - NOTHING, ours < published / factor)
    };
    let off = (ours / published).max(published / ours);
    let verdict = match (far, farther) {
        (false, _) => return (Verdict::Misses, format!("{expected}: reversed or equal")),
        (true, true) => Verdict::Exceeds,
        (true, false) if off <= factor => Verdict::Holds,
        (true, false) => Verdict::Misses,
    };
    (verdict, expected)
}

/// Compares a value of which less is better, such as a wait.
pub(crate) fn magnitude(published: f64, ours: f64) -> (Verdict, String) {
    let verdict = if ours > published * FACTOR {
        Verdict::Misses
    } else if ours < published / FACTOR {
        Verdict::Exceeds
    } else {
        Verdict::Holds
    };
    (verdict, format!("within a factor of {FACTOR}"))
}

/// Compares with a bound. A bound of 1 is a direction and has no size; no deviation excuses the other one.
pub(crate) fn bound(bound: Bound, published: f64, ours: f64, deviation: f64) -> (Verdict, String) {
    if published == 1.0 {
        let (holds, expected) =
            if bound == Bound::AtMost { (ours < 1.0, "less than 1") } else { (ours > 1.0, "more than 1") };
        return (if holds { Verdict::Holds } else { Verdict::Misses }, expected.to_owned());
    }
    let (factor, slack) = (factor(published), deviation / 100.0);
    let (fails, passes, expected) = match bound {
        Bound::AtMost => (
            ours > published * (1.0 + slack),
            ours < published / factor,
            format!("at most {published}, at least {:.3}", published / factor),
        ),
        _ => (
            ours < published * (1.0 - slack),
            ours > published * factor,
            format!("at least {published}, at most {:.3}", published * factor),
        ),
    };
    let verdict = match (fails, passes) {
        (true, _) => Verdict::Misses,
        (_, true) => Verdict::Exceeds,
        _ => Verdict::Holds,
    };
    (verdict, expected)
}

/// A scheduler that is published as equal to the base.
pub(crate) fn same(ours: f64, deviation: f64) -> (Verdict, String) {
    let (verdict, expected) = ratio(1.0, ours, deviation);
    (if verdict == Verdict::Holds { Verdict::Tie } else { verdict }, expected)
}

/// Counts of published values by verdict.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Tally {
    holds: usize,
    misses: usize,
    exceeds: usize,
    ties: usize,
    calibration: usize,
}

impl Tally {
    /// Each value once, by its name, with the worst verdict that any experiment has on it.
    pub(crate) fn of<'a>(verdicts: impl IntoIterator<Item = (&'a str, Verdict)>) -> Self {
        let mut worst: BTreeMap<&str, Verdict> = BTreeMap::new();
        for (value, verdict) in verdicts {
            let kept = worst.entry(value).or_insert(verdict);
            *kept = verdict.max(*kept);
        }
        let mut tally = Self::default();
        for verdict in worst.into_values() {
            *match verdict {
                Verdict::Holds => &mut tally.holds,
                Verdict::Misses => &mut tally.misses,
                Verdict::Exceeds => &mut tally.exceeds,
                Verdict::Tie => &mut tally.ties,
                Verdict::Calibration => &mut tally.calibration,
            } += 1;
        }
        tally
    }

    /// Values that count.
    pub(crate) const fn judged(&self) -> usize {
        self.holds + self.misses + self.exceeds
    }

    /// A table's cells: judged, hold, miss, exceed, tie, calibration.
    pub(crate) fn cells(&self) -> [usize; 6] {
        [self.judged(), self.holds, self.misses, self.exceeds, self.ties, self.calibration]
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [judged, holds, misses, exceeds, ties, calibration] = self.cells();
        write!(
            f,
            "{holds} of {judged} published values hold, {misses} miss, {exceeds} exceed; not counted: {ties} ties, {calibration} calibration"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(published: f64, ours: f64) -> Verdict {
        ratio(published, ours, 5.0).0
    }

    #[test]
    fn a_reversed_result_never_holds() {
        // A slowdown of 15% that comes out as a gain of 11%: within a factor of 1.5, and a miss.
        assert_eq!(verdict(1.15, 0.89), Verdict::Misses);
        assert_eq!(verdict(0.85, 1.02), Verdict::Misses);
        assert_eq!(verdict(1.15, 1.0), Verdict::Misses, "no difference is not the published one");
        assert_eq!(verdict(1.15, 1.02), Verdict::Holds);
    }

    #[test]
    fn a_ratio_within_half_holds_and_a_large_one_within_two() {
        assert_eq!(verdict(3.2, 2.2), Verdict::Holds);
        assert_eq!(verdict(3.2, 2.0), Verdict::Misses);
        assert_eq!(verdict(18.7, 10.0), Verdict::Holds);
        assert_eq!(verdict(1.0 / 18.7, 1.0 / 35.0), Verdict::Holds);
    }

    #[test]
    fn more_than_the_tolerance_in_the_right_direction_exceeds() {
        assert_eq!(verdict(3.2, 63.0), Verdict::Exceeds);
        assert_eq!(verdict(1.0 / 3.2, 1.0 / 63.0), Verdict::Exceeds);
    }

    #[test]
    fn bounds_are_two_sided() {
        let least = |ours| bound(Bound::AtLeast, 2.0, ours, 5.0).0;
        assert_eq!([least(1.8), least(1.95), least(2.9)], [Verdict::Misses, Verdict::Holds, Verdict::Holds]);
        assert_eq!(least(63.0), Verdict::Exceeds);
        let most = |ours| bound(Bound::AtMost, 0.1, ours, 0.0).0;
        assert_eq!([most(0.11), most(0.09), most(0.01)], [Verdict::Misses, Verdict::Holds, Verdict::Exceeds]);
    }

    #[test]
    fn a_bound_of_one_is_a_direction() {
        assert_eq!(bound(Bound::AtMost, 1.0, 1.02, 5.0).0, Verdict::Misses);
        assert_eq!(bound(Bound::AtMost, 1.0, 0.3, 5.0).0, Verdict::Holds);
        assert_eq!(bound(Bound::AtLeast, 1.0, 1.0, 5.0).0, Verdict::Misses);
    }

    #[test]
    fn equality_is_a_tenth_and_not_a_factor() {
        assert_eq!(same(1.05, 5.0).0, Verdict::Tie);
        assert_eq!(same(1.4, 5.0).0, Verdict::Misses);
        assert_eq!(same(0.83, 5.0).0, Verdict::Misses);
        assert_eq!(same(1.25, 30.0).0, Verdict::Tie, "the paper's own deviation");
    }

    #[test]
    fn less_of_a_wait_exceeds_and_more_misses() {
        let of = |ours| magnitude(7.0, ours).0;
        assert_eq!([of(0.7), of(6.0), of(11.0)], [Verdict::Exceeds, Verdict::Holds, Verdict::Misses]);
    }

    #[test]
    fn a_value_counts_once_with_its_worst_verdict() {
        let tally = Tally::of([
            ("overhead", Verdict::Holds),
            ("overhead", Verdict::Misses),
            ("overhead", Verdict::Tie),
            ("speedup", Verdict::Holds),
            ("large", Verdict::Holds),
            ("large", Verdict::Exceeds),
            ("base", Verdict::Tie),
            ("drive", Verdict::Calibration),
        ]);
        assert_eq!(tally.cells(), [3, 1, 1, 1, 1, 1]);
        assert_eq!(tally.judged(), 3, "ties and calibration do not count");
    }
}
