//! Collects the events of a capture into windows.

use std::collections::BTreeSet;
use std::time::Duration;

use capture::{Arrival, Backend, Batch, Completed, Counts, Source};
use elevator::{Op, Span, Time};
use tuner::{Access, Completion, Measured, Metric, Performance, Tally, Window};

use crate::busy::Busy;
use crate::error::Error;
use crate::fairness_unit::FairnessUnit;

/// A window that took more than this many lengths is discarded: the machine slept or this process was stopped.
const LATE: u32 = 2;

/// A window and its results.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The accesses.
    pub window: Window,
    /// The device's performance.
    pub performance: Performance,
    /// The part of the window with at least one request in flight, 0 to 1.
    pub busy: f64,
    /// The tasks that submitted the requests, if they are known.
    pub tasks: BTreeSet<u32>,
    /// Requests whose arrival was not reported, because the rate was too high or an event was lost. Rates are scaled up by them; patterns may
    /// have gaps.
    pub missed: u64,
    /// The window lasted far too long and must be discarded.
    pub torn: bool,
    /// The window is shorter than the others, because a trial [ended early](tuner::EarlyEnd).
    pub early: bool,
}

impl Seen {
    /// The metric's value in the window, if there is one.
    pub fn measured(&self, metric: Metric) -> Option<Measured> {
        let value = metric.of(&self.performance).filter(|_| self.window.counts())?;
        Some(if metric.is_rate() { Measured::rate(value, self.busy) } else { Measured::throughout(value) })
    }
}

/// Whether a window is lost, by its beginning and the part of the window (0 to 1) that it is.
pub type IsLost<'a> = dyn Fn(&Seen, f64) -> bool + 'a;

/// Collects events into consecutive windows of one length.
pub struct Windower<S> {
    open: Box<dyn FnMut() -> Result<S, capture::Error>>,
    /// `None` on standby.
    source: Option<S>,
    length: Duration,
    batch: Batch,
    /// The source's counters at the end of the previous window.
    counts: Counts,
    start: Option<Time>,
    /// Events reported after the end of the previous window.
    later: Batch,
    parties: FairnessUnit,
    busy: Busy,
}

impl<S: Source> Windower<S> {
    /// Opens the source with `open`, now and again after each [`close`](Self::close).
    ///
    /// # Errors
    /// The source cannot be opened.
    pub fn new(
        mut open: impl FnMut() -> Result<S, capture::Error> + 'static,
        length: Duration,
    ) -> Result<Self, Error> {
        let source = Some(open()?);
        let batch = Batch::default();
        Ok(Self {
            open: Box::new(open),
            source,
            length,
            batch,
            counts: Counts::default(),
            start: None,
            later: Batch::default(),
            parties: FairnessUnit::Processes,
            busy: Busy::default(),
        })
    }

    /// Sets whose shares the fairness metric compares; the default is processes as the source reports them.
    #[must_use]
    pub fn among(self, parties: FairnessUnit) -> Self {
        Self { parties, ..self }
    }

    /// The capture's back end; `None` on standby.
    pub fn backend(&self) -> Option<Backend> {
        self.source.as_ref().map(Source::backend)
    }

    /// The length of a window.
    pub const fn length(&self) -> Duration {
        self.length
    }

    /// Closes the source, so that the device has no overhead. The next window begins when it is requested.
    pub fn close(&mut self) {
        (self.source, self.start, self.counts) = (None, None, Counts::default());
        self.later.clear();
        self.busy.reset();
    }

