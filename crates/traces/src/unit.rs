//! What a unit of time is, and how that is known. Never decided in silence.

use serde::Serialize;

use crate::options::TimeUnit;

/// How the unit of time stamps is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UnitSource {
    /// The user said so.
    Forced,
    /// The publisher of the format says so, and nothing in the file speaks against it.
    Published,
    /// The published unit cannot be: the size of the stamps, or how many requests share one, speaks for this one.
    Judged,
}

/// Requests in a second that no published recording of one machine reaches.
pub(crate) const RATE_MAX: u64 = 5_000_000;

/// Stamps needed before their density means anything.
const SAMPLE_MIN: usize = 1_000;

/// The unit in which `stamp` is a time since 1970 between 1973 and 2128; nothing if it is in none.
///
/// The ranges do not meet: a stamp in one unit is a thousand times one in the next.
pub(crate) fn by_epoch(stamp: u64) -> Option<TimeUnit> {
    match stamp {
        100_000_000..5_000_000_000 => Some(TimeUnit::Seconds),
        100_000_000_000..5_000_000_000_000 => Some(TimeUnit::Milliseconds),
        100_000_000_000_000..5_000_000_000_000_000 => Some(TimeUnit::Microseconds),
        100_000_000_000_000_000..5_000_000_000_000_000_000 => Some(TimeUnit::Nanoseconds),
        _ => None,
    }
}

/// Whether stamps in `unit` would mean more requests a second than any machine makes.
pub(crate) fn too_dense(stamps: &[u64], unit: TimeUnit) -> bool {
    let (Some(&first), Some(&last)) = (stamps.first(), stamps.last()) else { return false };
    let span = u128::from(last.saturating_sub(first).max(1)) * u128::from(unit.nanos());
    stamps.len() >= SAMPLE_MIN && stamps.len() as u128 * 1_000_000_000 > span * u128::from(RATE_MAX)
}

/// The whole numbers in one column of the first lines of comma-separated values.
pub(crate) fn column(text: &[u8], index: usize) -> Vec<u64> {
    let cells = text.split(|&byte| byte == b'\n').map(|line| line.split(|&byte| byte == b',').nth(index));
    let numbers = cells.map(|cell| std::str::from_utf8(cell?).ok()?.trim().parse().ok());
    // The last line of what was peeked at is likely to be cut.
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
