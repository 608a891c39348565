//! From what a source reports to the analyser's windows.

use std::collections::VecDeque;
use std::time::Duration;

use capture::{Batch, Source};
use elevator::{Op, Span, Time};
use tuner::{Access, Completion, Performance, Tally, Window};

use crate::error::Error;

/// A window that took more than so many of its lengths was not watched through: the machine slept, or this process was
/// stopped.
const LATE: u32 = 2;

/// What was seen in a window.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What was asked.
    pub window: Window,
    /// How it went.
    pub performance: Performance,
    /// Requests that were not reported, so that patterns may be torn: above the rate at which every one is, or lost.
    pub missed: u64,
    /// It lasted much longer than it should have, so it says nothing.
    pub torn: bool,
}

/// Gathers what a source reports into windows of one length that follow one another.
pub struct Windower<S> {
    source: S,
    length: Duration,
    batch: Batch,
    missed: u64,
    start: Option<Time>,
    later: VecDeque<Access>,
}

impl<S: Source> Windower<S> {
    /// Windows of `length`.
    #[must_use]
    pub fn new(source: S, length: Duration) -> Self {
        Self { source, length, batch: Batch::default(), missed: 0, start: None, later: VecDeque::new() }
    }

    /// Watches for one window. `now` tells the time that the source stamps with; `going_on` is asked about four times a second,
    /// and ends the wait early if it says no.
    ///
    /// # Errors
    /// The device is gone, or can no longer be watched.
    pub fn next(
        &mut self,
        now: &mut dyn FnMut() -> Time,
        going_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Seen>, Error> {
        const STEP: Duration = Duration::from_millis(250);
        let length = Span::from_nanos(self.length.as_nanos() as u64);
        let start = *self.start.get_or_insert_with(&mut *now);
        let end = start + length;
        let (mut accesses, mut tally) = (Vec::new(), Tally::default());
        accesses.extend(std::mem::take(&mut self.later));
        loop {
            let time = now();
            if time >= end {
                break;
            }
            if !going_on() {
                return Ok(None);
            }
            let left = Duration::from_nanos(end.since(time).as_nanos());
            self.source.take(&mut self.batch, left.min(STEP))?;
            self.sort(&mut accesses, &mut tally, end);
        }
        self.source.take(&mut self.batch, Duration::ZERO)?;
        self.sort(&mut accesses, &mut tally, end);
        let time = now();
        let torn = time.since(start).as_nanos() > length.as_nanos() * u64::from(LATE);
        self.start = Some(if torn { time } else { end });
        let counts = self.source.counts()?;
        let missed = counts.skipped + counts.lost;
        let missed = missed - std::mem::replace(&mut self.missed, missed);
        accesses.sort_by_key(|access| access.time);
        // Rates are of all requests, also of those that were only counted.
        let reported = accesses.len().max(1) as f64;
        let all = 1.0 + missed as f64 / reported;
        let mut performance = tally.finish(length);
        performance.bandwidth *= all;
        performance.iops *= all;
        let window = Window { start, length, accesses };
        Ok(Some(Seen { window, performance, missed, torn }))
    }

    fn sort(&mut self, accesses: &mut Vec<Access>, tally: &mut Tally, end: Time) {
        for arrival in &self.batch.arrivals {
            let access =
                Access { time: arrival.at, position: arrival.start, op: arrival.op, size: arrival.sectors };
            if arrival.at < end { accesses.push(access) } else { self.later.push_back(access) }
        }
        for completed in self.batch.completed.iter().filter(|c| !c.failed && c.arrival.op != Op::Flush) {
            let arrival = &completed.arrival;
            tally.add(Completion {
                op: arrival.op,
                sync: arrival.flags.sync,
                size: arrival.sectors,
                latency: completed.latency(),
                party: arrival.process.map(|process| u64::from(process.group)),
            });
        }
        self.batch.clear();
    }
}

#[cfg(test)]
mod tests {
    use capture::{Arrival, Completed, Fake, Name};
    use elevator::{Flags, Sector, Sectors};

    use super::*;

    fn arrival(ms: u64, start: u64) -> Arrival {
        Arrival {
            at: Time::ZERO + Span::from_millis(ms),
            op: Op::Read,
            start: Sector(start),
            sectors: Sectors(8),
            flags: Flags::default(),
            priority: None,
            process: None,
            name: Name::default(),
        }
    }

    /// A clock that goes on by `step` each time it is looked at.
    fn clock(step: u64) -> impl FnMut() -> Time {
        let mut ms = 0;
        move || {
            ms += step;
            Time::ZERO + Span::from_millis(ms - step)
        }
    }

    #[test]
    fn what_comes_after_the_end_belongs_to_the_next_window() {
        let batch =
            Batch { arrivals: vec![arrival(10, 0), arrival(990, 8), arrival(1010, 16)], ..Batch::default() };
        let mut windows = Windower::new(Fake::new([batch]), Duration::from_secs(1));
        let mut clock = clock(100);
        let first = windows.next(&mut clock, &mut || true).unwrap().unwrap();
        let second = windows.next(&mut clock, &mut || true).unwrap().unwrap();
        assert_eq!((first.window.accesses.len(), second.window.accesses.len()), (2, 1));
        assert_eq!(second.window.start, first.window.start + Span::from_secs(1));
        assert!(!first.torn && !second.torn);
    }

    #[test]
    fn completions_are_counted_and_failed_ones_are_not() {
        let of =
            |failed| Completed { arrival: arrival(10, 0), at: Time::ZERO + Span::from_millis(30), failed };
        let batch = Batch { completed: vec![of(false), of(true)], ..Batch::default() };
        let mut windows = Windower::new(Fake::new([batch]), Duration::from_secs(1));
        let seen = windows.next(&mut clock(100), &mut || true).unwrap().unwrap();
        assert_eq!((seen.performance.iops, seen.performance.bandwidth), (1.0, 4096.0));
    }

    #[test]
    fn rates_are_of_all_requests_also_of_those_only_counted() {
        let came =
            Completed { arrival: arrival(10, 0), at: Time::ZERO + Span::from_millis(30), failed: false };
        let batch = Batch { arrivals: vec![came.arrival], completed: vec![came], ..Batch::default() };
        let mut windows = Windower::new(Fake::new([batch]).missing(3, 0), Duration::from_secs(1));
        let seen = windows.next(&mut clock(100), &mut || true).unwrap().unwrap();
        assert_eq!((seen.missed, seen.performance.iops, seen.performance.bandwidth), (3, 4.0, 16384.0));
    }

    #[test]
    fn a_clock_that_jumps_tears_the_window_and_the_next_is_whole() {
        let mut windows = Windower::new(Fake::default().missing(7, 3), Duration::from_secs(1));
        let mut times = [0, 100, 60_000, 60_000, 60_100, 61_000, 61_000].into_iter();
        let mut clock = || Time::ZERO + Span::from_millis(times.next().unwrap_or(61_000));
        let torn = windows.next(&mut clock, &mut || true).unwrap().unwrap();
        assert!(torn.torn && torn.missed == 10);
        let whole = windows.next(&mut clock, &mut || true).unwrap().unwrap();
        assert!(!whole.torn && whole.missed == 0);
    }

    #[test]
    fn the_wait_ends_when_it_should() {
        let mut windows = Windower::new(Fake::default(), Duration::from_secs(1));
        assert!(windows.next(&mut clock(1), &mut || false).unwrap().is_none());
    }
}
