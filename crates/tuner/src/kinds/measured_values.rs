//! The measured values of a scheduler for a kind of load: what `dwell patterns` prints and `dwell advise` compares.
//!
//! # Idea
//! [Ratings](super::kind) and [credits](super::credit) decide what the tuner uses. They are estimates: a credited value is shared by several schedulers
//! where windows depend on those before. A tally has the values as they were measured, and its spread.
//!
//! # Order of decisions
//! 1. Only [whole windows](is_whole) count. The window of a trial that ended early is shorter, and whole if the load ran throughout.
//! 2. The first window after a switch has effects of the switch. It counts only until the same scheduler has a second one in a row.
//! 3. The windows of a trial during which the load changed are [taken back](super::Kinds).
//! 4. A gain counts if it is [beyond chance](surely_ahead).

use serde::{Deserialize, Serialize};

use super::shape::{Shape, are_alike};
use crate::saved::COUNT_MAX;
use observation::{Better, Window};

/// Windows over which a mean averages; older ones fade.
const MEMORY: u64 = 1000;
/// A gain, as a part of the other scheduler's mean, from which on the uncertainty of the means is the allowance for chance, and not the spread of
/// single windows: the same gain as in the opening and in the significance test.
const PLAIN: f64 = 1.0;
/// The 97.5th percentile of Student's t for 1 to 10 degrees of freedom, and above.
const STUDENT: [f64; 10] = [12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];
const STUDENT_MANY: f64 = 2.0;
/// A window in which the device was without requests for this part of it at the start or at the end, and for [`TIMES`] its longest pause in between,
/// has the beginning or the end of a load.
const QUIET: f64 = 0.1;
const TIMES: u64 = 2;
/// Accesses of half a window from which on its shape is compared with that of the other half.
const HALF: usize = 20;

/// The values of the windows that a scheduler served.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct MeasuredValues {
    /// The windows.
    pub windows: u64,
    pub mean: f64,
    pub least: f64,
    pub greatest: f64,
    /// Of the windows, not of a population from which they are a sample.
    variance: f64,
}

impl MeasuredValues {
    pub(super) fn add(&mut self, value: f64) {
        let is_first = self.windows == 0;
        self.windows += 1;
        let weight = 1.0 / self.windows.min(MEMORY) as f64;
        let off = value - self.mean;
        self.mean += weight * off;
        self.variance = (1.0 - weight) * (self.variance + weight * off * off);
        self.least = if is_first { value } else { self.least.min(value) };
        self.greatest = if is_first { value } else { self.greatest.max(value) };
    }

    pub(super) fn is_sound(&self) -> bool {
        let numbers = [self.mean, self.least, self.greatest, self.variance];
        self.windows <= COUNT_MAX && numbers.iter().all(|number| number.is_finite())
    }

    /// The same of the reciprocal values, whose deviation is the same part of the mean: what a latency is as a rate.
    fn reciprocal(&self) -> Self {
        Self {
            windows: self.windows,
            mean: self.mean.recip(),
            least: self.greatest.recip(),
            greatest: self.least.recip(),
            variance: self.variance / self.mean.powi(4),
        }
    }

    /// The degrees of freedom of the variance.
    const fn freedom(&self) -> u64 {
        self.windows.saturating_sub(1)
    }

    /// The variance of single windows; of one window that of another scheduler's, relative to the mean.
    fn spread(&self, other: &Self) -> f64 {
        let of = |tally: &Self| tally.variance * tally.windows as f64 / tally.freedom() as f64;
        match (self.freedom(), other.freedom()) {
            (0, 0) => 0.0,
            (0, _) if other.mean == 0.0 => 0.0,
            (0, _) => of(other) * (self.mean / other.mean).powi(2),
            _ => of(self),
        }
    }
}

/// The part of the difference by which `to` is ahead of `from` beyond chance, as a part of the greater mean; 0 if there is none. Values of which less
/// is better are compared by their reciprocals, so that a tenth of the latency counts as ten times the rate.
pub(super) fn surely_ahead(to: &MeasuredValues, from: &MeasuredValues, better: Better) -> f64 {
    match better {
        Better::Lower if to.mean > 0.0 && from.mean > 0.0 => {
            ahead_beyond_chance(&to.reciprocal(), &from.reciprocal(), Better::Higher)
        }
        _ => ahead_beyond_chance(to, from, better),
    }
}

