//! The earliest times of one process: its think times and transfers, in its own order.
//!
//! The times follow from the program's steps alone, not from the times of completions, so that they are the same under each scheduler.

use elevator::{Op, Span, Time};

use crate::program::{Await, Io};

/// Above this number of unfinished submissions, a process is not known to have waited for all until it waits for all at once.
const OPEN_MAX: usize = 1 << 16;

/// The interface between host and device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interface {
    /// Picoseconds of a sector that is read, and of one that is written.
    pub(crate) picos: [u64; 2],
    /// Reads and writes are transferred at the same time.
    pub(crate) full_duplex: bool,
    /// Sectors of the device: requests beyond its end fail without a transfer.
    pub(crate) capacity: u64,
    /// Sectors behind a request that may be in the buffer because of it, if known.
    pub(crate) reach: Option<u64>,
}

/// Transfers take no time.
impl Default for Interface {
    fn default() -> Self {
        Self { picos: [0; 2], full_duplex: false, capacity: u64::MAX, reach: None }
    }
}

impl Interface {
    /// Whether a request is transferred.
    pub(super) fn transfers(&self, io: &Io) -> bool {
        let end = io.start.0.checked_add(io.sectors.0.into());
        matches!(io.op, Op::Read | Op::Write) && end.is_some_and(|end| end <= self.capacity)
    }

    /// The least time for this number of sectors read and written.
    pub(super) fn time(&self, sectors: [u64; 2]) -> Span {
        let [reads, writes] = [0, 1].map(|n| u128::from(sectors[n]) * u128::from(self.picos[n]));
        let picos = if self.full_duplex { reads.max(writes) } else { reads + writes };
        Span::from_nanos(u64::try_from(picos / 1000).unwrap_or(u64::MAX))
    }
}

/// Lower bounds of a process's progress on one clock.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    now: Time,
    /// When the first request of the present batch is submitted.
    began: Time,
    /// The latest completion.
    last: Time,
}

impl Clock {
    fn pass(&mut self, span: Span) {
        self.now += span;
    }

    fn reach(&mut self, at: Time) {
        self.now = self.now.max(at);
    }

    fn submit(&mut self, is_first: bool) {
        if is_first {
            self.began = self.now;
        }
        self.last = self.last.max(self.now);
    }

    /// The present batch has completed.
    fn end_batch(&mut self, transfer: Span) {
        let end = self.began + transfer;
        self.reach(end);
        self.last = self.last.max(end);
    }
}

/// The earliest times of one process.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    /// Since the machine's start.
    absolute: Clock,
    /// Since the process's start.
    own: Clock,
    /// Without sleeps until a given time: the difference of two of its times is a lower bound of the time between them.
    busy: Clock,
    /// Another process started this one, so its start depends on the scheduler.
    is_child: bool,
    /// Requests of the present batch, and sectors read and written: those since the process was known to have none in flight.
    requests: u64,
    sectors: [u64; 2],
    /// Submissions that the process has not waited for.
    open: Vec<u64>,
    /// Which submissions are in flight depends on the scheduler, until the process waits for all.
    is_vague: bool,
    /// The latest end of a child, and whether the process waits for its children before the next step.
    children_ended: Time,
    joins: bool,
}

impl Chain {
    /// The first process of a line of descent starts at zero, a child not before its parent has come to that step.
    pub(super) fn child(parent: &mut Self) -> Self {
        let absolute = Clock { now: parent.now(), ..Clock::default() };
        Self { absolute, is_child: true, ..Self::default() }
    }

    /// The earliest time of the next step, or of the end.
    pub(super) fn now(&mut self) -> Time {
        if std::mem::take(&mut self.joins) {
            self.absolute.reach(self.children_ended);
        }
        self.absolute.now
    }

    pub(super) fn think(&mut self, span: Span) {
        self.now();
        self.clocks().for_each(|clock| clock.pass(span));
    }

    pub(super) fn sleep_until(&mut self, at: Time) {
        self.now();
        self.absolute.reach(at);
        if !self.is_child {
            self.own.reach(at);
        }
    }

    /// Returns the earliest time of the submission.
    pub(super) fn submit(&mut self, number: u64, io: &Io, interface: &Interface) -> Time {
        let now = self.now();
        let is_first = self.requests == 0;
        self.clocks().for_each(|clock| clock.submit(is_first));
        self.requests += 1;
        if interface.transfers(io) {
            self.sectors[io.op.direction() as usize] += u64::from(io.sectors.0);
        }
        if self.open.len() >= OPEN_MAX {
            self.be_vague();
        } else if !self.is_vague {
            self.open.push(number);
        }
        now
    }

