//! What was left out or mended while reading, counted by reason.

use std::fmt;

use serde::Serialize;

use crate::error::Position;

/// Why a line or record was left out, mended, or is less than it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Oddity {
    /// It cannot be understood.
    Malformed,
    /// The recording ends in the middle of it.
    CutShort,
    /// It stands behind the end of the compressed stream and is none of it.
    Trailing,
    /// It moves no data.
    ZeroLength,
    /// It lies beyond the stated capacity, or beyond what a byte offset can name.
    BeyondCapacity,
    /// It is far earlier than the one before it.
    ClockJump,
    /// It is a little earlier than the one before it.
    ClockBackwards,
    /// It is no whole number of sectors.
    Unaligned,
    /// It is neither read, write, discard nor flush.
    OtherCommand,
    /// The recorder itself lost events here.
    EventsLost,
    /// Its completion was not recorded.
    NoCompletion,
    /// A completion of which no start was recorded.
    StrayCompletion,
    /// It is recorded to have completed before it started.
    CompletedEarly,
    /// One process name too many, or an absurdly long one.
    NameDropped,
}

impl Oddity {
    /// Every one, in order of gravity.
    pub const ALL: &'static [Self] = &[
        Self::Malformed,
        Self::CutShort,
        Self::Trailing,
        Self::ZeroLength,
        Self::BeyondCapacity,
        Self::ClockJump,
        Self::ClockBackwards,
        Self::Unaligned,
        Self::OtherCommand,
        Self::EventsLost,
        Self::NoCompletion,
        Self::StrayCompletion,
        Self::CompletedEarly,
        Self::NameDropped,
    ];

    /// In words, with what was done about it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "not understood, left out",
            Self::CutShort => "cut in the middle, left out",
            Self::Trailing => "piece behind the end of the compressed stream, left out",
            Self::ZeroLength => "of zero length, left out",
            Self::BeyondCapacity => "beyond the end of the device, left out",
            Self::ClockJump => "far back in time, left out",
            Self::ClockBackwards => "back in time by a second at most, set to the time before it",
            Self::Unaligned => "not whole sectors, rounded outwards where sectors are needed",
            Self::OtherCommand => "neither read, write, discard nor flush, left out",
            Self::EventsLost => "events lost by the recorder",
            Self::NoCompletion => "without a recorded completion, kept",
            Self::StrayCompletion => "completions without a recorded start, ignored",
            Self::CompletedEarly => "completed before they started, completion dropped",
            Self::NameDropped => "process names too many or too long, dropped",
        }
    }

    /// Whether it makes the recording less than what was recorded: what [`Options::strict`](crate::Options::strict)
    /// refuses. Completions missing at the edges and sizes that need rounding are part of life.
    #[must_use]
    pub const fn is_fault(self) -> bool {
        !matches!(
            self,
            Self::Unaligned
                | Self::OtherCommand
                | Self::NoCompletion
                | Self::StrayCompletion
                | Self::NameDropped
        )
    }
}

/// How often, and where first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Tally {
    /// How often.
    pub count: u64,
    /// Where first.
    pub first: Option<Position>,
}

/// A tally for each [`Oddity`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Skips {
    tallies: [Tally; Oddity::ALL.len()],
}

impl Skips {
    /// How often `oddity` was met.
    #[must_use]
    pub fn get(&self, oddity: Oddity) -> Tally {
        self.tallies[oddity as usize]
    }

    /// Those that were met, in order of gravity.
    pub fn iter(&self) -> impl Iterator<Item = (Oddity, Tally)> + '_ {
        Oddity::ALL.iter().map(|&oddity| (oddity, self.get(oddity))).filter(|(_, tally)| tally.count > 0)
    }

    /// The same in words: `17 cut in the middle, left out (first: line 4)`.
    pub fn lines(&self) -> impl Iterator<Item = (Oddity, String)> + '_ {
        self.iter().map(|(oddity, tally)| {
            let first = tally.first.map(|place| format!(" (first: {place})")).unwrap_or_default();
            (oddity, format!("{} {}{first}", tally.count, oddity.as_str()))
        })
    }

    /// Whether nothing odd was met.
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

/// One reason a line, as [`Skips::lines`] has them.
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

/// As a list of `{ what, count, first }`.
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
