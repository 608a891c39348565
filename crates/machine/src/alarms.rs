//! Alarms of sleeping processes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use elevator::Time;

/// The time at which a process continues. The number keeps the order of alarms at the same time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Alarm {
    at: Time,
    number: u64,
    process: usize,
}

/// Pending alarms.
#[derive(Default)]
pub(crate) struct Alarms {
    /// The first alarm. Often it is the only one, and the heap stays empty.
    first: Option<Alarm>,
    later: BinaryHeap<Reverse<Alarm>>,
    numbers: u64,
}

impl Alarms {
    #[inline]
    pub(crate) fn set(&mut self, at: Time, process: usize) {
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

    /// The time of the first alarm.
    #[inline]
    pub(crate) fn next(&self) -> Option<Time> {
        self.first.map(|alarm| alarm.at)
    }

    /// Removes the first alarm if it is due; returns its process.
    #[inline]
    pub(crate) fn due(&mut self, now: Time) -> Option<usize> {
        let Alarm { process, .. } = self.first.filter(|alarm| alarm.at <= now)?;
        self.first = if self.later.is_empty() { None } else { self.later.pop().map(|Reverse(alarm)| alarm) };
        Some(process)
    }
}

/// The earlier of two times; `None` never comes.
#[inline]
pub(crate) fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        _ => a.or(b),
    }
}