    /// Watches for one window. `now` returns the time on the source's clock. `going_on` is called about four times a second and ends the wait
    /// early by returning false.
    ///
    /// # Errors
    /// The device was removed, or cannot be watched.
    pub fn next(
        &mut self,
        now: &mut dyn FnMut() -> Time,
        going_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Seen>, Error> {
        self.next_unless(now, going_on, None)
    }

    /// The same, but the window ends early as soon as it is lost.
    pub fn next_unless(
        &mut self,
        now: &mut dyn FnMut() -> Time,
        going_on: &mut dyn FnMut() -> bool,
        is_lost: Option<&IsLost<'_>>,
    ) -> Result<Option<Seen>, Error> {
        const STEP: Duration = Duration::from_millis(250);
        let length = Span::from_nanos(self.length.as_nanos() as u64);
        let source = match &mut self.source {
            Some(source) => source,
            closed => closed.insert((self.open)()?),
        };
        let start = *self.start.get_or_insert_with(&mut *now);
        let end = start + length;
        let mut gathered = Gathered::until(end);
        gathered.take(&mut std::mem::take(&mut self.later), &mut self.parties);
        loop {
            let time = now();
            if time >= end {
                break;
            }
            if !going_on() {
                return Ok(None);
            }
            let left = Duration::from_nanos(end.since(time).as_nanos());
            source.take(&mut self.batch, left.min(STEP))?;
            gathered.take(&mut self.batch, &mut self.parties);
            let Some(is_lost) = is_lost else { continue };
            let time = now().min(end);
            let part = time.since(start).as_secs_f64() / length.as_secs_f64();
            let missed = source.counts()?.missed_since(self.counts);
            if is_lost(&gathered.clone().seen((start, time), missed, &mut self.busy.clone()), part) {
                gathered.end = time;
                break;
            }
        }
        source.take(&mut self.batch, Duration::ZERO)?;
        gathered.take(&mut self.batch, &mut self.parties);
        self.parties.window_over();
        let (early, end) = (gathered.end < end, gathered.end);
        let time = now();
        let torn = time.since(start).as_nanos() > length.as_nanos() * u64::from(LATE);
        let later = std::mem::take(&mut gathered.later);
        // Events of the time between belong to no window.
        (self.start, self.later) = if torn { (Some(time), Batch::default()) } else { (Some(end), later) };
        let counts = source.counts()?;
        let before = std::mem::replace(&mut self.counts, counts);
        let seen = gathered.seen((start, end), counts.missed_since(before), &mut self.busy);
        // A request whose completion was lost would seem to be in flight for long.
        if torn || counts.ends_lost > before.ends_lost {
            self.busy.reset();
        }
        Ok(Some(Seen { torn, early, ..seen }))
    }
}

/// The events of one window. Later ones wait for the next.
#[derive(Clone)]
struct Gathered {
    end: Time,
    accesses: Vec<Access>,
    /// Arrival and completion time of each completed request.
    ended: Vec<(Time, Time)>,
    tally: Tally,
    tasks: BTreeSet<u32>,
    later: Batch,
}

impl Gathered {
    fn until(end: Time) -> Self {
        Self {
            end,
            accesses: Vec::new(),
            ended: Vec::new(),
            tally: Tally::default(),
            tasks: BTreeSet::new(),
            later: Batch::default(),
        }
    }

    /// The window from `start` to `end`, with so many requests that were only counted.
    fn seen(self, (start, end): (Time, Time), missed: u64, busy: &mut Busy) -> Seen {
        let Self { mut accesses, mut ended, mut tally, tasks, .. } = self;
        let length = end.since(start);
        let busy = busy.window((start, end), accesses.iter().map(|access| access.time), &mut ended);
        accesses.sort_by_key(|access| access.time);
        // Rates cover all requests, also those that were only counted.
        let reported = accesses.len().max(1) as f64;
        let all = 1.0 + missed as f64 / reported;
        let mut performance = tally.finish(length);
        performance.bandwidth *= all;
        performance.iops *= all;
        let busy = (all * busy.as_secs_f64() / length.as_secs_f64().max(1e-9)).min(1.0);
        let window = Window { start, length, accesses };
        Seen { window, performance, busy, tasks, missed, torn: false, early: false }
    }

    fn take(&mut self, batch: &mut Batch, parties: &mut FairnessUnit) {
        for arrival in batch.arrivals.drain(..) {
            let Arrival { at: time, start: position, op, sectors: size, .. } = arrival;
            match time < self.end {
                true => {
                    self.tasks.extend(arrival.process.map(|process| process.task));
                    self.accesses.push(Access { time, position, op, size });
                }
                false => self.later.arrivals.push(arrival),
            }
        }
        for completed in batch.completed.drain(..) {
            match completed.at < self.end {
                true => self.count(&completed, parties),
                false => self.later.completed.push(completed),
            }
        }
        batch.clear();
    }

