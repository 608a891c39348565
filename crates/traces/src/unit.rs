//! Plausibility of units of time.

use serde::Serialize;

use crate::options::TimeUnit;

/// How the unit of time stamps was determined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UnitSource {
    /// The caller specified it.
    Forced,
    /// The publisher of the format states it, and the time stamps do not contradict it.
    Published,
    /// The time stamps contradict the published unit: by their magnitude, or by the number of requests per unit.
    Judged,
}

/// Upper bound for plausible requests per second of one machine.
pub(crate) const RATE_MAX: u64 = 5_000_000;

/// Minimum number of time stamps to judge their density.
const SAMPLE_MIN: usize = 1_000;

/// The unit in which `stamp` is a time since 1970 between 1973 and 2128, if any.
///
/// The ranges are disjoint, because units differ by a factor of 1000.
pub(crate) fn by_epoch(stamp: u64) -> Option<TimeUnit> {
    match stamp {
        100_000_000..5_000_000_000 => Some(TimeUnit::Seconds),
        100_000_000_000..5_000_000_000_000 => Some(TimeUnit::Milliseconds),
        100_000_000_000_000..5_000_000_000_000_000 => Some(TimeUnit::Microseconds),
        100_000_000_000_000_000..5_000_000_000_000_000_000 => Some(TimeUnit::Nanoseconds),
        _ => None,
    }
}

/// Whether time stamps in `unit` mean an implausible rate.
pub(crate) fn too_dense(stamps: &[u64], unit: TimeUnit) -> bool {
    let (Some(&first), Some(&last)) = (stamps.first(), stamps.last()) else { return false };
    let span = u128::from(last.saturating_sub(first).max(1)) * u128::from(unit.nanos());
    stamps.len() >= SAMPLE_MIN && stamps.len() as u128 * 1_000_000_000 > span * u128::from(RATE_MAX)
}

/// The whole numbers in one column of the first lines of comma-separated values.
pub(crate) fn column(text: &[u8], index: usize) -> Vec<u64> {
    let cells = text.split(|&byte| byte == b'\n').map(|line| line.split(|&byte| byte == b',').nth(index));
    let numbers = cells.map(|cell| std::str::from_utf8(cell?).ok()?.trim().parse().ok());
    // The last line is usually truncated.
    let mut numbers: Vec<Option<u64>> = numbers.collect();
    numbers.pop();
    numbers.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_are_told_by_magnitude() {
        assert_eq!(by_epoch(1_577_808_000), Some(TimeUnit::Seconds));
        assert_eq!(by_epoch(1_577_808_000_000_000), Some(TimeUnit::Microseconds));
        assert_eq!(by_epoch(1_577_808_000_000_000_000), Some(TimeUnit::Nanoseconds));
        assert_eq!(by_epoch(5_633_898), None);
    }

    #[test]
    fn density_speaks_only_with_enough_stamps() {
        let stamps: Vec<u64> = (0..2_000).map(|n| n / 16).collect();
        assert!(too_dense(&stamps, TimeUnit::Microseconds));
        assert!(!too_dense(&stamps, TimeUnit::Seconds));
        assert!(!too_dense(&stamps[..10], TimeUnit::Microseconds));
    }
}