/// The part of the difference by which `to` exceeds `from` beyond chance, as a part of the greater mean; 0 if there is none. Below [`PLAIN`] that is
/// the part beyond the spread of single windows; above it, beyond the uncertainty of the two means. Of one window each, only a plain gain counts,
/// and so does one by which each window of `to` is ahead of each of `from`.
fn ahead_beyond_chance(to: &MeasuredValues, from: &MeasuredValues, better: Better) -> f64 {
    let ahead = better.oriented(to.mean - from.mean);
    let greater = to.mean.abs().max(from.mean.abs());
    if to.windows == 0 || from.windows == 0 || greater == 0.0 || ahead <= 0.0 {
        return 0.0;
    }
    let (worst, best) = match better {
        Better::Higher => (to.least, from.greatest),
        Better::Lower => (to.greatest, from.least),
    };
    let apart = better.oriented(worst - best);
    let surely_apart = if apart >= PLAIN * best.abs() { apart } else { 0.0 };
    let is_plain = ahead >= PLAIN * from.mean.abs();
    let freedom = to.freedom() + from.freedom();
    let off = match freedom {
        0 if is_plain => 0.0,
        0 => return 0.0,
        _ => {
            let (to_spread, from_spread) = (to.spread(from), from.spread(to));
            let variance = match is_plain {
                true => to_spread / to.windows as f64 + from_spread / from.windows as f64,
                false => f64::midpoint(to_spread, from_spread),
            };
            let sure = STUDENT.get(freedom as usize - 1).copied().unwrap_or(STUDENT_MANY);
            sure * variance.sqrt()
        }
    };
    ((ahead - off).max(surely_apart) / greater).max(0.0)
}

/// Whether the load neither began, ended nor changed within a window.
pub(crate) fn is_whole(window: &Window) -> bool {
    let (Some(first), Some(last)) = (window.accesses.first(), window.accesses.last()) else { return false };
    // Without times nothing is known.
    if first.time == last.time {
        return true;
    }
    let end = window.start + window.length;
    let pauses = window.accesses.windows(2).map(|pair| pair[1].time.since(pair[0].time).as_nanos());
    let longest = pauses.max().unwrap_or(0);
    let quiet = first.time.since(window.start).as_nanos().max(end.since(last.time).as_nanos());
    let limit = (window.length.as_nanos() as f64 * QUIET) as u64;
    if quiet > limit && quiet > TIMES * longest {
        return false;
    }
    let middle = window.start + window.length / 2;
    let (one, other) = window.accesses.split_at(window.accesses.partition_point(|at| at.time < middle));
    let shape = |half: &[_]| Shape::of(&Window { accesses: half.to_vec(), ..*window });
    one.len().min(other.len()) < HALF || are_alike(&shape(one), &shape(other))
}

#[cfg(test)]
mod tests {
    use elevator::{Op, Sector, Sectors, Span, Time};
    use observation::Access;

    use super::*;

    fn tally(values: &[f64]) -> MeasuredValues {
        let mut tally = MeasuredValues::default();
        values.iter().for_each(|&value| tally.add(value));
        tally
    }

    fn ahead(to: &[f64], from: &[f64]) -> f64 {
        surely_ahead(&tally(to), &tally(from), Better::Higher)
    }

    #[test]
    fn a_tally_has_the_measured_mean_and_range() {
        let of = tally(&[394.0, 440.0, 473.0]);
        assert_eq!((of.windows, of.least, of.greatest), (3, 394.0, 473.0));
        assert!((of.mean - 435.67).abs() < 0.01);
    }

    /// A measured run: kB/s of four schedulers that are equal on a disk, by the kernel's counters.
    #[test]
    fn a_gain_within_the_spread_of_single_windows_is_chance() {
        let none = [389.0, 427.0, 465.0];
        assert_eq!(ahead(&[447.0, 487.0, 473.0], &none), 0.0, "+9%");
        assert_eq!(ahead(&[394.0, 440.0, 473.0], &none), 0.0);
        let many: Vec<f64> = [389.0, 487.0].repeat(100);
        let more: Vec<f64> = many.iter().map(|value| value * 1.09).collect();
        assert_eq!(ahead(&more, &many), 0.0, "many windows do not make a small gain worth a change");
        let steady = [100.0, 101.0, 99.0, 100.0];
        assert!((0.02..0.05).contains(&ahead(&[106.0, 105.0, 107.0, 106.0], &steady)));
    }