    fn count(&mut self, completed: &Completed, parties: &mut FairnessUnit) {
        let arrival = &completed.arrival;
        self.ended.push((arrival.at, completed.at));
        if completed.failed || arrival.op == Op::Flush {
            return;
        }
        self.tally.add(Completion {
            op: arrival.op,
            sync: arrival.flags.sync,
            size: arrival.sectors,
            latency: completed.latency(),
            party: arrival.process.and_then(|process| parties.of(process)),
        });
    }
}

#[cfg(test)]
mod tests {
    use capture::{Fake, Name};
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

    fn windows_of(source: Fake) -> Windower<Fake> {
        Windower::new(move || Ok(source.clone()), Duration::from_secs(1)).unwrap()
    }

    /// A clock that advances by `step` at each reading.
    fn clock(step: u64) -> impl FnMut() -> Time {
        let mut ms = 0;
        move || {
            ms += step;
            Time::ZERO + Span::from_millis(ms - step)
        }
    }

    #[test]
    fn later_arrivals_belong_to_the_next_window() {
        let batch =
            Batch { arrivals: vec![arrival(10, 0), arrival(990, 8), arrival(1010, 16)], ..Batch::default() };
        let mut windows = windows_of(Fake::new([batch]));
        let mut clock = clock(100);
        let first = windows.next(&mut clock, &mut || true).unwrap().unwrap();
        let second = windows.next(&mut clock, &mut || true).unwrap().unwrap();
        assert_eq!((first.window.accesses.len(), second.window.accesses.len()), (2, 1));
        assert_eq!(second.window.start, first.window.start + Span::from_secs(1));
        assert!(!first.torn && !second.torn);
    }

    #[test]
    fn later_completions_belong_to_the_next_window() {
        let back =
            |ms| Completed { arrival: arrival(10, 0), at: Time::ZERO + Span::from_millis(ms), failed: false };
        let batch = Batch { completed: vec![back(990), back(1010), back(1990)], ..Batch::default() };
        let mut windows = windows_of(Fake::new([batch]));
        let mut clock = clock(100);
        let mut iops = || windows.next(&mut clock, &mut || true).unwrap().unwrap().performance.iops;
        assert_eq!([iops(), iops(), iops()], [1.0, 2.0, 0.0]);
    }

    #[test]
    fn busy_time_is_scaled_up_by_requests_that_were_only_counted() {
        let asked = |from, to| Completed {
            arrival: arrival(from, 0),
            at: Time::ZERO + Span::from_millis(to),
            failed: true,
        };
        let completed = vec![asked(10, 110), asked(400, 500), asked(900, 1200)];
        let arrivals = completed.iter().map(|done| done.arrival).collect();
        let batch = Batch { arrivals, completed, ..Batch::default() };
        let busy = |skipped| {
            let mut windows = windows_of(Fake::new([batch.clone()]).missing(skipped, 0));
            let mut clock = clock(100);
            let mut next = || windows.next(&mut clock, &mut || true).unwrap().unwrap().busy;
            [next(), next()].map(|busy| (busy * 1000.0).round())
        };
        assert_eq!([busy(0), busy(1)], [[300.0, 200.0], [400.0, 200.0]]);
    }

    #[test]
    fn failed_completions_are_not_counted() {
        let of =
            |failed| Completed { arrival: arrival(10, 0), at: Time::ZERO + Span::from_millis(30), failed };
        let batch = Batch { completed: vec![of(false), of(true)], ..Batch::default() };
        let mut windows = windows_of(Fake::new([batch]));
        let seen = windows.next(&mut clock(100), &mut || true).unwrap().unwrap();
        assert_eq!((seen.performance.iops, seen.performance.bandwidth), (1.0, 4096.0));
    }

    #[test]
    fn rates_include_requests_that_were_only_counted() {
        let came =
            Completed { arrival: arrival(10, 0), at: Time::ZERO + Span::from_millis(30), failed: false };
        let batch = Batch { arrivals: vec![came.arrival], completed: vec![came], ..Batch::default() };
        let mut windows = windows_of(Fake::new([batch]).missing(3, 0));
        let seen = windows.next(&mut clock(100), &mut || true).unwrap().unwrap();
        assert_eq!((seen.missed, seen.performance.iops, seen.performance.bandwidth), (3, 4.0, 16384.0));
    }

