//! A drive that takes one command at a time behind a queue of several tags, the others of which are kept busy by commands behind its
//! end. That is how a duel makes such a drive (`duel/src/parking.rs`), and it shows: to `bfq` those who are parked are a second class
//! with requests under way, so that it idles for the others where it would not.

use std::collections::VecDeque;

use ::duel::PARKED;
use disks::{Command, Completion, Drive, Ideal, Service, Tag, Travel};
use elevator::{Outcome, Positioning, Sector, Sectors, Time};

/// Commands that come to be parked: the first is answered when the last has come, as in the duel, where that is to free the first tag.
pub(crate) const COMING: u32 = 1 + PARKED;

/// Sectors from one to the next, of which it reads the first half: they must not merge.
pub(crate) const SPACE: u32 = 16;

/// The drive with its parking area.
pub(crate) struct Parking {
    drive: Box<dyn Drive + Send>,
    /// The queue's tag of the command that the drive has.
    under_way: Tag,
    parked: VecDeque<Tag>,
    out: Option<Completion>,
}

impl Parking {
    pub(crate) fn new(drive: Box<dyn Drive + Send>) -> Self {
        Self { drive, under_way: Tag(0), parked: VecDeque::new(), out: None }
    }
}

impl Drive for Parking {
    fn capacity(&self) -> Sector {
        self.drive.capacity() + Sectors(COMING * SPACE)
    }

    fn depth(&self) -> u32 {
        1 + PARKED
    }

    fn submit(&mut self, now: Time, command: Command) {
        if command.start < self.drive.capacity() {
            self.under_way = command.tag;
            self.drive.submit(now, Command { tag: Tag(0), ..command });
            return;
        }
        self.parked.push_back(command.tag);
        if self.parked.len() > PARKED as usize {
            let first = self.parked.pop_front();
            self.out = first.map(|tag| Completion {
                tag,
                at: now,
                outcome: Outcome::Done,
                service: Service::default(),
            });
        }
    }

    /// Who is parked is answered when everything else is over.
    fn next_event(&self) -> Option<Time> {
        let out = self.out.as_ref().map(|out| out.at);
        out.or_else(|| self.drive.next_event()).or((!self.parked.is_empty()).then_some(Time::MAX))
    }

    fn poll(&mut self, now: Time) -> Option<Completion> {
        self.out.take().or_else(|| {
            let completion = self.drive.poll(now)?;
            Some(Completion { tag: self.under_way, ..completion })
        })
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
    use disks::Fixed;
    use elevator::{Op, Sectors, Span};

    use super::*;

    #[test]
    fn the_drive_has_one_command_and_its_answer_has_the_tag_that_was_asked_for() {
        let mut parking = Parking::new(Box::new(Fixed::new(1 << 20, 1, Span::from_micros(100))));
        let end = 1 << 11;
        let command = |tag, start| Command {
            tag: Tag(tag),
            op: Op::Read,
            start: Sector(start),
            sectors: Sectors(8),
            fua: false,
        };
        for tag in 0..COMING {
            assert_eq!(parking.poll(Time::ZERO), None);
            parking.submit(Time::ZERO, command(tag, end + u64::from(tag * SPACE)));
        }
        assert_eq!(parking.poll(Time::ZERO).map(|first| first.tag), Some(Tag(0)));
        assert_eq!((parking.next_event(), parking.poll(Time::ZERO)), (Some(Time::MAX), None));
        parking.submit(Time::ZERO, command(0, 0));
        let at = parking.next_event().unwrap();
        assert_eq!((at, parking.poll(at).map(|done| done.tag)), (Time::from_nanos(100_000), Some(Tag(0))));
    }
}
