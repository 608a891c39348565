//! A RAID controller that presents several drives as one device.
//!
//! In md each member has a queue and a scheduler of its own. A hardware RAID controller presents one device with one scheduler above
//! it, and divides commands into parts that wait for their member in order of arrival. The model has no cache and does not reorder.

use std::collections::VecDeque;

use elevator::{Op, Outcome, Positioning, Sector, Sectors, Time};

use super::Geometry;
use crate::{Command, Completion, Drive, Service, Tag};

/// Drives striped behind a controller.
pub struct Striped {
    geometry: Geometry,
    members: Vec<Member>,
    /// By the host's tag.
    commands: Vec<Parts>,
    done: VecDeque<Completion>,
}

/// A drive and the parts that wait for it.
struct Member {
    drive: Box<dyn Drive>,
    /// Unused tags of the drive, and for each used tag the host's command.
    free: Vec<Tag>,
    part_of: Vec<Tag>,
    waiting: VecDeque<Command>,
}

/// The state of a command.
#[derive(Clone, Copy)]
struct Parts {
    left: u32,
    failed: bool,
}

impl Member {
    fn new(drive: Box<dyn Drive>) -> Self {
        let depth = drive.depth();
        let free = (0..depth).rev().map(Tag).collect();
        Self { drive, free, part_of: vec![Tag(0); depth as usize], waiting: VecDeque::new() }
    }

    fn pump(&mut self, now: Time) {
        while let Some(&Tag(tag)) = self.free.last().filter(|_| !self.waiting.is_empty()) {
            let Some(part) = self.waiting.pop_front() else { return };
            self.free.pop();
            self.part_of[tag as usize] = part.tag;
            self.drive.submit(now, Command { tag: Tag(tag), ..part });
        }
    }
}

impl Striped {
    /// `drives` with a layout without parity, behind a controller that accepts `depth` commands; at least 1.
    ///
    /// # Panics
    /// If the number of drives differs from the number of data members.
    #[must_use]
    pub fn new(geometry: Geometry, drives: Vec<Box<dyn Drive>>, depth: u32) -> Self {
        assert_eq!(drives.len(), geometry.data_members() as usize, "a stripe over all members");
        let members = drives.into_iter().map(Member::new).collect();
        let commands = vec![Parts { left: 0, failed: false }; depth.max(1) as usize];
        Self { geometry, members, commands, done: VecDeque::new() }
    }

    /// Collects completions from the drives, and submits waiting parts.
    fn collect(&mut self, now: Time) {
        let mut finished: Vec<(Tag, Completion)> = Vec::new();
        loop {
            let before = finished.len();
            for member in &mut self.members {
                while let Some(completion) = member.drive.poll(now) {
                    finished.push((member.part_of[completion.tag.0 as usize], completion));
                    member.free.push(completion.tag);
                }
                member.pump(now);
            }
            if finished.len() == before {
                break;
            }
        }
        finished.sort_by_key(|(_, completion)| completion.at);
        for (tag, completion) in finished {
            self.part_done(tag, completion);
        }
    }

    fn part_done(&mut self, tag: Tag, completion: Completion) {
        let parts = &mut self.commands[tag.0 as usize];
        parts.left -= 1;
        parts.failed |= completion.outcome != Outcome::Done;
        if parts.left == 0 {
            let outcome = if parts.failed { Outcome::Failed } else { Outcome::Done };
            self.done.push_back(Completion { tag, outcome, ..completion });
        }
    }
}

impl Drive for Striped {
    fn capacity(&self) -> Sector {
        self.geometry.capacity()
    }

    fn depth(&self) -> u32 {
        self.commands.len() as u32
    }

    fn submit(&mut self, now: Time, command: Command) {
        if command.op != Op::Flush && command.start + command.sectors > self.capacity() {
            self.collect(now);
            let service = Service { started: now, ..Service::default() };
            self.done.push_back(Completion { tag: command.tag, at: now, outcome: Outcome::Failed, service });
            return;
        }
        let mut left = 0;
        let mut give = |member: &mut Member, start: Sector, sectors: Sectors| {
            member.waiting.push_back(Command { start, sectors, ..command });
            left += 1;
        };
        if command.op == Op::Flush {
            self.members.iter_mut().for_each(|member| give(member, command.start, command.sectors));
        } else {
            for piece in self.geometry.pieces(command.start, command.sectors) {
                give(&mut self.members[piece.place.member as usize], piece.place.sector, piece.sectors);
            }
        }
        self.commands[command.tag.0 as usize] = Parts { left, failed: false };
        self.members.iter_mut().for_each(|member| member.pump(now));
    }