    #[test]
    fn a_lost_completion_does_not_keep_the_device_busy() {
        let came =
            Completed { arrival: arrival(10, 0), at: Time::ZERO + Span::from_millis(110), failed: false };
        let arrivals = vec![came.arrival, arrival(500, 8)];
        let batch = Batch { arrivals, completed: vec![came], ..Batch::default() };
        let mut windows = windows_of(Fake::new([batch]).missing(0, 2).missing_ends(7));
        let mut clock = clock(100);
        let mut next = || windows.next(&mut clock, &mut || true).unwrap().unwrap();
        let (first, then) = (next(), next());
        assert_eq!((first.missed, first.performance.iops), (2, 2.0));
        assert_eq!((then.missed, then.busy), (0, 0.0));
    }

    #[test]
    fn a_window_over_a_clock_jump_is_discarded() {
        let back =
            |ms| Completed { arrival: arrival(10, 0), at: Time::ZERO + Span::from_millis(ms), failed: false };
        let meanwhile = Batch {
            arrivals: vec![arrival(10, 0), arrival(30_000, 0), arrival(59_000, 8)],
            completed: vec![back(30_000)],
            ..Batch::default()
        };
        let mut windows = windows_of(Fake::new([Batch::default(), meanwhile]).missing(7, 3));
        let mut times = [0, 100, 60_000, 60_000, 60_100, 61_000, 61_000].into_iter();
        let mut clock = || Time::ZERO + Span::from_millis(times.next().unwrap_or(61_000));
        let torn = windows.next(&mut clock, &mut || true).unwrap().unwrap();
        assert!(torn.torn && torn.missed == 10);
        let whole = windows.next(&mut clock, &mut || true).unwrap().unwrap();
        assert!(!whole.torn && whole.missed == 0);
        // Otherwise a minute's load would count as a second's.
        assert_eq!((whole.window.accesses.len(), whole.performance.iops), (0, 0.0));
    }

    #[test]
    fn a_closed_source_is_opened_again_for_the_next_window() {
        let opened = std::rc::Rc::new(std::cell::Cell::new(0));
        let open = {
            let opened = std::rc::Rc::clone(&opened);
            move || {
                opened.set(opened.get() + 1);
                Ok(Fake::new([Batch { arrivals: vec![arrival(5, 0)], ..Batch::default() }]).missing(3, 0))
            }
        };
        let mut windows = Windower::new(open, Duration::from_secs(1)).unwrap();
        let mut clock = clock(100);
        for whole in [1, 2] {
            let seen = windows.next(&mut clock, &mut || true).unwrap().unwrap();
            assert_eq!((opened.get(), seen.window.accesses.len(), seen.missed), (whole, 1, 3));
            windows.close();
            assert!(windows.source.is_none());
            // A minute later.
            (0..600).for_each(|_| _ = clock());
        }
        let third = windows.next(&mut clock, &mut || true).unwrap().unwrap();
        assert!(!third.torn && opened.get() == 3 && third.window.start > Time::ZERO + Span::from_secs(100));
    }

    #[test]
    fn a_lost_window_ends_early_and_the_next_one_begins_there() {
        let done = |ms| Completed {
            arrival: arrival(ms - 5, 0),
            at: Time::ZERO + Span::from_millis(ms),
            failed: false,
        };
        let batch =
            |ms| Batch { arrivals: vec![arrival(ms - 5, 0)], completed: vec![done(ms)], ..Batch::default() };
        let mut windows = windows_of(Fake::new([batch(50), batch(150), batch(250)]));
        let mut clock = clock(50);
        let parts = std::cell::RefCell::new(Vec::new());
        let is_lost = |so_far: &Seen, part: f64| {
            parts.borrow_mut().push((so_far.performance.iops * part).round());
            part >= 0.4
        };
        let first = windows.next_unless(&mut clock, &mut || true, Some(&is_lost)).unwrap().unwrap();
        let second = windows.next(&mut clock, &mut || true).unwrap().unwrap();
        assert!(first.early && !first.torn && !second.early);
        assert!(first.window.length < Span::from_millis(600), "{}", first.window.length);
        assert_eq!(second.window.start, first.window.start + first.window.length);
        assert_eq!(second.window.length, Span::from_secs(1));
        let parts = parts.into_inner();
        assert!(parts.is_sorted() && *parts.last().unwrap() >= 2.0, "completions so far: {parts:?}");
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let mut windows = windows_of(Fake::default());
        assert!(windows.next(&mut clock(1), &mut || false).unwrap().is_none());
    }
}
