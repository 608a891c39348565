//! The first sectors of a drive as a drive.

use elevator::{Op, Sector, Time};

use crate::drive::delegate;
use crate::{Command, Drive};

/// A drive of which only the first sectors are accessible.
pub struct Truncated {
    drive: Box<dyn Drive + Send>,
    capacity: Sector,
}

impl Truncated {
    /// The first `capacity` sectors of `drive`; all of it if it has no more.
    #[must_use]
    pub fn new(drive: Box<dyn Drive + Send>, capacity: Sector) -> Self {
        let capacity = capacity.min(drive.capacity());
        Self { drive, capacity }
    }
}

impl Drive for Truncated {
    delegate!(depth, next_event, earliest_completion, poll, positioning, ideal, travel);

    fn capacity(&self) -> Sector {
        self.capacity
    }

    fn submit(&mut self, now: Time, command: Command) {
        let end = command.start.0.checked_add(command.sectors.0.into());
        let there = command.op == Op::Flush || end.is_some_and(|end| end <= self.capacity.0);
        // A command beyond the accessible sectors is sent beyond the drive's end, where it fails.
        let start = if there { command.start } else { self.drive.capacity() };
        self.drive.submit(now, Command { start, ..command });
    }
}

#[cfg(test)]
mod tests {
    use elevator::{Outcome, Sectors, Span};

    use super::*;
    use crate::{Fixed, Tag};

    #[test]
    fn commands_beyond_the_accessible_part_fail() {
        let mut truncated =
            Truncated::new(Box::new(Fixed::new(100 * 512, 8, Span::from_micros(1))), Sector(50));
        let flush = (Op::Flush, 50, 0, Outcome::Done);
        let cases = [(Op::Read, 49, 1, Outcome::Done), (Op::Write, 49, 2, Outcome::Failed), flush];
        for (op, start, sectors, outcome) in cases {
            let (start, sectors) = (Sector(start), Sectors(sectors));
            truncated.submit(Time::ZERO, Command { tag: Tag(0), op, start, sectors, fua: false });
            let at = truncated.next_event().unwrap();
            assert_eq!(truncated.poll(at).map(|done| done.outcome), Some(outcome), "{op:?}");
        }
    }
}
