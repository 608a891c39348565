//! The drive's future events.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use elevator::{Span, Time};

/// An event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Event {
    /// The controller has accepted a command.
    Arrived(u32),
    /// A write's data has been received.
    Received(u32),
    /// A die has finished its operation of that generation; obsolete if the operation was suspended.
    Die(u32, u32),
    /// A channel has finished its transfer.
    Channel(u32),
    /// A command has completed.
    Done(u32),
}

/// Events in order of time; those of equal time in the order of insertion.
///
/// Arrivals and completions are inserted in order of time, because the controller and the interface work in order. They need no
/// heap, which would dominate the cost of a read.
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
        debug_assert!(lane.back().is_none_or(|last| *last <= entry), "inserted in order of time");
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

/// Transfer time of `bytes` at a rate in 10^6 bytes per second.
pub(super) fn moving(bytes: u64, megabytes_per_second: u64) -> Span {
    Span::from_nanos((bytes * 1000).div_ceil(megabytes_per_second))
}
