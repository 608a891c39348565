//! The model of a drive that takes one command at a time behind a loop device, whose queue has at least four tags. The duel keeps the
//! other tags busy with reads behind the drive's end (`parking`), and so does the model: `bfq` counts the parked readers as a second
//! class with requests in flight and idles where it otherwise would not.

use std::collections::VecDeque;

use crate::duel::PARKED;
use disks::{Command, Completion, Drive, Ideal, Service, Tag, Travel};
use elevator::{Outcome, Positioning, Sector, Sectors, Time};

/// Reads that are sent to be parked. The first completes when the last arrives, which frees the first tag, as in the duel.
pub(crate) const COMING: u32 = 1 + PARKED;

/// Sectors between the starts of parked reads. Each read covers the first half, so that neighbours do not merge.
pub(crate) const SPACE: u32 = 16;

/// The drive with a parking area behind its end.
pub(crate) struct ParkedTags {
    drive: Box<dyn Drive + Send>,
    /// The tag of the command in the drive.
    in_flight: Tag,
    parked: VecDeque<Tag>,
    out: Option<Completion>,
}

impl ParkedTags {
    pub(crate) fn new(drive: Box<dyn Drive + Send>) -> Self {
        Self { drive, in_flight: Tag(0), parked: VecDeque::new(), out: None }
    }
}

impl Drive for ParkedTags {
    fn capacity(&self) -> Sector {
        self.drive.capacity() + Sectors(COMING * SPACE)
    }

    fn depth(&self) -> u32 {
        1 + PARKED
    }

    fn submit(&mut self, now: Time, command: Command) {
        if command.start < self.drive.capacity() {
            self.in_flight = command.tag;
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

    /// Parked reads complete at the end of time, after everything else.
    fn next_event(&self) -> Option<Time> {
        let out = self.out.as_ref().map(|out| out.at);
        out.or_else(|| self.drive.next_event()).or((!self.parked.is_empty()).then_some(Time::MAX))
    }

    fn poll(&mut self, now: Time) -> Option<Completion> {
        self.out.take().or_else(|| {
            let completion = self.drive.poll(now)?;
            Some(Completion { tag: self.in_flight, ..completion })
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
    fn the_drive_gets_one_command_and_completes_it_under_the_queues_tag() {
        let mut parking = ParkedTags::new(Box::new(Fixed::new(1 << 20, 1, Span::from_micros(100))));
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
