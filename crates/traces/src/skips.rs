//! Anomalies of a recording, counted by reason.

use std::fmt;

use serde::Serialize;

use crate::error::Position;

/// Why a line or record was left out or corrected, or lacks something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Oddity {
    /// It is malformed.
    Malformed,
    /// The recording ends inside it.
    CutShort,
    /// It follows the end of the compressed stream.
    Trailing,
    /// Its length is zero.
    ZeroLength,
    /// It lies beyond the specified capacity, or beyond 2^64 bytes.
    BeyondCapacity,
    /// Its time is more than a second before that of the previous request.
    ClockJump,
    /// Its time is up to a second before that of the previous request.
    ClockBackwards,
    /// It is not a whole number of sectors.
    Unaligned,
    /// It is a flush with an offset, a length or the preflush flag. A flush has none of them: it is one of the whole device.
    FlushExtent,
    /// It is not a read, write, discard or flush.
    OtherCommand,
    /// The recorder lost events.
    EventsLost,
    /// It has no recorded completion.
    NoCompletion,
    /// A completion without a recorded start.
    StrayCompletion,
    /// Its completion is before its start.
    CompletedEarly,
    /// A process name that is too long or one too many.
    NameDropped,
}

impl Oddity {
    /// All reasons, in order of gravity.
    pub const ALL: &'static [Self] = &[
        Self::Malformed,
        Self::CutShort,
        Self::Trailing,
        Self::ZeroLength,
        Self::BeyondCapacity,
        Self::ClockJump,
        Self::ClockBackwards,
        Self::Unaligned,
        Self::FlushExtent,
        Self::OtherCommand,
        Self::EventsLost,
        Self::NoCompletion,
        Self::StrayCompletion,
        Self::CompletedEarly,
        Self::NameDropped,
    ];

    /// The reason and its consequence, for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed, left out",
            Self::CutShort => "truncated, left out",
            Self::Trailing => "trailing part after the compressed stream, left out",
            Self::ZeroLength => "of zero length, left out",
            Self::BeyondCapacity => "beyond the end of the device, left out",
            Self::ClockJump => "far back in time, left out",
            Self::ClockBackwards => "back in time by a second at most, set to the time before it",
            Self::Unaligned => "not whole sectors, rounded outwards where sectors are needed",
            Self::FlushExtent => "flushes with offset, length or preflush flag, read without them",
            Self::OtherCommand => "neither read, write, discard nor flush, left out",
            Self::EventsLost => "events lost by the recorder",
            Self::NoCompletion => "without a recorded completion, kept",
            Self::StrayCompletion => "completions without a recorded start, ignored",
            Self::CompletedEarly => "completed before they started, completion dropped",
            Self::NameDropped => "process names too many or too long, dropped",
        }
    }

    /// Whether the line or record is left out because of it.
    #[must_use]
    pub const fn is_omission(self) -> bool {
        matches!(
            self,
            Self::Malformed
                | Self::CutShort
                | Self::Trailing
                | Self::ZeroLength
                | Self::BeyondCapacity
                | Self::ClockJump
                | Self::OtherCommand
        )
    }

    /// Whether the recording is incomplete or wrong because of it; [`Options::strict`](crate::Options::strict) makes it an error.
    /// Missing completions at the ends of a recording and sizes that need rounding are normal.
    #[must_use]
    pub const fn is_fault(self) -> bool {
        !matches!(
            self,
            Self::Unaligned
                | Self::FlushExtent
                | Self::OtherCommand
                | Self::NoCompletion
                | Self::StrayCompletion
                | Self::NameDropped
        )
    }
}

/// Number of occurrences and position of the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Tally {
    /// Number of occurrences.
    pub count: u64,
    /// Position of the first.
    pub first: Option<Position>,
}

/// The tallies of all reasons.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Skips {
    tallies: [Tally; Oddity::ALL.len()],
}

impl Skips {
    /// The tally of a reason.
    #[must_use]
    pub fn get(&self, oddity: Oddity) -> Tally {
        self.tallies[oddity as usize]
    }

    /// The reasons that occurred, in order of gravity.
    pub fn iter(&self) -> impl Iterator<Item = (Oddity, Tally)> + '_ {
        Oddity::ALL.iter().map(|&oddity| (oddity, self.get(oddity))).filter(|(_, tally)| tally.count > 0)
    }

    /// The same for people: `17 malformed, left out (first: line 4)`.
    pub fn lines(&self) -> impl Iterator<Item = (Oddity, String)> + '_ {
        self.iter().map(|(oddity, tally)| {
            if let (Oddity::CutShort, Some(place)) = (oddity, tally.first) {
                return (
                    oddity,
                    format!("the file ends within {place}; that and what followed it is missing"),
                );
            }
            let first = tally.first.map(|place| format!(" (first: {place})")).unwrap_or_default();
            (oddity, format!("{} {}{first}", tally.count, oddity.as_str()))
        })
    }

    /// Whether no anomaly occurred.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    pub(crate) fn add(&mut self, oddity: Oddity, count: u64, place: Position) {
        let tally = &mut self.tallies[oddity as usize];
        tally.count = tally.count.saturating_add(count);
        tally.first.get_or_insert(place);
    }
}

/// One line per reason, as [`Skips::lines`].
impl fmt::Display for Skips {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (_, line)) in self.lines().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&line)?;
        }
        Ok(())
    }
}

/// A list of `{ what, count, first }`.
impl Serialize for Skips {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row {
            what: &'static str,
            count: u64,
            first: Option<String>,
        }
        serializer.collect_seq(self.iter().map(|(oddity, tally)| Row {
            what: oddity.as_str(),
            count: tally.count,
            first: tally.first.map(|place| place.to_string()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_keeps_the_count_and_the_first_place() {
        let mut skips = Skips::default();
        assert!(skips.is_empty());
        skips.add(Oddity::ZeroLength, 1, Position::Line(7));
        skips.add(Oddity::ZeroLength, 1, Position::Line(9));
        assert_eq!(skips.to_string(), "2 of zero length, left out (first: line 7)");
    }

    #[test]
    fn every_oddity_has_its_own_index() {
        for (index, &oddity) in Oddity::ALL.iter().enumerate() {
            assert_eq!(oddity as usize, index);
        }
    }
}
