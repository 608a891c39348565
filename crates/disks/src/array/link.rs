//! A controller or bus that several drives share, with a limited rate.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use elevator::{Op, Sectors, Span, Time};

use crate::drive::delegate;
use crate::{Command, Completion, Drive, Tag};

/// The path from the drives to the host; it carries one transfer at a time.
///
/// A transfer over the link overlaps with the drive's own transfer: on an idle link it ends when the drive's does, on a busy link
/// later. Reads and writes are counted when their drive completes them.
#[derive(Clone, Debug)]
pub struct Link {
    bytes_per_second: u64,
    free: Time,
}

impl Link {
    /// An idle link with a rate in bytes per second; at least 1.
    #[must_use]
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1), free: Time::ZERO }
    }

    /// When the data of a command that its drive completes at `at` has crossed the link.
    pub fn pass(&mut self, at: Time, sectors: Sectors) -> Time {
        let nanos = u128::from(sectors.bytes()) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let takes = Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let begun = Time::from_nanos(at.as_nanos().saturating_sub(takes.as_nanos()));
        self.free = self.free.max(begun) + takes;
        self.free.max(at)
    }
}

/// A drive behind a shared link.
pub struct Linked {
    drive: Box<dyn Drive>,
    link: Rc<RefCell<Link>>,
    /// Length of each command's data, by tag.
    lengths: Vec<Sectors>,
    /// Commands that the drive has completed and whose data is still on the link, in order.
    in_transit: VecDeque<Completion>,
}

impl Linked {
    /// `drive` behind `link`.
    #[must_use]
    pub fn new(drive: Box<dyn Drive>, link: Rc<RefCell<Link>>) -> Self {
        let lengths = vec![Sectors::ZERO; drive.depth() as usize];
        Self { drive, link, lengths, in_transit: VecDeque::new() }
    }
}

impl Drive for Linked {
    delegate!(capacity, depth, positioning, ideal, travel);

    fn submit(&mut self, now: Time, command: Command) {
        let Tag(tag) = command.tag;
        let has_data = matches!(command.op, Op::Read | Op::Write);
        self.lengths[tag as usize] = if has_data { command.sectors } else { Sectors::ZERO };
        self.drive.submit(now, command);
    }

    fn next_event(&self) -> Option<Time> {
        let passed = self.in_transit.front().map(|completion| completion.at);
        passed.into_iter().chain(self.drive.next_event()).min()
    }

    fn poll(&mut self, now: Time) -> Option<Completion> {
        while let Some(completion) = self.drive.poll(now) {
            let Tag(tag) = completion.tag;
            let at = self.link.borrow_mut().pass(completion.at, self.lengths[tag as usize]);
            self.in_transit.push_back(Completion { at, ..completion });
        }
        let is_through = self.in_transit.front().is_some_and(|first| first.at <= now);
        is_through.then(|| self.in_transit.pop_front()).flatten()
    }
}