    fn clocks(&mut self) -> impl Iterator<Item = &mut Clock> {
        [&mut self.absolute, &mut self.own, &mut self.busy].into_iter()
    }

    /// The time of the next step by the clock without sleeps.
    pub(super) fn busy(&self) -> Span {
        self.busy.now.since(Time::ZERO)
    }

    /// Requests since the process was known to have none in flight.
    pub(super) fn in_flight(&self) -> u64 {
        self.requests
    }

    fn be_vague(&mut self) {
        (self.is_vague, self.open) = (true, Vec::new());
    }

    /// Returns whether the process is known to have no request in flight afterwards.
    pub(super) fn wait(&mut self, what: Await, interface: &Interface) -> bool {
        let has_none = match what {
            Await::All | Await::Fewer(0 | 1) => true,
            Await::Fewer(_) => {
                self.be_vague();
                false
            }
            Await::Io(number) => {
                if let Some(at) = self.open.iter().position(|&open| open == number) {
                    self.open.swap_remove(at);
                }
                !self.is_vague && self.open.is_empty()
            }
        };
        if has_none {
            self.open.clear();
            self.is_vague = false;
            self.end_batch(interface);
        }
        has_none
    }

    fn end_batch(&mut self, interface: &Interface) {
        if std::mem::take(&mut self.requests) > 0 {
            let transfer = interface.time(std::mem::take(&mut self.sectors));
            self.clocks().for_each(|clock| clock.end_batch(transfer));
        }
    }

    /// The process waits for its children.
    pub(super) fn join(&mut self) {
        self.joins = true;
    }

    /// A child has come to its end.
    pub(super) fn child_ended(&mut self, at: Time) {
        self.children_ended = self.children_ended.max(at);
    }

    /// The least time of the process's last completion, since the machine's start, since its own, and by the clock without sleeps.
    pub(super) fn least(mut self, interface: &Interface) -> [Span; 3] {
        self.end_batch(interface);
        [self.absolute.last, self.own.last, self.busy.last].map(|last| last.since(Time::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use elevator::{Sector, Sectors};

    use super::*;

    const INTERFACE: Interface =
        Interface { picos: [1000, 2000], full_duplex: false, capacity: 1000, reach: None };

    fn read(sectors: u32) -> Io {
        Io::read(Sector(0), Sectors(sectors))
    }

    fn nanos(chain: Chain) -> [u64; 2] {
        let [absolute, own, _] = chain.least(&INTERFACE).map(Span::as_nanos);
        [absolute, own]
    }

    #[test]
    fn think_times_and_transfers_of_a_waiting_process_add_up() {
        let mut chain = Chain::default();
        for number in 0..3 {
            chain.think(Span::from_nanos(100));
            chain.submit(number, &read(8), &INTERFACE);
            chain.wait(Await::Io(number), &INTERFACE);
        }
        chain.think(Span::from_nanos(9999));
        assert_eq!(nanos(chain), [324, 324], "think time after the last request does not count");
    }

    #[test]
    fn think_time_while_requests_are_in_flight_counts_if_it_is_longer() {
        for (think, least) in [(5, 16), (50, 50)] {
            let mut chain = Chain::default();
            chain.submit(0, &read(8), &INTERFACE);
            chain.think(Span::from_nanos(think));
            chain.submit(1, &read(8), &INTERFACE);
            chain.wait(Await::Io(1), &INTERFACE);
            chain.wait(Await::Io(0), &INTERFACE);
            assert_eq!(nanos(chain)[0], least);
        }
    }

    #[test]
    fn a_child_starts_after_its_parents_steps_and_its_end_delays_the_parent() {
        let mut parent = Chain::default();
        parent.think(Span::from_nanos(70));
        let mut child = Chain::child(&mut parent);
        child.sleep_until(Time::from_nanos(100));
        child.submit(0, &read(10), &INTERFACE);
        child.wait(Await::All, &INTERFACE);
        parent.join();
        parent.child_ended(child.now());
        assert_eq!(nanos(child), [110, 10], "its start, and so its sleep, depends on the scheduler");
        parent.submit(0, &read(1), &INTERFACE);
        assert_eq!(nanos(parent)[0], 111);
    }

    #[test]
    fn requests_beyond_the_end_and_flushes_take_no_time() {
        let mut chain = Chain::default();
        chain.submit(0, &Io { start: Sector(999), ..read(2) }, &INTERFACE);
        chain.submit(1, &Io { op: Op::Flush, ..read(0) }, &INTERFACE);
        chain.submit(2, &Io { op: Op::Write, ..read(3) }, &INTERFACE);
        assert_eq!(nanos(chain)[0], 6);
    }
}
