//! The beginning of a drive, as a drive of its own.

use elevator::{Op, Positioning, Sector, Time};

use crate::{Command, Completion, Drive, Ideal, Travel};

/// A drive of which only the first sectors are used. Everything else about it is the drive's own.
pub struct Part {
    drive: Box<dyn Drive + Send>,
    capacity: Sector,
}

impl Part {
    /// The first `capacity` sectors of `drive`; all of it if it has no more.
    #[must_use]
    pub fn new(drive: Box<dyn Drive + Send>, capacity: Sector) -> Self {
        let capacity = capacity.min(drive.capacity());
        Self { drive, capacity }
    }
}

impl Drive for Part {
    fn capacity(&self) -> Sector {
        self.capacity
    }

    fn depth(&self) -> u32 {
        self.drive.depth()
    }

    fn submit(&mut self, now: Time, command: Command) {
        let end = command.start.0.checked_add(command.sectors.0.into());
        let there = command.op == Op::Flush || end.is_some_and(|end| end <= self.capacity.0);
        // What lies beyond the part lies beyond the drive, which refuses it.
        let start = if there { command.start } else { self.drive.capacity() };
        self.drive.submit(now, Command { start, ..command });
    }

    fn next_event(&self) -> Option<Time> {
        self.drive.next_event()
    }

    fn answers_after(&self) -> Option<Time> {
        self.drive.answers_after()
    }

    fn poll(&mut self, now: Time) -> Option<Completion> {
        self.drive.poll(now)
    }

    fn positioning(&self) -> Option<&dyn Positioning> {
        self.drive.positioning()
    }

    fn ideal(&self) -> Option<&dyn Ideal> {
        self.drive.ideal()
    }

    fn travel(&self) -> Travel {
        self.drive.travel()
    }
}

#[cfg(test)]
mod tests {
    use elevator::{Outcome, Sectors, Span};

    use super::*;
    use crate::{Fixed, Tag};

    #[test]
    fn what_lies_beyond_the_part_fails() {
        let mut part = Part::new(Box::new(Fixed::new(100 * 512, 8, Span::from_micros(1))), Sector(50));
        let flush = (Op::Flush, 50, 0, Outcome::Done);
        let cases = [(Op::Read, 49, 1, Outcome::Done), (Op::Write, 49, 2, Outcome::Failed), flush];
        for (op, start, sectors, outcome) in cases {
            let (start, sectors) = (Sector(start), Sectors(sectors));
            part.submit(Time::ZERO, Command { tag: Tag(0), op, start, sectors, fua: false });
            let at = part.next_event().unwrap();
            assert_eq!(part.poll(at).map(|done| done.outcome), Some(outcome), "{op:?}");
        }
    }
}