    /// A measured run, in which `none` was measured once.
    #[test]
    fn a_great_gain_counts_although_windows_differ() {
        let bfq = [351.0, 6912.0, 6460.0, 540.0, 468.0, 9168.0, 8681.0, 6208.0, 424.0, 416.0];
        assert!((0.1..0.5).contains(&ahead(&bfq, &[379.0])), "{}", ahead(&bfq, &[379.0]));
        assert_eq!(ahead(&bfq[..3], &[379.0]), 0.0, "three of which one is slow");
        assert_eq!(ahead(&[379.0], &bfq), 0.0);
    }

    /// A measured run: milliseconds. The gain of a latency is never 100%, and the spread of single windows of the slow scheduler is unknown.
    #[test]
    fn a_small_part_of_a_latency_counts_as_many_times_the_rate() {
        let lower = |to: &[f64], from: &[f64]| surely_ahead(&tally(to), &tally(from), Better::Lower);
        let bfq = [1.23, 1.5, 2.22];
        assert!((0.1..0.96).contains(&lower(&bfq, &[36.5])), "{}", lower(&bfq, &[36.5]));
        assert!(
            lower(&[0.361, 3.4], &[83.3]) > 0.5,
            "one has a tenth of the other, and both a small part of none's"
        );
        assert_eq!(lower(&[0.361, 70.0], &[83.3]), 0.0);
        assert_eq!(lower(&[36.5], &bfq), 0.0);
        assert_eq!(lower(&[447.0, 487.0, 473.0], &[389.0, 427.0, 465.0]), 0.0);
        assert_eq!(lower(&[389.0, 427.0, 465.0], &[447.0, 487.0, 473.0]), 0.0, "-9%");
        let rates: Vec<f64> = bfq.iter().map(|value| 1.0 / value).collect();
        let (as_rates, as_latencies) = (ahead(&rates, &[1.0 / 36.5]), lower(&bfq, &[36.5]));
        assert!((as_rates - as_latencies).abs() < 0.15, "{as_rates} {as_latencies}");
    }

    #[test]
    fn of_one_window_each_only_twice_the_value_counts() {
        assert_eq!([ahead(&[19.0], &[10.0]), ahead(&[10.0], &[19.0]), ahead(&[], &[10.0])], [0.0; 3]);
        assert_eq!(ahead(&[20.0], &[10.0]), 0.5);
        let latency = surely_ahead(&tally(&[5.0; 3]), &tally(&[10.0; 3]), Better::Lower);
        assert_eq!(latency, 0.5);
    }

    fn window(times: impl Iterator<Item = u64>, op: impl Fn(u64) -> Op) -> Window {
        let access = |ms: u64| Access {
            time: Time::ZERO + Span::from_millis(ms),
            position: Sector(ms * 8),
            op: op(ms),
            size: Sectors(8),
        };
        Window { start: Time::ZERO, length: Span::from_secs(5), accesses: times.map(access).collect() }
    }

    #[test]
    fn a_window_in_which_the_load_begins_ends_or_changes_is_not_whole() {
        let reads = |_| Op::Read;
        assert!(is_whole(&window((0..500).map(|n| n * 10), reads)));
        assert!(!is_whole(&window((0..300).map(|n| n * 10), reads)), "ended");
        assert!(!is_whole(&window((200..500).map(|n| n * 10), reads)), "began");
        assert!(is_whole(&window((0..3).map(|n| 200 + n * 2000), reads)), "a request every two seconds");
        let bursts = (0..500).filter(|n| n % 100 < 20).map(|n| n * 10);
        assert!(is_whole(&window(bursts, reads)), "pauses of 0.8 s, also at the end");
        let changed = |ms| if ms < 2500 { Op::Read } else { Op::Write };
        assert!(!is_whole(&window((0..500).map(|n| n * 10), changed)));
        let mixed = |ms| if ms % 20 == 0 { Op::Read } else { Op::Write };
        assert!(is_whole(&window((0..500).map(|n| n * 10), mixed)));
        assert!(is_whole(&window([0; 5].into_iter(), reads)), "without times");
        assert!(!is_whole(&window([].into_iter(), reads)));
    }
}
