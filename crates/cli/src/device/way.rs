//! A drive at the end of a way: through loop devices, FUSE and a server, which a modelled queue knows nothing of.

use disks::{Command, Completion, Drive, Ideal, Travel};
use elevator::Random;
use elevator::{Positioning, Sector, Sectors, Span, Time};

/// What the way takes after about such a wait: times that are each as likely as any other. Whoever waited long wakes slowly.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    pub(crate) waited: Span,
    pub(crate) times: Vec<Span>,
    /// The same for a command that waited until the drive had answered the one before; none if it is no other way.
    pub(crate) turns: Vec<Span>,
}

impl Times {
    /// Those after the wait that is nearest in proportion; nothing if none were measured.
    fn after(all: &[Self], waited: Span) -> Option<&Self> {
        let proportion = |of: &&Self| {
            let (a, b) = (of.waited.as_nanos().max(1), waited.as_nanos().max(1));
            a.max(b) * 1000 / a.min(b)
        };
        all.iter().min_by_key(proportion)
    }

    /// One of those after the wait that is nearest in proportion; nothing if none were measured.
    pub(crate) fn draw(all: &[Self], waited: Span, random: &mut Random) -> Option<Span> {
        one_of(&Self::after(all, waited)?.times, random)
    }

    /// The same for a command that had to wait for the drive.
    fn draw_turn(all: &[Self], waited: Span, random: &mut Random) -> Option<Span> {
        let after = Self::after(all, waited)?;
        one_of(if after.turns.is_empty() { &after.times } else { &after.turns }, random)
    }
}

fn one_of(times: &[Span], random: &mut Random) -> Option<Span> {
    if times.is_empty() { None } else { times.get(random.below(times.len() as u64) as usize).copied() }
}

/// What requests of about a size take on the way there and back.
#[derive(Clone, Debug)]
pub(crate) struct Leg {
    pub(crate) sectors: Sectors,
    pub(crate) times: Vec<Times>,
}

impl Leg {
    /// The times of the leg whose requests are nearest in length; none if there is no leg.
    pub(crate) fn of(legs: &[Self], sectors: Sectors) -> &[Times] {
        let nearest = legs.iter().min_by_key(|leg| leg.sectors.0.abs_diff(sectors.0));
        nearest.map_or(&[], |leg| &leg.times)
    }
}

/// A drive whose answers come later than it gives them; meanwhile it goes on.
pub(crate) struct Distant {
    drive: Box<dyn Drive + Send>,
    legs: Vec<Leg>,
    random: Random,
    /// The command of each tag.
    commands: Vec<Submitted>,
    /// Answers on their way, and when they arrive.
    returning: Vec<(Time, Completion)>,
    /// When the last answer arrived.
    arrived: Option<Time>,
}

/// What has to be known of a command.
#[derive(Clone, Copy, Default)]
struct Submitted {
    at: Time,
    sectors: Sectors,
    /// In the moment of an answer: it had been waiting for it.
    waited: bool,
}

impl Distant {
    pub(crate) fn new(drive: Box<dyn Drive + Send>, legs: Vec<Leg>) -> Self {
        let commands = vec![Submitted::default(); drive.depth() as usize];
        Self { drive, legs, random: Random::new(1), commands, returning: Vec::new(), arrived: None }
    }

    fn way(&mut self, completion: &Completion) -> Span {
        let Submitted { at, sectors, waited } = self.commands[completion.tag.0 as usize];
        let (times, took) = (Leg::of(&self.legs, sectors), completion.at.since(at));
        // Who comes after one that had to wait will have had to wait as well.
        let draw = if waited { Times::draw_turn } else { Times::draw };
        draw(times, took, &mut self.random).unwrap_or(Span::ZERO)
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
        let waited = self.arrived == Some(now);
        self.commands[command.tag.0 as usize] = Submitted { at: now, sectors: command.sectors, waited };
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
        self.arrived = Some(at);
        Some(Completion { at, ..completion })
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
    use disks::{Fixed, Tag};
    use elevator::Op;

    use super::*;

    #[test]
    fn an_answer_takes_its_way_while_the_drive_goes_on() {
        let fixed = Box::new(Fixed::new(1 << 30, 4, Span::from_micros(100)));
        let us = Span::from_micros;
        let after = |waited, way| Times { waited: us(waited), times: vec![us(way)], turns: Vec::new() };
        let leg =
            |sectors, way| Leg { sectors: Sectors(sectors), times: vec![after(100, way), after(8000, 9)] };
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

    #[test]
    fn a_command_that_had_to_wait_goes_another_way() {
        let us = Span::from_micros;
        let times = Times { waited: us(100), times: vec![us(10)], turns: vec![us(90)] };
        let leg = Leg { sectors: Sectors(8), times: vec![times] };
        let mut drive = Distant::new(Box::new(Fixed::new(1 << 30, 1, us(100))), vec![leg]);
        let mut answered = |at| {
            let (op, start, sectors) = (Op::Read, Sector(0), Sectors(8));
            drive.submit(at, Command { tag: Tag(0), op, start, sectors, fua: false });
            loop {
                let at = drive.next_event().unwrap();
                if let Some(done) = drive.poll(at) {
                    return done.at;
                }
            }
        };
        let first = answered(Time::ZERO);
        let second = answered(first);
        let third = answered(second + us(1));
        assert_eq!([first, second, third].map(|at| at.as_nanos() / 1000), [110, 300, 411]);
    }

    #[test]
    fn who_waited_long_takes_its_time() {
        let after = |waited, way| Times { waited, times: vec![Span::from_micros(way)], turns: Vec::new() };
        let all = [after(Span::from_micros(100), 30), after(Span::from_millis(8), 160)];
        let mut random = Random::new(1);
        let mut draw = |waited| Times::draw(&all, waited, &mut random).unwrap().as_nanos() / 1000;
        assert_eq!([draw(Span::ZERO), draw(Span::from_micros(800))], [30, 30]);
        assert_eq!([draw(Span::from_millis(1)), draw(Span::from_secs(1))], [160, 160]);
        assert_eq!(Times::draw(&[], Span::ZERO, &mut random), None);
    }
}
