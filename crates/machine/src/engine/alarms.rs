//! When sleeping processes go on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use elevator::Time;

/// When which process goes on; the number keeps ties in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Alarm {
    at: Time,
    number: u64,
    process: usize,
}

/// Every alarm that is set.
#[derive(Default)]
pub(super) struct Alarms {
    /// The first to go off. Often it is the only one, and takes no heap.
    first: Option<Alarm>,
    later: BinaryHeap<Reverse<Alarm>>,
    numbers: u64,
}

impl Alarms {
    #[inline]
    pub(super) fn set(&mut self, at: Time, process: usize) {
        self.numbers += 1;
        let alarm = Alarm { at, number: self.numbers, process };
        match self.first {
            None => self.first = Some(alarm),
            Some(first) => {
                self.first = Some(first.min(alarm));
                self.later.push(Reverse(first.max(alarm)));
            }
        }
    }

    /// When the first goes off.
    #[inline]
    pub(super) fn next(&self) -> Option<Time> {
        self.first.map(|alarm| alarm.at)
    }

    /// The process whose alarm goes off first, if that is by now.
    #[inline]
    pub(super) fn due(&mut self, now: Time) -> Option<usize> {
        let Alarm { process, .. } = self.first.filter(|alarm| alarm.at <= now)?;
        self.first = if self.later.is_empty() { None } else { self.later.pop().map(|Reverse(alarm)| alarm) };
        Some(process)
    }
}