    fn next_event(&self) -> Option<Time> {
        let done = self.done.front().map(|completion| completion.at);
        done.into_iter().chain(self.members.iter().filter_map(|member| member.drive.next_event())).min()
    }

    fn poll(&mut self, now: Time) -> Option<Completion> {
        if self.done.is_empty() {
            self.collect(now);
        }
        self.done.pop_front()
    }

    fn positioning(&self) -> Option<&dyn Positioning> {
        None
    }
}

#[cfg(test)]
mod tests {
    use elevator::Span;

    use super::*;
    use crate::array::ArrayDescription;
    use crate::catalogue;

    fn card(depth: u32) -> Striped {
        let one = catalogue::describe("wd5000aaks", &mut |_| unreachable!("built in")).unwrap();
        let shape = ArrayDescription::parse("raid0:4x64k").unwrap().geometry(one.capacity().unwrap());
        let drives = (0..4).map(|_| one.build().unwrap() as Box<dyn Drive>).collect();
        Striped::new(shape, drives, depth)
    }

    fn read(tag: u32, start: u64, sectors: u32) -> Command {
        Command { tag: Tag(tag), op: Op::Read, start: Sector(start), sectors: Sectors(sectors), fua: false }
    }

    /// All completions, in order.
    fn run(card: &mut Striped) -> Vec<Completion> {
        let mut done = Vec::new();
        while let Some(at) = card.next_event() {
            done.extend(std::iter::from_fn(|| card.poll(at)));
        }
        done
    }

    #[test]
    fn every_command_completes_once_and_in_order_of_time() {
        let mut card = card(200);
        for tag in 0..200 {
            let start = u64::from(tag) * 7_919_113 % (card.capacity().0 - 2000);
            card.submit(Time::ZERO, read(tag, start, 1 + tag * 7 % 900));
        }
        let done = run(&mut card);
        assert!(done.is_sorted_by_key(|completion| completion.at));
        let mut tags: Vec<u32> = done.iter().map(|completion| completion.tag.0).collect();
        tags.sort_unstable();
        assert_eq!(tags, (0..200).collect::<Vec<_>>());
        assert!(done.iter().all(|completion| completion.outcome == Outcome::Done));
    }

    #[test]
    fn a_long_read_moves_all_members_at_once() {
        let long = |sectors| {
            let mut card = card(1);
            card.submit(Time::ZERO, read(0, 0, sectors));
            run(&mut card)[0].at.as_nanos()
        };
        let (one, four) = (long(128 * 64), long(128 * 64 * 4));
        assert!(four > one * 2 && four < one * 6, "four times the data: {one} and {four}");
        let mut single =
            catalogue::describe("wd5000aaks", &mut |_| unreachable!("built in")).unwrap().build().unwrap();
        single.submit(Time::ZERO, read(0, 0, 128 * 64 * 4));
        let alone = single.next_event().into_iter().chain(std::iter::from_fn(|| {
            let at = single.next_event()?;
            single.poll(at).is_none().then_some(at)
        }));
        let alone = alone.last().unwrap().as_nanos();
        assert!(four * 2 < alone, "one drive alone takes {alone}, four {four}");
    }

    #[test]
    fn a_failure_does_not_overtake_earlier_completions() {
        let mut card = card(2);
        card.submit(Time::ZERO, read(0, 0, 8));
        let later = Time::ZERO + Span::from_secs(1);
        card.submit(later, read(1, card.capacity().0, 8));
        let done: Vec<_> = std::iter::from_fn(|| card.poll(later)).collect();
        assert_eq!(done.iter().map(|completion| completion.tag.0).collect::<Vec<_>>(), [0, 1]);
        assert!(done[0].at < done[1].at);
    }

    #[test]
    fn a_flush_goes_to_every_member_and_a_command_beyond_the_end_fails() {
        let mut card = card(2);
        let flush = Command { op: Op::Flush, sectors: Sectors::ZERO, ..read(0, 0, 0) };
        card.submit(Time::ZERO, flush);
        card.submit(Time::ZERO, read(1, card.capacity().0, 8));
        let done = run(&mut card);
        let outcome = |tag| done.iter().find(|completion| completion.tag == Tag(tag)).unwrap().outcome;
        assert_eq!((done.len(), outcome(0), outcome(1)), (2, Outcome::Done, Outcome::Failed));
    }
}
