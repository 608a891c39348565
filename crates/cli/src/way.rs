//! A drive at the end of a way: through loop devices, FUSE and a server, which a modelled queue knows nothing of.

use disks::{Command, Completion, Drive, Ideal};
use elevator::model::Random;
use elevator::{Positioning, Sector, Sectors, Span, Time};

/// What requests of about a size take on the way there and back: times that are each as likely as any other.
#[derive(Clone, Debug)]
pub(crate) struct Leg {
    pub(crate) sectors: Sectors,
    pub(crate) times: Vec<Span>,
}

/// A drive whose answers come later than it gives them; meanwhile it goes on.
pub(crate) struct Distant {
    drive: Box<dyn Drive + Send>,
    legs: Vec<Leg>,
    random: Random,
    /// Length of the command of each tag.
    lengths: Vec<Sectors>,
    /// Answers on their way, and when they arrive.
    returning: Vec<(Time, Completion)>,
}

impl Distant {
    pub(crate) fn new(drive: Box<dyn Drive + Send>, legs: Vec<Leg>) -> Self {
        let lengths = vec![Sectors(0); drive.depth() as usize];
        Self { drive, legs, random: Random::new(1), lengths, returning: Vec::new() }
    }

    fn way(&mut self, completion: &Completion) -> Span {
        let length = self.lengths[completion.tag.0 as usize];
        let nearest = self.legs.iter().min_by_key(|leg| leg.sectors.0.abs_diff(length.0));
        match nearest.map(|leg| leg.times.as_slice()) {
            None | Some([]) => Span::ZERO,
            Some(times) => times[self.random.below(times.len() as u64) as usize],
        }
    }
}

impl Drive for Distant {
    fn capacity(&self) -> Sector {
        self.drive.capacity()
    }

    fn depth(&self) -> u32 {
        self.drive.depth()
    }

    fn submit(&mut self, now: Time, command: Command) {
        self.lengths[command.tag.0 as usize] = command.sectors;
        self.drive.submit(now, command);
    }

    fn next_event(&self) -> Option<Time> {
        let arrives = self.returning.iter().map(|&(at, _)| at);
        arrives.chain(self.drive.next_event()).min()
    }

    fn poll(&mut self, now: Time) -> Option<Completion> {
        while let Some(completion) = self.drive.poll(now) {
            let at = completion.at + self.way(&completion);
            self.returning.push((at, completion));
        }
        let arrived = self.returning.iter().enumerate().filter(|(_, (at, _))| *at <= now);
        let (first, _) = arrived.min_by_key(|(_, (at, _))| *at)?;
        let (at, completion) = self.returning.remove(first);
        Some(Completion { at, ..completion })
    }

    fn positioning(&self) -> Option<&dyn Positioning> {
        self.drive.positioning()
    }

    fn ideal(&self) -> Option<&dyn Ideal> {
        self.drive.ideal()
    }
}

#[cfg(test)]
mod tests {
    use disks::{Fixed, Tag};
    use elevator::Op;

    use super::*;

    #[test]
    fn an_answer_takes_its_way_while_the_drive_goes_on() {
        let fixed = Box::new(Fixed::new(1 << 30, 4, Span::from_micros(100)));
        let leg = |sectors, us| Leg { sectors: Sectors(sectors), times: vec![Span::from_micros(us)] };
        let mut drive = Distant::new(fixed, vec![leg(8, 70), leg(256, 300)]);
        for (tag, sectors) in [(0, 256), (1, 8)] {
            let (op, start, sectors) = (Op::Read, Sector(0), Sectors(sectors));
            drive.submit(Time::ZERO, Command { tag: Tag(tag), op, start, sectors, fua: false });
        }
        let mut arrived = Vec::new();
        while let Some(at) = drive.next_event() {
            arrived.extend(drive.poll(at).map(|done| (done.tag.0, done.at.as_nanos() / 1000)));
        }
        assert_eq!(arrived, [(1, 270), (0, 400)], "the large one was done first and had farther to go");
    }
}
