//! What will happen in the drive and when.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use elevator::{Span, Time};

/// Something that happens at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Event {
    /// The controller has read a command.
    Arrived(u32),
    /// A write's data is in.
    Received(u32),
    /// A die has finished what it was doing in that generation of its work; stale if it was suspended since.
    Die(u32, u32),
    /// A channel has finished its transfer.
    Channel(u32),
    /// The host hears of a command's end.
    Done(u32),
}

/// Events in order of time; those of one time in the order in which they were noted.
///
/// The controller takes commands in order and the interface sends data in order, so that arrivals and ends are noted
/// in order of time: they need no heap, which is most of what a read costs.
#[derive(Clone, Debug, Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Reverse<Entry>>,
    lanes: [VecDeque<Entry>; 2],
    noted: u64,
}

type Entry = (Time, u64, Event);

impl EventQueue {
    pub(super) fn push(&mut self, at: Time, event: Event) {
        let entry = (at, self.noted, event);
        self.noted += 1;
        let lane = match event {
            Event::Arrived(_) => &mut self.lanes[0],
            Event::Done(_) => &mut self.lanes[1],
            _ => return self.heap.push(Reverse(entry)),
        };
        debug_assert!(lane.back().is_none_or(|last| *last <= entry), "noted in order of time");
        lane.push_back(entry);
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.first().map(|(at, ..)| *at)
    }

    fn first(&self) -> Option<&Entry> {
        let lanes = self.lanes.iter().filter_map(VecDeque::front);
        lanes.chain(self.heap.peek().map(|Reverse(entry)| entry)).min()
    }

    /// The next event at `now` or before.
    pub(super) fn take(&mut self, now: Time) -> Option<(Time, Event)> {
        let (at, _, event) = *self.first().filter(|(at, ..)| *at <= now)?;
        match event {
            Event::Arrived(_) => drop(self.lanes[0].pop_front()),
            Event::Done(_) => drop(self.lanes[1].pop_front()),
            _ => drop(self.heap.pop()),
        }
        Some((at, event))
    }
}

/// The time that `bytes` take at a rate in units of 10^6 bytes a second.
pub(super) fn moving(bytes: u64, megabytes_per_second: u64) -> Span {
    Span::from_nanos((bytes * 1000).div_ceil(megabytes_per_second))
}
