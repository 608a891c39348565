//! The latency of the path between a program and the emulated drive: loop devices, FUSE and the server. The modelled queue has no such
//! path, so the duel measures the latency and the model adds it to each completion.

use disks::{Command, Completion, Drive, Ideal, Travel};
use elevator::Random;
use elevator::{Positioning, Sector, Sectors, Span, Time};

/// Measured latencies after a wait of about `waited`, equally likely. The wait matters because a processor that was idle for
/// longer wakes more slowly.
#[derive(Clone, Debug)]
pub struct LatencySamples {
    /// How long the drive took for the request.
    pub waited: Span,
    /// Path latencies.
    pub times: Vec<Span>,
    /// Path latencies of a command that was queued until the drive completed the previous one. Empty: the same as `times`.
    pub gaps: Vec<Span>,
}

impl LatencySamples {
    /// The samples whose wait has the ratio nearest to 1; `None` without samples.
    fn after(all: &[Self], waited: Span) -> Option<&Self> {
        let proportion = |of: &&Self| {
            let (a, b) = (of.waited.as_nanos().max(1), waited.as_nanos().max(1));
            a.max(b) * 1000 / a.min(b)
        };
        all.iter().min_by_key(proportion)
    }

    /// Draws a latency for a wait; `None` without samples.
    pub fn draw(all: &[Self], waited: Span, random: &mut Random) -> Option<Span> {
        one_of(&Self::after(all, waited)?.times, random)
    }

    /// Draws a latency for a command that was queued behind another.
    fn draw_gap(all: &[Self], waited: Span, random: &mut Random) -> Option<Span> {
        let after = Self::after(all, waited)?;
        one_of(if after.gaps.is_empty() { &after.times } else { &after.gaps }, random)
    }
}

fn one_of(times: &[Span], random: &mut Random) -> Option<Span> {
    if times.is_empty() { None } else { times.get(random.below(times.len() as u64) as usize).copied() }
}

/// Latency samples of requests of about one size.
#[derive(Clone, Debug)]
pub struct SizeClass {
    /// The size.
    pub sectors: Sectors,
    /// Samples, by wait.
    pub times: Vec<LatencySamples>,
}

impl SizeClass {
    /// The samples of the class with the nearest size; empty without classes.
    pub fn of(classes: &[Self], sectors: Sectors) -> &[LatencySamples] {
        let nearest = classes.iter().min_by_key(|class| class.sectors.0.abs_diff(sectors.0));
        nearest.map_or(&[], |class| &class.times)
    }
}

/// A drive whose completions arrive one path latency late. The drive continues with the next command in the meantime.
pub struct DelayedDrive {
    drive: Box<dyn Drive + Send>,
    classes: Vec<SizeClass>,
    random: Random,
    /// The command of each tag.
    commands: Vec<Submitted>,
    /// Completions on the path, with their arrival times.
    returning: Vec<(Time, Completion)>,
    /// Arrival of the last completion.
    arrived: Option<Time>,
}

/// A command in the drive.
#[derive(Clone, Copy, Default)]
struct Submitted {
    at: Time,
    sectors: Sectors,
    /// Submitted at the moment of a completion, so it was queued behind that command.
    waited: bool,
}

impl DelayedDrive {
    /// `drive` behind a path with these latencies.
    pub fn new(drive: Box<dyn Drive + Send>, classes: Vec<SizeClass>) -> Self {
        let commands = vec![Submitted::default(); drive.depth() as usize];
        Self { drive, classes, random: Random::new(1), commands, returning: Vec::new(), arrived: None }
    }

    fn latency(&mut self, completion: &Completion) -> Span {
        let Submitted { at, sectors, waited } = self.commands[completion.tag.0 as usize];
        let (times, took) = (SizeClass::of(&self.classes, sectors), completion.at.since(at));
        let draw = if waited { LatencySamples::draw_gap } else { LatencySamples::draw };
        draw(times, took, &mut self.random).unwrap_or(Span::ZERO)
    }
}

impl Drive for DelayedDrive {
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
            let at = completion.at + self.latency(&completion);
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
    fn the_drive_serves_the_next_command_while_a_completion_is_on_the_path() {
        let fixed = Box::new(Fixed::new(1 << 30, 4, Span::from_micros(100)));
        let us = Span::from_micros;
        let after = |waited, latency| LatencySamples {
            waited: us(waited),
            times: vec![us(latency)],
            gaps: Vec::new(),
        };
        let class = |sectors, latency| SizeClass {
            sectors: Sectors(sectors),
            times: vec![after(100, latency), after(8000, 9)],
        };
        let mut drive = DelayedDrive::new(fixed, vec![class(8, 70), class(256, 300)]);
        for (tag, sectors) in [(0, 256), (1, 8)] {
            let (op, start, sectors) = (Op::Read, Sector(0), Sectors(sectors));
            drive.submit(Time::ZERO, Command { tag: Tag(tag), op, start, sectors, fua: false });
        }
        let mut arrived = Vec::new();
        while let Some(at) = drive.next_event() {
            arrived.extend(drive.poll(at).map(|done| (done.tag.0, done.at.as_nanos() / 1000)));
        }
        assert_eq!(
            arrived,
            [(1, 270), (0, 400)],
            "the larger request completes first in the drive and arrives last"
        );
    }

    #[test]
    fn a_command_queued_behind_another_has_its_own_latency() {
        let us = Span::from_micros;
        let times = LatencySamples { waited: us(100), times: vec![us(10)], gaps: vec![us(90)] };
        let class = SizeClass { sectors: Sectors(8), times: vec![times] };
        let mut drive = DelayedDrive::new(Box::new(Fixed::new(1 << 30, 1, us(100))), vec![class]);
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
    fn latency_is_drawn_from_the_nearest_wait() {
        let after = |waited, latency| LatencySamples {
            waited,
            times: vec![Span::from_micros(latency)],
            gaps: Vec::new(),
        };
        let all = [after(Span::from_micros(100), 30), after(Span::from_millis(8), 160)];
        let mut random = Random::new(1);
        let mut draw = |waited| LatencySamples::draw(&all, waited, &mut random).unwrap().as_nanos() / 1000;
        assert_eq!([draw(Span::ZERO), draw(Span::from_micros(800))], [30, 30]);
        assert_eq!([draw(Span::from_millis(1)), draw(Span::from_secs(1))], [160, 160]);
        assert_eq!(LatencySamples::draw(&[], Span::ZERO, &mut random), None);
    }
}
