//! A card or bus that drives share, with a rate of its own.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use elevator::{Op, Sectors, Span, Time};

use crate::drive::delegate;
use crate::{Command, Completion, Drive, Tag};

/// What passes between the drives and the host, one byte after the other.
///
/// A transfer overlaps the drive's own: alone on the link it ends when the drive is done, and only when the link is busy
/// with others' data does it end later. Data counts when its drive is done with it, writes as well as reads.
#[derive(Clone, Debug)]
pub struct Link {
    bytes_per_second: u64,
    free: Time,
}

impl Link {
    /// An idle link of that rate in bytes a second; at least 1.
    #[must_use]
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1), free: Time::ZERO }
    }

    /// When that much data, of which the drive is done at `at`, has passed.
    pub fn pass(&mut self, at: Time, sectors: Sectors) -> Time {
        let nanos = u128::from(sectors.bytes()) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let takes = Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let begun = Time::from_nanos(at.as_nanos().saturating_sub(takes.as_nanos()));
        self.free = self.free.max(begun) + takes;
        self.free.max(at)
    }
}

/// A drive behind a link that it shares.
pub struct Linked {
    drive: Box<dyn Drive>,
    link: Rc<RefCell<Link>>,
    /// Length of each command's data, by tag.
    lengths: Vec<Sectors>,
    /// What the drive is done with and the link is not, in order of in_transit.
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
