//! What will happen in the drive and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
#[derive(Clone, Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<(Time, u64, Event)>>,
    noted: u64,
}

impl Agenda {
    pub(super) fn note(&mut self, at: Time, event: Event) {
        self.heap.push(Reverse((at, self.noted, event)));
        self.noted += 1;
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next event at `now` or before.
    pub(super) fn take(&mut self, now: Time) -> Option<(Time, Event)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}

/// The time that `bytes` take at a rate in units of 10^6 bytes a second.
pub(super) fn moving(bytes: u64, megabytes_per_second: u64) -> Span {
    Span::from_nanos((bytes * 1000).div_ceil(megabytes_per_second))
}
